"""Runs that are fed to a store by hand, those who watch them, and what they were sent."""

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from argstream.argument_views import ArgumentViews
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    Event,
    RunPaused,
    RunSnapshot,
    SeenCall,
    ToolCallStarted,
)
from argstream.log import Claim, Record, Store, status_after
from argstream.protocols.encoding import Parting, Written
from argstream.protocols.native import Frame, NativeEncoder
from argstream.server.channels import Channels, Viewer
from argstream.snapshots import RunView
from argstream.wire import Broken, SseDecoder

__all__ = [
    "RUN",
    "Counting",
    "Ending",
    "Feeding",
    "Reader",
    "frames_of",
    "pieces_of",
    "seen",
    "views_of",
]

RUN = "run_1"
_frames = msgspec.json.Decoder(Frame)


class Counting:
    """Our own format without a wait; says how often it was asked to write."""

    can_catch_up = True

    def __init__(self, interval: float = 0.0) -> None:
        self.interval = interval
        self.taken: list[list[Record]] = []
        self.openings = 0
        self._encoder = NativeEncoder()

    def begin(self, snapshot: Record) -> None:
        self._encoder.begin(snapshot)

    def take(self, records: Sequence[Record]) -> Written:
        self.taken.append(list(records))
        return self._encoder.take(records)

    def opening(self, snapshot: Record) -> Written:
        self.openings += 1
        return self._encoder.opening(snapshot)

    def parting(self, why: Parting) -> bytes:
        return self._encoder.parting(why)


class Ending(Counting):
    """A format whose streams end at a pause, and that cannot catch up."""

    can_catch_up = False

    def take(self, records: Sequence[Record]) -> Written:
        data, ends = super().take(records)
        return Written(data, ends or isinstance(records[-1].event, RunPaused))


class Feeding:
    """Writes a run to a store, as who drives it would."""

    def __init__(self, store: Store) -> None:
        self.records: list[Record] = []
        self._store = store
        self._claim: Claim | None = None

    async def write(self, *events: Event) -> None:
        """Write events as they are, each a record."""
        seq = len(self.records)
        records = [
            Record(seq + place, 1.5, RUN, "conversation", "agent", event)
            for place, event in enumerate(events, 1)
        ]
        if not self.records:
            self._claim = await self._store.begin(records, "test", 60.0)
        else:
            self._claim = self._claim or await self._store.claim(RUN, "test", 60.0)
            await self._store.append(self._claim, records)
        if status_after(events) == "paused":
            self._claim = None  # it was given up with that
        self.records += records


class Reader:
    """Reads what a viewer is given, as fast as it is let."""

    def __init__(self, viewer: Viewer) -> None:
        self.sent: list[bytes] = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.task = asyncio.create_task(self._read(viewer))

    async def _read(self, viewer: Viewer) -> None:
        try:
            async for piece in viewer.pieces():
                self.sent.append(piece)
                await self.may_read.wait()
        finally:
            viewer.close()

    async def all(self) -> bytes:
        """Give all that there was, when it is over."""
        async with asyncio.timeout(10):
            await self.task
        return b"".join(self.sent)


async def pieces_of(channels: Channels, after: int | None = None) -> bytes:
    """Give all that one is sent who watches to the end."""
    return await Reader(await channels.watch(RUN, "counting", Counting, after=after)).all()


def frames_of(sent: bytes) -> list[Frame]:
    """Read what was sent; the ids of the events are their seqs."""
    decoder = SseDecoder()
    frames = []
    for event in decoder.feed(sent):
        assert not isinstance(event, Broken)
        frame = _frames.decode(event.data)
        assert str(frame.seq) == event.id
        frames.append(frame)
    assert not decoder.close()
    return frames


def seen(events: Iterable[Event]) -> object:
    """Fold events, and leave out what is not told: forms of the provider's own."""
    view = RunView()
    for event in events:
        view.take(event)
    told = msgspec.to_builtins(view.snapshot())
    for message in told["history"]:
        message["parts"] = [part for part in message["parts"] if part["type"] != "opaque"]
        for part in message["parts"]:
            part["item"] = None
    return told


class _Views:
    """What a page knows of the arguments of calls, by what it is told of them."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Event]] = {}

    def take(self, event: Event, views: Iterable[Event]) -> None:
        if isinstance(event, RunSnapshot):
            self.calls = {
                block.call_id: []
                for block in event.blocks
                if isinstance(block, SeenCall) and block.verdict is None and not block.is_lost
            }
        elif isinstance(event, ToolCallStarted):
            self.calls[event.call_id] = []
        for view in views:
            assert isinstance(view, ArgumentStarted | ArgumentDelta | ArgumentCompleted)
            if (told := self.calls.get(view.call_id)) is not None:
                self._add(told, view)

    def _add(self, told: list[Event], view: Event) -> None:
        last = told[-1] if told else None
        if (
            isinstance(view, ArgumentDelta)
            and isinstance(last, ArgumentDelta)
            and last.path == view.path
        ):
            told[-1] = ArgumentDelta(view.call_id, view.name, view.path, last.text + view.text)
        else:
            told.append(view)


def views_of(events: Iterable[Event], frames: Iterable[Frame] = ()) -> dict[str, list[Event]]:
    """Give what is known of arguments after events of a log, and frames that were sent then."""
    known, computed = _Views(), ArgumentViews()
    for event in events:
        known.take(event, computed.take(event)[1:])
    for frame in frames:
        known.take(frame.event, frame.arguments)
    return known.calls
