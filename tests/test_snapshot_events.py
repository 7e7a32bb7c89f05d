"""A snapshot told as events: who takes these sees what the snapshot tells."""

from hypothesis import given
from msgspec.structs import replace

from argstream.events import Event, RunStarted, TextDelta, Usage
from argstream.snapshot_events import events_of, is_waiting, pending_of
from argstream.snapshots import RunView
from tests.chance_runs import claude_code, logged_runs


def view_of(events: list[Event]) -> RunView:
    view = RunView()
    for event in events:
        view.take(event)
    return view


@given(logged_runs())
def test_the_events_lead_to_where_the_snapshot_is(events: list[Event]) -> None:
    snapshot = view_of(events).snapshot()
    again = view_of([*events_of(snapshot)]).snapshot()
    # What turns cost, and why they ended, is told by no event of these.
    assert again == replace(snapshot, usage=Usage(), stop_reason=None)
