"""argstream watch, in a process of its own where pipes or signals matter."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from argstream.events import from_json
from argstream.streaming import stream
from tests.cli.in_process import argstream
from tests.cli.test_cli import COMMAND, ENVIRONMENT
from tests.cli.timeless import timeless
from tests.provider_streams import (
    anthropic_call,
    block_delta,
    block_start,
    block_stop,
    chat_call,
    input_json,
    message_end,
    message_start,
    responses_call,
    sse,
    tool_use,
)

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


def test_calls_that_need_approval_are_shown_with_the_policy_decision(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rules]]\nname = "mine"\naction = "ask"\nreason = "check it"\n')
    turn = tmp_path / "turn.sse"
    turn.write_bytes(sse(anthropic_call('{"path": "a"}')))
    expected = {"action": "ask", "reason": "check it", "rule": "mine", "path": []}

    listed = argstream("inspect", "--calls", str(turn), "--policy", str(policy))
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
