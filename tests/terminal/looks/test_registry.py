"""ToolViews that users register, calls that are not JSON, and the files that edits are about."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from argstream.errors import UsageError
from argstream.events import ArgumentCompleted, ArgumentDelta, ArgumentStarted, ToolCallStarted
from argstream.terminal import ArgumentEvent, Command, File, Line, Span, Spans, ToolViews
from argstream.terminal.tool_views import MAX_BYTES, file_reader
from tests.terminal.looks.following import Followed, follow, text_of, texts


class ShoutingView:
    """A view that a user wrote. It shows one argument, and fails in the named method."""

    def __init__(self, fails_in: str = "") -> None:
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
        return lines if self._fails_in != "type" else [("no", "line")]  # type: ignore[list-item]  # a user's mistake

    def growing(self, rows: int) -> list[Line]:
        self._may("growing")
        return self._lines[:rows]

    def finish(self) -> list[Line]:
        self._may("finish")
        return self.settled()


class Shouting(NamedTuple):
    fails_in: str = ""
    cls: type[ShoutingView] = ShoutingView

    def view(self, call: ToolCallStarted) -> ShoutingView:
        if self.fails_in == "view":
            raise KeyError(call.name)
        return self.cls(self.fails_in)


ARGUMENTS: dict[str, Any] = {"word": "hello", "other": 1}
WRONG_LINE: Any = Line
WRONG_SPAN: Any = Span


def say(look: Shouting) -> Followed:
    return follow(ARGUMENTS, "say", ToolViews({"say": look}))


def test_registered_look_is_used() -> None:
    seen = say(Shouting())
    assert (seen.title, seen.text) == ("loud", "  HELLO\n")
    # Before a decision, all arguments are shown plainly as well.
    lines = texts(ToolViews({"say": Shouting()}).whole("say", ARGUMENTS))
    assert lines == ["  loud", "  HELLO", "  all arguments:", '  word = "hello"', "  other = 1"]


@pytest.mark.parametrize(
    "place", ["view", "take", "title", "is_title_open", "settled", "growing", "finish", "type"]
)
def test_failing_look_is_replaced_by_plain_lines(place: str) -> None:
    seen = say(Shouting(place))
    assert "  the view of this tool failed: " in seen.text
    assert seen.text.endswith('  word = "hello"\n  other = 1\n')


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (WRONG_LINE("x"), "Expected `array`, got `str` - at `$[0]`"),
        (WRONG_LINE((WRONG_SPAN(5),)), "Expected `str`, got `int` - at `$[0][0][0]`"),
        (WRONG_LINE((WRONG_SPAN("x", "loud"),)), "Invalid enum value 'loud' - at `$[0][0][1]`"),
        (
            WRONG_LINE((WRONG_SPAN("x", ["plain"]),)),
            "Expected `str`, got `array` - at `$[0][0][1]`",
        ),
        (WRONG_LINE((Span("x"),), "  "), "Expected `array`, got `str` - at `$[1]`"),
        (WRONG_LINE((Span("x"),), (), "zz"), "Expected `array | null`, got `str` - at `$[2]`"),
        (WRONG_LINE((Span("x"),), breaks="never"), "Invalid enum value 'never' - at `$[3]`"),
        ("title", "Expected `array`, got `str`"),
    ],
)
def test_lines_that_cannot_be_painted_are_a_failure(wrong: Any, reason: str) -> None:
    class WrongTitle(ShoutingView):
        title = "loud"  # type: ignore[assignment]  # a user's mistake

    class WrongLine(ShoutingView):
        def settled(self) -> list[Line]:
            return [wrong]

    seen = say(Shouting(cls=WrongTitle if wrong == "title" else WrongLine))
    assert reason in seen.text
    assert seen.text.endswith('  word = "hello"\n  other = 1\n')


def test_every_line_has_a_margin() -> None:
    class Edgy(ShoutingView):
        def finish(self) -> list[Line]:
            return [Line((Span("a"),), (Span(""),), ()), Line((Span("b"),), (Span("| "),), ())]

    *_, first, second = say(Shouting(cls=Edgy)).lines
    assert (first.margin, first.rest) == ((Span("  "),), (Span("  "),))
    assert (second.margin, second.rest) == ((Span("| "),), (Span("  "),))


def test_look_of_another_type_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the look of 'say' must be File\(…\), .* not 'file'"):
        ToolViews({"say": "file"})  # type: ignore[dict-item]  # what is refused
    with pytest.raises(UsageError, match="not <class"):
        ToolViews({"say": Shouting})  # type: ignore[dict-item]  # a class instead of an object


def test_code_and_free_text_are_shown() -> None:
    seen = follow("import os\nx", "code_interpreter", kind="code")
    assert seen.text == "     1 │ import os\n     2 │ x\n"
    assert seen.lines[0].spans[0] == Span("import", "keyword")
    assert ["     1 │ impor"] in seen.growing
    seen = follow("*** Begin Patch\n-x\n+y\n*** End Patch", "apply_patch", kind="custom")
    assert seen.text == "  │ *** Begin Patch\n  │ -x\n  │ +y\n  │ *** End Patch\n"
    assert [line.spans[0].role for line in seen.lines] == ["place", "removed", "added", "place"]
    looks = ToolViews({"sql": File(language="sql"), "sh": Command()})
    assert follow("select 1", "sql", looks, kind="custom").text == "     1 │ select 1\n"
    assert follow("ls\npwd", "sh", looks, kind="custom").text == "  $ ls\n    pwd\n"


def test_values_whose_start_was_not_seen_are_shown() -> None:
    view = ToolViews().view(ToolCallStarted("c", 0, "t"))
    view.take(ArgumentCompleted("c", "t", ("a",), "x\ny"))
    view.take(ArgumentCompleted("c", "t", ("b", "c"), 1))
    assert [text_of(line.spans) for line in view.finish()] == ["a =", "x", "y", "b.c = 1"]


@pytest.mark.parametrize("looks", [ToolViews(), ToolViews({"t": Shouting("take")})])
def test_growing_lines_fit_the_room(looks: ToolViews) -> None:
    view = looks.view(ToolCallStarted("c", 0, "t"))
    view.take(ArgumentStarted("c", "t", ("a",), "string"))
    view.take(ArgumentDelta("c", "t", ("a",), "x"))
    assert (view.growing(0), len(view.growing(1))) == ([], 1)


def test_text_is_read_unchanged(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_bytes("é\r\n\u2028".encode())
    assert file_reader(tmp_path)("sub/a.txt") == "é\r\n\u2028"
    assert file_reader(Path("/"))(str(tmp_path / "sub" / "a.txt")) == "é\r\n\u2028"
    (tmp_path / "just").write_bytes(b"x" * MAX_BYTES)
    assert file_reader(tmp_path)("just") == "x" * MAX_BYTES


NOT_READ = ["", ".", "missing", "a\0b", "x" * 5_000, "../" * 3_000, "binary", "large", "pipe"]


@pytest.mark.parametrize("path", [*NOT_READ, "/dev/zero"])
def test_other_files_are_not_read(tmp_path: Path, path: str) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"x" * (MAX_BYTES + 1))
    os.mkfifo(tmp_path / "pipe")
    assert file_reader(tmp_path)(path) is None
