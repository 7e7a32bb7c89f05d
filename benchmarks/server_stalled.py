"""A thousand clients that do not read: what they cost the server, and whether others feel it.

They ask for a run that says some megabytes. Others go on meanwhile, with a viewer each, and what
these are sent must come in time. One of those who did not read begins to before his time is up.
"""

import json
import resource
import socket
import sys
import time
from dataclasses import dataclass
from http.client import HTTPConnection

from server_frames import Viewing, Wrong
from server_host import MEMORY, STALLED_SECONDS
from server_pace import Order
from server_results import MOST_SECONDS, Crowd, Host, hosting, watched_by
from server_viewers import Watched, begin_run, open_stream

__all__ = ["MOST_BYTES", "Stalls", "stalls"]

MOST_BYTES = 300_000
"""That one who does not read may cost the server, with what the run itself takes."""
_OTHERS = Crowd("others", MEMORY, runs=20, viewers=1, per_second=20, lead=10)
_PIECES, _PER_SECOND, _SIZE = 3_000, 200, 2_000
_RECEIVE_BUFFER = 4_096
_RETURNS_AFTER = 8.0
_SLACK = 10.0


@dataclass(frozen=True)
class Stalls:
    """What came of it."""

    clients: int
    bytes_of_run: int
    bytes_each: float
    """Of the server's memory, at most."""
    dropped: int
    """How many were cut off in time."""
    returned: str
    """What was wrong with what he was sent who read after all; empty if nothing was."""
    snapshots: int
    """That he was given."""
    others: Watched

    @property
    def complaints(self) -> list[str]:
        """What is not as it must be."""
        found = [self.returned] if self.returned else []
        if self.bytes_each > MOST_BYTES:
            found.append(f"each costs {self.bytes_each:,.0f} bytes")
        if self.others.p99 > MOST_SECONDS:
            found.append(f"others wait for more than {self.others.p99 * 1000:.0f} ms, one of 100")
        if self.dropped < self.clients:
            found.append(f"only {self.dropped} of {self.clients} were cut off")
        return [f"stalled clients: {complaint}" for complaint in [*found, *self.others.wrong]]


def stalls(clients: int) -> Stalls:
    """Measure it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with hosting("server_host.py", MEMORY) as host:
        at = time.monotonic() + _OTHERS.lead
        seconds = _PIECES / _PER_SECOND
        with watched_by(_OTHERS, host.port, seconds, at) as others:
            run_id = begin_run(
                HTTPConnection("127.0.0.1", host.port),
                Order(at, _PIECES, _PIECES // 2, _PER_SECOND, _SIZE),
            )
            before = host.usage().bytes_now
            stalled = [_asking(host.port, run_id) for _ in range(clients)]
            returning = _asking(host.port, run_id)
            most = _watch_memory(host, at + _RETURNS_AFTER)
            returned, snapshots = _read(returning, at + seconds + _SLACK)
            most = max(most, _watch_memory(host, at + seconds + 1))
            watched = others.watched()
        dropped = _count_dropped(stalled, time.monotonic() + STALLED_SECONDS + _SLACK)
    size = _PIECES * _SIZE
    each = (most - before) / clients
    return Stalls(clients, size, each, dropped, returned, snapshots, watched)


def _asking(port: int, run_id: str) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    open_stream(connection, port, run_id)
    return connection


def _watch_memory(host: Host, until: float) -> int:
    """Give the most that the server had, of what is looked at now and then."""
    most = host.usage().bytes_now
    while time.monotonic() < until:
        time.sleep(0.2)
        most = max(most, host.usage().bytes_now)
    return most


def _read(connection: socket.socket, until: float) -> tuple[str, int]:
    """Read a stream to its end; say what is wrong with it, and how many snapshots it has."""
    viewing = Viewing(_PIECES)
    connection.settimeout(1.0)
    try:
        while not viewing.pieces.is_over:
            if time.monotonic() > until:
                return "who reads again is not told the end", viewing.snapshots
            data = connection.recv(65_536)
            for frame in viewing.pieces.take(data):
                viewing.take(frame, time.monotonic())
            if not data:
                return "who reads again is cut off", viewing.snapshots
    except (OSError, ValueError, Wrong) as error:
        return f"who reads again: {error}", viewing.snapshots
    if viewing.last != viewing.wanted:
        return f"who reads again is told of {viewing.last} pieces", viewing.snapshots
    return "", viewing.snapshots


def _count_dropped(stalled: list[socket.socket], until: float) -> int:
    """Say how many were cut off: without reading, which would make them clients that read."""
    dropped = 0
    while stalled and time.monotonic() < until:
        left = []
        for one in stalled:
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                dropped += 1
                one.close()
            else:
                left.append(one)
        stalled = left
        time.sleep(0.2)
    return dropped


if __name__ == "__main__":
    print(json.dumps(stalls(int(sys.argv[1])).complaints))
