"""Snapshots of a run: the same for every viewer, whenever it starts to watch."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from argstream import events as ev
from argstream.agent import Agent, Approve, tool
from argstream.events import Event, from_json, to_json
from argstream.history import CallPart, TextPart, ThinkingPart
from argstream.models import CallTool, Reply, Say, ScriptedModel, Think
from argstream.runs import SnapshotBuilder, events_of, is_waiting, merged, pending_of
from tests.agent.following import complete
from tests.chance_runs import claude_code, logged_runs, runs
from tests.growth import call_growth, cost_ratio
from tests.runs.records import snapshot_of


def calls(snapshot: ev.RunSnapshot) -> list[ev.CallSnapshot]:
    return [block for block in snapshot.blocks if isinstance(block, ev.CallSnapshot)]


@tool(requires_confirmation=True)
async def send(to: str) -> dict[str, list[str]]:
    return {"sent": [to]}


def agent_run() -> list[Event]:
    """Return the events of a run that pauses and is resumed."""
    model = ScriptedModel(
        Reply(Think("Hm."), Say("I write."), CallTool("send", {"to": "ada"})),
        Reply(CallTool("send", '{"to": ["ada"]}'), CallTool("unheard_of")),
        "Done.",
    )
    agent = Agent(model, [send])

    async def played() -> list[Event]:
        run = agent.run_stream("Go")
        events = [event async for event in run]
        paused = events[-1]
        assert isinstance(paused, ev.RunPaused)
        approved = {request.call_id: Approve() for request in paused.pending}
        return events + [event async for event in agent.resume(run, approved)]

    return complete(played)


# A turn that was cut off by a crash, and begins again.
CRASHED: list[Event] = [
    ev.RunStarted("r1", "Go"),
    ev.TurnStarted(1),
    ev.TextDelta("first", 0),
    ev.TurnStarted(2),
    ev.TextDelta("sec", 1),
    ev.ToolCallStarted("c1", 0, "add"),
    ev.ToolArgsDelta("c1", "add", '{"a'),
    ev.RunResumed("r1", "crash"),
    ev.TurnStarted(2, 2),
]


@given(runs(), st.data())
def test_late_viewer_reaches_the_same_state(events: list[Event], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(events)))
    snapshot = snapshot_of(events[:place])
    assert from_json(to_json(snapshot)) == snapshot
    joined = SnapshotBuilder.of(snapshot)
    for event in events[place:]:
        joined.take(event)
    assert joined.snapshot() == snapshot_of(events)


@given(runs(), st.data())
def test_stored_events_give_the_same_snapshot(events: list[Event], data: st.DataObject) -> None:
    places = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    batches = [events[a:b] for a, b in zip([0, *places], [*places, len(events)], strict=True)]
    stored = [event for batch in batches for event in merged(batch)]
    assert snapshot_of(stored) == snapshot_of(events)
    assert snapshot_of(map(from_json, map(to_json, stored))) == snapshot_of(events)


@pytest.mark.parametrize("make", [agent_run, claude_code])
def test_snapshot_agrees_with_the_history(make: Callable[[], list[Event]]) -> None:
    events = make()
    blocks = snapshot_of(events).blocks
    turns = [event for event in events if isinstance(event, ev.TurnCompleted)]
    parts = [(part, turn.parent_id) for turn in turns for part in turn.message.parts]
    texts = [(part.text, parent) for part, parent in parts if isinstance(part, TextPart)]
    shown = [
        (block.text, block.parent_id) for block in blocks if isinstance(block, ev.TextSnapshot)
    ]
    assert sorted(texts, key=str) == sorted(shown, key=str)
    assert [part.text for part, _ in parts if isinstance(part, ThinkingPart)] == [
        block.text for block in blocks if isinstance(block, ev.ThinkingSnapshot)
    ]
    kept = {part.call_id: (part, parent) for part, parent in parts if isinstance(part, CallPart)}
    for call in calls(snapshot_of(events)):
        part, parent = kept.pop(call.call_id)
        assert (call.name, call.verdict, call.parent_id) == (part.name, part.verdict, parent)
        if call.verdict == "complete":  # the history may have more text of others
            assert (call.raw, call.arguments) == (part.raw, part.arguments)
    assert not kept


def test_snapshot_of_no_events_is_an_empty_running_run() -> None:
    assert snapshot_of([]) == ev.RunSnapshot("", "running", "", (), (), 0, ev.Usage())
    unknown: list[Event] = [
        ev.ToolOutputDelta("c1", "add", "x"),
        ev.ToolCallFailed("c1", "add", "no"),
    ]
    assert snapshot_of(unknown) == snapshot_of([]), "a call that never started is ignored"


def test_blocks_are_in_the_order_in_which_they_began() -> None:
    events: list[Event] = [
        ev.ThinkingStarted(0),
        ev.TextDelta("I ", 1),
        ev.ToolCallStarted("c1", 0, "add"),
        ev.ThinkingDelta("hm", 0),
        ev.TextDelta("see", 1),
    ]
    assert snapshot_of(events).blocks == (
        ev.ThinkingSnapshot(block=0, text="hm"),
        ev.TextSnapshot(block=1, text="I see"),
        ev.CallSnapshot(call_id="c1", index=0, name="add"),
    )


def test_snapshot_of_an_agent_run_has_approvals_and_results() -> None:
    snapshot = snapshot_of(agent_run())
    approved, invalid, unknown = calls(snapshot)
    assert isinstance(approved.request, ev.ApprovalRequested)
    assert approved.decision is not None
    assert (approved.decision.decision, approved.attempts) == ("approved", 1)
    assert (approved.raw, approved.arguments) == ('{"to": "ada"}', {"to": "ada"})
    assert (approved.outcome, approved.result) == ("completed", {"sent": ["ada"]})
    assert (invalid.verdict, invalid.arguments, invalid.outcome) == ("rejected", None, "failed")
    assert invalid.error is not None
    assert "unheard_of" in str(unknown.result)
    assert (snapshot.status, snapshot.prompt) == ("completed", "Go")
    assert isinstance(snapshot.end, ev.RunCompleted)
    assert snapshot.usage == snapshot.end.usage


def test_calls_of_sub_agents_have_their_parent_call() -> None:
    snapshot = snapshot_of(claude_code())
    parents = {call.call_id: call.parent_id for call in calls(snapshot)}
    assert parents == {"task_1": None, "task_2": None, "sub_1": "task_1", "sub_2": "task_2"}
    assert snapshot.stop_reason == "end_turn", "not that of a sub-agent"
    assert snapshot.usage.input_tokens == 5 * 7, "includes that of sub-agents"


def test_call_has_the_longest_name_of_its_events() -> None:
    events: list[Event] = [
        ev.ToolCallStarted("c1", 0, "get_"),
        ev.ToolArgsDelta("c1", "get_weather", "{}"),
        ev.ToolCallStarted("c2", 1, "get_"),
        ev.ToolArgsCompleted("c2", "get_time", {}),
    ]
    assert [call.name for call in calls(snapshot_of(events))] == ["get_weather", "get_time"]


CUT = ev.ArgumentsError("truncated", "it was cut", 7, ("path", 0))
ENDS: dict[str, tuple[ev.ToolCallStarted, list[Event], dict[str, object]]] = {
    "custom": (
        ev.ToolCallStarted("c1", 0, "patch", "custom"),
        [
            *(ev.ToolArgsDelta("c1", "patch", "*** "), ev.ToolArgsDelta("c1", "patch", "Begin")),
            ev.ToolArgsCompleted("c1", "patch", "*** Begin"),
        ],
        {"raw": "*** Begin", "arguments": "*** Begin", "verdict": "complete"},
    ),
    "invalid": (
        ev.ToolCallStarted("c1", 0, "write"),
        [
            ev.ToolArgsDelta("c1", "write", '{"path"'),
            ev.ToolArgsInvalid("c1", "write", "truncated", '{"path"', CUT),
            ev.ToolCallFailed("c1", "write", "not run"),
        ],
        {"raw": '{"path"', "verdict": "truncated", "error": CUT, "outcome": "failed"}
        | {"result": "not run"},
    ),
    "server": (
        ev.ToolCallStarted("c1", 0, "web_search", "server"),
        [ev.ToolCallCompleted("c1", "web_search", {"query": "q"}, [{"title": "t"}])],
        {"arguments": {"query": "q"}, "outcome": "completed", "result": [{"title": "t"}]},
    ),
}


@pytest.mark.parametrize("kind", ENDS)
def test_call_has_its_verdict_and_outcome(kind: str) -> None:
    start, events, facts = ENDS[kind]
    (begun,), (ended,) = snapshot_of([start]).blocks, snapshot_of([start, *events]).blocks
    assert ended == replace(begun, **facts)


def test_blocks_of_a_turn_that_begins_again_are_lost() -> None:
    snapshot = snapshot_of(CRASHED)
    assert [block.is_lost for block in snapshot.blocks] == [False, True, True]
    assert [block.turn for block in snapshot.blocks] == [1, 2, 2]
    assert snapshot.turns == 2
    events = [*CRASHED, ev.TextDelta("again", 1), ev.TurnStarted(2, 3), ev.TextDelta("more", 1)]
    lost = [block.is_lost for block in snapshot_of(events).blocks]
    assert lost == [False, True, True, True, False]


def test_repeated_turn_may_use_the_same_numbers_and_ids() -> None:
    again: list[Event] = [
        ev.TextDelta("second", 1),
        ev.ToolCallStarted("c1", 0, "add"),
        ev.ToolArgsDelta("c1", "add", "{}"),
        ev.ToolArgsCompleted("c1", "add", {}),
        ev.ToolExecutionStarted("c1", "add", "key"),
    ]
    snapshot = snapshot_of([*CRASHED, *again])
    assert [block.is_lost for block in snapshot.blocks] == [False, True, True, False, False]
    assert snapshot.blocks[3] == ev.TextSnapshot(block=1, text="second", turn=2)
    assert [(call.raw, call.attempts) for call in calls(snapshot)] == [('{"a', 0), ("{}", 1)]


def assert_events_lead_to(snapshot: ev.RunSnapshot) -> None:
    """Except for usage and stop reasons of turns. A failed or stopped run has usage in its end."""
    end = snapshot.end
    usage = end.usage if isinstance(end, ev.RunFailed | ev.RunStopped) else ev.Usage()
    assert snapshot_of(events_of(snapshot)) == replace(snapshot, usage=usage, stop_reason=None)


@given(logged_runs())
def test_events_of_a_snapshot_lead_to_it(events: list[Event]) -> None:
    assert_events_lead_to(snapshot_of(events))


def test_events_of_a_snapshot_of_an_observed_run_lead_to_it() -> None:
    events = claude_code()
    for place in range(1, len(events) + 1):
        assert_events_lead_to(snapshot_of(events[:place]))


REQUEST = ev.ApprovalRequested("c1", "send", {}, "d1gest", "it sends")


@pytest.mark.parametrize(
    ("before", "after", "waits"),
    [
        ([], [], True),
        ([], [ev.ApprovalDecided("c1", "send", "approved")], False),
        ([], [ev.ToolCallFailed("c1", "send", "given up")], False),
        ([], [ev.RunCompleted("done")], False),
        ([ev.TurnStarted(1)], [], False),  # a run of an agent pauses instead
    ],
)
def test_when_an_observed_run_waits(before: list[Event], after: list[Event], waits: bool) -> None:
    call = (ev.ToolCallStarted("c1", 0, "send"), ev.ToolArgsCompleted("c1", "send", {}), REQUEST)
    snapshot = snapshot_of([ev.RunStarted("r1", "Go"), *before, *call, *after])
    assert is_waiting(snapshot) is waits
    if waits:
        assert [*pending_of(snapshot)] == [REQUEST]
    assert [*pending_of(REQUEST)] == []


def test_snapshot_of_another_run_replaces_the_state() -> None:
    other = snapshot_of([ev.RunStarted("B", "y")])
    new = ev.TextDelta("new", 0)
    events = (ev.RunStarted("A", "x"), ev.TextDelta("old", 0), other, new)
    assert snapshot_of(events) == snapshot_of([other, new])


def test_state_shares_no_values_with_events_or_snapshots() -> None:
    arguments, result = {"path": ["a"]}, [{"n": 1}]
    view = SnapshotBuilder()
    for event in (
        ev.ToolCallStarted("c1", 0, "write"),
        ev.ToolArgsCompleted("c1", "write", arguments),
        ev.ApprovalRequested("c1", "write", arguments, "digest", "why"),
        ev.ToolCallCompleted("c1", "write", arguments, result),
        ev.RunCompleted(result),
    ):
        view.take(event)
    before = view.snapshot()
    arguments["path"].append("b")
    result[0]["n"] = 2
    assert view.snapshot() == before
    (call,) = calls(view.snapshot())
    call.result.append("mine")
    assert view.snapshot() == before
    joined = SnapshotBuilder.of(before)
    written = to_json(before)
    calls(before)[0].result.append("mine")
    assert to_json(joined.snapshot()) == written


DELTAS: list[Event] = [
    ev.TextDelta("word", 0),
    ev.ThinkingDelta("word", 0),
    ev.ToolArgsDelta("c1", "add", "word"),
    ev.ToolOutputDelta("c1", "add", "word"),
]


@pytest.mark.timing
@pytest.mark.parametrize("delta", DELTAS)
def test_cost_of_a_delta_does_not_depend_on_the_text_before_it(delta: Event) -> None:
    """Also after a snapshot. A snapshot copies the text, which then grows in place again."""

    def job(size: int) -> Callable[[], object]:
        view = SnapshotBuilder()
        view.take(ev.ToolCallStarted("c1", 0, "add"))
        field = "delta" if isinstance(delta, ev.ToolArgsDelta) else "text"
        view.take(replace(delta, **{field: "x" * size}))
        view.snapshot()

        def take() -> None:
            for _ in range(2_000):
                view.take(delta)

        return take

    # If each delta copied the text, the long one would take a thousand times as long.
    assert cost_ratio(job(4_000_000), job(10), 20) <= 20


def test_cost_of_a_snapshot_is_linear_in_its_size() -> None:
    def job(size: int) -> Callable[[], object]:
        view = SnapshotBuilder()
        for number in range(size):
            view.take(ev.TextDelta("word " * 20, number))
        return view.snapshot

    assert call_growth(job, 1_000) <= 2
