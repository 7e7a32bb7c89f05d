"""What must hold of a run that was cut off: in each log that a process left, and in the last one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from argstream.agent._wording import INTERRUPTED
from argstream.events import (
    ApprovalDecided,
    Event,
    RunCompleted,
    RunResumed,
    RunStopped,
    TextDelta,
    ThinkingDelta,
    ToolArgsDelta,
    ToolCallCompleted,
    ToolCallFailed,
    ToolExecutionStarted,
    ToolOutputDelta,
    TurnCompleted,
    TurnStarted,
)
from argstream.history import TextPart
from argstream.log import Record, merged
from tests.agent.following import one, only
from tests.agent.histories import check_history, check_told, results_of
from tests.agent.ordering import RunOrder
from tests.surviving.attempts import Attempt, Passage
from tests.surviving.outside import Execution
from tests.surviving.stories import DONE, IDEMPOTENT, STREAMED


def check(attempt: Attempt) -> None:
    """Check all of it."""
    for passage in attempt.passages:
        check_passage(attempt, passage)
    if not attempt.log:  # there never was a run
        assert attempt.outside.executed == []
        return
    for killed, resumed in pairwise(attempt.passages):
        if killed.was_killed:
            check_taken_up(attempt, killed, resumed)
    events = events_of(attempt.log)
    check_log_order(events)
    check_executions(events, attempt.outside.executed)
    check_ending(attempt, events)
    check_conversation(attempt, events)


# Each log


def check_passage(attempt: Attempt, passage: Passage) -> None:
    """Check what a process has left, be it that it was killed."""
    before, after = passage.before, passage.after
    assert after[: len(before)] == before, "a log only grows"
    assert [record.seq for record in after] == list(range(1, len(after) + 1))
    written = events_of(after[len(before) :])
    told = attempt.outside.told(passage.number)
    assert is_beginning(told, written), "what was told is in the log"
    started = Counter(event.call_id for event in only(events_of(after), ToolExecutionStarted))
    done = Counter(execution.call_id for execution in attempt.outside.executed)
    if passage is attempt.passages[-1]:
        assert done <= started, "nothing was done that the log does not say has begun"


def is_beginning(told: Iterable[Event], written: Iterable[Event]) -> bool:
    """Say whether a log begins with what was told, however it was cut into pieces."""
    some, all_ = merged(told), merged(written)
    if not some:
        return True
    *whole, last = some
    if len(all_) < len(some) or all_[: len(whole)] != whole:
        return False
    return is_piece(last, all_[len(whole)])


def is_piece(piece: Event, event: Event) -> bool:
    """Say whether something grows as another one does, or not as far."""
    if isinstance(piece, TextDelta | ThinkingDelta | ToolOutputDelta) and isinstance(
        event, TextDelta | ThinkingDelta | ToolOutputDelta
    ):
        return event.text.startswith(piece.text)
    if isinstance(piece, ToolArgsDelta) and isinstance(event, ToolArgsDelta):
        return event.call_id == piece.call_id and event.delta.startswith(piece.delta)
    return piece == event


# What follows a crash


def check_taken_up(attempt: Attempt, killed: Passage, resumed: Passage) -> None:
    """Check that the process after one that was killed says so, and does what it may."""
    log, after = events_of(killed.after), events_of(resumed.after[len(resumed.before) :])
    ...
