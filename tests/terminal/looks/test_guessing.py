"""What arguments are taken for when nobody declared them."""

from typing import Any

import pytest

from argstream.terminal.looks import Looks
from argstream.validation import ToolSpec
from tests.terminal.looks.following import follow

NUMBERED = "     1 │ x\n"


def spec(name: str, **properties: dict[str, Any]) -> Looks:
    schema = {"type": "object", "properties": properties}
    return Looks(tools=[ToolSpec(name, "", schema)])


@pytest.mark.parametrize("path", ["path", "file_path", "filename", "file"])
@pytest.mark.parametrize("text", ["content", "contents", "file_text", "code"])
def test_a_text_beside_a_path_is_a_file(path: str, text: str) -> None:
    seen = follow({path: "a.txt", text: "x\n"}, "save")
    assert (seen.title, seen.text) == ("a.txt", NUMBERED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("old_string", "new_string"),
        ("old_str", "new_str"),
        ("old", "new"),
        ("old_text", "new_text"),
        ("oldText", "newText"),
    ],
)
def test_an_old_and_a_new_text_are_a_diff(old: str, new: str) -> None:
    seen = follow({new: "b", "path": "a.txt", old: "a"}, "change")
    assert (seen.title, seen.text) == ("a.txt", "       - │ a\n       + │ b\n")
    seen = follow({"edits": [{"path": "a.txt", new: "b", old: "a"}]}, "change")
    assert seen.text.endswith("       - │ a\n       + │ b\n")


@pytest.mark.parametrize(("old", "new"), [("search", "replace"), ("find", "replace")])
def test_searching_and_replacing_is_a_diff_only_in_a_tool_that_edits(old: str, new: str) -> None:
    assert "- │ a" in follow({"path": "f", old: "a", new: "b"}, "search_and_replace").text
    assert "- │ a" in follow({"patterns": [{old: "a", new: "b"}]}, "change").text
    assert follow({old: "a", "limit": 3}, "lookup").text == f'  {old} = "a"\n  limit = 3\n'


@pytest.mark.parametrize("command", ["command", "cmd", "script"])
def test_a_command_is_one(command: str) -> None:
    assert follow({command: "ls"}, "bash").title == "ls"


def test_what_an_editing_tool_calls_its_command_is_none() -> None:
    arguments = {"command": "create", "path": "a.txt", "file_text": "x\n"}
    seen = follow(arguments, "str_replace_based_edit_tool")
    assert (seen.title, seen.text) == ("a.txt", '  command = "create"\n' + NUMBERED)
    choices = spec("tool", command={"enum": ["start", "stop"]}, path={})
    assert follow({"command": "start"}, "tool", choices).text == '  command = "start"\n'


def test_flat_objects_are_a_table() -> None:
    assert follow({"todos": [{"id": 1}, {"id": 2}]}).text == "  todos =\n  │ id\n  │ 1\n  │ 2\n"


def test_the_path_is_the_title_whatever_else_there_is() -> None:
    seen = follow({"path": "src", "depth": 2}, "list_folder")
    assert (seen.title, seen.text) == ("src", "  depth = 2\n")


def test_a_message_is_no_file() -> None:
    assert follow({"to": "Ann", "content": "x\ny"}, "send").text.startswith(
        '  to = "Ann"\n  content'
    )
    assert follow({"path": "src", "text": "TODO"}, "grep").text == '  text = "TODO"\n'


def test_a_text_before_its_path_is_a_file_if_the_name_or_the_schema_says_so() -> None:
    late = {"content": "x\n", "path": "a.txt"}
    assert follow(late, "write_file").text == NUMBERED + '  path = "a.txt"\n'
    assert follow(late, "put", spec("put", content={}, path={})).text.startswith(NUMBERED)
    assert follow(late, "put").text.startswith("  content =\n")


def test_code_is_coloured_by_the_name_of_its_tool() -> None:
    seen = follow({"code": "import os\n"}, "run_python")
    assert seen.lines[0].spans[0].role == "keyword"


def test_by_the_schema_nobody_waits_for_a_title_that_cannot_come() -> None:
    seen = follow('{"city": "Rome", "days": 3', "weather", spec("weather", city={}, days={}))
    assert len(seen.settled) == 1
    assert follow('{"city": "Rome", "days": 3', "weather").settled == []


def test_by_the_schema_a_diff_without_a_path_streams_at_once() -> None:
    raw = '{"old": "a\\nb\\n", "new": "a\\nb'
    assert len(follow(raw, "t", spec("t", old={}, new={})).settled) == 0
    seen = follow(raw.replace("a\\nb", "a\\nb\\nc\\nd\\ne"), "t", spec("t", old={}, new={}))
    assert len(seen.settled) == 4
