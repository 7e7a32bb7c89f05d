"""Clients that do not read, as sockets: what they are sent waits for them, or is not kept."""

import socket
import time
from urllib.parse import urlsplit

__all__ = ["Stalled"]

_RECEIVE_BUFFER = 4_096


class Stalled:
    """One who asks for a stream and does not read it, until he does."""

    def __init__(self, url: str, run_id: str, what: str = "events") -> None:
        where = urlsplit(url)
        assert where.hostname is not None
        self._socket = socket.socket()
        # Small, and from the start: so that the server must keep what he does not read.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        self._socket.connect((where.hostname, where.port))
        request = f"GET /api/runs/{run_id}/{what} HTTP/1.1\r\nhost: {where.netloc}\r\n\r\n"
        self._socket.sendall(request.encode())
        self._socket.settimeout(10)

    def read(self, size: int) -> bytes:
        """Read some bytes; none if the connection was ended, in whatever way."""
        try:
            return self._socket.recv(size)
        except ConnectionError:
            return b""

    def rest(self) -> bytes:
        """Read all there is, to the end of the stream, without what HTTP puts around it."""
        raw = b""
        while not raw.endswith(b"\r\n0\r\n\r\n") and (piece := self.read(1 << 20)):
            raw += piece
        return _unwrapped(raw)

    def is_dropped(self, seconds: float) -> bool:
        """Say whether the server ends the connection within some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                return True  # it was reset
            time.sleep(0.02)
        return False

    def close(self) -> None:
        self._socket.close()


def _unwrapped(raw: bytes) -> bytes:
    _, _, rest = raw.partition(b"\r\n\r\n")
    body = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return b"".join(body)
