"""argstream watch, in a process of its own where pipes or signals matter."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from argstream.events import from_json
from argstream.streaming import stream
from tests import provider_streams as api
from tests.cli.in_process import argstream, timeless
from tests.cli.processes import BODY, COMMAND, running, timed
from tests.provider_streams import anthropic_call, sse

TURN = [
    api.message_start(),
    api.block_start(0, "thinking", thinking=""),
    api.block_delta(0, "thinking_delta", thinking="hm\nhm"),
    api.block_stop(0),
    api.block_start(1, "text", text=""),
    api.block_delta(1, "text_delta", text="I write "),
    api.block_delta(1, "text_delta", text="a file."),
    api.block_stop(1),
    api.tool_use(2),
    api.input_json(2, '{"path": "a.py", "content": "one\\n'),
    api.input_json(2, 'two", "mode": 420, "tags": [], "edits": [{"old": null}]}'),
    api.block_stop(2),
    *api.message_end(),
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


def test_turn_is_shown_as_plain_lines(tmp_path: Path) -> None:
    path = tmp_path / "turn.sse"
    path.write_bytes(sse(TURN))
    done = argstream("watch", stdin=sse(TURN))
    assert (done.returncode, done.stderr) == (0, b"")
    assert timeless(done.stdout) == SHOWN
    assert timeless(argstream("watch", str(path)).stdout) == SHOWN
    assert timeless(argstream("watch", str(path), "--from", "anthropic").stdout) == SHOWN


@pytest.mark.parametrize("turn", [TURN, api.chat_call('{"a": "é"}'), api.responses_call("{}")])
def test_json_is_one_event_a_line(turn: list[dict[str, object]]) -> None:
    done = argstream("watch", "--json", stdin=sse(turn))
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert [from_json(line) for line in done.stdout.splitlines()] == list(stream([sse(turn)]))


def test_each_line_is_written_as_soon_as_it_is_final() -> None:
    """So that ``curl -N … | argstream watch`` is live, also through another pipe."""
    with running("watch") as process:
        for payloads, expected in [
            ([TURN[0], *TURN[8:10]], "● write  a.py\n     1 │ one\n"),
            ([TURN[10]], "     2 │ two\n  no newline at the end\n  mode = 420\n  tags = []\n"),
        ]:
            process.send(sse(payloads))
            assert process.stdout.read(len(expected.encode())).decode() == expected
        process.stdin.close()
        assert "\n  ✗ cut off after 90 B: " in process.stdout.read().decode()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (sse(anthropic_call('{"a')[:3]), "the stream ended before the model did"),
        (sse(anthropic_call('{"a', stop_reason="max_tokens")), "1 call is not valid"),
        (b"hello\n", "the source contains no provider event. It starts with 'hello"),
        (b'{"hello": 1}\n', "unknown protocol: the stream begins with"),
        (b"", "the stream ended before a message began"),
        (b'{"error": {"message": "no\\u001b key"}}', "no⟦ESC⟧ key"),
    ],
)
def test_incomplete_or_unknown_stream_exits_with_1(body: bytes, message: str) -> None:
    done = argstream("watch", stdin=body)
    assert done.returncode == 1
    assert message in done.stderr.decode()
    assert done.stderr.startswith(b"argstream: ")


def test_closed_output_exits_with_2() -> None:
    command = ["sh", "-c", f"exec '{COMMAND}' watch >&-"]
    done = subprocess.run(command, input=sse(TURN), stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"argstream: there is no standard output to write to\n"


def test_ctrl_c_exits_with_130_and_shows_the_open_call() -> None:
    with running("watch") as process:
        process.send(sse(TURN[:1] + TURN[8:10]))
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert "  ✗ broken off after 34 B, " in process.stdout.read().decode()
        assert b"Traceback" not in process.stderr.read()


@pytest.fixture
def repeated_ctrl_c() -> Iterator[None]:
    """Send SIGINT to a handler that does nothing: only the wakeup descriptor reports it."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    is_over = threading.Event()

    def interrupt() -> None:
        while not is_over.wait(0.05):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    yield
    is_over.set()
    thread.join()
    signal.signal(signal.SIGINT, before)


@pytest.mark.timeout(20)
@pytest.mark.usefixtures("repeated_ctrl_c")
@pytest.mark.parametrize("command", ["watch", "replay"])
def test_ctrl_c_just_before_a_read_or_a_sleep_is_noticed(command: str, tmp_path: Path) -> None:
    arrived, sent = os.pipe()
    os.write(sent, BODY[:50])
    recording = timed(tmp_path / "turn.rec", (0.0, BODY[:50]), (60.0, BODY[50:]))
    done = argstream(command, f"/dev/fd/{arrived}" if command == "watch" else recording)
    os.close(arrived)
    os.close(sent)
    assert (done.returncode, done.stderr) == (130, b"")


def test_denied_call_ends_the_reading_and_the_writer(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    rule = 'action = "deny"\nargument = "path"\nglob = "**/.env"'
    policy.write_text(f'default = "allow"\n[[rules]]\nname = "secrets"\n{rule}\n')
    turn = anthropic_call('{"path": "/srv/.env"', ', "content": "')
    with running("watch", "--policy", str(policy)) as process:
        process.send(sse(turn[:4]))
        assert process.wait(30) == 1  # though its input is still open
        shown = process.stdout.read().decode().splitlines()
        assert shown[0] == "● write  /srv/.env"
        denied = "  ✗ rejected at character 20, in path: a call to write is denied by "
        assert shown[1].startswith(denied)
        assert shown[2] == "— rejected: not read further than 20 characters · 7 tokens in"
        with pytest.raises(BrokenPipeError):
            process.send(sse(turn[4:]))


def test_calls_that_need_approval_show_the_policy_decision(tmp_path: Path) -> None:
    policy, turn = tmp_path / "policy.toml", tmp_path / "turn.sse"
    policy.write_text('[[rules]]\nname = "mine"\naction = "ask"\nreason = "check it"\n')
    turn.write_bytes(sse(anthropic_call('{"path": "a"}')))
    expected = {"action": "ask", "reason": "check it", "rule": "mine", "path": []}
    judged = (str(turn), "--policy", str(policy))

    listed = argstream("inspect", "--calls", *judged)
    assert listed.returncode == 0
    line = json.loads(listed.stdout)
    assert (line["verdict"], line["policy_decision"]) == ("complete", expected)

    watched = argstream("watch", *judged, "--json")
    assert watched.returncode == 0
    events = [json.loads(line) for line in watched.stdout.splitlines()]
    (completed,) = [event for event in events if event["type"] == "tool_args_completed"]
    assert completed["policy_decision"] == expected

    seen = argstream("watch", *judged)
    assert "? write needs approval under the policy (rule mine): check it" in seen.stdout.decode()
