"""Random runs in argstream.js: the state of ``RunState``, whatever was cut and missed.

One Node process reads all runs. Each run is sent in several ways: whole, cut into connections, with
snapshots in place of missed records. Every way must end with the same state, and its handlers must
be called with the same values, once.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from argstream import events as ev
from argstream.history import Message
from argstream.protocols.native import NativeEncoder
from argstream.runs import Call, Record, RunState, joined
from tests.chance_runs import claude_code, logged_runs, runs
from tests.runs.facts import facts_of, without_blanks, without_times
from tests.server.nodes import examples_of, run_node_on

pytestmark = pytest.mark.bulk


class Step(NamedTuple):
    """How many records are sent next, as they are or as a snapshot, perhaps in a new stream."""

    size: int
    is_snapshot: bool = False
    is_cut: bool = False


class Way(NamedTuple):
    """One way to send a run. In a logged run, nothing follows the end of a call."""

    records: list[Record]
    steps: list[Step]
    is_logged: bool

    @property
    def is_whole(self) -> bool:
        return self.steps == WHOLE


class Read(NamedTuple):
    way: Way
    state: RunState
    answer: dict[str, Any]


WHOLE = [Step(1)]
WAYS = [
    [Step(1, is_cut=True)],
    [Step(1, is_snapshot=True)],
    [Step(2, is_snapshot=True)],
    [Step(3, is_snapshot=True, is_cut=True), Step(1)],
]
_step = st.builds(Step, st.integers(1, 12), st.booleans(), st.booleans())
_ways = st.lists(st.lists(_step, min_size=1, max_size=12), min_size=2, max_size=2)


def ways_of(
    events: Sequence[ev.Event], ways: list[list[Step]], *, is_logged: bool = True
) -> Iterator[Way]:
    records = [
        Record(seq, 1_000.0 + seq, "run_1", "talk_1", "agent", event)
        for seq, event in enumerate(as_run(events), 1)
    ]
    for steps in [WHOLE, [Step(1_000, is_snapshot=True)], *ways]:
        yield Way(records, steps, is_logged)


def as_run(events: Sequence[ev.Event]) -> list[ev.Event]:
    """Let each call run with the arguments that were written or edited."""
    arguments: dict[str, Any] = {}
    kept: list[ev.Event] = []
    for event in events:
        match event:
            case ev.ToolArgsCompleted(call_id=call_id, arguments=whole):
                arguments[call_id] = whole
            case ev.ApprovalDecided(call_id=call_id, edited_arguments=dict() as edited):
                arguments[call_id] = edited
            case ev.ToolCallCompleted(call_id=call_id) if call_id in arguments:
                kept.append(replace(event, arguments=arguments[call_id]))
                continue
            case _ if event.is_computed:
                continue
            case _:
                pass
        kept.append(event)
    return kept


def streams_of(way: Way) -> list[str]:
    encoder = NativeEncoder(with_history=False)
    streams: list[bytes] = [b""]
    place = number = 0
    while place < len(way.records):
        step = way.steps[number % len(way.steps)]
        portion = joined(way.records[place : place + step.size])
        place, number = place + step.size, number + 1
        written = encoder.encode(portion).data
        if step.is_cut and streams[-1]:
            streams.append(b"")
        streams[-1] += encoder.replay().data if step.is_snapshot else written
    return [stream.decode() for stream in streams]


@pytest.fixture(scope="module")
def readings() -> list[Read]:
    ways: list[Way] = []
    for is_logged, strategy in ((False, runs()), (True, logged_runs())):
        for events, steps in examples_of(st.tuples(strategy, _ways)):
            ways += ways_of(events, steps, is_logged=is_logged)
    for events in (claude_code(), TRICKY, OPEN):
        ways += ways_of(events, WAYS)
    answers = run_node_on("argstream_js_runs.mjs", [{"streams": streams_of(way)} for way in ways])
    pairs = zip(ways, answers, strict=True)
    return [Read(way, RunState.from_records(way.records), answer) for way, answer in pairs]


def call(call_id: str, index: int, name: str, *deltas: str, kind: Any = "function") -> list[Any]:
    parts = (ev.ToolArgsDelta(call_id, name, delta) for delta in deltas)
    return [ev.ToolCallStarted(call_id, index, name, kind), *parts]


_HUGE = 12345678901234567890123
_ARGUMENTS = {
    "b": 1,
    "2": -0.0,
    "1": {"": [[], {}, "x😀y"]},
    "__proto__": None,
    "huge": _HUGE,
    "float": 1e300,
    "more": [True, False, 1.5],
}
_REQUEST = ev.ApprovalRequested("call", "shell", _ARGUMENTS, "digest", "why")
TRICKY: list[ev.Event] = [
    ev.RunStarted("run_1", "Go"),
    ev.TurnStarted(1),
    ev.TextDelta("Lost", 0),
    *call("call", 0, "write", '{"path": "a'),
    *call("toString", 1, "constructor", '{"__proto__": {"a": [1, '),
    ev.TurnStarted(1, 2),
    ev.TextDelta("é \u2028 \r\n data: {}\n\n \ufeff\x00", 0),
    *call(
        "call",
        0,
        "shell",
        '{"b": 1, "2": -0.0, "1": {"": [[], {}, "x\\ud83d',
        '\\ude00y"]}, "__proto__": null, "huge": 12345678901234',
        '567890123, "float": 1e300, "more": [true, false, 1.5',
        "]}",
    ),
    ev.ToolArgsCompleted("call", "shell", _ARGUMENTS),
    *call("free", 1, "code", "print(", "1)", kind="code"),
    ev.ToolArgsCompleted("free", "code", "print(1)"),
    *call("text", 2, "double", '"{\\"a\\": [1]}"'),
    ev.ToolArgsCompleted("text", "double", {"a": [1]}),
    *call("cut", 3, "search", '{"query": "q"}', kind="server"),
    ev.ToolArgsInvalid("cut", "search", "truncated", "", ev.ArgumentsError("truncated", "cut", 14)),
    ev.ToolCallCompleted("cut", "search", {"INVALID_JSON": '{"query": "q"}'}, ["found"]),
    _REQUEST,
    ev.ApprovalDecided("call", "shell", "edited", edited_arguments={"b": -_HUGE, "new": [1]}),
    ev.ToolCallCompleted("call", "shell", {"b": -_HUGE, "new": [1]}, {"__proto__": [_HUGE]}),
    ev.RunCompleted(_HUGE, run_id="run_1"),
]
OPEN: list[ev.Event] = [
    ev.RunStarted("run_1", "Go"),
    ev.TurnStarted(1),
    ev.ToolCallStarted("task", 0, "ta"),
    ev.ToolArgsDelta("task", "task", '{"b": "x", "2": 1, "1": [], "a": 0}'),
    ev.ToolArgsCompleted("task", "task", {"b": "x", "2": 1, "1": [], "a": 0}),
    ev.TextDelta("All ", 0),
    ev.TextDelta("Some ", 0, "task"),
    ev.ThinkingStarted(1, "task"),
    ev.TextDelta("of it", 0, "task"),
    ev.ThinkingDelta("Hm", 1, "task"),
    ev.TextDelta("of it", 0),
    ev.TurnCompleted("end_turn", Message(role="assistant", parts=()), ev.Usage(1, 2)),
    ev.TurnCompleted("max_tokens", Message(role="assistant", parts=()), ev.Usage(3, 4), "task"),
    ev.ToolCallStarted("cut", 1, "write", parent_id="task"),
    ev.ToolArgsDelta("cut", "write", '{"a": {"b": ["x", '),
    ev.ToolArgsDelta("cut", "write", "tru"),
    ev.ToolArgsInvalid("cut", "write", "malformed", "", ev.ArgumentsError("bad_literal", "no", 3)),
    *call("grows", 2, "patch", "*** ", "Begin", kind="custom"),
]


def test_state_is_that_of_python(readings: list[Read]) -> None:
    for way, state, answer in readings:
        expected, facts = facts_of(state), without_blanks(answer["facts"])
        assert without_times(facts) == without_times(expected)
        assert not answer["wrong"]  # objects stay the same, and every change was reported
        assert answer["ends"] == ([] if state.end is None else [state.status])
        if way.is_whole:
            assert in_order(facts) == in_order(expected)


def in_order(facts: dict[str, Any]) -> dict[str, Any]:
    """Sort the arguments: in an object of JavaScript, keys that are numbers come first."""
    blocks = [
        {**block, "tree": sorted(block.get("tree", ()), key=repr)}
        for block in facts.get("blocks", ())
    ]
    return {**facts, "blocks": blocks}


def test_each_stream_is_requested_after_the_last_seq(readings: list[Read]) -> None:
    for way, state, answer in readings:
        seqs = [0]
        for stream in streams_of(way):
            ids = [line[4:] for line in stream.split("\n") if line.startswith("id: ")]
            seqs.append(int(ids[-1]))
        assert answer["asked"] == (seqs if state.end is None else seqs[:-1])


def test_handlers_are_called_with_the_same_values_in_every_way(readings: list[Read]) -> None:
    expected: list[list[Any]] = []
    for way, state, answer in readings:
        if way.is_whole:
            expected = answer["told"]
        for block, once, again in zip(state.blocks, expected, answer["told"], strict=True):
            if way.is_logged and not block.is_lost:
                assert sorted(again, key=repr) == sorted(once, key=repr)


def test_handlers_are_called_once_with_the_parts_of_a_call(readings: list[Read]) -> None:
    for way, state, answer in readings:
        for block, handled in zip(state.blocks, answer["told"], strict=True):
            if block.is_lost or not (way.is_logged and isinstance(block, Call)):
                continue
            names = [name for name, *_ in handled]
            assert names[0] == "onToolStart"
            for name, is_called in (
                ("onToolStart", True),
                ("onBlock", block.verdict == "complete"),
                ("onInvalid", block.verdict not in (None, "complete")),
                ("onApproval", block.request is not None),
                ("onDecision", block.decision is not None),
                ("onResult", block.outcome is not None),
            ):
                assert names.count(name) == is_called, name
            output = [values[-1] for name, *values in handled if name == "onOutput"]
            assert "".join(output) == block.output
            if block.verdict == "complete":
                values = [values for name, *values in handled if name == "onArgument"]
                rows = list(members(block.written_arguments, (), is_text=block.is_free_text))
                assert sorted(values, key=repr) == sorted(rows, key=repr)


def members(value: Any, path: tuple[str | int, ...], *, is_text: bool = False) -> Iterator[Any]:
    """Yield path and value of each value inside the arguments; of a text, the text itself."""
    if path or is_text:
        yield [list(path), value]
    items = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else items:
        yield from members(item, (*path, key))
