"""Deltas → events. Each speaker has one open turn at a time; each call has a machine of its own."""

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

from argstream.assembly._call_machine import CallMachine
from argstream.assembly._court import Court
from argstream.assembly._quirks import Quirk, make_quirks
from argstream.assembly._surrogates import mended, mended_json
from argstream.assembly._turn import Thought, Turn, Words
from argstream.assembly.call import Call
from argstream.assembly.numbering import Numbering
from argstream.deltas import (
    FREE_TEXT_KINDS,
    ArgumentText,
    ArgumentValue,
    BlockSaid,
    CallClosed,
    CallOpened,
    CallRenamed,
    CallResult,
    Delta,
    Opaque,
    ProviderFailed,
    RunEnded,
    SpeakerChanged,
    TextPiece,
    ThinkingClosed,
    ThinkingOpened,
    ThinkingPiece,
    TurnClosed,
    TurnEnded,
    TurnOpened,
    UsageReported,
)
from argstream.events import (
    Event,
    InvalidVerdict,
    RunCompleted,
    RunFailed,
    StreamFailed,
    ToolCallCompleted,
    ToolCallFailed,
    TurnCompleted,
    Usage,
)
from argstream.history import ResultPart
from argstream.jsonstream import Limits

__all__ = ["EventBuilder"]


class EventBuilder:
    """What has been said so far, and the events that follow from what is said next."""

    def __init__(
        self,
        after: Numbering | None,
        limits: Limits | None,
        quirks: tuple[Quirk, ...],
        court: Court | None = None,
    ) -> None:
        is_continued, after = after is not None, after or Numbering()
        self.calls: list[Call] = []
        self.is_empty = True
        """Whether nothing has been said at all."""
        self._after = after
        self._turn_number = after.turns
        self._limits = limits
        self._court = court or Court()
        self._quirks = quirks
        self._turn: Turn | None = None  # of whoever speaks now
        self._speaker = SpeakerChanged()
        self._other_turns: dict[SpeakerChanged, Turn] = {}  # of others
        self._result_targets: dict[str, CallMachine] = {}  # by our call ID and by the provider's
        self._call_ids = set(after.call_ids)
        # IDs that a new call must not get: all earlier ones of a conversation. A standalone stream
        # keeps repeated IDs, because the caller returns results under them.
        self._reserved_ids = self._call_ids if is_continued else set[str]()
        self._blocks = after.blocks
        self._past_usage = Usage()  # of turns that are over
        self._handlers: dict[type, Callable[[Any, list[Event]], None]] = {
            SpeakerChanged: self._speaker_changed,
            TurnOpened: self._turn_opened,
            TextPiece: self._text,
            ThinkingOpened: self._thinking_opened,
            ThinkingPiece: self._thinking,
            ThinkingClosed: self._thinking_closed,
            BlockSaid: self._block_said,
            CallOpened: self._call_opened,
            CallRenamed: self._call_renamed,
            ArgumentText: self._argument_text,
            ArgumentValue: self._argument_value,
            CallClosed: self._call_closed,
            CallResult: self._call_result,
            Opaque: self._opaque,
            TurnEnded: self._turn_ended,
            UsageReported: self._usage_reported,
            TurnClosed: self._turn_closed,
            RunEnded: self._run_ended,
            ProviderFailed: self._provider_failed,
        }

    @property
    def numbering(self) -> Numbering:
        """How much has come, for the stream that follows."""
        calls = self._after.calls + len(self.calls)
        return Numbering(self._turn_number, self._blocks, calls, frozenset(self._call_ids))

    @property
    def usage(self) -> Usage:
        """The usage reported so far, of all turns."""
        return sum((turn.usage for turn in self._open_turns()), self._past_usage)

    def take(self, deltas: Sequence[Delta], events: list[Event]) -> None:
        """Add the events that these deltas mean."""
        for delta in deltas:
            if type(delta) is ArgumentText and self._turn is not None:  # nearly always
                machine = self._turn.machines.get(delta.key)
                if machine is not None:
                    machine.grow(delta.text, events)
                    continue
            self.is_empty = self.is_empty and type(delta) is UsageReported
            self._handlers[type(delta)](delta, events)

    def lost(self, code: str, message: str, events: list[Event], *, is_end: bool) -> None:
        """Say that something came that cannot be read: no open call can be trusted any more."""
        self._cut_all(f"a part of the stream was lost: {message}", events)
        events.append(StreamFailed(code, message))
        self.is_empty = False
        if is_end:
            self._forget_turns()

    def end(self, events: list[Event]) -> None:
        """Say that nothing more comes."""
        turns = self._open_turns()
        self._cut_all("the stream ended before the provider closed the call", events)
        if any(not turn.failed for turn in turns):
            message = "the stream ended before the model did"
            events.append(StreamFailed("truncated", message, retryable=True))
        self._forget_turns()

    def abort(self, verdict: InvalidVerdict, message: str, events: list[Event]) -> None:
        """End every open call with this verdict."""
        self._cut_all(message, events, verdict)
        self._forget_turns()

    def is_worth_stopping(self) -> bool:
        """Say whether a call was refused in a turn of which more may come."""
        is_final = self._court.is_final
        turns = [turn for turn in self._open_turns() if not (turn.ended or turn.failed)]
        return any(is_final(one.call) for turn in turns for one in turn.machines.values())

    def is_busy(self, over: Collection[Hashable]) -> bool:
        """Say whether a call goes on, other than those that are over, by their keys."""
        return any(
            not (machine.settled or machine.closed or (key in over and machine.is_whole))
            for turn in self._open_turns()
            for key, machine in turn.machines.items()
        )

    def stop(self, events: list[Event]) -> None:
        """End all turns here: a call was refused, and nobody wants the rest."""
        for turn in self._open_turns():
            self._cut(turn, "reading was stopped, since a call was rejected", events, "aborted")
            if not turn.failed:
                reason = turn.stop_reason if turn.ended else "rejected"
                message, read = turn.message(), turn.characters
                events.append(TurnCompleted(reason, message, turn.usage, turn.parent_id, read))
        self._forget_turns()

    # Turns

    def _speaker_changed(self, delta: SpeakerChanged, events: list[Event]) -> None:  # noqa: ARG002 - as all
        if delta != self._speaker:
            if self._turn is not None:
                self._other_turns[self._speaker] = self._turn
            self._speaker = delta
            self._turn = self._other_turns.pop(delta, None)

    def _open_turns(self) -> list[Turn]:
        now = [] if self._turn is None else [self._turn]
        return now + list(self._other_turns.values())

    def _forget_turns(self) -> None:
        self._past_usage = self.usage
        self._turn = None
        self._other_turns.clear()

    def _turn_opened(self, delta: TurnOpened, events: list[Event]) -> None:
        turn = self._turn
        if turn is not None and turn.ended:
            self._turn_closed(TurnClosed(), events)
        elif turn is not None:
            message = "a new message began before this one had ended"
            self._cut(turn, message, events)
            if not turn.failed:
                events.append(StreamFailed("truncated", message))
            self._past_usage += turn.usage
        self._turn = self._new_turn(mended(delta.id), mended(delta.model))

    def _open_turn(self) -> Turn:
        """Give the open turn. Providers that do not say when one begins have it begun here."""
        if self._turn is None:
            self._turn = self._new_turn()
        return self._turn

    def _new_turn(self, id_: str = "", model: str = "") -> Turn:
        self._turn_number += 1
        parent_id = self._speaker.parent_id
        parent_id = None if parent_id is None else mended(parent_id)
        return Turn(self._turn_number - 1, id_, model, parent_id)

    def _turn_ended(self, delta: TurnEnded, events: list[Event]) -> None:
        if (turn := self._turn) is None:
            return  # said twice
        turn.ended = True
        self._close_thoughts(turn, events)
        reason = None if delta.stop_reason is None else mended(delta.stop_reason)
        turn.stop_reason = turn.stop_reason or reason
        for machine in turn.take_unsettled(delta.scope):
            machine.end(delta.ending, reason, events)

    def _usage_reported(self, delta: UsageReported, events: list[Event]) -> None:  # noqa: ARG002 - as all
        if self._turn is not None:
            self._turn.report(delta.tokens)

    def _turn_closed(self, delta: TurnClosed, events: list[Event]) -> None:  # noqa: ARG002 - as all
        if (turn := self._turn) is None:
            return
        if not turn.ended:
            self._turn_ended(TurnEnded(None, "unknown"), events)
        self._cut(turn, "the turn was over before the provider closed the call", events)
        if not turn.failed:
            message = turn.message()
            events.append(TurnCompleted(turn.stop_reason, message, turn.usage, turn.parent_id))
        self._past_usage += turn.usage
        self._turn = None

    def _run_ended(self, delta: RunEnded, events: list[Event]) -> None:
        code, result = mended(delta.code), mended_json(delta.result)
        if delta.failed:
            message = result if isinstance(result, str) else code
            events.append(RunFailed(code, message, usage=Usage(*delta.tokens)))
        else:
            events.append(RunCompleted(result, Usage(*delta.tokens)))

    def _provider_failed(self, delta: ProviderFailed, events: list[Event]) -> None:
        code, message = mended(delta.code), mended(delta.message)
        if (turn := self._turn) is not None:  # other agents may go on
            self._cut(turn, f"the provider failed: {message}", events)
            turn.failed = True
        events.append(StreamFailed(code, message, delta.retryable))

    def _cut(
        self, turn: Turn, message: str, events: list[Event], verdict: InvalidVerdict = "truncated"
    ) -> None:
        self._close_thoughts(turn, events)
        for machine in turn.take_unsettled():
            machine.cut(message, events, verdict)

    def _cut_all(
        self, message: str, events: list[Event], verdict: InvalidVerdict = "truncated"
    ) -> None:
        for turn in self._open_turns():
            self._cut(turn, message, events, verdict)

    # Text and thinking

    def _next_block(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    def _text(self, delta: TextPiece, events: list[Event]) -> None:
        turn = self._open_turn()
        words = turn.words(delta.block)
        if words is None:
            words = Words(self._next_block(), turn.parent_id)
            turn.open_words(delta.block, words)
        if piece := words.grow(delta.text):
            events.append(words.event(piece))

    def _thought(self, block: Hashable, events: list[Event]) -> Words:
        turn = self._open_turn()
        words = turn.words(block)
        if words is None or (isinstance(words, Thought) and words.closed):
            words = Thought(self._next_block(), turn.parent_id)
            turn.open_words(block, words)
            events.append(words.started())
        return words

    def _block_said(self, delta: BlockSaid, events: list[Event]) -> None:
        words = self._open_turn().words(delta.block)
        known = "" if words is None else words.text
        if len(delta.text) > len(known) and delta.text.startswith(known):
            rest = delta.text[len(known) :]
            if delta.is_thinking:
                self._thinking(ThinkingPiece(delta.block, rest), events)
            else:
                self._text(TextPiece(delta.block, rest), events)

    def _thinking_opened(self, delta: ThinkingOpened, events: list[Event]) -> None:
        self._thought(delta.block, events)

    def _thinking(self, delta: ThinkingPiece, events: list[Event]) -> None:
        words = self._thought(delta.block, events)
        if piece := words.grow(delta.text):
            events.append(words.event(piece))

    def _thinking_closed(self, delta: ThinkingClosed, events: list[Event]) -> None:
        thought = self._open_turn().words(delta.block)
        if isinstance(thought, Thought) and not thought.closed:
            events.append(thought.completed())

    def _close_thoughts(self, turn: Turn, events: list[Event]) -> None:
        events.extend(thought.completed() for thought in turn.take_thoughts())

    # Calls

    def _call_opened(self, delta: CallOpened, events: list[Event]) -> None:
        turn = self._open_turn()
        given = mended(delta.id)
        is_new = given and not turn.has_id(given) and given not in self._reserved_ids
        id_ = given if is_new else turn.make_id(given, self._call_ids)
        if not is_new:
            self._reserved_ids.add(id_)
        self._call_ids.add(id_)
        index = self._after.calls + len(self.calls)
        call = Call(id_, index, mended(delta.name), delta.kind, turn.parent_id)
        quirks = () if delta.kind in FREE_TEXT_KINDS else self._quirks
        machine = CallMachine(call, self._limits, make_quirks(quirks), self._court)
        if given != id_ and given:
            machine.item = {"id": given}  # results must go back under it
        if (before := turn.machines.get(delta.key)) is not None:
            before.cut("another call took its place before it was closed", events)
        turn.open_call(delta.key, machine)
        self.calls.append(call)
        for known_as in {id_, given or id_}:
            self._add_result_target(known_as, machine)
        machine.start(events, may_be_renamed=delta.may_be_renamed)

    def _add_result_target(self, id_: str, machine: CallMachine) -> None:
        """Direct results under this ID to the newest call, or to one that the provider runs."""
        before = self._result_targets.get(id_)
        expects_result = before is not None and before.is_run_by_provider and not before.has_result
        if machine.is_run_by_provider or not expects_result:
            self._result_targets[id_] = machine

    def _machine(self, key: Hashable, events: list[Event]) -> CallMachine:
        """Give the call with this key; one that was never opened has no name."""
        machines = self._open_turn().machines
        if key not in machines:
            self._call_opened(CallOpened(key, "", ""), events)
        return machines[key]

    def _call_renamed(self, delta: CallRenamed, events: list[Event]) -> None:
        self._machine(delta.key, events).rename(mended(delta.name), events)

    def _argument_text(self, delta: ArgumentText, events: list[Event]) -> None:
        self._machine(delta.key, events).grow(delta.text, events)

    def _argument_value(self, delta: ArgumentValue, events: list[Event]) -> None:
        self._machine(delta.key, events).put(delta.path, delta.value, events, more=delta.more)

    def _call_closed(self, delta: CallClosed, events: list[Event]) -> None:
        self._machine(delta.key, events).close(delta.text, events, cut=delta.cut)

    def _call_result(self, delta: CallResult, events: list[Event]) -> None:
        machine = self._result_targets.get(mended(delta.call_id))
        call_id = mended(delta.call_id) if machine is None else machine.call.id
        result = mended_json(delta.result)
        is_providers = machine is not None and machine.is_run_by_provider
        is_agents = not is_providers and delta.block is None  # not said by the model itself
        if machine is not None and not (is_providers or is_agents):
            return  # a model has no results of calls that its client runs (invariant 14)
        # Between two turns, whoever ran it also keeps its result, as an agent does at all times.
        if self._turn is not None and not is_agents:
            kept = ResultPart(call_id=call_id, result=result, failed=delta.failed)
            self._turn.keep_result(delta.block, kept)
        if machine is None or machine.has_result:
            return
        call = machine.call
        if is_agents and delta.failed:
            machine.cut("it failed before the provider closed the call", events)
        else:
            machine.end("finished", None, events)  # it was run, so nothing of it was cut
        if not machine.settled:
            return
        machine.has_result = True
        if delta.failed:
            events.append(ToolCallFailed(call_id, call.name, result))
        else:
            _, arguments = machine.outcome()
            events.append(ToolCallCompleted(call_id, call.name, arguments, result))

    def _opaque(self, delta: Opaque, events: list[Event]) -> None:  # noqa: ARG002 - as all
        self._open_turn().keep(delta.block, delta.item)
