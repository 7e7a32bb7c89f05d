"""Edits: old and new texts in any order, in their place if the file can be read."""

from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.terminal import Diff, ToolViews, rows_of
from argstream.terminal._diff import MAX_HELD, Change, StreamingDiff
from tests.growth import BOUND, growth
from tests.terminal.looks.following import Followed, follow, text_of, texts

FILE = "import os\n\n\ndef f():\n    a = 1\n    return a\n\n\nprint(f())\n"
ONE = Diff(old="old", new="new", path="path")
MANY = Diff(old="old", new="new", path="path", within="edits")


def edit(arguments: dict[str, object] | str, look: Diff = ONE, text: str | None = FILE) -> Followed:
    looks = ToolViews({"edit": look}, read_file={"app.py": text}.get)
    return follow(arguments, "edit", looks)


PLACED = """\
     2   │
     3   │
     4   │ def f():
     5 - │     a = 1
     5 + │     a = 2
     6 + │     b = 3
     7   │     return a
     8   │
     9   │
"""


@pytest.mark.parametrize("order", [*permutations(["path", "old", "new"])])
def test_edit_is_shown_in_its_place_in_any_order_of_arguments(order: tuple[str, ...]) -> None:
    arguments = {"path": "app.py", "old": "a = 1\n", "new": "a = 2\n    b = 3\n"}
    seen = edit({name: arguments[name] for name in order})
    assert (seen.title, seen.text) == ("app.py", PLACED)


def test_removed_and_added_lines_have_roles() -> None:
    seen = edit({"path": "app.py", "old": "    a = 1\n", "new": "    a = 2\n"})
    found = {line.margin[1].text: line.spans[0].role for line in seen.lines}
    assert found == {" ": "plain", "-": "removed", "+": "added"}


@pytest.mark.parametrize(
    ("raw", "growing"),
    [
        ('{"new": "one\\ntwo\\nthr', ["       + │ one", "       + │ two", "       + │ thr"]),
        ('{"old": "one\\ntwo', ["       - │ one", "       - │ two"]),
        (
            '{"new": "one", "old": "two\\nthr',
            ["       + │ one", "       - │ two", "       - │ thr"],
        ),
    ],
)
def test_text_grows_until_both_are_known(raw: str, growing: list[str]) -> None:
    assert edit(raw).growing[-1] == growing


def test_lines_are_settled_while_the_new_text_is_written() -> None:
    old = "one\\ntwo\\nthree\\nfour\\nfive\\nsix"
    new = "one\\ntwo\\nthree\\n4\\nfive\\nsi"
    seen = edit(f'{{"path": "x", "old": "{old}", "new": "{new}')
    assert texts(seen.settled) == [
        "         │ one",
        "         │ two",
        "         │ three",
        "       - │ four",
        "       + │ 4",
        "         │ five",
    ]


def test_new_lines_are_held_until_the_texts_meet_again() -> None:
    seen = edit('{"path": "app.py", "old": "    a = 1\\n    return a", "new": "    a = 2\\n    b')
    assert seen.settled == []
    assert seen.growing[-1] == ["     5 + │     a = 2", "     6 + │     b"]
    # The rest of the old text is not shown as removed if the new one is cut.
    assert "     6 ? │     return a" in seen.text
    assert "     6 - │" not in seen.text


NOT_FOUND = "  (text not found in app.py)\n       - │ nope\n       + │ x\n"
JOINED = "     1 - │ a\n     2 - │ c\n     1 + │ bc\n"
LOST = "     1 - │ a\n     1 + │ a\n       · │ no newline at the end\n"
DELETED = "     1   │ x\n     2 - │     a = 1\n     2   │ y\n"


@pytest.mark.parametrize(
    ("path", "old", "new", "file", "shown"),
    [
        ("gone.py", "a\nb", "a\nc", FILE, "         │ a\n       - │ b\n       + │ c\n"),
        ("app.py", "nope", "x", FILE, NOT_FOUND),
        ("app.py", "    a = 1\n", "", "x\n    a = 1\ny\n", DELETED),
        ("app.py", "a\n", "b", "a\nc\n", JOINED),
        ("app.py", "a\n", "a", "a\n", LOST),
        ("new", "", "a\n", FILE, "       + │ a\n"),
        ("app.py", "", "a\n", "", "     1 + │ a\n"),
        (None, "a\n", "b\n", FILE, "       - │ a\n       + │ b\n"),
        ("app.py", None, "x\ny", FILE, "  new =\n  │ x\n  │ y\n"),
    ],
)
def test_edits_of_special_places(
    path: str | None, old: str | None, new: str, file: str, shown: str
) -> None:
    arguments: dict[str, object] = {"path": path, "old": old, "new": new}
    given_ = {name: value for name, value in arguments.items() if value is not None}
    assert edit(given_, text=file).text == shown


def test_place_of_an_edit_is_described() -> None:
    missing = edit({"path": "app.py", "old": "nope", "new": "x"})
    assert {span.role for span in missing.lines[0].spans} == {"warning"}
    several = edit({"path": "app.py", "old": "f()", "new": "g()"})
    assert several.text.startswith("  (2 places)\n")
    assert "     4 - │ def f():\n     4 + │ def g():\n" in several.text
    inside = edit({"path": "app.py", "old": "rint(f", "new": "retty(f"})
    assert "     9 - │ print(f())\n     9 + │ pretty(f())\n" in inside.text


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        ({"path": "app.py", "old": "a = 1", "new": "a = 1"}, "nothing changes"),
        ({"path": "app.py", "old": "f())\n", "new": "f())"}, "no newline at the end"),
        (
            '{"path": "app.py", "old": "a = 1", "new": "',
            "incomplete edit: these lines may be removed",
        ),
    ],
)
def test_notes_have_a_margin_that_no_text_can_have(
    arguments: dict[str, object] | str, note: str
) -> None:
    assert f"\n       · │ {note}\n" in edit(arguments).text
    imitated = edit({"path": "app.py", "old": "a = 1", "new": "x" * 76 + note})
    rows = [text_of(row) for line in imitated.lines for row in rows_of(line, 91)]
    assert f"         │ {note}" in rows


def test_later_edit_is_placed_in_the_result_of_earlier_ones() -> None:
    edits = [
        {"old": "import os\n", "new": "import os\nimport sys\n"},
        {"old": "import sys\n", "new": "import re\n"},
        {"old": "print", "new": "pretty"},
    ]
    seen = edit({"path": "app.py", "edits": edits}, MANY, "import os\nx\ny\nz\nw\nprint()\n")
    changed = [text for text in texts(seen.lines) if text[7] != " "]
    assert changed == [
        *("  @@ line 1 @@", "     2 + │ import sys"),
        *("  @@ line 2 @@", "     2 - │ import sys", "     2 + │ import re"),
        *("  @@ line 7 @@", "     7 - │ print()", "     7 + │ pretty()"),
    ]


def test_edits_wait_for_the_path() -> None:
    edits = [{"new": "a = 2", "old": "a = 1"}, {"old": "nope", "new": ""}]
    seen = edit({"edits": edits, "path": "app.py"}, MANY)
    assert seen.title == "app.py"
    assert texts(seen.lines)[0] == "  @@ line 5 @@"
    assert "  @@ edits[1] @@ (text not found in app.py)\n       - │ nope\n" in seen.text


def test_edit_can_have_its_own_path() -> None:
    edits = [{"path": "app.py", "old": "a = 1", "new": "a = 2"}, {"old": "x", "new": "y"}]
    seen = edit({"edits": edits}, MANY)
    assert "  @@ app.py, line 5 @@" in seen.text
    assert "  @@ edits[1] @@\n       - │ x\n       + │ y\n" in seen.text


def test_replace_all_counts_for_later_edits() -> None:
    edits = [{"old": "x", "new": "y", "replace_all": True}, {"old": "y\ny", "new": "z"}]
    seen = edit({"path": "app.py", "edits": edits}, MANY, "x\nx\n")
    assert "not found" not in seen.text
    assert "  edits[0].replace_all = true\n" in seen.text


def test_values_that_are_no_edits_are_shown_plainly() -> None:
    edits = [{"old": 1, "new": "x"}, {"old": "y"}, "z", {}, {"old": {"a": 1}, "note": "n"}]
    seen = edit({"path": "app.py", "edits": edits}, MANY)
    assert seen.text == (
        "  edits[0].old = 1\n"
        '  edits[0].new = "x"\n'
        '  edits[1].old = "y"\n'
        '  edits[2] = "z"\n'
        "  edits[3] = {}\n"
        "  edits[4].old.a = 1\n"
        '  edits[4].note = "n"\n'
    )
    cut = edit('{"edits": [{"old": "a", "note": "b', MANY)
    assert cut.text == '  edits[0].note = "b\n  edits[0].old = "a"\n'


lines = st.lists(st.sampled_from(["a", "b", "c", "", "}", "  x", "yy"]), max_size=9)
files = st.builds(lambda found, end: "\n".join(found) + end, lines, st.sampled_from(["", "\n"]))


@given(text=files, new=files, place=st.integers(0, 30), length=st.integers(1, 12))
def test_line_numbers_are_right_and_complete(text: str, new: str, place: int, length: int) -> None:
    old = text[place : place + length]
    if not old:
        return
    after = text.replace(old, new, 1)
    removed: set[int] = set()
    added: set[int] = set()
    for line in edit({"path": "app.py", "old": old, "new": new}, text=text).lines:
        number, sign = line.margin[0].text.strip(), line.margin[-1 if len(line.margin) < 3 else 1]
        if not number.isdecimal():
            continue  # a note
        index = int(number) - 1
        whole = text if sign.text == "-" else after
        assert whole.split("\n")[index] == "".join(span.text for span in line.spans)
        {"-": removed, "+": added}.get(sign.text, set()).add(index)
    kept = [line for index, line in enumerate(_lines(text)) if index not in removed]
    assert kept == [line for index, line in enumerate(_lines(after)) if index not in added]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


Texts = tuple[list[str], list[str]]


def diff(old: list[str], new: list[str]) -> list[Change]:
    comparison = StreamingDiff(old)
    changes = [change for line in new for change in comparison.add(line)]
    return changes + comparison.finish()


def old_of(changes: list[Change]) -> list[str]:
    return [text for sign, text in changes if sign != "+"]


def new_of(changes: list[Change]) -> list[str]:
    return [text for sign, text in changes if sign != "-"]


few_lines = st.lists(
    st.sampled_from(["a", "b", "c = 1", "", "}", "    return", "end"]), max_size=40
)


@st.composite
def edits(draw: st.DrawFn) -> Texts:
    old = draw(few_lines)
    new = old[:]
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(new)))
        new[place : place + draw(st.integers(0, 5))] = draw(few_lines)[:6]
    return old, new


@given(edits())
def test_both_texts_can_be_read_from_the_diff(texts: Texts) -> None:
    old, new = texts
    changes = diff(old, new)
    assert (old_of(changes), new_of(changes)) == texts
    assert "+-" not in "".join(sign for sign, _ in changes)  # removed lines come first
    comparison = StreamingDiff(old)
    settled: list[Change] = []
    for count, line in enumerate(new, 1):
        settled += comparison.add(line)
        assert [*new_of(settled), *comparison.held] == new[:count]
        assert [*old_of(settled), *comparison.rest] == old


@given(few_lines)
def test_equal_texts_have_no_changes_and_nothing_is_held(lines: list[str]) -> None:
    comparison = StreamingDiff(lines)
    assert [comparison.add(line) for line in lines] == [[Change(" ", line)] for line in lines]
    assert comparison.finish() == []


@pytest.mark.parametrize(
    ("old", "new", "signs"),
    [
        # An inserted function is not torn apart by brackets and blank lines.
        ("f( a } . g( b }", "f( a } . h( c } . g( b }", "    ++++   "),
        # A rewritten text is not joined by a single bracket.
        ("a1 a2 a3 } a4 a5 a6 last", "b1 b2 b3 } b4 b5 b6 last", "-------+++++++ "),
        # A blank line stays between small changes.
        ("a . b c", "x . y c", "-+ -+ "),
    ],
)
def test_lines_that_match_by_chance_do_not_split_a_change(old: str, new: str, signs: str) -> None:
    before, after = ([line.strip(".") for line in text.split()] for text in (old, new))
    assert "".join(sign for sign, _ in diff(before, after)) == signs


def test_distant_line_counts_as_new() -> None:
    old = [f"line {number}" for number in range(100)]
    changes = diff(old, ["line 90", *old[:90], *old[91:]])
    assert [one for one in changes if one.sign != " "] == [("+", "line 90"), ("-", "line 90")]


def test_removed_block_is_shown_as_removed() -> None:
    old = [f"line {number}" for number in range(200)]
    changes = diff(old, old[:20] + old[120:])
    assert [text for sign, text in changes if sign == "-"] == old[20:120]
    assert "+" not in {sign for sign, _ in changes}


def test_number_of_held_lines_is_bounded() -> None:
    comparison = StreamingDiff(["old"])
    settled = [change for number in range(1_000) for change in comparison.add(f"new {number}")]
    assert len(comparison.held) == MAX_HELD
    assert settled[0] == ("+", "new 0")


@pytest.mark.timing
@pytest.mark.parametrize(
    "line",
    [lambda n: f"line {n}", lambda _: "}", lambda n: "ab"[n % 2]],
    ids=["new", "same", "two"],
)
def test_cost_is_linear(line: Callable[[int], str]) -> None:
    def job(size: int) -> Callable[[], object]:
        old = [line(number) for number in range(size)]
        new = ["first", *(text if index % 9 else f"x{index}" for index, text in enumerate(old))]
        return lambda: diff(old, new)

    assert growth(job, 500) <= BOUND
