"""Turns the payloads of one provider's stream into events. Performs no I/O.

Feed each payload to an ``Assembler``, then close it. ``stream()`` does that for bytes, an SDK's
stream or an HTTP response.

A decoder translates payloads into deltas without checking them. Several turns may be open, because
agents can run in parallel in one stream. ``TurnSwitched`` selects the turn of the deltas that
follow. A provider's error ends the calls of the current turn; an unreadable payload ends the calls
of all turns. A turn ends with ``TurnCompleted`` or ``StreamFailed``. Usage is added up as it is
reported, so it includes turns that are rejected or cut off.
"""

from collections.abc import Collection, Hashable, Sequence
from reprlib import Repr
from typing import Any, Final, get_args

from msgspec import Struct
from msgspec.structs import replace

from argstream import events as ev
from argstream.assembly._call import Call, CallBuilder, StopOn, StreamChecks
from argstream.assembly._text_repair import Quirk, checked_quirks, make_quirks
from argstream.checks import Check
from argstream.errors import UsageError
from argstream.history import (
    CallPart,
    Item,
    Message,
    OpaquePart,
    Part,
    ResultPart,
    TextPart,
    ThinkingPart,
)
from argstream.jsonstream import Limits
from argstream.providers import (
    AGENTS,
    Feed,
    ProtocolName,
    ProviderDecoder,
    UnreadableError,
    detect,
    detect_wrapping,
    explain_unsupported,
    make_decoder,
    payloads_in,
    stop_kind,
    unwrapping,
)
from argstream.providers import _deltas as d
from argstream.sanitise import (
    SurrogateReplacer,
    replace_lone_surrogates,
    replace_lone_surrogates_in_json,
)

_MAX_UNREAD = 100  # payloads that are held until the protocol is known
_short = Repr()
_short.maxstring = _short.maxother = 200
# Names of events that keep a connection open. Their data may be anything.
_HEARTBEATS = {"ping", "keepalive", "keep-alive", "heartbeat"}
_NO_BEGINNING: Final = (d.UsageReported, d.TurnEnded, d.TurnClosed)


class Numbering(Struct, frozen=True):
    """The numbers and IDs that the earlier turns of a conversation have used.

    The numbers of blocks and calls continue from here. A call gets a generated ID if the provider
    sent none, or one that is in ``call_ids``.
    """

    turns: int = 0
    blocks: int = 0
    calls: int = 0
    call_ids: frozenset[str] = frozenset()


class Assembler:
    r"""Turns the payloads of one stream into events.

    >>> assembler = Assembler("openai-chat")
    >>> head = '{"choices":[{"delta":{"tool_calls":[{"index":0,'
    >>> assembler.feed(head + '"id":"c1","function":{"name":"add","arguments":""}}]}}]}')
    [ToolCallStarted(call_id='c1', index=0, name='add', kind='function', parent_id=None)]
    >>> for event in assembler.feed(head + '"function":{"arguments":"{\\"a\\":1"}}]}}]}'):
    ...     print(event.type)
    tool_args_delta
    argument_started
    >>> [call.verdict for call in assembler.calls]
    ['open']
    """

    def __init__(
        self,
        protocol: ProtocolName = "auto",
        *,
        quirks: Collection[Quirk] = (),
        after: Numbering | None = None,
        limits: Limits | None = None,
        check: Check | None = None,
        stop_on: StopOn = "denied",
    ) -> None:
        """Read this protocol. ``auto`` detects it from the first payloads.

        ``quirks`` names known deviations in how a server writes arguments. With it, the arguments
        are correct while they are written, not only at the end. ``after`` is the ``numbering`` of
        the previous turn. With it, call IDs are unique in the conversation: a repeated ID is
        replaced.

        ``check`` checks the calls while they are written: see ``make_check``. ``stop_on`` names the
        rejections after which reading stops, once no other call is being written.
        """
        is_named = protocol not in ("auto", "argstream")
        if stop_on not in get_args(StopOn):
            choices = ", ".join(get_args(StopOn))
            raise UsageError(f"stop_on must be one of {choices}, not {stop_on!r}")
        _reject_bare_policy(check)
        self._stream_checks = StreamChecks(check, stop_on)
        self._provider: ProviderDecoder | None = self._use(protocol) if is_named else None
        self._read: Feed = self._read_named  # the decoder's feed, once it is known
        self._unread: list[tuple[object, str]] = []  # payloads, until the protocol is known
        self._limits = limits
        self._quirks = checked_quirks(quirks)
        self._is_empty = True  # no delta so far that begins anything
        self._calls: list[Call] = []
        is_continued, after = after is not None, after or Numbering()
        self._calls_before = after.calls
        self._turn_number = after.turns
        self._blocks = after.blocks
        self._call_ids = set(after.call_ids)
        # IDs that a new call must not get: all earlier ones of a conversation. A standalone stream
        # keeps repeated IDs, because the caller returns results under them.
        self._reserved_ids = self._call_ids if is_continued else set[str]()
        self._turn: Turn | None = None  # the current one
        self._turn_key = d.TurnSwitched()
        self._other_turns: dict[d.TurnSwitched, Turn] = {}  # open turns that are not current
        self._result_targets: dict[str, CallBuilder] = {}  # by our call ID and by the provider's
        self._past_usage = ev.Usage()  # of completed turns
        self.closed: bool = False
        """Whether it has been closed or aborted."""
        self.stopped: bool = False
        """Whether the source should be closed: a call was rejected, or the format is unknown."""

    @property
    def protocol(self) -> str:
        """The name of the protocol; ``auto`` until it is detected."""
        return "auto" if self._provider is None else self._provider.protocol

    @property
    def calls(self) -> list[Call]:
        """All calls so far, in order."""
        return list(self._calls)

    @property
    def numbering(self) -> Numbering:
        """The numbers used so far. Pass it as ``after`` to the stream of the next turn."""
        calls = self._calls_before + len(self._calls)
        return Numbering(self._turn_number, self._blocks, calls, frozenset(self._call_ids))

    @property
    def usage(self) -> ev.Usage:
        """The usage of all turns that the provider has reported so far."""
        return sum((turn.usage for turn in self._open_turns()), self._past_usage)

    def calls_from(self, start: int) -> list[Call]:
        return self._calls[start:]

    def feed(self, payload: object, event: str = "") -> list[ev.Event]:
        """Return the events of a payload (bytes, text, a dict, an SDK's object).

        ``event`` is the event name of the frame, if it has one. Never raises for bad input, except
        for an item that does not belong in a feed. After the end, payloads have no effect.
        """
        events: list[ev.Event] = []
        if self.closed:
            return events
        decoder = self._provider or self._find_decoder(payload, event, events)
        if decoder is not None:
            try:
                self._apply(self._read(payload, event), events)
            except RecursionError:
                self._fail_payload(decoder, "a payload is nested too deeply", events)
            except UsageError:
                raise  # from the neutral feed, which the caller writes
            except UnreadableError as error:
                if several := payloads_in(payload):
                    for one in several:
                        events += self.feed(one, event)
                elif event.lower() not in _HEARTBEATS:
                    self._fail_payload(decoder, str(error), events)
            except Exception as error:  # noqa: BLE001 - invariant 9: bad input does not raise
                message = f"a payload has an unexpected form ({type(error).__name__}: {error})"
                self._fail_payload(decoder, message, events)
            # A payload that ends with a piece of a string has ended no call.
            if self._stream_checks.must_stop and not (
                events and type(events[-1]) is ev.ArgumentDelta
            ):
                self._stop_if_idle(decoder, events)
        return events

    def break_off(self, code: ev.FailureCode, message: str) -> list[ev.Event]:
        """End the stream because the rest cannot be read. No open call becomes complete."""
        events: list[ev.Event] = []
        if not self.closed:
            self._fail(code, message, events)
            self._forget_turns()
        return events

    def close(self) -> list[ev.Event]:
        """End the stream. Every open call gets its verdict."""
        events: list[ev.Event] = []
        if self.closed:
            return events
        self.closed = True
        if self._provider is not None:
            self._apply(self._provider.close(), events)
            turns = self._open_turns()
            self._cut_all("the stream ended before the provider closed the call", events)
            if any(not turn.failed for turn in turns):
                message = "the stream ended before the model did"
                events.append(ev.StreamFailed("truncated", message, retryable=True))
            self._forget_turns()
        if self._is_empty and self._unread:
            first = _short.repr(self._unread[0][0]).removeprefix("b").strip("'")
            fix = "Use --from (Python: protocol=…)"
            message = f"unknown protocol: the stream begins with {first}. {fix}"
            events.append(ev.StreamFailed("unknown_protocol", message))
        elif self._is_empty:
            message = "the stream ended before a message began"
            events.append(ev.StreamFailed("empty", message, retryable=True))
        return events

    def abort(
        self, verdict: ev.InvalidVerdict = "aborted", message: str = "reading was stopped"
    ) -> list[ev.Event]:
        """End every open call with this verdict, because the rest will not be read."""
        events: list[ev.Event] = []
        if not self.closed:
            self.closed = True
            self._cut_all(message, events, verdict)
            self._forget_turns()
        return events

    def _stop_if_idle(self, decoder: ProviderDecoder, events: list[ev.Event]) -> None:
        """Stop reading after a rejection, once no other call is being written."""
        if self.closed or not self._has_rejected_call():
            self._stream_checks.must_stop = False
            return
        over = decoder.implicit_closes()
        if not self._is_busy({delta.key for delta in over}):
            self._apply(over, events)
            self._stop(events)
            self.closed = self.stopped = True

    def _fail_payload(self, decoder: ProviderDecoder, message: str, events: list[ev.Event]) -> None:
        self._apply(decoder.interrupt(), events)
        self._fail("bad_payload", replace_lone_surrogates(message), events)

    def _use(self, protocol: str) -> ProviderDecoder:
        self._stream_checks.knows_all_tools = protocol not in AGENTS
        return make_decoder(protocol)

    def _find_decoder(
        self, payload: object, event: str, events: list[ev.Event]
    ) -> ProviderDecoder | None:
        """Detect the protocol, then feed the payloads that were held until now."""
        name = detect(payload, event)
        wrapping = detect_wrapping(payload) if name is None else None
        if wrapping is not None:
            name = wrapping.protocol
        if name is None:
            if (message := explain_unsupported(payload)) is not None:
                self._fail("unknown_protocol", message, events)
                self.closed = self.stopped = True
            elif len(self._unread) < _MAX_UNREAD:
                self._unread.append((payload, event))
            return None
        decoder = self._provider = self._use(name)
        self._read = decoder.feed if wrapping is None else unwrapping(decoder.feed, wrapping.field)
        for earlier in self._unread:
            events += self.feed(*earlier)
        self._unread = []
        return decoder

    def _read_named(self, payload: object, event: str) -> list[d.Delta]:
        """Decode a payload of the protocol that the caller named.

        Used until the first payload with deltas shows whether payloads are wrapped. Before it, a
        framework may send events of its own.
        """
        decoder = self._provider
        if decoder is None:
            raise AssertionError("detection replaces this method")
        wrapping = detect_wrapping(payload)
        if wrapping is not None and wrapping.protocol == decoder.protocol:
            self._read = unwrapping(decoder.feed, wrapping.field)
            return self._read(payload, event)
        deltas = decoder.feed(payload, event)
        if deltas:
            self._read = decoder.feed
        return deltas

    def _apply(self, deltas: Sequence[d.Delta], events: list[ev.Event]) -> None:
        for delta in deltas:
            if type(delta) is d.ArgumentText and self._turn is not None:  # most deltas
                builder = self._turn.calls.get(delta.key)
                if builder is not None:
                    builder.feed(delta.text, events)
                    continue
            self._is_empty = self._is_empty and type(delta) in _NO_BEGINNING
            match delta:
                case d.TextPiece(key, text) | d.ThinkingPiece(key, text):
                    kind = TextBlock if type(delta) is d.TextPiece else ThinkingBlock
                    block = self._text_block(key, kind, events)
                    if piece := block.append(text):
                        events.append(block.event(piece))
                case d.ArgumentText(key, text):
                    self._call_builder(key, events).feed(text, events)
                case d.ArgumentValue(key, path, value, more):
                    self._call_builder(key, events).put(path, value, events, more=more)
                case d.TurnSwitched():
                    self._turn_switched(delta)
                case d.TurnOpened(id_, model):
                    self._turn_opened(id_, model, events)
                case d.ThinkingOpened(key):
                    self._text_block(key, ThinkingBlock, events)
                case d.ThinkingClosed(key):
                    if closed := self._open_turn().texts.get(key):
                        events.extend(closed.completed())
                case d.BlockCompleted():
                    self._block_completed(delta, events)
                case d.CallOpened():
                    self._call_opened(delta, events)
                case d.CallRenamed(key, name):
                    name = replace_lone_surrogates(name)
                    self._call_builder(key, events).rename(name, events)
                case d.CallClosed(key, whole, cut):
                    self._call_builder(key, events).close(whole, events, cut=cut)
                case d.CallResult():
                    self._call_result(delta, events)
                case d.Opaque(key, item):
                    self._open_turn().add_item(key, item)
                case d.TurnEnded():
                    self._turn_ended(delta, events)
                case d.UsageReported(tokens):
                    if self._turn is not None:
                        self._turn.update_usage(tokens)
                case d.TurnClosed():
                    self._turn_closed(events)
                case d.RunEnded():
                    events.append(_run_ended(delta))
                case d.ProviderFailed():
                    self._provider_failed(delta, events)

    def _fail(self, code: ev.FailureCode, message: str, events: list[ev.Event]) -> None:
        """Report unreadable data. Every open call is truncated: a piece of it may be missing."""
        self._cut_all(f"a part of the stream is unreadable: {message}", events)
        events.append(ev.StreamFailed(code, message))
        self._is_empty = False

    def _has_rejected_call(self) -> bool:
        """Return True if a call was rejected in a turn that has not ended."""
        stops_reading = self._stream_checks.stops_reading
        turns = [turn for turn in self._open_turns() if not (turn.ended or turn.failed)]
        return any(stops_reading(one.call) for turn in turns for one in turn.calls.values())

    def _is_busy(self, over: Collection[Hashable]) -> bool:
        """Return True if a call is being written, other than those whose keys are in ``over``."""
        return any(
            not (builder.has_verdict or builder.closed or (key in over and builder.is_whole))
            for turn in self._open_turns()
            for key, builder in turn.calls.items()
        )

    def _stop(self, events: list[ev.Event]) -> None:
        for turn in self._open_turns():
            self._cut(turn, "reading was stopped because a call was rejected", events, "aborted")
            if not turn.failed:
                reason = turn.stop_reason if turn.ended else "rejected"
                events.append(turn.completed(reason, "rejected", turn.characters))
        self._forget_turns()

    def _turn_switched(self, delta: d.TurnSwitched) -> None:
        if delta != self._turn_key:
            if self._turn is not None:
                self._other_turns[self._turn_key] = self._turn
            self._turn_key = delta
            self._turn = self._other_turns.pop(delta, None)

    def _open_turns(self) -> "list[Turn]":
        current = [] if self._turn is None else [self._turn]
        return current + list(self._other_turns.values())

    def _forget_turns(self) -> None:
        self._past_usage = self.usage
        self._turn = None
        self._other_turns.clear()

    def _turn_opened(self, id_: str, model: str, events: list[ev.Event]) -> None:
        turn = self._turn
        if turn is not None and turn.ended:
            self._turn_closed(events)
        elif turn is not None:
            message = "a new message began before the previous one ended"
            self._cut(turn, message, events)
            if not turn.failed:
                events.append(ev.StreamFailed("truncated", message))
            self._past_usage += turn.usage
        self._turn = self._new_turn(replace_lone_surrogates(id_), replace_lone_surrogates(model))

    def _open_turn(self) -> "Turn":
        """Return the open turn, or a new one: some providers do not announce turns."""
        if self._turn is None:
            self._turn = self._new_turn()
        return self._turn

    def _new_turn(self, id_: str = "", model: str = "") -> "Turn":
        self._turn_number += 1
        parent_id = self._turn_key.parent_id
        parent_id = None if parent_id is None else replace_lone_surrogates(parent_id)
        return Turn(self._turn_number - 1, id_, model, parent_id)

    def _turn_ended(self, delta: d.TurnEnded, events: list[ev.Event]) -> None:
        if (turn := self._turn) is None:
            return  # a repeated end
        turn.ended = True
        turn.close_thinking(events)
        reason = None if delta.stop_reason is None else replace_lone_surrogates(delta.stop_reason)
        turn.stop_reason = turn.stop_reason or reason
        for builder in turn.pop_unfinished(delta.scope):
            builder.end_turn(delta.ending, reason, events)

    def _turn_closed(self, events: list[ev.Event]) -> None:
        if (turn := self._turn) is None:
            return
        if not turn.ended:
            self._turn_ended(d.TurnEnded(None, "unknown"), events)
        self._cut(turn, "the turn ended before the provider closed the call", events)
        if not turn.failed:
            events.append(turn.completed(turn.stop_reason))
        self._past_usage += turn.usage
        self._turn = None

    def _provider_failed(self, delta: d.ProviderFailed, events: list[ev.Event]) -> None:
        code, message = replace_lone_surrogates(delta.code), replace_lone_surrogates(delta.message)
        if (turn := self._turn) is not None:  # the turns of other agents continue
            self._cut(turn, f"the provider failed: {message}", events)
            turn.failed = True
        if code == "truncated":  # reported by the decoder, not by the provider
            events.append(ev.StreamFailed("truncated", message, delta.retryable))
        else:
            events.append(ev.StreamFailed("provider_error", message, delta.retryable, code))

    def _cut(
        self,
        turn: "Turn",
        message: str,
        events: list[ev.Event],
        verdict: ev.InvalidVerdict = "truncated",
    ) -> None:
        turn.close_thinking(events)
        for builder in turn.pop_unfinished():
            builder.cut(message, events, verdict)

    def _cut_all(
        self, message: str, events: list[ev.Event], verdict: ev.InvalidVerdict = "truncated"
    ) -> None:
        for turn in self._open_turns():
            self._cut(turn, message, events, verdict)

    def _text_block(
        self, key: Hashable, kind: "type[TextBlock]", events: list[ev.Event]
    ) -> "TextBlock":
        """Return the open block with this key, or a new one of this kind."""
        turn = self._open_turn()
        block = turn.texts.get(key)
        if block is None or block.closed:
            block = kind(self._blocks, turn.parent_id)
            self._blocks += 1
            turn.open_text(key, block)
            events.extend(block.started())
        return block

    def _block_completed(self, delta: d.BlockCompleted, events: list[ev.Event]) -> None:
        block = self._open_turn().texts.get(delta.block)
        known = "" if block is None else block.text
        if len(delta.text) > len(known) and delta.text.startswith(known):
            piece = d.ThinkingPiece if delta.is_thinking else d.TextPiece
            self._apply([piece(delta.block, delta.text[len(known) :])], events)

    def _call_opened(self, delta: d.CallOpened, events: list[ev.Event]) -> None:
        turn = self._open_turn()
        sent_id = replace_lone_surrogates(delta.id)
        is_taken = any(sent_id in one.ids for one in self._open_turns())
        is_new = sent_id and not is_taken and sent_id not in self._reserved_ids
        id_ = sent_id if is_new else turn.make_id(sent_id, self._call_ids)
        if not is_new:
            self._reserved_ids.add(id_)
        self._call_ids.add(id_)
        index = self._calls_before + len(self._calls)
        call = Call(id_, index, replace_lone_surrogates(delta.name), delta.kind, turn.parent_id)
        quirks = () if delta.kind in d.FREE_TEXT_KINDS else self._quirks
        builder = CallBuilder(call, self._limits, make_quirks(quirks), self._stream_checks)
        if sent_id and sent_id != id_:
            builder.item = {"id": sent_id}  # results must be returned with this ID
        if (before := turn.calls.get(delta.key)) is not None:
            before.cut("another call with the same key started before it was closed", events)
        turn.open_call(delta.key, builder)
        self._calls.append(call)
        for known_id in {id_, sent_id or id_}:
            self._add_result_target(known_id, builder)
        builder.start(events, may_be_renamed=delta.may_be_renamed)

    def _add_result_target(self, id_: str, builder: CallBuilder) -> None:
        """Route results with this ID to the newest call, or to one that the provider runs."""
        before = self._result_targets.get(id_)
        expects_result = before is not None and before.is_run_by_provider and not before.has_result
        if builder.is_run_by_provider or not expects_result:
            self._result_targets[id_] = builder

    def _call_builder(self, key: Hashable, events: list[ev.Event]) -> CallBuilder:
        """Return the call with this key, or a new one without a name."""
        calls = self._open_turn().calls
        if key not in calls:
            self._call_opened(d.CallOpened(key, "", ""), events)
        return calls[key]

    def _call_result(self, delta: d.CallResult, events: list[ev.Event]) -> None:
        builder = self._result_targets.get(replace_lone_surrogates(delta.call_id))
        call_id = replace_lone_surrogates(delta.call_id) if builder is None else builder.call.id
        result = replace_lone_surrogates_in_json(delta.result)
        is_providers = builder is not None and builder.is_run_by_provider
        is_agents = not is_providers and delta.block is None  # not a block of the model's message
        if builder is not None and not (is_providers or is_agents):
            return  # a model has no results of calls that its client runs (invariant 14)
        # Only a result of the provider, inside a turn, becomes part of the message.
        if self._turn is not None and not is_agents:
            part = ResultPart(call_id=call_id, result=result, failed=delta.failed)
            self._turn.add_result(delta.block, part)
        if builder is None or builder.has_result:
            return
        call = builder.call
        if is_agents and delta.failed:
            builder.cut("the tool failed before the provider closed the call", events)
        else:
            builder.end_turn("finished", None, events)  # the call ran, so its text is complete
        if not builder.has_verdict:
            return
        builder.has_result = True
        if delta.failed:
            events.append(ev.ToolCallFailed(call_id, call.name, result))
        else:
            _, arguments = builder.outcome()
            events.append(ev.ToolCallCompleted(call_id, call.name, arguments, result))


def _run_ended(delta: d.RunEnded) -> ev.RunCompleted | ev.RunFailed:
    code = replace_lone_surrogates(delta.code)
    result = replace_lone_surrogates_in_json(delta.result)
    usage = ev.Usage(*delta.tokens)
    if delta.failed:
        return ev.RunFailed(code, result if isinstance(result, str) else code, usage=usage)
    return ev.RunCompleted(result, usage)


class TextBlock:
    closed = False

    def __init__(self, number: int, parent_id: str | None) -> None:
        self.number = number
        self.parent_id = parent_id
        self.item: Item | None = None
        self.text = ""
        self._surrogates = SurrogateReplacer()

    def append(self, piece: str) -> str:
        """Append a piece. Return it with surrogate pairs joined."""
        if not piece.isascii() or self._surrogates.held:
            piece = self._surrogates.feed(piece)
        text, self.text = self.text, ""
        text += piece  # in place: nothing else refers to it (invariant 6)
        self.text = text
        return piece

    def event(self, piece: str) -> ev.Event:
        return ev.TextDelta(piece, self.number, self.parent_id)

    def started(self) -> list[ev.Event]:
        return []

    def completed(self) -> list[ev.Event]:
        return []

    def part(self) -> Part | None:
        text = self.text + self._surrogates.close()
        return TextPart(text=text, item=self.item) if text or self.item else None


class ThinkingBlock(TextBlock):
    def event(self, piece: str) -> ev.Event:
        return ev.ThinkingDelta(piece, self.number, self.parent_id)

    def started(self) -> list[ev.Event]:
        return [ev.ThinkingStarted(self.number, self.parent_id)]

    def completed(self) -> list[ev.Event]:
        if self.closed:
            return []
        self.closed = True
        self.text += self._surrogates.close()
        return [ev.ThinkingCompleted(self.text, self.number, self.parent_id)]

    def part(self) -> Part | None:
        return ThinkingPart(text=self.text, item=self.item)


class _SilentBlock:
    """A block that creates no events: a result, or data that only its provider reads."""

    def __init__(self, part: OpaquePart | ResultPart) -> None:
        self.item: Item | None = None
        self._part = part

    def part(self) -> Part | None:
        return self._part if self.item is None else replace(self._part, item=self.item)


class Turn:
    """The blocks of one message, by the provider's keys."""

    def __init__(self, number: int, id_: str, model: str, parent_id: str | None) -> None:
        self.id = id_
        self.model = model
        self.parent_id = parent_id
        self._number = number
        self.calls: dict[Hashable, CallBuilder] = {}
        self._unfinished: dict[Hashable, CallBuilder] = {}
        self.ids: set[str] = set()
        self._last_number = 0  # the number in the newest generated call ID
        self.ended = False
        self.failed = False
        self.stop_reason: str | None = None
        self._tokens = d.Tokens()
        self.texts: dict[Hashable, TextBlock] = {}
        self._results: dict[Hashable, _SilentBlock] = {}
        self._blocks: list[TextBlock | CallBuilder | _SilentBlock] = []  # in order

    @property
    def usage(self) -> ev.Usage:
        return ev.Usage(*self._tokens)

    def update_usage(self, tokens: d.Tokens) -> None:
        """Replace the counts that are not None. Providers send cumulative counts."""
        before = self._tokens
        self._tokens = d.Tokens(
            *[b if a is None else a for a, b in zip(tokens, before, strict=True)]
        )

    def open_text(self, block: Hashable, text: TextBlock) -> None:
        self.texts[block] = text
        self._blocks.append(text)

    def open_call(self, key: Hashable, call: CallBuilder) -> None:
        self.calls[key] = call
        self._unfinished[key] = call
        self.ids.add(call.call.id)
        self._blocks.append(call)

    def close_thinking(self, events: list[ev.Event]) -> None:
        for block in self.texts.values():
            events.extend(block.completed())

    def add_item(self, block: Hashable, item: Any) -> None:
        """Store the provider's own form of a block. Add a new block if the key is unknown."""
        item = replace_lone_surrogates_in_json(dict(item))
        owner = self.texts.get(block) or self.calls.get(block) or self._results.get(block)
        if owner is None:
            owner = _SilentBlock(OpaquePart(item={}))
            self._blocks.append(owner)
        owner.item = {**(owner.item or {}), **item}

    def add_result(self, block: Hashable, result: ResultPart) -> None:
        added = _SilentBlock(result)
        if block is not None:
            self._results[block] = added
        self._blocks.append(added)

    def pop_unfinished(self, scope: Hashable = None) -> list[CallBuilder]:
        """Remove and return the calls that may still need a verdict. The caller finishes them."""
        unfinished, self._unfinished = self._unfinished, {}
        if scope is not None:  # only the calls of one choice
            for key in [key for key in unfinished if not isinstance(key, tuple) or key[0] != scope]:
                self._unfinished[key] = unfinished.pop(key)
        return list(unfinished.values())

    def make_id(self, stem: str, taken: Collection[str]) -> str:
        """Return an unused ID for a call without one, the same each time the stream is read."""
        prefix = f"call_{stem or self.id or 'turn'}_{self._number}"
        self._last_number = max(self._last_number, len(self.ids))
        while (id_ := f"{prefix}_{self._last_number}") in taken:
            self._last_number += 1  # never reset, so each taken ID is tested once (invariant 6)
        return id_

    @property
    def characters(self) -> int:
        return sum(
            len(block.call.raw if isinstance(block, CallBuilder) else block.text)
            for block in self._blocks
            if not isinstance(block, _SilentBlock)
        )

    def completed(
        self, reason: str | None, stop: ev.StopKind | None = None, read: int | None = None
    ) -> ev.TurnCompleted:
        parts = tuple(part for block in self._blocks if (part := block.part()) is not None)
        stop = stop or stop_kind(reason)
        calls = (part for part in parts if isinstance(part, CallPart))
        if stop == "end_turn" and any(call.kind not in d.RUN_BY_PROVIDER for call in calls):
            stop = "tool_calls"  # some providers send the same stop reason with and without calls
        message = Message(role="assistant", parts=parts, id=self.id, model=self.model)
        return ev.TurnCompleted(reason, message, self.usage, self.parent_id, read, stop)


def _reject_bare_policy(check: Check | None) -> None:
    """Raise UsageError for a policy that can answer ``ask``, which would be ignored."""
    if getattr(check, "can_ask", False):
        raise UsageError(
            'the policy can answer "ask". Pass check=make_check(policy=policy, on_ask="deny") to '
            'reject such calls, or on_ask="report" to complete them with the answer in '
            "ToolArgsCompleted.policy_decision"
        )
