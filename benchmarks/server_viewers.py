"""Starts runs and watches them, from a process of its own: ``python server_viewers.py WATCHING``.

Plain sockets and one ``epoll``: it must cost less than what it measures. What is sent to many is
taken apart once.
"""

import gc
import json
import resource
import select
import socket
import sys
import time
from array import array
from dataclasses import asdict, dataclass
from http.client import HTTPConnection

import msgspec

from server_frames import Frame, Viewing, Wrong
from server_host import Usage
from server_pace import Order

__all__ = ["Watched", "Watching", "begin_run", "open_stream"]

_READ = 262_144
_LATE = 20.0
"""How long after the last piece the end may come, in seconds."""


@dataclass(frozen=True)
class Watching:
    """How many runs are begun, and watched by how many."""

    port: int
    runs: int
    viewers: int
    """Of each run."""
    pieces: int
    """Of the first run; the last one has half as many again."""
    per_second: float
    at: float
    """When the first run begins to say something."""


@dataclass(frozen=True)
class Watched:
    """What came of it."""

    wrong: list[str]
    """What was lost, doubled or in another order: some of it."""
    seconds: float
    viewers: int
    frames: int
    bytes: int
    pieces: int
    """That were written, counted once for each who watches."""
    snapshots: int
    """That came in place of something, after the first."""
    p50: float
    p99: float
    p999: float
    most: float
    """How long pieces took from when they were due at the provider, in seconds."""
    usage: Usage


class _Crowd:
    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._poll = select.epoll()
        self._sockets: dict[int, tuple[socket.socket, Viewing]] = {}
        self._frames: list[Frame] = []
        self._known: dict[bytes, list[Frame]] = {}  # what many are sent
        self._bytes = 0
        self.wrong: list[str] = []
        self.viewings: list[Viewing] = []

    def watch(self, run_id: str, pieces: int) -> None:
        connection = socket.socket()
        open_stream(connection, self._watching.port, run_id)
        connection.setblocking(False)  # noqa: FBT003 - its name says what it does
        viewing = Viewing(pieces)
        self.viewings.append(viewing)
        self._sockets[connection.fileno()] = (connection, viewing)
        self._poll.register(connection, select.EPOLLIN)

    def look(self, seconds: float) -> None:
        """Take what has come."""
        for number, _ in self._poll.poll(seconds):
            connection, viewing = self._sockets[number]
            data = connection.recv(_READ)
            now = time.monotonic()
            self._bytes += len(data)
            try:
                for frame in self._read(viewing, data):
                    viewing.take(frame, now)
            except (Wrong, ValueError, KeyError) as error:
                self.wrong.append(str(error))
                data = b""
            if not data or viewing.pieces.is_over:
                self._poll.unregister(connection)
                connection.close()
                del self._sockets[number]

    def _read(self, viewing: Viewing, data: bytes) -> list[Frame]:
        pieces = viewing.pieces
        is_whole = pieces.is_between
        if is_whole and (known := self._known.get(data)) is not None:
            return known
        frames = pieces.take(data)
        self._frames += frames
        if is_whole and pieces.is_between and not pieces.is_over and self._watching.viewers > 1:
            self._known[data] = frames
        return frames

    @property
    def is_over(self) -> bool:
        return not self._sockets

    def watched(self, began: float, used: Usage) -> Watched:
        seconds = time.monotonic() - began
        now = Usage.here()
        usage = Usage(now.cpu_seconds - used.cpu_seconds, now.bytes_now, now.bytes_most)
        for viewing in self.viewings:
            wanted = viewing.wanted
            if not viewing.has_ended or viewing.last != wanted:
                self.wrong.append(
                    f"of {wanted} pieces came {viewing.last}, and the end "
                    f"{'did' if viewing.has_ended else 'did not'}"
                )
        delays = array("d")
        for frame in self._frames:
            delays.extend(frame.delays())
        ordered = sorted(delays) or [0.0]
        return Watched(
            wrong=self.wrong[:10],
            seconds=seconds,
            viewers=len(self.viewings),
            frames=sum(viewing.frames for viewing in self.viewings),
            bytes=self._bytes,
            pieces=len(delays),
            snapshots=sum(viewing.snapshots for viewing in self.viewings) - len(self.viewings),
            p50=ordered[len(ordered) // 2],
            p99=ordered[len(ordered) * 99 // 100],
            p999=ordered[len(ordered) * 999 // 1000],
            most=ordered[-1],
            usage=usage,
        )


def watch(watching: Watching) -> Watched:
    """Begin the runs, have them watched, and say what came of it."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    at = watching.at
    crowd = _Crowd(watching)
    asking = HTTPConnection("127.0.0.1", watching.port)
    for number in range(watching.runs):
        # All at the same pace, but not at the same moment; each with another part of it as an
        # argument, and the last one half as long again as the first.
        share = (number + 1) / (watching.runs + 1)
        pieces = round(watching.pieces * (1 + share / 2))
        first = at + share / watching.per_second
        order = Order(first, pieces, round(pieces * share), watching.per_second)
        run_id = begin_run(asking, order)
        for _ in range(watching.viewers):
            crowd.watch(run_id, pieces)
            crowd.look(0)
    gc.collect()
    gc.disable()  # nothing here goes in circles, and there is much of it
    while (left := at - time.monotonic()) > 0:
        crowd.look(left)
    if left < -0.1:
        sys.exit(f"it took {-left:.1f} s too long to begin: this machine is too busy")
    used = Usage.here()
    end = at + 1.5 * watching.pieces / watching.per_second + _LATE
    while not crowd.is_over and time.monotonic() < end:
        crowd.look(0.1)
    return crowd.watched(at, used)


def open_stream(connection: socket.socket, port: int, run_id: str) -> None:
    """Ask for the events of a run."""
    connection.connect(("127.0.0.1", port))
    connection.sendall(
        f"GET /api/runs/{run_id}/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()
    )


def begin_run(asking: HTTPConnection, order: Order) -> str:
    """Begin a run, and give its id."""
    body = json.dumps({"message": msgspec.json.encode(order).decode()})
    asking.request("POST", "/api/runs", body, {"content-type": "application/json"})
    answer = asking.getresponse()
    told = answer.read()
    if answer.status != 201:
        sys.exit(f"the server does not begin a run: {told.decode()}")
    run_id: str = json.loads(told)["run"]
    return run_id


if __name__ == "__main__":
    print(json.dumps(asdict(watch(Watching(**json.loads(sys.argv[1]))))))
