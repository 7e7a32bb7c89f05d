"""A stream over ASGI: sent until it is over, nobody is there, or nobody reads."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from starlette.types import Message

from argstream.events import RunCompleted, RunStarted, TextDelta
from argstream.server.channels import Channels
from argstream.server.streams import EventStream
from argstream.stores import MemoryStore
from tests.server.watching import RUN, Counting, Feeding, frames_of

GET = {"type": "http", "method": "GET"}


class Client:
    """The other side of a stream: takes what is sent, until it does not."""

    def __init__(self, store: MemoryStore) -> None:
        self.feeding = Feeding(store)
        self.channels = Channels(store)
        self.sent: list[Message] = []
        self.closed = 0
        self.takes = 1_000  # messages
        self.leaves = asyncio.Event()
        self.failure: Exception | None = None
        self.aborted = 0

    async def stream(self, **settings: Any) -> EventStream:
        viewer = await self.channels.watch(RUN, "counting", Counting)
        return EventStream(viewer, {"x-run": RUN}, self._note_closed, **settings)

    def _note_closed(self) -> None:
        self.closed += 1

    def abort(self) -> None:
        self.aborted += 1

    async def send(self, message: Message) -> None:
        if self.failure is not None:
            raise self.failure
        if len(self.sent) == self.takes:
            await asyncio.Event().wait()
        self.sent.append(message)

    async def receive(self) -> Message:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def has(self, count: int) -> None:
        """Wait until so much was sent."""
        while len(self.sent) < count:
            await asyncio.sleep(0)


def play(course: Coroutine[Any, Any, None]) -> None:
    async def played() -> None:
        async with asyncio.timeout(10):
            await course
        for _ in range(10):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(played())


async def begun() -> Client:
    client = Client(MemoryStore())
    await client.feeding.write(RunStarted(RUN, "Go"))
    return client


def test_a_stream_is_sent_to_the_end_of_its_run() -> None:
    async def course() -> None:
        client = await begun()
        stream = await client.stream()
        sending = asyncio.create_task(stream(GET, client.receive, client.send))
        await client.has(2)
        await client.feeding.write(TextDelta("Hello", 0), RunCompleted("Hello", run_id=RUN))
        await sending
        head, *_, last = client.sent
        headers = dict(head["headers"])
        assert headers[b"content-type"] == b"text/event-stream; charset=utf-8"
        assert headers[b"cache-control"] == b"no-cache"
        assert headers[b"x-accel-buffering"] == b"no"
        assert headers[b"x-run"] == RUN.encode()
        assert b"content-length" not in headers
        assert last == {"type": "http.response.body", "body": b"", "more_body": False}
        names = [frame.event.type for frame in frames_of(client.body)]
        assert names == ["run_snapshot", "text_delta", "run_completed"]
        assert client.closed == 1

    play(course())


def test_it_ends_when_the_client_goes_away() -> None:
    async def course() -> None:
        client = await begun()
        stream = await client.stream()
        sending = asyncio.create_task(stream(GET, client.receive, client.send))
        await client.has(2)
        client.leaves.set()
        await sending
        assert client.closed == 1

    play(course())


def test_what_is_long_is_not_sent_on_to_nobody() -> None:
    async def course() -> None:
        client = Client(MemoryStore())
        await client.feeding.write(RunStarted(RUN, "Go"), TextDelta("x" * 3_000_000, 0))
        stream = await client.stream()
        sending = asyncio.create_task(stream(GET, client.receive, client.send))
        await client.has(3)
        client.leaves.set()
        await sending
        assert len(client.sent) < 20

    play(course())


def test_some_servers_say_so_with_an_error() -> None:
    async def course() -> None:
        client = await begun()
        client.failure = BrokenPipeError("gone")
        await (await client.stream())(GET, client.receive, client.send)
        assert client.closed == 1

    play(course())


@pytest.mark.parametrize("takes", [0, 1])
def test_whose_connection_takes_nothing_for_long_is_cut_off(takes: int) -> None:
    async def course() -> None:
        client = await begun()
        client.takes = takes
        stream = await client.stream(stalled_seconds=0.05)
        scope = {**GET, "extensions": {"argstream.abort": client.abort}}
        began = asyncio.get_running_loop().time()
        await stream(scope, client.receive, client.send)
        assert asyncio.get_running_loop().time() - began > 0.05
        assert client.aborted == client.closed == 1

    play(course())


def test_one_that_has_nothing_to_read_is_not() -> None:
    async def course() -> None:
        client = await begun()
        stream = await client.stream(stalled_seconds=0.02)
        scope = {**GET, "extensions": {"argstream.abort": client.abort}}
        sending = asyncio.create_task(stream(scope, client.receive, client.send))
        await client.has(2)
        await asyncio.sleep(0.1)
        assert not sending.done()
        await client.feeding.write(RunCompleted("", run_id=RUN))
        await sending
        assert client.aborted == 0

    play(course())


def test_a_head_is_all_that_head_asks_for() -> None:
    async def course() -> None:
        client = await begun()
        await (await client.stream())({**GET, "method": "HEAD"}, client.receive, client.send)
        assert client.sent[0]["status"] == 200
        assert client.body == b""
        assert client.closed == 1

    play(course())


def test_one_that_is_never_sent_can_be_closed() -> None:
    async def course() -> None:
        client = await begun()
        stream = await client.stream()
        stream.close()
        assert client.closed == 1

    play(course())
