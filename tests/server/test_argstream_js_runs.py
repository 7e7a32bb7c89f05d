"""Random runs as argstream.js folds them: the same state as in Python, whatever was cut and missed.

One Node process reads all runs. Each run is sent in several ways: whole, cut into connections, with
snapshots in place of missed records. Every way must end with the same state, and its handlers must
be called with the same values, once.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from argstream import events as ev
from argstream.history import Message
from argstream.protocols.native import NativeEncoder
from argstream.runs import with_arguments
from tests.chance_runs import claude_code, logged_runs, runs
from tests.protocols.reading import joined, records_of, snapshot_of
from tests.server.nodes import examples_of, run_node_on
from tests.server.talking import folded

pytestmark = pytest.mark.bulk

FREE_TEXT = ("custom", "code")  # kinds of calls whose arguments are text, not JSON


class Step(NamedTuple):
    """How many records are sent next, as they are or as a snapshot, perhaps in a new stream."""

    size: int
    is_snapshot: bool = False
    is_cut: bool = False


class Way(NamedTuple):
    """One way to send a run. In a logged run, nothing follows the end of a call."""

    events: list[ev.Event]
    steps: list[Step]
    is_whole: bool
    is_logged: bool


class Read(NamedTuple):
    way: Way
    final: ev.RunSnapshot
    answer: dict[str, Any]


WHOLE = [Step(1_000_000)]
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
    run = as_run(events)
    yield Way(run, WHOLE, True, is_logged)
    for steps in [[Step(1_000, is_snapshot=True)], *ways]:
        yield Way(run, steps, False, is_logged)


def as_run(events: Sequence[ev.Event]) -> list[ev.Event]:
    """Let each call run with the arguments that were written or edited."""
    arguments: dict[str, Any] = {}
    kept: list[ev.Event] = []
    for event in events:
        match event:
            case ev.ArgumentStarted() | ev.ArgumentDelta() | ev.ArgumentCompleted():
                continue
            case ev.ToolArgsCompleted(call_id=call_id, arguments=whole):
                arguments[call_id] = whole
            case ev.ApprovalDecided(call_id=call_id, edited_arguments=dict() as edited):
                arguments[call_id] = edited
            case ev.ToolCallCompleted(call_id=call_id) if call_id in arguments:
                kept.append(replace(event, arguments=arguments[call_id]))
                continue
            case _:
                pass
        kept.append(event)
    return kept


def streams_of(way: Way) -> list[str]:
    records = records_of(way.events)
    encoder = NativeEncoder()
    streams: list[bytes] = [b""]
    place = number = 0
    while place < len(records):
        step = way.steps[number % len(way.steps)]
        portion = joined(records[place : place + step.size])
        place, number = place + step.size, number + 1
        written = encoder.take(portion).data
        if step.is_cut and streams[-1]:
            streams.append(b"")
        if step.is_snapshot:
            snapshot = snapshot_of(records[:place])
            assert isinstance(snapshot.event, ev.RunSnapshot)
            without_history = replace(snapshot, event=replace(snapshot.event, history=()))
            written = encoder.replay(without_history).data
        streams[-1] += written
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
    return [Read(way, folded(way.events), answer) for way, answer in pairs]


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
    for way, final, answer in readings:
        expected = msgspec.to_builtins(replace(final, history=()))
        assert msgspec.json.decode(msgspec.json.encode(expected)) == answer["run"]
        assert answer["seq"] == len(way.events)
        assert not answer["wrong"]  # objects stay the same, and every change was reported
        assert answer["ends"] == ([] if final.end is None else [final.status])


def test_each_stream_is_requested_after_the_last_seq(readings: list[Read]) -> None:
    for way, _, answer in readings:
        seqs = [0]
        for stream in streams_of(way):
            ids = [line[4:] for line in stream.split("\n") if line.startswith("id: ")]
            seqs.append(int(ids[-1]))
        is_over = isinstance(way.events[-1], ev.RunEnd)
        assert answer["asked"] == (seqs[:-1] if is_over else seqs)


def test_arguments_are_those_of_the_parser_in_their_order(readings: list[Read]) -> None:
    for way, final, answer in readings:
        for call, tree in zip(final.blocks, answer["trees"], strict=True):
            if not isinstance(call, ev.CallSnapshot):
                assert tree is None
            elif call.arguments is not None:
                rows = flat(call.arguments)
                assert by_path(tree) == by_path(rows)
                is_rewritten = call.outcome == "completed" or call.raw.startswith('"')
                if way.is_whole and not is_rewritten:
                    assert [row[0] for row in tree] == [row[0] for row in rows]
            elif call.kind in FREE_TEXT:
                assert tree == [[[], "string", call.raw, False, None]]
            elif not call.is_lost:
                assert tree == partial(call)


def by_path(rows: list[Any]) -> list[Any]:
    """Sort: in an object of JavaScript, keys that are numbers come first."""
    return sorted(rows, key=repr)


def flat(value: Any, path: tuple[str | int, ...] = ()) -> list[list[Any]]:
    kind = _kind(value)
    rows = [[list(path), kind, value if kind == "string" else "", True, value]]
    if isinstance(value, dict):
        rows += [row for key, item in value.items() for row in flat(item, (*path, key))]
    elif isinstance(value, list):
        rows += [row for place, item in enumerate(value) for row in flat(item, (*path, place))]
    return rows


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    names = {dict: "object", list: "array", str: "string", int: "number", float: "number"}
    return names[type(value)]


def partial(call: ev.CallSnapshot) -> list[list[Any]]:
    """The arguments as far as their text goes."""
    start = ev.ToolCallStarted(call.call_id, call.index, call.name, call.kind)
    delta = ev.ToolArgsDelta(call.call_id, call.name, call.raw)
    rows: dict[tuple[str | int, ...], list[Any]] = {}
    for view in [*with_arguments([start, delta])][2:]:
        match view:
            case ev.ArgumentStarted(path=path, kind=kind):
                rows[path] = [list(path), kind, "", False, None]
            case ev.ArgumentDelta(path=path, text=text):
                rows[path][2] += text
            case ev.ArgumentCompleted(path=path, value=value):
                rows[path][3:] = [True, value]
            case _:
                raise AssertionError(view)
    root: list[Any] = [[], "object" if rows else None, "", False, None]
    return [root, *rows.values()]


def test_handlers_are_called_with_the_same_values_in_every_way(readings: list[Read]) -> None:
    expected: list[list[Any]] = []
    for way, final, answer in readings:
        if way.is_whole:
            expected = answer["told"]
        for block, once, again in zip(final.blocks, expected, answer["told"], strict=True):
            if way.is_logged and not block.is_lost:
                assert again == once or by_path(again) == by_path(once)


def test_handlers_are_called_once_with_the_parts_of_a_call(readings: list[Read]) -> None:
    for way, final, answer in readings:
        for block, handled in zip(final.blocks, answer["told"], strict=True):
            if block.is_lost or not (way.is_logged and isinstance(block, ev.CallSnapshot)):
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
                _, *inner = flat(written(block))
                rows = inner if isinstance(written(block), dict) else flat(block.arguments)
                assert by_path(values) == by_path([[row[0], row[-1]] for row in rows])


def written(call: ev.CallSnapshot) -> Any:
    is_edited = call.request and call.decision and call.decision.edited_arguments is not None
    return call.request.arguments if is_edited and call.request else call.arguments
