"""Viewers of a run: over ASGI, where the test decides which viewer reads when, and over sockets.

``benchmarks/server_load.py`` has a thousand clients that do not read, in a separate process.
"""

import asyncio
import inspect
import logging
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from argstream import Agent
from argstream import events as ev
from argstream.errors import StoreError
from argstream.models import Reply, Say, ScriptedModel
from argstream.runs import Record
from argstream.server import AgentServer, Limits, Serving
from tests.server.raw import Asked, TroubledStore
from tests.server.talking import Client, content, eventually, folded
from tests.server.watching import RUN, Feeding, Watcher, frames_of

Logs = pytest.LogCaptureFixture
Patch = pytest.MonkeyPatch
PAUSE = ev.RunPaused(RUN, ())
END = ev.RunCompleted("done", run_id=RUN)
EVENTS = f"/api/runs/{RUN}/events"
CHAT = "/api/chat/conversation/stream"
LONG = "x" * 200_000  # three of these are more than the server keeps for a slow viewer


class World:
    def __init__(self, store: TroubledStore, **limits: Any) -> None:
        self.app = Asked(store=store, limits=Limits(**limits)).app
        self.store = store
        self.write = Feeding(store).write

    async def say(self, *texts: str) -> None:
        await self.write(*(ev.TextDelta(text, 0) for text in texts))

    async def watch(self, query: str = "", path: str = EVENTS) -> Watcher:
        """Return a viewer once it is being sent something."""
        watcher = Watcher(self.app, path + query)
        while not (watcher.messages or watcher.task.done()):
            await asyncio.sleep(0)
        return watcher


def in_world(
    store: type[TroubledStore] = TroubledStore, **limits: Any
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """Run an async test in a world, and check that it leaves no task behind."""

    def decorated(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        async def in_loop(**arguments: Any) -> None:
            world = World(store(), **limits)
            async with asyncio.timeout(50):
                await world.write(ev.RunStarted(RUN, "Go"))
                await test(world, **arguments)
                await world.app.aclose()
            for _ in range(20):
                await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        def run(**arguments: Any) -> None:
            asyncio.run(in_loop(**arguments))

        _, *parameters = inspect.signature(test).parameters.values()
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorated


def names(sent: bytes) -> list[str]:
    """The events that were sent: deltas by their text, all others by their type."""
    names: list[str] = []
    for event in map(content, frames_of(sent)):
        if isinstance(event, ev.RunSnapshot):
            names.append("snapshot")
        else:
            names.append(event.text if isinstance(event, ev.TextDelta) else event.type)
    return names


@in_world()
async def test_all_viewers_are_sent_the_same_objects(world: World) -> None:
    first, second, third = [await world.watch() for _ in range(3)]
    await first.has(b'"snapshot"')
    await world.say("one")
    await first.has(b"one")
    late = await world.watch()
    await world.write(END)
    for watcher in (first, second, third, late):
        assert names(await watcher.all()) == ["snapshot", "one", "run_completed"]
        pieces = zip(watcher.sent, first.sent, strict=True)
        assert all(piece is shared for piece, shared in pieces)


@in_world()
async def test_first_delta_is_sent_at_once_and_later_ones_are_merged(world: World) -> None:
    watcher = await world.watch()
    began = asyncio.get_running_loop().time()
    for number in range(30):
        await world.say(f"{number} ")
        await asyncio.sleep(0.002)
    await world.write(END)
    _, first, *rest = names(await watcher.all())
    assert first == "0 "
    assert "".join(rest[:-1]) == "".join(f"{number} " for number in range(1, 30))
    took = asyncio.get_running_loop().time() - began
    assert len(rest) <= took / 0.05 + 2, "20 chunks per second"


@in_world()
async def test_comments_are_sent_during_silence(world: World, monkeypatch: Patch) -> None:
    watcher = await world.watch()
    await watcher.has(b'"snapshot"')
    loop = asyncio.get_running_loop()
    real = loop.time
    for number, passed in enumerate((15, 30), 1):
        monkeypatch.setattr(loop, "time", lambda passed=passed: real() + passed)
        await watcher.has(b": \n\n" * number)
    monkeypatch.undo()
    await world.write(END)
    assert names(await watcher.all()) == ["snapshot", "run_completed"]


@in_world()
async def test_viewer_resumes_after_a_seq_that_is_known_awaited_or_unknown(world: World) -> None:
    first = await world.watch()
    await world.say("one ")
    await first.has(b"one ")
    await world.say("two ")  # merged, so not sent at once; another process may have sent it
    late = await world.watch("?after=3")
    early = await world.watch("?after=1")
    unknown = await world.watch("?after=100000")  # of another log
    await world.write(END)
    assert names(await late.all()) == ["run_completed"]
    assert names(await early.all()) == ["one ", "two ", "run_completed"]
    assert names(await unknown.all()) == ["snapshot", "one ", "two ", "run_completed"]
    assert names(await first.all())[-1] == "run_completed"


@in_world()
async def test_viewer_that_missed_a_lot_gets_a_snapshot(world: World) -> None:
    await world.say(*(f"{number} " for number in range(1_100)))
    await world.write(END)
    assert names(await (await world.watch("?after=1")).all()) == ["snapshot"]
    assert "snapshot" not in names(await (await world.watch("?after=200")).all())


async def sent_to_slow_viewer(world: World, path: str = EVENTS) -> bytes:
    slow, quick = await world.watch(path=path), await world.watch(path=path)
    await slow.has(b"data")
    slow.may_read.clear()
    for number in range(5):
        await world.say(f"{number}{LONG}")
        await quick.has(b"%dx" % number)
    slow.may_read.set()
    await world.write(END)
    await quick.all()
    return await slow.all()


@in_world()
async def test_slow_viewer_gets_a_snapshot_and_the_rest(world: World) -> None:
    first, *others = names(await sent_to_slow_viewer(world))
    assert first == "snapshot"
    assert "snapshot" in others
    assert len(others) < 5


@in_world()
async def test_slow_viewer_of_a_format_without_snapshots_is_asked_to_resume(world: World) -> None:
    sent = await sent_to_slow_viewer(world, CHAT)
    assert b"the client is too far behind; resume the stream" in sent
    assert sent.endswith(b"data: [DONE]\n\n")


@in_world()
async def test_as_much_is_kept_as_an_opening_is_long(world: World) -> None:
    await world.say("x" * 2_000_000)
    assert "snapshot" not in names(await sent_to_slow_viewer(world))[1:]


@in_world()
async def test_viewer_that_joins_after_a_pause_is_not_sent_the_old_opening(world: World) -> None:
    held, other = await world.watch(path=CHAT), await world.watch(path=CHAT)
    await held.has(b"start")
    held.may_read.clear()  # keeps the channel open
    await world.write(PAUSE)
    await other.all()
    await world.write(ev.RunResumed(RUN), ev.TextDelta("two", 0))
    await asyncio.sleep(0.1)  # the channel may take these before the next viewer joins
    late = await world.watch(path=CHAT)
    await world.write(END)
    sent = await late.all()
    assert b"two" in sent
    assert b'"finishReason":"stop"' in sent
    held.leaves.set()
    await held.task


@in_world(max_viewers=1)
async def test_client_that_disconnects_is_sent_no_more(world: World) -> None:
    broken = Watcher(world.app)
    broken.failure = BrokenPipeError("gone")  # some servers report it with an error
    await broken.task
    await world.say("x" * 3_000_000)
    watcher = Watcher(world.app)
    while len(watcher.messages) < 3:
        await asyncio.sleep(0)
    watcher.leaves.set()
    await watcher.task
    assert len(watcher.messages) < 20


@pytest.mark.parametrize("has_read", [False, True])
@in_world(stalled_seconds=0.1, max_viewers=1)
async def test_connection_that_accepts_nothing_is_aborted(world: World, has_read: bool) -> None:
    watcher = Watcher(world.app)
    if has_read:
        await watcher.has(b'"snapshot"')
    watcher.may_read.clear()
    await world.say("one")
    began = asyncio.get_running_loop().time()
    await watcher.task
    assert asyncio.get_running_loop().time() - began > 0.05
    assert watcher.aborted == 1
    assert (await world.watch()).messages[0]["status"] == 200  # there is room again


@in_world(stalled_seconds=0.02)
async def test_viewer_with_nothing_to_read_is_not_aborted(world: World) -> None:
    watcher = await world.watch()
    await asyncio.sleep(0.1)
    assert not watcher.task.done()
    await world.write(END)
    await watcher.all()
    assert watcher.aborted == 0


@in_world(max_viewers=1)
async def test_head_request_gets_the_headers_only(world: World) -> None:
    for _ in range(2):
        watcher = Watcher(world.app, method="HEAD")
        assert await watcher.all() == b""
        head = dict(watcher.messages[0]["headers"])
        assert head[b"content-type"] == b"text/event-stream; charset=utf-8"
        assert head[b"cache-control"] == b"no-cache"
        assert head[b"x-accel-buffering"] == b"no"
        assert head[b"x-argstream-run"] == RUN.encode()
        assert b"content-length" not in head


@in_world()
async def test_viewers_are_asked_to_reconnect_when_the_server_drains(world: World) -> None:
    watcher = await world.watch()
    await watcher.has(b'"snapshot"')
    await world.app.drain()
    goodbye = b"retry: 1000\n: the server is shutting down; reconnect\n\n"
    assert (await watcher.all()).endswith(goodbye)
    assert (await (await world.watch()).all()).endswith(b"reconnect\n\n")


class FailingStore(TroubledStore):
    """A store that raises ``failure`` to its followers, and whose ``snapshot`` may be held."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self.opens = asyncio.Event()
        self.opens.set()

    async def follow_pages(
        self, run_id: str, after: int = 0, _receive: object = None
    ) -> AsyncGenerator[Sequence[Record], None]:
        async with aclosing(super().follow_pages(run_id, after)) as pages:
            async for page in pages:
                if self.failure is not None:
                    raise self.failure
                yield page

    async def snapshot(self, run_id: str) -> ev.RunSnapshot:
        await self.opens.wait()
        return await super().snapshot(run_id)


@pytest.mark.parametrize("error", [StoreError("the disk is gone"), ValueError("our fault")])
@in_world(FailingStore)
async def test_failing_log_ends_its_streams(world: World, error: Exception, caplog: Logs) -> None:
    assert isinstance(world.store, FailingStore)
    world.store.failure = error
    with caplog.at_level(logging.WARNING, "argstream.server"):
        first, held = await world.watch(), await world.watch()
        await held.has(b'"snapshot"')
        held.may_read.clear()
        await world.say("one")
        assert b"cannot be read at the moment; reconnect" in await first.all()
        world.store.failure = None
        again = await world.watch("?after=1")  # while another viewer is still being told
        held.may_read.set()
        await held.all()
        await world.write(END)
        assert names(await again.all()) == ["one", "run_completed"]
    assert str(error) in caplog.text


@in_world()
async def test_deleted_run_ends_its_streams_and_is_404_afterwards(world: World) -> None:
    watcher = await world.watch()
    await world.write(PAUSE)
    await world.store.delete(RUN)
    assert b"reconnect" in await watcher.all()
    assert (await world.watch()).messages[0]["status"] == 404


@in_world(FailingStore, max_viewers=2)
async def test_viewer_that_is_cancelled_while_opening_does_not_affect_others(world: World) -> None:
    assert isinstance(world.store, FailingStore)
    world.store.opens.clear()
    first, second = Watcher(world.app), Watcher(world.app)
    await asyncio.sleep(0.01)
    first.task.cancel()
    await asyncio.wait([first.task])
    world.store.opens.set()
    await second.has(b'"snapshot"')
    await world.write(END)
    assert names(await second.all())[-1] == "run_completed"


# Sockets that are not read

TEXT = "".join(f"{number:09d} " for number in range(300_000))


@contextmanager
def long_run(**limits: Any) -> Iterator[tuple[Serving, Client, str]]:
    model = ScriptedModel(Reply(Say(TEXT), piece_size=10_000), delay=0.001)
    server = AgentServer(Agent(model, store="memory:"), token=None, limits=Limits(**limits))
    with Serving(server) as serving, httpx.Client(base_url=serving.url, timeout=30) as http:
        client = Client(http)
        yield serving, client, client.start()


@contextmanager
def stalled(client: Client, run_id: str, what: str, count: int) -> Iterator[list[socket.socket]]:
    """Connections that request a stream and do not read it."""
    where = urlsplit(client.url)
    with ExitStack() as stack:
        connections = [stack.enter_context(socket.socket()) for _ in range(count)]
        for connection in connections:
            # Small before connecting, so that the server must keep what is not read.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.connect((where.hostname, where.port))
            request = f"GET /api/runs/{run_id}/{what} HTTP/1.1\r\nhost: {where.netloc}\r\n\r\n"
            connection.sendall(request.encode())
        yield connections


def is_reset(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


@pytest.mark.bulk
@pytest.mark.parametrize("what", ["events", "log"])
def test_connection_that_is_not_read_is_reset_and_others_see_the_run(what: str) -> None:
    with long_run(stalled_seconds=0.5) as (_, client, run_id):
        if what == "log":
            client.until(run_id, "completed")
        with stalled(client, run_id, what, 20 if what == "events" else 1) as connections:
            blocks = folded(client.events(run_id)).blocks
            assert [block.text for block in blocks if isinstance(block, ev.TextSnapshot)] == [TEXT]
            for connection in connections:
                eventually(partial(is_reset, connection))


@pytest.mark.bulk
def test_write_buffer_of_an_unread_connection_is_bounded() -> None:
    with (
        long_run() as (serving, client, run_id),
        stalled(client, run_id, "events", 20),
    ):
        client.events(run_id)
        connections = list(serving._server.server_state.connections)
        waiting = [one.transport.get_write_buffer_size() for one in connections]
    assert sum(size > 0 for size in waiting) >= 20
    assert max(waiting) < 100_000
