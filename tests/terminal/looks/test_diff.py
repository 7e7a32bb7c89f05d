"""Edits: old and new texts in any order, in their place if the file can be read."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.terminal import rows_of
from argstream.terminal.tool_views import Diff, Looks
from tests.terminal.looks.following import Followed, follow, text_of, texts

FILE = "import os\n\n\ndef f():\n    a = 1\n    return a\n\n\nprint(f())\n"
ONE = Diff(old="old", new="new", path="path")
MANY = Diff(old="old", new="new", path="path", within="edits")


def edit(arguments: dict[str, object] | str, look: Diff = ONE, text: str | None = FILE) -> Followed:
    looks = Looks({"edit": look}, read_file={"app.py": text}.get)
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


NOT_FOUND = "  (not found in app.py)\n       - │ nope\n       + │ x\n"
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
    arguments = {"path": path, "old": old, "new": new}
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
        ('{"path": "app.py", "old": "a = 1", "new": "', "cut off; what becomes of these?"),
    ],
)
def test_notes_have_a_margin_that_no_text_can_have(
    arguments: dict[str, object] | str, note: str
) -> None:
    assert f"\n       · │ {note}\n" in edit(arguments).text
    imitated = edit({"path": "app.py", "old": "a = 1", "new": "x" * 76 + note})
    rows = [text_of(row) for line in imitated.lines for row in rows_of(line, 91)]
    assert f"         │ {note}" in rows


def test_several_edits_are_hunks_applied_in_order() -> None:
    edits = [
        {"old": "import os\n", "new": "import os\nimport sys\n"},
        {"old": "import sys\n", "new": "import re\n"},
        {"old": "print", "new": "pretty"},
    ]
    seen = edit({"path": "app.py", "edits": edits}, MANY, "import os\nx\ny\nz\nw\nprint()\n")
    assert seen.text == (
        "  @@ line 1 @@\n"
        "     1   │ import os\n"
        "     2 + │ import sys\n"
        "     3   │ x\n"
        "     4   │ y\n"
        "     5   │ z\n"
        "  @@ line 2 @@\n"
        "     1   │ import os\n"
        "     2 - │ import sys\n"
        "     2 + │ import re\n"
        "     3   │ x\n"
        "     4   │ y\n"
        "     5   │ z\n"
        "  @@ line 7 @@\n"
        "     4   │ y\n"
        "     5   │ z\n"
        "     6   │ w\n"
        "     7 - │ print()\n"
        "     7 + │ pretty()\n"
    )


def test_edits_wait_for_the_path() -> None:
    edits = [{"new": "a = 2", "old": "a = 1"}, {"old": "nope", "new": ""}]
    seen = edit({"edits": edits, "path": "app.py"}, MANY)
    assert seen.title == "app.py"
    assert texts(seen.lines)[0] == "  @@ line 5 @@"
    assert "  @@ edits[1] @@ (not found in app.py)\n       - │ nope\n" in seen.text


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
def test_line_numbers_are_right_and_nothing_is_missing(
    text: str, new: str, place: int, length: int
) -> None:
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
