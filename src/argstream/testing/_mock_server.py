"""HTTP on the loopback interface, with nothing but the standard library.

A thread for each connection, and each is known: stopping wakes whatever waits or sleeps, closes
every connection, and returns when all threads have ended.
"""

import contextlib
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Final, TypeAlias

from argstream.errors import UsageError
from argstream.testing._mock_answers import Answer

__all__ = ["LoopbackServer", "RawRequest"]

_MOST_BYTES: Final = 64 * 1024 * 1024
_POLL_SECONDS: Final = 1.0


class RawRequest:
    """A request as it came. It holds the key, so it is neither kept nor shown."""

    __slots__ = ("body", "headers", "method", "path")

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body


_Respond: TypeAlias = Callable[[RawRequest], Answer]


class LoopbackServer:
    """Serves what a function answers, on 127.0.0.1, until it is stopped."""

    def __init__(self, port: int, respond: _Respond) -> None:
        try:
            self._listener = _Listener(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"cannot listen on port {port}: {reason}; choose another, or 0 for any free one"
            ) from error
        self._listener.respond = respond
        self.port: int = self._listener.server_address[1]
        self._thread = threading.Thread(
            target=self._accept,
            name=f"mock provider on port {self.port}",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """Close every connection, also one in the middle of an answer, and end all threads."""
        self._listener.stopping.set()
        # A knock at the door wakes what waits there; without it, it would look up in its own time.
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=_POLL_SECONDS).close()
        self._thread.join()
        self._listener.end_connections()
        self._listener.server_close()

    def _accept(self) -> None:
        while not self._listener.stopping.is_set():
            self._listener.handle_request()


class _Listener(socketserver.TCPServer):
    # Not http.server's own server: that asks the name service for its name, which can take long.
    allow_reuse_address = sys.platform != "win32"  # there it would share a port that is taken
    request_queue_size = 128
    timeout = _POLL_SECONDS
    respond: _Respond

    def __init__(self, address: tuple[str, int], handler: "type[_Handler]") -> None:
        self.stopping = threading.Event()
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)  # noqa: S101 - so it is with TCP
        thread = threading.Thread(
            target=self._serve, args=(request, client_address), daemon=True, name="mock connection"
        )
        with self._lock:
            self._connections.add(request)
        thread.start()
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]

    def _serve(self, request: socket.socket, client_address: object) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001 - as socketserver has it: shown by handle_error
            self.handle_error(request, client_address)
        finally:
            with self._lock:
                self._connections.discard(request)
            self.shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # the client went away: its right
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def end_connections(self) -> None:
        with self._lock:
            for connection in self._connections:
                # It may be gone already; if not, this wakes the thread that reads or writes.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "argstream-mock"
    sys_version = ""
    disable_nagle_algorithm = True  # each write leaves at once
    server: _Listener

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
        for data, seconds_before in answer.writes:
            self._pause(seconds_before)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if in_chunks else data)
        if answer.is_cut:
            self.close_connection = True
        elif in_chunks:
            self.wfile.write(b"0\r\n\r\n")

    def _pause(self, seconds: float) -> None:
        if seconds and self.server.stopping.wait(seconds):
            raise ConnectionAbortedError("the mock provider is being stopped")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by http.server
        """Say nothing: who wants to see requests has a better place."""
