"""Plain lines: what pipes and terminals that can do nothing get."""

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from argstream.argument_views import with_arguments
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
    StreamFailed,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolOutputDelta,
    TurnStarted,
    Usage,
)
from argstream.snapshots import RunView
from argstream.terminal.plain import PlainLines
from tests.chance_runs import claude_code, runs

REQUEST = ApprovalRequested("c1", "write", {"path": "a", "text": "x" * 300}, "d", "it writes", "r")
CALL: list[Event] = [
    ToolCallStarted("c1", 0, "write"),
    ToolArgsDelta("c1", "write", '{"path": "a", "n": 1}'),
    ToolArgsCompleted("c1", "write", {"path": "a", "n": 1}),
]


def written(events: Iterable[Event]) -> str:
    pieces: list[str] = []
    lines = PlainLines(pieces.append)
    for event in events:
        lines.show(event)
    lines.end()
    return "".join(pieces)


def test_a_run_is_a_line_for_each_change() -> None:
    events = [
        RunStarted("run_1", "Go\non"),
        TurnStarted(1),
        ThinkingStarted(0),
        ThinkingDelta("Hm", 0),
        ThinkingCompleted("Hm", 0),
        TextDelta("I write", 1),
        TextDelta(".\nSo.", 1),
        *CALL,
        ToolExecutionStarted("c1", "write", "key"),
        ToolOutputDelta("c1", "write", "one\nt"),
        ToolOutputDelta("c1", "write", "wo"),
        ToolCallCompleted("c1", "write", {}, {"ok": True}),
        TurnStarted(2, 3),
        RunCompleted("x", Usage(7, 5)),
    ]
    assert written(with_arguments(events)).splitlines() == [
        "▶ run_1",
        "> Go",
        "> on",
        "┄ turn 1",
        "~ Hm",
        "│ I write.",
        "│ So.",
        "● write  c1",
        "    path = a",
        "    n = 1",
        "  ✓ write: complete",
        "  > write runs",
        "    ┆ one",
        "    ┆ two",
        '  = write: {"ok": true}',
        "┄ turn 2, attempt 3: what came before was lost",
        "■ the run is complete (7 tokens in, 5 out)",
    ]


def test_what_is_asked_about_is_shown_whole() -> None:
    shown = written(
        [REQUEST, ApprovalDecided("c1", "write", "edited", "so", {"path": "b"}, "rule")]
    )
    assert '"text": "' + "x" * 300 + '"' in shown
    assert "  ? write must be approved (rule r): it writes\n" in shown
    told = "  ! write is edited: so; from now on, so is whatever this rule asks about\n"
    assert shown.endswith(told + '    {\n      "path": "b"\n    }\n')


def test_pauses_crashes_and_ends_are_told() -> None:
    events: list[Event] = [
        RunPaused("r", (REQUEST,)),
        RunResumed("r", "crash", ("c9",), "Look."),
        ToolCallFailed("c1", "write", "no"),
        RunFailed("code", "why"),
        RunStopped("enough"),
    ]
    assert written(events).splitlines() == [
        "‖ paused, waits for a decision on write (c1)",
        "▶ goes on after a crash; cut off: a call (c9)",
        "    the model is told: Look.",
        "● write …  c1",
        '  ✗ write failed: "no"',
        "■ the run failed (code): why",
        "■ the run was stopped: enough",
    ]


def test_who_comes_late_is_told_what_was_before() -> None:
    view = RunView()
    for event in (RunStarted("run_1", "Go"), TurnStarted(1), TextDelta("Hel", 0), *CALL[:2]):
        view.take(event)
    assert written(with_arguments([view.snapshot(), CALL[2]])).splitlines() == [
        "┄ joined in turn 1; first what came before",
        "▶ run_1",
        "> Go",
        "│ Hel",
        "● write  c1",
        "    path = a",
        "    n = 1",
        "  ✓ write: complete",
    ]


def test_a_failing_stream_is_left_to_whoever_complains() -> None:
    assert written([StreamFailed("cut", "hung up")]) == ""


@settings(max_examples=50)
@given(st.one_of(runs(), st.just(claude_code())), st.text())
def test_nothing_acts_on_a_terminal(events: list[Event], text: str) -> None:
    hostile = [
        *events,
        TextDelta(text + "\x1b[2J\u202e\r", 9),
        ToolCallStarted("x", 0, text + "\n"),
    ]
    shown = written(hostile)
    assert all(mark.isprintable() or mark in "\n\t\u3000" for mark in shown)


@settings(max_examples=50)
@given(runs())
def test_what_is_written_only_grows(events: list[Event]) -> None:
    assert written(events).startswith(written(events[: len(events) // 2]).rstrip("\n"))
