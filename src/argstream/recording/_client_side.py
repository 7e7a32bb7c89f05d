"""The recording proxy as a client sees it: requests are read, answers are sent, as they come."""

import json
import socket
import struct
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler
from typing import Final

from argstream.recording._loopback import LoopbackServer
from argstream.recording.format import Ending

__all__ = ["HOP_BY_HOP", "ClientGone", "Handler", "ProxyServer", "Reply", "in_chunk", "send_error"]

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that are about a connection, and not about what is sent through it."""

_PIECE: Final = 64 * 1024
_USE_AS_BASE_URL: Final = "this is no forward proxy: use its address as the client's base URL"


class ClientGone(ConnectionError):  # noqa: N818 - it names what happened
    """The client hung up in the middle of its request."""


class Handler(BaseHTTPRequestHandler):
    """Reads the requests of a connection, one after the other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # each write leaves at once
    server: "ProxyServer"

    def _handle(self) -> None:
        length = self.headers.get("content-length", "0")
        if not self.path.startswith("/") or self.command == "CONNECT":
            self._refuse(400, _USE_AS_BASE_URL)
        elif "websocket" in self.headers.get("upgrade", "").lower():
            self._refuse(501, "this proxy passes on HTTP, but no WebSockets")
        elif not (length.isascii() and length.isdigit()):
            self._refuse(400, "the content-length is no number")
        else:
            self.server.pass_on(self)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Serve any method: http.server looks for a function with its name."""
        if name.startswith("do_"):
            return self._handle
        raise AttributeError(name)

    def _refuse(self, status: int, message: str) -> None:
        self.close_connection = True
        send_error(self, status, message)

    @property
    def is_in_chunks(self) -> bool:
        """Whether the request's length is not known before its end."""
        return "transfer-encoding" in self.headers

    def request_body(self) -> Iterator[bytes]:
        """Give the body of the request as it comes."""
        if self.is_in_chunks:
            while (size := self._chunk_size()) > 0:
                yield from self._read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass  # of trailers, nothing is wanted
        else:
            yield from self._read(int(self.headers.get("content-length", "0")))

    def _chunk_size(self) -> int:
        try:
            return int(self.rfile.readline(100).partition(b";")[0], 16)
        except ValueError:
            raise ClientGone from None

    def _read(self, length: int) -> Iterator[bytes]:
        while length > 0:
            piece = self.rfile.read1(min(length, _PIECE))
            if not piece:
                raise ClientGone
            length -= len(piece)
            yield piece

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by http.server
        """Say nothing: a request line may have a key in it."""


class ProxyServer(LoopbackServer):
    """Serves each connection with a ``Handler``, and each request by a function."""

    def __init__(self, port: int, pass_on: Callable[[Handler], None]) -> None:
        self.pass_on = pass_on
        super().__init__(port, Handler)


class Reply:
    """What the client gets: the provider's answer, framed as it was where that is possible."""

    def __init__(self, handler: Handler, response: HTTPResponse) -> None:
        self._handler = handler
        self._response = response
        has_body = handler.command != "HEAD" and response.status not in (204, 304)
        self._has_no_length = has_body and response.length is None
        is_old = handler.request_version == "HTTP/1.0"
        self._is_in_chunks = self._has_no_length and not is_old

    def begin(self) -> None:
        """Send the head."""
        handler, response = self._handler, self._response
        left_out = {*HOP_BY_HOP, "content-length"} if self._has_no_length else HOP_BY_HOP
        handler.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in left_out:
                handler.send_header(name, " ".join(value.splitlines()))
        if self._is_in_chunks:
            handler.send_header("transfer-encoding", "chunked")
        elif self._has_no_length:
            handler.close_connection = True
            handler.send_header("connection", "close")
        handler.end_headers()

    def write(self, chunk: bytes) -> None:
        """Send a part of the body."""
        self._handler.wfile.write(in_chunk(chunk) if self._is_in_chunks else chunk)

    def end(self, ending: Ending) -> None:
        """End it as the provider did."""
        if ending == "orderly":
            if self._is_in_chunks:
                self._handler.wfile.write(b"0\r\n\r\n")
            return
        self._handler.close_connection = True
        if self._has_no_length and not self._is_in_chunks:
            # Only the connection says where this body ends, and a reset is no orderly end.
            at_once = struct.pack("ii", 1, 0)
            self._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            self._handler.connection.close()


def send_error(handler: Handler, status: int, message: str) -> None:
    """Refuse, in a form that the clients of providers show to people."""
    error = {"type": "proxy_error", "message": f"argstream record: {message}"}
    body = json.dumps({"type": "error", "error": error}).encode()
    handler.send_response_only(status)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def in_chunk(data: bytes) -> bytes:
    """Frame bytes as a chunk of HTTP."""
    return b"%x\r\n%s\r\n" % (len(data), data)
