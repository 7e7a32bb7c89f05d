"""Arguments as files for an editor, and back. test_approver.py tests them with real editors."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from argstream.terminal._entry import Documents, NotReadableError, same

TEXT: dict[str, Any] = {"text": "a\nb", "n": 1}
Change = Callable[[Path], object]


def edited(folder: Path, arguments: dict[str, Any], change: Change) -> dict[str, Any]:
    documents = Documents(folder, arguments)
    change(folder)
    return documents.read()


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in folder.iterdir()}


def replaced(file: str, old: str, new: str) -> Change:
    def change(folder: Path) -> None:
        text = (folder / file).read_text("utf-8")
        assert old in text
        (folder / file).write_text(text.replace(old, new), "utf-8")

    return change


def written(file: str, data: str | bytes) -> Change:
    raw = data if isinstance(data, bytes) else data.encode()
    return lambda folder: (folder / file).write_bytes(raw)


def both(*changes: Change) -> Change:
    return lambda folder: [change(folder) for change in changes]


def removed(file: str) -> Change:
    return lambda folder: (folder / file).unlink()


def test_long_texts_are_files_and_all_files_are_read_back(tmp_path: Path) -> None:
    arguments = {"path": "src/app.py", "content": "import os\nprint(1)\n", "mode": "append"}
    documents = Documents(tmp_path, arguments)
    assert [path.name for path in documents.paths] == ["content.py", "arguments.json"]
    assert files(tmp_path) == {
        "content.py": "import os\nprint(1)\n",
        "arguments.json": '{\n  "path": "src/app.py",\n  "content": {\n    "file": "content.py"\n'
        '  },\n  "mode": "append"\n}\n',
    }
    replaced("content.py", "print(1)", "print(2)")(tmp_path)
    replaced("arguments.json", "append", "replace")(tmp_path)
    changed = {"path": "src/app.py", "content": "import os\nprint(2)\n", "mode": "replace"}
    assert documents.read() == changed


@pytest.mark.parametrize(
    "arguments",
    [
        TEXT,
        {"text": "a\n\u202eb\x1b\r\n⟦", "Zoë 不\x7f\U000e0041": "\u2028\ufe0f"},
        {"content": {"file": "text.txt"}, "text": "a\nb"},  # it looks like our reference
        {"a b": "1\n", "a-b": "2\n", "A?B": "3\n", "": [1, None, {"x": 1e300}]},
    ],
)
def test_unchanged_file_is_no_change(tmp_path: Path, arguments: dict[str, Any]) -> None:
    documents = Documents(tmp_path, arguments)
    replaced("arguments.json", "{\n", "{ \n")(tmp_path)
    assert same(documents.read(), arguments)
    assert not documents.has_changes()


def test_hidden_characters_can_be_removed_in_the_editor(tmp_path: Path) -> None:
    arguments = {"text": "a\n\u202eb\x1b\r\n", "name": "Zoë 不\u202e\x7f"}
    documents = Documents(tmp_path, arguments)
    seen = files(tmp_path)
    assert seen["text.txt"] == "a\n⟦RLO⟧b⟦ESC⟧⟦CR⟧\n"
    assert r'"name": "Zoë 不\u202e\u007f"' in seen["arguments.json"]
    replaced("text.txt", "⟦RLO⟧", "")(tmp_path)
    assert documents.read() == {"text": "a\nb\x1b\r\n", "name": "Zoë 不\u202e\x7f"}


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (written("text.txt", "a\nb\n\n"), {"text": "a\nb\n", "n": 1}),  # editors write one newline
        (written("arguments.json", '{"text": "short"}'), {"text": "short"}),
        (written("arguments.json", '{"n": 1}'), {"n": 1}),
        (replaced("arguments.json", ": 1", ": true"), TEXT | {"n": True}),
    ],
)
def test_edited_arguments_are_used(tmp_path: Path, change: Change, changed: dict[str, Any]) -> None:
    found = edited(tmp_path, TEXT, change)
    assert same(found, changed)
    assert not same(found, TEXT)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (written("arguments.json", '{"text": ]'), "arguments.json, line 1, column 10: this"),
        (written("arguments.json", '{"a": 1,\n "a": 2}'), "line 2, column 4: the object already"),
        (written("arguments.json", "[1]"), "the arguments of a tool must be an object: {…}"),
        (written("arguments.json", '{"a": 1'), "arguments.json, line 1, column 8: the text"),
        (written("arguments.json", b'{"a": "\xff"}'), "arguments.json is not UTF-8 (at byte 7)"),
        (written("text.txt", b"a\n\xe9"), "text.txt is not UTF-8 (at byte 2)"),
        (removed("text.txt"), "text.txt was deleted"),
        (removed("arguments.json"), "arguments.json was deleted"),
        (
            both(removed("text.txt"), lambda folder: (folder / "text.txt").mkdir()),
            "text.txt cannot be read: ",
        ),
        (
            both(removed("text.txt"), lambda folder: os.mkfifo(folder / "text.txt")),
            "text.txt cannot be read: ",
        ),
        (
            both(removed("arguments.json"), lambda folder: os.mkfifo(folder / "arguments.json")),
            "arguments.json cannot be read: ",
        ),
        (
            both(written("arguments.json", "{}"), written("text.txt", "\n")),
            "text.txt was changed, but arguments.json",
        ),
        (written("text.txt", ""), "text.txt is empty. For an empty text, put it into arguments"),
        (written("arguments.json", "\n"), "arguments.json, line 2, column 1: the text"),
    ],
)
def test_unreadable_files_are_explained(tmp_path: Path, change: Change, problem: str) -> None:
    with pytest.raises(NotReadableError) as raised:
        edited(tmp_path, TEXT, change)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        ({"path": "a/b.tar.gz", "content": "a\nb"}, "content.gz"),
        ({"path": "a/b.py; rm", "content": "a\nb"}, "content.txt"),
        ({"path": 3, "file_path": "x.ts", "../../etc/passwd": "a\nb"}, "etc-passwd.ts"),
        ({"-c:!sh": "a\nb", "n": 1}, "c-sh.txt"),
        ({"x" * 300: "a\nb", "n": 1}, "x" * 40 + ".txt"),
        ({"path": "x.json", "arguments": "a\nb"}, "arguments-2.json"),
    ],
)
def test_file_names_are_harmless(tmp_path: Path, arguments: dict[str, Any], file: str) -> None:
    Documents(tmp_path, arguments)
    assert set(files(tmp_path)) == {file, "arguments.json"}


def test_json_values_are_kept_exactly(tmp_path: Path) -> None:
    values = {"a": [1, 1.0, True, None, "1"], "b": {"c": 12345678901234567890}, "n": 1}
    changed = edited(tmp_path, values, replaced("arguments.json", '"n": 1', '"n": 2'))
    assert json.dumps(changed) == json.dumps(values | {"n": 2})


@pytest.mark.parametrize(("name", "file"), [("command", "command.sh"), ("query", "query.txt")])
def test_single_string_is_edited_as_bare_text(tmp_path: Path, name: str, file: str) -> None:
    documents = Documents(tmp_path, {name: "echo \x1b"})
    assert files(tmp_path) == {file: "echo ⟦ESC⟧\n"}
    assert not documents.has_changes()
    replaced(file, " ⟦ESC⟧", "\nls")(tmp_path)
    assert documents.read() == {name: "echo\nls"}
    for left in ("", "\n"):  # as of an editor that failed: it must not be approved
        (tmp_path / file).write_text(left)
        with pytest.raises(NotReadableError, match=f"{file} is empty"):
            documents.read()
