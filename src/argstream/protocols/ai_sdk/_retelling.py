"""A run as far as it has come, in few events: what is shown of it is what its own events show."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from argstream.events import (
    Event,
    RunPaused,
    RunSnapshot,
    RunStarted,
    SeenBlock,
    SeenCall,
    SeenText,
    SeenThinking,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolOutputDelta,
    TurnCompleted,
    TurnStarted,
)
from argstream.history import Message

__all__ = ["retold"]

_NOTHING_SAID = Message(role="assistant", parts=())


def retold(snapshot: RunSnapshot) -> Iterator[Event]:
    """Give events that lead to where a run stands."""
    yield RunStarted(snapshot.run_id, snapshot.prompt)
    begun = 0
    for turn, blocks in groupby(snapshot.blocks, lambda block: block.turn):
        yield from _turns(begun, turn)
        begun = turn
        yield from _turn(turn, blocks)
    yield from _turns(begun, snapshot.turns)
    yield TurnCompleted(snapshot.stop_reason, _NOTHING_SAID, snapshot.usage)
    if snapshot.end is not None:
        yield snapshot.end
    elif snapshot.status == "paused":
        yield RunPaused(snapshot.run_id, ())


def _turns(begun: int, turn: int) -> Iterator[Event]:
    for number in range(begun + 1, turn + 1):
        yield TurnStarted(number)


def _turn(turn: int, blocks: Iterable[SeenBlock]) -> Iterator[Event]:
    """Tell a turn. What was lost of it comes first: perhaps of several attempts.

    How many these were is not known. But in each of them, a number or an id occurs once.
    """
    attempt = 1
    seen: set[object] = set()
    was_lost = False
    for block in blocks:
        name = block.call_id if isinstance(block, SeenCall) else (block.block, block.parent_id)
        if (was_lost and not block.is_lost) or (block.is_lost and name in seen):
            attempt += 1
            seen.clear()
            yield TurnStarted(turn, attempt)
        seen.add(name)
        was_lost = block.is_lost
        yield from _block(block)
    if was_lost:
        yield TurnStarted(turn, attempt + 1)


def _block(block: SeenBlock) -> Iterator[Event]:
    match block:
        case SeenText(block=number, text=text, parent_id=parent_id):
            yield TextDelta(text, number, parent_id)
        case SeenThinking(block=number, text=text, parent_id=parent_id):
            yield ThinkingStarted(number, parent_id)
            if block.is_over:
                yield ThinkingCompleted(text, number, parent_id)
            elif text:
                yield ThinkingDelta(text, number, parent_id)
        case SeenCall():
            yield from _call(block)


def _call(call: SeenCall) -> Iterator[Event]:
    call_id, name = call.call_id, call.name
    yield ToolCallStarted(call_id, call.index, name, call.kind, call.parent_id)
    if call.arguments is not None and call.verdict in (None, "complete"):
        yield ToolArgsCompleted(call_id, name, call.arguments)
    elif call.raw:
        yield ToolArgsDelta(call_id, name, call.raw)
    if call.error is not None and call.verdict is not None and call.verdict != "complete":
        yield ToolArgsInvalid(call_id, name, call.verdict, call.raw, call.error)
    if call.request is not None:
        yield call.request
    if call.decision is not None:
        yield call.decision
    if call.outcome == "completed":
        yield ToolCallCompleted(call_id, name, call.arguments or {}, call.result)
    elif call.outcome == "failed":
        yield ToolCallFailed(call_id, name, call.result)
    elif call.output:
        yield ToolOutputDelta(call_id, name, call.output)
