"""The server of the mock provider: requests are read whole, answers are sent in their own time."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Final, NamedTuple, TypeAlias

from argstream.recording._loopback import LoopbackServer
from argstream.testing._mock_answers import Answer

__all__ = ["HangUp", "MockServer", "RawRequest"]

_MOST_BYTES: Final = 64 * 1024 * 1024


class RawRequest:
    """A request as it came. It holds the key, so it is neither kept nor shown."""

    __slots__ = ("body", "headers", "method", "path")

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body


class HangUp(NamedTuple):
    """A client went away before its answer was over."""

    sent: int
    """How many bytes of the answer had left; a few of them nobody has read."""
    of: int
    """How many it has."""


_Respond: TypeAlias = Callable[[RawRequest], Answer]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "argstream-mock"
    sys_version = ""
    disable_nagle_algorithm = True  # each write leaves at once
    server: "MockServer"

    def _handle(self) -> None:
        body = self._read_body()
        if body is None:
            return
        headers: dict[str, str] = {}
        for name, value in self.headers.items():
            headers[name.lower()] = value
        self._send(self.server.respond(RawRequest(self.command, self.path, headers, body)))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - http.server has it so

    def _read_body(self) -> bytes | None:
        length = self.headers.get("content-length", "0")
        if "transfer-encoding" in self.headers:
            self.send_error(411, "Send the body with a content-length")
        elif not length.isascii() or not length.isdigit():
            self.send_error(400, "The content-length is no number")
        elif int(length[:12]) > _MOST_BYTES:
            self.send_error(413, "The body is too long")
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):
                return body
        self.close_connection = True
        return None

    def _send(self, answer: Answer) -> None:
        self._pause(answer.seconds_before)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        in_chunks = answer.length is None
        if in_chunks:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(answer.length))
        self.end_headers()
        sent = 0
        for data, seconds_before in answer.writes:
            try:
                self._pause(seconds_before)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if in_chunks else data)
            except ConnectionError:
                if not self.server.stopping.is_set():
                    whole = sum(len(write.data) for write in answer.writes)
                    self.server.hang_ups.append(HangUp(sent, whole))
                raise
            sent += len(data)
        if answer.is_cut:
            self.close_connection = True
        elif in_chunks:
            self.wfile.write(b"0\r\n\r\n")

    def _pause(self, seconds: float) -> None:
        if seconds and self.server.stopping.wait(seconds):
            raise ConnectionAbortedError("the mock provider is being stopped")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by http.server
        """Say nothing: who wants to see requests has a better place."""


class MockServer(LoopbackServer):
    """Serves what a function answers, until it is stopped."""

    def __init__(self, port: int, respond: _Respond, hang_ups: list[HangUp]) -> None:
        self.respond = respond
        self.hang_ups = hang_ups
        super().__init__(port, _Handler)
