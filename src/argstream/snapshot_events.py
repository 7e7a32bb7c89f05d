"""A run as far as it has come, told as the events that led there, as far as they are known."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from argstream.events import (
    ApprovalRequested,
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
    ToolExecutionStarted,
    ToolOutputDelta,
    TurnStarted,
)

__all__ = ["events_of", "is_waiting", "pending_of"]


def events_of(snapshot: RunSnapshot, *, with_text: bool = True) -> Iterator[Event]:
    """Give events that show what a snapshot tells.

    ``with_text`` is whether also the text is told of arguments that are whole.
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
    """Give what somebody must decide on, by a snapshot; other events do not say."""
    for call in told.blocks if isinstance(told, RunSnapshot) else ():
        if isinstance(call, SeenCall) and call.request is not None:
            is_open = call.decision is None and call.outcome is None
            if is_open and not call.is_lost:
                yield call.request


def is_waiting(snapshot: RunSnapshot) -> bool:
    """Say whether a run waits for a person though it does not pause.

    So do runs that are only observed, which tell of no turns. Parts of them may go on meanwhile.
    """
    return snapshot.end is None and not snapshot.turns and any(pending_of(snapshot))


def _turns(begun: int, turn: int) -> Iterator[Event]:
    for number in range(begun + 1, turn + 1):
        yield TurnStarted(number)


def _turn(turn: int, blocks: Iterable[SeenBlock], *, with_text: bool) -> Iterator[Event]:
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
        yield from _events_of_block(block, with_text=with_text)
    if was_lost:
        yield TurnStarted(turn, attempt + 1)


def _events_of_block(block: SeenBlock, *, with_text: bool) -> Iterator[Event]:
    match block:
        case SeenText(block=number, text=text, parent_id=parent_id):
            yield TextDelta(text, number, parent_id)
        case SeenThinking(block=number, text=text, parent_id=parent_id):
            yield ThinkingStarted(number, parent_id)
            yield ThinkingDelta(text, number, parent_id)
            if block.is_over:
                yield ThinkingCompleted(text, number, parent_id)
        case SeenCall():
            yield from _writing(block, with_text=with_text)
            yield from _execution(block)


def _writing(call: SeenCall, *, with_text: bool) -> Iterator[Event]:
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


def _execution(call: SeenCall) -> Iterator[Event]:
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
