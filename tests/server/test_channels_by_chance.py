"""Runs by chance, watched by many: whenever one joins, however slowly he reads, he sees the run."""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from argstream.events import (
    Event,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunSnapshot,
    RunStarted,
    RunStopped,
    ToolArgsDelta,
    ToolCallStarted,
    TurnStarted,
)
from argstream.log import Record, merged
from argstream.protocols.native import Frame
from argstream.server import _channel, channels
from argstream.server.channels import Channels
from argstream.stores import MemoryStore
from tests.chance_runs import RUN, runs
from tests.server.watching import Counting, Feeding, Reader, frames_of, seen, views_of

pytestmark = pytest.mark.hypothesis

_ENDS = (RunCompleted, RunFailed, RunStopped)


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
        patch.setattr(_channel, "_KEPT_CHUNKS", 3)
        patch.setattr(_channel, "_KEPT_BYTES", 600)
        patch.setattr(channels, "_EXACT", 6)
        patch.setattr(channels, "_PAGE", 4)
        patch.setattr(channels, "_PIECE", 200)
        yield


_SAME_ID_AGAIN: list[Event] = [
    RunStarted(RUN, "Go"),
    TurnStarted(1),
    ToolCallStarted("call", 0, "write"),
    ToolArgsDelta("call", "write", '{"path": "a'),
    RunResumed(RUN, "crash"),
    TurnStarted(1, 2),
    ToolCallStarted("call", 0, "shell"),
    ToolArgsDelta("call", "shell", '{"command": "l'),
    ToolArgsDelta("call", "shell", 's"}'),
]


@example(_SAME_ID_AGAIN, [1], [4], [_Watcher(7, None, frozenset())])
@given(
    runs(),
    st.lists(st.integers(1, 7), min_size=1, max_size=6),
    st.lists(st.integers(0, 4), min_size=1, max_size=6),
    st.lists(_watchers, min_size=1, max_size=6),
)
def test_whoever_watches_sees_the_run(
    events: list[Event], sizes: list[int], turns: list[int], watchers: list[_Watcher]
) -> None:
    asyncio.run(_watch_all(_stored(events), sizes, turns, watchers))


def _stored(events: list[Event]) -> list[Event]:
    """Give a run that ends, as it may be stored: here, each delta by itself."""
    stored = [one for event in events for one in merged([event])]
    return stored if isinstance(stored[-1], _ENDS) else [*stored, RunStopped("enough", RUN)]


async def _watch_all(
    events: list[Event], sizes: list[int], turns: list[int], watchers: list[_Watcher]
) -> None:
    store = MemoryStore()
    feeding, watched = Feeding(store), Channels(store)
    reading: list[tuple[_Watcher, int | None, Reader]] = []  # with what they know
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
                viewer = await watched.watch(RUN, "chance", Counting, after=after)
                # Who has seen more than there is has seen something else.
                known = after if after is not None and after <= len(feeding.records) else None
                reading.append((watcher, known, Reader(viewer)))
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
    if not any(isinstance(frame.event, RunSnapshot) for frame in frames):
        assert told == expected
    if known is None:
        assert isinstance(frames[0].event, RunSnapshot)
