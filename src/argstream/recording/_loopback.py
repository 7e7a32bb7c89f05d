"""Connections on the loopback interface, with nothing but the standard library.

A thread for each connection, and each is known: stopping ends every socket, which wakes whatever
reads or writes, and returns when all threads have ended. Only one that waits for the name service
cannot be woken, and is left behind.
"""

import contextlib
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Final

from argstream.errors import UsageError

__all__ = ["LoopbackServer", "shut_down"]

_POLL_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 3.0


class LoopbackServer(socketserver.TCPServer):
    """Listens on 127.0.0.1 until it is stopped."""

    # Not http.server's own server: that asks the name service for its name, which can take long.
    allow_reuse_address = sys.platform != "win32"  # there it would share a port that is taken
    request_queue_size = 128
    timeout = _POLL_SECONDS

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.stopping = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        try:
            super().__init__(("127.0.0.1", port), handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"cannot listen on port {port}: {reason}; choose another, or 0 for any free one"
            ) from error
        self.port: int = self.server_address[1]
        self._accepting = threading.Thread(
            target=self._accept, name=f"loopback server on port {self.port}", daemon=True
        )
        self._accepting.start()

    def stop(self) -> None:
        """End every connection, also one in the middle of an answer, and all threads."""
        self.stopping.set()
        # A knock at the door wakes what waits there; without it, it would look up in its own time.
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=_POLL_SECONDS).close()
        self._accepting.join()
        with self._lock:
            for used in self._sockets:
                shut_down(used)
        deadline = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self.server_close()

    @contextlib.contextmanager
    def using(self, used: socket.socket) -> Iterator[None]:
        """Have a socket ended when the server is stopped."""
        with self._lock:
            self._sockets.add(used)
        if self.stopping.is_set():
            shut_down(used)
        try:
            yield
        finally:
            with self._lock:
                self._sockets.discard(used)

    def process_request(self, request: object, client_address: object) -> None:
        """Serve a connection in a thread of its own."""
        thread = threading.Thread(
            target=self._serve, args=(request, client_address), daemon=True, name="connection"
        )
        thread.start()
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that went away: that is its right."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def _accept(self) -> None:
        while not self.stopping.is_set():
            self.handle_request()

    def _serve(self, request: socket.socket, client_address: object) -> None:
        try:
            with self.using(request):
                self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001 - as socketserver has it: shown by handle_error
            self.handle_error(request, client_address)
        finally:
            self.shutdown_request(request)


def shut_down(used: socket.socket) -> None:
    """End a socket that another thread may be using, which wakes that thread."""
    # Not the method of an SSL socket: that would change it under the hands of its reader.
    with contextlib.suppress(OSError):  # it may be gone already
        socket.socket.shutdown(used, socket.SHUT_RDWR)
