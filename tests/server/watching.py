"""Runs that are written to a store by hand, and viewers of them over ASGI."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.types import ASGIApp, Message

from argstream.events import Event, RunPaused, RunResumed, RunStarted
from argstream.protocols.native import Frame
from argstream.runs import Lease, Record, Store
from argstream.wire import Broken, SseDecoder
from tests.server.raw import Asked, scope_of
from tests.server.talking import decode

RUN = "run_1"
EVENTS = b"GET /api/runs/run_1/events HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Feeding:
    """Writes a run to a store, as its driver would."""

    def __init__(self, store: Store) -> None:
        self.records: list[Record] = []
        self._store = store
        self._lease: Lease | None = None

    async def write(self, *events: Event) -> None:
        seq = len(self.records)
        records = [
            Record(seq + place, 1.5, RUN, "conversation", "agent", event)
            for place, event in enumerate(events, 1)
        ]
        if not self.records:
            self._lease = await self._store.create(records, "test", 60.0)
        else:
            self._lease = self._lease or await self._store.acquire(RUN, "test", 60.0)
            await self._store.append(self._lease, records)
        turns = [event for event in events if isinstance(event, RunPaused | RunResumed)]
        if turns and isinstance(turns[-1], RunPaused):
            self._lease = None  # released with the pause
        self.records += records


@contextmanager
def waiting(**options: Any) -> Iterator[int]:
    """Serve an agent with a paused run, whose streams stay open; yield the port."""
    asked = Asked(**options)
    asyncio.run(Feeding(asked.store).write(RunStarted(RUN, "Go"), RunPaused(RUN, ())))
    with asked.serving() as port:
        yield port


class Watcher:
    """A viewer over ASGI, which reads only while the test allows it."""

    def __init__(
        self, app: ASGIApp, path: str = f"/api/runs/{RUN}/events", method: str = "GET"
    ) -> None:
        self.messages: list[Message] = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.leaves = asyncio.Event()
        self.aborted = 0
        self.failure: Exception | None = None
        scope = {**scope_of(path, method), "extensions": {"argstream.abort": self._abort}}
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self.failure is not None:
            raise self.failure
        await self.may_read.wait()
        self.messages.append(message)

    def _abort(self) -> None:
        self.aborted += 1

    @property
    def sent(self) -> list[bytes]:
        return [piece for message in self.messages if (piece := message.get("body"))]

    @property
    def body(self) -> bytes:
        return b"".join(self.sent)

    async def has(self, text: bytes) -> None:
        while text not in self.body:
            await asyncio.sleep(0.001)

    async def all(self) -> bytes:
        await self.task
        return self.body


def frames_of(sent: bytes) -> list[Frame]:
    """Decode frames; the IDs of the events are their seqs."""
    decoder = SseDecoder()
    frames = []
    for event in decoder.feed(sent):
        assert not isinstance(event, Broken)
        frame = decode(event.data)
        assert str(frame.seq) == event.id
        frames.append(frame)
    assert not decoder.close()
    return frames
