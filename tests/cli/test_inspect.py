"""argstream inspect: calls, their timing, and JSON lines of them."""

import json
import time
from pathlib import Path

import pytest

from argstream.recording import Recorder
from tests.cli.in_process import argstream
from tests.cli.recordings import timed
from tests.provider_streams import (
    anthropic_call,
    block_stop,
    chat_call,
    chunk,
    input_json,
    message_end,
    message_start,
    sse,
    tool_calls,
    tool_use,
)

TURN = anthropic_call('{"path": "a.py", ', '"edits": [{"old": "x', '"}]', "}")


def recording(path: Path) -> str:
    """A turn that begins after a second; each event takes one."""
    return timed(path, *((index + 1.0, sse([event])) for index, event in enumerate(TURN)))


class TestInspect:
    def test_a_table_says_when_each_argument_became_visible(self, tmp_path: Path) -> None:
        done = argstream("inspect", recording(tmp_path / "turn.rec"))
        assert done.returncode == 0
        lines = done.stdout.decode().splitlines()
        assert lines[0].endswith("turn.rec: anthropic")
        assert lines[1].startswith("recorded 2")
        assert lines[1].endswith(f", 9.00 s, {len(sse(TURN)) / 1000:.1f} kB")
        assert lines[2:] == [
            "9 chunks, ended orderly",
            "1 turn (tool_use), 1 call",
            "",
            "● write  toolu_1  complete",
            "  from 2.00 s to 7.00 s",
            "    argument                       first seen          settled   before the end",
            "    path                         3.00 s   20%     3.00 s   20%           4.00 s",
            "    edits                        4.00 s   40%     5.00 s   60%           2.00 s",
            "",
            "                       sooner  2 s      3 s       4 s      5 s       6 s    7 s",
            "                               ┬────────┬─────────┬────────┬─────────┬────────┬",
            "● write                 5.0 s  ├──────────────────────────────────────────────✓",
            "    path                4.0 s           ▐",
            "    edits               3.0 s                     ▐████████▉",
            "    without argstream          ░░░░░░░░░░░░░░░ 5.0 s of silence ░░░░░░░░░░░░░░░",
            "",
            "The first argument was visible 4.0 s before the last brace: 5.0 s of silence",
            "were replaced.",
        ]

    def test_deep_shows_what_is_inside(self, tmp_path: Path) -> None:
        done = argstream("inspect", "--deep", recording(tmp_path / "turn.rec"))
        names = [line.split()[0] for line in done.stdout.decode().splitlines() if line[:5].strip()]
        told = ["path", "edits", "edits[0]", "edits[0].old"]
        table, waterfall = (index for index, name in enumerate(names) if name == "path")
        assert names[table : table + 4] == told
        assert names[waterfall : waterfall + 4] == told

    def test_a_plain_stream_is_told_in_bytes(self) -> None:
        done = argstream("inspect", "-", stdin=sse(TURN))
        assert done.returncode == 0
        started, seen, ended = (len(sse(TURN[:count])) for count in (2, 3, 7))
        share = (seen - started) / (ended - started)
        lines = done.stdout.decode().splitlines()
        assert lines[1] == f"no recording, so without times; {len(sse(TURN)) / 1000:.1f} kB"
        assert f"from byte {started} to byte {ended}" in lines[5]
        assert lines[7].split()[:4] == ["path", "byte", str(seen), f"{share:.0%}"]
        assert lines[7].endswith(f" {ended - seen} bytes")
        assert f"░ {ended - started} B of silence ░" in lines[15]
        assert lines[-2].startswith(f"The first argument was visible {ended - seen} B before")

    def test_json_says_the_same(self, tmp_path: Path) -> None:
        done = argstream("inspect", "--json", recording(tmp_path / "turn.rec"))
        assert done.returncode == 0
        assert done.stdout.isascii()
        told = json.loads(done.stdout)
        assert (told["protocol"], told["seconds"], told["ending"]) == ("anthropic", 9.0, "orderly")
        assert told["turns"] == [{"stop_reason": "tool_use"}]
        (call,) = told["calls"]
        assert (call["name"], call["verdict"]) == ("write", "complete")
        assert call["started"]["at"] == 2.0
        assert call["ended"] == {"at": 7.0, "byte": len(sse(TURN[:7])), "share": 1.0}
        path, edits = call["arguments"]
        assert path["path"] == ["path"]
        assert edits["seen"] == {"at": 4.0, "byte": len(sse(TURN[:4])), "share": 0.4}
        assert edits["settled"]["share"] == 0.6
        plain = json.loads(argstream("inspect", "--json", "-", stdin=sse(TURN)).stdout)
        assert "at" not in plain["calls"][0]["started"]

    def test_calls_that_are_not_complete_exit_with_1(self, tmp_path: Path) -> None:
        cut = sse(anthropic_call('{"a": "b', stop_reason="max_tokens"))
        file = timed(tmp_path / "turn.rec", (1.0, cut))
        done = argstream("inspect", file)
        assert done.returncode == 1
        lines = done.stdout.decode().splitlines()
        assert "● write  toolu_1  truncated" in lines
        assert lines[8].split()[:4] == ["a", "1.00", "s", "–"]
        assert any(line.endswith("truncated ✗") for line in lines[9:])

    def test_free_text_and_calls_without_arguments_are_told(self) -> None:
        custom = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "sql", "input": "a"}}
        turn = [tool_calls(custom), chunk(finish="tool_calls")]
        shown = argstream("inspect", "-", stdin=sse(turn)).stdout.decode()
        assert "● sql  (custom)  c  complete" in shown
        assert "    (text)  " in shown
        shown = argstream("inspect", "-", stdin=sse(anthropic_call())).stdout.decode()
        assert "  no arguments" in shown

    def test_nothing_in_it_acts_on_a_terminal_or_leaves_its_line(self, tmp_path: Path) -> None:
        nasty = "\x1b]0;gone\x07\x9b2J\u202e\r\n" + "長い" * 40
        turn = [
            message_start(),
            tool_use(0, name=nasty, id_=nasty),
            input_json(0, json.dumps({nasty: nasty})),
            block_stop(0),
            *message_end(),
        ]
        done = argstream("inspect", timed(tmp_path / "turn.rec", (1.0, sse(turn))))
        assert done.returncode == 0
        assert not set(done.stdout.decode()) & set("\x1b\x07\x9b\u202e\r")
        for line in done.stdout.decode().splitlines():
            wide = sum(2 if character in "長い" else 1 for character in line)
            assert wide <= 80 or line.startswith("/"), line

    def test_a_long_name_takes_no_longer_than_its_length(self, tmp_path: Path) -> None:
        turn = [
            message_start(),
            tool_use(0, name="n" * 300_000, id_="i" * 300_000),
            input_json(0, json.dumps({"k" * 50_000: 1})),
            block_stop(0),
            *message_end(),
        ]
        start = time.monotonic()
        done = argstream("inspect", timed(tmp_path / "turn.rec", (1.0, sse(turn))))
        assert time.monotonic() - start < 10
        assert f"● {'n' * 62}…  complete" in done.stdout.decode()
        assert f"    {'k' * 23}… " in done.stdout.decode()

    def test_it_says_how_often_something_was_taken_out(self, tmp_path: Path) -> None:
        file = tmp_path / "turn.rec"
        with Recorder(file, secrets=["sk-0123456789abcdefgh"]) as recorder:
            recorder.write(sse(anthropic_call('{"a": "sk-0123456789abcdefgh"}')))
        shown = argstream("inspect", str(file)).stdout.decode()
        assert "1 secret taken out: [removed] stands there instead" in shown
        assert json.loads(argstream("inspect", "--json", str(file)).stdout)["removed"] == 1

    def test_what_cannot_be_read_exits_with_2(self, tmp_path: Path) -> None:
        done = argstream("inspect", str(tmp_path / "none"))
        assert done.returncode == 2
        assert b"No such file" in done.stderr
        assert argstream("inspect", "-", stdin=b"hello").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--calls --fragments", "--calls and --fragments exclude each other"),
        ("--calls run:y", "--calls and --fragments exclude each other, run:ID"),
        ("--fragments --deep", "--calls and --fragments exclude each other"),
        ("--calls --json", "--calls and --fragments exclude each other"),
        ("--calls --svg y.svg", "--calls and --fragments exclude each other"),
        ("y", "--tools, --policy and several files are for --calls"),
        ("--fragments --policy y", "--tools, --policy and several files are for --calls"),
        ("--fragments --from gemini", "--deep and --from are for recordings"),
        ("--fragments --store y", "--store is for runs"),
    ],
)
def test_options_that_do_not_fit_together_are_wrong_usage(arguments: str, message: str) -> None:
    done = argstream("inspect", "x", *arguments.split())
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in " ".join(done.stderr.decode().split())


class TestCalls:
    def test_each_call_is_a_line(self, tmp_path: Path) -> None:
        good, cut = tmp_path / "good.sse", tmp_path / "cut.sse"
        good.write_bytes(sse(chat_call('{"a": "é"}')))
        cut.write_bytes(sse(anthropic_call('{"a', stop_reason="max_tokens")))
        done = argstream("inspect", "--calls", str(good), str(cut))
        assert done.returncode == 1
        assert done.stdout.isascii()
        assert [json.loads(line) for line in done.stdout.splitlines()] == [
            {
                "file": str(good),
                "id": "call_1",
                "name": "write",
                "kind": "function",
                "verdict": "complete",
                "arguments": {"a": "é"},
            },
            {
                "file": str(cut),
                "id": "toolu_1",
                "name": "write",
                "kind": "function",
                "verdict": "truncated",
                "raw": '{"a',
            },
        ]
        assert done.stderr.decode() == f"argstream: {cut}: the call toolu_1 is truncated\n"
        assert argstream("inspect", "--calls", str(good)).returncode == 0

    def test_what_was_reinterpreted_is_told(self) -> None:
        turn = sse(chat_call("{}", '{"a":1}'))
        done = argstream("inspect", "--calls", "-", "--from", "openai-chat", stdin=turn)
        assert done.returncode == 0
        (line,) = done.stdout.splitlines()
        assert json.loads(line)["reinterpreted"] == "empty_prefix"

    def test_a_file_that_cannot_be_read_does_not_keep_the_others_back(self, tmp_path: Path) -> None:
        good, other = tmp_path / "good.sse", tmp_path / "other"
        good.write_bytes(sse(chat_call("{}")))
        other.write_bytes(b"hello")
        done = argstream("inspect", "--calls", str(tmp_path), str(other), str(good))
        assert done.returncode == 2
        assert len(done.stdout.splitlines()) == 1
        assert b"Is a directory" in done.stderr
        assert b"no event of a provider" in done.stderr

    def test_calls_are_judged_by_the_tools_of_a_file(self, tmp_path: Path) -> None:
        schema = {"type": "object", "properties": {"path": {"type": "string"}}}
        tools = tmp_path / "tools.json"
        tools.write_text(json.dumps([{"name": "write", "input_schema": schema}]))
        turn = tmp_path / "turn.sse"
        turn.write_bytes(sse(anthropic_call('{"path": 7}')))
        done = argstream("inspect", "--calls", str(turn), "--tools", str(tools))
        assert done.returncode == 1
        (line,) = done.stdout.splitlines()
        assert json.loads(line)["verdict"] == "rejected"
        assert json.loads(line)["error"] == "'path' must be a string, not a number"


class TestPicture:
    def test_it_is_written_besides_the_report(self, tmp_path: Path) -> None:
        picture = tmp_path / "turn.svg"
        done = argstream("inspect", recording(tmp_path / "turn.rec"), "--svg", str(picture))
        assert (done.returncode, done.stderr) == (0, b"")
        assert "● write  toolu_1  complete" in done.stdout.decode()
        assert picture.read_text().startswith("<svg ")
        assert ">turn.rec</text>" in picture.read_text()

    def test_one_that_exists_is_overwritten_only_by_force(self, tmp_path: Path) -> None:
        picture = tmp_path / "turn.svg"
        picture.write_text("mine")
        command = ("inspect", recording(tmp_path / "turn.rec"), "--svg", str(picture))
        done = argstream(*command)
        assert done.returncode == 2
        assert b"exists already: name another, or overwrite with --force" in done.stderr
        assert picture.read_text() == "mine"
        assert argstream(*command, "--force").returncode == 0
        assert picture.read_text().startswith("<svg ")

    def test_one_that_cannot_be_written_is_told(self, tmp_path: Path) -> None:
        picture = str(tmp_path / "no" / "turn.svg")
        done = argstream("inspect", recording(tmp_path / "turn.rec"), "--svg", picture)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.endswith(b"turn.svg: No such file or directory\n")

    def test_without_a_call_there_is_neither_a_picture_nor_a_waterfall(
        self, tmp_path: Path
    ) -> None:
        file = timed(tmp_path / "turn.rec", (1.0, sse([message_start(), *message_end()])))
        done = argstream("inspect", file, "--svg", str(tmp_path / "turn.svg"))
        assert done.returncode == 2
        assert b"there is no call in it" in done.stderr
        assert not (tmp_path / "turn.svg").exists()
        shown = argstream("inspect", file).stdout.decode()
        assert shown.splitlines()[-1] == "1 turn (tool_use), 0 calls"

    def test_force_without_a_picture_is_wrong(self) -> None:
        done = argstream("inspect", "turn.rec", "--force")
        assert done.returncode == 2
        assert b"--force is for --svg" in done.stderr


class TestWaterfall:
    def test_it_is_as_wide_as_the_terminal(self, tmp_path: Path) -> None:
        file = recording(tmp_path / "turn.rec")
        for columns in (120, 40):
            shown = argstream("inspect", file, COLUMNS=str(columns)).stdout.decode().splitlines()
            waterfall = shown[shown.index("", 5) + 1 :]
            assert waterfall[-1].endswith("were replaced.")
            assert max(map(len, waterfall)) == columns - 1

    def test_it_has_colours_in_a_terminal_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = recording(tmp_path / "turn.rec")
        for name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        assert b"\x1b" not in argstream("inspect", file).stdout
        assert b"\x1b[36m    edits" in argstream("inspect", file, FORCE_COLOR="1").stdout
