"""Arguments as files for an editor, and back."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from argstream import Approve, Deny
from argstream.events import ApprovalRequested
from tests.terminal.approving.sitting import asked, editor

TEXT = {"text": "a\nb"}
Edit = Callable[..., Any]


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Edit:
    """Return a function that edits arguments. It returns the new ones, or {} after a denial."""

    def apply(arguments: dict[str, object], script: str, problem: str = "") -> object:
        copy = f'mkdir -p {tmp_path}/seen; cp "$@" {tmp_path}/seen; cd "$(dirname "$1")"'
        monkeypatch.setenv("VISUAL", editor(tmp_path, f"{copy}\n{script}"))
        request = ApprovalRequested("c1", "tool", arguments, "digest", "why")

        async def scenario() -> Any:
            async with asked(request) as at:
                await at.answer("e", "? Run tool?")
                if problem:
                    await at.sees(problem)
                    question = "cannot be used" if "Nothing was" not in problem else "? Run tool"
                    await at.answer("n", question)
                else:
                    await at.answer("y", "with these changes?")
                await at.end()
            return at.decision

        decision = asyncio.run(scenario())
        if isinstance(decision, Deny):
            return {}
        assert isinstance(decision, Approve)
        return decision.arguments

    return apply


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in (folder / "seen").iterdir()}


def test_long_texts_are_files_and_all_files_are_read_back(edit: Edit, tmp_path: Path) -> None:
    arguments = {"path": "src/app.py", "content": "import os\nprint(1)\n", "mode": "append"}
    script = "sed -i 's/print(1)/print(2)/' content.py; sed -i 's/append/replace/' arguments.json"
    changed = {"path": "src/app.py", "content": "import os\nprint(2)\n", "mode": "replace"}
    assert edit(arguments, script) == changed
    assert files(tmp_path) == {
        "content.py": "import os\nprint(1)\n",
        "arguments.json": '{\n  "path": "src/app.py",\n  "content": {\n    "file": "content.py"\n'
        '  },\n  "mode": "append"\n}\n',
    }


@pytest.mark.parametrize(
    "arguments",
    [
        TEXT,
        {"text": "a\n\u202eb\x1b\r\n⟦", "Zoë 不\x7f\U000e0041": "\u2028\ufe0f"},
        {"content": {"file": "text.txt"}, "text": "a\nb"},  # it looks like our reference
        {"a b": "1\n", "a-b": "2\n", "A?B": "3\n", "": [1, None, {"x": 1e300}]},
    ],
)
def test_unchanged_file_is_no_change(edit: Edit, arguments: dict[str, object]) -> None:
    script = "sed -i 's/^{$/{ /' arguments.json"
    assert edit(arguments, script, "Nothing was changed.") == {}


def test_hidden_characters_can_be_removed_in_the_editor(edit: Edit, tmp_path: Path) -> None:
    arguments = {"text": "a\n\u202eb\x1b\r\n", "name": "Zoë 不\u202e\x7f"}
    changed = edit(arguments, "sed -i 's/⟦RLO⟧//' text.txt")
    assert changed == {"text": "a\nb\x1b\r\n", "name": "Zoë 不\u202e\x7f"}
    seen = files(tmp_path)
    assert seen["text.txt"] == "a\n⟦RLO⟧b⟦ESC⟧⟦CR⟧\n"
    assert r'"name": "Zoë 不\u202e\u007f"' in seen["arguments.json"]


@pytest.mark.parametrize(
    ("script", "changed"),
    [
        ("echo >> text.txt", {"text": "a\nb\n", "n": 1}),  # one newline more than editors write
        ("""echo '{"text": "short"}' > arguments.json""", {"text": "short"}),
        ("""echo '{"n": 1}' > arguments.json""", {"n": 1}),
        ("sed -i 's/: 1/: true/' arguments.json", TEXT | {"n": True}),
    ],
)
def test_edited_arguments_are_used(edit: Edit, script: str, changed: dict[str, object]) -> None:
    assert edit(TEXT | {"n": 1}, script) == changed


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo '{\"text\": ]' > arguments.json", "arguments.json, line 1, column 10: this"),
        (
            'echo \'{"a": 1,\n "a": 2}\' > arguments.json',
            "line 2, column 4: the object already",
        ),
        ("echo '[1]' > arguments.json", "the arguments of a tool must be an object: {…}"),
        ("printf '{\"a\": 1' > arguments.json", "arguments.json, line 1, column 8: the text"),
        ('printf \'{"a": "\\377"}\' > arguments.json', "arguments.json is not UTF-8 (at byte 7)"),
        ("printf 'a\\n\\351' > text.txt", "text.txt is not UTF-8 (at byte 2)"),
        ("rm text.txt", "text.txt is not there any more"),
        ("rm arguments.json", "arguments.json is not there any more"),
        ("rm text.txt; mkdir text.txt", "text.txt cannot be read: "),
        ("rm text.txt; mkfifo text.txt", "text.txt cannot be read: "),
        ("rm arguments.json; mkfifo arguments.json", "arguments.json cannot be read: "),
        ("echo '{}' > arguments.json; echo > text.txt", "text.txt was changed, but arguments.json"),
    ],
)
def test_unreadable_files_are_explained(edit: Edit, script: str, problem: str) -> None:
    assert edit(TEXT, script, problem) == {}


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        ({"path": "a/b.tar.gz", "content": "a\nb"}, "content.gz"),
        ({"path": "a/b.py; rm", "content": "a\nb"}, "content.txt"),
        ({"path": 3, "file_path": "x.ts", "../../etc/passwd": "a\nb"}, "etc-passwd.ts"),
        ({"-c:!sh": "a\nb"}, "c-sh.txt"),
        ({"x" * 300: "a\nb"}, "x" * 40 + ".txt"),
        ({"path": "x.json", "arguments": "a\nb"}, "arguments-2.json"),
    ],
)
def test_file_names_are_harmless(
    edit: Edit, tmp_path: Path, arguments: dict[str, object], file: str
) -> None:
    edit(arguments, "true", "Nothing was changed.")
    assert set(files(tmp_path)) == {file, "arguments.json"}


def test_json_values_are_kept_exactly(edit: Edit) -> None:
    values = {"a": [1, 1.0, True, None, "1"], "b": {"c": 12345678901234567890}, "n": 1}
    changed = edit(values, 'sed -i \'s/"n": 1/"n": 2/\' arguments.json')
    assert json.dumps(changed) == json.dumps(values | {"n": 2})
