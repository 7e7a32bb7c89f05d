"""Random runs with many viewers: each sees the run, whenever it joins and however slowly it reads.

The oracle is the log, folded by ``RunState``. Broadcasts keep very little here, so that
small runs reach all branches.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from argstream import events as ev
from argstream.protocols import Written
from argstream.protocols.native import Frame, NativeEncoder
from argstream.runs import MemoryStore, Record, with_arguments
from argstream.server import _viewers
from argstream.server._viewers import Broadcasts, Viewer
from tests.chance_runs import RUN, runs
from tests.server.talking import content, folded
from tests.server.watching import Feeding, frames_of

pytestmark = pytest.mark.hypothesis

STARTED = ev.RunStarted(RUN, "Go")
STOPPED = ev.RunStopped("enough", RUN)


class _Encoder(NativeEncoder):
    interval = 0.0


class _Reader:
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
        async with asyncio.timeout(30):
            await self._task
        return b"".join(self._sent)


class _Watcher(NamedTuple):
    """A viewer to be: the write at which it joins, after which record, and when it pauses."""

    joins: int
    after: int | None  # modulo the number of records + 2
    rests: frozenset[int]  # the writes after which it does not read


_watchers = st.builds(
    _Watcher,
    st.integers(0, 30),
    st.none() | st.integers(0, 1_000),
    st.frozensets(st.integers(0, 30), max_size=25),
)


@pytest.fixture(autouse=True, scope="module")
def _little_is_kept() -> Iterator[None]:
    limits = {"KEPT_CHUNKS": 3, "KEPT_BYTES": 600, "MAX_EXACT": 6, "PAGE": 4, "PIECE": 200}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(_viewers, f"_{name}", value)
        yield


_SAME_ID_AGAIN: list[ev.Event] = [
    STARTED,
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
def test_every_viewer_sees_the_run(
    events: list[ev.Event], sizes: list[int], turns: list[int], watchers: list[_Watcher]
) -> None:
    stored = [event for event in events if not event.is_computed]
    if not isinstance(stored[-1], ev.RunEnd):
        stored.append(STOPPED)
    asyncio.run(_watch_all(stored, sizes, turns, watchers))


async def _watch_all(
    events: list[ev.Event], sizes: list[int], turns: list[int], watchers: list[_Watcher]
) -> None:
    store = MemoryStore()
    feeding, channels = Feeding(store), Broadcasts(store)
    reading: list[tuple[_Watcher, int | None, _Reader]] = []  # with the seq that it knows
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
                viewer = await channels.watch(RUN, "random", _Encoder, after=after)
                # A seq beyond the log belongs to another log.
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
    await channels.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def _check(records: list[Record], known: int | None, frames: list[Frame]) -> None:
    seqs = [known or 0, *(frame.seq for frame in frames)]
    assert seqs == sorted(set(seqs))
    assert seqs[-1] == len(records)
    log = [record.event for record in records]
    before = log[:known] if known else []
    assert _shown([*before, *(content(frame) for frame in frames)]) == _shown(log)
    sent, expected = _arguments(before, frames), _arguments(log)
    assert sent == {call_id: expected[call_id] for call_id in sent}
    if not any(frame.snapshot for frame in frames):
        assert sent == expected
    if known is None:
        assert frames[0].snapshot is not None


def _shown(events: Iterable[ev.Event | ev.RunSnapshot]) -> Any:
    """The state after some events, without the provider's own items, which are not sent."""
    state = msgspec.to_builtins(folded(events))
    for message in state["history"]:
        message["parts"] = [part for part in message["parts"] if part["type"] != "opaque"]
        for part in message["parts"]:
            part["item"] = None
    return state


def _arguments(
    events: Iterable[ev.Event], frames: Iterable[Frame] = ()
) -> dict[str, list[ev.Event]]:
    """The argument events by call that a page knows after events of a log and then frames."""
    known: dict[str, list[ev.Event]] = {}
    sent = (event for frame in frames for event in (content(frame), *frame.arguments))
    for event in (*with_arguments(events), *sent):
        match event:
            case ev.RunSnapshot(blocks=blocks):
                calls = [block for block in blocks if isinstance(block, ev.CallSnapshot)]
                known = {call.call_id: [] for call in calls if not (call.verdict or call.is_lost)}
            case ev.ToolCallStarted(call_id=call_id):
                known[call_id] = []
            case ev.ArgumentDelta(call_id=call_id, path=path, text=text) if call_id in known:
                last = known[call_id][-1] if known[call_id] else None
                if isinstance(last, ev.ArgumentDelta) and last.path == path:
                    text = last.text + text
                    known[call_id].pop()
                known[call_id].append(ev.ArgumentDelta(call_id, event.name, path, text))
            case ev.ArgumentStarted(call_id=call_id) | ev.ArgumentCompleted(call_id=call_id):
                if call_id in known:
                    known[call_id].append(event)
            case _:
                pass
    return known


def test_many_viewers_are_sent_fewer_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_viewers, "_SECONDS_PER_VIEWER", 0.02)

    async def main() -> None:
        store = MemoryStore()
        feeding, channels = Feeding(store), Broadcasts(store)
        await feeding.write(STARTED)
        readers = [_Reader(await channels.watch(RUN, "many", _Encoder)) for _ in range(5)]
        began = time.monotonic()
        for number in range(20):
            await feeding.write(ev.TextDelta(str(number), 0))
            await asyncio.sleep(0.01)
        await feeding.write(STOPPED)
        for reader in readers:
            frames = frames_of(await reader.all())
            assert len(frames) <= (time.monotonic() - began) / 0.1 + 3
        await channels.aclose()

    asyncio.run(main())


class _Failing(_Encoder):
    def encode(self, records: Sequence[Record]) -> Written:
        raise ValueError("a fault of ours")


def test_failing_encoder_ends_its_own_streams_only(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = MemoryStore()
        feeding, channels = Feeding(store), Broadcasts(store)
        await feeding.write(STARTED)
        failing = _Reader(await channels.watch(RUN, "failing", _Failing))
        working = _Reader(await channels.watch(RUN, "working", _Encoder))
        await feeding.write(ev.TextDelta("one", 0))
        await feeding.write(STOPPED)
        assert b"reconnect" in await failing.all()
        assert isinstance(frames_of(await working.all())[-1].event, ev.RunStopped)
        await channels.aclose()

    asyncio.run(main())
    assert "a fault of ours" in caplog.text
