"""A TCP proxy that a test can cut, as a network fails."""

import contextlib
import socket
import threading
from collections.abc import Iterator

_RESET = b"\1\0\0\0\0\0\0\0"  # SO_LINGER: close at once


class Proxy:
    """Forwards bytes to a port. ``cut()`` resets all connections and refuses new ones."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def mend(self) -> None:
        """Listen, on the same port as before."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._open = [listener]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            sockets, self._open = self._open, []
        for one in sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it was cut
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                with self._lock:
                    if listener not in self._open:
                        near.close()
                        far.close()
                        return
                    self._open += near, far
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=_forward, args=(source, sink), daemon=True).start()


@contextlib.contextmanager
def proxied(target: int) -> Iterator[Proxy]:
    proxy = Proxy(target)
    proxy.mend()
    yield proxy
    proxy.cut()


def _forward(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):  # one side has closed
        while data := source.recv(65_536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
