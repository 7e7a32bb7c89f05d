"""argstream watch and replay, in processes of their own where pipes or signals matter."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from argstream.events import from_json
from argstream.streaming import stream
from tests import provider_streams as api
from tests.cli.in_process import argstream, timeless
from tests.cli.processes import ANTHROPIC, BODY, COMMAND, running, timed
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
✓ Done in … · 1 call · 7 in / 5 out tokens
"""


def test_turn_is_shown_as_plain_lines(tmp_path: Path) -> None:
    path = tmp_path / "turn.sse"
    path.write_bytes(sse(TURN))
    done = argstream("watch", stdin=sse(TURN))
    assert (done.returncode, done.stderr) == (0, b"")
    assert timeless(done.stdout) == SHOWN
    for options in ((), ("--from", "anthropic")):  # a file has no times
        from_file = argstream("watch", str(path), *options).stdout.decode()
        assert from_file == SHOWN.replace(" in …", "")


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
        assert (
            "\n  ✗ Incomplete: ended while writing the arguments (90 B): "
            in process.stdout.read().decode()
        )


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
    done = argstream("watch", "--json", stdin=body)
    assert done.returncode == 1
    assert message in done.stderr.decode()
    assert done.stderr.startswith(b"argstream: ")
    shown = argstream("watch", stdin=body)
    assert (shown.returncode, shown.stderr) == (1, b"")
    is_counted = message.startswith("1 call")  # otherwise, the verdict is shown where it belongs
    assert is_counted or shown.stdout.decode().count(message) == 1


def test_closed_output_exits_with_2() -> None:
    command = ["sh", "-c", f"exec '{COMMAND}' watch >&-"]
    done = subprocess.run(command, input=sse(TURN), stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"argstream: standard output is closed\n"


def test_ctrl_c_exits_with_130_and_shows_the_open_call() -> None:
    with running("watch") as process:
        process.send(sse(TURN[:1] + TURN[8:10]))
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert "  ■ Interrupted after 34 B, " in process.stdout.read().decode()
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
        assert shown[1].startswith("  ✗ Blocked by policy rule “secrets”: the argument path, ")
        assert shown[2] == "■ Stopped reading after 20 characters"
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


# Recordings

READERS = ["watch", "inspect --calls", "inspect", "replay"]


@pytest.fixture
def recording(tmp_path: Path) -> str:
    return timed(tmp_path / "turn.rec", (0.1, BODY[:99]), (0.2, BODY[99:]))


class TestReaders:
    def test_watch_and_calls_read_recordings(self, recording: str) -> None:
        watched = [argstream("watch", recording), argstream("watch", stdin=BODY)]
        assert watched[0].stdout.decode() == timeless(watched[1].stdout).replace(" in …", "")
        line = json.loads(argstream("inspect", "--calls", recording).stdout)
        assert (line["verdict"], line["arguments"]["path"]) == ("complete", "é.txt")

    @pytest.mark.parametrize("command", READERS)
    def test_cut_or_doubled_recordings_are_refused(self, tmp_path: Path, command: str) -> None:
        cut = timed(tmp_path / "cut.rec", (0.0, BODY), ending="cut")
        whole = Path(timed(tmp_path / "whole.rec", (0.0, BODY))).read_bytes()
        later = whole.replace(b'"version":1', b'"version":2')
        is_read_first = command in ("inspect", "replay")
        for data, status, message in [
            (Path(cut).read_bytes(), 1, b"the recording ends here: it broke"),
            (b'{"argstream":"recording","vers', 1, b"the recording itself was cut off"),
            (whole * 2, 2 if is_read_first else 1, b"Read one recording at a time"),
            (later, 2 if is_read_first else 1, b"Install a newer argstream"),
        ]:
            done = argstream(*command.split(), "-", stdin=data)
            assert done.returncode == status, message
            assert (done.stdout + done.stderr).count(message) == 1 or command == "inspect"
            assert message in done.stdout + done.stderr

    def test_recording_can_be_watched_while_it_is_written(self, tmp_path: Path) -> None:
        half = BODY.index(b"event: content_block_stop")
        lines = Path(timed(tmp_path / "t.rec", (0, BODY[:half]), (1, BODY[half:]))).read_bytes()
        first, second, rest = lines.split(b"\n", 2)
        with running("watch") as process:
            process.send(first + b"\n" + second + b"\n")
            assert process.stdout.readline().decode() == "● write  é.txt\n"
            process.stdin.write(rest)
            process.stdin.close()
            assert process.wait(20) == 0

    def test_mock_serves_recordings(self, tmp_path: Path) -> None:
        import anthropic

        file = timed(tmp_path / "turn.rec", (0.0, BODY[:99]), (0.3, BODY[99:]))
        with running("mock", file, "--timed") as process:
            url = process.stdout.readline().decode().split()[4]
            with anthropic.Anthropic(base_url=url, api_key="any") as client:
                start = time.monotonic()
                events = list(stream(client.messages.create(**ANTHROPIC, stream=True)))
                assert time.monotonic() - start >= 0.3
        assert events == list(stream([BODY]))


class TestReplay:
    @pytest.mark.parametrize("options", [[], ["--json"]])
    def test_output_is_that_of_watch(self, recording: str, options: list[str]) -> None:
        replayed = argstream("replay", recording, "--speed", "max", *options)
        assert replayed.returncode == 0
        watched = argstream("watch", recording, *options)
        assert timeless(replayed.stdout) == timeless(watched.stdout)

    @pytest.mark.parametrize(
        ("speed", "pause", "least"), [("1", 0.5, 0.5), ("200", 100.0, 0.5), ("max", 3_600.0, 0.0)]
    )
    def test_pauses_last_as_long_as_the_speed_says(
        self, tmp_path: Path, speed: str, pause: float, least: float
    ) -> None:
        """At normal speed, two of the pauses would outlast the timeout of a test."""
        file = timed(tmp_path / "turn.rec", (0.0, BODY[:99]), (pause, BODY[99:]))
        start = time.monotonic()
        done = argstream("replay", file, "--raw", "--speed", speed)
        assert (done.returncode, done.stdout) == (0, BODY)
        assert time.monotonic() - start >= least

    def test_raw_bytes_of_a_cut_recording_exit_with_1(self, tmp_path: Path) -> None:
        done = argstream("replay", timed(tmp_path / "t.rec", (0, BODY), ending="cut"), "--raw")
        assert (done.returncode, done.stdout) == (1, BODY)
        assert done.stderr == b"argstream: the recording ends here: it broke\n"

    def test_plain_stream_has_no_times(self, tmp_path: Path) -> None:
        file = tmp_path / "turn.sse"
        file.write_bytes(BODY)
        done = argstream("replay", str(file), "--speed", "10")
        assert done.returncode == 0
        assert timeless(done.stdout) == timeless(argstream("watch", str(file)).stdout)
        message = f"{file} has no timing information; using 0.003 s per event"
        assert done.stderr.decode() == f"argstream: {message}\n"
        assert argstream("replay", str(file), "--speed", "max").stderr == b""

    def test_tiny_speed_waits_until_it_is_interrupted(self, tmp_path: Path) -> None:
        file = timed(tmp_path / "turn.rec", (0.0, BODY[:-100]), (60.0, BODY[-100:]))
        with running("replay", file, "--speed", "1e-300") as process:
            process.stdout.readline()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.2)
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert b"Traceback" not in process.stderr.read()
