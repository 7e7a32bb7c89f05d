"""Failures of a Redis server: errors, outages, hangs, and responses that get lost."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
import redis
from redis.asyncio.connection import Connection

from argstream import Approve, Deny
from argstream.errors import AlreadyDecidedError, RunBusyError, RunNotFoundError, StoreError
from argstream.events import RunResumed
from argstream.runs import Lease, Record, RedisStore
from tests.runs.records import SECONDS, Writer, begin_run, contiguous, paused, requested
from tests.runs.redis_server import RedisServer, error_of, execute, opened, shared_server
from tests.runs.stores import Place, follow_all, store_test

STORES = ["redis"]
SECRET = "canary@ek/r?e#t:%"


@pytest.fixture(scope="module")
def locked() -> Iterator[RedisServer]:
    with RedisServer(tcp=True, requirepass=SECRET) as server:
        yield server


@store_test
async def test_password_is_not_in_errors_or_repr(locked: RedisServer) -> None:
    secret = quote(SECRET, safe="")
    async with opened(f"redis://:{secret}@127.0.0.1:{locked.port}") as store:
        await begin_run(store)
        assert repr(store).startswith(f"<RedisStore at 127.0.0.1:{locked.port}, ")
        assert "canary" not in f"{store!r} {store}"
    await execute(locked, "ACL", "SETUSER", "guest", "on", f">{SECRET}", "~*", "+@read")
    for address, expected in (
        (f":{secret}-not@127.0.0.1:{locked.port}", "rejected the user name or password"),
        (f":{secret}@127.0.0.1:1", "127.0.0.1:1: the server cannot be reached"),
        (f"guest:{secret}@127.0.0.1:{locked.port}", "Change its ACL"),
    ):
        async with opened(f"redis://{address}", patience=0.1) as store:
            message = await error_of(begin_run(store))
        assert expected in message
        assert address.rpartition("@")[2] in message
        assert "canary" not in message
    async with opened(f"redis://127.0.0.1:{locked.port}") as store:
        assert "password" in await error_of(follow_all(store))


READ_ONLY = [
    ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "out of memory"),
    ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "Pass the address of the primary"),
]


@store_test
async def test_server_that_cannot_write_writes_nothing_in_part() -> None:
    with RedisServer() as server:
        async with opened(server.url) as store:
            writer, lease, records = await begin_run(store)
            for breaks, repairs, reason in READ_ONLY:
                await execute(server, *breaks.split())
                more = writer.texts("a", "b")
                assert reason in await error_of(store.append(lease, more))
                assert await store.read("run-1") == records
                await execute(server, *repairs.split())
                await store.append(lease, more)
                records += more


@store_test
async def test_evicted_log_is_a_failure(store: RedisStore, place: Place) -> None:
    await begin_run(store)
    await execute(shared_server(), "DEL", f"{place.prefix}:{{run-1}}:log")
    with pytest.raises(StoreError, match="maxmemory-policy"):
        await store.read("run-1")


@store_test
async def test_scripts_that_the_server_forgot_are_sent_again(store: RedisStore) -> None:
    writer, lease, _ = await begin_run(store)
    await execute(shared_server(), "SCRIPT FLUSH")
    await store.append(lease, writer.texts("a"))
    assert (await store.info("run-1")).seq == 2


# Outages. `make soak` writes more records through the crashes.

RECORDS = 5_000 if os.environ.get("ARGSTREAM_HYPOTHESIS") == "soak" else 300


@pytest.mark.hypothesis
def test_server_crash_loses_no_acknowledged_record() -> None:
    """With appendfsync always. Writer and follower continue without a gap or a duplicate."""
    with RedisServer(appendonly="yes", appendfsync="always") as server:
        asyncio.run(write_through_crashes(server))


async def write_through_crashes(server: RedisServer) -> None:
    async def write(writer: Writer, lease: Lease) -> list[Record]:
        acknowledged = []
        for number in range(RECORDS):
            records = writer.texts(str(number))
            await store.append(lease, records)
            acknowledged += records
            await asyncio.sleep(0.001)
        await store.append(lease, writer.completed())
        return acknowledged

    async with opened(server.url, prefix="p") as store, opened(server.url, prefix="p") as other:
        writer, lease, _ = await begin_run(store)
        writing = asyncio.create_task(write(writer, lease))
        following = asyncio.create_task(follow_all(other))
        while not writing.done():
            await asyncio.sleep(0.1)
            server.kill()
            await asyncio.sleep(0.02)
            await asyncio.to_thread(server.start)
        acknowledged = await writing
        async with asyncio.timeout(10):
            seen = await following
        assert contiguous(seen)
        assert seen == await store.read("run-1")
        assert seen[1:-1] == acknowledged


@store_test
async def test_outage_fails_requests_and_followers_within_the_time_limit() -> None:
    """New followers then work, also while an old one has not been told of the failure yet."""
    with RedisServer(tcp=True, appendonly="yes", appendfsync="always") as server:
        async with (
            opened(server.url, prefix="p", patience=0.4) as store,
            opened(server.url, prefix="p") as other,
        ):
            writer, lease, _ = await begin_run(store)
            slow, commands = store.follow("run-1"), store.watch_commands("run-1")
            await anext(slow)
            await anext(commands)
            waits = [asyncio.create_task(follow_all(store)), asyncio.ensure_future(anext(commands))]
            await asyncio.sleep(0.05)
            server.kill()
            for attempt in (store.renew(lease, 30), *waits):
                with pytest.raises(StoreError, match=f"127.0.0.1:{server.port}.*0.4 s"):
                    await attempt
            await asyncio.to_thread(server.start)
            following = asyncio.create_task(follow_all(store))
            commands = store.watch_commands("run-1")
            await anext(commands)
            await other.stop("run-1", "enough")
            assert (await anext(commands)).stop_reason == "enough"
            await other.append(lease, writer.completed())
            assert contiguous(await following)
            with pytest.raises(StoreError):
                await anext(slow)


@store_test
async def test_hanging_server_fails_requests_and_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower's connection is quiet anyway, so it pings the server."""
    monkeypatch.setattr("argstream.runs.redis._CHECK_SECONDS", 0.1)
    with RedisServer() as server:
        async with opened(server.url, patience=0.3) as store:
            await begin_run(store)
            followed = asyncio.create_task(follow_all(store))
            await asyncio.sleep(0.5)
            assert not followed.done()  # a quiet server is no failure
            server.hang()
            async with asyncio.timeout(10):
                for attempt in (store.info("run-1"), followed):
                    with pytest.raises(StoreError, match=r"has not answered for 0.3 s"):
                        await attempt


@store_test
async def test_follower_survives_the_loss_of_its_connection() -> None:
    """Also if the connection was older than the patience of the store."""
    with RedisServer() as server:
        async with (
            opened(server.url, prefix="p", patience=0.5) as store,
            opened(server.url, prefix="p", patience=0.5) as other,
        ):
            writer, lease, _ = await begin_run(store)
            followed = asyncio.create_task(follow_all(other))
            for seconds in (0, 0, 0.6):
                await asyncio.sleep(seconds)
                while await execute(server, "CLIENT", "KILL", "TYPE", "pubsub") != 1:
                    await asyncio.sleep(0.01)
                await store.append(lease, writer.texts("a"))
            await store.append(lease, writer.completed())
            assert contiguous(await followed)


@store_test
async def test_run_lost_by_the_server_fails_its_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argstream.runs.redis._CHECK_SECONDS", 0.1)
    with RedisServer() as server:
        async with opened(server.url) as store:
            await begin_run(store)
            followed = asyncio.create_task(follow_all(store))
            commands = store.watch_commands("run-1")
            await anext(commands)
            await asyncio.sleep(0.05)
            await execute(server, "FLUSHALL")
            async with asyncio.timeout(5):
                for attempt in (followed, asyncio.ensure_future(anext(commands))):
                    with pytest.raises(RunNotFoundError):
                        await attempt


@store_test
async def test_error_in_the_listener_fails_only_the_followers_of_its_event_loop(
    monkeypatch: pytest.MonkeyPatch, store: RedisStore, other: RedisStore
) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("unexpected")

    writer, lease, _ = await begin_run(store)
    subscribed = asyncio.Event()
    with monkeypatch.context() as noting:
        noting.setattr(other._tails, "mark_stale", lambda _: subscribed.set())
        following = asyncio.create_task(follow_all(other))
        await subscribed.wait()
    with monkeypatch.context() as broken:
        broken.setattr(other._tails, "mark_stale", fail)
        with pytest.raises(StoreError, match="KeyError: 'unexpected'"):
            await asyncio.to_thread(asyncio.run, asyncio.wait_for(follow_all(other), 5))
        broken.setattr(store._tails, "mark_stale", fail)
        with pytest.raises(StoreError, match="KeyError: 'unexpected'"):
            await follow_all(store)
    again = asyncio.create_task(follow_all(store))
    await asyncio.sleep(0.02)
    await store.append(lease, writer.completed())
    async with asyncio.timeout(5):
        assert contiguous(await following)
        assert contiguous(await again)


# Lost responses: the store repeats a request without knowing whether the first one was executed,
# and the first one may reach the server after the second.

Step = Callable[[RedisStore], Awaitable[Any]]


class Loss:
    """Loses the response of the n-th script that has a text in it, after the script has run."""

    def __init__(self, place: Place, number: int, meanwhile: Step | None, text: bytes) -> None:
        self.responses_left = number
        self._text = text
        self._prefix = place.prefix
        self._meanwhile = meanwhile
        self._request = b""

    async def loses(self, request: bytes) -> bool:
        is_meant = b"EVAL" in request and self._text in request
        self.responses_left -= is_meant
        if not is_meant or self.responses_left != 0:
            return False
        self._request = request
        if self._meanwhile is not None:
            async with opened(prefix=self._prefix) as store:
                await self._meanwhile(store)
        return True

    def repeat(self) -> None:
        """Send the request again whose response was lost, as if it was delayed."""
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(str(shared_server().socket))
            server.sendall(self._request)
            assert server.recv(65_536).startswith(b"*")


class LossyConnection(Connection):
    loss: Loss  # set by a subclass
    request = b""

    async def _connect(self) -> None:
        socket = str(shared_server().socket)
        self._reader, self._writer = await asyncio.open_unix_connection(socket)
        await self.on_connect()

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        self.request = b"".join(command) if isinstance(command, list) else command
        await super().send_packed_command(command, check_health)

    async def read_response(self, *args: Any, **options: Any) -> Any:
        response = await super().read_response(*args, **options)
        if await self.loss.loses(self.request):
            await self.disconnect(nowait=True)
            raise redis.exceptions.ConnectionError("lost")
        return response


@asynccontextmanager
async def losing_response(
    place: Place, number: int = 1, meanwhile: Step | None = None, text: bytes = b"}:log"
) -> AsyncIterator[tuple[Loss, RedisStore]]:
    """Open a store that loses the n-th response to a script that uses the log, as all writes do.

    ``meanwhile`` runs before the store notices.
    """
    loss = Loss(place, number, meanwhile, text)
    connection = type("Lossy", (LossyConnection,), {"loss": loss})
    options = {"prefix": place.prefix, "connection_class": connection}
    async with opened("redis://localhost", **options) as store:
        yield loss, store
    assert loss.responses_left <= 0


async def acquire_by_another(store: RedisStore) -> None:
    await store.acquire("run-1", "you", SECONDS)


async def acquire_and_release(store: RedisStore) -> None:
    await store.release(await store.acquire("run-1", "you", SECONDS))


@store_test
async def test_run_begins_once(store: RedisStore, place: Place) -> None:
    async with losing_response(place) as (loss, through):
        writer, lease, records = await begin_run(through)
        await through.append(lease, more := writer.records(paused()))
    loss.repeat()
    assert (await store.info("run-1")).owner is None
    assert await store.read("run-1") == records + more


@store_test
async def test_run_has_begun_though_it_was_taken_over(store: RedisStore, place: Place) -> None:
    async with losing_response(place, meanwhile=acquire_by_another) as (_, through):
        writer, lease, records = await begin_run(through, "run-1", requested(), paused())
        with pytest.raises(RunBusyError, match="you drives the run"):
            await through.append(lease, writer.records(RunResumed("run-1")))
    assert await store.read("run-1") == records


@store_test
async def test_repeated_acquire_does_not_lock_itself_out(store: RedisStore, place: Place) -> None:
    writer, old, _ = await begin_run(store, "run-1", paused())
    for number in (1, 2):
        async with losing_response(place, number) as (_, through):
            lease = await through.acquire("run-1", "you", SECONDS)
            await through.append(lease, writer.records(RunResumed("run-1"), paused()))
        token = (await store.acquire("run-1", "me", SECONDS)).token
        assert old.token < lease.token < token
        old = Lease("run-1", "me", token)
        await store.release(old)


@pytest.mark.parametrize("rests", [True, False])
@store_test
async def test_delayed_acquire_does_not_restore_a_released_lease(
    rests: bool, store: RedisStore, place: Place
) -> None:
    writer, _, _ = await begin_run(store, "run-1", paused())
    async with losing_response(place) as (loss, through):
        lease = await through.acquire("run-1", "me", SECONDS)
    if rests:
        await store.append(lease, writer.records(RunResumed("run-1"), paused()))
    else:
        await store.release(lease)
    loss.repeat()
    assert (await store.info("run-1")).owner is None
    other = await store.acquire("run-1", "you", SECONDS)
    loss.repeat()
    assert (await store.info("run-1")).owner == "you"
    await store.release(other)
    loss.repeat()
    assert (await store.info("run-1")).owner is None


@store_test
async def test_repeated_acquire_respects_other_leases(store: RedisStore, place: Place) -> None:
    writer, _, _ = await begin_run(store, "run-1", paused())
    reading: dict[str, Any] = {"place": place, "text": b"EVAL"}  # the first script reads the run
    async with losing_response(**reading, meanwhile=acquire_and_release) as (_, through):
        lease = await through.acquire("run-1", "me", SECONDS)
    await store.append(lease, writer.records(RunResumed("run-1"), paused()))
    async with losing_response(**reading, meanwhile=acquire_by_another) as (_, through):
        with pytest.raises(RunBusyError, match="driven by you"):
            await through.acquire("run-1", "me", SECONDS)


@pytest.mark.parametrize("meanwhile", [None, acquire_by_another])
@store_test
async def test_records_are_written_once(
    meanwhile: Step | None, store: RedisStore, place: Place
) -> None:
    """Also the last ones, which release the lease."""
    writer, lease, first = await begin_run(store)
    more, rests = writer.texts("a", "b"), writer.records(requested(), paused())
    async with losing_response(place) as (_, through):
        await through.append(lease, more)
    async with losing_response(place, meanwhile=meanwhile) as (_, through):
        await through.append(lease, rests)
    assert await store.read("run-1") == [*first, *more, *rests]
    info = await store.info("run-1")
    assert (info.status, info.owner) == ("paused", "you" if meanwhile else None)


async def change_often(store: RedisStore) -> None:
    await store.stop("run-1")
    for _ in range(8):
        await acquire_and_release(store)


@pytest.mark.parametrize("meanwhile", [None, change_often])
@store_test
async def test_decision_and_deletion_are_done_once(
    meanwhile: Step | None, store: RedisStore, place: Place
) -> None:
    await begin_run(store, "run-1", requested("c1", "d1"), paused())
    async with losing_response(place, meanwhile=meanwhile) as (_, through):
        await through.decide("run-1", {"c1": Approve(digest="d1")})
        with pytest.raises(AlreadyDecidedError):
            await through.decide("run-1", {"c1": Deny()})
    assert (await store.commands("run-1")).decisions == {"c1": Approve(digest="d1")}
    async with losing_response(place) as (_, through):
        await through.delete("run-1")
    assert await store.runs() == []
