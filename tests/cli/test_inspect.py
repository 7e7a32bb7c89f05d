"""argstream inspect: a table of the calls, their timing, JSON lines, and the waterfall."""

import json
from pathlib import Path
from typing import Any

import pytest

from argstream.recording import Recorder
from tests import provider_streams as api
from tests.cli.in_process import argstream, refused
from tests.cli.processes import timed
from tests.provider_streams import anthropic_call, chat_call, sse

TURN = anthropic_call('{"path": "a.py", ', '"edits": [{"old": "x', '"}]', "}")


@pytest.fixture
def recording(tmp_path: Path) -> str:
    """Return a recording of TURN. It starts after a second, and each event takes one."""
    chunks = ((index + 1.0, sse([event])) for index, event in enumerate(TURN))
    return timed(tmp_path / "turn.rec", *chunks)


def one_call(name: str, arguments: dict[str, Any]) -> bytes:
    call = [
        api.tool_use(0, name=name, id_=name),
        api.input_json(0, json.dumps(arguments)),
        api.block_stop(0),
    ]
    return sse([api.message_start(), *call, *api.message_end()])


def shown(*arguments: str, stdin: bytes = b"", status: int = 0, **variables: str) -> list[str]:
    done = argstream("inspect", *arguments, stdin=stdin, **variables)
    assert done.returncode == status
    return done.stdout.decode().splitlines()


class TestReport:
    def test_deep_lists_nested_values(self, recording: str) -> None:
        names = [line.split()[0] for line in shown("--deep", recording) if line[:5].strip()]
        expected = ["path", "edits", "edits[0]", "edits[0].old"]
        table, waterfall = (index for index, name in enumerate(names) if name == "path")
        assert names[table : table + 4] == names[waterfall : waterfall + 4] == expected

    def test_stream_without_times_is_measured_in_bytes(self) -> None:
        started, seen, ended = (len(sse(TURN[:count])) for count in (2, 3, 7))
        share = (seen - started) / (ended - started)
        lines = shown("-", stdin=sse(TURN))
        assert lines[1] == f"raw stream, no timing; {len(sse(TURN)) / 1000:.1f} kB"
        assert f"from byte {started} to byte {ended}" in lines[5]
        assert lines[7].split()[:4] == ["path", "byte", str(seen), f"{share:.0%}"]
        assert lines[7].endswith(f" {ended - seen} bytes")
        assert lines[12].split()[:4] == ["●", "write", str(ended - started), "B"]
        early = f"write: first argument shown {ended - seen} B before its end"
        assert lines[-1] == f"{early}. All calls: {ended - started} B."

    def test_json_has_the_same_figures(self, recording: str) -> None:
        done = argstream("inspect", "--json", recording)
        assert done.returncode == 0
        assert done.stdout.isascii()
        found = json.loads(done.stdout)
        keys = ("protocol", "seconds", "ending", "turns")
        expected = ["anthropic", 9.0, "orderly", [{"stop_reason": "tool_use"}]]
        assert [found[key] for key in keys] == expected
        (call,) = found["calls"]
        assert (call["name"], call["verdict"]) == ("write", "complete")
        assert call["started"]["at"] == 2.0
        assert call["ended"] == {"at": 7.0, "byte": len(sse(TURN[:7])), "share": 1.0}
        path, edits = call["arguments"]
        assert path["path"] == ["path"]
        assert edits["seen"] == {"at": 4.0, "byte": len(sse(TURN[:4])), "share": 0.4}
        assert edits["settled"]["share"] == 0.6
        plain = json.loads(argstream("inspect", "--json", "-", stdin=sse(TURN)).stdout)
        assert "at" not in plain["calls"][0]["started"]

    def test_incomplete_calls_exit_with_1(self, tmp_path: Path) -> None:
        cut = sse(anthropic_call('{"a": "b', stop_reason="max_tokens"))
        lines = shown(timed(tmp_path / "turn.rec", (1.0, cut)), status=1)
        assert "● write  toolu_1  truncated" in lines
        assert lines[8].split()[:4] == ["a", "1.00", "s", "–"]
        assert any(line.startswith("● write · truncated  ") for line in lines[9:])
        assert argstream("inspect", "-", stdin=b"hello").returncode == 1

    def test_free_text_and_calls_without_arguments(self) -> None:
        custom = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "sql", "input": "a"}}
        lines = shown("-", stdin=sse([api.tool_calls(custom), api.chunk(finish="tool_calls")]))
        assert "● sql  (custom)  c  complete" in lines
        assert any(line.startswith("    (text)  ") for line in lines)
        assert "  no arguments" in shown("-", stdin=sse(anthropic_call()))

    def test_names_stay_on_their_line_and_cannot_act(self, tmp_path: Path) -> None:
        nasty = "\x1b]0;gone\x07\x9b2J\u202e\r\n" + "長い" * 40
        lines = shown(timed(tmp_path / "turn.rec", (1.0, one_call(nasty, {nasty: nasty}))))
        assert not set("".join(lines)) & set("\x1b\x07\x9b\u202e\r")
        for line in lines:
            width = sum(2 if character in "長い" else 1 for character in line)
            assert width <= 80 or line.startswith("/"), line
        lines = shown("-", stdin=one_call("n" * 300_000, {"k" * 50_000: 1}))
        assert f"● {'n' * 62}…  complete" in lines
        assert any(line.startswith(f"    {'k' * 23}… ") for line in lines)

    def test_removed_secrets_are_counted(self, tmp_path: Path) -> None:
        file = tmp_path / "turn.rec"
        with Recorder(file, secrets=["sk-0123456789abcdefgh"]) as recorder:
            recorder.write(sse(anthropic_call('{"a": "sk-0123456789abcdefgh"}')))
        assert "1 secret replaced by [removed]" in shown(str(file))
        assert json.loads(argstream("inspect", "--json", str(file)).stdout)["removed"] == 1


class TestCalls:
    def test_each_call_is_one_line_of_json(self, tmp_path: Path) -> None:
        good, cut = tmp_path / "good.sse", tmp_path / "cut.sse"
        good.write_bytes(sse(chat_call('{"a": "é"}')))
        cut.write_bytes(sse(anthropic_call('{"a', stop_reason="max_tokens")))
        done = argstream("inspect", "--calls", str(good), str(cut))
        assert done.returncode == 1
        assert done.stdout.isascii()
        call = {"name": "write", "kind": "function"}
        complete = {"id": "call_1", "verdict": "complete", "arguments": {"a": "é"}}
        truncated = {"id": "toolu_1", "verdict": "truncated", "raw": '{"a'}
        assert [json.loads(line) for line in done.stdout.splitlines()] == [
            {"file": str(good), **call, **complete},
            {"file": str(cut), **call, **truncated},
        ]
        assert done.stderr.decode() == f"argstream: {cut}: the call toolu_1 is truncated\n"
        assert argstream("inspect", "--calls", str(good)).returncode == 0

    def test_reinterpreted_arguments_are_marked(self) -> None:
        turn = sse(chat_call("{}", '{"a":1}'))
        (line,) = shown("--calls", "-", "--from", "openai-chat", stdin=turn)
        assert json.loads(line)["reinterpreted"] == "empty_prefix"

    def test_unreadable_files_do_not_stop_the_others(self, tmp_path: Path) -> None:
        good, other = tmp_path / "good.sse", tmp_path / "other"
        good.write_bytes(sse(chat_call("{}")))
        other.write_bytes(b"hello")
        done = argstream("inspect", "--calls", str(tmp_path), str(other), str(good))
        assert done.returncode == 2
        assert len(done.stdout.splitlines()) == 1
        assert b"Is a directory" in done.stderr
        assert b"the source contains no provider event" in done.stderr

    def test_calls_are_validated_against_a_tools_file(self, tmp_path: Path) -> None:
        schema = {"type": "object", "properties": {"path": {"type": "string"}}}
        tools = tmp_path / "tools.json"
        tools.write_text(json.dumps([{"name": "write", "input_schema": schema}]))
        turn = sse(anthropic_call('{"path": 7}'))
        (line,) = shown("--calls", "-", "--tools", str(tools), stdin=turn, status=1)
        found = json.loads(line)
        assert found["verdict"] == "rejected"
        assert found["error"] == "'path' must be a string, not a number"


class TestSvg:
    def test_file_is_overwritten_only_by_force(self, recording: str, tmp_path: Path) -> None:
        picture = tmp_path / "turn.svg"
        command = (recording, "--svg", str(picture))
        assert "● write  toolu_1  complete" in shown(*command)
        assert picture.read_text().startswith("<svg ")
        assert ">turn.rec</text>" in picture.read_text()
        picture.write_text("mine")
        assert "already exists. Use --force to overwrite it" in refused("inspect", *command)
        assert picture.read_text() == "mine"
        shown(*command, "--force")
        assert picture.read_text().startswith("<svg ")

    def test_unwritable_file_exits_with_2(self, recording: str, tmp_path: Path) -> None:
        message = refused("inspect", recording, "--svg", str(tmp_path / "no" / "turn.svg"))
        assert message.endswith("turn.svg: No such file or directory")

    def test_without_a_call_there_is_no_picture_and_no_waterfall(self, tmp_path: Path) -> None:
        file = timed(tmp_path / "turn.rec", (1.0, sse([api.message_start(), *api.message_end()])))
        picture = tmp_path / "turn.svg"
        assert "no tool calls, so" in refused("inspect", file, "--svg", str(picture))
        assert not picture.exists()
        assert shown(file)[-1] == "1 turn (tool_use), 0 calls"


@pytest.mark.parametrize("columns", [120, 40])
def test_waterfall_is_as_wide_as_the_terminal(recording: str, columns: int) -> None:
    lines = shown(recording, COLUMNS=str(columns))
    waterfall = lines[lines.index("", 5) + 1 :]
    assert waterfall[-1].endswith(" s.")
    assert max(map(len, waterfall)) == columns - 1


def test_colours_are_only_for_terminals(recording: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b" not in "".join(shown(recording))
    assert "\x1b[36medits" in "\n".join(shown(recording, FORCE_COLOR="1"))
