"""``RunState``: the same state and the same changes for every reader of a run."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from argstream import events as ev
from argstream import stream
from argstream.agent import Agent, Approve, tool
from argstream.errors import UsageError
from argstream.events import Event, from_json, to_json
from argstream.history import CallPart, Message, ResultPart, TextPart, ThinkingPart
from argstream.models import CallTool, Reply, Say, ScriptedModel, Think
from argstream.runs import Argument, Call, Record, RunState, merged, with_arguments
from argstream.testing import cut
from tests import provider_streams as ps
from tests.agent.following import complete
from tests.chance_runs import claude_code, logged_runs, runs
from tests.growth import BOUND, call_growth, cost_ratio, growth
from tests.runs.facts import facts_of, without_times
from tests.runs.records import snapshot_of, timeless
from tests.strategies import any_texts, cuts
from tests.turns import STREAMED, Streamed


def calls(snapshot: ev.RunSnapshot) -> list[ev.CallSnapshot]:
    return [block for block in snapshot.blocks if isinstance(block, ev.CallSnapshot)]


def state_of(events: Iterable[Event]) -> RunState:
    state = RunState()
    for at, event in enumerate(events):
        state.apply(event, float(at))
    return state


def kinds(state: RunState, event: Event) -> list[str]:
    return [change.kind for change in state.apply(event)]


@tool(requires_confirmation=True)
async def send(to: str) -> dict[str, list[str]]:
    return {"sent": [to]}


def agent_run() -> list[Event]:
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
    snapshot = state_of(events[:place]).snapshot()
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=ev.RunSnapshot) == snapshot
    late = RunState.from_snapshot(snapshot)
    for at, event in enumerate(events[place:], place):
        late.apply(event, float(at))
    assert late.snapshot() == state_of(events).snapshot()
    assert without_times(facts_of(late)) == without_times(facts_of(state_of(events)))


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
    shown = [(one.text, one.parent_id) for one in blocks if isinstance(one, ev.TextSnapshot)]
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


def assert_events_lead_to(snapshot: ev.RunSnapshot) -> None:
    """Except for usage and stop reasons of turns. A failed or stopped run has usage in its end."""
    end = snapshot.end
    usage = end.usage if isinstance(end, ev.RunFailed | ev.RunStopped) else ev.Usage()
    state = RunState.from_snapshot(snapshot)
    expected = replace(snapshot, usage=usage, stop_reason=None)
    assert timeless(snapshot_of(state.events())) == timeless(expected)
    short = list(state.events(with_text=False))
    turns = [one.turn for one in short if isinstance(one, ev.TurnStarted) and one.attempt == 1]
    assert turns == list(range(1, snapshot.turns + 1))
    incomplete = [call.raw for call in calls(snapshot) if call.raw and call.verdict != "complete"]
    assert [one.delta for one in short if isinstance(one, ev.ToolArgsDelta)] == incomplete


@given(logged_runs())
@example([ev.RunStarted("r1", "Go"), ev.ThinkingCompleted("Hm", 0, "parent")])
def test_events_of_a_state_build_it_again(events: list[Event]) -> None:
    assert_events_lead_to(snapshot_of(events))


def test_events_of_an_observed_run_build_it_again() -> None:
    events = claude_code()
    for place in range(1, len(events) + 1):
        assert_events_lead_to(snapshot_of(events[:place]))
    start, pause = ev.RunStarted("r1", "Go", mode="observed"), ev.RunPaused("r1", (), True)
    assert list(state_of([start, pause]).events()) == [start, pause]


def test_state_shares_no_values_with_events_or_snapshots() -> None:
    arguments, result = {"path": ["a"]}, [{"n": 1}]
    state = state_of(
        [
            ev.ToolCallStarted("c1", 0, "write"),
            ev.ToolArgsCompleted("c1", "write", arguments),
            ev.ApprovalRequested("c1", "write", arguments, "digest", "why"),
            ev.ToolCallCompleted("c1", "write", arguments, result),
            ev.RunCompleted(result),
        ]
    )
    before = state.snapshot()
    arguments["path"].append("b")
    result[0]["n"] = 2
    assert state.snapshot() == before
    (call,) = calls(state.snapshot())
    call.result.append("mine")
    assert state.snapshot() == before
    late = RunState.from_snapshot(before)
    calls(before)[0].result.append("mine")
    assert late.snapshot() == state.snapshot()


def test_kinds_of_the_changes_of_a_run() -> None:
    state, name = RunState(), ("c1", "get_time")
    delta = ev.ToolArgsDelta(*name, '{"city": "Ro')
    request = ev.ApprovalRequested(*name, {"city": "Rom"}, "digest", "why")
    message = Message(role="assistant", parts=())
    for event, expected in (
        (ev.RunStarted("r1", "Go"), ["run_started"]),
        (ev.TextDelta("Hi", 0), ["block_started", "text"]),
        (ev.ThinkingCompleted("Hm", 1), ["block_started", "text", "block_ended"]),
        (ev.ToolCallStarted("c1", 0, "get_"), ["block_started"]),
        (delta, ["renamed", "arguments_text", "argument", "argument"]),
        (ev.ArgumentDelta(*name, ("city",), "Ro"), []),
        (ev.ToolArgsCompleted(*name, {"city": "Rom"}), ["verdict"]),
        (ev.TurnCompleted("tool_use", message), ["turn_ended"]),
        (request, ["request"]),
        (ev.RunPaused("r1", (request,)), ["run_paused"]),
        (ev.RunResumed("r1"), ["run_resumed"]),
        (ev.ApprovalDecided(*name, "approved"), ["decision"]),
        (ev.ToolExecutionStarted(*name, "key"), ["attempt"]),
        (ev.ToolOutputDelta(*name, "…"), ["output"]),
        (ev.ToolCallCompleted(*name, {"city": "Rom"}, 12), ["result"]),
        (ev.TurnStarted(0, 2), ["block_lost"] * 3 + ["turn_started"]),
        (ev.StreamFailed("truncated", "cut"), ["stream_failed"]),
        (ev.RunFailed("truncated", "cut"), ["run_ended"]),
    ):
        assert kinds(state, event) == expected


@given(logged_runs())
def test_replay_yields_the_changes_of_the_events_of_the_state(events: list[Event]) -> None:
    state = state_of(events)
    again = RunState()
    expected = [change for event in state.events() for change in again.apply(event)]
    assert [(one.kind, one.text) for one in state.replay()] == [
        (one.kind, one.text) for one in expected
    ]
    assert "renamed" not in [one.kind for one in expected]


@given(runs())
def test_changes_have_their_event_and_block_and_add_up_to_its_texts(events: list[Event]) -> None:
    state = RunState()
    changes = [(event, change) for event in events for change in state.apply(event)]
    texts = ("text", "arguments_text", "output")
    for event, change in changes:
        assert change.event is event or change.kind == "argument"
        assert (change.block in state.blocks) != change.kind.startswith(("run_", "turn_", "stream"))
    for block in state.blocks:
        own = [(change.kind, change.text) for _, change in changes if change.block is block]
        found = ["".join(text for kind, text in own if kind == wanted) for wanted in texts]
        assert found == (
            ["", block.raw, block.output] if isinstance(block, Call) else [block.text, "", ""]
        )


def test_keys_are_unique_although_a_repeated_turn_uses_the_same_ids() -> None:
    again: list[Event] = [ev.TextDelta("again", 1), ev.ToolCallStarted("c1", 0, "add")]
    keys = [block.key for block in state_of([*CRASHED, *again]).blocks]
    assert keys == ["/0", "/1", "c1", "/1~2", "c1~2"]


def test_messages_of_a_run() -> None:
    state = state_of(agent_run())
    messages = state.messages or []
    assert [message.role for message in messages] == ["user", "assistant"] * 3
    assert messages[0].parts == (TextPart(text="Go"),)
    results = [part for one in messages for part in one.parts if isinstance(part, ResultPart)]
    assert [part.failed for part in results] == [False, True, True]
    assert RunState.from_snapshot(state.snapshot()).messages is None


def test_record_is_applied_once() -> None:
    record = Record(1, 5.0, "r1", "c", "agent", ev.RunStarted("r1", "Go"))
    state = RunState.from_records([record])
    assert (state.seq, state.time, state.conversation_id, state.agent) == (1, 5.0, "c", "agent")
    with pytest.raises(UsageError, match="record 1 was already applied: the state is at 1"):
        state.apply_record(record)
    with pytest.raises(UsageError, match="the state of run 'r1', not of 'r2'"):
        state.apply_record(replace(record, seq=2, run_id="r2"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Record(1, 5.0, "r1", "c", "agent", ev.TurnStarted(1)), r"not a Record. Use apply_record"),
        (snapshot_of([]), r"not a RunSnapshot. Use RunState.from_snapshot"),
        (None, r"needs an event, not NoneType"),
    ],
)
def test_apply_takes_events_only(value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        RunState().apply(value)
    with pytest.raises(UsageError, match='must be "tree", "events" or "off"'):
        RunState(arguments=value)


def test_results_of_turns_that_repeat_an_id_are_those_of_their_turn() -> None:
    call: list[Event] = [ev.ToolCallStarted("c", 0, "f"), ev.ToolArgsCompleted("c", "f", {})]
    part = ps.call_part("c", "f", {}, "{}")
    turn = ev.TurnCompleted("tool_use", Message(role="assistant", parts=(part,)))
    events: list[Event] = []
    for number in (1, 2):
        events += [*call, turn, ev.ToolCallCompleted("c", "f", {}, number)]
    messages = state_of(events).messages or []
    parts = [part for message in messages for part in message.parts]
    assert [part.result for part in parts if isinstance(part, ResultPart)] == [1, 2]


def test_exact_text_and_edited_arguments_are_kept() -> None:
    edited = ev.ApprovalDecided("c1", "send", "edited", edited_arguments={"to": "eve"})
    completed = ev.ToolArgsCompleted("c1", "send", {"to": "ada"}, text='{"to":"ada"}')
    request = ev.ApprovalRequested("c1", "send", {"to": "ada"}, "digest", "it sends")
    events: list[Event] = [ev.ToolCallStarted("c1", 0, "send"), completed, request, edited]
    state = state_of([*events, ev.ToolCallCompleted("c1", "send", {"to": "eve"}, 1)])
    assert state.calls["c1"].text == '{"to":"ada"}'
    for one in (state, RunState.from_snapshot(state.snapshot())):
        call = one.calls["c1"]
        assert (call.root.value, call.written.value) == ({"to": "eve"}, {"to": "ada"})


def value_of(argument: Argument) -> object:
    if argument.kind == "object":
        return {key: value_of(child) for key, child in argument.children.items()}
    if argument.kind == "array":
        return [value_of(child) for child in argument.children.values()]
    return argument.text if argument.kind == "string" else argument.value


@given(runs(), st.data())
def test_tree_is_the_value_so_far_also_after_a_snapshot(
    events: list[Event], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(events)))
    state = state_of(events[:place])
    late = RunState.from_snapshot(state.snapshot())
    for one in (state, late):
        for event in events[place:]:
            one.apply(event)
    for call, other in zip(state.calls.values(), late.calls.values(), strict=True):
        if call.is_lost:
            continue  # a snapshot has no tree of it
        assert value_of(call.root) == call.root.value == value_of(other.root) == other.root.value
        if call.arguments is not None:
            assert call.root.value == call.arguments


@given(any_texts, cuts, st.data())
def test_known_argument_events_are_used_and_others_are_parsed(
    text: str, sizes: list[int], data: st.DataObject
) -> None:
    """A process has the events of what it wrote, and parses what it reads from a store."""
    events = events_of(ps.anthropic_call(*cut(text, sizes)))
    mixed, whole = RunState(), RunState()
    groups: list[tuple[Event, list[ev.ArgumentEvent]]] = []
    for event in events:
        if isinstance(event, ev.ArgumentEvent):
            groups[-1][1].append(event)
        else:
            groups.append((event, []))
    for event, arguments in groups:
        known = data.draw(st.booleans())
        changes = mixed.apply(event, 0.0, arguments if known else None)
        assert [(one.kind, one.event) for one in changes] == [
            (one.kind, one.event) for one in whole.apply(event)
        ]
    assert mixed.snapshot() == whole.snapshot()


def test_known_argument_events_are_not_parsed_again() -> None:
    call, delta = ev.ToolCallStarted("c1", 0, "add"), ev.ToolArgsDelta("c1", "add", '{"a": 1,')
    known = ev.ArgumentStarted("c1", "add", ("known",), "string")
    state = RunState()
    assert [one.event for one in state.apply_all([call, delta, known])] == [call, delta, known]
    record = Record(1, 0.0, "r1", "c", "agent", delta, (known,))
    assert [one.event for one in state.apply_record(record)] == [delta, known]


@pytest.mark.parametrize("case", [("tree", 2, {"a": 1}), ("events", 2, None), ("off", 0, None)])
def test_arguments_are_parsed_on_request(case: tuple[Any, int, object]) -> None:
    state = RunState(arguments=case[0])
    state.apply(ev.ToolCallStarted("c1", 0, "add"))
    found = kinds(state, ev.ToolArgsDelta("c1", "add", '{"a": 1,'))
    assert (found.count("argument"), state.calls["c1"].root.value) == case[1:]


def without_views(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, ev.ArgumentEvent)]


def events_of(payloads: Iterable[object]) -> list[Event]:
    return ps.assemble(payloads, protocol="anthropic")[1]


@pytest.mark.parametrize("turn", STREAMED, ids=lambda turn: turn.protocol)
def test_views_of_every_protocol_are_restored(turn: Streamed) -> None:
    pieces = cut('{"path": "é\\n\\ud83d\\ude00.txt", "n": [1, {"a": null}], "b": true}', [3])
    events = list(stream([turn.body(*pieces)]))
    assert without_views(events) != events
    assert list(with_arguments(without_views(events))) == events


@given(any_texts, cuts)
@example('{"a": 1e999, "b": 1}', [3])
def test_views_of_any_text_are_restored(text: str, sizes: list[int]) -> None:
    events = events_of(ps.anthropic_call(*cut(text, sizes)))
    assert list(with_arguments(without_views(events))) == events
    assert list(with_arguments(events)) == events, "views that are there are not added again"


@given(runs(crashes=False))
def test_views_of_any_run_are_restored(events: list[Event]) -> None:
    """For a rejected call there may be more of them: the run stopped reading it early."""
    again = list(with_arguments(without_views(events)))
    assert without_views(again) == without_views(events)
    invalid = [event for event in events if isinstance(event, ev.ToolArgsInvalid)]
    rejected = {event.call_id for event in invalid if event.verdict == "rejected"}

    def of_other_calls(some: Iterable[Event]) -> list[Event]:
        return [event for event in some if getattr(event, "call_id", "") not in rejected]

    def settled(some: Iterable[Event]) -> set[str]:
        return {
            repr(one) for one in some if isinstance(one, ev.ArgumentStarted | ev.ArgumentCompleted)
        }

    assert of_other_calls(again) == of_other_calls(events)
    assert settled(events) <= settled(again)


def test_views_of_concurrent_sub_agents_are_restored() -> None:
    events = claude_code()
    assert list(with_arguments(without_views(events))) == events


@given(any_texts, cuts, cuts)
@example("  [0", [1, 3], [1])
def test_merged_events_give_the_same_views(text: str, sizes: list[int], batches: list[int]) -> None:
    events = events_of(ps.anthropic_call(*cut(text, sizes)))
    stored: list[Event] = []
    rest = events
    for size in [*batches, len(events)]:
        stored += merged(rest[:size])
        rest = rest[size:]
    found, expected = ps.joined(with_arguments(stored)), ps.joined(events)
    assert list(map(repr, found)) == list(map(repr, expected))  # 1 is neither 1.0 nor True


@given(any_texts, cuts, st.data())
def test_argument_events_continue_after_a_snapshot(
    text: str, sizes: list[int], data: st.DataObject
) -> None:
    bare = without_views(events_of(ps.anthropic_call(*cut(text, sizes))))
    place = data.draw(st.integers(0, len(bare)))
    state = state_of(bare[:place])
    late = RunState.from_snapshot(state.snapshot())
    for event in bare[place:]:
        assert [one.event for one in late.apply(event)] == [one.event for one in state.apply(event)]


def test_free_text_has_no_views() -> None:
    events: list[Event] = [
        ev.ToolCallStarted("c1", 0, "run", "code"),
        ev.ToolArgsDelta("c1", "run", '{"a": 1}'),
        ev.ToolArgsCompleted("c1", "run", '{"a": 1}'),
    ]
    assert list(with_arguments(events)) == events
    state = state_of([events[0], *events[1:2] * 2])
    assert state.calls["c1"].root.value == '{"a": 1}' * 2


def test_repeated_turn_is_read_from_its_beginning() -> None:
    lost = events_of([ps.message_start(), ps.tool_use(0), ps.input_json(0, '{"path": "lo')])[:-2]
    again = events_of(ps.anthropic_call('{"path": "kept"}'))
    events = [ev.TurnStarted(1), *lost, ev.TurnStarted(1, 2), *again]
    assert list(with_arguments(without_views(events))) == events
    late = ev.ToolArgsDelta("toolu_1", "write", 'st"}')
    cut_off = [ev.TurnStarted(1), *lost, ev.TurnStarted(1, 2)]
    assert list(with_arguments([*cut_off, late]))[-1] == late


@pytest.mark.timing
def test_cost_is_linear_in_the_length_of_the_arguments() -> None:
    def job(size: int) -> Callable[[], object]:
        body = ps.sse(ps.anthropic_call(*cut('{"content": "' + "word " * size + '"}', [5])))
        events = without_views(stream([body]))

        def read() -> None:
            for _ in with_arguments(events):
                pass

        return read

    assert growth(job, 2_000) <= BOUND


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
        field = "delta" if isinstance(delta, ev.ToolArgsDelta) else "text"
        long = replace(delta, **{field: "x" * size})
        state = state_of([ev.ToolCallStarted("c1", 0, "add"), long])
        state.snapshot()

        def take() -> None:
            for _ in range(2_000):
                state.apply(delta)

        return take

    # If each delta copied the text, the long one would take a thousand times as long.
    assert cost_ratio(job(4_000_000), job(10), 20) <= 20


def test_cost_of_a_snapshot_is_linear_in_its_size() -> None:
    def job(size: int) -> Callable[[], object]:
        return state_of(ev.TextDelta("word " * 20, number) for number in range(size)).snapshot

    assert call_growth(job, 1_000) <= 2
