"""argstream record: pipes, and the proxy between real clients and a provider."""

import contextlib
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from argstream.events import from_json
from argstream.recording import parse_recording, read_recording
from argstream.streaming import stream
from argstream.testing import CallTool, MockProvider, Reply, Say
from tests.cli.in_process import argstream, refused
from tests.cli.processes import ANTHROPIC, BODY, COMMAND, KEY, Process, run, running

LONG = BODY * 500


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "turn.rec"


class TestPipe:
    def test_bytes_are_recorded_and_passed_on(self, file: Path) -> None:
        done = argstream("record", "-o", str(file), stdin=BODY)
        hint = b"argstream: the input arrived in one piece, so the recording has no timing\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, BODY, hint)
        assert (read_recording(file).data, read_recording(file).ending) == (BODY, "orderly")
        quiet = argstream("record", "-q", "-o", f"{file}.2", stdin=BODY)
        assert (quiet.returncode, quiet.stdout) == (0, b"")

    @pytest.mark.parametrize("arguments", [(), ("-o", "-")])
    def test_recording_without_a_file_is_the_output(self, arguments: tuple[str, ...]) -> None:
        done = argstream("record", *arguments, stdin=BODY)
        assert done.returncode == 0
        assert parse_recording(done.stdout).data == BODY

    def test_chunks_are_written_at_once_with_their_times(self, file: Path) -> None:
        with running("record", "-o", str(file)) as process:
            for piece in (b"data: 1\n\n", b"data: 2\n\n"):
                process.send(piece)
                assert os.read(process.stdout.fileno(), 100) == piece
                assert read_recording(file).chunks[-1].data == piece  # before it is passed on
            process.stdin.close()
            assert process.wait(20) == 0
        first, second = read_recording(file).chunks
        assert 0 < first.at < second.at

    def test_existing_file_is_overwritten_only_by_force(self, file: Path) -> None:
        file.write_text("precious")
        message = refused("record", "-o", str(file), stdin=BODY)
        assert "already exists. Use --force to overwrite it" in message
        assert file.read_text() == "precious"
        assert argstream("record", "--force", "-o", str(file), stdin=BODY).returncode == 0
        assert read_recording(file).data == BODY

    @pytest.mark.parametrize(
        ("number", "status", "ending"),
        [(signal.SIGINT, 130, "aborted"), (signal.SIGKILL, -signal.SIGKILL, "cut")],
    )
    def test_signal_loses_no_recorded_bytes(
        self, file: Path, number: signal.Signals, status: int, ending: str
    ) -> None:
        with running("record", "-o", str(file)) as process:
            process.send(BODY[:50])
            os.read(process.stdout.fileno(), 100)
            process.send_signal(number)
            assert process.wait(20) == status
            assert b"Traceback" not in process.stderr.read()
        assert (read_recording(file).data, read_recording(file).ending) == (BODY[:50], ending)

    def test_full_disk_is_reported_and_bytes_are_passed_on(self, file: Path) -> None:
        done = argstream("record", "-o", "/dev/full", stdin=BODY)
        assert (done.returncode, done.stdout) == (2, BODY)
        assert b"cannot write /dev/full: No space left on device" in done.stderr
        # The disk gets full after the header, which a limit can do and a device cannot.
        line = f"ulimit -f 1; trap '' XFSZ; exec '{COMMAND}' record -o {file}"
        done = subprocess.run(["sh", "-c", line], input=BODY * 20, capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (2, BODY * 20)
        assert f"{file} is incomplete: cannot write (File too large)" in done.stderr.decode()
        with Path("/dev/full").open("wb") as full:
            done = run("record", stdin=BODY, stdout=full.fileno())
        message = b"argstream: cannot write standard output: No space left on device\n"
        assert (done.returncode, done.stderr) == (2, message)

    @pytest.mark.parametrize("closed", [(1,), (1, 2)])
    def test_closed_output_ends_no_recording(self, file: Path, closed: tuple[int, ...]) -> None:
        with running("record", "-o", str(file)) as process:
            process.send(BODY)
            assert process.stdout.read(10) == BODY[:10]
            for output in (process.stdout, process.stderr)[: len(closed)]:
                output.close()
            process.send(LONG)
            process.stdin.close()
            assert process.wait() == 0
            if closed == (1,):
                errors = process.stderr.read()
                assert b"The recording continues" in errors
                assert b"Traceback" not in errors
        assert read_recording(file).data == BODY + LONG

    def test_messages_never_mix_with_the_output(self, file: Path) -> None:
        """A file that is opened when standard error is closed gets its number."""
        file.touch()
        command = ["sh", "-c", f"exec '{COMMAND}' record -o {file} 2>&-"]
        done = subprocess.run(command, input=BODY, stdout=subprocess.PIPE, check=False)
        assert (done.returncode, done.stdout) == (2, b"")

    def test_recording_is_not_recorded_again(self, tmp_path: Path) -> None:
        recording = argstream("record", stdin=BODY).stdout
        message = refused("record", "-o", str(tmp_path / "again.rec"), stdin=recording)
        assert "a recording already. Use argstream replay --raw for its bytes" in message
        assert list(tmp_path.iterdir()) == []

    def test_keys_of_the_environment_are_removed(self, file: Path) -> None:
        error = f'{{"error": {{"message": "invalid key {KEY}"}}}}'.encode()
        done = argstream("record", "-o", str(file), stdin=error, MY_API_KEY=KEY)
        assert (done.returncode, done.stdout) == (0, error)  # passed on as it is
        assert "CANARY" not in file.read_text()
        assert b"invalid key [removed]" in read_recording(file).data
        assert b"look like keys of the environment: 1" in done.stderr

    def test_bytes_cannot_act_on_a_terminal(self, file: Path) -> None:
        leader, follower = pty.openpty()
        output = b""
        with running("record", "-o", str(file), stdout=follower) as process:
            os.close(follower)
            process.send(b"a\x1b[2J\xff\r\n")
            process.stdin.close()
            with contextlib.suppress(OSError):  # raised when the other side is closed
                while piece := os.read(leader, 1000):
                    output += piece
        os.close(leader)
        assert output.decode() == "a⟦ESC⟧[2J�⟦CR⟧\r\n"


@contextmanager
def proxy(url: str, folder: Path) -> Iterator[tuple[str, Process]]:
    with running("record", "--proxy", url, "-o", str(folder)) as process:
        greeting = process.stdout.readline().decode()
        yield greeting.split()[4], process


class TestProxy:
    def test_real_clients_are_recorded_without_their_keys(self, tmp_path: Path) -> None:
        import anthropic
        import openai

        folder = tmp_path / "recordings"
        reply = Reply(Say("hello"), CallTool("add", {"a": 1}))
        with MockProvider(reply) as provider, proxy(provider.url, folder) as (url, process):
            with anthropic.Anthropic(base_url=url, api_key=KEY) as client:
                live = list(stream(client.messages.create(**ANTHROPIC, stream=True)))
            with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as gpt:
                gpt.responses.create(model="m", input="hi")
                with pytest.raises(openai.NotFoundError):
                    gpt.models.list()
            process.send_signal(signal.SIGINT)
            output, log = process.stdout.read(), process.stderr.read().decode()
            assert process.wait(20) == 130
        first, _, last = log.splitlines()
        file = folder / "0001-messages.rec"
        words = first.split()
        assert (words[:3], words[-1]) == (["POST", "/v1/messages", "200"], str(file))
        assert " kB  " in first
        assert " s  " in first
        assert last.startswith("GET /v1/models 404")
        done = argstream("watch", "--json", str(file))
        assert [from_json(line) for line in done.stdout.splitlines()] == live
        texts = [output.decode(), log, *(path.read_text() for path in folder.iterdir())]
        assert not any("CANARY" in text for text in texts)
