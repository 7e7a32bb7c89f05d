"""Source code in colours, line by line, as a file that is written shows it."""

import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.lexer import RegexLexer

from argstream.events import TextDelta
from argstream.sanitise import visible
from argstream.terminal import File, Line, Looks, Scene
from tests.growth import BOUND, growth
from tests.terminal.looks.following import expanded, roles, text_of


def written(*lines: str, language: str | None = None, path: str = "") -> list[Line]:
    """Return the lines of a file as they are shown."""
    arguments = {"path": path, "content": "".join(f"{line}\n" for line in lines)}
    shown = Looks({"save": File(language=language)}).whole("save", arguments)
    return [line for line in shown if "│" in text_of(line.margin)][-len(lines) :]


def coloured(path: str, *lines: str) -> list[list[tuple[str, str]]]:
    return [roles(line) for line in written(*lines, path=path)]


def test_a_line_is_coloured() -> None:
    assert coloured("a.py", "def f(x): return 1  # one") == [
        [
            ("def", "keyword"),
            (" ", "plain"),
            ("f", "name"),
            ("(x): ", "plain"),
            ("return", "keyword"),
            (" ", "plain"),
            ("1", "number"),
            ("  ", "plain"),
            ("# one", "comment"),
        ]
    ]


@pytest.mark.parametrize(
    ("path", "lines", "role"),
    [
        ("a.py", ['"""One', "two, def x", '"""'], "string"),
        ("a.c", ["/* one", "int two;", "three */"], "comment"),
        ("a.js", ["/* one", "let two;", "three */"], "comment"),
        ("a.css", ["/* one", "p { two }", "three */"], "comment"),
        ("a.go", ["/*", "func two() {}", "*/"], "comment"),
        ("a.rs", ["/* one", "fn two() {}", "three */"], "comment"),
        ("a.sql", ["/* one", "select 2", "three */"], "comment"),
        ("a.html", ["<!-- one", "<b>two</b>", "three -->"], "comment"),
        ("a.lua", ["--[[ one", "local two", "]]"], "comment"),
        ("a.toml", ['"""', "two = 2", '"""'], "string"),
        ("a.js", ["`one", "let two", "three`"], "string"),
    ],
)
def test_what_spans_lines_keeps_its_colour_and_ends(path: str, lines: list[str], role: str) -> None:
    *inside, after = coloured(path, *lines, "1")
    assert [{found for _, found in line} for line in inside] == [{role}] * 3
    assert after[-1][1] != role


def test_code_goes_on_after_a_comment_and_strings_begin_none() -> None:
    assert coloured("a.c", "/* one", "two */ return;")[1][:3] == [
        ("two */", "comment"),
        (" ", "plain"),
        ("return", "keyword"),
    ]
    assert coloured("a.js", 'x = "/*";', "return")[1] == [("return", "keyword")]


def test_a_language_counts_before_a_name() -> None:
    assert roles(written("import os", language="python", path="a.txt")[0])[0][1] == "keyword"


@pytest.mark.parametrize("path", ["a", "a.unknown", "a.txt", "\0", "x" * 5_000])
def test_an_unknown_language_is_plain(path: str) -> None:
    assert coloured(path, "import os") == [[("import os", "plain")]]


def test_tokens_are_made_visible_one_by_one() -> None:
    (line,) = written('x = "\x1b[2J\u202e"\r', language="python")
    assert text_of(line.spans) == 'x = "⟦ESC⟧[2J⟦RLO⟧"⟦CR⟧'


def test_markdown_has_the_languages_between_its_fences() -> None:
    _, code, _, prose = coloured("README.md", "```python", "import os", "```", "see `x`")
    assert code[0] == ("import", "keyword")
    assert prose == [("see ", "plain"), ("`x`", "code")]


@pytest.mark.parametrize(
    ("fence", "is_code"),
    [
        ("```python", True),
        ("~~~~ python title=x", True),
        ("```python{1,3}", True),
        ("     ```python", True),  # of an item in a list
        ("``", False),
        ("```not code``` but a sentence", False),
        ("text ```python", False),
    ],
)
def test_a_fence_stands_alone_and_may_name_a_language(fence: str, *, is_code: bool) -> None:
    assert (said(fence, "import os")[1].spans[0].role == "keyword") is is_code


@pytest.mark.parametrize(
    ("line", "is_closed"),
    [("```", True), ("  `````  ", True), ("``", False), ("~~~", False), ("``` python", False)],
)
def test_a_fence_is_closed_by_as_many_of_the_same_marks(line: str, *, is_closed: bool) -> None:
    assert (said("```python", line, "import os")[2].spans[0].role == "plain") is is_closed


def said(*lines: str) -> list[Line]:
    """Return what a model says, as it is shown."""
    scene = Scene()
    scene.take(TextDelta("".join(f"{line}\n" for line in lines), 0), 0.0)
    return scene.committed()


@given(
    st.sampled_from(["a.py", "a.c", "a.js", "a.md", "a.yaml", "a.html", "a.json", "a.rb", "a.php"]),
    st.lists(
        st.text(st.sampled_from("ab01 \t\"'`/*<!->{}[]()#\\:\x1b\x85\u2028é日\r"), max_size=30),
        min_size=1,
    ),
)
def test_no_character_is_lost_whatever_the_text(path: str, lines: list[str]) -> None:
    shown = [text_of(line.spans) for line in written(*lines, path=path)]
    assert shown == [expanded(visible(line)) for line in lines]


def work(*_: object) -> Iterator[Any]:
    until = time.thread_time() + 0.06
    while time.thread_time() < until:
        pass
    return iter(())


def fail(*_: object) -> Iterator[Any]:
    raise RuntimeError


@pytest.mark.parametrize("act", [fail, work])
def test_a_lexer_that_fails_or_is_slow_is_given_up(
    monkeypatch: pytest.MonkeyPatch, act: Callable[..., Iterator[Any]]
) -> None:
    asked = []

    def callback(*arguments: object) -> Iterator[Any]:
        asked.append(arguments)
        return act(*arguments)

    class Bad(RegexLexer):  # type: ignore[misc]  # Pygments has no types
        aliases: ClassVar = ["bad"]
        tokens: ClassVar[dict[str, list[Any]]] = {"root": [("x", callback)]}

    lookup = "argstream.terminal._highlight.find_lexer_class_by_name"
    monkeypatch.setattr(lookup, lambda _: Bad)
    for _ in range(5):
        assert [text_of(line.spans) for line in written("x", "x", language="bad")] == ["x", "x"]
    # Once for each text; a slow one is not asked for any text after three.
    assert len(asked) == (3 if act is work else 5)


def test_a_very_long_line_is_not_lexed_and_the_next_one_is() -> None:
    long, short = written("import " + "x" * 1_000, "import x", language="python")
    assert (long.spans[0].role, short.spans[0].role) == ("plain", "keyword")
    begun = time.thread_time()
    for _ in range(20):
        written("a" + "\t" * 498, language="systemd")
    assert time.thread_time() - begun < 0.5  # with its colours, it would be some seconds


@pytest.mark.timing
def test_a_line_costs_the_same_however_many_came_before_it() -> None:
    lines = ["def f(x, y):", '    """Doc."""', "    return [x + 1, 'y', {}]  # why", ""] * 100
    assert growth(lambda size: lambda: written(*lines * size, language="python"), 2) <= BOUND
