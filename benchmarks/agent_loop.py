"""The agent: what a run adds to the stream of its model, with each store, and calls per delta."""

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable
from functools import partial
from typing import Any

from argstream import (
    Agent,
    Event,
    MemoryStore,
    ModelRequest,
    RunCompleted,
    ScriptedModel,
    make_check,
    open_store,
    stream,
    tool,
)
from argstream.runs import Store
from argstream.server import AgentServer
from argstream.testing import CallTool, Reply
from report import Cell, Chapter, Table, microseconds, number, size_name, times
from stores import MEMORY, REDIS, SQLITE, temporary_stores
from timing import Job, calls_per_delta, cpu_time, exhaust, progress, take_turns, versions
from workloads import anthropic_bytes, anthropic_call, anthropic_text, chunks, code, one_string

_STREAM, _AGENT = "stream()", "run_stream()"
_MOST_OVER_STREAM = 2.0
_MOST_OVER_NO_STORE = {MEMORY: 1.5, SQLITE: 1.5, REDIS: None}

_BURST, _PACED = 0.002, 0.03
"""Seconds between deltas: as fast as a burst, and as a real model."""
# Python function calls per delta. The counts at 2 ms vary a little with the batches that form.
_BUDGETS = {
    ("agent", _BURST): 245.0,
    ("agent", _PACED): 245.0,
    ("server", _BURST): 290.0,
    ("server", _PACED): 340.0,
    ("deltas per frame", _PACED): 1 / 0.6,  # a longer flush interval would only look cheap
}
_MOST_STREAM_CALLS = 14.0


def measure(*, quick: bool = False) -> Chapter:
    """Measure CPU time, then count calls."""
    return Chapter(
        "The agent",
        "CPU time per delta of `stream()` and of a run of the same bytes with one tool and two "
        "turns, and what a store adds. The second table counts Python function calls per delta, "
        "with deltas 2 ms apart (a burst) and 30 ms apart (a model). The server has one viewer.",
        [_times(quick=quick), _calls(quick=quick)],
        versions("anyio", "starlette"),
    )


@tool
def write_file(path: str, content: str) -> str:
    """Write a file. This one writes nothing."""
    return f"{path}: {len(content)} characters"


def _turns(size: int) -> dict[str, list[bytes]]:
    """Return what the model writes, by name: one network chunk for each delta."""
    call, text = chunks(one_string(size)), chunks(code(random.Random(2), size))
    return {
        f"a call, {size_name(size)}": anthropic_bytes(anthropic_call(call)),
        f"a text, {size_name(size)}": anthropic_bytes(anthropic_text(text)),
    }


def _times(*, quick: bool) -> Table:
    turns = _turns(10_000 if quick else 100_000)
    jobs = []
    with temporary_stores() as stores:
        opened = {name: open_store(where()) for name, where in stores.items()}
        for turn, data in turns.items():
            ways = {_STREAM: _opener(data), _AGENT: _runs(data)}
            ways |= {name: _runs(data, store) for name, store in opened.items()}
            jobs += [
                Job(way, turn, partial(_read, way, open_, len(data))) for way, open_ in ways.items()
            ]
        found = take_turns(jobs, rounds=1 if quick else 7, most_seconds=8.0)
        for store in opened.values():
            asyncio.run(store.aclose())
    rows: list[list[Cell]] = []
    for turn in turns:
        alone, agent = found[_STREAM, turn], found[_AGENT, turn]
        costs = [microseconds(alone), microseconds(agent), times(agent / alone, _MOST_OVER_STREAM)]
        with_store = [
            times(found[name, turn] / agent, at_most)
            for name, at_most in _MOST_OVER_NO_STORE.items()
        ]
        rows.append([turn, *costs, *with_store])
    header = ["what is written", "stream(), µs", "run_stream(), µs", "ratio"]
    return Table([*header, *(f"+ {name}" for name in _MOST_OVER_NO_STORE)], rows)


def _opener(data: list[bytes]) -> Callable[[], AsyncIterable[Event]]:
    """Return what reads the turn alone, checked by the schema of the tool as in a run."""
    judge = make_check([write_file.spec])
    return lambda: stream(_arriving(data), check=judge)


def _runs(data: list[bytes], store: Store | None = None) -> Callable[[], AsyncIterable[Event]]:
    """Return what starts a run in which the model writes these bytes."""
    last = anthropic_bytes(anthropic_text(["Done."]))

    def respond(request: ModelRequest) -> AsyncIterator[bytes]:
        return _arriving(data if len(request.messages) == 1 else last)

    return partial(Agent(respond, [write_file], store=store).run_stream, "go")


async def _arriving(data: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in data:
        yield chunk


def _read(way: str, open_: Callable[[], AsyncIterable[Event]], deltas: int) -> float:
    async def follow() -> None:
        last = None
        async for event in open_():
            last = event
        if way != _STREAM and not isinstance(last, RunCompleted):
            sys.exit(f"a run with {way} ended with {last}")

    return cpu_time(lambda: asyncio.run(follow()), deltas)


# Calls per delta


def _calls(*, quick: bool) -> Table:
    rows: list[list[Cell]] = [
        ["stream(bytes)", number(calls_per_delta(_read_bytes, 300), _MOST_STREAM_CALLS), "–", "–"]
    ]
    paces = {_BURST: 50, _PACED: 20} if quick else {_BURST: 300, _PACED: 100}
    found = {pause: _count(pause, deltas) for pause, deltas in paces.items()}
    for name in ("agent", "server", "deltas per frame"):
        counts = [number(found[pause][name], _BUDGETS.get((name, pause))) for pause in paces]
        rows.append([name, "–", *counts])
    return Table(["calls per delta", "no pause", "2 ms apart", "30 ms apart"], rows)


def _count(pause: float, deltas: int) -> dict[str, float]:
    """Count the calls of an agent and of a server with one viewer, without those of the model."""
    progress(f"  counting calls with deltas {pause * 1000:.0f} ms apart")
    sent = b""

    def serve(deltas: int) -> Callable[[], None]:
        def work() -> None:
            nonlocal sent
            sent = asyncio.run(_view(AgentServer(_scripted_agent(pause, deltas), token=None)))

        return work

    model = calls_per_delta(lambda n: lambda: asyncio.run(_exhaust_model(pause, n)), deltas)
    agent = calls_per_delta(lambda n: lambda: asyncio.run(_exhaust_run(pause, n)), deltas)
    server = calls_per_delta(serve, deltas)
    per_frame = 2 * deltas / sent.count(b"\n\n")
    return {"agent": agent - model, "server": server - model, "deltas per frame": per_frame}


def _read_bytes(deltas: int) -> Callable[[], None]:
    pieces = ['{"path": "a.py", "content": "', *["word "] * deltas, '"}']
    data = anthropic_bytes(anthropic_call(pieces))
    return lambda: exhaust(stream(data, protocol="anthropic"))


def _scripted_model(pause: float, deltas: int) -> ScriptedModel:
    call = CallTool("write_file", {"path": "a.py", "content": "word " * deltas})
    return ScriptedModel(Reply(call, piece_size=5), "done", delay=pause)


def _scripted_agent(pause: float, deltas: int) -> Agent:
    return Agent(_scripted_model(pause, deltas), [write_file], store=MemoryStore())


async def _exhaust_model(pause: float, deltas: int) -> None:
    async for _ in _scripted_model(pause, deltas).stream(ModelRequest(messages=())):
        pass


async def _exhaust_run(pause: float, deltas: int) -> None:
    async for _ in _scripted_agent(pause, deltas).run_stream("go"):
        pass


async def _view(app: AgentServer) -> bytes:
    """Start a run with an ASGI request; return the server-sent events that its viewer gets."""
    body, sent = json.dumps({"message": "go"}).encode(), bytearray()
    requests = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        if request := next(requests, None):
            return request
        await asyncio.sleep(3600)  # the viewer stays
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.extend(message.get("body", b""))

    headers = {"host": "127.0.0.1", "content-type": "application/json"}
    headers |= {"accept": "text/event-stream", "content-length": str(len(body))}
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    request = {"method": "POST", "path": "/api/runs", "query_string": b"", "headers": fields}
    http = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http"}
    scope = {**http, **request, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
    await app(scope, receive, send)
    return bytes(sent)
