"""Runs by chance, watched by many: whenever one joins, however slowly he reads, he sees the run.

The oracle is the log, folded by ``RunView``. Channels are made to keep very little here, so that
small runs reach all their ways.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from argstream import events as ev
from argstream.protocols import Written
from argstream.protocols.native import Frame, NativeEncoder
from argstream.runs import MemoryStore, Record, is_stored, with_arguments
from argstream.server import _viewers
from argstream.server._viewers import Channels, Viewer
from tests.chance_runs import RUN, runs
from tests.server.watching import Feeding, frames_of, seen

pytestmark = pytest.mark.hypothesis


class _Encoder(NativeEncoder):
    """Our own format, without a wait."""

    interval = 0.0  # type: ignore[misc] # Final there


class _Reader:
    """Reads what a viewer is given, as fast as it is let."""

    def __init__(self, viewer: Viewer) -> None:
        self.may_read = asyncio.Event()
        self.may_read.set()
        self._sent: list[bytes] = []
        self._task = asyncio.create_task(self._read(viewer))

    async def _read(self, viewer: Viewer) -> None:
        try:
            async for piece in viewer.pieces():
                self._sent.append(piece)
                await self.may_read.wait()
        finally:
            viewer.close()

    async def all(self) -> bytes:
        async with asyncio.timeout(10):
            await self._task
        return b"".join(self._sent)


class _Watcher(NamedTuple):
    """One who will watch: from when on, after which record, and when he does not read."""

    joins: int
    """At which write."""
    after: int | None
    """Taken modulo two more than there are records."""
    rests: frozenset[int]
    """The writes after which he does not read."""


_watchers = st.builds(
    _Watcher,
    st.integers(0, 30),
    st.none() | st.integers(0, 1_000),
    st.frozensets(st.integers(0, 30), max_size=25),
)


@pytest.fixture(autouse=True, scope="module")
def _little_is_kept() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_viewers, "_KEPT_CHUNKS", 3)
        patch.setattr(_viewers, "_KEPT_BYTES", 600)
        patch.setattr(_viewers, "_EXACT", 6)
        patch.setattr(_viewers, "_PAGE", 4)
        patch.setattr(_viewers, "_PIECE", 200)
        yield


_SAME_ID_AGAIN: list[ev.Event] = [
    ev.RunStarted(RUN, "Go"),
    ev.TurnStarted(1),
    ev.ToolCallStarted("call", 0, "write"),
    ev.ToolArgsDelta("call", "write", '{"path": "a'),
    ev.RunResumed(RUN, "crash"),
    ev.TurnStarted(1, 2),
    ev.ToolCallStarted("call", 0, "shell"),
    ev.ToolArgsDelta("call", "shell", '{"command": "l'),
    ev.ToolArgsDelta("call", "shell", 's"}'),
]


@example(_SAME_ID_AGAIN, [1], [4], [_Watcher(7, None, frozenset())])
@given(
    runs(),
    st.lists(st.integers(1, 7), min_size=1, max_size=6),
    st.lists(st.integers(0, 4), min_size=1, max_size=6),
    st.lists(_watchers, min_size=1, max_size=6),
)
def test_whoever_watches_sees_the_run(
    events: list[ev.Event], sizes: list[int], turns: list[int], watchers: list[_Watcher]
) -> None:
    asyncio.run(_watch_all(_stored(events), sizes, turns, watchers))


def _stored(events: list[ev.Event]) -> list[ev.Event]:
    """Give a run that ends, as it may be stored: here, each delta by itself."""
    stored = [event for event in events if is_stored(event)]
    return stored if isinstance(stored[-1], ev.RunEnd) else [*stored, ev.RunStopped("enough", RUN)]


async def _watch_all(
    events: list[ev.Event], sizes: list[int], turns: list[int], watchers: list[_Watcher]
) -> None:
    store = MemoryStore()
    feeding, watched = Feeding(store), Channels(store)
    reading: list[tuple[_Watcher, int | None, _Reader]] = []  # with what they know
    number = 0
    while events:
        size, turn = sizes[number % len(sizes)], turns[number % len(turns)]
        await feeding.write(*events[:size])
        events = events[size:]
        for watcher in watchers:
            if watcher.joins == number or (not events and watcher.joins > number):
                after = watcher.after
                if after is not None:
                    after %= len(feeding.records) + 2
                viewer = await watched.watch(RUN, "chance", _Encoder, after=after)
                # Who has seen more than there is has seen something else.
                known = after if after is not None and after <= len(feeding.records) else None
                reading.append((watcher, known, _Reader(viewer)))
        for watcher, _, reader in reading:
            if number in watcher.rests:
                reader.may_read.clear()
            else:
                reader.may_read.set()
        for _ in range(turn):
            await asyncio.sleep(0)
        number += 1
    for _, known, reader in reading:
        reader.may_read.set()
        _check(feeding.records, known, frames_of(await reader.all()))
    await watched.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def _check(records: list[Record], known: int | None, frames: list[Frame]) -> None:
    """See that one was sent what he did not know, and nothing else."""
    seqs = [known or 0, *(frame.seq for frame in frames)]
    assert seqs == sorted(set(seqs))
    assert seqs[-1] == len(records)
    log = [record.event for record in records]
    before = log[:known] if known else []
    assert seen([*before, *(frame.event for frame in frames)]) == seen(log)
    told, expected = views_of(before, frames), views_of(log)
    assert told == {call_id: expected[call_id] for call_id in told}
    if not any(isinstance(frame.event, ev.RunSnapshot) for frame in frames):
        assert told == expected
    if known is None:
        assert isinstance(frames[0].event, ev.RunSnapshot)


def views_of(events: Iterable[ev.Event], frames: Iterable[Frame] = ()) -> dict[str, list[ev.Event]]:
    """Give what a page knows of arguments after events of a log, and frames that were sent then."""
    known: dict[str, list[ev.Event]] = {}
    for event in with_arguments(events):
        _note(known, event)
    for frame in frames:
        for event in (frame.event, *frame.arguments):
            _note(known, event)
    return known


def _note(known: dict[str, list[ev.Event]], event: ev.Event) -> None:
    match event:
        case ev.RunSnapshot(blocks=blocks):
            calls = [block for block in blocks if isinstance(block, ev.SeenCall)]
            known.clear()
            known |= {call.call_id: [] for call in calls if not (call.verdict or call.is_lost)}
        case ev.ToolCallStarted(call_id=call_id):
            known[call_id] = []
        case ev.ArgumentDelta(call_id=call_id, path=path, text=text) if call_id in known:
            last = known[call_id][-1] if known[call_id] else None
            if isinstance(last, ev.ArgumentDelta) and last.path == path:
                known[call_id][-1] = ev.ArgumentDelta(call_id, event.name, path, last.text + text)
            else:
                known[call_id].append(event)
        case ev.ArgumentStarted(call_id=call_id) | ev.ArgumentCompleted(call_id=call_id):
            if call_id in known:
                known[call_id].append(event)
        case _:
            pass


def test_many_viewers_are_sent_fewer_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_viewers, "_SECONDS_PER_VIEWER", 0.02)

    async def course() -> None:
        store = MemoryStore()
        feeding, watched = Feeding(store), Channels(store)
        await feeding.write(ev.RunStarted(RUN, "Go"))
        readers = [_Reader(await watched.watch(RUN, "crowd", _Encoder)) for _ in range(5)]
        began = time.monotonic()
        for number in range(20):
            await feeding.write(ev.TextDelta(str(number), 0))
            await asyncio.sleep(0.01)
        await feeding.write(ev.RunStopped("enough", RUN))
        for reader in readers:
            frames = frames_of(await reader.all())
            assert len(frames) <= (time.monotonic() - began) / 0.1 + 3
        await watched.aclose()

    asyncio.run(course())


class _Falling(_Encoder):
    def take(self, records: Sequence[Record]) -> Written:
        raise ValueError("a fault of ours")


def test_a_fault_in_an_encoder_ends_its_streams_and_no_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def course() -> None:
        store = MemoryStore()
        feeding, watched = Feeding(store), Channels(store)
        await feeding.write(ev.RunStarted(RUN, "Go"))
        falling = _Reader(await watched.watch(RUN, "falling", _Falling))
        sound = _Reader(await watched.watch(RUN, "sound", _Encoder))
        await feeding.write(ev.TextDelta("one", 0))
        await feeding.write(ev.RunStopped("enough", RUN))
        assert b"come again" in await falling.all()
        assert isinstance(frames_of(await sound.all())[-1].event, ev.RunStopped)
        await watched.aclose()

    asyncio.run(course())
    assert "a fault of ours" in caplog.text
