"""What holds for scenes of any run: nothing is lost, nothing acts, nothing depends on who looks."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    Event,
    RunSnapshot,
    TextDelta,
    ThinkingDelta,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolCallStarted,
    ToolOutputDelta,
)
from argstream.runs import RunView, with_arguments
from argstream.sanitise import visible
from argstream.terminal import Line, Scene, rows_of
from argstream.terminal.tool_views import Looks
from tests.chance_runs import claude_code, runs
from tests.growth import BOUND, growth
from tests.terminal.looks.following import text_of

some = settings(max_examples=settings().max_examples * 2 // 5)  # a scene is a lot of work
chance = st.one_of(runs(), st.just(claude_code()))


def committed(
    events: Iterable[Event], look: Callable[[Scene, float], object] = lambda *_: None
) -> list[Line]:
    """Give all lines of a scene at which somebody looks now and then."""
    scene = Scene()
    lines: list[Line] = []
    now = 0.0
    for now, event in enumerate(events, 1):
        scene.take(event, float(now))
        look(scene, float(now))
        lines += scene.committed()
    scene.finish(float(now))
    return lines + scene.committed()


def texts_of(lines: Iterable[Line]) -> str:
    return "\n".join(text_of(line.margin + line.spans) for line in lines)


def words_of(lines: Iterable[Line]) -> str:
    """Without what depends on which rows of a long line are final already: their margins."""
    return squeezed("".join(text_of(line.spans) for line in lines))


def squeezed(text: str) -> str:
    """Without what depends on where lines are broken."""
    return "".join(text.split())


@some
@given(chance, st.lists(st.integers(0, 14), min_size=1, max_size=5))
def test_who_looks_and_how_often_changes_no_word(events: list[Event], sizes: list[int]) -> None:
    def look(scene: Scene, now: float) -> None:
        for rows in sizes:
            tail = scene.tail(now, 5 + 7 * rows, rows)
            assert len(tail) <= rows

    assert words_of(committed(events, look)) == words_of(committed(events))


@some
@given(
    st.text(st.sampled_from("ab  `*日、(🎉e\u0301\x1b\t\u200d🇩🇪"), max_size=300),
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(1, 50),
)
def test_a_long_line_loses_nothing_by_being_seen(
    text: str, columns: int, rows: int, piece: int
) -> None:
    pieces = [text[start : start + piece] for start in range(0, len(text), piece)]
    for kind in (TextDelta, ThinkingDelta):
        events = [kind(one, 0) for one in pieces]
        lines = committed(events, lambda scene, now: scene.tail(now, columns, rows))
        assert words_of(lines) == squeezed(visible(text))


@some
@given(
    st.text(st.sampled_from("ab  cd日、(🎉"), min_size=100, max_size=300),
    st.integers(8, 40),
    st.integers(1, 50),
)
def test_where_a_long_line_is_parted_no_break_is_seen(text: str, columns: int, piece: int) -> None:
    pieces = [text[start : start + piece] for start in range(0, len(text), piece)]
    lines = committed(
        [TextDelta(one, 0) for one in pieces], lambda scene, now: scene.tail(now, columns, 3)
    )
    (whole,) = committed([TextDelta(text, 0)])
    seen = [text_of(row) for line in lines for row in rows_of(line, columns)]
    assert seen == [text_of(row) for row in rows_of(whole, columns)]


@some
@given(chance)
def test_when_lines_are_fetched_changes_nothing(events: list[Event]) -> None:
    scene = Scene()
    for now, event in enumerate(events, 1):
        scene.take(event, float(now))
    scene.finish(float(len(events)))
    assert scene.committed() == committed(events)


@some
@given(chance)
def test_what_a_model_wrote_in_arguments_is_there_at_the_end(events: list[Event]) -> None:
    seen = squeezed(texts_of(committed(events)))
    for event in events:
        if isinstance(event, ArgumentCompleted | ArgumentDelta):
            said = event.text if isinstance(event, ArgumentDelta) else event.value
            for text in _leaves(said):
                assert squeezed(text) in seen


@some
@given(chance)
def test_what_a_model_said_is_there_at_the_end(events: list[Event]) -> None:
    lines = squeezed(texts_of(committed(events)))
    for event in events:
        if isinstance(event, TextDelta):
            assert squeezed(visible(event.text)) in lines


@some
@given(chance, st.text())
def test_no_line_holds_anything_that_could_act(events: list[Event], text: str) -> None:
    hostile: list[Event] = [
        *events,
        TextDelta(text + "\x1b[2J\u202e\t\r", 99),
        ToolOutputDelta("c", text, text + "\x9b\n\x07\u2028"),
        ToolCallStarted("d", 1, text + "\n\x1b"),
    ]
    scene = Scene()
    lines: list[Line] = []
    for now, event in enumerate(hostile):
        scene.take(event, float(now))
        lines += scene.tail(float(now), 80, 8)
    scene.finish(0.0)
    for line in lines + scene.committed():
        for span in (*line.margin, *line.spans, *(line.rest or ())):
            assert all(character.isprintable() or character == "\u3000" for character in span.text)


@some
@given(chance)
def test_after_the_end_there_is_no_tail(events: list[Event]) -> None:
    scene = Scene()
    for now, event in enumerate(events):
        scene.take(event, float(now))
    scene.finish(0.0)
    assert scene.tail(0.0, 80, 8) == []


@some
@given(runs(), st.data())
def test_who_comes_late_sees_the_same_arguments_and_words(
    events: list[Event], data: st.DataObject
) -> None:
    logged = [event for event in events if event.type not in _VIEWS]
    place = data.draw(st.integers(0, len(logged)))
    view = RunView()
    for event in logged[:place]:
        view.take(event)
    late = list(with_arguments([view.snapshot(), *logged[place:]]))
    assert isinstance(late[0], RunSnapshot)
    seen = squeezed(texts_of(committed(late)))
    for event in events:
        if isinstance(event, ArgumentCompleted):
            for text in _leaves(event.value):
                assert squeezed(text) in seen


_VIEWS = ("argument_started", "argument_delta", "argument_completed")


def _leaves(value: Any) -> Iterable[str]:
    match value:
        case str():
            yield from map(visible, value.split("\n"))
        case dict():
            for item in value.values():
                yield from _leaves(item)
        case list():
            for item in value:
                yield from _leaves(item)
        case _:
            yield json.dumps(value)


# The price.


def _call(content: str, piece: int) -> list[Event]:
    text = json.dumps({"path": "a.txt", "content": content})
    events: list[Event] = [ToolCallStarted("c", 0, "write_file")]
    events += [
        ToolArgsDelta("c", "write_file", text[at : at + piece]) for at in range(0, len(text), piece)
    ]
    events.append(ToolArgsCompleted("c", "write_file", json.loads(text)))
    return list(with_arguments(events))


JOBS: dict[str, Callable[[int], list[Event]]] = {
    "a text in one line": lambda size: [TextDelta("x" * 8, 0) for _ in range(size * 2)],
    "output in one line": lambda size: [
        ToolOutputDelta("c", "run", "x" * 8) for _ in range(size * 2)
    ],
    "an argument in one line": lambda size: _call("x" * size * 16, 16),
    "an argument of many lines": lambda size: _call("line\n" * size, 16),
    "many calls at once": lambda size: [
        ToolCallStarted(f"c{number}", number, "write_file") for number in range(size // 2)
    ],
}


@pytest.mark.timing
@pytest.mark.parametrize("has_tail", [True, False])
@pytest.mark.parametrize("name", JOBS)
def test_what_is_taken_costs_what_it_holds(name: str, has_tail: bool) -> None:
    """With a tail asked for now and then, as a screen does, and without one, as in a pipe."""

    def job_of_size(size: int) -> Callable[[], object]:
        events = JOBS[name](size)

        def job() -> None:
            scene = Scene(Looks(), has_tail=has_tail)
            for number, event in enumerate(events):
                scene.take(event, number / 100)
                if not has_tail:
                    scene.committed()
                elif number % 50 == 0:
                    scene.committed()
                    scene.tail(number / 100, 80, 8)

        return job

    assert growth(job_of_size, 1000) <= BOUND
