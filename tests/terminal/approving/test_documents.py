"""The arguments of a call as files for an editor."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.terminal._readable_json import NotReadable, same
from argstream.terminal.approving._documents import Documents

ARGUMENTS = {"path": "src/app.py", "content": "import os\nprint(1)\n", "mode": "append"}

texts = st.text(st.characters(exclude_categories=["Cs"]))
several_lines = st.lists(texts, min_size=2, max_size=4).map("\n".join)


def edited(folder: Path, file: str, old: str, new: str) -> None:
    content = (folder / file).read_text("utf-8")
    assert old in content
    (folder / file).write_text(content.replace(old, new), "utf-8")


def test_a_text_of_several_lines_is_a_file_of_its_own(tmp_path: Path) -> None:
    documents = Documents(tmp_path, ARGUMENTS)
    assert [path.name for path in documents.paths] == ["content.py", "arguments.json"]
    assert (tmp_path / "content.py").read_text("utf-8") == "import os\nprint(1)\n"
    assert (tmp_path / "arguments.json").read_text("utf-8") == (
        '{\n  "path": "src/app.py",\n  "content": {\n    "file": "content.py"\n  },\n'
        '  "mode": "append"\n}\n'
    )


def test_what_was_typed_in_both_is_taken(tmp_path: Path) -> None:
    documents = Documents(tmp_path, ARGUMENTS)
    edited(tmp_path, "content.py", "print(1)", "print(2)")
    edited(tmp_path, "arguments.json", "append", "replace")
    assert documents.read() == {
        "path": "src/app.py",
        "content": "import os\nprint(2)\n",
        "mode": "replace",
    }


@given(st.dictionaries(texts, several_lines | texts | st.integers() | st.lists(texts), max_size=4))
def test_who_changes_nothing_has_changed_nothing(arguments: dict[str, object]) -> None:
    with TemporaryDirectory() as folder:
        assert same(Documents(Path(folder), arguments).read(), arguments)


def test_the_newline_that_editors_put_at_the_end_is_no_change(tmp_path: Path) -> None:
    documents = Documents(tmp_path, {"text": "a\nb"})
    assert (tmp_path / "text.txt").read_text("utf-8") == "a\nb\n"
    assert documents.read() == {"text": "a\nb"}
    edited(tmp_path, "text.txt", "b\n", "b\n\n")
    assert documents.read() == {"text": "a\nb\n"}


def test_what_hides_is_seen_in_the_editor(tmp_path: Path) -> None:
    documents = Documents(tmp_path, {"text": "a\n\u202eb\x1b\r\n"})
    assert (tmp_path / "text.txt").read_text("utf-8") == "a\n⟦RLO⟧b⟦ESC⟧⟦CR⟧\n"
    edited(tmp_path, "text.txt", "⟦RLO⟧", "")
    assert documents.read() == {"text": "a\nb\x1b\r\n"}


def test_an_object_that_looks_like_a_reference_of_ours_is_an_object(tmp_path: Path) -> None:
    arguments = {"content": {"file": "text.txt"}, "text": "a\nb"}
    assert Documents(tmp_path, arguments).read() == arguments


def test_a_text_can_be_written_in_place_of_its_file_or_left_out(tmp_path: Path) -> None:
    documents = Documents(tmp_path, {"text": "a\nb", "n": 1})
    (tmp_path / "arguments.json").write_text('{"text": "short"}', "utf-8")
    assert documents.read() == {"text": "short"}
    (tmp_path / "arguments.json").write_text('{"n": 1}', "utf-8")
    assert documents.read() == {"n": 1}


def test_a_file_that_was_changed_for_nothing_is_told(tmp_path: Path) -> None:
    documents = Documents(tmp_path, {"text": "a\nb", "n": 1})
    (tmp_path / "arguments.json").write_text('{"n": 1}', "utf-8")
    edited(tmp_path, "text.txt", "a", "c")
    with pytest.raises(NotReadable, match=r'it should say "text": {"file": "text.txt"}'):
        documents.read()


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("arguments.json", b'{"text": ]', "arguments.json, line 1, column 10: this character"),
        ("arguments.json", b'{"text": "\xff"}', r"arguments.json is not UTF-8 \(at byte 10\)"),
        ("text.txt", b"a\n\xe9", r"text.txt is not UTF-8 \(at byte 2\)"),
        ("text.txt", None, "text.txt is not there any more"),
        ("arguments.json", None, "arguments.json is not there any more"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_file(
    tmp_path: Path, file: str, content: bytes | None, problem: str
) -> None:
    documents = Documents(tmp_path, {"text": "a\nb"})
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(NotReadable, match=problem):
        documents.read()


@pytest.mark.parametrize("file", ["arguments.json", "text.txt"])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_any_more_is_said_and_nobody_waits_for_it(
    tmp_path: Path, file: str, make: Callable[[Path], None]
) -> None:
    documents = Documents(tmp_path, {"text": "a\nb"})
    (tmp_path / file).unlink()
    make(tmp_path / file)
    with pytest.raises(NotReadable, match=f"{file} cannot be read: "):
        documents.read()


def test_it_is_known_whether_anything_was_changed(tmp_path: Path) -> None:
    documents = Documents(tmp_path, ARGUMENTS)
    assert not documents.has_changes()
    edited(tmp_path, "arguments.json", "{", "{ ")
    assert not documents.has_changes()
    edited(tmp_path, "content.py", "print", "sprint")
    assert documents.has_changes()
    edited(tmp_path, "content.py", "sprint", "print")
    (tmp_path / "arguments.json").unlink()
    assert documents.has_changes()


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        ({"path": "a/b.tar.gz", "content": "a\nb"}, "content.gz"),
        ({"path": "a/b.py; rm", "content": "a\nb"}, "content.txt"),
        ({"path": 3, "file_path": "x.ts", "content": "a\nb"}, "content.ts"),
        ({"../../etc/passwd": "a\nb"}, "etc-passwd.txt"),
        ({"-c:!sh": "a\nb"}, "c-sh.txt"),
        ({"": "a\nb"}, "text.txt"),
        ({"x" * 300: "a\nb"}, "x" * 40 + ".txt"),
        ({"path": "x.json", "arguments": "a\nb"}, "arguments-2.json"),
    ],
)
def test_the_name_of_a_file_is_harmless_whatever_the_model_wrote(
    tmp_path: Path, arguments: dict[str, object], file: str
) -> None:
    assert Documents(tmp_path, arguments).paths[0] == tmp_path / file


def test_names_that_would_be_the_same_file_are_told_apart(tmp_path: Path) -> None:
    arguments = {"a b": "1\n", "a-b": "2\n", "A?B": "3\n"}
    documents = Documents(tmp_path, arguments)
    assert [path.name for path in documents.paths[:-1]] == ["a-b.txt", "a-b-2.txt", "A-B-3.txt"]
    assert documents.read() == arguments
