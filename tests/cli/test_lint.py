"""argstream lint: its output and its exit status."""

import json
from pathlib import Path
from typing import Any

from tests.cli.in_process import argstream, refused

TEXT = {"type": "string"}


def schema(**properties: Any) -> dict[str, Any]:
    required = list(properties)
    closed = {"required": required, "additionalProperties": False}
    return {"type": "object", "properties": properties, **closed}


BAD = {"name": "write_file", "input_schema": schema(content=TEXT, path=TEXT)}
GOOD = {"type": "function", "function": {"name": "read", "parameters": schema(path=TEXT)}}
OPEN_SCHEMA = {"type": "OBJECT", "properties": {"name": {"type": "STRING"}}}
OPEN = {"functionDeclarations": [{"name": "find", "parameters": OPEN_SCHEMA}]}
BROKEN = {"name": "broken", "input_schema": {"type": "objekt"}}


def test_session_in_the_docs_is_the_real_output() -> None:
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


def test_json_is_one_line_for_each_finding() -> None:
    nasty = {"name": "\x1b]0;x\x07\ud800", "input_schema": BAD["input_schema"]}
    done = argstream("lint", "--json", "-", stdin=json.dumps([nasty, BROKEN]).encode())
    assert done.returncode == 1
    assert done.stdout.isascii()
    order, unusable = map(json.loads, done.stdout.splitlines())
    del order["message"]
    assert order == {
        "file": "-",
        "tool": "\x1b]0;x\x07\ud800",
        "path": [],
        "code": "order",
        "severity": "warning",
        "suggestion": ["path", "content"],
    }
    assert (unusable["tool"], unusable["severity"]) == ("broken", "error")


def test_only_selects_findings_but_keeps_unusable_tools() -> None:
    tools = json.dumps([BAD, OPEN, BROKEN]).encode()
    lines = argstream("lint", "--json", "--only", "late", "-", stdin=tools).stdout.splitlines()
    assert [json.loads(line)["code"] for line in lines] == ["late", "unusable"]


def test_names_cannot_act_on_a_terminal() -> None:
    evil = "\x1b]0;gone\x07\x9b2J\u202e\r\n\ud800path"
    tool = {"name": evil, "input_schema": schema(content=TEXT, **{evil: {"type": "boolean"}})}
    done = argstream("lint", "-", stdin=json.dumps([tool]).encode())
    assert done.returncode == 1
    screen = done.stdout.decode()
    assert not set(screen) & set("\x1b\x07\x9b\u202e\r")
    assert "● ⟦ESC⟧]0;gone" in screen
    assert "⟦U+D800⟧path" in screen


def test_unreadable_files_do_not_stop_the_others(tmp_path: Path) -> None:
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
    assert text.startswith(f"argstream: cannot read {tmp_path}/text: not valid JSON: ")
    assert number.endswith("/number: expected a list of tools, or a request with tools")
    assert "/unknown: tools[0] cannot be read: " in unknown
    assert deep.endswith("/deep: nested too deeply")
    message = refused("lint", "-", stdin=b'[{"type": "namespace", "tools": 5}]')
    assert message == "argstream: cannot read stdin: tools[0]: tools must be a list, not 5"
    good = argstream("lint", "-", stdin=json.dumps([GOOD]).encode())
    assert (good.returncode, good.stdout, good.stderr) == (0, b"-: 1 tool, no findings\n", b"")
