"""``argstream mock`` as a user runs it: a real process, a real port, real clients."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.in_process import refused
from tests.cli.processes import ANTHROPIC, Process, running

if TYPE_CHECKING:
    from anthropic import Anthropic


class Mock:
    """The process, its greeting, and the lines that it logs."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.greeting = [self.line() for _ in range(7)]
        self.url = self.greeting[0].split()[4]

    def line(self) -> str:
        return self.process.stdout.readline().decode()

    def anthropic(self) -> "Anthropic":
        from anthropic import Anthropic

        return Anthropic(base_url=self.url, api_key="sk-secret", max_retries=0)


@contextmanager
def mock(*arguments: str) -> Iterator[Mock]:
    with running("mock", *arguments) as process:
        yield Mock(process)


@pytest.fixture(scope="module")
def plain() -> Iterator[Mock]:
    with mock("--pace", "0") as server:
        yield server


def test_printed_lines_create_working_clients(plain: Mock) -> None:
    import anthropic
    import openai

    lines = [line.strip() for line in plain.greeting if "base_url" in line]
    claude, gpt = (eval(line, {"anthropic": anthropic, "openai": openai}) for line in lines)
    with claude, gpt:
        message = claude.messages.create(**ANTHROPIC)
        response = gpt.responses.create(model="m", input="hi")
    assert message.content[-1].name == "write_file"
    assert "primes" in response.output_text
    logged = [plain.line(), plain.line()]
    assert logged == ["200 POST /v1/messages\n", "200 POST /v1/responses\n"]


def test_wrong_request_is_logged_without_keys_and_escapes(plain: Mock) -> None:
    host, port = plain.url.removeprefix("http://").split(":")
    for path, status in ((b"/\x1b[31m\x9b", b" 400 "), (b"/%1b[31m", b" 404 ")):
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(b"POST %s?key=sk-secret HTTP/1.0\r\n\r\n" % path)
            assert status in connection.recv(100)
    line = plain.line()  # of the second request
    assert line.startswith("404 POST /%1b[31m - unknown route POST")
    assert "sk-secret" not in line


def test_taken_port_is_refused(plain: Mock) -> None:
    port = plain.url.rpartition(":")[2]
    message = refused("mock", "--port", port)
    assert message.startswith(f"argstream: cannot listen on port {port}: ")


def test_script_is_repeated(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"replies": [{"parts": [{"say": "one"}]}, {"parts": [{"say": "two"}]}]}')
    with mock(str(script)) as server, server.anthropic() as client:
        texts = [client.messages.create(**ANTHROPIC).content[0].text for _ in range(3)]
    assert texts == ["one", "two", "one"]


def test_faults_are_injected() -> None:
    import anthropic

    with mock("--fault", "status=429", "--fault", "wait=0.01") as server:
        with server.anthropic() as client, pytest.raises(anthropic.RateLimitError, match="429"):
            client.messages.create(**ANTHROPIC, stream=True)
        assert server.line() == "429 POST /v1/messages streamed\n"


def test_ctrl_c_ends_it_in_the_middle_of_an_answer() -> None:
    with mock("--pace", "60") as server, server.anthropic() as client:
        events = client.messages.create(**ANTHROPIC, stream=True)
        next(iter(events))
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(20) == 130
        assert server.process.stderr.read() == b""
        events.close()
