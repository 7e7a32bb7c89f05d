"""What a viewer sees of a run: the same whenever one joins, and nobody else's to change."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from argstream.agent import Agent, Approve, tool
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ArgumentsError,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStarted,
    RunStopped,
    SeenCall,
    SeenText,
    SeenThinking,
    TextDelta,
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
    TurnCompleted,
    TurnStarted,
    Usage,
    from_json,
    to_json,
)
from argstream.history import CallPart, TextPart, ThinkingPart
from argstream.models import CallTool, Reply, Say, ScriptedModel, Think
from argstream.runs import RunView, events_of, is_waiting, merged, pending_of
from tests.agent.following import complete
from tests.chance_runs import claude_code, logged_runs, runs
from tests.growth import BOUND, call_growth, growth
from tests.runs.records import seen


def calls(snapshot: RunSnapshot) -> list[SeenCall]:
    return [block for block in snapshot.blocks if isinstance(block, SeenCall)]


# By chance, and of agents


@tool(requires_confirmation=True)
async def send(to: str) -> dict[str, list[str]]:
    return {"sent": [to]}


def agents_run() -> list[Event]:
    """A run that pauses and goes on."""
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
        assert isinstance(paused, RunPaused)
        approved = {request.call_id: Approve() for request in paused.pending}
        return events + [event async for event in agent.resume(run, approved)]

    return complete(played)


@given(runs(), st.data())
def test_a_viewer_that_goes_on_from_a_snapshot_sees_what_the_others_see(
    events: list[Event], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(events)))
    snapshot = seen(events[:place])
    assert from_json(to_json(snapshot)) == snapshot
    joined = RunView.of(snapshot)
    for event in events[place:]:
        joined.take(event)
    assert joined.snapshot() == seen(events)


@pytest.mark.parametrize("make", [agents_run, claude_code, lambda: LOST])
def test_that_holds_at_every_place_of_a_real_run(make: Callable[[], list[Event]]) -> None:
    events = make()
    for place in range(len(events) + 1):
        assert seen([seen(events[:place]), *events[place:]]) == seen(events)


@given(runs(), st.data())
def test_events_as_they_are_stored_say_the_same(events: list[Event], data: st.DataObject) -> None:
    places = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    batches = [events[a:b] for a, b in zip([0, *places], [*places, len(events)], strict=True)]
    stored = [event for batch in batches for event in merged(batch)]
    assert seen(stored) == seen(events)
    assert seen(map(from_json, map(to_json, stored))) == seen(events)


@pytest.mark.parametrize("make", [agents_run, claude_code])
def test_what_is_seen_is_what_history_keeps(make: Callable[[], list[Event]]) -> None:
    events = make()
    blocks = seen(events).blocks
    turns = [event for event in events if isinstance(event, TurnCompleted)]
    parts = [(part, turn.parent_id) for turn in turns for part in turn.message.parts]
    said = [(part.text, parent) for part, parent in parts if isinstance(part, TextPart)]
    assert sorted(said, key=str) == sorted(
        ((block.text, block.parent_id) for block in blocks if isinstance(block, SeenText)), key=str
    )
    assert [part.text for part, _ in parts if isinstance(part, ThinkingPart)] == [
        block.text for block in blocks if isinstance(block, SeenThinking)
    ]
    kept = {part.call_id: (part, parent) for part, parent in parts if isinstance(part, CallPart)}
    for call in calls(seen(events)):
        part, parent = kept.pop(call.call_id)
        assert (call.name, call.verdict, call.parent_id) == (part.name, part.verdict, parent)
        if call.verdict == "complete":  # of others more may have come than was told
            assert (call.raw, call.arguments) == (part.raw, part.arguments)
    assert not kept


# What it tells


def test_a_view_of_nothing_is_a_run_that_has_not_said_anything() -> None:
    assert seen([]) == RunSnapshot("", "running", "", (), (), 0, Usage())


def test_blocks_stand_in_the_order_in_which_they_began() -> None:
    events: list[Event] = [
        ThinkingStarted(0),
        TextDelta("I ", 1),
        ToolCallStarted("c1", 0, "add"),
        ThinkingDelta("hm", 0),
        TextDelta("see", 1),
    ]
    assert seen(events).blocks == (
        SeenThinking(block=0, text="hm"),
        SeenText(block=1, text="I see"),
        SeenCall(call_id="c1", index=0, name="add"),
    )


def test_a_call_is_seen_from_its_first_character_to_its_result() -> None:
    snapshot = seen(agents_run())
    approved, invalid, unknown = calls(snapshot)
    assert isinstance(approved.request, ApprovalRequested)
    assert approved.decision is not None
    assert (approved.decision.decision, approved.attempts) == ("approved", 1)
    assert (approved.raw, approved.arguments) == ('{"to": "ada"}', {"to": "ada"})
    assert (approved.outcome, approved.result) == ("completed", {"sent": ["ada"]})
    assert (invalid.verdict, invalid.arguments, invalid.outcome) == ("rejected", None, "failed")
    assert invalid.error is not None
    assert "unheard_of" in str(unknown.result)
    assert (snapshot.status, snapshot.prompt) == ("completed", "Go")
    assert isinstance(snapshot.end, RunCompleted)
    assert snapshot.usage == snapshot.end.usage


def test_sub_agents_are_told_apart_by_the_calls_that_started_them() -> None:
    snapshot = seen(claude_code())
    assert {call.call_id: call.parent_id for call in calls(snapshot)} == {
        "task_1": None,
        "task_2": None,
        "sub_1": "task_1",
        "sub_2": "task_2",
    }
    assert snapshot.stop_reason == "end_turn", "that of a sub-agent is not the run's"
    assert snapshot.usage.input_tokens == 5 * 7, "but its tokens are spent"


def test_a_call_has_the_longest_name_that_was_told() -> None:
    events: list[Event] = [
        ToolCallStarted("c1", 0, "get_"),
        ToolArgsDelta("c1", "get_weather", "{}"),
        ToolCallStarted("c2", 1, "get_"),
        ToolArgsCompleted("c2", "get_time", {}),
    ]
    assert [call.name for call in calls(seen(events))] == ["get_weather", "get_time"]


CUT = ArgumentsError("truncated", "it was cut", 7, ("path", 0))
ENDS: list[tuple[ToolCallStarted, list[Event], dict[str, object]]] = [
    (
        ToolCallStarted("c1", 0, "patch", "custom"),
        [
            ToolArgsDelta("c1", "patch", "*** "),
            ToolArgsDelta("c1", "patch", "Begin"),
            ToolArgsCompleted("c1", "patch", "*** Begin"),
        ],
        {"raw": "*** Begin", "arguments": "*** Begin", "verdict": "complete"},
    ),
    (
        ToolCallStarted("c1", 0, "write"),
        [
            ToolArgsDelta("c1", "write", '{"path"'),
            ToolArgsInvalid("c1", "write", "truncated", '{"path"', CUT),
            ToolCallFailed("c1", "write", "not run"),
        ],
        {"raw": '{"path"', "verdict": "truncated", "error": CUT, "outcome": "failed"}
        | {"result": "not run"},
    ),
    (
        ToolCallStarted("c1", 0, "web_search", "server"),
        [ToolCallCompleted("c1", "web_search", {"query": "q"}, [{"title": "t"}])],
        {"arguments": {"query": "q"}, "outcome": "completed", "result": [{"title": "t"}]},
    ),
]


@pytest.mark.parametrize(("start", "events", "facts"), ENDS, ids=["custom", "invalid", "server"])
def test_a_call_says_how_it_ended(
    start: ToolCallStarted, events: list[Event], facts: dict[str, object]
) -> None:
    (begun,), (ended,) = seen([start]).blocks, seen([start, *events]).blocks
    assert ended == replace(begun, **facts)


def test_what_is_told_of_a_call_that_never_began_is_not_seen() -> None:
    assert seen([ToolOutputDelta("c1", "add", "x"), ToolCallFailed("c1", "add", "no")]) == seen([])


# A turn that was cut off

LOST: list[Event] = [
    RunStarted("r1", "Go"),
    TurnStarted(1),
    TextDelta("first", 0),
    TurnStarted(2),
    TextDelta("sec", 1),
    ToolCallStarted("c1", 0, "add"),
    ToolArgsDelta("c1", "add", '{"a'),
    RunResumed("r1", "crash"),
    TurnStarted(2, 2),
]


def test_what_came_of_a_turn_that_began_again_is_lost() -> None:
    assert [block.is_lost for block in seen(LOST).blocks] == [False, True, True]
    assert [block.turn for block in seen(LOST).blocks] == [1, 2, 2]
    assert seen(LOST).turns == 2
    blocks = seen([*LOST, TextDelta("again", 1), TurnStarted(2, 3), TextDelta("more", 1)]).blocks
    assert [block.is_lost for block in blocks] == [False, True, True, True, False]


def test_the_next_attempt_may_use_the_same_numbers_and_ids() -> None:
    again: list[Event] = [
        TextDelta("second", 1),
        ToolCallStarted("c1", 0, "add"),
        ToolArgsDelta("c1", "add", "{}"),
        ToolArgsCompleted("c1", "add", {}),
        ToolExecutionStarted("c1", "add", "key"),
    ]
    blocks = seen([*LOST, *again]).blocks
    assert [block.is_lost for block in blocks] == [False, True, True, False, False]
    assert blocks[3] == SeenText(block=1, text="second", turn=2)
    assert [(call.raw, call.attempts) for call in calls(seen([*LOST, *again]))] == [
        ('{"a', 0),
        ("{}", 1),
    ]


# A snapshot as events

REQUEST = ApprovalRequested("c1", "send", {}, "d1gest", "it sends")
ASKED: list[Event] = [
    ToolCallStarted("c1", 0, "send"),
    ToolArgsCompleted("c1", "send", {}),
    REQUEST,
]


def shown_again(snapshot: RunSnapshot) -> None:
    """Check that the events of a snapshot lead to it, but for the usage and stop reasons of turns.

    A failed or stopped run has its usage in its last event.
    """
    end = snapshot.end
    usage = end.usage if isinstance(end, RunFailed | RunStopped) else Usage()
    assert seen(events_of(snapshot)) == replace(snapshot, usage=usage, stop_reason=None)


@given(logged_runs())
def test_the_events_of_a_snapshot_lead_to_it(events: list[Event]) -> None:
    shown_again(seen(events))


def test_so_they_do_for_a_run_that_is_only_observed() -> None:
    events = claude_code()
    for place in range(1, len(events) + 1):
        shown_again(seen(events[:place]))


@pytest.mark.parametrize(
    ("before", "after", "waits"),
    [
        ([], [], True),
        ([], [ApprovalDecided("c1", "send", "approved")], False),
        ([], [ToolCallFailed("c1", "send", "given up")], False),
        ([], [RunCompleted("done")], False),
        ([TurnStarted(1)], [], False),  # a run of an agent of ours pauses
    ],
)
def test_an_observed_run_waits_while_an_approval_is_pending(
    before: list[Event], after: list[Event], waits: bool
) -> None:
    assert is_waiting(seen([RunStarted("r1", "Go"), *before, *ASKED, *after])) is waits


def test_only_a_snapshot_says_what_is_pending() -> None:
    assert [*pending_of(seen([RunStarted("r1", "Go"), *ASKED]))] == [REQUEST]
    assert [*pending_of(REQUEST)] == []


# Whose it is


def test_a_view_that_gets_the_snapshot_of_another_run_forgets_its_own() -> None:
    other = seen([RunStarted("B", "y")])
    new = TextDelta("new", 0)
    assert seen([RunStarted("A", "x"), TextDelta("old", 0), other, new]) == seen([other, new])


def test_nobody_can_change_what_a_view_has_seen() -> None:
    arguments, result = {"path": ["a"]}, [{"n": 1}]
    view = RunView()
    view.take(ToolCallStarted("c1", 0, "write"))
    view.take(ToolArgsCompleted("c1", "write", arguments))
    view.take(ApprovalRequested("c1", "write", arguments, "digest", "why"))
    view.take(ToolCallCompleted("c1", "write", arguments, result))
    view.take(RunCompleted(result))
    before = view.snapshot()
    arguments["path"].append("b")
    result[0]["n"] = 2
    assert view.snapshot() == before
    (call,) = calls(view.snapshot())
    call.result.append("mine")
    assert view.snapshot() == before
    joined = RunView.of(before)
    written = to_json(before)
    calls(before)[0].result.append("mine")
    assert to_json(joined.snapshot()) == written


# What it costs


@pytest.mark.timing
@pytest.mark.parametrize("kind", ["text", "thinking", "arguments", "output"])
def test_taking_deltas_is_linear(kind: str) -> None:
    deltas: dict[str, Event] = {
        "text": TextDelta("word", 0),
        "thinking": ThinkingDelta("word", 0),
        "arguments": ToolArgsDelta("c1", "add", "word"),
        "output": ToolOutputDelta("c1", "add", "word"),
    }

    def job(size: int) -> Callable[[], object]:
        def take() -> None:
            view = RunView()
            view.take(ToolCallStarted("c1", 0, "add"))
            for _ in range(size):
                view.take(deltas[kind])

        return take

    assert growth(job, 60_000) <= BOUND


@pytest.mark.timing
def test_a_snapshot_now_and_then_does_not_make_later_deltas_dear() -> None:
    """A text is copied for a snapshot, and grows in place again after it."""
    view = RunView()
    view.take(TextDelta("x" * 4_000_000, 0))

    def job(size: int) -> Callable[[], object]:
        def take() -> None:
            view.snapshot()
            for _ in range(size):
                view.take(TextDelta("word", 0))

        return take

    assert growth(job, 60_000) <= BOUND


def test_a_snapshot_costs_what_it_holds() -> None:
    def job(size: int) -> Callable[[], object]:
        view = RunView()
        for number in range(size):
            view.take(TextDelta("word " * 20, number))
        return view.snapshot

    assert call_growth(job, 1_000) <= 2
