"""Runs by chance, as argstream.js folds them: what Python sees, whatever was cut and missed.

All runs are read by one Node process. Each is told in several ways: whole, cut into connections,
with snapshots in place of what was missed. Every way must end with the same, and its handlers must
have been told the same, once.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from argstream import events as ev
from argstream.history import Message
from argstream.protocols.native import NativeEncoder
from argstream.runs import Record, RunView, with_arguments
from tests.chance_runs import claude_code, logged_runs, runs
from tests.protocols.reading import joined, records_of, snapshot_of
from tests.server.nodes import run_node

pytestmark = pytest.mark.bulk

WAYS = 3
FREE_TEXT = ("custom", "code")
"""Kinds of calls whose arguments are a text, and no JSON."""


class Step(NamedTuple):
    """What is told next: so many records, as they are or as a snapshot; perhaps a new stream."""

    size: int
    is_snapshot: bool
    is_cut: bool


class Way(NamedTuple):
    """One way to tell a run."""

    events: list[ev.Event]
    steps: list[Step]
    is_whole: bool
    is_logged: bool
    """Whether it is a run as a log has it; otherwise what is over may go on."""


class Told(NamedTuple):
    """What Node made of it."""

    way: Way
    answer: dict[str, Any]


_steps = st.lists(
    st.builds(Step, st.integers(1, 12), st.booleans(), st.booleans()), min_size=1, max_size=12
)


def chance_ways(*, is_logged: bool) -> list[Way]:
    """Give runs by chance, each told in several ways."""
    ways: list[Way] = []
    chosen = logged_runs() if is_logged else runs()

    @settings(phases=[Phase.generate], database=None)
    @given(chosen, st.lists(_steps, min_size=WAYS, max_size=WAYS))
    def collect(events: list[ev.Event], steps: list[list[Step]]) -> None:
        ways.extend(ways_of(as_run(events), steps, is_logged=is_logged))

    collect()
    return ways


def ways_of(
    events: list[ev.Event], steps: list[list[Step]], *, is_logged: bool = True
) -> Iterator[Way]:
    whole = [Step(1_000_000, is_snapshot=False, is_cut=False)]
    yield Way(events, whole, True, is_logged)
    for some in [AT_ONCE, *steps]:
        yield Way(events, some, False, is_logged)


def as_run(events: Sequence[ev.Event]) -> list[ev.Event]:
    """Give a run in which what was run is what was written, or what somebody has edited."""
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
    """Write a run in this way: it begins again with the steps until all is told."""
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
            written = encoder.opening(without_history(snapshot_of(records[:place]))).data
        streams[-1] += written
    return [stream.decode() for stream in streams]


def without_history(record: Record) -> Record:
    assert isinstance(record.event, ev.RunSnapshot)
    return replace(record, event=replace(record.event, history=()))


def read_by_node(folder: Path, ways: Sequence[Way]) -> list[Told]:
    file = folder / "ways.jsonl"
    lines = [json.dumps({"streams": streams_of(way)}) + "\n" for way in ways]
    file.write_text("".join(lines), encoding="utf-8")
    answers = run_node("argstream_js_runs.mjs", str(file), timeout=50)
    assert len(answers) == len(ways)
    return [Told(*both) for both in zip(ways, answers, strict=True)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[Told]:
    """All ways, read once."""
    ways = [*chance_ways(is_logged=False), *chance_ways(is_logged=True)]
    for events in (as_run(claude_code()), TRICKY, OPEN):
        ways += ways_of(events, [ONE_BY_ONE, EACH, SNAPSHOTS, BOTH])
    return read_by_node(tmp_path_factory.mktemp("ways"), ways)


AT_ONCE = [Step(1_000, is_snapshot=True, is_cut=False)]
ONE_BY_ONE = [Step(1, is_snapshot=False, is_cut=True)]
EACH = [Step(1, is_snapshot=True, is_cut=False)]
SNAPSHOTS = [Step(2, is_snapshot=True, is_cut=False)]
BOTH = [Step(3, is_snapshot=True, is_cut=True), Step(1, is_snapshot=False, is_cut=False)]

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
    ev.ToolCallStarted("call", 0, "write"),
    ev.ToolArgsDelta("call", "write", '{"path": "a'),
    ev.ToolCallStarted("toString", 1, "constructor"),
    ev.ToolArgsDelta("toString", "constructor", '{"__proto__": {"a": [1, '),
    ev.TurnStarted(1, 2),
    ev.TextDelta("é \u2028 \r\n data: {}\n\n \ufeff\x00", 0),
    ev.ToolCallStarted("call", 0, "shell"),
    ev.ToolArgsDelta("call", "shell", '{"b": 1, "2": -0.0, "1": {"": [[], {}, "x\\ud83d'),
    ev.ToolArgsDelta("call", "shell", '\\ude00y"]}, "__proto__": null, "huge": 12345678901234'),
    ev.ToolArgsDelta("call", "shell", '567890123, "float": 1e300, "more": [true, false, 1.5'),
    ev.ToolArgsDelta("call", "shell", "]}"),
    ev.ToolArgsCompleted("call", "shell", _ARGUMENTS),
    ev.ToolCallStarted("free", 1, "code", "code"),
    ev.ToolArgsDelta("free", "code", "print("),
    ev.ToolArgsDelta("free", "code", "1)"),
    ev.ToolArgsCompleted("free", "code", "print(1)"),
    ev.ToolCallStarted("text", 2, "double"),
    ev.ToolArgsDelta("text", "double", '"{\\"a\\": [1]}"'),
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
    ev.ToolCallStarted("grows", 2, "patch", "custom"),
    ev.ToolArgsDelta("grows", "patch", "*** "),
    ev.ToolArgsDelta("grows", "patch", "Begin"),
]


def final(way: Way) -> ev.RunSnapshot:
    view = RunView()
    for event in way.events:
        view.take(event)
    return view.snapshot()


def test_the_run_is_what_python_sees(told: list[Told]) -> None:
    for way, answer in told:
        expected = msgspec.to_builtins(replace(final(way), history=()))
        assert msgspec.json.decode(msgspec.json.encode(expected)) == answer["run"]
        assert answer["seq"] == len(way.events)


def test_objects_stay_the_same_and_all_that_changes_is_told(told: list[Told]) -> None:
    for _, answer in told:
        assert not answer["wrong"]


def test_each_stream_is_asked_for_after_the_last_seq_that_was_seen(told: list[Told]) -> None:
    for way, answer in told:
        seqs = [0]
        for stream in streams_of(way):
            ids = [line[4:] for line in stream.split("\n") if line.startswith("id: ")]
            seqs.append(int(ids[-1]))
        is_over = isinstance(way.events[-1], ev.RunEnd)
        assert answer["asked"] == (seqs[:-1] if is_over else seqs)


def test_the_arguments_are_what_the_parser_sees(told: list[Told]) -> None:
    for way, answer in told:
        blocks = final(way).blocks
        for call, tree in zip(blocks, answer["trees"], strict=True):
            if not isinstance(call, ev.SeenCall):
                assert tree is None
            elif call.arguments is not None:
                assert by_path(tree) == by_path(flat(call.arguments))
            elif call.kind in FREE_TEXT:
                assert tree == [[[], "string", call.raw, False, None]]
            elif not call.is_lost:
                assert tree == partial(call)


def test_arguments_are_in_the_order_in_which_they_were_written(told: list[Told]) -> None:
    for way, answer in told:
        if not way.is_whole:
            continue
        for call, tree in zip(final(way).blocks, answer["trees"], strict=True):
            if isinstance(call, ev.SeenCall) and call.arguments is not None and not is_other(call):
                assert [row[0] for row in tree] == [row[0] for row in flat(call.arguments)]


def is_other(call: ev.SeenCall) -> bool:
    """Say whether what was run is not what was written, or was written as a text in a text."""
    return call.outcome == "completed" or call.raw.startswith('"')


def by_path(tree: list[Any]) -> list[Any]:
    return sorted(tree, key=repr)


def flat(value: Any, path: tuple[str | int, ...] = ()) -> list[list[Any]]:
    """Give a value and all in it, as Node tells it."""
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


def partial(call: ev.SeenCall) -> list[list[Any]]:
    """Give the arguments as far as their text goes."""
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


def test_handlers_are_told_each_thing_once_however_it_came(told: list[Told]) -> None:
    expected: list[list[Any]] = []
    for way, answer in told:
        if way.is_whole:
            expected = answer["told"]
        blocks = final(way).blocks
        for block, once, again in zip(blocks, expected, answer["told"], strict=True):
            if way.is_logged and not block.is_lost:
                assert again == once or reordered(again) == reordered(once)


def reordered(said: list[Any]) -> list[Any]:
    """Without the order of keys: in an object of JavaScript, those that are numbers come first."""
    return sorted(said, key=repr)


def test_what_is_told_is_what_there_is(told: list[Told]) -> None:
    for way, answer in told:
        for block, said in zip(final(way).blocks, answer["told"], strict=True):
            if block.is_lost or not (way.is_logged and isinstance(block, ev.SeenCall)):
                continue
            names = [name for name, *_ in said]
            assert names[0] == "onToolStart"
            assert names.count("onToolStart") == 1
            assert names.count("onBlock") == (block.verdict == "complete")
            assert names.count("onInvalid") == (block.verdict not in (None, "complete"))
            assert names.count("onApproval") == (block.request is not None)
            assert names.count("onDecision") == (block.decision is not None)
            assert names.count("onResult") == (block.outcome is not None)
            output = [words[-1] for name, *words in said if name == "onOutput"]
            assert "".join(output) == block.output
            if block.verdict == "complete":
                values = [words for name, *words in said if name == "onArgument"]
                _, *inner = flat(written(block))
                expected = inner if isinstance(written(block), dict) else flat(block.arguments)
                assert by_path(values) == by_path([[row[0], row[-1]] for row in expected])


def written(call: ev.SeenCall) -> Any:
    """Give the arguments that the model wrote."""
    is_edited = call.request and call.decision and call.decision.edited_arguments is not None
    return call.request.arguments if is_edited and call.request else call.arguments


def test_the_end_is_told_once(told: list[Told]) -> None:
    for way, answer in told:
        end = final(way).end
        assert answer["ends"] == ([] if end is None else [final(way).status])
