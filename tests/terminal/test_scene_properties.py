"""What holds for scenes of any run: nothing is lost, nothing acts, and looking changes nothing."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from argstream import events as e
from argstream.runs import with_arguments
from argstream.sanitise import visible
from argstream.terminal import Line, RunView, rows_of
from argstream.terminal.tool_views import ToolViews
from argstream.testing import cut
from tests.chance_runs import claude_code, runs
from tests.growth import BOUND, growth
from tests.runs.records import late_view
from tests.terminal.looks.following import text_of

some = settings(max_examples=settings().max_examples * 2 // 5)  # a scene is a lot of work
chance = st.one_of(runs(), st.just(claude_code()))
Look = Callable[[RunView, float], object]


def committed(
    events: Iterable[e.Event | e.RunSnapshot], look: Look = lambda *_: None
) -> list[Line]:
    """Return all lines of a scene, with a look at it after each event."""
    scene = RunView(full=True)
    lines: list[Line] = []
    now = 0.0
    for now, event in enumerate(events, 1):
        scene.take(event, float(now))
        look(scene, float(now))
        lines += scene.committed()
    scene.finish(float(now))
    assert scene.tail(float(now), 80, 8) == []
    return lines + scene.committed()


def squeezed(text: str) -> str:
    """Without blanks, which depend on where lines are broken."""
    return "".join(text.split())


def unmarked(text: str) -> str:
    """Without the marks of Markdown, which are not shown."""
    return re.sub(r"[\s#*_`>|•▎~+.\\0-9-]", "", text)


def all_text(lines: Iterable[Line]) -> str:
    return squeezed("\n".join(text_of(line.margin + line.spans) for line in lines))


def words_of(lines: Iterable[Line]) -> str:
    """Without margins, which depend on which rows of a long line are final already."""
    return squeezed("".join(text_of(line.spans) for line in lines))


@some
@given(chance, st.lists(st.integers(0, 14), min_size=1, max_size=5))
def test_looking_changes_no_word(events: list[e.Event], sizes: list[int]) -> None:
    def look(scene: RunView, now: float) -> None:
        for rows in sizes:
            assert len(scene.tail(now, 5 + 7 * rows, rows)) <= rows

    assert words_of(committed(events, look)) == words_of(committed(events))


@some
@given(
    st.text(st.sampled_from("ab  `*日、(🎉e\u0301\x1b\t\u200d🇩🇪"), max_size=300),
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(1, 50),
)
@example("`" * 13, 1, 1, 1)
def test_looking_loses_nothing_of_long_lines(text: str, columns: int, rows: int, size: int) -> None:
    for kind in (e.TextDelta, e.ThinkingDelta):
        events = [kind(piece, 0) for piece in cut(text, [size])]
        lines = committed(events, lambda scene, now: scene.tail(now, columns, rows))
        assert words_of(lines) == words_of(committed(events))
        if not {"`", "*"} & {*text}:  # marks of Markdown disappear
            assert words_of(lines) == squeezed(visible(text))


@some
@given(
    st.text(st.sampled_from("ab  cd日、(🎉"), min_size=100, max_size=300),
    st.integers(8, 40),
    st.integers(1, 50),
)
def test_looking_adds_no_break_to_a_long_line(text: str, columns: int, size: int) -> None:
    for kind in (e.TextDelta, e.ThinkingDelta):
        events = [kind(piece, 0) for piece in cut(text, [size])]
        lines = committed(events, lambda scene, now: scene.tail(now, columns, 3))
        (whole,) = committed([kind(text, 0)])
        seen = [text_of(row).rstrip() for line in lines for row in rows_of(line, columns)]
        assert seen == [text_of(row).rstrip() for row in rows_of(whole, columns)]


def _bare(lines: list[Line]) -> list[str]:
    return sorted(text_of(line.spans) for line in lines)


@some
@given(chance)
def test_all_text_and_arguments_are_committed(events: list[e.Event]) -> None:
    lines = committed(events)
    seen = all_text(lines)
    for event in events:
        if isinstance(event, e.TextDelta):
            assert unmarked(visible(event.text)) in unmarked(seen)
        elif isinstance(event, e.ArgumentCompleted | e.ArgumentDelta):
            for text in _leaves(event.text if isinstance(event, e.ArgumentDelta) else event.value):
                assert squeezed(text) in seen
    scene = RunView(full=True)  # its lines are fetched at the end: a request may enclose its call
    for now, event in enumerate(events, 1):
        scene.take(event, float(now))
    scene.finish(float(len(events)))
    assert _bare(scene.committed()) == _bare(lines)


@some
@given(chance, st.text())
def test_no_line_acts_on_a_terminal(events: list[e.Event], text: str) -> None:
    hostile: list[e.Event] = [
        *events,
        e.TextDelta(text + "\x1b[2J\u202e\t\r", 99),
        e.ToolOutputDelta("c", text, text + "\x9b\n\x07\u2028"),
        e.ToolCallStarted("d", 1, text + "\n\x1b"),
    ]
    tails: list[Line] = []
    lines = committed(hostile, lambda scene, now: tails.extend(scene.tail(now, 80, 8)))
    for line in lines + tails:
        for span in (*line.margin, *line.spans, *(line.rest or ())):
            assert all(character.isprintable() or character == "\u3000" for character in span.text)


@some
@given(runs(), st.data())
def test_late_viewer_sees_the_same_arguments(events: list[e.Event], data: st.DataObject) -> None:
    logged = [event for event in events if not event.type.startswith("argument_")]
    place = data.draw(st.integers(0, len(logged)))
    seen = all_text(committed(late_view(logged, place)))
    for event in events:
        if isinstance(event, e.ArgumentCompleted):
            for text in _leaves(event.value):
                assert squeezed(text) in seen


def _leaves(value: Any) -> Iterable[str]:
    match value:
        case str():
            yield from map(visible, value.split("\n"))
        case dict() | list():
            for item in value.values() if isinstance(value, dict) else value:
                yield from _leaves(item)
        case _:
            yield json.dumps(value)


def _call(content: str) -> list[e.Event]:
    text = json.dumps({"path": "a.txt", "content": content})
    pieces = [e.ToolArgsDelta("c", "write_file", piece) for piece in cut(text, [16])]
    completed = e.ToolArgsCompleted("c", "write_file", json.loads(text))
    return list(with_arguments([e.ToolCallStarted("c", 0, "write_file"), *pieces, completed]))


JOBS: dict[str, Callable[[int], list[e.Event]]] = {
    "a text in one line": lambda size: [e.TextDelta("x" * 8, 0)] * (size * 2),
    "output in one line": lambda size: [e.ToolOutputDelta("c", "run", "x" * 8)] * (size * 2),
    "an argument in one line": lambda size: _call("x" * size * 16),
    "an argument of many lines": lambda size: _call("line\n" * size),
    "many calls at once": lambda size: [
        e.ToolCallStarted(f"c{number}", number, "write_file") for number in range(size // 2)
    ],
}


@pytest.mark.timing
@pytest.mark.parametrize("has_tail", [True, False], ids=["screen", "pipe"])
@pytest.mark.parametrize("name", JOBS)
def test_cost_is_linear(name: str, has_tail: bool) -> None:
    def job_of_size(size: int) -> Callable[[], object]:
        events = JOBS[name](size)

        def job() -> None:
            scene = RunView(ToolViews(), has_tail=has_tail)
            for number, event in enumerate(events):
                scene.take(event, number / 100)
                if not has_tail or number % 50 == 0:
                    scene.committed()
                if has_tail and number % 50 == 0:
                    scene.tail(number / 100, 80, 8)

        return job

    assert growth(job_of_size, 400) <= BOUND
