"""Serve an agent over SQLite to clients that disconnect at random, and report what that leaves.

Run by ``make soak-server``, for SOAK_SECONDS=600. Clients of all four HTTP APIs start runs, watch
them, decide and stop. They cut their connections at any byte: half of a request, in the middle of a
response, politely or with a reset. The model fails sometimes, too. Exit status 1

- if the server logs a traceback or an error, or stops answering;
- if its Python memory grows by more than 200 bytes for each finished run after a third of the time.
  Before that, short runs fill the caches of the server, which are bounded.
"""

import asyncio
import gc
import json
import linecache
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests import provider_streams as ps
from tests.provider_streams import Payload

from argstream import Agent, ModelRequest, open_store, tool
from argstream.models import as_model
from argstream.server import AgentServer, Limits, serve

MAX_GROWTH = 200.0  # bytes for each finished run
CLIENTS = 24
MAX_WATCHED = 3.0  # seconds
HOST = "127.0.0.1"
QUICK = "in one word"  # of a message: the model answers at once
FILLING = 2_400  # such runs fill the caches of the server, which are bounded
PROGRESS_SECONDS = 30.0
FORGET_SECONDS = 12.0  # until idle connections are closed, and recovery has looked twice
IDLE_SECONDS = 90.0  # how long the server may take until all runs are over
SHOWN = 12  # tracebacks, and lines of code that hold memory
ERRORS = re.compile(
    r"^(?:Traceback|ERROR|CRITICAL)|Exception ignored|never retrieved", re.MULTILINE
)
# Larger blocks are not counted: they are tables, whose size changes in steps at any time. That of
# Python's interned strings has 1 or 2 MB. A leak consists of many small objects.
LARGE = 64 * 1024
IGNORED = [tracemalloc.Filter(inclusive=False, filename_pattern=tracemalloc.__file__)]
KINDS = ("runs", "runs", "converse", "chat", "ag-ui", "fragment")


class Usage(NamedTuple):
    """What the server reports: traced bytes, and how many responses ended runs."""

    traced: int
    finished: int
    largest: list[str]  # where memory was allocated since the report before


_finished: Counter[str] = Counter()  # in the server: responses that ended a run


@tool
async def look(path: str) -> str:
    """Read a file."""
    await asyncio.sleep(0.01)
    return f"content of {path}"


@tool(requires_confirmation=True)
def send(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


async def model(request: ModelRequest) -> AsyncIterator[Payload]:
    """Call a tool or two, then answer. One response in 20 fails."""
    rng = Random(repr(request.messages))
    is_quick = QUICK in repr(request.messages[-1])
    is_last = is_quick or len(request.messages) > rng.choice((1, 2, 4))
    fails_after = rng.randint(0, 8) if rng.random() < 0.05 else None
    if is_last:
        pieces = [f"word{number} " for number in range(1 if is_quick else rng.randint(1, 40))]
        payloads = [*ps.text_block(0, *pieces), *ps.message_end("end_turn")]
    else:
        name, key = rng.choice((("look", "path"), ("look", "path"), ("send", "to")))
        text = json.dumps({key: "x" * rng.randint(1, 400)})
        pieces = [text[at : at + 20] for at in range(0, len(text), 20)]
        call = ps.tool_use(0, name, f"toolu_{rng.randrange(10**9)}")
        inputs = [ps.input_json(0, piece) for piece in pieces]
        payloads = [call, *inputs, ps.block_stop(0), *ps.message_end()]
    for number, payload in enumerate([ps.message_start(), *payloads]):
        if number == fails_after:
            _finished["failed"] += 1
            raise ConnectionError("the provider has reset the connection")
        yield payload
        if not is_quick:
            await asyncio.sleep(rng.choice((0, 0, 0.002, 0.02)))
    _finished["completed"] += is_last


def host(folder: str) -> None:
    """Serve until standard input ends. Each line of it asks for the usage."""
    before: tracemalloc.Snapshot | None = None

    def report() -> None:
        nonlocal before
        for _ in sys.stdin:
            linecache.clearcache()
            re.purge()
            gc.collect()
            largest = []
            snapshot = tracemalloc.take_snapshot().filter_traces(IGNORED)
            if before is not None:
                changes = snapshot.compare_to(before, "lineno")
                largest = [str(change) for change in changes[:SHOWN]]
            before = snapshot
            traced = sum(one.size for one in snapshot.traces if one.size < LARGE)
            print(json.dumps(Usage(traced, _finished.total(), largest)), flush=True)
        signal.raise_signal(signal.SIGTERM)

    rates = {"requests_per_minute": 10_000_000, "runs_per_minute": 10_000_000}
    limits = Limits(**rates, body_seconds=2, head_seconds=2, keep_alive_seconds=2)
    agent = Agent(as_model(model), [look, send], store=open_store(f"sqlite:{folder}/runs.db"))
    threading.Thread(target=report, daemon=True).start()
    app = AgentServer(agent, token=None, limits=limits)
    serve(app, port=0, on_listening=lambda url: print(url.rpartition(":")[2], flush=True))


class Server:
    """The server process."""

    def __init__(self, folder: str) -> None:
        self.log = Path(folder, "log")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "tracemalloc", __file__, "host", folder],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self.port = int(self._line())

    def usage(self) -> Usage:
        """Return what the server uses now."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return Usage(*json.loads(self._line()))

    def close(self) -> None:
        """Let the server shut down."""
        try:
            self._process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return line or sys.exit(f"the server failed:\n{self.log.read_text()[-3_000:]}")


class Client:
    """Sends requests, one connection for each, and cuts some of them."""

    def __init__(self, port: int, seed: int) -> None:
        self.rng = Random(seed)
        self.requests = self.cuts = 0
        self._port = port
        self._conversation = f"talk-{seed}"

    async def play(self, until: float) -> None:
        """Send requests until then."""
        while time.monotonic() < until:
            kind = self.rng.choice(KINDS)
            message = f"message {self.rng.randrange(10**9)}"
            if self.rng.random() < 0.5:
                self._conversation = f"talk-{self.rng.randrange(10**9)}"
            cuts = self.rng.random() < 0.7
            if kind == "runs":
                body: dict[str, Any] = {"message": message}
                answer = await self.request("POST", "/api/runs", body)
                if answer and "run" in answer:
                    await self._watch(answer["run"], cuts=cuts)
            elif kind == "converse":
                body = {"message": message, "conversation": self._conversation}
                await self.request("POST", "/api/converse", body, cuts=cuts)
            elif kind == "chat":
                parts = [{"type": "text", "text": message}]
                body = {"message": {"id": message, "role": "user", "parts": parts}}
                body["id"] = self._conversation
                await self.request("POST", "/api/chat", body, cuts=cuts)
                if self.rng.random() < 0.3:
                    path = f"/api/chat/{self._conversation}/stream"
                    await self.request("GET", path, cuts=True)
            elif kind == "ag-ui":
                said = {"id": message, "role": "user", "content": message}
                body = {"threadId": self._conversation, "runId": message, "messages": [said]}
                body |= {"tools": [], "context": [], "state": {}, "forwardedProps": {}}
                await self.request("POST", "/api/ag-ui", body, cuts=cuts)
            else:
                await self.request("POST", "/api/runs", {"message": message}, is_fragment=True)

    async def fill(self) -> None:
        """Fill the caches of the server with short runs."""
        for number in range(FILLING // CLIENTS):
            await self.request("POST", "/api/converse", {"message": f"message {number} {QUICK}"})

    async def _watch(self, run: str, *, cuts: bool) -> None:
        path = f"/api/runs/{run}"
        await self.request("GET", f"{path}/events", cuts=cuts)
        if self.rng.random() < 0.1:
            await self.request("POST", f"{path}/stop", {})
        if self.rng.random() < 0.5:
            await self.request("GET", f"{path}/events?after={self.rng.randrange(20)}", cuts=True)
        await self.decide(run)

    async def decide(self, run: str) -> None:
        """Decide on all pending calls of a run."""
        shown = await self.request("GET", f"/api/runs/{run}")
        for pending in (shown or {}).get("pending", ()):
            word = {"decision": self.rng.choice(("approve", "deny")), "digest": pending["digest"]}
            body = {"decisions": {pending["call_id"]: word}}
            await self.request("POST", f"/api/runs/{run}/decisions", body)

    async def request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        cuts: bool = False,
        is_fragment: bool = False,
    ) -> dict[str, Any] | None:
        """Send a request, or a fragment of it. Return the JSON of the whole response."""
        text = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
        data = head.encode() + text
        if is_fragment:
            data = data[: self.rng.randint(0, len(data))]
        cut_after = self.rng.choice((0, 1, 200, 1_000, 5_000, 20_000)) if cuts else None
        self.requests += 1
        received = b""
        reader, writer = await asyncio.open_connection(HOST, self._port)
        try:
            writer.write(data)
            if is_fragment:
                await asyncio.sleep(self.rng.choice((0, 0, 0.05)))
                self._cut(writer)
                return None
            async with asyncio.timeout(MAX_WATCHED):  # a paused run has no end
                while cut_after is None or len(received) <= cut_after:
                    piece = await reader.read(self.rng.choice((100, 65_536)))
                    if not piece:
                        return self._parse(received)
                    received += piece
            self._cut(writer)
        except TimeoutError:
            self._cut(writer)
        except ConnectionError:
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        return None

    def _cut(self, writer: asyncio.StreamWriter) -> None:
        """Make the connection end with a reset, in half of the cases."""
        self.cuts += 1
        if self.rng.random() < 0.5:
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    @staticmethod
    def _parse(response: bytes) -> dict[str, Any] | None:
        head, _, text = response.partition(b"\r\n\r\n")
        status = int(head.split(maxsplit=2)[1]) if head else 0
        if not 200 <= status < 500:
            sys.exit(f"the server answered {response[:1_000]!r}")
        if b"application/json" not in head:
            return None
        value = json.loads(text)
        return value if isinstance(value, dict) else {"items": value}


async def _play(server: Server, seconds: float, seed: int, *, fills: bool) -> str:
    """Let clients play, then decide on what is pending, until no run is in progress."""
    clients = [Client(server.port, seed + number) for number in range(CLIENTS)]
    if fills:
        await asyncio.gather(*(client.fill() for client in clients))
    until = time.monotonic() + seconds
    playing = asyncio.gather(*(client.play(until) for client in clients))
    while not playing.done():
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(playing), PROGRESS_SECONDS)
        left = max(0.0, until - time.monotonic())
        print(f"{sum(one.requests for one in clients):,} requests, {left:.0f} s left", flush=True)
    await playing
    await _settle(clients[0])
    requests, cuts = sum(one.requests for one in clients), sum(one.cuts for one in clients)
    return f"{requests:,} requests, {cuts:,} of them cut"


async def _settle(client: Client) -> None:
    until = time.monotonic() + IDLE_SECONDS
    while time.monotonic() < until:
        paused = await client.request("GET", "/api/runs?status=paused&limit=1000")
        for run in (paused or {}).get("items", ()):
            await client.decide(run["run"])
        running = await client.request("GET", "/api/runs?status=running&limit=1000")
        if not (paused or {}).get("items") and not (running or {}).get("items"):
            await asyncio.sleep(FORGET_SECONDS)
            return
        await asyncio.sleep(0.5)
    sys.exit(f"runs are still in progress after {IDLE_SECONDS:.0f} s")


def main() -> None:
    """Measure the server, and exit with 1 if it leaks or logs an error."""
    seconds = float(os.environ.get("SOAK_SECONDS", "600"))
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        try:
            print("warm-up:", asyncio.run(_play(server, seconds / 3, 0, fills=True)))
            before = server.usage()
            print("measured:", asyncio.run(_play(server, seconds * 2 / 3, 1_000, fills=False)))
            after = server.usage()
        finally:
            server.close()
        log = server.log.read_text(errors="replace")
    runs = after.finished - before.finished
    growth = (after.traced - before.traced) / max(1, runs)
    errors = len(ERRORS.findall(log))
    print(f"{runs:,} runs finished. Traced growth for each: {growth:.0f} B, at most {MAX_GROWTH:g}")
    print(f"{errors} errors in the log of the server")
    if growth > MAX_GROWTH:
        print(*after.largest, sep="\n")
    if errors:
        print(log[:10_000])
    sys.exit(growth > MAX_GROWTH or errors > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["host"]:
        host(sys.argv[2])
    else:
        main()
