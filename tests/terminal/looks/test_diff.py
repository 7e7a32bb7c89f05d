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
def test_it_is_shown_in_its_place_whatever_comes_first(order: tuple[str, ...]) -> None:
    arguments = {"path": "app.py", "old": "a = 1\n", "new": "a = 2\n    b = 3\n"}
    seen = edit({name: arguments[name] for name in order})
    assert (seen.title, seen.text) == ("app.py", PLACED)


def test_roles_tell_what_is_removed_and_added() -> None:
    seen = edit({"path": "app.py", "old": "    a = 1\n", "new": "    a = 2\n"})
    found = {line.margin[1].text: line.spans[0].role for line in seen.lines}
    assert found == {" ": "plain", "-": "removed", "+": "added"}


def test_until_it_is_known_what_is_replaced_the_new_lines_only_grow() -> None:
    seen = edit('{"new": "one\\ntwo\\nthr')
    assert seen.growing[-1] == ["       + │ one", "       + │ two", "       + │ thr"]
    assert edit('{"old": "one\\ntwo').growing[-1] == ["       - │ one", "       - │ two"]


def test_an_old_text_that_comes_after_the_new_one_grows_below_it() -> None:
    seen = edit('{"new": "one", "old": "two\\nthr')
    assert seen.growing[-1] == ["       + │ one", "       - │ two", "       - │ thr"]


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


def test_a_new_text_that_is_cut_does_not_say_that_the_rest_is_removed() -> None:
    seen = edit('{"path": "app.py", "old": "    a = 1\\n    return a\\n", "new": "    a = 2\\n   ')
    assert "     6 ? │     return a" in seen.text
    assert "     6 - │" not in seen.text


def test_without_the_file_there_are_no_numbers() -> None:
    seen = edit({"path": "gone.py", "old": "a\nb", "new": "a\nc"})
    assert seen.text == "         │ a\n       - │ b\n       + │ c\n"


def test_a_text_that_is_not_in_the_file_is_said_to_be_missing() -> None:
    seen = edit({"path": "app.py", "old": "nope", "new": "x"})
    assert seen.text == "  (not found in app.py)\n       - │ nope\n       + │ x\n"
    assert {span.role for span in seen.lines[0].spans} == {"warning"}


def test_a_text_that_is_in_several_places_says_in_how_many() -> None:
    seen = edit({"path": "app.py", "old": "f()", "new": "g()"})
    assert seen.text.startswith("  (2 places)\n")
    assert "     4 - │ def f():\n     4 + │ def g():\n" in seen.text


def test_an_edit_within_a_line_shows_the_whole_line() -> None:
    seen = edit({"path": "app.py", "old": "rint(f", "new": "retty(f"})
    assert "     9 - │ print(f())\n     9 + │ pretty(f())\n" in seen.text


def test_lines_that_are_joined_by_an_edit_are_both_shown() -> None:
    seen = edit({"path": "app.py", "old": "    a = 1\n", "new": ""}, text="x\n    a = 1\ny\n")
    assert seen.text == "     1   │ x\n     2 - │     a = 1\n     2   │ y\n"
    seen = edit({"path": "app.py", "old": "a\n", "new": "b"}, text="a\nc\n")
    assert seen.text == "     1 - │ a\n     2 - │ c\n     1 + │ bc\n"


def test_a_newline_that_is_lost_at_the_end_of_the_file_is_seen() -> None:
    seen = edit({"path": "app.py", "old": "a\n", "new": "a"}, text="a\n")
    assert seen.text == (
        "     1 - │ a\n"
        "     1 + │ a\n"
        "       · │ no newline at the end\n"
    )  # fmt: skip


def test_nothing_that_is_replaced_is_an_insertion() -> None:
    assert edit({"path": "new", "old": "", "new": "a\n"}).text == "       + │ a\n"
    assert edit({"path": "app.py", "old": "", "new": "a\n"}, text="").text == "     1 + │ a\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "app.py", "old": "a = 1", "new": "a = 1"}, "nothing changes"),
        ({"path": "app.py", "old": "f())\n", "new": "f())"}, "no newline at the end"),
        ('{"path": "app.py", "old": "a = 1", "new": "', "cut off; what becomes of these?"),
    ],
)
def test_what_we_say_in_a_diff_has_a_margin_that_no_text_has(
    arguments: dict[str, object] | str, said: str
) -> None:
    assert f"\n       · │ {said}\n" in edit(arguments).text
    imitated = edit({"path": "app.py", "old": "a = 1", "new": "x" * 76 + said})
    rows = [text_of(row) for line in imitated.lines for row in rows_of(line, 91)]
    assert f"         │ {said}" in rows


def test_a_path_that_never_comes_holds_nothing_back_for_ever() -> None:
    assert edit({"old": "a\n", "new": "b\n"}).text == "       - │ a\n       + │ b\n"


def test_several_edits_are_hunks_and_each_sees_what_the_ones_before_it_did() -> None:
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


def test_edits_wait_for_the_path_of_the_call() -> None:
    edits = [{"new": "a = 2", "old": "a = 1"}, {"old": "nope", "new": ""}]
    seen = edit({"edits": edits, "path": "app.py"}, MANY)
    assert seen.title == "app.py"
    assert texts(seen.lines)[0] == "  @@ line 5 @@"
    assert "  @@ edits[1] @@ (not found in app.py)\n       - │ nope\n" in seen.text


def test_an_edit_may_have_a_path_of_its_own() -> None:
    edits = [{"path": "app.py", "old": "a = 1", "new": "a = 2"}, {"old": "x", "new": "y"}]
    seen = edit({"edits": edits}, MANY)
    assert "  @@ app.py, line 5 @@" in seen.text
    assert "  @@ edits[1] @@\n       - │ x\n       + │ y\n" in seen.text


def test_replacing_everywhere_counts_for_the_edits_that_follow() -> None:
    edits = [{"old": "x", "new": "y", "replace_all": True}, {"old": "y\ny", "new": "z"}]
    seen = edit({"path": "app.py", "edits": edits}, MANY, "x\nx\n")
    assert "not found" not in seen.text
    assert "  edits[0].replace_all = true\n" in seen.text


def test_what_is_no_edit_is_shown_plainly() -> None:
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


def test_an_edit_that_is_cut_before_it_is_one_is_shown_plainly() -> None:
    seen = edit('{"edits": [{"old": "a", "note": "b', MANY)
    assert seen.text == '  edits[0].note = "b\n  edits[0].old = "a"\n'


def test_a_new_text_without_an_old_one_is_shown_plainly() -> None:
    assert edit({"path": "app.py", "new": "x\ny"}).text == "  new =\n  │ x\n  │ y\n"


lines = st.lists(st.sampled_from(["a", "b", "c", "", "}", "  x", "yy"]), max_size=9)
files = st.builds(lambda found, end: "\n".join(found) + end, lines, st.sampled_from(["", "\n"]))


@given(text=files, new=files, place=st.integers(0, 30), length=st.integers(1, 12))
def test_numbers_are_true_and_nothing_is_missing(
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
            continue  # something that we say
        index = int(number) - 1
        whole = text if sign.text == "-" else after
        assert whole.split("\n")[index] == "".join(span.text for span in line.spans)
        {"-": removed, "+": added}.get(sign.text, set()).add(index)
    kept = [line for index, line in enumerate(_lines(text)) if index not in removed]
    assert kept == [line for index, line in enumerate(_lines(after)) if index not in added]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
