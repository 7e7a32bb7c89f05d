"""A Redis server that goes away: it comes back, or stays away, or hangs; an answer is lost."""

import asyncio
import os
import select
import socket
import socketserver
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from argstream.decisions import Approve, Deny
from argstream.errors import AlreadyDecided, StoreFailure
from argstream.log import Claim, Record
from argstream.stores.redis import RedisStore
from tests.stores.records import Writer, asked, begun, contiguous
from tests.stores.redis_server import RedisServer, new_prefix, shared_server
from tests.stores.redis_stores import opened, raw
from tests.stores.stores import all_of

RECORDS = 5_000 if os.environ.get("ARGSTREAM_HYPOTHESIS") == "soak" else 300


def test_a_crash_of_the_server_loses_nothing_that_was_acknowledged() -> None:
    """With appendfsync always; writer and follower go on, without a gap or a double."""
    with RedisServer(appendonly="yes", appendfsync="always") as server:
        asyncio.run(_through_crashes(server))


async def _through_crashes(server: RedisServer) -> None:
    async with opened(server.url, prefix="p") as store, opened(server.url, prefix="p") as other:
        writer, claim, _ = await begun(store)
        written = asyncio.create_task(_write(store, writer, claim, RECORDS))
        followed = asyncio.create_task(all_of(other))
        while not written.done():
            await asyncio.sleep(0.1)
            server.kill()
            await asyncio.sleep(0.02)
            await asyncio.to_thread(server.start)
        acknowledged = await written
        async with asyncio.timeout(10):
            seen = await followed
        assert contiguous(seen)
        assert seen == await store.read("run-1")
        assert seen[1:-1] == acknowledged


async def _write(store: RedisStore, writer: Writer, claim: Claim, count: int) -> list[Record]:
    acknowledged = []
    for number in range(count):
        records = writer.texts(str(number))
        await store.append(claim, records)
        acknowledged += records
        await asyncio.sleep(0.001)
    await store.append(claim, writer.completed())
    return acknowledged


def test_a_server_that_stays_away_is_a_failure_within_the_time_limit() -> None:
    async def attempt() -> None:
        with RedisServer(tcp=True) as server:
            async with opened(server.url, patience=0.4) as store:
                _, claim, _ = await begun(store)
                followed = asyncio.create_task(all_of(store))
                listened = asyncio.create_task(_posts(store, "run-1"))
                await asyncio.sleep(0.05)
                server.kill()
                start = time.monotonic()
                for waits in (store.renew(claim, 30), followed, listened):
                    with pytest.raises(StoreFailure, match=f"127.0.0.1:{server.port}.*0.4 s"):
                        await waits
                assert time.monotonic() - start < 3

    asyncio.run(attempt())


async def _posts(store: RedisStore, run_id: str) -> list[Any]:
    return [posts async for posts in store.posts(run_id)]


def test_a_server_that_hangs_is_a_failure_within_the_time_limit() -> None:
    """It takes connections, and says nothing."""

    async def attempt() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            async with opened(f"redis://127.0.0.1:{port}", patience=0.3) as store:
                start = time.monotonic()
                with pytest.raises(StoreFailure, match=r"has not answered for 0.3 s"):
                    await store.info("run-1")
                assert time.monotonic() - start < 2

    asyncio.run(attempt())


def test_who_follows_a_server_that_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing happens on his connection: he must ask whether the server is still there."""
    monkeypatch.setattr("argstream.stores._redis_news._BEAT", 0.1)

    async def attempt() -> None:
        with RedisServer() as server:
            async with opened(server.url, patience=0.3) as store:
                await begun(store)
                followed = asyncio.create_task(all_of(store))
                await asyncio.sleep(0.5)
                assert not followed.done()  # it was quiet, but there
                server.hang()
                async with asyncio.timeout(10):
                    with pytest.raises(StoreFailure, match=r"has not answered for 0.3 s"):
                        await followed

    asyncio.run(attempt())


def test_who_follows_goes_on_when_only_his_own_connection_was_lost() -> None:
    """Also if that had been good for longer than the store is patient."""

    async def attempt() -> None:
        with RedisServer() as server:
            options = {"prefix": "p", "patience": 0.5}
            async with (
                opened(server.url, **options) as store,
                opened(server.url, **options) as other,
            ):
                writer, claim, _ = await begun(store)
                followed = asyncio.create_task(all_of(other))
                for seconds in (0.02, 0.02, 0.6):
                    await asyncio.sleep(seconds)
                    assert await raw(server, "CLIENT", "KILL", "TYPE", "pubsub") == 1
                    await store.append(claim, writer.texts("a"))
                await store.append(claim, writer.completed())
                assert contiguous(await followed)

    asyncio.run(attempt())


def test_scripts_that_the_server_forgot_are_sent_again() -> None:
    async def attempt() -> None:
        async with opened() as store:
            writer, claim, _ = await begun(store)
            await raw(shared_server(), "SCRIPT FLUSH")
            await store.append(claim, writer.texts("a"))
            assert (await store.info("run-1")).seq == 2

    asyncio.run(attempt())


# What is asked again, because nobody knows whether it was done


class _Way(socketserver.BaseRequestHandler):
    """Passes on what is said, until an answer is to be lost."""

    def handle(self) -> None:
        way = cast("_Ways", self.server)
        runs_script = False
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(way.target)
            while True:
                for side in select.select([self.request, server], [], [])[0]:
                    said = side.recv(65_536)
                    if side is self.request:
                        runs_script = runs_script or b"EVAL" in said
                    elif runs_script and way.cuts_left and not said.startswith(b"-NOSCRIPT"):
                        way.cuts_left -= 1
                        return
                    if not said:
                        return
                    (server if side is self.request else self.request).sendall(said)


class _Ways(socketserver.ThreadingTCPServer):
    target = ""
    cuts_left = 1


@contextmanager
def losing_an_answer(server: RedisServer) -> Iterator[str]:
    """A way to the server on which the first answer of a script is lost: the script has run."""
    with _Ways(("127.0.0.1", 0), _Way) as ways:
        ways.target = str(server.socket)
        thread = threading.Thread(target=ways.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"redis://127.0.0.1:{ways.server_address[1]}"
        finally:
            ways.shutdown()
            thread.join()
    assert ways.cuts_left == 0


Step = Callable[[RedisStore], Awaitable[Any]]


def cut_once(step: Step) -> Any:
    """Make a step of which the first answer is lost; a run with a request is there before it."""

    async def attempt() -> Any:
        prefix = new_prefix()
        async with opened(prefix=prefix) as store:
            await begun(store, "run-1", asked("c1", "d1"))
            with losing_an_answer(shared_server()) as url:
                async with opened(url, prefix=prefix) as through:
                    return await step(through)

    return asyncio.run(attempt())


def test_a_run_is_begun_once_if_the_answer_is_lost() -> None:
    async def step(store: RedisStore) -> int:
        _, claim, _ = await begun(store, "run-2")
        return claim.token

    assert cut_once(step) == 1


def test_who_claims_again_because_the_answer_was_lost_does_not_lock_himself_out() -> None:
    async def step(store: RedisStore) -> int:
        await asyncio.sleep(0.02)
        return (await store.claim("run-9", "me", 30)).token

    async def attempt() -> int:
        prefix = new_prefix()
        async with opened(prefix=prefix) as store:
            await store.begin(Writer("run-9").started(), "another", 0.01)
            with losing_an_answer(shared_server()) as url:
                async with opened(url, prefix=prefix) as through:
                    return await step(through)

    assert asyncio.run(attempt()) == 2


def test_records_are_written_once_if_the_answer_is_lost() -> None:
    async def attempt() -> None:
        prefix = new_prefix()
        async with opened(prefix=prefix) as store:
            writer, claim, first = await begun(store)
            more = writer.texts("a", "b")
            with losing_an_answer(shared_server()) as url:
                async with opened(url, prefix=prefix) as through:
                    await through.append(claim, more)
            assert await store.read("run-1") == [*first, *more]

    asyncio.run(attempt())


def test_who_decides_again_because_the_answer_was_lost_was_not_too_late() -> None:
    async def step(store: RedisStore) -> Any:
        await store.decide("run-1", {"c1": Approve(digest="d1")})
        with pytest.raises(AlreadyDecided):
            await store.decide("run-1", {"c1": Deny()})
        return (await store.posted("run-1")).decisions

    assert cut_once(step) == {"c1": Approve(digest="d1")}


def test_a_run_is_deleted_once_if_the_answer_is_lost() -> None:
    async def attempt() -> None:
        prefix = new_prefix()
        async with opened(prefix=prefix) as store:
            _, claim, _ = await begun(store)
            await store.release(claim)
            with losing_an_answer(shared_server()) as url:
                async with opened(url, prefix=prefix) as through:
                    await through.delete("run-1")
            assert await store.runs() == []

    asyncio.run(attempt())
