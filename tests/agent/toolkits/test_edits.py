"""Edits: exact, all or none; what they do not touch stays as it is, byte by byte."""

import json
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.agent.toolkits import _edits
from argstream.agent.toolkits._edits import Edit, NotThere, edited
from argstream.agent.toolkits._texts import FileText
from argstream.errors import ToolFailure
from tests.agent.toolkits.projects import Project


def edit(text: str | bytes, *edits: tuple[str, str]) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    made = [Edit(old=old, new=new) for old, new in edits]
    try:
        return edited(FileText(data, "a.txt"), made, "a.txt")
    except NotThere as problem:
        raise problem.failure() from None


def refusal(text: str, *edits: tuple[str, str]) -> str:
    with pytest.raises(ToolFailure) as failure:
        edit(text, *edits)
    return str(failure.value)


def test_several_edits_are_made_whatever_their_order() -> None:
    edits = (("two", "2"), ("four\n", ""), ("one", "ONE\nand a half"))
    wanted = b"ONE\nand a half\n2\nthree\n"
    assert edit("one\ntwo\nthree\nfour\n", *edits) == wanted
    assert edit("one\ntwo\nthree\nfour\n", *reversed(edits)) == wanted


def test_edits_look_at_the_file_as_it_was() -> None:
    assert edit("a b\n", ("a", "b"), ("b", "a")) == b"b a\n"
    assert "does not occur" in refusal("a\n", ("a", "b"), ("b", "c"))


def test_edits_may_touch_but_not_overlap() -> None:
    assert edit("abcd", ("ab", "1"), ("cd", "2")) == b"12"
    assert refusal("x\nabcd", ("abc", "1"), ("cd", "2")) == (
        "two edits of a.txt overlap, around line 2: make one of them. Nothing was changed"
    )
    assert "overlap" in refusal("abcd", ("ab", "1"), ("ab", "2"))


def test_a_text_that_occurs_more_than_once_is_told_with_its_lines() -> None:
    assert refusal("x\ny\nx\n", ("y", "z"), ("x", "z")) == (
        "old of edit 2 in a.txt occurs 2 times, in lines 1, 3: take in lines around it, so that it "
        "occurs once. Nothing was changed"
    )
    assert "occurs 2 times" in refusal("aaa", ("aa", "b"))
    assert "occurs more than 20 times" in refusal("x\n" * 1_000, ("x", "z"))


@pytest.mark.parametrize(
    ("old", "told"),
    [
        ("nothing like it", "does not occur: read the file again, and copy from it exactly"),
        ("if  x:\n", "does not occur: line 2 is '    if x:', not 'if  x:'"),
        (
            "    if x:\n        go(1)",
            "does not occur: line 3 is '        go()', not '        go(1)'",
        ),
        ("\n\n", "does not occur: read the file again"),
    ],
)
def test_a_text_that_does_not_occur_is_told_with_what_is_alike(old: str, told: str) -> None:
    said = refusal("def f():\n    if x:\n        go()\n", (old, "y"))
    assert said.startswith(f"old in a.txt {told}")
    assert said.endswith(". Nothing was changed")


def test_what_is_alike_in_many_places_is_not_sought_for_long() -> None:
    began = time.process_time()
    assert "read the file again" in refusal("x\n" * 200_000, ("\n\nx", "y"))
    assert time.process_time() - began < 2


def test_while_it_is_sought_others_can_write(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_meanwhile(_text: str, _old: str) -> str:
        work = threading.Thread(
            target=lambda: project.call("write_file", path="b.txt", content="y"), daemon=True
        )
        work.start()
        work.join(5)
        return ": b.txt is there" if (project.root / "b.txt").exists() else ": nobody could write"

    monkeypatch.setattr(_edits, "_hint", write_meanwhile)
    project.file("a.txt", "x")
    said = project.refused("edit_file", path="a.txt", edits=[{"old": "z", "new": "y"}])
    assert said.endswith("old in a.txt does not occur: b.txt is there. Nothing was changed")


def test_an_edit_that_changes_nothing_is_told() -> None:
    assert refusal("x\n", ("x", "x")) == "old and new are the same: a.txt was not changed"


@pytest.mark.parametrize("edits", [[], [{"old": "", "new": "x"}], [{"old": "x"}], ["x"]])
def test_an_edit_must_have_something_to_replace(project: Project, edits: Any) -> None:
    project.file("a.txt", "x")
    arguments = json.dumps({"path": "a.txt", "edits": edits})
    assert project.tools["edit_file"].problem(arguments) is not None


def test_line_ends_and_the_mark_are_kept() -> None:
    mark = b"\xef\xbb\xbf"
    assert (
        edit(mark + b"a\r\nb\r\nc\r\n", ("a\nb\n", "1\n2\r\n3\n")) == mark + b"1\r\n2\r\n3\r\nc\r\n"
    )
    assert edit(b"a\nb\r\nc\nd", ("b\nc", "1\n2")) == b"a\n1\n2\nd"
    assert edit(b"a\r\nb\rc\n\r\n", ("b\rc", "x\ny")) == b"a\r\nx\r\ny\n\r\n"
    assert edit("\ufeffone".encode(), ("one", "é")) == "\ufeffé".encode()


@given(st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "\r", "é", "🎈"]), min_size=1), st.data())
def test_what_is_not_touched_stays_as_it_is(pieces: list[str], data: st.DataObject) -> None:
    before = "".join(pieces[: (cut := data.draw(st.integers(0, len(pieces))))])
    after = "".join(pieces[cut:])
    if before.endswith("\r"):
        before += "."  # otherwise the line end goes on with what is replaced
    found = edit(f"{before}<here>{after}", ("<here>", "<there>"))
    assert found == f"{before}<there>{after}".encode()


def test_a_file_is_edited_in_place(project: Project) -> None:
    project.file("src/app.py", "def f():\r\n    return 1\r\n")
    edits = [{"old": "return 1\n", "new": "return 2\n"}, {"old": "f()", "new": "g()"}]
    assert project.call("edit_file", path="src/app.py", edits=edits) == (
        "made 2 edits in src/app.py"
    )
    assert (project.root / "src/app.py").read_bytes() == b"def g():\r\n    return 2\r\n"
    assert project.refused("edit_file", path="b.py", edits=edits).startswith("there is no b.py")
