"""argstream lint: what it prints, and how it ends."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.cli.in_process import argstream
from tests.cli.test_cli import COMMAND

TEXT = {"type": "string"}


def schema(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


BAD = {"name": "write_file", "input_schema": schema(content=TEXT, path=TEXT)}
GOOD = {"type": "function", "function": {"name": "read", "parameters": schema(path=TEXT)}}
OPEN_SCHEMA = {"type": "OBJECT", "properties": {"name": {"type": "STRING"}}}
OPEN = {"functionDeclarations": [{"name": "find", "parameters": OPEN_SCHEMA}]}
BROKEN = {"name": "broken", "input_schema": {"type": "objekt"}}


def test_findings_are_told_with_the_order_to_use(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps({"model": "any", "tools": [BAD, GOOD, OPEN]}))
    done = argstream("lint", str(file))
    assert done.returncode == 1
    assert done.stderr == b""
    assert done.stdout.decode().splitlines() == [
        f"{file}: 3 tools, 2 findings",
        "",
        "● write_file",
        '  order     "content" may be long: put "path" first in "properties" and',
        '            "required"',
        "            → path, content",
        "",
        "● find",
        '  late      add "additionalProperties": false: without it, unknown names are',
        "            accepted",
        "",
        "order: Models write arguments in order. Put the ones a decision depends on",
        "first, so approval and policy checks don't wait for long text.",
        "",
        "late: A wrong call is rejected at the first wrong character, except for these",
        "rules.",
    ]


def test_the_session_in_the_docs_is_what_it_prints() -> None:
    write = schema(content=TEXT, path=TEXT, overwrite={"type": "boolean"})
    edits = {"type": "array", "uniqueItems": True, "items": schema(old=TEXT, new=TEXT)}
    tools = [
        {"name": "write_file", "input_schema": write | {"required": ["content", "path"]}},
        {"name": "edit", "input_schema": schema(path=TEXT, edits=edits)},
    ]
    docs = Path(__file__).parents[2] / "docs" / "tool-order.md"
    _, session, *_ = docs.read_text(encoding="utf-8").split("```")
    done = argstream("lint", "-", stdin=json.dumps(tools).encode())
    printed = done.stdout.decode().replace("-:", "tools.json:", 1)
    assert session == f"\n$ argstream lint tools.json\n{printed}"


def test_nothing_to_say_is_one_line_and_0() -> None:
    done = argstream("lint", "-", stdin=json.dumps([GOOD]).encode())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"-: 1 tool, no findings\n", b"")


def test_json_is_a_line_for_each_finding() -> None:
    nasty = {"name": "\x1b]0;x\x07\ud800", "input_schema": BAD["input_schema"]}
    done = argstream("lint", "--json", "-", stdin=json.dumps([nasty, BROKEN]).encode())
    assert done.returncode == 1
    assert done.stdout.isascii()
    order, unusable = map(json.loads, done.stdout.splitlines())
    assert order | {"message": ""} == {
        "file": "-",
        "tool": "\x1b]0;x\x07\ud800",
        "path": [],
        "code": "order",
        "severity": "warning",
        "message": "",
        "suggestion": ["path", "content"],
    }
    assert (unusable["tool"], unusable["severity"]) == ("broken", "error")


def test_only_some_of_it_but_always_what_is_unusable() -> None:
    tools = json.dumps([BAD, OPEN, BROKEN]).encode()
    lines = argstream("lint", "--json", "--only", "late", "-", stdin=tools).stdout.splitlines()
    assert [json.loads(line)["code"] for line in lines] == ["late", "unusable"]


def test_nothing_in_it_acts_on_a_terminal() -> None:
    evil = "\x1b]0;gone\x07\x9b2J\u202e\r\n\ud800path"
    tool = {"name": evil, "input_schema": schema(content=TEXT, **{evil: {"type": "boolean"}})}
    done = argstream("lint", "-", stdin=json.dumps([tool]).encode())
    assert done.returncode == 1
    screen = done.stdout.decode()
    assert not set(screen) & set("\x1b\x07\x9b\u202e\r")
    assert "● ⟦ESC⟧]0;gone" in screen
    assert "⟦U+D800⟧path" in screen


def test_a_file_that_cannot_be_read_does_not_keep_the_others_back(tmp_path: Path) -> None:
    contents = {
        "text": "hello",
        "number": "1",
        "unknown": '[{"spam": 1}]',
        "deep": "[" * 100_000,
        "good": json.dumps(GOOD),
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    done = argstream("lint", *(str(tmp_path / name) for name in ["none", *contents]))
    assert done.returncode == 2
    assert done.stdout.decode() == f"{tmp_path}/good: 1 tool, no findings\n"
    none, text, number, unknown, deep = done.stderr.decode().splitlines()
    assert none == f"argstream: cannot read {tmp_path}/none: No such file or directory"
    assert text.startswith(f"argstream: cannot read {tmp_path}/text: it is no JSON: ")
    assert number.endswith("/number: give a list of tools, or a request with its tools")
    assert "/unknown: tools[0] cannot be read: " in unknown
    assert deep.endswith("/deep: it is nested too deeply")


def test_tools_of_a_wrong_form_are_told() -> None:
    done = argstream("lint", "-", stdin=b'[{"type": "namespace", "tools": 5}]')
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"argstream: cannot read -: tools[0]: tools must be a list, not 5\n"


def test_without_its_extra_it_says_what_to_install(tmp_path: Path) -> None:
    missing = "raise ModuleNotFoundError('jsonschema_rs', name='jsonschema_rs')"
    (tmp_path / "jsonschema_rs.py").write_text(missing)
    done = subprocess.run(
        [COMMAND, "lint", "-"],
        input=json.dumps([BAD]).encode(),
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode() == (
        "argstream: judging calls by a JSON Schema needs the extra 'validation'."
        " In a checkout: pip install '.[validation]'\n"
    )
