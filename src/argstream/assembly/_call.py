"""One call while it is written: its text in, its events and its verdict out.

The order of events is that of ``events``; the verdicts are invariants 8 to 10:

- Text goes to one ``Parser``, which refuses it at the first bad character. Then the call is
  ``malformed``, unless the pieces fit a second reading (the whole text again, ``{}`` first …). That
  verdict waits for the close.
- The provider's close makes complete JSON ``complete`` and anything else ``truncated``. Chat closes
  nothing: there the end of the turn is the close.
- Without any text the verdict waits for the stop reason: ``finished`` means no arguments, anything
  else means that they were cut.
- A turn that was cut closes nothing: what is open is ``truncated``, even if it parses. So does a
  hang-up, a provider's error and a payload that cannot be read, since a piece may be missing.
- If the close repeats the text, it has the rest of what came. If it contradicts what came, it is
  the provider's last word (``restated``), and must be valid by itself.
- An infinite number (``1e999``) is ``malformed``: it could not be written as JSON again.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from math import isinf
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from argstream.assembly._text_repair import (
    JsonWriter,
    TextQuirk,
    UnwritableError,
    dumps,
    make_quirks,
)
from argstream.checks import CallCheck, Check, Rejection
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentsError,
    ArgumentStarted,
    Event,
    InvalidVerdict,
    PolicyDecision,
    StreamFailed,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallStarted,
)
from argstream.history import CallKind, CallPart, Item, Verdict
from argstream.jsonstream import (
    PENDING,
    Done,
    Fragment,
    Invalid,
    JsonPath,
    Limits,
    Parser,
    Start,
    Text,
)
from argstream.jsonstream._parser import DEFAULT_LIMITS
from argstream.providers._deltas import (
    FREE_TEXT_KINDS,
    RUN_BY_PROVIDER,
    Ending,
)
from argstream.sanitise import SurrogateReplacer, replace_lone_surrogates

CallVerdict: TypeAlias = Literal["open"] | Verdict

Reinterpretation: TypeAlias = Literal[
    "cumulative", "replay", "empty_prefix", "double_encoded", "null", "restated", "split_name"
]
"""Why arguments are not read as they stand.

cumulative: each piece repeats all before it. replay: the whole text came once more. empty_prefix:
``{}`` came before the real text. double_encoded: the object is in a JSON string. null: it stands
for no arguments. restated: the provider closed the call with another text than it had streamed.
split_name: the name, not the text: it came in pieces, and the call was started with the first.
"""


class Call:
    """A call, live: it changes while the stream goes on, until its verdict is final.

    Only ``arguments`` of a complete call may be acted on. For any other they are
    ``{"INVALID_JSON": raw}``, which a model understands; while the call is open, None.
    """

    def __init__(
        self, id_: str, index: int, name: str, kind: CallKind, parent_id: str | None = None
    ) -> None:
        self.id = id_
        self.index = index
        self.name = name
        self.kind: CallKind = kind
        self.parent_id = parent_id
        self.verdict: CallVerdict = "open"
        self.reinterpreted: Reinterpretation | None = None
        self.partial: Any = PENDING
        """The arguments so far, an unfinished string included. To look at, not to act on.

        Free text (``custom``, ``code``) has none until it is complete: look at ``raw``.
        """
        self.raw = ""
        """All the text that came, exactly; also what came after an error."""
        self.parser: Parser | None = None
        """What reads the text; for assembly only."""
        self.in_doubt = False
        """Whether what was read may turn out to be meant in another way, or not to be all.

        Then nothing is settled until the call is complete.
        """
        self.in_leaves = False
        """Whether the provider names the place of each value that it sends.

        Then more may come for any object and any array until the verdict.
        """
        self.error: ArgumentsError | None = None
        """Why it is not valid, if it is not."""
        self.check: CallCheck | None = None
        """Who checks it; for assembly only."""

    @property
    def path(self) -> JsonPath:
        """Where the text stands: at the innermost value of ``partial`` that is not done.

        What does not lie on the way to it is settled, unless the call is ``in_doubt``, or
        ``in_leaves`` and it is an object or an array.
        """
        parser = self.parser
        if parser is None:
            return ()
        if parser.error is not None and parser.error.reason == "duplicate_key":
            return parser.path[:-1]  # what had this key first is done
        return parser.path

    @property
    def policy_decision(self) -> PolicyDecision | None:
        """The policy's answer; None without a policy, and until the policy has decided.

        A ``deny`` rejects the call as soon as it is certain, and so does an ``ask`` with
        ``on_ask="deny"``. Any other answer has no effect on the call.
        """
        return None if self.check is None else self.check.policy_decision

    @property
    def arguments(self) -> dict[str, Any] | str | None:
        """The arguments, or the text of invalid ones in a form for a model; None while open."""
        if self.verdict == "open":
            return None
        if self.verdict == "complete":
            settled: dict[str, Any] | str = self.partial
            return settled
        return self.raw if self.kind in FREE_TEXT_KINDS else {"INVALID_JSON": self.raw}

    def __repr__(self) -> str:
        return f"<Call {self.name!r} {self.id} {self.verdict}, {len(self.raw)} characters>"


class Fault(NamedTuple):
    verdict: InvalidVerdict
    error: ArgumentsError


class Outcome(NamedTuple):
    arguments: dict[str, Any] | str
    reinterpreted: Reinterpretation | None = None


_EARLY_PIECES = 4  # to remember: a cumulative text is malformed as soon as it has two


StopOn: TypeAlias = Literal["denied", "rejected", "never"]
"""After what to stop reading: a call that a policy denies, any that is rejected, or nothing."""


class StreamChecks:
    """The check of a stream, and which rejections stop the reading."""

    def __init__(self, check: Check | None = None, stop_on: StopOn = "never") -> None:
        self.check = check
        self._stop_on = stop_on
        self.must_stop = False  # a call was refused after which nothing more is to be read
        self.knows_all_tools = True
        """Whether a tool that the check does not know is none; an agent has some of its own."""

    def note(self, call: Call) -> None:
        self.must_stop = self.must_stop or self.is_final(call)

    def is_final(self, call: Call) -> bool:
        if call.verdict != "rejected" or call.error is None or self._stop_on == "never":
            return False
        return self._stop_on == "rejected" or call.error.reason == "denied"


class CallBuilder:
    """Writes to one ``Call``: text in, events and the verdict out."""

    def __init__(
        self,
        call: Call,
        limits: Limits | None,
        quirks: list[TextQuirk],
        stream_checks: StreamChecks,
    ) -> None:
        self.call = call
        self._stream_checks = stream_checks
        self._checks = CallChecks(call, stream_checks)
        self.closed = False  # the provider has said that nothing more comes
        self.has_result = False  # the provider has said what came of it
        self.item: Item | None = None
        self._limits = limits or DEFAULT_LIMITS
        self._is_json = call.kind not in FREE_TEXT_KINDS
        self._reading = Reading(call, self._limits)
        self._mender = SurrogateReplacer()
        self._quirks = quirks
        self._writer: JsonWriter | None = None
        self._open_leaf: JsonPath = ()  # the string of which more is to come
        self._restated: str | None = None
        self._has_told_late = False

    @property
    def settled(self) -> bool:
        return self.call.verdict != "open"

    @property
    def is_run_by_provider(self) -> bool:
        return self.call.kind in RUN_BY_PROVIDER

    @property
    def is_whole(self) -> bool:
        """Whether its JSON is complete, even if the provider has not closed the call."""
        return self._reading.root_end is not None and self._reading.second is None

    def start(self, events: list[Event], *, may_be_renamed: bool) -> None:
        call = self.call
        events.append(ToolCallStarted(call.id, call.index, call.name, call.kind, call.parent_id))
        self._reject(self._checks.open(may_grow=may_be_renamed), events)

    def rename(self, name: str, events: list[Event]) -> None:
        """Set the name after another piece of it, and check what has come under the new name."""
        self.call.name = name
        self.call.reinterpreted = "split_name"
        if self.settled:
            return
        self._checks = CallChecks(self.call, self._stream_checks)
        has_text = bool(self.call.raw)
        self._reject(self._checks.open(may_grow=not has_text), events)
        if has_text and self._is_json and not self.settled:
            refusal = self._checks.feed(Parser(self._limits).feed(self.call.raw))
            if refusal is not None:
                self._reject(_located(refusal, self.call.raw), events)

    def grow(self, text: str, events: list[Event]) -> None:
        if not text.isascii() or self._mender.held:
            text = self._mender.feed(text)
        call = self.call
        if text and self._quirks:
            for quirk in self._quirks:
                text = quirk.feed(text)
                if quirk.applied:
                    call.reinterpreted = quirk.name
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
        if len(raw) == len(text) and self._reject(self._checks.begin(), events):
            return
        reading = self._reading
        if (pieces := reading.pieces) is not None:
            reading.pieces = [*pieces, text] if len(pieces) < _EARLY_PIECES else None
        if reading.second is not None:
            reading.second.feed(text)
            if not reading.second.possible:
                self._invalid(reading.second.fault, events)
            return
        fragments = reading.parser.feed(text)
        refusal = None if call.check is None else self._checks.feed(fragments)
        if refusal is not None:
            fragments = _seen(fragments, refusal)
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
        if self.call.verdict == "complete":
            self._tell_late(dumps(value), events)
            return
        if self._writer is None:
            self._writer = JsonWriter(self._limits)
            if self.call.raw and not self.settled:
                self._invalid(_contradiction("a value came after text"), events)
        try:
            text = self._writer.put(path, value, more=more)
        except UnwritableError as error:
            self._refuse(error, events)
        else:
            self._note_leaf(path, more=more)
            self.grow(text, events)

    def close(self, text: str | None, events: list[Event], *, cut: bool = False) -> None:
        """Handle the provider's close. ``text`` is the whole text, if the provider repeats it."""
        if (writer := self._writer) is not None:
            self.grow(writer.close(), events)
            if writer.has_late:
                try:
                    self._restated = writer.whole(self._reading.parser.value)
                except UnwritableError as error:
                    self._refuse(error, events)
        if text:
            self._compare(replace_lone_surrogates(text), events)
        is_whole = self._flush(events)
        self.closed = True
        if self.settled:
            return
        if cut or not is_whole:
            self.cut("the provider did not finish the call", events)
        elif self.call.raw.strip():
            self._conclude(events)

    def end(self, ending: Ending, reason: str | None, events: list[Event]) -> None:
        """Handle the end of the turn."""
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
            self._invalid(_contradiction(message), events)
        # No text at all: whether that means no arguments depends on why it ended.
        elif ending == "finished":
            self._complete(Outcome({} if self._is_json else ""), events)
        else:
            self.cut(f"no arguments had come when the turn ended ({told})", events)

    def cut(self, message: str, events: list[Event], verdict: InvalidVerdict = "truncated") -> None:
        self._flush(events)
        if not self.settled:
            raw = self.call.raw
            error = ArgumentsError(verdict, message, len(raw), self._reading.parser.path)
            self._invalid(Fault(verdict, error), events)

    def outcome(self) -> tuple[Verdict, dict[str, Any] | str]:
        verdict, arguments = self.call.verdict, self.call.arguments
        if verdict == "open" or arguments is None:
            raise AssertionError("every call of a turn that is over has its verdict")
        return verdict, arguments

    def part(self) -> CallPart:
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

    def _flush(self, events: list[Event]) -> bool:
        """Feed what was held back. Returns False if the text of a quirk was incomplete."""
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
        """Report more text for a complete call, unless it only repeats what came."""
        if text.strip() and text not in self.call.raw and not self._has_told_late:
            self._has_told_late = True
            message = f"text came for the call {self.call.id} after it was complete"
            events.append(StreamFailed("late_text", message))

    def _compare(self, text: str, events: list[Event]) -> None:
        """Compare the text of the close with what had come: use its rest, or restate the call."""
        raw = self.call.raw
        if text.startswith(raw) and not self._quirks:
            self.grow(text[len(raw) :], events)
            return
        for quirk in make_quirks([quirk.name for quirk in self._quirks]):
            text = quirk.feed(text) + quirk.close()
        if text.strip() != raw.strip():
            self._restated = text

    def _note_leaf(self, path: JsonPath, *, more: bool) -> None:
        """Note that more may come for a value that the text has left."""
        call = self.call
        call.in_leaves = call.in_leaves or bool(path)
        if self._open_leaf and path != self._open_leaf and not self.settled:
            call.in_doubt = True  # a string was left open
        self._open_leaf = path if more else ()

    def _refuse(self, error: UnwritableError, events: list[Event]) -> None:
        if not self.settled:
            told = ArgumentsError(error.reason, str(error), len(self.call.raw), error.path)
            self._invalid(Fault("malformed", told), events)

    def _fail(self, invalid: Invalid, events: list[Event]) -> None:
        """Report the first error, unless the text may be meant in another way."""
        fault = _fault_of(invalid)
        end = self._reading.root_end if invalid.reason == "extra_text" else None
        if self._reading.doubt(fault, end):
            return
        if invalid.reason == "number_too_large":
            self._reading.show(self.call.raw[: invalid.offset])
        self._invalid(fault, events)

    def _reject_early(self, refusal: Rejection, last: Fragment, events: list[Event]) -> None:
        """Refuse a text that goes on, unless its pieces may repeat each other."""
        raw = self.call.raw
        error = _located(refusal, raw)
        if self._reading.doubt(Fault("rejected", error)):
            return
        end = _read_until(last, error)
        if end < len(raw):
            self._reading.show(raw[:end])
        self._reject(error, events)

    def _reject(self, error: ArgumentsError | None, events: list[Event]) -> bool:
        """Reject the call if there is an error. Returns whether there was one."""
        if error is not None:
            self._invalid(Fault("rejected", error), events)
        return error is not None

    def _conclude(self, events: list[Event]) -> None:
        found: Outcome | Fault
        if self._is_json:
            found = self._reading.conclude(self._restated)
        elif self._restated is None:
            found = Outcome(self.call.raw)
        else:
            found = Outcome(self._restated, "restated")
        if isinstance(found, Outcome):
            self._complete(found, events)
        else:
            self._invalid(found, events)

    def _complete(self, found: Outcome, events: list[Event]) -> None:
        call, arguments = self.call, found.arguments
        if not call.name:
            error = ArgumentsError("no_name", "the call has no name, so no tool can be found")
            self._invalid(Fault("malformed", error), events)
            return
        as_read = arguments is self._reading.parser.value
        if self._reject(self._checks.begin(), events) or self._reject(
            self._checks.conclude(arguments, as_read=as_read), events
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
            self._stream_checks.note(call)
        if self._reading.second is not None:
            call.in_doubt = False  # there is no other way to read it
        events.append(ToolArgsInvalid(call.id, call.name, verdict, call.raw, error))


class Reading:
    """Reads the text of one call and keeps ``Call.partial`` up to date."""

    def __init__(self, call: Call, limits: Limits) -> None:
        self._call = call
        self._limits = limits
        self.parser = call.parser = Parser(limits, unique_keys=True)
        """What reads the text as it stands. The call's own is another one after ``show``."""
        self.pieces: list[str] | None = []
        """The first pieces; None once they are too many to repeat each other."""
        self.root_end: int | None = None  # where the JSON was whole, if it was
        self.second: SecondInterpretation | None = None
        """What else the text may mean, if it cannot be meant as it stands."""

    def doubt(self, fault: Fault, root_end: int | None = None) -> bool:
        """Return True if a text with a fault may be meant in another way. The call waits then."""
        second = SecondInterpretation(fault, self.pieces, self._call.raw, root_end, self._limits)
        if not second.possible:
            return False
        self.second = second
        self._call.in_doubt = True
        if self.pieces is not None:
            self.show("".join(self.pieces[:-1]))  # the last may have been the start of the other
        return True

    def show(self, text: str) -> None:
        """Set ``partial`` to the value of this prefix, because the rest was misread."""
        call = self._call
        parser = call.parser = Parser(self._limits, unique_keys=True)
        parser.feed(text)
        call.partial = parser.value if isinstance(parser.value, dict) else PENDING

    def conclude(self, restated: str | None) -> Outcome | Fault:
        parser = self.parser
        parser.close()
        if restated is not None:
            return self._conclude_restated(restated)
        if self.second is not None:
            return self.second.close()
        if parser.error is not None:
            return _fault_of(parser.error, "truncated")
        value = parser.value
        if isinstance(value, dict):
            return Outcome(value)
        if value is None:
            return Outcome({}, "null")
        if isinstance(value, str) and (found := _parse_object(value, self._limits)) is not None:
            return Outcome(found, "double_encoded")
        return _fault_of(Invalid((), 0, "not_an_object"))

    def _conclude_restated(self, text: str) -> Outcome | Fault:
        """Read the text with which the provider closed the call. It must be valid by itself."""
        if (found := _parse_object(text, self._limits)) is None:
            message = "the provider closed the call with another text, which is not valid"
            return _contradiction(message)
        parser = self.parser
        same = parser.verdict == "complete" and _dumps(parser.value) == _dumps(found)
        if same and isinstance(parser.value, dict):
            return Outcome(parser.value)
        return Outcome(found, "restated")


class SecondInterpretation:
    """Looks at the pieces of a text from its first fault on."""

    def __init__(
        self,
        fault: Fault,
        pieces: list[str] | None,
        raw: str,
        root_end: int | None,
        limits: Limits,
    ) -> None:
        self._limits = limits
        self.fault = fault  # what is wrong with the literal reading: it holds if there is no other
        self._latest: str | None = None
        self._whole = ""
        self._repeated: int | None = None  # how much of the whole has come again
        self._rest: Parser | None = None
        if pieces is not None and _is_cumulative(pieces):
            self._latest = pieces[-1]
        if root_end is not None:
            self._whole = raw[:root_end].strip()
            self._repeated = 0
            if self._whole == "{}":
                self._rest = Parser(limits, unique_keys=True)
            self._go_on(raw[root_end:])

    @property
    def possible(self) -> bool:
        return self._latest is not None or self._repeated is not None or self._rest is not None

    def feed(self, piece: str) -> None:
        if self._latest is not None:
            self._latest = piece if piece.startswith(self._latest) else None
        self._go_on(piece)

    def _go_on(self, piece: str) -> None:
        if self._repeated is not None:
            fits = self._whole.startswith(piece, self._repeated)
            self._repeated = self._repeated + len(piece) if fits else None
            if self._repeated == len(self._whole):
                self._repeated = 0  # it may come a third time
        if self._rest is not None:
            self._rest.feed(piece)
            if self._rest.error is not None:
                self._rest = None

    def close(self) -> Outcome | Fault:
        """Return the arguments of the reading that makes an object of the text, or the fault."""
        if self._latest is not None:
            found = _parse_object(self._latest, self._limits)
            if found is not None:
                return Outcome(found, "cumulative")
        if self._repeated == 0 and (found := _parse_object(self._whole, self._limits)) is not None:
            return Outcome(found, "replay")
        if self._rest is not None:
            self._rest.close()
            if (found := _object(self._rest)) is not None:
                return Outcome(found, "empty_prefix")
        return self.fault


def _parse_object(text: str, limits: Limits) -> dict[str, Any] | None:
    parser = Parser(limits, unique_keys=True)
    parser.feed(text)
    parser.close()
    return _object(parser)


def _object(parser: Parser) -> dict[str, Any] | None:
    value = parser.value
    if parser.verdict != "complete" or not isinstance(value, dict) or _is_infinite(value):
        return None
    return value


def _is_infinite(value: object) -> bool:
    if isinstance(value, dict | list):
        return any(map(_is_infinite, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and isinf(value)


def _is_cumulative(pieces: list[str]) -> bool:
    return len(pieces) > 1 and all(later.startswith(earlier) for earlier, later in pairwise(pieces))


def _dumps(value: Any) -> str:
    """Write a value so that what differs looks different: in Python, 1 equals True."""
    return json.dumps(value, sort_keys=True)


class CallChecks:
    """Shows one call to its check, and decides when a refusal counts.

    It does not while the text may be meant in another way, for the close of a container for which
    leaves may still come, and for an empty object that may be a mere beginning. In these cases
    complete arguments are checked.
    """

    def __init__(self, call: Call, stream_checks: StreamChecks) -> None:
        self._call = call
        self._stream_checks = stream_checks
        self._check: CallCheck | None = None
        self._may_grow = False  # whether more of the name may come
        self._has_begun = False
        self._has_left = False  # whether a container ended for which leaves may still come
        self._waits = False  # whether only whole arguments count

    def open(self, *, may_grow: bool) -> ArgumentsError | None:
        """Open the check for the call's name. Returns an error if the name alone is refused."""
        check = self._stream_checks.check
        if check is None:
            return None
        self._may_grow = may_grow
        found = check.open(self._call.name, self._call.kind, may_grow=may_grow)
        if isinstance(found, ArgumentsError):
            error: ArgumentsError | None = found
        else:
            self._check = self._call.check = found
            error = None if found is None else found.error
        is_unknown = error is not None and error.reason == "unknown_tool"
        return None if is_unknown and not self._stream_checks.knows_all_tools else error

    def begin(self) -> ArgumentsError | None:
        """Open the check again when the arguments begin: the name is complete then."""
        return self.open(may_grow=False) if self._may_grow else None

    def feed(self, fragments: Sequence[Fragment]) -> Rejection | None:
        """Feed the check. Returns its refusal if it counts now."""
        if self._check is None or self._waits or not fragments:
            return None
        if not self._has_begun:
            self._has_begun = True
            first = fragments[0]
            if not isinstance(first, Start) or first.kind != "object":  # it may stand for one
                self._waits = True
                return None
        refusal = self._check.feed(_sure(fragments))
        if self._call.in_leaves:
            told = fragments if refusal is None else fragments[: refusal.seen]
            self._has_left = self._has_left or any(
                isinstance(one, Done) and isinstance(one.value, dict | list) for one in told
            )
        if refusal is not None and (self._call.in_doubt or self._has_left):
            self._waits = True
            return None
        return refusal

    def conclude(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ArgumentsError | None:
        if self._check is None:
            return None
        return self._check.finish(arguments, as_read=as_read and not self._waits)


def _sure(fragments: Sequence[Fragment]) -> Sequence[Fragment]:
    """Leave out the end of an empty object: the real text may follow."""
    end = len(fragments) - (type(fragments[-1]) is Invalid)
    if end and type(last := fragments[end - 1]) is Done and not last.path and not last.value:
        return fragments[: end - 1]
    return fragments


def _seen(fragments: list[Fragment], refusal: Rejection) -> list[Fragment]:
    kept = fragments[: refusal.seen]
    if refusal.text is not None:
        kept[-1] = Text(kept[-1].path, refusal.text)
    return kept


def _read_until(last: Fragment, error: ArgumentsError) -> int:
    """Return how much of the text was needed to refuse it."""
    if isinstance(last, Text):
        return (error.offset or 0) + 1
    return last.offset if isinstance(last, Done) else last.offset + 1


def _located(refusal: Rejection, raw: str) -> ArgumentsError:
    """Return the error with its offset in the text: a check counts decoded characters."""
    error, start = refusal.error, refusal.string_start
    if start is None or error.offset is None or "\\" not in raw[start:]:
        return error
    decoded = error.offset - start
    parser = Parser()
    for offset, character in enumerate(raw[start:], start):
        for fragment in parser.feed(character):
            if isinstance(fragment, Text):
                decoded -= len(fragment.text)
        if decoded <= 0:
            return replace(error, offset=offset)
    return error


def _fault_of(invalid: Invalid, verdict: InvalidVerdict = "malformed") -> Fault:
    error = ArgumentsError(invalid.reason, invalid.message, invalid.offset, invalid.path)
    return Fault(verdict, error)


def _contradiction(message: str) -> Fault:
    return Fault("malformed", ArgumentsError("contradicted", message))
