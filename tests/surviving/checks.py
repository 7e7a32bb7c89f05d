"""What must hold of a run that was cut off: of each log that a process left, and of the last."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from msgspec.structs import replace

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
    TurnStarted,
)
from argstream.history import Message, TextPart
from argstream.runs import Record, RunView
from tests.agent.following import merged, only
from tests.agent.histories import check_history, check_told, results_of
from tests.agent.ordering import RunOrder
from tests.surviving.attempts import Attempt, Passage, Suspension
from tests.surviving.outside import Execution
from tests.surviving.stories import DONE, IDEMPOTENT, STREAMED, USER

INTERRUPTED = (
    "the call was interrupted: the program ended while it ran. It is not known what it has done; it"
    " was not run again"
)
GROWING = TextDelta | ThinkingDelta | ToolOutputDelta


def check(attempt: Attempt) -> None:
    """Check all of it."""
    for passage in attempt.passages:
        check_passage(passage, attempt.outside.told(passage.number))
    if not attempt.log:
        return  # its process was killed before there was a run
    for killed, next_ in pairwise(attempt.passages):
        if killed.was_killed:
            check_taken_up(killed, next_)
    events = events_of(attempt.log)
    check_order(events)
    check_executions(events, attempt.outside.executed)
    check_end(attempt, events)
    check_conversation(attempt, events)


def check_woken(attempt: Attempt, suspension: Suspension) -> None:
    """Check that a process whose run was taken over did nothing more, and says why."""
    passage = attempt.passages[0]
    assert attempt.outside.executed == suspension.executed, "nothing more is begun"
    assert attempt.read_log() == suspension.log, "nothing more is written"
    check_passage(passage, attempt.outside.told(1))
    had_paused = has_paused(passage.after)
    ending = attempt.outside.ending(1)
    assert ending is not None
    assert ending.outcome == "RunTaken" or (had_paused and ending.outcome == "paused")


# Each log


def check_passage(passage: Passage, told: list[Event]) -> None:
    """Check what a process has left behind."""
    before, after = passage.before, passage.after
    assert after[: len(before)] == before, "a log only grows"
    assert [record.seq for record in after] == list(range(1, len(after) + 1))
    assert is_beginning(told, events_of(after[len(before) :])), "what was told is in the log"
    started = Counter(event.call_id for event in only(events_of(after), ToolExecutionStarted))
    done = Counter(execution.call_id for execution in passage.executed)
    assert done <= started, "nothing is done before the log says that it begins"


def is_beginning(told: Iterable[Event], written: Iterable[Event]) -> bool:
    """Say whether a log begins with what was told, however that was cut into pieces."""
    some, all_ = merged(told), merged(written)
    if not some:
        return True
    *whole, last = some
    has_more = len(all_) >= len(some) and all_[: len(whole)] == whole
    return has_more and is_piece(last, all_[len(whole)])


def is_piece(piece: Event, event: Event) -> bool:
    """Say whether an event is the same as another, but for how far it grows."""
    if isinstance(piece, ToolArgsDelta) and isinstance(event, ToolArgsDelta):
        return replace(event, delta=event.delta[: len(piece.delta)]) == piece
    if isinstance(piece, GROWING) and isinstance(event, GROWING):
        return replace(event, text=event.text[: len(piece.text)]) == piece
    return piece == event


# What follows a kill


def check_taken_up(killed: Passage, next_: Passage) -> None:
    """Check that who goes on with the run says so; ``RunOrder`` checks what follows."""
    new = events_of(next_.after[len(next_.before) :])
    if not new:
        assert next_.was_killed, "who is not killed goes on with the run"
    elif next_.knew_of_stop or not isinstance(new[0], RunResumed):
        assert isinstance(new[-1], RunStopped), "it was to be stopped, so nothing else is begun"
        assert not [one for one in new if isinstance(one, ToolExecutionStarted | TurnStarted)]
    elif has_paused(killed.after):
        assert new[0].cause == "pause"
    else:
        assert new[0].cause == "crash"


# The whole log


def events_of(records: Iterable[Record]) -> list[Event]:
    return [record.event for record in records]


def has_paused(records: Iterable[Record]) -> bool:
    view = RunView()
    for event in events_of(records):
        view.take(event)
    return view.snapshot().status == "paused"


def check_order(events: Iterable[Event]) -> None:
    order = RunOrder(STREAMED, IDEMPOTENT)
    for event in events:
        order.take(event)
    order.finish()


def check_executions(events: list[Event], executed: list[Execution]) -> None:
    """Check that tools did things once at most, and that the log does not say otherwise."""
    started = only(events, ToolExecutionStarted)
    keys = {event.call_id: event.idempotency_key for event in started}
    assert len(set(keys.values())) == len(keys), "each call has a key of its own"
    assert all(event.idempotency_key == keys[event.call_id] for event in started)
    assert all(one.key == keys[one.call_id] for one in executed)
    done = Counter(one.call_id for one in executed if one.name not in IDEMPOTENT)
    assert all(times == 1 for times in done.values()), "nothing is done twice"
    for event in only(events, ToolCallCompleted):
        assert any(one.call_id == event.call_id for one in executed)


def check_end(attempt: Attempt, events: list[Event]) -> None:
    """Check that the run came to its end: with all that could be done, or stopped."""
    last = events[-1]
    if attempt.outside.was_stopped:
        assert isinstance(last, RunStopped)
    if isinstance(last, RunStopped):
        assert last.reason == "enough"
        return
    assert isinstance(last, RunCompleted)
    assert last.result == DONE
    assert {event.decision for event in only(events, ApprovalDecided)} <= {"approved", "withdrawn"}
    interrupted = {call_id for event in only(events, RunResumed) for call_id in event.interrupted}
    assert all(
        event.call_id in interrupted
        for event in only(events, ToolCallFailed)
        if event.error == INTERRUPTED
    )
    for result in (one for message in attempt.messages() for one in results_of(message)):
        assert not result.failed or result.call_id in interrupted


# What the model is told


def check_conversation(attempt: Attempt, events: list[Event]) -> None:
    """Check that each question to the model, and all that was said in the end, is well-formed."""
    messages = attempt.messages()
    check_history(messages, is_over=True)
    check_told(messages, events)
    ending = attempt.outside.ending(len(attempt.passages))
    if ending is not None:
        assert ending.messages == messages, "who reads the log knows what was said"
        assert ending.user == USER, "and to whom"
    for asked in attempt.outside.asked:
        check_history(asked)
        check_told(asked, events)
    notes = [event.note for event in only(events, RunResumed) if event.note]
    assert [text for text in texts_of(messages) if text in notes] == notes


def texts_of(messages: Iterable[Message]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    return [part.text for part in parts if isinstance(part, TextPart)]
