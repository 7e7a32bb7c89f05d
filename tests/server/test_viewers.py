"""One run, written once, for all who watch it: over ASGI, so that a test decides who reads when."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest

from argstream.errors import StoreFailure
from argstream.events import (
    RunCompleted,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStarted,
    SeenText,
    TextDelta,
)
from argstream.runs import Record
from argstream.server import Limits
from tests.server.raw import Asked, TroubledStore
from tests.server.watching import RUN, Feeding, Watcher, frames_of

START = RunStarted(RUN, "Go")
PAUSE = RunPaused(RUN, ())
END = RunCompleted("done", run_id=RUN)
CHAT = "/api/chat/conversation/stream"
LONG = "x" * 200_000
"""Three of these are more than is kept for who has not read."""


def word(text: str) -> TextDelta:
    return TextDelta(text, 0)


class World:
    """A server, a run in its store, and those who watch it."""

    def __init__(self, store: TroubledStore | None = None, **limits: Any) -> None:
        asked = Asked(store=store or TroubledStore(), limits=Limits(**limits))
        self.app, self.store = asked.app, asked.store
        self.write = Feeding(self.store).write

    async def watch(self, query: str = "", path: str = f"/api/runs/{RUN}/events") -> Watcher:
        """Have one watch, and return when it is being sent something."""
        watcher = Watcher(self.app, path + query)
        while not (watcher.messages or watcher.task.done()):
            await asyncio.sleep(0)
        return watcher


def play(course: Callable[[World], Coroutine[Any, Any, None]], world: World | None = None) -> None:
    """Play a course in a world, and see that it leaves nothing behind."""

    async def played() -> None:
        place = world or World()
        async with asyncio.timeout(60):
            await place.write(START)
            await course(place)
            await place.app.aclose()
        for _ in range(20):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(played())


def told(sent: bytes) -> list[str]:
    """Name what was sent: texts by what they say, all else by its type."""
    events = [frame.event for frame in frames_of(sent)]
    return [event.text if isinstance(event, TextDelta) else event.type for event in events]


class TestSharing:
    def test_the_same_bytes_go_to_all(self) -> None:
        async def course(world: World) -> None:
            first, second, third = [await world.watch() for _ in range(3)]
            await first.has(b"run_snapshot")
            await world.write(word("one"))
            await first.has(b"one")
            late = await world.watch()
            await world.write(END)
            expected = ["run_snapshot", "one", "run_completed"]
            for watcher in (first, second, third, late):
                assert told(await watcher.all()) == expected
                pieces = zip(watcher.sent, first.sent, strict=True)
                assert all(piece is shared for piece, shared in pieces)

        play(course)

    def test_who_comes_late_is_sent_the_run_anew_when_the_first_chunks_are_gone(self) -> None:
        async def course(world: World) -> None:
            first = await world.watch()
            for number in range(4):
                await world.write(word(f"{number}{LONG}"))
                await first.has(b"%dx" % number)
            late = await world.watch()
            await world.write(END)
            await first.all()
            snapshot = frames_of(await late.all())[0].event
            assert isinstance(snapshot, RunSnapshot)
            [text] = snapshot.blocks
            assert isinstance(text, SeenText)
            assert len(text.text) > 4 * len(LONG)

        play(course)


class TestCollecting:
    def test_the_first_word_after_a_silence_is_told_at_once_and_the_rest_together(self) -> None:
        async def course(world: World) -> None:
            watcher = await world.watch()
            began = asyncio.get_running_loop().time()
            for number in range(30):
                await world.write(word(f"{number} "))
                await asyncio.sleep(0.002)
            await world.write(END)
            _, first, *rest = told(await watcher.all())
            assert first == "0 "
            assert "".join(rest[:-1]) == "".join(f"{number} " for number in range(1, 30))
            took = asyncio.get_running_loop().time() - began
            assert len(rest) <= took / 0.05 + 2, "20 chunks in a second"

        play(course)

    def test_silence_is_broken_by_a_comment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def course(world: World) -> None:
            watcher = await world.watch()
            await watcher.has(b"run_snapshot")
            loop = asyncio.get_running_loop()
            real = loop.time
            for passed in (15, 30):
                monkeypatch.setattr(loop, "time", lambda passed=passed: real() + passed)
                await asyncio.sleep(0.01)
            assert watcher.body.endswith(b": \n\n: \n\n")
            await world.write(END)
            assert told(await watcher.all()) == ["run_snapshot", "run_completed"]

        play(course)


class TestGoingOn:
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
        async def course(world: World) -> None:
            await world.write(word("one "))
            await world.write(word("two "), word("three "))
            query = f"?after={after}"
            first, live = await world.watch(), await world.watch(query)
            await world.write(END)
            late = await world.watch(query)
            await first.all()
            assert told(await live.all()) == told(await late.all()) == expected

        play(course)

    def test_what_another_process_has_told_is_waited_for(self) -> None:
        async def course(world: World) -> None:
            first = await world.watch()
            await world.write(word("one "))
            await first.has(b"one ")
            await world.write(word("two "))  # which is not written at once
            late = await world.watch("?after=3")
            await world.write(END)
            await first.all()
            assert told(await late.all()) == ["run_completed"]

        play(course)

    def test_who_missed_much_is_given_a_snapshot(self) -> None:
        async def course(world: World) -> None:
            await world.write(*(word(f"{number} ") for number in range(1_100)), END)
            assert told(await (await world.watch("?after=1")).all()) == ["run_snapshot"]
            assert "run_snapshot" not in told(await (await world.watch("?after=200")).all())

        play(course)


class TestFallingBehind:
    async def _fall_behind(self, world: World, path: str) -> bytes:
        slow, quick = await world.watch(path=path), await world.watch(path=path)
        await slow.has(b"data")
        slow.may_read.clear()
        for number in range(5):
            await world.write(word(f"{number}{LONG}"))
            await quick.has(b"%dx" % number)
        slow.may_read.set()
        await world.write(END)
        await quick.all()
        return await slow.all()

    def test_who_does_not_read_for_long_is_given_a_snapshot_and_the_rest(self) -> None:
        async def course(world: World) -> None:
            names = told(await self._fall_behind(world, f"/api/runs/{RUN}/events"))
            assert names[0] == "run_snapshot"
            assert "run_snapshot" in names[1:]
            assert len(names) < 6

        play(course)

    def test_where_the_format_cannot_say_that_he_is_told_to_come_again(self) -> None:
        async def course(world: World) -> None:
            sent = await self._fall_behind(world, CHAT)
            assert b"too much was missed; resume the stream" in sent
            assert sent.endswith(b"data: [DONE]\n\n")

        play(course)

    def test_as_much_is_kept_as_an_opening_is_long(self) -> None:
        async def course(world: World) -> None:
            await world.write(word("x" * 2_000_000))
            slow, quick = await world.watch(), await world.watch()
            await slow.has(b"run_snapshot")
            slow.may_read.clear()
            for number in range(5):
                await world.write(word(f"{number}{LONG}"))
                await quick.has(b"%dx" % number)
            slow.may_read.set()
            await world.write(END)
            await quick.all()
            assert "run_snapshot" not in told(await slow.all())[1:]

        play(course)


class TestPauses:
    def test_a_stream_ends_there_where_the_format_wants_that(self) -> None:
        async def course(world: World) -> None:
            ending, going_on = await world.watch(path=CHAT), await world.watch()
            await world.write(word("one"), PAUSE, RunResumed(RUN), word("two"), END)
            sent = await ending.all()
            assert b"one" in sent
            assert b"two" not in sent
            assert told(await going_on.all())[-2:] == ["two", "run_completed"]

        play(course)

    def test_an_opening_from_before_it_does_not_send_away_who_comes_later(self) -> None:
        async def course(world: World) -> None:
            held = await world.watch(path=CHAT)
            await held.has(b"start")
            held.may_read.clear()  # so the channel goes on
            await world.write(PAUSE)
            await asyncio.sleep(0.1)
            await world.write(RunResumed(RUN), word("two"))
            await asyncio.sleep(0.1)
            late = await world.watch(path=CHAT)
            await world.write(END)
            sent = await late.all()
            assert b"two" in sent
            assert b'"finishReason":"stop"' in sent
            held.leaves.set()
            await held.task

        play(course)


class TestLeaving:
    def test_a_client_that_goes_away_is_sent_no_more(self) -> None:
        async def course(world: World) -> None:
            await world.write(word("x" * 3_000_000))
            watcher = Watcher(world.app)
            while len(watcher.messages) < 3:
                await asyncio.sleep(0)
            watcher.leaves.set()
            await watcher.task
            assert len(watcher.messages) < 20

        play(course)

    def test_some_servers_say_that_with_an_error(self) -> None:
        async def course(world: World) -> None:
            watcher = Watcher(world.app)
            watcher.failure = BrokenPipeError("gone")
            await watcher.task

        play(course, World(max_viewers=1))

    @pytest.mark.parametrize("takes", [0, 1])
    def test_whose_connection_takes_nothing_for_long_is_cut_off(self, takes: int) -> None:
        async def course(world: World) -> None:
            watcher = Watcher(world.app)
            if takes:
                await watcher.has(b"run_snapshot")
            watcher.may_read.clear()
            await world.write(word("one"))
            began = asyncio.get_running_loop().time()
            await watcher.task
            assert asyncio.get_running_loop().time() - began > 0.05
            assert watcher.aborted == 1
            assert (await world.watch()).messages[0]["status"] == 200  # there is room again

        play(course, World(stalled_seconds=0.1, max_viewers=1))

    def test_one_that_has_nothing_to_read_is_not(self) -> None:
        async def course(world: World) -> None:
            watcher = await world.watch()
            await asyncio.sleep(0.1)
            assert not watcher.task.done()
            await world.write(END)
            await watcher.all()
            assert watcher.aborted == 0

        play(course, World(stalled_seconds=0.02))

    def test_a_head_is_all_that_head_asks_for(self) -> None:
        async def course(world: World) -> None:
            for _ in range(2):
                watcher = Watcher(world.app, method="HEAD")
                assert await watcher.all() == b""
                head = dict(watcher.messages[0]["headers"])
                assert head[b"content-type"] == b"text/event-stream; charset=utf-8"
                assert head[b"cache-control"] == b"no-cache"
                assert head[b"x-accel-buffering"] == b"no"
                assert head[b"x-argstream-run"] == RUN.encode()
                assert b"content-length" not in head

        play(course, World(max_viewers=1))

    def test_all_are_told_to_come_again_when_the_server_ends(self) -> None:
        async def course(world: World) -> None:
            watcher = await world.watch()
            await watcher.has(b"run_snapshot")
            await world.app.drain()
            assert (await watcher.all()).endswith(b"retry: 1000\n: the server ends; come again\n\n")
            assert (await (await world.watch()).all()).endswith(b"come again\n\n")

        play(course)


class FailingStore(TroubledStore):
    """A store in which some things do not work at first."""

    fails = True

    def __init__(self) -> None:
        super().__init__()
        self.opens = asyncio.Event()
        self.opens.set()
        self.error: Exception = StoreFailure("the disk is gone")

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[Record, None]:
        async with aclosing(super().follow(run_id, after)) as records:
            async for record in records:
                if self.fails:
                    raise self.error
                yield record

    async def snapshot(self, run_id: str) -> Record:
        await self.opens.wait()
        return await super().snapshot(run_id)


class TestFailing:
    @pytest.mark.parametrize("error", [StoreFailure("the disk is gone"), ValueError("our fault")])
    def test_a_log_that_fails_is_told_and_the_next_finds_out_for_himself(
        self, error: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        store = FailingStore()
        store.error = error

        async def course(world: World) -> None:
            first, held = await world.watch(), await world.watch()
            await held.has(b"run_snapshot")
            held.may_read.clear()
            await world.write(word("one"))
            assert b"cannot be read now; come again" in await first.all()
            store.fails = False
            again = await world.watch("?after=1")  # while another still hears of it
            held.may_read.set()
            await held.all()
            await world.write(END)
            assert told(await again.all()) == ["one", "run_completed"]

        with caplog.at_level(logging.WARNING, "argstream.server"):
            play(course, World(store))
        assert str(error) in caplog.text

    def test_a_run_that_is_deleted_is_told_and_unknown_from_then_on(self) -> None:
        async def course(world: World) -> None:
            watcher = await world.watch()
            await world.write(PAUSE)
            await world.store.delete(RUN)
            assert b"come again" in await watcher.all()
            assert (await world.watch()).messages[0]["status"] == 404

        play(course)

    def test_who_does_not_wait_until_it_is_open_takes_it_away_from_nobody(self) -> None:
        store = FailingStore()
        store.fails = False

        async def course(world: World) -> None:
            store.opens.clear()
            first, second = Watcher(world.app), Watcher(world.app)
            await asyncio.sleep(0.01)
            first.task.cancel()
            await asyncio.wait([first.task])
            store.opens.set()
            await second.has(b"run_snapshot")
            await world.write(END)
            assert told(await second.all())[-1] == "run_completed"

        play(course, World(store, max_viewers=2))
