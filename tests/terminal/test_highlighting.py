"""Highlighted source code, line by line, as a file that is written shows it."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.lexer import RegexLexer

from argstream.events import TextDelta
from argstream.sanitise import visible
from argstream.terminal import File, Line, RunView, ToolViews
from tests.growth import BOUND, growth
from tests.terminal.looks.following import expanded, roles, text_of


def written(*lines: str, language: str | None = None, path: str = "") -> list[Line]:
    arguments = {"path": path, "content": "".join(f"{line}\n" for line in lines)}
    shown = ToolViews({"save": File(language=language)}).whole("save", arguments)
    return [line for line in shown if "│" in text_of(line.margin)][-len(lines) :]


def coloured(path: str, *lines: str) -> list[list[tuple[str, str]]]:
    return [roles(line) for line in written(*lines, path=path)]


def test_code_is_coloured() -> None:
    (line,) = coloured("a.py", "def f(x): return 1  # one")
    shown = " ".join(f"{text}/{role}" for text, role in line if text.strip())
    assert shown == "def/keyword f/name (x): /plain return/keyword 1/number # one/comment"
    assert "".join(text for text, _ in line) == "def f(x): return 1  # one"
    (named,) = written("import os", language="python", path="a.txt")  # a language wins
    assert roles(named)[0][1] == "keyword"
    (hostile,) = written('x = "\x1b[2J\u202e"\r', language="python")
    assert text_of(hostile.spans) == 'x = "⟦ESC⟧[2J⟦RLO⟧"⟦CR⟧'


C_LIKE = ["a.c", "a.js", "a.css", "a.go", "a.rs", "a.sql"]


@pytest.mark.parametrize(
    ("path", "lines", "role"),
    [
        *[(path, ["/* one", "p { int two; }", "three */"], "comment") for path in C_LIKE],
        ("a.html", ["<!-- one", "<b>two</b>", "three -->"], "comment"),
        ("a.lua", ["--[[ one", "local two", "]]"], "comment"),
        ("a.py", ['"""One', "two, def x", '"""'], "string"),
        ("a.toml", ['"""', "two = 2", '"""'], "string"),
        ("a.js", ["`one", "let two", "three`"], "string"),
    ],
)
def test_tokens_of_several_lines_keep_their_colour(path: str, lines: list[str], role: str) -> None:
    *inside, after = coloured(path, *lines, "1")
    assert [{found for _, found in line} for line in inside] == [{role}] * 3
    assert after[-1][1] != role


def test_code_continues_after_a_comment_and_strings_start_none() -> None:
    after = [("two */", "comment"), (" ", "plain"), ("return", "keyword")]
    assert coloured("a.c", "/* one", "two */ return;")[1][:3] == after
    assert coloured("a.js", 'x = "/*";', "return")[1] == [("return", "keyword")]


@pytest.mark.parametrize("path", ["a", "a.unknown", "a.txt", "\0", "x" * 5_000])
def test_unknown_language_is_plain(path: str) -> None:
    assert coloured(path, "import os") == [[("import os", "plain")]]


def test_markdown_highlights_code_between_fences() -> None:
    _, code, _, prose = coloured("README.md", "```python", "import os", "```", "see `x`")
    assert code[0] == ("import", "keyword")
    assert prose == [("see ", "plain"), ("`x`", "code")]


OPENING = ["```python", "~~~~ python title=x", "```python{1,3}", "     ```python"]
NOT_OPENING = ["``", "```not code``` but a sentence", "text ```python"]
CLOSING, NOT_CLOSING = ["```", "  `````  "], ["``", "~~~", "``` python"]


@pytest.mark.parametrize(
    ("lines", "is_code"),
    [
        *[([line], True) for line in OPENING],  # also of an item in a list
        *[([line], False) for line in NOT_OPENING],
        *[(["```python", line], False) for line in CLOSING],
        *[(["```python", line], True) for line in NOT_CLOSING],
    ],
)
def test_fence_is_a_line_of_its_own(lines: list[str], *, is_code: bool) -> None:
    assert (from_model(*lines, "import os")[-1].spans[0].role == "keyword") is is_code


MARKDOWN = {
    "# A *title*": "A title",
    "**bold** and _soft_ `co*de*`": "bold and soft co*de*",
    "- item": "• item",
    "12) item": "12) item",
    "- [ ] open": "• ☐ open",
    "* [x] done": "• ☑ done",
    "> quoted": "▎ quoted",
    "> - deep": "▎ • deep",
    "[docs](https://example.org)": "docs (https://example.org)",
    "<https://example.org>": "https://example.org",
    "[bad](javascript:alert)": "[bad](javascript:alert)",
    "![alt](a.png)": "alt (a.png)",
    "[reference]: https://example.org": "[reference]: https://example.org",
    "<b>HTML</b> is &lt;text&gt;": "<b>HTML</b> is <text>",
    "&#27;[2J &#x202e;x&#10;y": "�[2J ⟦RLO⟧x y",
    "***": "─" * 24,
    "2 * 3 * 4 and snake_case_name": "2 * 3 * 4 and snake_case_name",
    "    indented code": "    indented code",
    "a | b": "a | b",
    r"\*no\* \\": "*no* \\",
}


@pytest.mark.parametrize(("written", "shown"), MARKDOWN.items())
def test_markdown_of_a_model_is_rendered(written: str, shown: str) -> None:
    (line,) = from_model(written, "")[:1]
    assert text_of((*line.margin, *line.spans)) == f"│ {shown}"


def test_table_is_shown_when_it_is_complete() -> None:
    rows = ("| name | size |", "|:--|--:|", "| **a** | 40 |", "| b \\| c | 1,200 |")
    assert from_model(*rows) == []
    shown = [text_of(line.spans) for line in from_model(*rows, "", "a | b", "no | delimiter", "")]
    assert shown[:5] == ["name  │  size", "──────┼──────", "a     │    40", "b | c │ 1,200", ""]
    assert shown[5:] == ["a | b", "no | delimiter", ""]


@given(st.text(st.sampled_from("ab 1.\t*_`#-+>|[]()<&;!~\\\n\x1b\u202e"), max_size=80))
def test_markdown_loses_nothing_but_its_marks(text: str) -> None:
    scene = RunView()
    scene.take(TextDelta(text, 0), 0.0)
    scene.finish(0.0)
    shown = "".join(text_of(line.spans) for line in scene.committed())
    kept = Counter(shown.replace("⟦ESC⟧", "\x1b").replace("⟦RLO⟧", "\u202e"))
    assert all(kept[one] == Counter(text)[one] for one in "ab\x1b\u202e" if one in text)


def from_model(*lines: str) -> list[Line]:
    scene = RunView()
    scene.take(TextDelta("".join(f"{line}\n" for line in lines), 0), 0.0)
    return scene.committed()


@given(
    st.sampled_from(["a.py", "a.c", "a.js", "a.md", "a.yaml", "a.html", "a.json", "a.rb", "a.php"]),
    st.lists(
        st.text(st.sampled_from("ab01 \t\"'`/*<!->{}[]()#\\:\x1b\x85\u2028é日\r"), max_size=30),
        min_size=1,
    ),
)
def test_no_character_is_lost(path: str, lines: list[str]) -> None:
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
def test_failing_or_slow_lexer_is_dropped(
    monkeypatch: pytest.MonkeyPatch, act: Callable[..., Iterator[Any]]
) -> None:
    calls = []

    def callback(*arguments: object) -> Iterator[Any]:
        calls.append(arguments)
        return act(*arguments)

    class Bad(RegexLexer):  # type: ignore[misc]  # Pygments has no types
        aliases: ClassVar = ["bad"]
        tokens: ClassVar[dict[str, list[Any]]] = {"root": [("x", callback)]}

    lookup = "argstream.terminal._highlight.find_lexer_class_by_name"
    monkeypatch.setattr(lookup, lambda _: Bad)
    for _ in range(5):
        assert [text_of(line.spans) for line in written("x", "x", language="bad")] == ["x", "x"]
    # A failing lexer is called once for each text, a slow one for three texts in all.
    assert len(calls) == (3 if act is work else 5)


def test_very_long_line_is_not_lexed() -> None:
    long, short = written("import " + "x" * 1_000, "import x", language="python")
    assert (long.spans[0].role, short.spans[0].role) == ("plain", "keyword")
    begun = time.thread_time()
    for _ in range(20):
        written("a" + "\t" * 498, language="systemd")
    assert time.thread_time() - begun < 0.5  # some seconds, if it were lexed


@pytest.mark.timing
def test_cost_of_a_line_does_not_depend_on_earlier_ones() -> None:
    lines = ["def f(x, y):", '    """Doc."""', "    return [x + 1, 'y', {}]  # why", ""] * 100
    assert growth(lambda size: lambda: written(*lines * size, language="python"), 2) <= BOUND
