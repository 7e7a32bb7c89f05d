"""A way to a server that can be cut and mended, as a network is."""

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Self

__all__ = ["Proxy"]

_RESET_AT_ONCE = struct.pack("ii", 1, 0)


class Proxy:
    """Listens on a port of its own, and passes on what comes, bytes for bytes.

    ``cut()`` ends all connections and refuses new ones until ``mend()``; the port stays the same,
    also if ``mend`` names another server to go to.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener: socket.socket | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """Where a browser goes."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.mend()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cut()

    def mend(self, port: int | None = None) -> None:
        """Listen, and pass on to the server that was named last."""
        self._target = port or self._target
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        """End everything at once, as a cable that is pulled does for who notices."""
        with self._lock:
            listener, self._listener = self._listener, None
            pairs, self._pairs = self._pairs, []
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for pair in pairs:
            for side in pair:
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_ONCE)
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)
                side.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return  # it was cut
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            with self._lock:
                if self._listener is not listener:
                    near.close()
                    far.close()
                    return
                self._pairs.append((near, far))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_pass_on, args=(source, sink), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    # An OSError is a side that hung up, or was cut: then the other is told.
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
