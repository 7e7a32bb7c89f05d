"""argstream replay, and every other command that reads recordings."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import IO

import anthropic
import pytest

from argstream.streaming import stream
from tests.cli.in_process import argstream
from tests.cli.recordings import ANTHROPIC, BODY, running, timed
from tests.cli.test_cli import COMMAND
from tests.cli.timeless import timeless


class TestEveryReaderOfRecordings:
    def test_watch_and_calls_understand_them(self, tmp_path: Path) -> None:
        file = timed(tmp_path / "turn.rec", (0.1, BODY[:99]), (0.2, BODY[99:]))
        watched = [argstream("watch", file), argstream("watch", stdin=BODY)]
        assert timeless(watched[0].stdout) == timeless(watched[1].stdout)
        line = json.loads(argstream("inspect", "--calls", file).stdout)
        assert (line["verdict"], line["arguments"]["path"]) == ("complete", "é.txt")

    def test_a_cut_one_exits_with_1(self, tmp_path: Path) -> None:
        file = timed(tmp_path / "turn.rec", (0.1, BODY), ending="cut")
        for command in ("watch", "inspect --calls", "inspect"):
            done = argstream(*command.split(), file)
            assert done.returncode == 1
            assert b"the recording ends here: it broke" in done.stderr

    @pytest.mark.parametrize("command", ["watch", "inspect --calls", "inspect", "replay"])
    def test_of_several_at_once_that_is_told(self, tmp_path: Path, command: str) -> None:
        recording = Path(timed(tmp_path / "turn.rec", (0.0, BODY))).read_bytes()
        done = argstream(*command.split(), "-", stdin=recording * 2)
        assert done.returncode == (2 if command in ("inspect", "replay") else 1)
        assert b"of several recordings, read one at a time" in done.stderr

    @pytest.mark.parametrize("command", ["watch", "inspect --calls", "inspect", "replay"])
    def test_one_that_was_cut_off_in_its_first_line_is_cut(self, command: str) -> None:
        done = argstream(*command.split(), "-", stdin=b'{"argstream":"recording","vers')
        assert done.returncode == 1
        assert b"the recording itself was cut off" in done.stderr

    @pytest.mark.parametrize("command", ["replay", "inspect"])
    def test_one_of_a_later_version_exits_with_2(self, tmp_path: Path, command: str) -> None:
        file = Path(timed(tmp_path / "turn.rec", (0.1, BODY)))
        file.write_bytes(file.read_bytes().replace(b'"version":1', b'"version":2'))
        done = argstream(command, str(file))
        assert done.returncode == 2
        assert b"install a newer one" in done.stderr

    def test_one_can_be_watched_while_it_is_written(self, tmp_path: Path) -> None:
        half = BODY.index(b"event: content_block_stop")
        lines = Path(timed(tmp_path / "t.rec", (0, BODY[:half]), (1, BODY[half:]))).read_bytes()
        first, second, rest = lines.split(b"\n", 2)
        with running("watch") as process:
            process.stdin.write(first + b"\n" + second + b"\n")
            process.stdin.flush()
            assert process.stdout.readline().decode() == "● write  é.txt\n"
            process.stdin.write(rest)
            process.stdin.close()
            assert process.wait(20) == 0

    def test_mock_serves_them(self, tmp_path: Path) -> None:
        file = timed(tmp_path / "turn.rec", (0.0, BODY[:99]), (0.4, BODY[99:]))
        for arguments, least in ((["--pace", "0"], 0.0), (["--timed"], 0.4)):
            with running("mock", file, *arguments) as process:
                output: IO[bytes] | None = process.stdout
                assert output is not None
                url = output.readline().decode().split()[4].rstrip(",")
                with anthropic.Anthropic(base_url=url, api_key="any") as client:
                    start = time.monotonic()
                    events = list(stream(client.messages.create(**ANTHROPIC, stream=True)))
                    assert time.monotonic() - start >= least
            assert events == list(stream([BODY]))

    def test_mock_says_what_it_cannot_do_with_them(self, tmp_path: Path) -> None:
        file = timed(tmp_path / "turn.rec", (0.0, BODY))
        assert b"makes no --fault" in argstream("mock", file, "--timed", "--fault", "cut").stderr
        assert b"name one" in argstream("mock", "--timed").stderr


class TestReplay:
    def test_it_shows_what_watch_shows(self, tmp_path: Path) -> None:
        file = timed(tmp_path / "turn.rec", (0.1, BODY[:99]), (0.2, BODY[99:]))
        for arguments in ([], ["--json"]):
            watched = argstream("watch", file, *arguments)
            replayed = argstream("replay", file, "--speed", "max", *arguments)
            assert replayed.returncode == 0
            assert timeless(replayed.stdout) == timeless(watched.stdout)

    @pytest.mark.parametrize(
        ("speed", "pause", "least"), [("1", 1.0, 1.0), ("100", 100.0, 1.0), ("max", 3_600.0, 0.0)]
    )
    def test_it_takes_the_time_that_it_took(
        self, tmp_path: Path, speed: str, pause: float, least: float
    ) -> None:
        """Or less, by its speed: without that, two of the pauses are longer than any test."""
        file = timed(tmp_path / "turn.rec", (0.0, BODY[:99]), (pause, BODY[99:]))
        start = time.monotonic()
        with running("replay", file, "--raw", "--speed", speed) as process:
            assert os.read(process.stdout.fileno(), 99) + process.stdout.read() == BODY
            assert least <= time.monotonic() - start < max(pause, 60)

    def test_raw_bytes_can_be_piped_into_anything(self, tmp_path: Path) -> None:
        file = timed(tmp_path / "turn.rec", (0.1, BODY[:99]), (0.2, BODY[99:]))
        command = f"'{COMMAND}' replay {file} --raw | '{COMMAND}' watch"
        done = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
        assert timeless(done.stdout) == timeless(argstream("watch", file).stdout)

    def test_raw_bytes_of_a_cut_recording_end_with_1(self, tmp_path: Path) -> None:
        file = timed(tmp_path / "turn.rec", (0.0, BODY), ending="cut")
        done = argstream("replay", file, "--raw")
        assert (done.returncode, done.stdout) == (1, BODY)
        assert done.stderr == b"argstream: the recording ends here: it broke\n"

    def test_a_plain_stream_has_no_times_and_that_is_said(self, tmp_path: Path) -> None:
        file = tmp_path / "turn.sse"
        file.write_bytes(BODY)
        done = argstream("replay", str(file), "--speed", "10")
        assert done.returncode == 0
        assert timeless(done.stdout) == timeless(argstream("watch", str(file)).stdout)
        message = f"{file} is no recording, so it has no times: each event takes 0.003 s"
        assert done.stderr.decode() == f"argstream: {message}\n"
        assert argstream("replay", str(file), "--speed", "max").stderr == b""

    def test_a_speed_next_to_nothing_only_waits(self, tmp_path: Path) -> None:
        file = timed(tmp_path / "turn.rec", (1.0, BODY))
        with (
            running("replay", file, "--speed", "1e-300") as process,
            pytest.raises(subprocess.TimeoutExpired),
        ):
            process.wait(2)

    def test_ctrl_c_exits_with_130(self, tmp_path: Path) -> None:
        file = timed(tmp_path / "turn.rec", (0.0, BODY[:-100]), (60.0, BODY[-100:]))
        with running("replay", file) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert b"Traceback" not in process.stderr.read()

    def test_an_output_that_is_closed_ends_it(self, tmp_path: Path) -> None:
        file = timed(tmp_path / "turn.rec", *((0.0, BODY) for _ in range(500)))
        command = f"'{COMMAND}' replay --raw {file} | head -c 5"
        done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
        assert done.stdout == BODY[:5]
        assert b"Traceback" not in done.stderr

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--speed", "0"], "a number above 0, or max"),
            (["--speed", "fast"], "a number above 0, or max"),
            (["--raw", "--json"], "choose one"),
        ],
    )
    def test_wrong_usage_exits_with_2(
        self, tmp_path: Path, arguments: list[str], message: str
    ) -> None:
        done = argstream("replay", timed(tmp_path / "turn.rec"), *arguments)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.decode().split())
        assert argstream("replay", str(tmp_path / "none")).returncode == 2
