"""argstream watch and argstream calls, run as a user runs them: real processes, real pipes."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from argstream.events import from_json
from argstream.streaming import stream
from tests.claude_agent import init, run_result, streamed, tool_result, user
from tests.cli.prepared import argstream
from tests.cli.test_cli import COMMAND, ENVIRONMENT
from tests.cli.timeless import timeless
from tests.providers import (
    anthropic_call,
    block_delta,
    block_start,
    block_stop,
    chat_call,
    chunk,
    entry,
    input_json,
    message_end,
    message_start,
    responses_call,
    sse,
    tool_calls,
    tool_use,
)
from tests.turns import json_lines

TURN = [
    message_start(),
    block_start(0, "thinking", thinking=""),
    block_delta(0, "thinking_delta", thinking="hm\nhm"),
    block_stop(0),
    block_start(1, "text", text=""),
    block_delta(1, "text_delta", text="I write "),
    block_delta(1, "text_delta", text="a file."),
    block_stop(1),
    tool_use(2),
    input_json(2, '{"path": "a.py", "content": "one\\n'),
    input_json(2, 'two", "mode": 420, "tags": [], "edits": [{"old": null}]}'),
    block_stop(2),
    *message_end(),
]

SHOWN = """\
~ hm
~ hm
│ I write a file.
● write  a.py
     1 │ one
     2 │ two
  no newline at the end
  mode = 420
  tags = []
  edits =
  │ old
  │ null
  ✓ 2 lines, 90 B in …
— tool_use · 7 tokens in, 5 out
"""


class TestWatch:
    def test_a_turn_is_shown_as_plain_lines(self) -> None:
        done = argstream("watch", stdin=sse(TURN))
        assert (done.returncode, done.stderr) == (0, b"")
        assert timeless(done.stdout) == SHOWN

    def test_a_file_is_read_like_a_pipe(self, tmp_path: Path) -> None:
        path = tmp_path / "turn.sse"
        path.write_bytes(sse(TURN))
        assert timeless(argstream("watch", str(path)).stdout) == SHOWN
        assert timeless(argstream("watch", str(path), "--from", "anthropic").stdout) == SHOWN

    @pytest.mark.parametrize("turn", [TURN, chat_call('{"a": "é"}'), responses_call("{}")])
    def test_json_is_the_events_one_a_line(self, turn: list[dict[str, object]]) -> None:
        done = argstream("watch", "--json", stdin=sse(turn))
        assert done.returncode == 0
        assert done.stdout.isascii()
        assert [from_json(line) for line in done.stdout.splitlines()] == list(stream([sse(turn)]))

    def test_calls_that_interleave_are_shown_one_after_the_other(self) -> None:
        turn = [
            tool_calls(entry('{"a": "x', index=0, id="c1", name="first")),
            tool_calls(entry('{"b": "y', index=1, id="c2", name="second")),
            tool_calls(entry('x"}', index=0)),
            tool_calls(entry('y"}', index=1)),
            chunk(finish="tool_calls"),
        ]
        done = argstream("watch", stdin=sse(turn))
        assert done.stdout.decode().splitlines() == [
            "● first",
            '  a = "xx"',
            "● second",
            '  b = "yy"',
            "— tool_calls",
        ]

    def test_thinking_that_is_not_shown_results_and_code_are_told(self) -> None:
        error = {"type": "search_error", "error_code": "unavailable"}
        turn = [
            message_start(),
            block_start(0, "redacted_thinking", data="x"),
            block_stop(0),
            *(
                payload
                for index, content in ((1, [{"url": "u" * 700}]), (3, error))
                for payload in (
                    block_start(index, "server_tool_use", id=f"s{index}", name="search", input={}),
                    block_stop(index),
                    block_start(
                        index + 1,
                        "web_search_tool_result",
                        tool_use_id=f"s{index}",
                        content=content,
                    ),
                    block_stop(index + 1),
                )
            ),
            *message_end("end_turn"),
        ]
        assert timeless(argstream("watch", stdin=sse(turn)).stdout).splitlines() == [
            "~ thought for …, and does not say what",
            "● search (server)",
            f'  └ [{{"url": "{"u" * 590} … 113 more characters',
            "● search (server)",
            '  ✗ {"type": "search_error", "error_code": "unavailable"}',
            "— end_turn · 7 tokens in, 5 out",
        ]
        custom = {
            "index": 0,
            "id": "c",
            "type": "custom",
            "custom": {"name": "sql", "input": "a\n"},
        }
        more = {"index": 0, "custom": {"input": "b"}}
        turn = [tool_calls(custom), tool_calls(more), chunk(finish="stop")]
        assert timeless(argstream("watch", stdin=sse(turn)).stdout).splitlines()[:4] == [
            "● sql (custom)",
            "  │ a",
            "  │ b",
            "  ✓ 2 lines, 3 B in …",
        ]

    def test_sub_agents_and_the_end_of_a_run_are_told(self) -> None:
        lines = [
            init(),
            *streamed(message_start(), tool_use(0, "Task", "toolu_1"), input_json(0, "{}")),
            *streamed(block_stop(0), *message_end()),
            *streamed(message_start(), block_start(0, "text", text="hi"), parent="toolu_1"),
            *streamed(block_stop(0), *message_end("end_turn"), parent="toolu_1"),
            user([tool_result()]),
            *streamed(message_start("msg_2"), block_start(0, "text", text="so")),
            *streamed(block_stop(0), *message_end("end_turn")),
        ]
        shown = argstream("watch", stdin=json_lines([*lines, run_result()]))
        assert shown.stdout.decode().splitlines() == [
            "● Task",
            "— tool_use · 7 tokens in, 5 out",
            "┊ ┄ sub-agent of Task  toolu_1",
            "┊ │ hi",
            "● Task",
            "  └ done",
            "│ so",
            "— end_turn · 7 tokens in, 5 out",
            "■ done · 7 tokens in, 5 out",
        ]
        assert shown.returncode == 0
        failed = run_result("error_max_turns", is_error=True, result=None)
        shown = argstream("watch", stdin=json_lines([*lines, failed]))
        assert shown.stdout.decode().splitlines()[-1].startswith("■ failed (error_max_turns)")
        assert shown.returncode == 1

    def test_what_a_model_wrote_cannot_act_on_the_terminal(self) -> None:
        nasty = "\x1b]0;gone\x07\x9b2J\u202e\r"
        turn = [
            message_start(),
            block_start(0, "text", text=nasty),
            block_stop(0),
            tool_use(1, name=nasty, id_=nasty),
            input_json(1, json.dumps({nasty: nasty})),
            block_stop(1),
            *message_end(),
        ]
        for arguments in (["watch"], ["watch", "--json"]):
            done = argstream(*arguments, stdin=sse(turn))
            assert done.returncode == 0
            assert not set(done.stdout.decode()) & set("\x1b\x07\x9b\u202e\r")

    def test_what_a_model_says_cannot_look_like_a_call(self) -> None:
        text = "so\n● rm  toolu_9\n  ✓ rm: complete"
        turn = [message_start(), block_start(0, "text", text=text), block_stop(0), *message_end()]
        assert argstream("watch", stdin=sse(turn)).stdout.decode().splitlines()[:3] == [
            "│ so",
            "│ ● rm  toolu_9",
            "│   ✓ rm: complete",
        ]

    def test_each_line_comes_as_soon_as_it_can(self) -> None:
        """So that ``curl -N … | argstream watch`` is live, also through another pipe."""
        with subprocess.Popen(
            [COMMAND, "watch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for payload, expected in [
                (TURN[0], ""),
                (TURN[8], ""),
                (TURN[9], "● write  a.py\n     1 │ one\n"),
                (TURN[10], "     2 │ two\n  no newline at the end\n  mode = 420\n  tags = []\n"),
            ]:
                process.stdin.write(sse([payload]))
                process.stdin.flush()
                deadline = time.monotonic() + 20
                wanted = len(expected.encode())
                now = b""
                while len(now) < wanted and time.monotonic() < deadline:
                    now += os.read(process.stdout.fileno(), wanted - len(now))
                assert now.decode() == expected
            process.stdin.close()
            assert "\n  ✗ cut off after 90 B: " in process.stdout.read().decode()

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (sse(anthropic_call('{"a')[:3]), "the stream ended before the model did"),
            (sse(anthropic_call('{"a', stop_reason="max_tokens")), "1 call is not valid"),
            (b"hello\n", "no event of a provider is in it; it begins with 'hello"),
            (b'{"hello": 1}\n', "no protocol is known that begins like this"),
            (b"", "the stream ended before a message began"),
            (b'{"error": {"message": "no\\u001b key"}}', "no⟦ESC⟧ key"),
        ],
    )
    def test_what_is_cut_or_no_stream_exits_with_1_and_says_so(
        self, body: bytes, message: str
    ) -> None:
        done = argstream("watch", stdin=body)
        assert done.returncode == 1
        assert message in done.stderr.decode()
        assert done.stderr.startswith(b"argstream: ")

    def test_wrong_usage_exits_with_2_and_says_what_would_be_right(self, tmp_path: Path) -> None:
        done = argstream("watch", str(tmp_path / "absent"))
        assert done.returncode == 2
        assert b"cannot read" in done.stderr
        assert b"No such file" in done.stderr
        done = argstream("watch", "--from", "claude")
        assert done.returncode == 2
        assert b"openai-responses" in done.stderr

    def test_an_output_that_is_closed_exits_with_2_and_no_traceback(self) -> None:
        command = f"'{COMMAND}' watch >&-"
        done = subprocess.run(
            ["sh", "-c", command], input=sse(TURN), capture_output=True, check=False
        )
        assert done.returncode == 2
        assert done.stderr == b"argstream: there is no standard output to write to\n"

    def test_ctrl_c_exits_with_130_and_no_traceback(self) -> None:
        with subprocess.Popen(
            [COMMAND, "watch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdin.write(sse(TURN[:1] + TURN[8:10]))
            process.stdin.flush()
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert "  ✗ broken off after 34 B, " in process.stdout.read().decode()
            assert b"Traceback" not in process.stderr.read()


class TestCalls:
    def test_each_call_is_a_line(self, tmp_path: Path) -> None:
        good, cut = tmp_path / "good.sse", tmp_path / "cut.sse"
        good.write_bytes(sse(chat_call('{"a": "é"}')))
        cut.write_bytes(sse(anthropic_call('{"a', stop_reason="max_tokens")))
        done = argstream("calls", str(good), str(cut))
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
        assert argstream("calls", str(good)).returncode == 0

    def test_what_was_reinterpreted_is_told(self) -> None:
        done = argstream(
            "calls", "-", "--from", "openai-chat", stdin=sse(chat_call("{}", '{"a":1}'))
        )
        assert done.returncode == 0
        (line,) = done.stdout.splitlines()
        assert json.loads(line)["reinterpreted"] == "empty_prefix"

    def test_a_file_that_cannot_be_read_does_not_keep_the_others_back(self, tmp_path: Path) -> None:
        good, other = tmp_path / "good.sse", tmp_path / "other"
        good.write_bytes(sse(chat_call("{}")))
        other.write_bytes(b"hello")
        done = argstream("calls", str(tmp_path), str(other), str(good))
        assert done.returncode == 2
        assert len(done.stdout.splitlines()) == 1
        assert b"Is a directory" in done.stderr
        assert b"no event of a provider" in done.stderr

    def test_no_file_is_wrong_usage(self) -> None:
        assert argstream("calls").returncode == 2


# Judged


def test_a_denied_call_ends_the_reading_and_whoever_writes(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    rule = 'action = "deny"\nargument = "path"\nglob = "**/.env"'
    policy.write_text(f'default = "allow"\n[[rules]]\nname = "secrets"\n{rule}\n')
    writer = subprocess.Popen(
        [COMMAND, "watch", "--policy", str(policy)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=ENVIRONMENT,
    )
    assert writer.stdin is not None
    turn = anthropic_call('{"path": "/srv/.env"', ', "content": "')
    writer.stdin.write(sse(turn[:4]))
    assert writer.wait(30) == 1  # though its input is still open
    assert writer.stdout is not None
    shown = writer.stdout.read().decode().splitlines()
    assert shown[0] == "● write  /srv/.env"
    assert shown[1].startswith(
        "  ✗ rejected at character 20, in path: a call of write is denied by "
    )
    assert shown[2] == "— rejected: not read further than 20 characters · 7 tokens in"
    with pytest.raises(BrokenPipeError):
        writer.stdin.write(sse(turn[4:]))
    for pipe in (writer.stdin, writer.stdout, writer.stderr):
        assert pipe is not None
        pipe.close()


def test_calls_are_judged_by_the_tools_of_a_file(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([{"name": "write", "input_schema": schema}]))
    turn = tmp_path / "turn.sse"
    turn.write_bytes(sse(anthropic_call('{"path": 7}')))
    done = argstream("calls", str(turn), "--tools", str(tools))
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["verdict"] == "rejected"
    assert json.loads(line)["error"] == "'path' must be a string, not a number"


def test_calls_that_need_approval_are_shown_with_the_policy_decision(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rules]]\nname = "mine"\naction = "ask"\nreason = "check it"\n')
    turn = tmp_path / "turn.sse"
    turn.write_bytes(sse(anthropic_call('{"path": "a"}')))
    expected = {"action": "ask", "reason": "check it", "rule": "mine", "path": []}

    listed = argstream("calls", str(turn), "--policy", str(policy))
    assert listed.returncode == 0
    line = json.loads(listed.stdout)
    assert (line["verdict"], line["policy_decision"]) == ("complete", expected)

    watched = argstream("watch", str(turn), "--policy", str(policy), "--json")
    assert watched.returncode == 0
    events = [json.loads(line) for line in watched.stdout.splitlines()]
    (completed,) = [event for event in events if event["type"] == "tool_args_completed"]
    assert completed["policy_decision"] == expected

    seen = argstream("watch", str(turn), "--policy", str(policy))
    assert "? write needs approval by the policy (rule mine): check it" in seen.stdout.decode()


def test_tools_that_cannot_be_read_are_told_before_anything_is_shown(tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text("[{]")
    done = argstream("watch", str(tools), "--tools", str(tools))
    assert done.returncode == 2
    assert not done.stdout
    assert b"is no JSON" in done.stderr
