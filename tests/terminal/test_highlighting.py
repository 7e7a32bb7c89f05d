"""Source code in colours, line by line."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.lexer import RegexLexer

from argstream.sanitise import visible
from argstream.terminal import _lexing, highlighting
from argstream.terminal._lexing import Token
from argstream.terminal._rules import Rules
from argstream.terminal.highlighting import Highlighter, source_spans
from argstream.terminal.spans import Role, Spans, text_of
from argstream.terminal.widths import expand_tabs
from tests.growth import BOUND, growth


def coloured(path: str, *lines: str) -> list[list[tuple[str, Role]]]:
    highlighter = Highlighter(path=path)
    return [[(text, role) for text, role in highlighter.line(line)] for line in lines]


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
def test_what_goes_on_over_lines_keeps_its_colour_and_ends(
    path: str, lines: list[str], role: Role
) -> None:
    *inside, after = coloured(path, *lines, "1")
    assert [{found for _, found in line} for line in inside] == [{role}] * 3
    assert after[-1][1] != role


def test_code_goes_on_after_a_comment_that_began_on_another_line() -> None:
    assert coloured("a.c", "/* one", "two */ return;")[1][:3] == [
        ("two */", "comment"),
        (" ", "plain"),
        ("return", "keyword"),
    ]


def test_what_looks_like_a_comment_in_a_string_is_none() -> None:
    assert coloured("a.js", 'x = "/*";', "return")[1] == [("return", "keyword")]


def test_markdown_has_the_languages_between_its_fences() -> None:
    _, code, _, prose = coloured("README.md", "```python", "import os", "```", "see `x`")
    assert code[0] == ("import", "keyword")
    assert prose == [("see ", "plain"), ("`x`", "code")]


def test_a_language_counts_before_a_name() -> None:
    assert Highlighter("python", path="a.txt").line("import os")[0].role == "keyword"


@pytest.mark.parametrize("path", ["", "a", "a.unknown", "a.txt", "\0", "x" * 5_000])
def test_what_nobody_knows_is_plain(path: str) -> None:
    assert coloured(path, "import os") == [[("import os", "plain")]]


def test_tokens_are_made_visible_one_by_one() -> None:
    assert text_of(Highlighter("python").line('x = "\x1b[2J\u202e"\r')) == (
        'x = "⟦ESC⟧[2J⟦RLO⟧"⟦CR⟧'
    )


def test_tabs_end_at_multiples_of_four_columns() -> None:
    assert text_of(source_spans([("a\tb", "plain"), ("日\t\x1b\tc", "keyword")])) == (
        "a   b日 ⟦ESC⟧   c"
    )


def test_a_line_without_tabs_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    monkeypatch.setattr(highlighting, "width", measured.append)
    source_spans([("é" * 1_000, "plain"), ("x", "keyword")])
    assert measured == []


@given(
    st.sampled_from(["a.py", "a.c", "a.js", "a.md", "a.yaml", "a.html", "a.json", "a.rb", "a.php"]),
    st.lists(
        st.text(st.sampled_from("ab01 \t\"'`/*<!->{}[]()#\\:\x1b\x85\u2028é日\r"), max_size=30)
    ),
)
def test_no_character_is_lost_whatever_the_text(path: str, lines: list[str]) -> None:
    highlighter = Highlighter(path=path)
    for line in lines:
        assert text_of(highlighter.line(line)) == expand_tabs(visible(line))


class _Failing:
    kind = object

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self.asked = 0

    def tokens(self, line: str) -> list[tuple[object, str]]:
        self.asked += 1
        self._act()
        return [((), line)]


def _fail() -> None:
    raise RuntimeError


def _work() -> None:
    until = time.thread_time() + 0.06
    while time.thread_time() < until:
        pass


@pytest.mark.parametrize("act", [_fail, _work])
def test_a_lexer_that_fails_or_is_slow_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]
) -> None:
    lexer = _Failing(act)
    monkeypatch.setattr(highlighting, "lexer_for", lambda *_: lexer)
    highlighter = Highlighter("python")
    lines: list[Spans] = [highlighter.line("x"), highlighter.line("y")]
    assert [text_of(line) for line in lines] == ["x", "y"]
    assert lexer.asked == 1


class _Slow(RegexLexer):  # type: ignore[misc]  # Pygments has no types
    aliases: ClassVar = ["slow"]
    tokens: ClassVar[dict[str, list[Any]]] = {"root": [("x", lambda *_: iter(_work, None))]}


def test_a_lexer_that_is_slow_again_and_again_is_not_asked_for_any_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_lexing, "find_lexer_class_by_name", lambda _: _Slow)
    tried = []
    for _ in range(4):
        begun = time.thread_time()
        Highlighter("slow").line("x")
        tried.append(time.thread_time() - begun > 0.05)
    assert tried == [True, True, True, False]


def test_the_lexer_between_fences_is_the_one_that_was_slow() -> None:
    lexer = _lexing.lexer_for("markdown", None)
    assert lexer is not None
    kinds = []
    for line in ["a\n", "```python\n", "b\n", "```\n"]:
        lexer.tokens(line)
        kinds.append(lexer.kind.name)
    assert kinds == ["Markdown", "Python", "Python", "Markdown"]


def test_rules_that_are_one_pattern_find_what_they_find_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Path(_lexing.__file__).read_text("utf-8").split("\n")
    names = ["python", "javascript", "c", "java", "css", "sql", "ruby", "kotlin"]

    def tokens() -> list[list[Token]]:
        lexers = [_lexing.lexer_for(name, None) for name in names]
        return [lexer.tokens(f"{line}\n") for lexer in lexers if lexer for line in source]

    combined = tokens()
    monkeypatch.setattr(_lexing, "_rules", {})
    monkeypatch.setattr(Rules, "combine", lambda _: None)
    assert tokens() == combined


def test_rules_that_mean_something_else_together_are_asked_one_by_one() -> None:
    rules = Rules([(re.compile("(a)b").match, 1, None), (re.compile(r"(a)\1").match, 2, None)])
    rules.combine()
    found = rules.first("aa", 0)
    assert found is not None
    assert found[0].group() == "aa"


def test_a_very_long_line_is_not_lexed_and_the_next_one_is() -> None:
    highlighter = Highlighter("python")
    assert highlighter.line("import " + "x" * 1_000)[0].role == "plain"
    assert highlighter.line("import x")[0].role == "keyword"


def test_a_line_that_no_person_wrote_is_too_long_to_be_slow() -> None:
    begun = time.thread_time()
    for _ in range(20):
        Highlighter("systemd").line("a" + "\t" * 498)
    assert time.thread_time() - begun < 0.5  # with its colours, it would be some seconds


@pytest.mark.timing
def test_a_line_costs_the_same_however_many_came_before_it() -> None:
    lines = ["def f(x, y):", '    """Doc."""', "    return [x + 1, 'y', {}]  # why", ""] * 100

    def job(size: int) -> Callable[[], object]:
        def run() -> None:
            highlighter = Highlighter("python")
            for _ in range(size):
                for line in lines:
                    highlighter.line(line)

        return run

    assert growth(job, 2) <= BOUND
