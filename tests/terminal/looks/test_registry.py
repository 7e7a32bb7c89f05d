"""Looks that users register, and calls that are no JSON."""

from typing import Any, NamedTuple

import pytest

from argstream.errors import UsageError
from argstream.events import ArgumentCompleted, ArgumentDelta, ArgumentStarted, ToolCallStarted
from argstream.terminal import Line, Span, Spans
from argstream.terminal.tool_views import ArgumentEvent, Command, File, Looks
from tests.terminal.looks.following import follow, text_of, texts


class Shouting:
    """A look that somebody wrote: it shows one argument, and fails where it is told to."""

    def __init__(self, fails_in: str = "") -> None:
        self._fails_in = fails_in

    def view(self, call: ToolCallStarted) -> "ShoutingView":
        if self._fails_in == "view":
            raise KeyError(call.name)
        return ShoutingView(self._fails_in)


class ShoutingView:
    def __init__(self, fails_in: str) -> None:
        self._fails_in = fails_in
        self._lines: list[Line] = []

    def _may(self, place: str) -> None:
        if self._fails_in == place:
            raise ValueError("no\x1b")

    def take(self, event: ArgumentEvent) -> None:
        self._may("take")
        if isinstance(event, ArgumentCompleted) and event.path == ("word",):
            self._lines.append(Line((Span(event.value.upper()),)))

    @property
    def title(self) -> Spans:
        self._may("title")
        return (Span("loud"),)

    @property
    def is_title_open(self) -> bool:
        self._may("is_title_open")
        return False

    def settled(self) -> list[Line]:
        self._may("settled")
        lines, self._lines = self._lines, []
        return lines if self._fails_in != "type" else [("no", "line")]  # type: ignore[list-item]  # what a careless person returns

    def growing(self, rows: int) -> list[Line]:
        self._may("growing")
        return self._lines[:rows]

    def finish(self) -> list[Line]:
        self._may("finish")
        return self.settled()


class Made(NamedTuple):
    """A look whose only view is made already."""

    made: ShoutingView

    def view(self, call: ToolCallStarted) -> ShoutingView:
        return self.made


ARGUMENTS: dict[str, Any] = {"word": "hello", "other": 1}
CARELESS_LINE: Any = Line
CARELESS_SPAN: Any = Span  # types are not looked at by everybody


def test_a_look_of_your_own_is_asked() -> None:
    seen = follow(ARGUMENTS, "say", Looks({"say": Shouting()}))
    assert (seen.title, seen.text) == ("loud", "  HELLO\n")


@pytest.mark.parametrize(
    "place", ["view", "take", "title", "is_title_open", "settled", "growing", "finish", "type"]
)
def test_one_that_fails_is_replaced_by_plain_lines_that_say_so(place: str) -> None:
    seen = follow(ARGUMENTS, "say", Looks({"say": Shouting(place)}))
    assert "  the look of this tool failed: " in seen.text
    assert seen.text.endswith('  word = "hello"\n  other = 1\n')


@pytest.mark.parametrize(
    ("careless", "why"),
    [
        (CARELESS_LINE("x"), "a piece of a line must be a Span, not 'x'"),
        (CARELESS_LINE((CARELESS_SPAN(5),)), "the text of a span must be a str, not 5"),
        (CARELESS_LINE((CARELESS_SPAN("x", "loud"),)), "there is no role 'loud': it must be one"),
        (CARELESS_LINE((CARELESS_SPAN("x", ["plain"]),)), "there is no role ['plain']"),
        (CARELESS_LINE((Span("x"),), "  "), "a piece of a line must be a Span, not ' '"),
        (CARELESS_LINE((Span("x"),), (), "zz"), "a piece of a line must be a Span, not 'z'"),
        (CARELESS_LINE((Span("x"),), breaks="never"), "a line breaks at 'never': it must be one"),
    ],
)
def test_a_line_that_could_not_be_painted_is_a_failure_of_the_look(careless: Any, why: str) -> None:
    class Careless(ShoutingView):
        def settled(self) -> list[Line]:
            return [careless]

    seen = follow(ARGUMENTS, "say", Looks({"say": Made(Careless(""))}))
    assert why in seen.text
    assert seen.text.endswith('  word = "hello"\n  other = 1\n')


def test_a_title_that_could_not_be_painted_is_a_failure_of_the_look() -> None:
    class Careless(ShoutingView):
        title = "loud"  # type: ignore[assignment]  # what a careless person writes

    seen = follow(ARGUMENTS, "say", Looks({"say": Made(Careless(""))}))
    assert "must be a Span, not 'l'" in seen.text


def test_at_the_left_edge_there_is_always_a_margin() -> None:
    class Edgy(ShoutingView):
        def finish(self) -> list[Line]:
            return [Line((Span("a"),), (Span(""),), ()), Line((Span("b"),), (Span("| "),), ())]

    *_, first, second = follow(ARGUMENTS, "say", Looks({"say": Made(Edgy(""))})).lines
    assert (first.margin, first.rest) == ((Span("  "),), (Span("  "),))
    assert (second.margin, second.rest) == ((Span("| "),), (Span("  "),))


def test_before_a_decision_all_is_shown_plainly_after_a_look_of_your_own() -> None:
    lines = texts(Looks({"say": Shouting()}).whole("say", ARGUMENTS))
    assert lines == ["  loud", "  HELLO", "  all arguments:", '  word = "hello"', "  other = 1"]


def test_what_is_no_look_is_refused_with_the_names_of_what_is() -> None:
    with pytest.raises(UsageError, match=r"the look of 'say' must be File\(…\), .* not 'file'"):
        Looks({"say": "file"})  # type: ignore[dict-item]  # what is refused
    with pytest.raises(UsageError, match="not <class"):
        Looks({"say": Shouting})  # type: ignore[dict-item]  # a class, where an object belongs


def test_code_is_shown_in_its_colours_with_numbers() -> None:
    seen = follow("import os\nx", "code_interpreter", kind="code")
    assert seen.text == "     1 │ import os\n     2 │ x\n"
    assert seen.lines[0].spans[0] == Span("import", "keyword")
    assert ["     1 │ impor"] in seen.growing


def test_free_text_has_a_margin_and_patches_have_colours() -> None:
    seen = follow("*** Begin Patch\n-x\n+y\n*** End Patch", "apply_patch", kind="custom")
    assert seen.text == "  │ *** Begin Patch\n  │ -x\n  │ +y\n  │ *** End Patch\n"
    assert [line.spans[0].role for line in seen.lines] == ["place", "removed", "added", "place"]


def test_free_text_may_have_a_look_too() -> None:
    looks = Looks({"sql": File(language="sql"), "sh": Command()})
    assert follow("select 1", "sql", looks, kind="custom").text == "     1 │ select 1\n"
    assert follow("ls\npwd", "sh", looks, kind="custom").text == "  $ ls\n    pwd\n"


def test_events_of_values_whose_beginning_was_not_seen_are_shown_too() -> None:
    view = Looks().view(ToolCallStarted("c", 0, "t"))
    view.take(ArgumentCompleted("c", "t", ("a",), "x\ny"))
    view.take(ArgumentCompleted("c", "t", ("b", "c"), 1))
    assert [text_of(line.spans) for line in view.finish()] == ["a =", "x", "y", "b.c = 1"]


@pytest.mark.parametrize("looks", [Looks(), Looks({"t": Shouting("take")})])
def test_where_there_is_no_room_nothing_grows(looks: Looks) -> None:
    view = looks.view(ToolCallStarted("c", 0, "t"))
    view.take(ArgumentStarted("c", "t", ("a",), "string"))
    view.take(ArgumentDelta("c", "t", ("a",), "x"))
    assert view.growing(0) == []
    assert len(view.growing(1)) == 1
