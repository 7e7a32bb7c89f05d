"""argstream replay, and the other commands that read recordings."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from argstream.streaming import stream
from tests.cli.in_process import argstream, timeless
from tests.cli.processes import ANTHROPIC, BODY, running, timed

READERS = ["watch", "inspect --calls", "inspect", "replay"]


@pytest.fixture
def recording(tmp_path: Path) -> str:
    return timed(tmp_path / "turn.rec", (0.1, BODY[:99]), (0.2, BODY[99:]))


class TestReaders:
    def test_watch_and_calls_read_recordings(self, recording: str) -> None:
        watched = [argstream("watch", recording), argstream("watch", stdin=BODY)]
        assert timeless(watched[0].stdout) == timeless(watched[1].stdout)
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
            assert message in done.stderr

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
            url = process.stdout.readline().decode().split()[3]
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
        message = f"{file} is not a recording and has no times. Each event takes 0.003 s"
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

    def test_closed_output_ends_it(self, tmp_path: Path) -> None:
        file = timed(tmp_path / "turn.rec", *((0.0, BODY) for _ in range(500)))
        with running("replay", "--raw", file) as process:
            assert process.stdout.read(5) == BODY[:5]
            process.stdout.close()
            assert b"Traceback" not in process.stderr.read()
