"""A snapshot told as events: who takes these sees what the snapshot tells."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from msgspec.structs import replace

from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunFailed,
    RunSnapshot,
    RunStarted,
    RunStopped,
    ToolArgsCompleted,
    ToolCallFailed,
    ToolCallStarted,
    TurnStarted,
    Usage,
)
from argstream.snapshot_events import events_of, is_waiting, pending_of
from argstream.snapshots import RunView
from tests.chance_runs import claude_code, logged_runs

REQUEST = ApprovalRequested("c1", "send", {}, "d1gest", "it sends")
ASKED: list[Event] = [
    ToolCallStarted("c1", 0, "send"),
    ToolArgsCompleted("c1", "send", {}),
    REQUEST,
]


def seen(events: Iterable[Event]) -> RunSnapshot:
    view = RunView()
    for event in events:
        view.take(event)
    return view.snapshot()


@given(logged_runs())
def test_the_events_lead_to_where_the_run_stands(events: list[Event]) -> None:
    snapshot = seen(events)
    # The usage and the stop reasons of turns are not in the events. A failed or stopped run has
    # its usage in its last event.
    end = snapshot.end
    usage = end.usage if isinstance(end, RunFailed | RunStopped) else Usage()
    assert seen(events_of(snapshot)) == replace(snapshot, usage=usage, stop_reason=None)


def test_so_they_do_for_a_run_that_is_only_observed() -> None:
    events = claude_code()
    for place in range(1, len(events) + 1):
        snapshot = seen(events[:place])
        assert seen(events_of(snapshot)) == replace(snapshot, usage=Usage(), stop_reason=None)


@pytest.mark.parametrize(
    ("following", "waits"),
    [
        ([], True),
        ([ApprovalDecided("c1", "send", "approved")], False),
        ([ToolCallFailed("c1", "send", "given up")], False),
        ([RunCompleted("done")], False),
    ],
)
def test_an_observed_run_waits_while_somebody_is_asked(following: list[Event], waits: bool) -> None:
    assert is_waiting(seen([RunStarted("run_1", "Go"), *ASKED, *following])) is waits


def test_a_run_of_ours_does_not_wait_before_it_pauses() -> None:
    assert not is_waiting(seen([RunStarted("run_1", "Go"), TurnStarted(1), *ASKED]))


def test_only_a_snapshot_says_what_is_pending() -> None:
    assert [*pending_of(seen([RunStarted("run_1", "Go"), *ASKED]))] == [REQUEST]
    assert [*pending_of(REQUEST)] == []
