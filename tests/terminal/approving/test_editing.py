"""Arguments as files for an editor, and back."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from argstream import Approve, Deny
from argstream.events import ApprovalRequested
from tests.terminal.approving.sitting import asked, in_event_loop, sitting

TEXT = {"text": "a\nb"}
Edit = Callable[..., Any]


def editor(folder: Path, script: str) -> str:
    """Return the command of an editor that keeps a copy of its files, then runs a script."""
    path = folder / "my editor.sh"
    path.write_text(f'#!/bin/sh\nmkdir -p {folder}/seen; cp "$@" {folder}/seen\n{script}', "utf-8")
    path.chmod(0o700)
    return f"'{path}'"


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Edit:
    """Return a function that edits arguments: it returns the new ones, or {} if all is refused."""

    def apply(arguments: dict[str, object], script: str, problem: str = "") -> object:
        monkeypatch.setenv("VISUAL", editor(tmp_path, f'cd "$(dirname "$1")"\n{script}'))
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


def test_texts_of_several_lines_are_files_and_all_files_are_read_back(
    edit: Edit, tmp_path: Path
) -> None:
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
def test_an_unchanged_file_is_no_change(edit: Edit, arguments: dict[str, object]) -> None:
    script = "sed -i 's/^{$/{ /' arguments.json"  # blanks say nothing
    assert edit(arguments, script, "Nothing was changed.") == {}


def test_what_hides_can_be_seen_and_removed_in_the_editor(edit: Edit, tmp_path: Path) -> None:
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
        (
            """echo '{"n": true, "text": {"file": "text.txt"}}' > arguments.json""",
            TEXT | {"n": True},
        ),
    ],
)
def test_what_was_typed_is_what_runs(edit: Edit, script: str, changed: dict[str, object]) -> None:
    assert edit(TEXT | {"n": 1}, script) == changed


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo '{\"text\": ]' > arguments.json", "arguments.json, line 1, column 10: this"),
        ('echo \'{"a": 1,\n "a": 2}\' > arguments.json', "line 2, column 4: this key was already"),
        ("echo '[1]' > arguments.json", "the arguments of a tool must be an object: {…}"),
        ("printf '{\"a\": 1' > arguments.json", "arguments.json, line 1, column 8: the text"),
        ('printf \'{"a": "\\377"}\' > arguments.json', "arguments.json is not UTF-8 (at byte 7)"),
        ("printf 'a\\n\\351' > text.txt", "text.txt is not UTF-8 (at byte 2)"),
        ("rm text.txt", "text.txt is not there any more"),
        ("rm arguments.json", "arguments.json is not there any more"),
        ("rm text.txt; mkdir text.txt", "text.txt cannot be read: "),
        ("rm text.txt; mkfifo text.txt", "text.txt cannot be read: "),
        ("rm arguments.json; mkfifo arguments.json", "arguments.json cannot be read: "),
        (
            "echo '{}' > arguments.json; echo x > text.txt",
            "text.txt was changed, but arguments.json",
        ),
    ],
)
def test_what_cannot_be_read_is_explained(edit: Edit, script: str, problem: str) -> None:
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
def test_names_of_files_are_harmless_whatever_the_model_wrote(
    edit: Edit, tmp_path: Path, arguments: dict[str, object], file: str
) -> None:
    edit(arguments, "true", "Nothing was changed.")
    assert set(files(tmp_path)) == {file, "arguments.json"}


@pytest.mark.parametrize(
    ("variables", "hint"),
    [
        ({"VISUAL": "false", "EDITOR": "true"}, "false ended with status 1."),
        ({"VISUAL": "", "EDITOR": "sh -c 'exit 3'"}, "sh ended with status 3."),
        ({"VISUAL": "'vi"}, "$VISUAL cannot be read: No closing quotation."),
        ({"PATH": "/nowhere"}, "there is no editor: say which one in $EDITOR."),
        ({"VISUAL": "true"}, "Nothing was changed."),
        ({"VISUAL": "no-such-editor"}, "no-such-editor cannot be started"),
        ({"VISUAL": "sh -c 'kill -9 $$'"}, "sh ended with signal 9."),
    ],
)
@in_event_loop
async def test_an_editor_that_does_not_work_leads_back_to_the_question(
    variables: dict[str, str], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ({"VISUAL": "", "EDITOR": ""} | variables).items():
        monkeypatch.setenv(name, value)
    async with sitting() as at:
        await at.answer("e")
        await at.sees(hint)
        await at.answer("n")


def test_json_is_kept_exactly(edit: Edit) -> None:
    values = {"a": [1, 1.0, True, None, "1"], "b": {"c": 12345678901234567890}, "n": 1}
    changed = edit(values, 'sed -i \'s/"n": 1/"n": 2/\' arguments.json')
    assert json.dumps(changed) == json.dumps(values | {"n": 2})
