"""A run as far as it has come, told as the events that led there, as far as they are known."""

from collections.abc import Iterator
from itertools import zip_longest

from argstream.argument_views import ArgumentViews
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

__all__ = ["events_of", "pending_of"]


def events_of(snapshot: RunSnapshot) -> Iterator[Event]:
    """Give events that show what a snapshot tells."""
    yield RunStarted(snapshot.run_id, snapshot.prompt, snapshot.history)
    turn = 1
    for block, following in zip_longest(snapshot.blocks, snapshot.blocks[1:]):
        if block.turn > turn:
            turn = block.turn
            yield TurnStarted(turn)
        yield from _events_of_block(block)
        if block.is_lost and not (following and following.is_lost and following.turn == block.turn):
            yield TurnStarted(block.turn, 2)
    if snapshot.status == "paused":
        yield RunPaused(snapshot.run_id, tuple(pending_of(snapshot)))
    if snapshot.end is not None:
        yield snapshot.end


def pending_of(snapshot: RunSnapshot) -> Iterator[ApprovalRequested]:
    """Give what somebody must decide on."""
    for call in snapshot.blocks:
        if isinstance(call, SeenCall) and call.request is not None:
            is_open = call.decision is None and call.outcome is None
            if is_open and not call.is_lost:
                yield call.request


def _events_of_block(block: SeenBlock) -> Iterator[Event]:
    match block:
        case SeenText(block=number, text=text, parent_id=parent_id):
            yield TextDelta(text, number, parent_id)
        case SeenThinking(block=number, text=text, parent_id=parent_id):
            yield ThinkingStarted(number, parent_id)
            yield ThinkingDelta(text, number, parent_id)
            if block.is_over:
                yield ThinkingCompleted(text, number, parent_id)
        case SeenCall():
            yield from _writing(block)
            yield from _execution(block)


def _writing(call: SeenCall) -> Iterator[Event]:
    views = ArgumentViews()
    call_id, name = call.call_id, call.name
    yield from views.take(ToolCallStarted(call_id, call.index, name, call.kind, call.parent_id))
    if call.raw:
        yield from views.take(ToolArgsDelta(call_id, name, call.raw))
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
