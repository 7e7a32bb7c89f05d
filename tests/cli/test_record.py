"""argstream record: pipes, and the proxy between real clients and a provider."""

import contextlib
import os
import pty
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anthropic
import openai
import pytest

from argstream.events import from_json
from argstream.recording import parse_recording, read_recording
from argstream.streaming import stream
from argstream.testing import CallTool, MockProvider, Reply, Say, Slow
from tests.cli.in_process import argstream
from tests.cli.recordings import ANTHROPIC, BODY, KEY, Process, running
from tests.cli.test_cli import COMMAND, ENVIRONMENT


class TestRecordAPipe:
    def test_bytes_are_recorded_and_passed_on(self, tmp_path: Path) -> None:
        file = tmp_path / "turn.rec"
        done = argstream("record", "-o", str(file), stdin=BODY)
        assert (done.returncode, done.stdout, done.stderr) == (0, BODY, b"")
        assert read_recording(file).data == BODY
        assert read_recording(file).ending == "orderly"

    def test_quiet_passes_nothing_on(self, tmp_path: Path) -> None:
        done = argstream("record", "-q", "-o", str(tmp_path / "turn.rec"), stdin=BODY)
        assert (done.returncode, done.stdout) == (0, b"")

    @pytest.mark.parametrize("arguments", [(), ("-o", "-")])
    def test_without_a_file_the_recording_goes_to_standard_output(
        self, arguments: tuple[str, ...]
    ) -> None:
        done = argstream("record", *arguments, stdin=BODY)
        assert done.returncode == 0
        assert parse_recording(done.stdout).data == BODY

    def test_it_is_live_and_has_the_times_of_its_chunks(self, tmp_path: Path) -> None:
        file = tmp_path / "turn.rec"
        with running("record", "-o", str(file)) as process:
            for piece in (b"data: 1\n\n", b"data: 2\n\n"):
                process.stdin.write(piece)
                process.stdin.flush()
                assert os.read(process.stdout.fileno(), 100) == piece
                assert read_recording(file).chunks[-1].data == piece  # before it is passed on
                time.sleep(0.3)
            process.stdin.close()
            assert process.wait(20) == 0
        first, second = read_recording(file).chunks
        assert 0.25 < second.at - first.at < 2

    def test_what_exists_is_kept_unless_forced(self, tmp_path: Path) -> None:
        file = tmp_path / "turn.rec"
        file.write_text("precious")
        done = argstream("record", "-o", str(file), stdin=BODY)
        assert done.returncode == 2
        assert b"exists already: name another, or overwrite with --force" in done.stderr
        assert file.read_text() == "precious"
        assert argstream("record", "--force", "-o", str(file), stdin=BODY).returncode == 0
        assert read_recording(file).data == BODY

    def test_ctrl_c_aborts_it(self, tmp_path: Path) -> None:
        file = tmp_path / "turn.rec"
        with running("record", "-o", str(file)) as process:
            process.stdin.write(BODY[:50])
            process.stdin.flush()
            os.read(process.stdout.fileno(), 100)
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert b"Traceback" not in process.stderr.read()
        assert read_recording(file).data == BODY[:50]
        assert read_recording(file).ending == "aborted"

    def test_a_kill_loses_nothing_that_was_there(self, tmp_path: Path) -> None:
        file = tmp_path / "turn.rec"
        with running("record", "-o", str(file)) as process:
            process.stdin.write(BODY[:50])
            process.stdin.flush()
            os.read(process.stdout.fileno(), 100)
            process.kill()
            process.wait(20)
        assert read_recording(file).data == BODY[:50]
        assert read_recording(file).ending == "cut"

    def test_a_full_disk_is_told_and_the_bytes_go_on(self, tmp_path: Path) -> None:
        done = argstream("record", "-o", "/dev/full", stdin=BODY)
        assert done.returncode == 2
        assert b"cannot write /dev/full: No space left on device" in done.stderr
        assert done.stdout == BODY
        # It gets full only after the header, which a limit can do and a device cannot.
        file = tmp_path / "turn.rec"
        limited = f"ulimit -f 1; trap '' XFSZ; exec '{COMMAND}' record -o {file}"
        long = BODY * 20
        done = subprocess.run(["sh", "-c", limited], input=long, capture_output=True, check=False)
        assert done.returncode == 2
        assert done.stdout == long
        assert f"cannot write {file}, it ends here: File too large" in done.stderr.decode()

    def test_who_reads_no_longer_does_not_end_the_recording(self, tmp_path: Path) -> None:
        file = tmp_path / "turn.rec"
        long = BODY * 500
        done = subprocess.run(
            ["sh", "-c", f"'{COMMAND}' record -o {file} | head -c 10"],
            input=long,
            capture_output=True,
            check=False,
        )
        assert done.stdout == BODY[:10]
        assert b"but the recording goes on" in done.stderr
        assert b"Traceback" not in done.stderr
        assert read_recording(file).data == long

    @pytest.mark.parametrize("redirection", ["2>&1 | head -c 10", "2>&- | head -c 10"])
    def test_nor_does_it_if_nobody_reads_complaints(self, tmp_path: Path, redirection: str) -> None:
        file, status = tmp_path / "turn.rec", tmp_path / "status"
        long = BODY * 500
        command = f"('{COMMAND}' record -o {file}; echo $? >{status}) {redirection}"
        done = subprocess.run(["sh", "-c", command], input=long, capture_output=True, check=False)
        assert done.stdout == BODY[:10]
        assert read_recording(file).data == long
        assert status.read_text() == "0\n"

    def test_without_standard_error_nothing_mixes_with_the_output(self, tmp_path: Path) -> None:
        (tmp_path / "turn.rec").touch()
        command = f"'{COMMAND}' record -o {tmp_path}/turn.rec 2>&-"
        done = subprocess.run(["sh", "-c", command], input=BODY, capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (2, b"")

    def test_a_recording_is_not_recorded_again(self, tmp_path: Path) -> None:
        recording = argstream("record", stdin=BODY).stdout
        done = argstream("record", "-o", str(tmp_path / "again.rec"), stdin=recording)
        assert done.returncode == 2
        assert b"already a recording: for its bytes, use argstream replay --raw" in done.stderr
        assert list(tmp_path.iterdir()) == []

    def test_an_output_that_is_full_has_a_name(self) -> None:
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [COMMAND, "record"], input=BODY, stdout=full, stderr=subprocess.PIPE, check=False
            )
        assert done.returncode == 2
        assert b"cannot write standard output: No space left on device" in done.stderr

    def test_keys_of_the_environment_are_taken_out(self, tmp_path: Path) -> None:
        file = tmp_path / "turn.rec"
        done = subprocess.run(
            [COMMAND, "record", "-o", str(file)],
            input=f'{{"error": {{"message": "invalid key {KEY}"}}}}'.encode(),
            env={**ENVIRONMENT, "MY_API_KEY": KEY},
            capture_output=True,
            check=True,
        )
        assert KEY.encode() in done.stdout  # it is passed on as it is
        assert "CANARY" not in file.read_text()
        assert b"invalid key [removed]" in read_recording(file).data
        assert b"a key of the environment was removed once" in done.stderr

    def test_on_a_terminal_nothing_acts(self, tmp_path: Path) -> None:
        output = in_terminal("record", "-o", str(tmp_path / "turn.rec"), stdin=b"a\x1b[2J\xff\r\n")
        assert output == "a⟦ESC⟧[2J�⟦CR⟧\r\n"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["-o", "{tmp}/none/turn.rec"], "cannot write"),
            (["--port", "1"], "are for --proxy"),
            (["--with-request"], "are for --proxy"),
            (["--proxy", "http://x.example", "--force"], "are not for --proxy"),
            (["--proxy", "http://x.example", "-q"], "are not for --proxy"),
            (["--proxy", "x.example"], "give its URL"),
            (["--proxy", "http://api..example.com"], "no host of this name"),
            (["--proxy", "http://x.example", "-o", "{tmp}/turn.rec"], "name a directory"),
            (["--proxy", "http://x.example", "-o", "{tmp}/file"], "give a directory"),
        ],
    )
    def test_wrong_usage_exits_with_2_and_says_what_would_be_right(
        self, tmp_path: Path, arguments: list[str], message: str
    ) -> None:
        (tmp_path / "file").touch()
        done = argstream("record", *(word.format(tmp=tmp_path) for word in arguments))
        assert done.returncode == 2
        assert message in " ".join(done.stderr.decode().split())


def in_terminal(*arguments: str, stdin: bytes) -> str:
    leader, follower = pty.openpty()
    with Process(
        [COMMAND, *arguments], stdin=subprocess.PIPE, stdout=follower, env=ENVIRONMENT
    ) as process:
        os.close(follower)
        process.stdin.write(stdin)
        process.stdin.close()
        output = b""
        with contextlib.suppress(OSError):  # so a terminal says that nobody writes any more
            while piece := os.read(leader, 1000):
                output += piece
    os.close(leader)
    return output.decode()


class TestRecordingProxy:
    @contextmanager
    def proxy(self, url: str, *arguments: str) -> Iterator[tuple[str, Process]]:
        with running("record", "--proxy", url, *arguments) as process:
            greeting = process.stdout.readline().decode()
            yield greeting.split()[4].rstrip(","), process

    def test_real_clients_talk_through_it(self, tmp_path: Path) -> None:
        directory = tmp_path / "recordings"
        reply = Reply(Say("hello"), CallTool("add", {"a": 1}))
        with (
            MockProvider(reply) as provider,
            self.proxy(provider.url, "-o", str(directory)) as (url, process),
        ):
            with anthropic.Anthropic(base_url=url, api_key=KEY) as client:
                live = list(stream(client.messages.create(**ANTHROPIC, stream=True)))
            with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as gpt:
                gpt.responses.create(model="m", input="hi")
                with pytest.raises(openai.NotFoundError):
                    gpt.models.list()
            process.send_signal(signal.SIGINT)
            output, told = process.stdout.read(), process.stderr.read().decode()
            assert process.wait(20) == 130
        lines = told.splitlines()
        assert len(lines) == 3
        file = directory / "0001-messages.rec"
        words = lines[0].split()
        assert (words[:3], words[-1]) == (["POST", "/v1/messages", "200"], str(file))
        assert " kB  " in lines[0]
        assert " s  " in lines[0]
        assert lines[2].startswith("GET /v1/models 404")
        done = argstream("watch", "--json", str(file))
        assert [from_json(line) for line in done.stdout.splitlines()] == live
        texts = [output.decode(), told, *(path.read_text() for path in directory.iterdir())]
        assert not any("CANARY" in text for text in texts)

    def test_a_key_in_a_url_is_seen_nowhere(self, tmp_path: Path) -> None:
        with self.proxy("http://127.0.0.1:1", "-o", str(tmp_path)) as (url, process):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"{url}/v1/x?key={KEY}", timeout=20)
            caught.value.close()
            process.send_signal(signal.SIGINT)
            told = process.stdout.read() + process.stderr.read()
        assert b"GET /v1/x 502" in told
        assert b"cannot reach http://127.0.0.1:1: Connection refused" in told
        assert b"CANARY" not in told

    def test_ctrl_c_ends_a_running_answer_as_aborted(self, tmp_path: Path) -> None:
        with (
            MockProvider(Reply(Say("hello")), faults=[Slow(between=30)]) as provider,
            self.proxy(provider.url, "-o", str(tmp_path)) as (url, process),
            anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0) as client,
        ):
            turn = iter(client.messages.create(**ANTHROPIC, stream=True))
            next(turn)
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert b"(the proxy was stopped)" in process.stderr.read()
        (file,) = tmp_path.iterdir()
        assert read_recording(file).ending == "aborted"

    def test_a_port_that_is_taken_is_told(self, tmp_path: Path) -> None:
        with MockProvider(Reply(Say("x"))) as provider:
            port = provider.url.rpartition(":")[2]
            arguments = ("record", "--proxy", provider.url, "--port", port, "-o", str(tmp_path))
            done = argstream(*arguments)
        assert done.returncode == 2
        assert b"choose another, or 0 for any free one" in done.stderr
