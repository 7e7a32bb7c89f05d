"""One call while it is written: its text in, its events and its verdict out.

The order of events is that of ``events``; the verdicts are invariants 8 to 10. A call is complete
only when the provider has closed it and its JSON is whole. A call without any text cannot say
itself whether it was cut, so its verdict waits until the stop reason is known.
"""

from math import isinf
from typing import Any

from argstream.assembly._conclusion import Conclusion
from argstream.assembly._court import Court, Hearing, located, read_until, seen
from argstream.assembly._fault import Fault, contradiction, fault_of
from argstream.assembly._json_writer import JsonWriter, UnwritableError, dumps
from argstream.assembly._quirks import TextQuirk, make_quirks
from argstream.assembly._reading import Reading
from argstream.assembly._surrogates import SurrogateMender, mended
from argstream.assembly.call import Call
from argstream.deltas import FREE_TEXT_KINDS, RUN_BY_PROVIDER, Ending
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentsError,
    ArgumentStarted,
    Event,
    InvalidVerdict,
    StreamFailed,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallStarted,
)
from argstream.history import CallPart, Item, Verdict
from argstream.jsonstream import Done, Fragment, Invalid, JsonPath, Limits, Parser, Start, Text
from argstream.jsonstream.limits import DEFAULT_LIMITS
from argstream.judging import Refusal

__all__ = ["CallMachine"]


class CallMachine:
    """The machine that writes to one ``Call``."""

    __slots__ = (
        "_court",
        "_has_told_late",
        "_hearing",
        "_is_json",
        "_limits",
        "_mender",
        "_open_leaf",
        "_quirks",
        "_reading",
        "_restated",
        "_writer",
        "call",
        "closed",
        "has_result",
        "item",
    )

    def __init__(
        self, call: Call, limits: Limits | None, quirks: list[TextQuirk], court: Court
    ) -> None:
        self.call = call
        self._court = court
        self._hearing = Hearing(call, court)
        self.closed = False
        """Whether the provider has said that nothing more comes."""
        self.has_result = False
        """Whether the provider has said what came of it."""
        self.item: Item | None = None
        self._limits = limits or DEFAULT_LIMITS
        self._is_json = call.kind not in FREE_TEXT_KINDS
        self._reading = Reading(call, self._limits)
        self._mender = SurrogateMender()
        self._quirks = quirks
        self._writer: JsonWriter | None = None
        self._open_leaf: tuple[str | int, ...] = ()  # the string of which more is to come
        self._restated: str | None = None
        self._has_told_late = False

    @property
    def settled(self) -> bool:
        """Whether the verdict is final, and told."""
        return self.call.verdict != "open"

    @property
    def is_run_by_provider(self) -> bool:
        """Whether the provider runs the call and sends its result."""
        return self.call.kind in RUN_BY_PROVIDER

    @property
    def is_whole(self) -> bool:
        """Whether its JSON is whole, though the provider may not have closed it."""
        return self._reading.root_end is not None and self._reading.second is None

    def start(self, events: list[Event], *, may_be_renamed: bool) -> None:
        """Announce the call; if its name alone is enough, refuse it."""
        call = self.call
        events.append(ToolCallStarted(call.id, call.index, call.name, call.kind, call.parent_id))
        self._reject(self._hearing.open(may_grow=may_be_renamed), events)

    def rename(self, name: str, events: list[Event]) -> None:
        """Take the name with another piece, and judge what has come under it."""
        self.call.name = name
        self.call.reinterpreted = "split_name"
        if self.settled:
            return
        self._hearing = Hearing(self.call, self._court)
        has_text = bool(self.call.raw)
        self._reject(self._hearing.open(may_grow=not has_text), events)
        if has_text and self._is_json and not self.settled:
            refusal = self._hearing.hear(Parser(self._limits).feed(self.call.raw))
            if refusal is not None:
                self._reject(located(refusal, self.call.raw), events)

    def grow(self, text: str, events: list[Event]) -> None:
        """Take the next piece of the text."""
        if not text.isascii() or self._mender.held:
            text = self._mender.feed(text)
        if text and self._quirks:
            text = self._unquirk(text)
        call = self.call
        verdict = call.verdict
        if not text:
            return
        if verdict == "complete":
            self._tell_late(text, events)
            return
        # Appending is in place only while nothing else refers to the string (invariant 6).
        raw, call.raw = call.raw, ""
        raw += text
        call.raw = raw
        if verdict != "open":
            return  # kept for the record
        call_id, name = call.id, call.name
        events.append(ToolArgsDelta(call_id, name, text))
        if not self._is_json:
            if len(raw) > self._limits.max_chars:
                self._fail(Invalid((), self._limits.max_chars, "too_long"), events)
            return
        if len(raw) == len(text) and self._reject(self._hearing.begin(), events):
            return
        reading = self._reading
        if reading.pieces is not None:
            reading.note(text)
        if reading.second is not None:
            reading.second.feed(text)
            if not reading.second.possible:
                self._invalid(reading.second.fault, events)
            return
        fragments = reading.parser.feed(text)
        refusal = None if call.judge is None else self._hearing.hear(fragments)
        if refusal is not None:
            fragments = seen(fragments, refusal)
        for fragment in fragments:
            if type(fragment) is Text:
                path, piece = fragment
                if path:
                    events.append(ArgumentDelta(call_id, name, path, piece))
            else:
                self._tell(fragment, events)
                if self.settled or reading.second is not None:
                    return  # the rest of the piece was misread
        if refusal is not None:
            self._reject_early(refusal, fragments[-1], events)

    def put(self, path: JsonPath, value: object, events: list[Event], *, more: bool) -> None:
        """Take arguments that come as a value."""
        if self.call.verdict == "complete":
            self._tell_late(dumps(value), events)
            return
        if self._writer is None:
            self._writer = JsonWriter(self._limits)
            if self.call.raw and not self.settled:
                self._invalid(contradiction("a value came after text"), events)
        try:
            text = self._writer.put(path, value, more=more)
        except UnwritableError as error:
            self._refuse(error, events)
        else:
            self._note_leaf(path, more=more)
            self.grow(text, events)

    def close(self, text: str | None, events: list[Event], *, cut: bool = False) -> None:
        """Take the provider's word that the call is over, and what it says the whole text is."""
        if self._writer is not None:
            self.grow(self._writer.close(), events)
            if self._writer.has_late:
                self._add_late(self._writer, events)
        if text:
            self._compare(mended(text), events)
        is_whole = self._flush(events)
        self.closed = True
        if self.settled:
            return
        if cut or not is_whole:
            self.cut("the provider did not finish the call", events)
        elif self.call.raw.strip():
            self._conclude(events)

    def end(self, ending: Ending, reason: str | None, events: list[Event]) -> None:
        """Take the reason why the turn ended."""
        told = reason or "no reason was told"
        if not self.closed:
            # A turn that was cut closes nothing. Free text cannot say itself that it is whole, nor
            # can leaves: it is we who would close their containers.
            has_leaves = self._writer is not None and self._writer.is_open
            if ending == "cut" or (ending == "unknown" and (has_leaves or not self._is_json)):
                self.cut(f"the turn was cut off ({told})", events)
            else:
                self.close(None, events)
        if self.settled:
            return
        if self.call.raw.strip():
            message = "text came after the provider had closed the call"
            self._invalid(contradiction(message), events)
        # No text at all: whether that means no arguments depends on why it ended.
        elif ending == "finished":
            self._complete(Conclusion({} if self._is_json else ""), events)
        else:
            self.cut(f"no arguments had come when the turn ended ({told})", events)

    def cut(self, message: str, events: list[Event], verdict: InvalidVerdict = "truncated") -> None:
        """End the call because nothing more will come of it."""
        self._flush(events)
        if not self.settled:
            raw = self.call.raw
            error = ArgumentsError(verdict, message, len(raw), self._reading.parser.path)
            self._invalid(Fault(verdict, error), events)

    def outcome(self) -> tuple[Verdict, dict[str, Any] | str]:
        """Give the verdict and the arguments of a call that is over."""
        verdict, arguments = self.call.verdict, self.call.arguments
        if verdict == "open" or arguments is None:
            raise AssertionError("every call of a turn that is over has its verdict")
        return verdict, arguments

    def part(self) -> CallPart:
        """Give the call as history keeps it."""
        call = self.call
        verdict, arguments = self.outcome()
        return CallPart(
            call_id=call.id,
            name=call.name,
            kind=call.kind,
            arguments=arguments,
            raw=call.raw,
            verdict=verdict,
            item=self.item,
        )

    # Text: what a piece is, and what it says

    def _unquirk(self, text: str) -> str:
        for quirk in self._quirks:
            text = quirk.feed(text)
            if quirk.applied:
                self.call.reinterpreted = quirk.name
        return text

    def _flush(self, events: list[Event]) -> bool:
        """Take what was held back, and say whether it was whole."""
        self.grow(self._mender.close(), events)
        quirks, self._quirks = self._quirks, []
        for quirk in quirks:
            self.grow(quirk.close(), events)
        return all(quirk.is_whole for quirk in quirks)

    def _tell(self, fragment: Fragment, events: list[Event]) -> None:
        call = self.call
        match fragment:
            case Start((), kind):
                if kind == "object":
                    call.partial = self._reading.parser.value
                elif kind != "string" and kind != "null":  # these two may stand for an object
                    self._fail(Invalid((), fragment.offset, "not_an_object"), events)
            case Start(path, kind):
                events.append(ArgumentStarted(call.id, call.name, path, kind))
            case Done((), _, offset):
                self._reading.root_end = offset
            case Done(path, float(value), offset) if isinf(value):
                # JSON allows any number of digits, but this could not even be sent back.
                self._fail(Invalid(path, offset, "number_too_large"), events)
            case Done(path, value, _):
                events.append(ArgumentCompleted(call.id, call.name, path, value))
            case Invalid():
                self._fail(fragment, events)
            case _:
                pass

    def _tell_late(self, text: str, events: list[Event]) -> None:
        """Say that more came for a call that is complete, unless it is only what it had said."""
        if text.strip() and text not in self.call.raw and not self._has_told_late:
            self._has_told_late = True
            message = f"text came for the call {self.call.id} after it was complete"
            events.append(StreamFailed("late_text", message))

    def _compare(self, text: str, events: list[Event]) -> None:
        """Use the whole text that came at the end: for the rest, or against what had come."""
        raw = self.call.raw
        if text.startswith(raw) and not self._quirks:
            self.grow(text[len(raw) :], events)
            return
        for quirk in make_quirks([quirk.name for quirk in self._quirks]):
            text = quirk.feed(text) + quirk.close()
        if text.strip() != raw.strip():
            self._restated = text

    # Values

    def _note_leaf(self, path: tuple[str | int, ...], *, more: bool) -> None:
        """Say what the text does not: that more may come for what it has left."""
        call = self.call
        call.in_leaves = call.in_leaves or bool(path)
        if self._open_leaf and path != self._open_leaf and not self.settled:
            call.in_doubt = True  # a string was left open
        self._open_leaf = path if more else ()

    def _add_late(self, writer: JsonWriter, events: list[Event]) -> None:
        """Restate the text with the values that could not be written when they came."""
        try:
            self._restated = writer.whole(self._reading.parser.value)
        except UnwritableError as error:
            self._refuse(error, events)

    def _refuse(self, error: UnwritableError, events: list[Event]) -> None:
        if not self.settled:
            told = ArgumentsError(error.reason, str(error), len(self.call.raw), error.path)
            self._invalid(Fault("malformed", told), events)

    # Verdicts

    def _fail(self, invalid: Invalid, events: list[Event]) -> None:
        """Report the first error, unless the text may be meant in another way."""
        fault = fault_of(invalid)
        end = self._reading.root_end if invalid.reason == "extra_text" else None
        if self._reading.doubt(fault, end):
            return
        if invalid.reason == "number_too_large":
            self._reading.show(self.call.raw[: invalid.offset])
        self._invalid(fault, events)

    def _reject_early(self, refusal: Refusal, last: Fragment, events: list[Event]) -> None:
        """Refuse a text that goes on, unless its pieces may repeat each other."""
        raw = self.call.raw
        error = located(refusal, raw)
        if self._reading.doubt(Fault("rejected", error)):
            return
        end = read_until(last, error)
        if end < len(raw):
            self._reading.show(raw[:end])
        self._reject(error, events)

    def _reject(self, error: ArgumentsError | None, events: list[Event]) -> bool:
        """Refuse the call if the judge says why; say whether that was so."""
        if error is not None:
            self._invalid(Fault("rejected", error), events)
        return error is not None

    def _conclude(self, events: list[Event]) -> None:
        """Give the verdict on a text that is over."""
        found: Conclusion | Fault
        if self._is_json:
            found = self._reading.conclude(self._restated)
        elif self._restated is None:
            found = Conclusion(self.call.raw)
        else:
            found = Conclusion(self._restated, "restated")
        if isinstance(found, Conclusion):
            self._complete(found, events)
        else:
            self._invalid(found, events)

    def _complete(self, found: Conclusion, events: list[Event]) -> None:
        call, arguments = self.call, found.arguments
        if not call.name:
            error = ArgumentsError("no_name", "the call has no name, so no tool can be found")
            self._invalid(Fault("malformed", error), events)
            return
        as_read = arguments is self._reading.parser.value
        if self._reject(self._hearing.begin(), events) or self._reject(
            self._hearing.conclude(arguments, as_read=as_read), events
        ):
            return
        call.verdict = "complete"
        call.in_doubt = False
        call.partial = arguments
        call.reinterpreted = found.reinterpreted or call.reinterpreted
        events.append(ToolArgsCompleted(call.id, call.name, arguments, call.policy_decision))

    def _invalid(self, fault: Fault, events: list[Event]) -> None:
        call = self.call
        verdict, error = call.verdict, call.error = fault
        if verdict == "rejected":
            self._court.note(call)
        if self._reading.second is not None:
            call.in_doubt = False  # there is no other way to read it
        events.append(ToolArgsInvalid(call.id, call.name, verdict, call.raw, error))
