"""The server under load: many runs, many viewers, and clients that do not read.

The server is a process of its own (``server_load.py host STORE SECONDS``); the viewers are in this
one. The model is inside the server and sends the bytes of Anthropic's API at a steady pace. Each
delta says when it was due, so a server that is too busy to read it counts as late. Viewers check
that no delta is lost, repeated or out of order.

``python benchmarks/server_load.py`` measures this alone and exits with 1 if a budget is missed.
"""

import asyncio
import gc
import json
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPConnection
from pathlib import Path
from subprocess import PIPE
from typing import NamedTuple, TypeAlias

import msgspec

from argstream import Agent, ModelRequest, open_store
from argstream.server import AgentServer, Limits, serve
from report import Cell, Chapter, Table, as_text, microseconds, milliseconds, number, percent
from report import missed_budgets as missed
from timing import progress, versions
from workloads import anthropic_bytes, anthropic_call, anthropic_text, write_file

_MOST_SECONDS = 0.25  # from the provider's byte to the viewer, for 99 of 100 deltas
_MOST_STALLED = 300.0  # kB of the server for a client that does not read, with a share of the run
_HOST = "127.0.0.1"
_LATE_SECONDS, _STALLED_SECONDS = 120.0, 15.0
_Arrivals: TypeAlias = list[tuple[float, tuple[float, ...]]]
"""When each frame arrived at a viewer, and when the deltas in it were due after the start."""
_starts: list[float] = []  # in the server: when all runs begin to write, once that is known


@dataclass(frozen=True)
class _Crowd:
    """How many runs there are, and how many viewers each of them has."""

    name: str
    store: str
    runs: int
    viewers: int
    per_second: float
    seconds: float = 20.0
    most_p50: float | None = None
    most_p99: float = _MOST_SECONDS


_CROWDS = [
    _Crowd("1 run with a viewer", "memory:", 1, 1, 20, most_p50=0.005, most_p99=0.04),
    _Crowd("1 run with a viewer, SQLite", "sqlite:", 1, 1, 20, most_p50=0.005, most_p99=0.04),
    _Crowd("100 runs with a viewer each", "memory:", 100, 1, 20),
    _Crowd("500 runs with a viewer each, SQLite", "sqlite:", 500, 1, 20),
    _Crowd("2,000 viewers of one run", "memory:", 1, 2_000, 50),
]
_QUICK_CROWDS = [_Crowd("20 runs with 5 viewers each", "sqlite:", 20, 5, 20, seconds=2)]


def measure(*, quick: bool = False) -> Chapter:
    """Measure each crowd with a fresh server, then the clients that do not read."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # every viewer has a socket
    rows = [_crowd_row(crowd) for crowd in (_QUICK_CROWDS if quick else _CROWDS)]
    rows.append(_stalled_row(50, 3.0) if quick else _stalled_row(1_000, _STALLED_SECONDS))
    header = ["load", "deltas/s", "frames/s", "p50 ms", "p99 ms", "most ms", "CPU", "µs", "memory"]
    return Chapter(
        "The server under load",
        "Latency from when a delta is due at the provider until a viewer has it; the server's "
        "share of a core; CPU time per delta and viewer. Stalled clients do not read and are "
        "disconnected, while 20 others watch.",
        [Table(header, rows)],
        versions("uvicorn"),
    )


def _crowd_row(crowd: _Crowd) -> list[Cell]:
    progress(f"  {crowd.name}: {1.5 * crowd.seconds:.0f} s, once all are connected")
    with closing(_Host(crowd.store, _STALLED_SECONDS)) as host:
        viewed = _view(crowd, host)
    return [crowd.name, *_cells(crowd, viewed), number(viewed.most_bytes / 1e6, unit=" MB")]


def _stalled_row(clients: int, seconds: float) -> list[Cell]:
    """Let clients ask for a run of long deltas and not read it, while others view runs."""
    progress(f"  {clients:,} stalled clients: about {3 * seconds + 10:.0f} s")
    others = _Crowd("others", "memory:", 20, 1, 20, seconds=seconds)
    order = _Order(0, round(seconds * 200), 200, size=2_000)
    with closing(_Host(others.store, seconds)) as host:
        run_id = _begin(HTTPConnection(_HOST, host.port), order)
        before = host.usage().bytes
        stalled = [_request_events(host.port, run_id, buffer=4_096) for _ in range(clients)]
        viewed = _view(others, host)
        _await_disconnects(stalled, time.monotonic() + seconds + _LATE_SECONDS)
    memory = number((viewed.most_bytes - before) / clients / 1e3, _MOST_STALLED, " kB each")
    return [f"{clients:,} stalled clients", *_cells(others, viewed), memory]


def _cells(crowd: _Crowd, viewed: "_Viewed") -> list[Cell]:
    return [
        number(crowd.runs * crowd.per_second),
        number(viewed.frames / viewed.seconds),
        milliseconds(viewed.p50, crowd.most_p50),
        milliseconds(viewed.p99, crowd.most_p99),
        milliseconds(viewed.most),
        percent(viewed.cpu_seconds / viewed.seconds),
        microseconds(viewed.cpu_seconds / (viewed.deltas * crowd.viewers)),
    ]


def _await_disconnects(stalled: list[socket.socket], until: float) -> None:
    """Exit if the server keeps a stalled client. Reading would make it one that reads."""
    while stalled and time.monotonic() < until:
        time.sleep(0.2)
        for connection in [*stalled]:
            if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                stalled.remove(connection)
                connection.close()
    if stalled:
        sys.exit(f"{len(stalled)} stalled clients are still connected")


class _Usage(NamedTuple):
    cpu_seconds: float
    bytes: int
    most_bytes: int


class _Host:
    def __init__(self, store: str, stalled_seconds: float) -> None:
        command = [sys.executable, __file__, "host", store, str(stalled_seconds)]
        self._process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True)
        self.port = int(self._line())

    def usage(self) -> _Usage:
        self.tell("")
        return _Usage(*json.loads(self._line()))

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)

    def close(self) -> None:
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline() or sys.exit("the server failed, see above")


def _serve(store: str, stalled_seconds: str) -> None:
    """Serve until standard input ends; a line of it is a start time or asks for the usage."""

    def answer() -> None:
        for line in sys.stdin:
            if line.strip():
                _starts.append(float(line))
            else:
                print(json.dumps(_used()), flush=True)
        signal.raise_signal(signal.SIGTERM)

    # One client does here what some thousand do together.
    rates = {"requests_per_minute": 1_000_000, "runs_per_minute": 1_000_000}
    most = {"max_running_per_client": 1_000, "max_viewers_per_client": 10_000}
    limits = Limits(**rates, **most, stalled_seconds=float(stalled_seconds))
    with tempfile.TemporaryDirectory() as folder:
        where = f"sqlite:{folder}/runs.db" if store == "sqlite:" else store
        agent = Agent(_paced_model, [write_file], store=open_store(where))
        threading.Thread(target=answer, daemon=True).start()
        app = AgentServer(agent, token=None, limits=limits)
        serve(app, port=0, on_listening=lambda url: print(url.rpartition(":")[2], flush=True))


def _used() -> _Usage:
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    cpu_seconds = used.ru_utime + used.ru_stime
    return _Usage(cpu_seconds, pages * resource.getpagesize(), used.ru_maxrss * 1024)


class _Order(msgspec.Struct, frozen=True):
    """The prompt of a run: what the model writes, and when."""

    offset: float  # seconds from the start of all runs to the first delta
    deltas: int
    per_second: float
    size: int = 0  # how many characters a delta has at least


async def _paced_model(request: ModelRequest) -> AsyncIterator[bytes]:
    """Yield each delta when it is due; those that are late come together, as from a socket."""
    if len(request.messages) > 1:
        yield b"".join(anthropic_bytes(anthropic_text(["Done."])))
        return
    (prompt,) = request.messages[0].parts
    order = msgspec.json.decode(getattr(prompt, "text", ""), type=_Order)
    dues = [order.offset + delta / order.per_second for delta in range(order.deltas)]
    marks = [f"{i}@{due:.4f};".rjust(order.size) for i, due in enumerate(dues, 1)]
    pieces = ['{"path": "notes.txt", "content": "', *marks, '"}']
    events = anthropic_bytes(anthropic_call(pieces))
    start = next(i for i, event in enumerate(events) if b"notes.txt" in event) + 1
    waiting = events[:start]
    while not _starts:
        await asyncio.sleep(0.1)
    for due, event in zip(dues, events[start:], strict=False):
        early = _starts[0] + due - time.monotonic()
        if early > 0:
            if waiting:
                yield b"".join(waiting)
                waiting = []
            await asyncio.sleep(early)
        waiting.append(event)
    yield b"".join([*waiting, *events[start + order.deltas :]])


class _Viewed(NamedTuple):
    """What the viewers of a crowd received, and what the server used for it."""

    seconds: float
    deltas: int
    frames: int
    p50: float
    p99: float
    most: float
    cpu_seconds: float
    most_bytes: int


def _view(crowd: _Crowd, host: _Host) -> _Viewed:
    """Start runs, connect their viewers, and read all of them with one epoll."""
    poll = select.epoll()
    viewers: dict[int, _Viewer] = {}
    written = 0
    client = HTTPConnection(_HOST, host.port)
    for run in range(crowd.runs):
        # All at the same pace, but neither starting nor ending at the same moment.
        share = (run + 1) / (crowd.runs + 1)
        deltas = round(crowd.seconds * crowd.per_second * (1 + share / 2))
        written += deltas
        run_id = _begin(client, _Order(share / crowd.per_second, deltas, crowd.per_second))
        for _ in range(crowd.viewers):
            viewer = _Viewer(deltas, _request_events(host.port, run_id))
            viewers[viewer.connection.fileno()] = viewer
            poll.register(viewer.connection, select.EPOLLIN)
    before, at = host.usage(), time.monotonic() + 1
    host.tell(str(at))  # when the models begin to write
    arrivals = _read(poll, viewers, at + 1.5 * crowd.seconds + _LATE_SECONDS)
    seconds, used = time.monotonic() - at, host.usage()
    delays = sorted(arrival - at - due for arrival, dues in arrivals for due in dues)
    late = delays[len(delays) // 2], delays[len(delays) * 99 // 100], delays[-1]
    cpu_seconds = used.cpu_seconds - before.cpu_seconds
    return _Viewed(seconds, written, len(arrivals), *late, cpu_seconds, used.most_bytes)


def _read(poll: select.epoll, viewers: "dict[int, _Viewer]", until: float) -> _Arrivals:
    """Read until all runs have ended; return when each frame came, with what was in it."""
    gc.collect()
    gc.disable()  # there are no cycles here, but many objects
    arrivals: _Arrivals = []
    while viewers and time.monotonic() < until:
        for file, _ in poll.poll(0.1):
            viewer = viewers[file]
            viewer.receive(arrivals)
            if viewer.has_ended:
                poll.unregister(viewer.connection)
                viewer.connection.close()
                del viewers[file]
    gc.enable()
    if viewers:
        sys.exit(f"{len(viewers)} viewers have not received the end of their run")
    return arrivals


class _Viewer:
    """One viewer: how far it has read, and whether that is in order."""

    def __init__(self, deltas: int, connection: socket.socket) -> None:
        self.connection = connection
        self.has_ended = False
        self._deltas = deltas
        self._last = 0
        self._rest = b""

    def receive(self, arrivals: _Arrivals) -> None:
        data = self.connection.recv(262_144)
        now = time.monotonic()
        if not data:
            sys.exit(f"a viewer was disconnected after {self._last} deltas")
        *frames, self._rest = (self._rest + data).split(b"\n\n")
        for text in frames:
            frame = _parse(text)
            if frame.dues:
                if frame.first != self._last + 1 and not frame.is_snapshot:
                    sys.exit(f"delta {frame.first} came after {self._last}")
                self._last = frame.first + len(frame.dues) - 1
                if not frame.is_snapshot:
                    arrivals.append((now, frame.dues))
            self.has_ended = self.has_ended or frame.is_end
        if self.has_ended and self._last != self._deltas:
            sys.exit(f"a viewer received {self._last} of {self._deltas} deltas")


class _Frame(NamedTuple):
    first: int
    dues: tuple[float, ...]  # when each delta in it was due
    is_snapshot: bool = False
    is_end: bool = False


@lru_cache(8_192)  # many viewers receive the same frame
def _parse(text: bytes) -> _Frame:
    """Read the deltas in a server-sent event, which the head of the response may precede."""
    if text.startswith(b"HTTP/1.1") and not text.startswith(b"HTTP/1.1 200"):
        sys.exit(f"the server answered {text[:500]!r}")
    data = text[text.find(b"data: ") + 6 :]
    is_snapshot = b'"snapshot":{' in data[:200]
    if is_snapshot or b'"type":"tool_args_delta"' in data[:200]:
        # What follows repeats the deltas, decoded.
        marks = re.findall(rb"(\d+)@(\d+\.\d+);", data.partition(b'"arguments":')[0])
        numbers = [int(mark[0]) for mark in marks]
        if numbers != list(range(numbers[0], numbers[-1] + 1) if numbers else []):
            sys.exit(f"the deltas of a frame are not in order: {numbers}")
        dues = tuple(float(mark[1]) for mark in marks)
        return _Frame(numbers[0] if numbers else 0, dues, is_snapshot)
    return _Frame(0, (), is_end=b'"type":"run_completed"' in data[:200])


def _begin(client: HTTPConnection, order: _Order) -> str:
    body = json.dumps({"message": msgspec.json.encode(order).decode()})
    client.request("POST", "/api/runs", body, {"content-type": "application/json"})
    response = client.getresponse()
    answer = json.loads(response.read())
    if response.status != 201:
        sys.exit(f"the server does not start a run: {answer}")
    return str(answer["run"])


def _request_events(port: int, run_id: str, buffer: int | None = None) -> socket.socket:
    """Connect a viewer, if wanted with a small receive buffer."""
    connection = socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.connect((_HOST, port))
    connection.sendall(f"GET /api/runs/{run_id}/events HTTP/1.1\r\nhost: {_HOST}\r\n\r\n".encode())
    return connection


if __name__ == "__main__":
    if sys.argv[1:2] == ["host"]:
        _serve(*sys.argv[2:])
    else:
        chapter = measure()
        print(as_text(chapter))
        sys.exit(1 if missed([chapter]) else 0)
