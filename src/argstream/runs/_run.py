"""What a viewer knows of a run: its events, folded into one ``RunSnapshot``.

A view takes events one after the other, and returns a snapshot at any moment. A viewer that goes on
from a snapshot, with the events that follow, knows what those know that took all events. Taking an
event costs what the event holds: a text that grows is never copied. A snapshot shares nothing that
could be changed with the events or the view.

``events_of`` is the reverse: it shows a snapshot as events. ``with_arguments`` adds the events of
arguments, which logs do not keep.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from math import isinf
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    BlockSnapshot,
    CallSnapshot,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStarted,
    RunStopped,
    TextDelta,
    TextSnapshot,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingSnapshot,
    ThinkingStarted,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolOutputDelta,
    TurnCompleted,
    TurnStarted,
    Usage,
)
from argstream.history import CallKind
from argstream.jsonstream import Done, Fragment, Invalid, Limits, Parser, Start, Text
from argstream.providers._deltas import FREE_TEXT_KINDS

_Whole = TypeVar("_Whole", bound=Struct)
_MAY_MEAN_AN_OBJECT: Final = ("object", "string", "null")  # kinds of JSON values


class SnapshotBuilder:
    """A run, as far as its events were taken.

    >>> view = SnapshotBuilder()
    >>> for event in (RunStarted("r1", "Hi"), TextDelta("Hel", 0), TextDelta("lo", 0)):
    ...     view.take(event)
    >>> [block.text for block in view.snapshot().blocks]
    ['Hello']
    """

    def __init__(self) -> None:
        self._run = RunSnapshot("", "running", "", (), (), 0, Usage())  # all of it but its blocks
        self._blocks: list[_Words | _Call] = []
        self._words: dict[tuple[int, str | None], _Words] = {}
        self._calls: dict[str, _Call] = {}

    @classmethod
    def of(cls, snapshot: RunSnapshot) -> "SnapshotBuilder":
        view = cls()
        view.take(snapshot)
        return view

    def take(self, event: Event) -> None:
        """Apply the next event. A ``RunSnapshot`` replaces all before it."""
        match event:
            case ToolArgsDelta(call_id=call_id, name=name, delta=piece):
                if (call := self._call(call_id, name)) is not None:
                    call.write(piece)
            case TextDelta(text=piece, block=block, parent_id=parent_id):
                self._open(block, parent_id, TextSnapshot).grow(piece)
            case ThinkingDelta(text=piece, block=block, parent_id=parent_id):
                self._open(block, parent_id, ThinkingSnapshot).grow(piece)
            case ToolOutputDelta(call_id=call_id, name=name, text=piece):
                if (call := self._call(call_id, name)) is not None:
                    call.put_out(piece)
            case _:
                self._change(event)

    def snapshot(self) -> RunSnapshot:
        blocks = tuple(block.seen() for block in self._blocks)
        return _own(replace(self._run, blocks=blocks))

    def _change(self, event: Event) -> None:
        match event:
            case ThinkingStarted(block=block, parent_id=parent_id):
                self._begin_words(block, parent_id, ThinkingSnapshot)
            case ThinkingCompleted(text=text, block=block, parent_id=parent_id):
                self._open(block, parent_id, ThinkingSnapshot).end(text)
            case ToolCallStarted():
                self._add(
                    CallSnapshot(
                        call_id=event.call_id,
                        index=event.index,
                        name=event.name,
                        kind=event.kind,
                        parent_id=event.parent_id,
                        turn=self._run.turns,
                    )
                )
            case (
                ToolArgsCompleted(call_id=call_id, name=name)
                | ToolArgsInvalid(call_id=call_id, name=name)
                | ApprovalRequested(call_id=call_id, name=name)
                | ApprovalDecided(call_id=call_id, name=name)
                | ToolExecutionStarted(call_id=call_id, name=name)
                | ToolCallCompleted(call_id=call_id, name=name)
                | ToolCallFailed(call_id=call_id, name=name)
            ):
                if (call := self._call(call_id, name)) is not None:
                    call.note(event)
            case _:
                self._change_run(event)

    def _change_run(self, event: Event) -> None:
        run = self._run
        match event:
            case TurnStarted(turn=turn, attempt=attempt):
                self._run = replace(run, turns=turn)
                if attempt > 1:
                    self._lose(turn)
            case TurnCompleted(usage=usage, stop_reason=reason, parent_id=parent_id):
                reason = reason if parent_id is None else run.stop_reason
                self._run = replace(run, usage=run.usage + usage, stop_reason=reason)
            case RunStarted(run_id=run_id, prompt=prompt):
                self._run = replace(run, run_id=run_id, prompt=prompt, history=_own(event).history)
            case RunPaused():
                self._run = replace(run, status="paused")
            case RunResumed():
                self._run = replace(run, status="running")
            case RunCompleted():
                self._run = replace(run, status="completed", end=_own(event))
            case RunFailed(usage=usage) | RunStopped(usage=usage):
                status = "failed" if isinstance(event, RunFailed) else "stopped"
                # With that of a turn that did not complete. Older logs do not have it.
                usage = run.usage if usage == Usage() else usage
                self._run = replace(run, status=status, end=event, usage=usage)
            case RunSnapshot():
                self._begin_with(_own(event))
            case _:
                pass  # not in a snapshot: arguments that others compute, failures

    def _begin_with(self, snapshot: RunSnapshot) -> None:
        self._run = replace(snapshot, blocks=())
        self._blocks.clear()
        self._words.clear()
        self._calls.clear()
        for seen in snapshot.blocks:
            self._add(seen)

    def _lose(self, turn: int) -> None:
        for block in reversed(self._blocks):
            if block.turn != turn:
                break
            block.is_lost = True

    # Blocks. After a lost attempt of a turn, the next may use the same numbers and ids.

    def _add(self, seen: BlockSnapshot) -> None:
        block: _Words | _Call
        if isinstance(seen, CallSnapshot):
            block = self._calls[seen.call_id] = _Call(seen)
        else:
            block = self._words[seen.block, seen.parent_id] = _Words(seen)
        self._blocks.append(block)

    def _open(
        self, block: int, parent_id: str | None, kind: type[TextSnapshot | ThinkingSnapshot]
    ) -> "_Words":
        """Return the block that grows. Text blocks have no event for their beginning."""
        words = self._words.get((block, parent_id))
        if words is None or words.is_lost:
            self._begin_words(block, parent_id, kind)
        return self._words[block, parent_id]

    def _begin_words(
        self, block: int, parent_id: str | None, kind: type[TextSnapshot | ThinkingSnapshot]
    ) -> None:
        self._add(kind(block=block, text="", parent_id=parent_id, turn=self._run.turns))

    def _call(self, call_id: str, name: str) -> "_Call | None":
        """Return a call, under the name that it has by now; None if it never began."""
        call = self._calls.get(call_id)
        if call is not None:
            call.name = name
        return call


class _Words:
    """A text or thinking block. Its text grows in place."""

    __slots__ = ("_facts", "_text", "is_lost", "turn")

    def __init__(self, seen: TextSnapshot | ThinkingSnapshot) -> None:
        self._text = seen.text
        self._facts = replace(seen, text="")
        self.turn = seen.turn
        self.is_lost = seen.is_lost

    def grow(self, piece: str) -> None:
        # In place only while nothing else refers to the text (invariant 6).
        text, self._text = self._text, ""
        text += piece
        self._text = text

    def end(self, text: str) -> None:
        self._text = text
        self._facts = replace(self._facts, is_over=True)

    def seen(self) -> TextSnapshot | ThinkingSnapshot:
        return replace(self._facts, text=self._text, is_lost=self.is_lost)


class _Call:
    __slots__ = ("_facts", "_output", "_raw", "is_lost", "name", "turn")

    def __init__(self, seen: CallSnapshot) -> None:
        self._raw = seen.raw
        self._output = seen.output
        self._facts = replace(seen, raw="", output="")
        self.name = seen.name
        self.turn = seen.turn
        self.is_lost = seen.is_lost

    def write(self, piece: str) -> None:
        raw, self._raw = self._raw, ""
        raw += piece
        self._raw = raw

    def put_out(self, piece: str) -> None:
        output, self._output = self._output, ""
        output += piece
        self._output = output

    def note(self, event: Event) -> None:
        match event:
            case ToolArgsCompleted(arguments=arguments):
                self._update(verdict="complete", arguments=_own_value(arguments))
            case ToolArgsInvalid(verdict=verdict, error=error):
                self._update(verdict=verdict, error=error)
            case ApprovalRequested():
                self._update(request=_own(event))
            case ApprovalDecided():
                self._update(decision=_own(event))
            case ToolExecutionStarted(attempt=attempt):
                self._update(attempts=attempt)
            case ToolCallCompleted(arguments=arguments, result=result):
                arguments, result = _own_value(arguments), _own_value(result)
                self._update(outcome="completed", arguments=arguments, result=result)
            case ToolCallFailed(error=error):
                self._update(outcome="failed", result=_own_value(error))
            case _:
                pass

    def seen(self) -> CallSnapshot:
        return replace(
            self._facts, name=self.name, raw=self._raw, output=self._output, is_lost=self.is_lost
        )

    def _update(self, **facts: Any) -> None:
        self._facts = replace(self._facts, **facts)


def _own(whole: _Whole) -> _Whole:
    """Return a copy that shares nothing."""
    return msgspec.json.decode(msgspec.json.encode(whole), type=type(whole))


def _own_value(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def events_of(snapshot: RunSnapshot, *, with_text: bool = True) -> Iterator[Event]:
    """Yield events that show what a snapshot holds.

    ``with_text`` tells whether complete arguments come with their text, too.
    """
    yield RunStarted(snapshot.run_id, snapshot.prompt, snapshot.history)
    begun = 0
    for turn, blocks in groupby(snapshot.blocks, lambda block: block.turn):
        yield from _turns(begun, turn)
        begun = turn
        yield from _turn(turn, blocks, with_text=with_text)
    yield from _turns(begun, snapshot.turns)
    if snapshot.end is not None:
        yield snapshot.end
    elif snapshot.status == "paused":
        yield RunPaused(snapshot.run_id, tuple(pending_of(snapshot)))


def pending_of(told: Event) -> Iterator[ApprovalRequested]:
    """Yield the requests that wait for a decision. Only snapshots have any."""
    for call in told.blocks if isinstance(told, RunSnapshot) else ():
        if isinstance(call, CallSnapshot) and call.request is not None:
            is_open = call.decision is None and call.outcome is None
            if is_open and not call.is_lost:
                yield call.request


def is_waiting(snapshot: RunSnapshot) -> bool:
    """Return True if a run waits for a decision though it does not pause.

    Only observed runs do, which have no turns. Other parts of them may go on meanwhile.
    """
    return snapshot.end is None and not snapshot.turns and any(pending_of(snapshot))


def _turns(begun: int, turn: int) -> Iterator[Event]:
    for number in range(begun + 1, turn + 1):
        yield TurnStarted(number)


def _turn(turn: int, blocks: Iterable[BlockSnapshot], *, with_text: bool) -> Iterator[Event]:
    """Yield the events of a turn, those of lost attempts first.

    The number of attempts is not known. But in each of them, a number or an ID occurs once.
    """
    attempt = 1
    seen: set[object] = set()
    was_lost = False
    for block in blocks:
        name = block.call_id if isinstance(block, CallSnapshot) else (block.block, block.parent_id)
        if (was_lost and not block.is_lost) or (block.is_lost and name in seen):
            attempt += 1
            seen.clear()
            yield TurnStarted(turn, attempt)
        seen.add(name)
        was_lost = block.is_lost
        yield from _events_of_block(block, with_text=with_text)
    if was_lost:
        yield TurnStarted(turn, attempt + 1)


def _events_of_block(block: BlockSnapshot, *, with_text: bool) -> Iterator[Event]:
    match block:
        case TextSnapshot(block=number, text=text, parent_id=parent_id):
            yield TextDelta(text, number, parent_id)
        case ThinkingSnapshot(block=number, text=text, parent_id=parent_id):
            yield ThinkingStarted(number, parent_id)
            yield ThinkingDelta(text, number, parent_id)
            if block.is_over:
                yield ThinkingCompleted(text, number, parent_id)
        case CallSnapshot():
            yield from _writing(block, with_text=with_text)
            yield from _execution(block)


def _writing(call: CallSnapshot, *, with_text: bool) -> Iterator[Event]:
    call_id, name = call.call_id, call.name
    yield ToolCallStarted(call_id, call.index, name, call.kind, call.parent_id)
    if call.raw and (with_text or call.verdict != "complete"):
        yield ToolArgsDelta(call_id, name, call.raw)
    if call.verdict == "complete" and call.arguments is not None:
        edited = call.decision is not None and call.decision.edited_arguments is not None
        written = call.request.arguments if edited and call.request else call.arguments
        yield ToolArgsCompleted(call_id, name, written)
    elif call.verdict is not None and call.verdict != "complete" and call.error is not None:
        yield ToolArgsInvalid(call_id, name, call.verdict, call.raw, call.error)


def _execution(call: CallSnapshot) -> Iterator[Event]:
    call_id, name = call.call_id, call.name
    if call.request is not None:
        yield call.request
    if call.decision is not None:
        yield call.decision
    if call.attempts:
        yield ToolExecutionStarted(call_id, name, "", call.attempts)
    if call.output:
        yield ToolOutputDelta(call_id, name, call.output)
    if call.outcome == "completed":
        yield ToolCallCompleted(call_id, name, call.arguments or {}, call.result)
    elif call.outcome == "failed":
        yield ToolCallFailed(call_id, name, call.result)


def with_arguments(events: Iterable[Event], limits: Limits | None = None) -> Iterator[Event]:
    r"""Yield the events, with argument events among them.

    >>> call = [ToolCallStarted("c1", 0, "add"), ToolArgsDelta("c1", "add", '{"a": 1, "b')]
    >>> [event.type for event in with_arguments(call)]
    ['tool_call_started', 'tool_args_delta', 'argument_started', 'argument_completed']
    """
    views = ArgumentEvents(limits)
    for event in events:
        yield from views.take(event)


class ArgumentEvents:
    """The same as ``with_arguments``, one event at a time."""

    def __init__(self, limits: Limits | None = None) -> None:
        """Use the limits that ``stream()`` had, if they were not the default."""
        self._limits = limits
        self._parsers: dict[str, Parser] = {}  # of the calls that are being written

    def take(self, event: Event) -> list[Event]:
        """Return the event, followed by events of its arguments.

        A ``RunSnapshot`` replaces all before it: the arguments in it are not repeated. A call whose
        beginning was not seen has no argument events. ``Argument…`` events are dropped, since they
        are computed.
        """
        match event:
            case ToolArgsDelta(call_id=call_id, name=name, delta=text):
                return [event, *self._read(call_id, name, text)]
            case ArgumentStarted() | ArgumentDelta() | ArgumentCompleted():
                return []
            case ToolCallStarted(call_id=call_id, kind=kind):
                self._open(call_id, kind)
            case ToolArgsCompleted(call_id=call_id) | ToolArgsInvalid(call_id=call_id):
                self._parsers.pop(call_id, None)
            case TurnStarted(attempt=attempt) if attempt > 1:
                self._parsers.clear()  # what was being written is lost
            case RunSnapshot():
                self._go_on_from(event)
            case _:
                pass
        return [event]

    def _go_on_from(self, snapshot: RunSnapshot) -> None:
        self._parsers.clear()
        for seen in snapshot.blocks:
            if isinstance(seen, CallSnapshot) and seen.verdict is None and not seen.is_lost:
                self._open(seen.call_id, seen.kind)
                self._read(seen.call_id, seen.name, seen.raw)

    def _open(self, call_id: str, kind: CallKind) -> None:
        self._parsers.pop(call_id, None)  # an attempt that was lost may have used the id
        if kind not in FREE_TEXT_KINDS:
            self._parsers[call_id] = Parser(self._limits, unique_keys=True)

    def _read(self, call_id: str, name: str, text: str) -> list[Event]:
        parser = self._parsers.get(call_id)
        if parser is None:
            return []
        events: list[Event] = []
        for fragment in parser.feed(text):
            match fragment:
                case Text(path, piece) if path:
                    events.append(ArgumentDelta(call_id, name, path, piece))
                case _ if _ends_reading(fragment):
                    del self._parsers[call_id]
                    break
                case Start(path, kind, _) if path:
                    events.append(ArgumentStarted(call_id, name, path, kind))
                case Done(path, value, _) if path:
                    events.append(ArgumentCompleted(call_id, name, path, value))
                case _:
                    pass  # about the whole: its end is that of the call
        return events


def _ends_reading(fragment: Fragment) -> bool:
    """Return True if a text with this fragment cannot be arguments."""
    match fragment:
        case Start((), kind, _):
            return kind not in _MAY_MEAN_AN_OBJECT
        case Done(_, float(value), _):
            return isinf(value)  # JSON, but it could not be sent back
        case _:
            return isinstance(fragment, Invalid)
