"""One run: what the agent, a store and the server add to the stream of the model.

Function calls of a delta, how long it waits, the store jobs of an approval, and the memory of a run
and of a viewer. CPU time is measured in the server under load.
"""

import asyncio
import gc
import json
import random
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine
from selectors import SelectSelector
from typing import Any

import agent_peers
from argstream import Agent, ModelRequest, ScriptedModel, ToolArgsDelta, stream, tool
from argstream.runs import MemoryStore
from argstream.server import AgentServer, Limits
from argstream.testing import CallTool, Reply
from report import Cell, Chapter, Table, at_least, milliseconds, number
from timing import calls_per_delta, exhaust, exhaust_async, progress
from workloads import anthropic_bytes, anthropic_call, anthropic_text, write_file

_BURST, _PACED = 0.002, 0.03  # seconds between deltas: of a burst, and of a real model
# Python function calls per delta. The counts at 2 ms vary a little with the batches that form.
_BUDGETS = {"agent": {_BURST: 60.0, _PACED: 100.0}, "server": {_BURST: 80.0, _PACED: 150.0}}
_MOST_STREAM_CALLS = 14.0
_LEAST_FRAMES = 0.6  # for each delta at 30 ms: a longer flush interval would only look cheap
_MOST_WAIT, _MOST_WRITES = 0.03, 34.0  # seconds for a flush, and writes per second
_MOST_JOBS, _MOST_READS = 4.0, 1.0  # of an approval
_MOST_RUN, _MOST_VIEWER = 30.0, 10.0  # kB


def measure(*, quick: bool = False) -> Chapter:
    """Count calls, waits, store jobs and memory; then measure other agents beside ours."""
    beside, peers = agent_peers.measure(quick=quick)
    return Chapter(
        "The agent",
        "The first table counts calls of Python functions with a memory store and one viewer. "
        "The second has the longest wait of a delta for its write, writes at 200 deltas per "
        "second, store jobs from an approval to the start of the tool, and memory by "
        "`tracemalloc`. The third has the cost that agents add to a model whose output is "
        "ready: a call of 20 kB in 4,000 deltas, a tool, a text. argstream and openai-agents read "
        "the events of OpenAI's client, and pydantic-ai its `FunctionModel`. LangGraph's model "
        "creates its chunks during the run, as LangChain's models do, or before it.",
        [_calls(quick=quick), _one_run(quick=quick), beside],
        peers,
    )


def _calls(*, quick: bool) -> Table:
    bare = number(calls_per_delta(_read_bytes, 300), _MOST_STREAM_CALLS)
    cells: dict[str, Cell] = {"stream(bytes)": bare}
    paces = {_BURST: 50, _PACED: 20} if quick else {_BURST: 300, _PACED: 100}
    found = {pause: _count(pause, deltas) for pause, deltas in paces.items()}
    for name, budgets in _BUDGETS.items():
        for pause, most in budgets.items():
            cells[f"{name}, {pause * 1000:.0f} ms"] = number(found[pause][name], most)
    cells["frames, 2 ms"] = number(found[_BURST]["frames"])
    cells["frames, 30 ms"] = at_least(found[_PACED]["frames"], _LEAST_FRAMES)
    return Table(["per delta", *cells], [["calls", *cells.values()]])


def _count(pause: float, deltas: int) -> dict[str, float]:
    """Count the calls of an agent and of a server with one viewer, without those of the model."""
    progress(f"  counting calls with deltas {pause * 1000:.0f} ms apart")
    frames = 0

    def agent_of(deltas: int) -> Agent:
        return Agent(_scripted_model(pause, deltas), [write_file], store=MemoryStore())

    async def serve(deltas: int) -> None:
        nonlocal frames
        app = AgentServer(agent_of(deltas), token=None)
        frames = (await _request(app, "/api/runs", _GO, _EVENTS)).count(b"\n\n")

    def each(work: Callable[[int], Coroutine[Any, Any, object]]) -> float:
        return calls_per_delta(lambda n: lambda: asyncio.run(work(n)), deltas)

    request = ModelRequest(messages=())
    model = each(lambda n: exhaust_async(_scripted_model(pause, n).stream(request)))
    agent = each(lambda n: exhaust_async(agent_of(n).run_stream("go")))
    server = each(serve)
    return {"agent": agent - model, "server": server - model, "frames": frames / deltas}


def _read_bytes(deltas: int) -> Callable[[], None]:
    pieces = ['{"path": "a.py", "content": "', *["word "] * deltas, '"}']
    data = anthropic_bytes(anthropic_call(pieces))
    return lambda: exhaust(stream(data, protocol="anthropic"))


def _scripted_model(pause: float, deltas: int) -> ScriptedModel:
    call = CallTool("write_file", {"path": "a.py", "content": "word " * deltas})
    return ScriptedModel(Reply(call, piece_size=5), "done", delay=pause)


def _one_run(*, quick: bool) -> Table:
    wait, _ = _flushes([random.Random(8).uniform(0, 0.06) for _ in range(400)])
    _, writes = _flushes([0.005] * 2_000)
    jobs = asyncio.run(_approval_jobs())
    reads = jobs.count("_page")
    run, first, further = asyncio.run(_memory(20 if quick else 200))
    cells: dict[str, Cell] = {
        "longest wait, ms": milliseconds(wait, _MOST_WAIT),
        "writes per s": number(writes, _MOST_WRITES),
        "jobs of an approval": number(len(jobs) - reads, _MOST_JOBS),
        "log reads": number(reads, _MOST_READS),
        "an open run": number(run, _MOST_RUN, " kB"),
        "its first viewer": number(first, unit=" kB"),
        "a further viewer": number(further, _MOST_VIEWER, " kB"),
    }
    return Table(["one run", *cells], [["", *cells.values()]])


class _JumpingClock(SelectSelector):
    """Lets the clock of an event loop jump to the next timer: pauses are exact and take no time."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.now += timeout or 0.0
        return super().select(None if timeout is None else 0)


def _flushes(pauses: list[float]) -> tuple[float, float]:
    """Return the longest time from a delta of the model to its write, and the writes per second."""
    clock = _JumpingClock()
    loop = asyncio.SelectorEventLoop(clock)
    loop.time = lambda: clock.now  # type: ignore[method-assign]
    sent: list[float] = []  # when each delta was sent
    waits: list[float] = []
    writes = 0

    class Watched(MemoryStore):
        async def _append(self, lease: Any, batch: Any) -> None:
            nonlocal writes
            deltas = [one.event for one in batch.records if isinstance(one.event, ToolArgsDelta)]
            writes += bool(deltas)
            for _ in range(sum(event.delta.count(";") for event in deltas)):
                waits.append(clock.now - sent[len(waits)])
            await super()._append(lease, batch)

    async def respond(request: ModelRequest) -> AsyncIterator[bytes]:
        if len(request.messages) > 1:
            yield b"".join(anthropic_bytes(anthropic_text(["Done."])))
            return
        pieces = ['{"path": "a.py", "content": "', *[";"] * len(pauses), '"}']
        for event in anthropic_bytes(anthropic_call(pieces)):
            if b'";"' in event:
                await asyncio.sleep(pauses[len(sent)])
                sent.append(clock.now)
            yield event

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(exhaust_async(Agent(respond, [write_file], store=Watched()).run_stream("go")))
    if len(waits) != len(sent):
        sys.exit(f"{len(waits)} of {len(sent)} deltas were written")
    return max(waits), writes / (sent[-1] - sent[0])


class _JobStore(MemoryStore):
    """Keeps the names of what its backend is asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name in ("_create", "_change", "_append", "_load", "_list", "_page"):
            self.jobs.append(name)
        return super().__getattribute__(name)


async def _approval_jobs() -> list[str]:
    """Return the jobs of the store from the request that approves a call to the start of it."""
    store, jobs = _JobStore(), asyncio.get_running_loop().create_future()

    @tool(requires_confirmation=True)
    async def publish(version: str) -> str:
        """Publish a release."""
        jobs.set_result([*store.jobs])
        return version

    model = ScriptedModel(CallTool("publish", {"version": "2.0"}), "Done.")
    app = AgentServer(Agent(model, [publish], store=store), token=None)
    run_id = json.loads(await _request(app, "/api/runs", _GO))["run"]
    while not (pending := (await store.snapshot(run_id)).pending):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)  # the driver looks for decisions once more after it has paused
    store.jobs.clear()
    decision = {"decision": "approve", "digest": pending[0].digest}
    body = {"decisions": {pending[0].call_id: decision}}
    await _request(app, f"/api/runs/{run_id}/decisions", body)
    found: list[str] = await jobs
    return found


async def _memory(many: int) -> tuple[float, float, float]:
    """Return the kB of an open run, of its first viewer and of a further one."""
    silence = asyncio.Event()
    pieces = ['{"path": "a.py", "content": "', *["word "] * 20]
    sent = anthropic_bytes(anthropic_call(pieces))[:-3]  # the call stays open

    async def respond(_: ModelRequest) -> AsyncIterator[bytes]:
        for event in sent:
            yield event
            await asyncio.sleep(0)
        await silence.wait()

    numbers = {"requests_per_minute": 10**6, "runs_per_minute": 10**6}
    limits = Limits(**numbers, max_running_per_client=1_000)
    app = AgentServer(Agent(respond, [write_file], store=MemoryStore()), token=None, limits=limits)
    viewers: list[asyncio.Task[None]] = []

    async def grown(paths: list[str], before: int | None = None) -> float:
        """Return by how many kB each viewer of these paths makes the process grow."""
        before = tracemalloc.get_traced_memory()[0] if before is None else before
        viewers.extend(asyncio.create_task(_view(app, path)) for path in paths)
        await asyncio.sleep(1)
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / many / 1e3

    async def start(runs: int) -> list[str]:
        answers = [await _request(app, "/api/runs", _GO) for _ in range(runs)]
        return [f"/api/runs/{json.loads(answer)['run']}/events" for answer in answers]

    tracemalloc.start()
    await grown(await start(5))  # load modules, fill caches
    before = tracemalloc.get_traced_memory()[0]
    paths = await start(many)
    run = await grown([], before)
    first, further = await grown(paths), await grown(paths[:1] * many)
    tracemalloc.stop()
    return run, first, further


_GO, _EVENTS = {"message": "go"}, (b"accept", b"text/event-stream")
_HEADERS = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
_HTTP: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "scheme": "http"}
_HTTP |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
_HTTP |= {"http_version": "1.1", "query_string": b""}


async def _request(app: AgentServer, path: str, body: object, *more: tuple[bytes, bytes]) -> bytes:
    """Send a POST request to an ASGI app. Return what is sent back."""
    sent = bytearray()
    data = json.dumps(body).encode()
    requests = iter([{"type": "http.request", "body": data, "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(requests, None) or await _stay()

    async def send(message: Any) -> None:
        sent.extend(message.get("body", b""))

    fields = [*_HEADERS, *more, (b"content-length", str(len(data)).encode())]
    await app({**_HTTP, "method": "POST", "path": path, "headers": fields}, receive, send)
    return bytes(sent)


async def _view(app: AgentServer, path: str) -> None:
    """Watch a run and keep nothing of it."""
    await app({**_HTTP, "method": "GET", "path": path, "headers": _HEADERS}, _stay, _discard)


async def _stay() -> dict[str, Any]:
    await asyncio.sleep(3600)
    return {"type": "http.disconnect"}


async def _discard(_: Any) -> None:
    pass
