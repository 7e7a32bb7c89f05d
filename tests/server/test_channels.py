"""Channels: one run, written once, for all who watch it."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from argstream.errors import StoreFailure, UnknownRun
from argstream.events import (
    Event,
    RunCompleted,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStarted,
    TextDelta,
)
from argstream.log import Record
from argstream.protocols.encoding import Written
from argstream.server import _channel, channels
from argstream.server.channels import Channels, Viewer
from argstream.stores import MemoryStore
from tests.server.watching import RUN, Counting, Ending, Feeding, Reader, frames_of, pieces_of

START = RunStarted(RUN, "Go")
END = RunCompleted("done", run_id=RUN)


def word(text: str) -> TextDelta:
    return TextDelta(text, 0)


class World:
    """A store, a run in it, and channels."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.feeding = Feeding(self.store)
        self.channels = Channels(self.store)
        self.made: list[Counting] = []

    async def write(self, *events: Event) -> None:
        """Write events, and have them written to those who watch."""
        await self.feeding.write(*events)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def watch(self, after: int | None = None, kind: type[Counting] = Counting) -> Viewer:
        def make() -> Counting:
            self.made.append(kind())
            return self.made[-1]

        return await self.channels.watch(RUN, kind.__name__, make, after=after)

    async def reader(self, after: int | None = None, kind: type[Counting] = Counting) -> Reader:
        return Reader(await self.watch(after, kind))


def play(course: Coroutine[Any, Any, None]) -> None:
    """Run it, and see that it leaves nothing behind."""

    async def played() -> None:
        async with asyncio.timeout(20):
            await course
        for _ in range(20):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(played())


def told(sent: bytes) -> list[str]:
    """Name what was sent: texts by what they say, all else by its type."""
    events = [frame.event for frame in frames_of(sent)]
    return [event.text if isinstance(event, TextDelta) else event.type for event in events]


class TestSharing:
    def test_each_chunk_is_written_once_and_the_same_bytes_go_to_all(self) -> None:
        async def course() -> None:
            world = World()
            await world.write(START)
            readers = [await world.reader() for _ in range(5)]
            await world.settle()
            await world.write(word("one"))
            await world.write(END)
            for reader in readers:
                await reader.all()
            [encoder] = world.made
            assert encoder.openings == 1
            assert len(encoder.taken) == 2
            for place, piece in enumerate(readers[0].sent):
                assert all(reader.sent[place] is piece for reader in readers)

        play(course())

    def test_formats_have_channels_of_their_own(self) -> None:
        async def course() -> None:
            world = World()
            await world.write(START)
            readers = [await world.reader(kind=kind) for kind in (Counting, Ending)]
            await world.write(END)
            for reader in readers:
                await reader.all()
            assert len(world.made) == 2

        play(course())

    def test_an_opening_serves_who_comes_later_while_the_chunks_after_it_are_kept(self) -> None:
        async def course() -> None:
            world = World()
            await world.write(START)
            readers = []
            for text in ("one ", "two ", "three "):
                readers.append(await world.reader())
                await world.write(word(text))
            await world.write(END)
            sent = [told(await reader.all()) for reader in readers]
            assert sent == [["run_snapshot", "one ", "two ", "three ", "run_completed"]] * 3
            assert world.made[0].openings == 1

        play(course())

    def test_it_is_written_anew_when_these_are_gone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_channel, "_KEPT_CHUNKS", 1)

        async def course() -> None:
            world = World()
            await world.write(START)
            first = await world.reader()
            for text in ("one ", "two ", "three "):
                await world.write(word(text))
            late = await world.reader()
            await world.write(END)
            await first.all()
            snapshot = frames_of(await late.all())[0].event
            assert isinstance(snapshot, RunSnapshot)
            assert snapshot.blocks[0].text == "one two three "  # type: ignore[union-attr] # a text
            assert world.made[0].openings == 2

        play(course())


class TestCollecting:
    def test_what_comes_quickly_is_told_in_few_frames(self) -> None:
        async def course() -> None:
            world = World()
            await world.feeding.write(START)
            watching = Channels(world.store)
            encoder = Counting(interval=0.05)
            viewer = await watching.watch(RUN, "slow", lambda: encoder)
            reader, began = Reader(viewer), time.monotonic()
            for number in range(30):
                await world.feeding.write(word(f"{number} "))
                await asyncio.sleep(0.005)
            await world.feeding.write(END)
            sent = told(await reader.all())
            assert "".join(sent[1:-1]) == "".join(f"{number} " for number in range(30))
            assert len(encoder.taken) <= (time.monotonic() - began) / 0.05 + 1

        play(course())

    def test_the_first_word_after_a_silence_is_told_at_once(self) -> None:
        async def course() -> None:
            world = World()
            await world.feeding.write(START)
            viewer = await Channels(world.store).watch(RUN, "slow", lambda: Counting(interval=5.0))
            async with aclosing(viewer.pieces()) as pieces:
                await anext(pieces)
                await world.feeding.write(word("one"))
                async with asyncio.timeout(2):
                    assert told(await anext(pieces)) == ["one"]
            viewer.close()

        play(course())

    def test_a_crowd_is_told_less_often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(channels, "_SECONDS_PER_VIEWER", 0.02)

        async def course() -> None:
            world = World()
            await world.write(START)
            readers = [await world.reader() for _ in range(5)]
            began = time.monotonic()
            for number in range(10):
                await world.feeding.write(word(str(number)))
                await asyncio.sleep(0.01)
            await world.feeding.write(END)
            assert [told(await reader.all())[1] for reader in readers] == ["0"] * 5
            assert len(world.made[0].taken) <= (time.monotonic() - began) / 0.1 + 1

        play(course())

    def test_silence_is_broken_by_a_comment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_channel, "_HEARTBEAT", 0.02)

        async def course() -> None:
            world = World()
            await world.write(START)
            reader = await world.reader()
            while len(reader.sent) < 4:
                await asyncio.sleep(0.005)
            assert all(piece.startswith(b":") for piece in reader.sent[1:])
            await world.write(END)
            assert told(await reader.all()) == ["run_snapshot", "run_completed"]

        play(course())


class TestGoingOn:
    async def _written(self) -> World:
        world = World()
        await world.write(START, word("one "))
        await world.write(word("two "), word("three "))
        return world

    @pytest.mark.parametrize(
        ("after", "expected"),
        [
            (0, ["run_started", "one two three ", "run_completed"]),
            (1, ["one two three ", "run_completed"]),
            (2, ["two three ", "run_completed"]),
            (3, ["three ", "run_completed"]),
            (4, ["run_completed"]),
        ],
    )
    def test_who_says_what_he_saw_last_is_told_the_rest(
        self, after: int, expected: list[str]
    ) -> None:
        async def course() -> None:
            world = await self._written()
            first, live = await world.reader(), await world.reader(after)
            await world.write(END)
            late = await world.reader(after)
            await first.all()
            assert told(await live.all()) == told(await late.all()) == expected

        play(course())

    def test_who_saw_the_last_event_of_a_run_is_told_nothing(self) -> None:
        async def course() -> None:
            world = await self._written()
            await world.write(END)
            assert await pieces_of(world.channels, after=5) == b""

        play(course())

    def test_who_says_that_he_saw_more_than_there_is_is_told_all(self) -> None:
        async def course() -> None:
            world = await self._written()
            await world.write(END)
            assert told(await pieces_of(world.channels, after=99)) == ["run_snapshot"]

        play(course())

    def test_what_another_process_has_told_is_waited_for(self) -> None:
        async def course() -> None:
            world = await self._written()
            store = world.store
            first = await world.reader()
            await world.settle()
            encoder = world.made[0]
            encoder.interval = 0.05  # so that the next is not written at once
            await world.write(word("four "))
            await world.feeding.write(word("five "))
            late = asyncio.create_task(world.watch(after=(await store.info(RUN)).seq))
            await world.settle()
            assert not late.done()
            reader = Reader(await late)
            await world.write(END)
            await first.all()
            assert told(await reader.all()) == ["run_completed"]

        play(course())

    def test_who_missed_much_is_given_a_snapshot(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(channels, "_EXACT", 2)

        async def course() -> None:
            world = await self._written()
            await world.write(END)
            assert told(await pieces_of(world.channels, after=1)) == ["run_snapshot"]

        play(course())


class TestFallingBehind:
    async def _fallen_behind(self, kind: type[Counting]) -> tuple[World, bytes]:
        world = World()
        await world.write(START)
        reader = await world.reader(kind=kind)
        await world.settle()
        reader.may_read.clear()
        for number in range(40):
            await world.write(word(f"{number} "))
        reader.may_read.set()
        await world.write(END)
        return world, await reader.all()

    def test_who_does_not_read_for_long_is_given_a_snapshot_and_the_rest(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_channel, "_KEPT_CHUNKS", 4)

        async def course() -> None:
            _, sent = await self._fallen_behind(Counting)
            names = told(sent)
            assert names[:2] == ["run_snapshot", "0 "]
            assert "run_snapshot" in names[2:]
            assert len(names) < 12

        play(course())

    def test_where_the_format_cannot_say_that_he_is_told_to_come_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_channel, "_KEPT_CHUNKS", 4)

        async def course() -> None:
            _, sent = await self._fallen_behind(Ending)
            assert told(sent[: sent.index(b"retry:")]) == ["run_snapshot", "0 "]
            assert b"too much was missed" in sent

        play(course())

    def test_as_much_is_kept_as_an_opening_is_long(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_channel, "_KEPT_BYTES", 500)

        async def course() -> None:
            world = World()
            await world.write(START, word("x" * 5_000))
            reader = await world.reader()
            await world.settle()
            reader.may_read.clear()
            for number in range(20):
                await world.write(word(f"{number} "))
            reader.may_read.set()
            await world.write(END)
            assert "run_snapshot" not in told(await reader.all())[1:]

        play(course())


class TestPauses:
    PAUSE = RunPaused(RUN, ())

    def test_a_stream_ends_there_where_the_format_wants_that(self) -> None:
        async def course() -> None:
            world = World()
            await world.write(START)
            ending, going_on = await world.reader(kind=Ending), await world.reader()
            await world.write(word("one"), self.PAUSE, RunResumed(RUN), word("two"), END)
            assert told(await ending.all()) == ["run_snapshot", "one", "run_paused"]
            assert told(await going_on.all())[-2:] == ["two", "run_completed"]

        play(course())

    def test_who_asks_for_what_comes_after_it_is_told_that(self) -> None:
        async def course() -> None:
            world = World()
            await world.write(START)
            first = await world.reader(kind=Ending)
            await world.write(self.PAUSE)
            await first.all()
            second = await world.reader(2, kind=Ending)
            await world.write(RunResumed(RUN), END)
            assert told(await second.all()) == ["run_resumed", "run_completed"]

        play(course())

    def test_an_opening_from_before_it_does_not_send_away_who_comes_later(self) -> None:
        async def course() -> None:
            world = World()
            await world.write(START)
            held = await world.watch(kind=Ending)  # the channel goes on
            await world.write(self.PAUSE)
            await world.write(RunResumed(RUN), word("two"))
            late = await world.reader(kind=Ending)
            await world.write(END)
            assert told(await late.all())[-1] == "run_completed"
            held.close()

        play(course())


class TestEnding:
    def test_a_channel_ends_with_the_last_who_watches(self) -> None:
        async def course() -> None:
            world = World()
            await world.write(START)
            first, second = await world.watch(), await world.watch()
            first.close()
            first.close()
            await world.write(word("one"))
            assert len(world.made[0].taken) == 1
            second.close()
            await world.write(word("two"))
            assert len(world.made[0].taken) == 1
            third = await world.reader()
            await world.write(END)
            assert told(await third.all()) == ["run_snapshot", "run_completed"]
            assert len(world.made) == 2

        play(course())

    def test_all_are_told_to_come_again_when_the_server_ends(self) -> None:
        async def course() -> None:
            world = World()
            await world.write(START)
            reader = await world.reader()
            await world.settle()
            world.channels.drain()
            sent = await reader.all()
            assert sent.endswith(b"retry: 1000\n: the server ends; come again\n\n")
            assert (await (await world.reader()).all()).endswith(b"come again\n\n")
            await world.channels.aclose()

        play(course())

    def test_closing_ends_all_of_it(self) -> None:
        async def course() -> None:
            world = World()
            await world.write(START)
            await world.watch()  # and never left
            reader = await world.reader()
            await world.channels.aclose()
            assert b"come again" in await reader.all()

        play(course())


class _Failing(MemoryStore):
    """A store in which some things do not work at first."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = True
        self.opens = asyncio.Event()

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[Record, None]:
        async with aclosing(super().follow(run_id, after)) as records:
            async for record in records:
                if self.fails:
                    raise StoreFailure("the disk is gone")
                yield record

    async def snapshot(self, run_id: str) -> Record:
        await self.opens.wait()
        return await super().snapshot(run_id)


class _Falling(Counting):
    def take(self, records: Sequence[Record]) -> Written:
        super().take(records)
        raise ValueError("a fault of ours")


class TestFailing:
    def test_a_store_that_fails_is_told_and_the_next_finds_out_for_himself(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def course() -> None:
            store = _Failing()
            store.opens.set()
            world = World(store)
            await world.write(START)
            reader = await world.reader()
            await world.write(word("one"))
            assert b"cannot be read now; come again" in await reader.all()
            store.fails = False
            again = await world.reader(1)
            await world.write(END)
            assert told(await again.all()) == ["one", "run_completed"]

        with caplog.at_level(logging.WARNING, "argstream.server"):
            play(course())
        assert "the disk is gone" in caplog.text

    def test_while_some_still_hear_of_that_others_watch_already(self) -> None:
        async def course() -> None:
            store = _Failing()
            store.opens.set()
            world = World(store)
            await world.write(START)
            old = await world.watch()
            await world.write(word("one"))
            store.fails = False
            new = await world.reader()
            old.close()
            await world.write(END)
            assert told(await new.all())[-1] == "run_completed"

        play(course())

    def test_a_fault_in_a_format_ends_its_streams_and_no_others(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def course() -> None:
            world = World()
            await world.write(START)
            falling, sound = await world.reader(kind=_Falling), await world.reader()
            await world.write(word("one"))
            await world.write(END)
            assert b"come again" in await falling.all()
            assert told(await sound.all())[-1] == "run_completed"
            assert len(world.made[0].taken) == 1

        with caplog.at_level(logging.ERROR, "argstream.server"):
            play(course())
        assert "a fault of ours" in caplog.text

    def test_a_run_that_is_deleted_is_told_and_unknown_from_then_on(self) -> None:
        async def course() -> None:
            world = World()
            await world.write(START)
            reader = await world.reader()
            await world.write(TestPauses.PAUSE)
            await world.store.delete(RUN)
            assert b"come again" in await reader.all()
            with pytest.raises(UnknownRun):
                await world.watch()

        play(course())

    def test_who_does_not_wait_until_it_is_open_leaves_nothing_behind(self) -> None:
        async def course() -> None:
            world = World(_Failing())
            await world.write(START)
            opening = asyncio.create_task(world.watch())
            await world.settle()
            opening.cancel()
            await asyncio.wait([opening])
            await world.settle()

        play(course())

    def test_nor_does_he_take_it_away_from_others(self) -> None:
        async def course() -> None:
            store = _Failing()
            store.fails = False
            world = World(store)
            await world.write(START)
            first, second = (asyncio.create_task(world.watch()) for _ in range(2))
            await world.settle()
            first.cancel()
            store.opens.set()
            reader = Reader(await second)
            await world.write(END)
            assert told(await reader.all())[-1] == "run_completed"
            assert len(world.made) == 1

        play(course())
