"""``argstream mock``, run as a user runs it: a real process, a real port, real clients."""

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import anthropic
import openai
import pytest

from tests.cli.in_process import argstream
from tests.cli.test_cli import COMMAND, ENVIRONMENT

MESSAGES: Any = [{"role": "user", "content": "Write a program."}]


class Running:
    """The command, and what it has said so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.output: IO[str] = process.stdout
        self.greeting = [self.output.readline() for _ in range(5)]
        self.url = self.greeting[0].split()[4].rstrip(",")

    def interrupt(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        output, errors = self.process.communicate(timeout=10)
        assert errors == ""
        return self.process.returncode, output


@contextmanager
def mock(*arguments: str) -> Iterator[Running]:
    with subprocess.Popen(
        [COMMAND, "mock", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        text=True,
    ) as process:
        try:
            yield Running(process)
        finally:
            process.kill()


def refused(*arguments: str) -> str:
    done = argstream("mock", *arguments)
    assert done.returncode == 2
    assert done.stdout == b""
    return done.stderr.decode()


def test_the_lines_it_prints_make_clients_that_work() -> None:
    with mock("--pace", "0") as running:
        lines = [line.strip() for line in running.greeting if "base_url" in line]
        claude, gpt = (eval(line, {"anthropic": anthropic, "openai": openai}) for line in lines)
        with claude, gpt:
            message = claude.messages.create(model="m", max_tokens=9, messages=MESSAGES)
            response = gpt.responses.create(model="m", input="hi")
        assert message.content[-1].name == "write_file"
        assert "primes" in response.output_text
        status, output = running.interrupt()
    assert status == 130
    assert output.splitlines() == ["200 POST /v1/messages", "200 POST /v1/responses"]


def test_a_script_is_played_over_and_over(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"replies": [{"parts": [{"say": "one"}]}, {"parts": [{"say": "two"}]}]}')
    with (
        mock(str(script)) as running,
        openai.OpenAI(base_url=f"{running.url}/v1", api_key="any") as client,
    ):
        texts = [client.responses.create(model="m", input="hi").output_text for _ in range(3)]
    assert texts == ["one", "two", "one"]


def test_a_recording_is_served(tmp_path: Path) -> None:
    recording = tmp_path / "answer.jsonl"
    recording.write_text(
        '{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": '
        '[{"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}]}\n'
    )
    with (
        mock(str(recording)) as running,
        openai.OpenAI(base_url=f"{running.url}/v1", api_key="any") as client,
    ):
        chunks: Any = list(
            client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        )
    assert [chunk.choices[0].delta.content for chunk in chunks] == ["Hello"]


def test_faults_are_made_and_no_key_is_shown() -> None:
    with (
        mock("--fault", "status=429", "--fault", "wait=0.01") as running,
        anthropic.Anthropic(base_url=running.url, api_key="sk-secret", max_retries=0) as client,
    ):
        with pytest.raises(anthropic.RateLimitError):
            client.messages.create(model="m", max_tokens=9, messages=MESSAGES, stream=True)
        status, output = running.interrupt()
    assert status == 130
    assert output == "429 POST /v1/messages streamed\n"


def test_a_request_that_is_wrong_is_explained_and_cannot_act_on_a_terminal() -> None:
    with mock() as running:
        host, port = running.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(b"POST /\x1b[31m\x9b?key=sk-secret HTTP/1.0\r\n\r\n")
            assert b" 404 " in connection.recv(100)
        _, output = running.interrupt()
    (line,) = output.splitlines()
    assert line.startswith("404 POST /⟦ESC⟧[31m⟦CSI⟧ - there is no POST")
    assert "sk-secret" not in line


def test_it_ends_at_once_in_the_middle_of_a_slow_answer() -> None:
    with (
        mock("--pace", "60") as running,
        anthropic.Anthropic(base_url=running.url, api_key="any", max_retries=0) as client,
    ):
        events = client.messages.create(model="m", max_tokens=9, messages=MESSAGES, stream=True)
        next(events)
        assert running.interrupt()[0] == 130
        events.close()


def test_a_port_can_be_chosen_if_it_is_free() -> None:
    with mock() as running:
        port = running.url.rpartition(":")[2]
        message = refused("--port", port)
    assert message.startswith(f"argstream: cannot listen on port {port}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read"),
        ("hello", "no recording of"),
        ('{"replies": [{"parts": [{"says": "x"}]}]}', "reply 1, part 1: a part is"),
        ('{"replies": [', "the script is not JSON"),
    ],
)
def test_a_file_that_cannot_be_served_is_explained(
    tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "file"
    if text is not None:
        file.write_text(text)
    (line,) = refused(str(file)).splitlines()
    assert line.startswith("argstream: ")
    assert message in line


def test_an_unknown_fault_is_explained() -> None:
    (line,) = refused("--fault", "cot=3").splitlines()
    assert line.startswith("argstream: no fault is called 'cot'; there are: cut=BYTES")
