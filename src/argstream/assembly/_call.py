"""One call while it is written: turns its text into events and a verdict.

``events`` documents the order of events. The verdicts follow invariants 8 to 10:

- Text is fed to one ``Parser``, which fails at the first invalid character. The call is then
  ``malformed``, unless the pieces fit a reinterpretation (the whole text again, ``{}`` first …). In
  that case the verdict is decided when the call is closed.
- When the provider closes the call, a complete object is ``complete``, an incomplete one is
  ``truncated``. Chat Completions does not close calls: there the end of the turn closes them.
- Without any text, the ending of the turn decides: after ``finished`` the call is complete and has
  no arguments, after any other ending they were cut off.
- If the turn is cut off, open calls are ``truncated``, even if their text parses. The same holds
  for a lost connection, a provider's error and an unreadable payload: a piece may be missing.
- A close may repeat the text. If its text extends the text so far, the rest is used. If the two
  differ, the text of the close is used instead (``restated``) and must be valid by itself.
- An infinite number (``1e999``) is ``malformed``, because it cannot be encoded as JSON again.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from math import isinf
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from argstream import events as ev
from argstream.assembly._text_repair import (
    JsonWriter,
    TextQuirk,
    UnwritableError,
    dumps,
    make_quirks,
)
from argstream.checks import CallCheck, Check, Rejection
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
from argstream.providers._deltas import FREE_TEXT_KINDS, RUN_BY_PROVIDER, Ending
from argstream.sanitise import SurrogateReplacer, replace_lone_surrogates

CallVerdict: TypeAlias = Literal["open"] | Verdict

Reinterpretation: TypeAlias = Literal[
    "cumulative", "replay", "empty_prefix", "double_encoded", "null", "restated", "split_name"
]
"""Why the arguments or the name differ from the text as it was streamed.

cumulative: each piece repeats all pieces before it. replay: the whole text arrived twice.
empty_prefix: ``{}`` arrived before the real text. double_encoded: the object is in a JSON string.
null: the text is ``null``, which means no arguments. restated: the provider closed the call with a
text that differs from the streamed one. split_name: the tool name arrived in pieces, and the call
started with the first piece.
"""


class Call:
    """A call in progress. It changes while the stream is read, until its verdict is final.

    Act only on the ``arguments`` of a complete call. They are None while it is open. For an invalid
    call they are ``{"INVALID_JSON": raw}``, which models understand, or ``raw`` for free text.
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
        """The arguments so far, including an unfinished string. For display only.

        PENDING for free text (``custom``, ``code``) until it is complete: use ``raw``.
        """
        self.raw = ""
        """The exact text that arrived, including text after an error."""
        self.parser: Parser | None = None  # for assembly only
        self.in_doubt = False
        """Whether the text may be reinterpreted or lack a piece. If so, nothing is settled."""
        self.in_leaves = False
        """Whether values are sent with their paths, so that any object or array may still grow."""
        self.error: ev.ArgumentsError | None = None
        """Why the call is invalid, if it is."""
        self.check: CallCheck | None = None  # for assembly only

    @property
    def path(self) -> JsonPath:
        """The path of the innermost value of ``partial`` that is not complete.

        Values that do not contain it are settled, with two exceptions: nothing is settled if the
        call is ``in_doubt``, and objects and arrays are not if it is ``in_leaves``.
        """
        parser = self.parser
        if parser is None:
            return ()
        if parser.error is not None and parser.error.reason == "duplicate_key":
            return parser.path[:-1]  # the first value of this key is complete
        return parser.path

    @property
    def policy_decision(self) -> ev.PolicyDecision | None:
        """The policy's answer; None without a policy, and until the policy has decided.

        ``deny`` rejects the call, and so does ``ask`` with ``on_ask="deny"``. Other answers have no
        effect on the call.
        """
        return None if self.check is None else self.check.policy_decision

    @property
    def arguments(self) -> dict[str, Any] | str | None:
        """The arguments, or the invalid text in a form that models understand; None while open."""
        if self.verdict == "open":
            return None
        if self.verdict == "complete":
            settled: dict[str, Any] | str = self.partial
            return settled
        return self.raw if self.kind in FREE_TEXT_KINDS else {"INVALID_JSON": self.raw}

    def __repr__(self) -> str:
        return f"<Call {self.name!r} {self.id} {self.verdict}, {len(self.raw)} characters>"


class Fault(NamedTuple):
    verdict: ev.InvalidVerdict
    error: ev.ArgumentsError


class Outcome(NamedTuple):
    arguments: dict[str, Any] | str
    reinterpreted: Reinterpretation | None = None


_EARLY_PIECES = 4  # how many to keep: a cumulative text is malformed by then, usually at the second

StopOn: TypeAlias = Literal["denied", "rejected", "never"]
"""When to stop reading: after a call that a policy denies, after any rejected call, or never."""


class StreamChecks:
    """The check of a stream, and whether a rejection stops reading."""

    def __init__(self, check: Check | None, stop_on: StopOn) -> None:
        self.check = check
        self._stop_on = stop_on
        self.must_stop = False
        self.knows_all_tools = True  # False for the stream of an agent, whose own tools are unknown

    def stops_reading(self, call: Call) -> bool:
        if call.verdict != "rejected" or call.error is None or self._stop_on == "never":
            return False
        return self._stop_on == "rejected" or call.error.reason == "denied"


class CallBuilder:
    """Updates one ``Call`` from text and values, and creates its events."""

    def __init__(
        self, call: Call, limits: Limits | None, quirks: list[TextQuirk], checks: StreamChecks
    ) -> None:
        self.call = call
        self._stream_checks = checks
        self._checks = CallChecks(call, checks)
        self.closed = False  # by the provider
        self.has_result = False
        self.item: Item | None = None
        self._limits = limits or DEFAULT_LIMITS
        self._is_json = call.kind not in FREE_TEXT_KINDS
        # Parses the text as streamed. The parser of the call may be another one: see _set_partial.
        self._parser = call.parser = Parser(self._limits, unique_keys=True)
        self._pieces: list[str] | None = []  # None once there are too many for a cumulative text
        self._root_end: int | None = None  # offset of the end of the root value
        self._second: SecondInterpretation | None = None  # set if the text has a fault
        self._surrogates = SurrogateReplacer()
        self._quirks = quirks
        self._writer: JsonWriter | None = None
        self._open_leaf: JsonPath = ()  # the path of a string that the provider continues
        self._restated: str | None = None
        self._has_reported_late_text = False

    @property
    def has_verdict(self) -> bool:
        return self.call.verdict != "open"

    @property
    def is_run_by_provider(self) -> bool:
        return self.call.kind in RUN_BY_PROVIDER

    @property
    def is_whole(self) -> bool:
        """Whether the JSON is complete, even if the provider has not closed the call."""
        return self._root_end is not None and self._second is None

    def start(self, events: list[ev.Event], *, may_be_renamed: bool) -> None:
        call = self.call
        events.append(ev.ToolCallStarted(call.id, call.index, call.name, call.kind, call.parent_id))
        self._reject(self._checks.open(may_grow=may_be_renamed), events)

    def rename(self, name: str, events: list[ev.Event]) -> None:
        """Set a name that has grown, and check the arguments so far under the new name."""
        self.call.name = name
        self.call.reinterpreted = "split_name"
        if self.has_verdict:
            return
        self._checks = CallChecks(self.call, self._stream_checks)
        has_text = bool(self.call.raw)
        self._reject(self._checks.open(may_grow=not has_text), events)
        if has_text and self._is_json and not self.has_verdict:
            rejection = self._checks.feed(Parser(self._limits).feed(self.call.raw))
            if rejection is not None:
                self._reject(_with_raw_offset(rejection, self.call.raw), events)

    def feed(self, text: str, events: list[ev.Event]) -> None:
        if not text.isascii() or self._surrogates.held:
            text = self._surrogates.feed(text)
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
            self._report_late_text(text, events)
            return
        # Appending is in place only while nothing else refers to the string (invariant 6).
        raw, call.raw = call.raw, ""
        raw += text
        call.raw = raw
        if verdict != "open":
            return  # raw has all text, also after an error
        call_id, name = call.id, call.name
        events.append(ev.ToolArgsDelta(call_id, name, text))
        if not self._is_json:
            if len(raw) > self._limits.max_chars:
                self._fail(Invalid((), self._limits.max_chars, "too_long"), events)
            return
        if len(raw) == len(text) and self._reject(self._checks.reopen(), events):
            return
        if (pieces := self._pieces) is not None:
            self._pieces = [*pieces, text] if len(pieces) < _EARLY_PIECES else None
        if self._second is not None:
            self._second.feed(text)
            if not self._second.possible:
                self._end_invalid(self._second.fault, events)
            return
        fragments = self._parser.feed(text)
        rejection = None if call.check is None else self._checks.feed(fragments)
        if rejection is not None:
            fragments = fragments[: rejection.seen]
            if rejection.text is not None:
                fragments[-1] = Text(fragments[-1].path, rejection.text)
        for fragment in fragments:
            if type(fragment) is Text:
                path, piece = fragment
                if path:
                    events.append(ev.ArgumentDelta(call_id, name, path, piece))
            else:
                self._apply(fragment, events)
                if self.has_verdict or self._second is not None:
                    return  # the remaining fragments were misread
        if rejection is not None:
            self._reject_early(rejection, fragments[-1], events)

    def put(self, path: JsonPath, value: object, events: list[ev.Event], *, more: bool) -> None:
        if self.call.verdict == "complete":
            self._report_late_text(dumps(value), events)
            return
        if self._writer is None:
            self._writer = JsonWriter(self._limits)
            if self.call.raw and not self.has_verdict:
                self._end_invalid(_contradiction("the provider sent a value after text"), events)
        try:
            text = self._writer.put(path, value, more=more)
        except UnwritableError as error:
            self._fail_value(error, events)
        else:
            call = self.call
            call.in_leaves = call.in_leaves or bool(path)
            if self._open_leaf and path != self._open_leaf and not self.has_verdict:
                call.in_doubt = True  # the provider announced more of a string
            self._open_leaf = path if more else ()
            self.feed(text, events)

    def close(self, text: str | None, events: list[ev.Event], *, cut: bool = False) -> None:
        """Handle the provider's close. ``text`` is the whole text, if the provider repeats it."""
        if (writer := self._writer) is not None:
            self.feed(writer.close(), events)
            if writer.has_late:
                try:
                    self._restated = replace_lone_surrogates(writer.complete_text())
                except UnwritableError as error:
                    self._fail_value(error, events)
        if text:
            self._use_final_text(replace_lone_surrogates(text), events)
        is_complete = self._flush(events)
        self.closed = True
        if self.has_verdict:
            return
        if cut or not is_complete:
            self.cut("the provider did not finish the call", events)
        elif self.call.raw.strip():
            self._finish(events)

    def end_turn(self, ending: Ending, reason: str | None, events: list[ev.Event]) -> None:
        shown = reason or "no stop reason"
        if not self.closed:
            # A turn that was cut off closes no call. Nor does an unknown ending, if the text has no
            # end of its own: free text, and values with paths, whose containers the writer closes.
            has_leaves = self._writer is not None and self._writer.is_open
            if ending == "cut" or (ending == "unknown" and (has_leaves or not self._is_json)):
                self.cut(f"the turn was cut off ({shown})", events)
            else:
                self.close(None, events)
        if self.has_verdict:
            return
        if self.call.raw.strip():
            message = "the provider sent text after it had closed the call"
            self._end_invalid(_contradiction(message), events)
        # Without text, the ending decides whether the call has no arguments or was cut off.
        elif ending == "finished":
            self._complete(Outcome({} if self._is_json else ""), events)
        else:
            self.cut(f"the turn ended before any arguments arrived ({shown})", events)

    def cut(
        self, message: str, events: list[ev.Event], verdict: ev.InvalidVerdict = "truncated"
    ) -> None:
        self._flush(events)
        if not self.has_verdict:
            raw = self.call.raw
            error = ev.ArgumentsError(verdict, message, len(raw), self._parser.path)
            self._end_invalid(Fault(verdict, error), events)

    def outcome(self) -> tuple[Verdict, dict[str, Any] | str]:
        verdict, arguments = self.call.verdict, self.call.arguments
        if verdict == "open" or arguments is None:
            raise AssertionError("every call of a completed turn has a verdict")
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

    def _flush(self, events: list[ev.Event]) -> bool:
        """Feed text that was held back. Return False if the text of a quirk is incomplete."""
        self.feed(self._surrogates.close(), events)
        quirks, self._quirks = self._quirks, []
        for quirk in quirks:
            self.feed(quirk.close(), events)
        return all(quirk.is_whole for quirk in quirks)

    def _apply(self, fragment: Fragment, events: list[ev.Event]) -> None:
        call = self.call
        match fragment:
            case Start((), kind):
                if kind == "object":
                    call.partial = self._parser.value
                elif kind != "string" and kind != "null":  # these two may stand for an object
                    self._fail(Invalid((), fragment.offset, "not_an_object"), events)
            case Start(path, kind):
                events.append(ev.ArgumentStarted(call.id, call.name, path, kind))
            case Done((), _, offset):
                self._root_end = offset
            case Done(path, float(value), offset) if isinf(value):
                # JSON allows any number of digits, but infinity cannot be encoded again.
                self._fail(Invalid(path, offset, "number_too_large"), events)
            case Done(path, value, _):
                events.append(ev.ArgumentCompleted(call.id, call.name, path, value))
            case Invalid():
                self._fail(fragment, events)
            case _:
                pass

    def _report_late_text(self, text: str, events: list[ev.Event]) -> None:
        """Report more text for a complete call, once, unless it repeats earlier text."""
        if text.strip() and text not in self.call.raw and not self._has_reported_late_text:
            self._has_reported_late_text = True
            message = f"text arrived for call {self.call.id} after the call was complete"
            events.append(ev.StreamFailed("late_text", message))

    def _use_final_text(self, text: str, events: list[ev.Event]) -> None:
        """Append the rest of the text in the provider's close, or restate the call with it."""
        raw = self.call.raw
        if text.startswith(raw) and not self._quirks:
            self.feed(text[len(raw) :], events)
            return
        for quirk in make_quirks([quirk.name for quirk in self._quirks]):
            text = quirk.feed(text) + quirk.close()
        if text.strip() != raw.strip():
            self._restated = text

    def _fail_value(self, error: UnwritableError, events: list[ev.Event]) -> None:
        if not self.has_verdict:
            reported = ev.ArgumentsError(error.reason, str(error), len(self.call.raw), error.path)
            self._end_invalid(Fault("malformed", reported), events)

    def _fail(self, invalid: Invalid, events: list[ev.Event]) -> None:
        """Report the first error, unless the text may be reinterpreted."""
        fault = _fault_of(invalid)
        end = self._root_end if invalid.reason == "extra_text" else None
        if self._may_reinterpret(fault, end):
            return
        if invalid.reason == "number_too_large":
            self._set_partial(self.call.raw[: invalid.offset])
        self._end_invalid(fault, events)

    def _reject_early(self, rejection: Rejection, last: Fragment, events: list[ev.Event]) -> None:
        """Reject an incomplete text, unless its pieces may repeat each other."""
        raw = self.call.raw
        error = _with_raw_offset(rejection, raw)
        if self._may_reinterpret(Fault("rejected", error)):
            return
        end = _end_of_rejected(last, error)
        if end < len(raw):
            self._set_partial(raw[:end])
        self._reject(error, events)

    def _reject(self, error: ev.ArgumentsError | None, events: list[ev.Event]) -> bool:
        if error is not None:
            self._end_invalid(Fault("rejected", error), events)
        return error is not None

    def _may_reinterpret(self, fault: Fault, root_end: int | None = None) -> bool:
        """Return True if a text with a fault may be reinterpreted. The call then stays open."""
        second = SecondInterpretation(fault, self._pieces, self.call.raw, root_end, self._limits)
        if not second.possible:
            return False
        self._second = second
        self.call.in_doubt = True
        if self._pieces is not None:
            self._set_partial("".join(self._pieces[:-1]))  # the last piece may be the real text
        return True

    def _set_partial(self, text: str) -> None:
        """Set ``partial`` to the value of this prefix, because the rest was misread."""
        parser = self.call.parser = Parser(self._limits, unique_keys=True)
        parser.feed(text)
        self.call.partial = parser.value if isinstance(parser.value, dict) else PENDING

    def _finish(self, events: list[ev.Event]) -> None:
        found = self._interpret_json() if self._is_json else Outcome(self.call.raw)
        if self._restated is not None:
            found = self._restate(self._restated)
        if isinstance(found, Outcome):
            self._complete(found, events)
        else:
            self._end_invalid(found, events)

    def _interpret_json(self) -> Outcome | Fault:
        self._parser.close()
        if self._second is not None:
            return self._second.close()
        if self._parser.error is not None:
            return _fault_of(self._parser.error, "truncated")
        value = self._parser.value
        if isinstance(value, dict):
            return Outcome(value)
        if value is None:
            return Outcome({}, "null")
        if isinstance(value, str) and (found := _parse_object(value, self._limits)) is not None:
            return Outcome(found, "double_encoded")
        return _fault_of(Invalid((), 0, "not_an_object"))

    def _restate(self, text: str) -> Outcome | Fault:
        if not self._is_json:
            return Outcome(text, "restated")
        if (found := _parse_object(text, self._limits)) is None:
            message = "the provider closed the call with a different text, which is not valid"
            return _contradiction(message)
        parser = self._parser
        if parser.verdict == "complete" and isinstance(parser.value, dict):
            # Compared as text: in Python, 1 equals True.
            one, other = (json.dumps(value, sort_keys=True) for value in (parser.value, found))
            if one == other:
                return Outcome(parser.value)
        return Outcome(found, "restated")

    def _complete(self, found: Outcome, events: list[ev.Event]) -> None:
        call, arguments = self.call, found.arguments
        if not call.name:
            error = ev.ArgumentsError("no_name", "the call has no tool name")
            self._end_invalid(Fault("malformed", error), events)
            return
        as_read = arguments is self._parser.value
        if self._reject(self._checks.reopen(), events) or self._reject(
            self._checks.finish(arguments, as_read=as_read), events
        ):
            return
        call.verdict = "complete"
        call.in_doubt = False
        call.partial = arguments
        call.reinterpreted = found.reinterpreted or call.reinterpreted
        exact: str | None = None  # the text of the arguments, unless it is the streamed one
        if found.reinterpreted is not None or (self._is_json and call.raw.isspace()):
            exact = arguments if isinstance(arguments, str) else dumps(arguments)
        events.append(
            ev.ToolArgsCompleted(call.id, call.name, arguments, call.policy_decision, exact)
        )

    def _end_invalid(self, fault: Fault, events: list[ev.Event]) -> None:
        call = self.call
        verdict, error = call.verdict, call.error = fault
        if verdict == "rejected":
            checks = self._stream_checks
            checks.must_stop = checks.must_stop or checks.stops_reading(call)
        if self._second is not None:
            call.in_doubt = False
        events.append(ev.ToolArgsInvalid(call.id, call.name, verdict, call.raw, error))


class SecondInterpretation:
    """Tests whether a text with a fault is cumulative, a replay, or follows an empty prefix."""

    def __init__(
        self, fault: Fault, pieces: list[str] | None, raw: str, root_end: int | None, limits: Limits
    ) -> None:
        self._limits = limits
        self.fault = fault  # of the literal text; reported if no reinterpretation fits
        self._latest: str | None = None  # the newest piece of a cumulative text
        self._whole = ""
        self._repeated: int | None = None  # how many characters of a replay have arrived
        self._rest: Parser | None = None  # parses the text after an empty prefix
        if pieces is not None and len(pieces) > 1:
            is_cumulative = all(later.startswith(one) for one, later in pairwise(pieces))
            self._latest = pieces[-1] if is_cumulative else None
        if root_end is not None:
            self._whole = raw[:root_end].strip()
            self._repeated = 0
            if self._whole == "{}":
                self._rest = Parser(limits, unique_keys=True)
            self._feed_rest(raw[root_end:])

    @property
    def possible(self) -> bool:
        return self._latest is not None or self._repeated is not None or self._rest is not None

    def feed(self, piece: str) -> None:
        if self._latest is not None:
            self._latest = piece if piece.startswith(self._latest) else None
        self._feed_rest(piece)

    def _feed_rest(self, piece: str) -> None:
        if self._repeated is not None:
            fits = self._whole.startswith(piece, self._repeated)
            self._repeated = self._repeated + len(piece) if fits else None
            if self._repeated == len(self._whole):
                self._repeated = 0  # the text may be repeated again
        if self._rest is not None:
            self._rest.feed(piece)
            if self._rest.error is not None:
                self._rest = None

    def close(self) -> Outcome | Fault:
        """Return the arguments of the first reinterpretation that fits, or the fault."""
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


class CallChecks:
    """Feeds one call to its check, and decides whether a rejection counts before the end.

    A rejection does not count early if the text may be reinterpreted, values may still arrive for a
    closed container, or an empty object may be an empty prefix. Then only complete arguments count.
    """

    def __init__(self, call: Call, stream_checks: StreamChecks) -> None:
        self._call = call
        self._stream_checks = stream_checks
        self._may_grow = False  # more of the name may arrive
        self._has_begun = False
        self._has_closed_container = False  # for which values may still arrive
        self._waits_for_end = False  # only complete arguments are checked

    def open(self, *, may_grow: bool) -> ev.ArgumentsError | None:
        """Open the check for the call's name. Return an error if the name alone is rejected."""
        check = self._stream_checks.check
        if check is None:
            return None
        self._may_grow = may_grow
        found = check.open(self._call.name, self._call.kind, may_grow=may_grow)
        error = found if isinstance(found, ev.ArgumentsError | None) else found.error
        self._call.check = None if isinstance(found, ev.ArgumentsError) else found
        is_unknown = error is not None and error.reason == "unknown_tool"
        return None if is_unknown and not self._stream_checks.knows_all_tools else error

    def reopen(self) -> ev.ArgumentsError | None:
        """Open the check again once the name is complete."""
        return self.open(may_grow=False) if self._may_grow else None

    def feed(self, fragments: Sequence[Fragment]) -> Rejection | None:
        """Feed the check. Return its rejection if it counts now."""
        if (check := self._call.check) is None or self._waits_for_end or not fragments:
            return None
        if not self._has_begun:
            self._has_begun = True
            first = fragments[0]
            if not isinstance(first, Start) or first.kind != "object":  # it may encode an object
                self._waits_for_end = True
                return None
        is_text = type(fragments[-1]) is Text  # nearly always
        rejection = check.feed(fragments if is_text else _without_empty_root(fragments))
        if self._call.in_leaves:
            seen = fragments if rejection is None else fragments[: rejection.seen]
            self._has_closed_container = self._has_closed_container or any(
                isinstance(one, Done) and isinstance(one.value, dict | list) for one in seen
            )
        if rejection is not None and (self._call.in_doubt or self._has_closed_container):
            self._waits_for_end = True
            return None
        return rejection

    def finish(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ev.ArgumentsError | None:
        if (check := self._call.check) is None:
            return None
        return check.finish(arguments, as_read=as_read and not self._waits_for_end)


def _without_empty_root(fragments: Sequence[Fragment]) -> Sequence[Fragment]:
    """Remove the end of an empty root object: the real text may follow it."""
    end = len(fragments) - (type(fragments[-1]) is Invalid)
    if end and type(last := fragments[end - 1]) is Done and not last.path and not last.value:
        return fragments[: end - 1]
    return fragments


def _end_of_rejected(last: Fragment, error: ev.ArgumentsError) -> int:
    """Return the offset after the character that caused the rejection."""
    if isinstance(last, Text):
        return (error.offset or 0) + 1
    return last.offset if isinstance(last, Done) else last.offset + 1


def _with_raw_offset(rejection: Rejection, raw: str) -> ev.ArgumentsError:
    """Return the error with its offset in the raw text. A check counts decoded characters."""
    error, start = rejection.error, rejection.string_start
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


def _fault_of(invalid: Invalid, verdict: ev.InvalidVerdict = "malformed") -> Fault:
    error = ev.ArgumentsError(invalid.reason, invalid.message, invalid.offset, invalid.path)
    return Fault(verdict, error)


def _contradiction(message: str) -> Fault:
    return Fault("malformed", ev.ArgumentsError("contradicted", message))
