"""What is particular to logs in Redis: expiry; event loops, threads and processes that share one.

The contract that it shares with the other stores has tests of its own.
"""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from argstream.errors import StoreFailure, UnknownRun, UsageError
from argstream.runs import Record, RedisStore, RunInfo
from tests.runs.records import Writer, asked, begun, contiguous, decided
from tests.runs.redis_server import RedisServer, new_prefix, shared_server
from tests.runs.redis_stores import opened, raw
from tests.runs.stores import Place, all_of, story

STORES = ["redis"]


@story
async def test_a_run_that_is_over_expires_by_itself_and_one_that_is_not_never() -> None:
    async with opened(ttl=0.05) as store:
        writer, claim, _ = await begun(store, "over")
        await store.append(claim, writer.completed())
        await begun(store, "open")
        assert {info.run_id for info in await store.runs()} == {"over", "open"}
        await asyncio.sleep(0.1)
        assert [info.run_id for info in await store.runs()] == ["open"]
        for gone in (store.info("over"), store.read("over"), _anext(store.follow("over"))):
            with pytest.raises(UnknownRun):
                await gone
        assert await store.expire(0) == 0


async def _anext(records: Any) -> Any:
    return await anext(records)


@pytest.mark.parametrize("way", ["listed", "listed for its user", "expired", "deleted"])
@story
async def test_a_run_that_is_no_more_leaves_nothing_behind(way: str) -> None:
    """Its server has forgotten it, so nobody can see in it by what it could be found."""
    prefix = new_prefix()
    async with opened(ttl=None if way == "deleted" else 0.3, prefix=prefix) as store:
        writer = Writer("{run}", session_id="{talk}", user="{ada}")
        claim = await store.begin(writer.started(), "me", 30)
        await store.append(claim, writer.completed())
        assert len(await keys_of(prefix)) > 4
        await asyncio.sleep(0.35)
        match way:
            case "listed":
                await store.runs()
            case "listed for its user":
                await store.runs(user="{ada}")
            case "expired":
                await store.expire(0)
            case _:
                await store.delete("{run}")
        assert await keys_of(prefix) == []


async def keys_of(prefix: str) -> list[bytes]:
    keys: list[bytes] = await raw(shared_server(), "KEYS", f"{prefix}:*")
    return keys


@story
async def test_nobody_looks_at_all_runs_to_find_a_few(store: RedisStore) -> None:
    for number in range(30):
        user = "ada" if number % 10 == 0 else "bob"
        writer = Writer(f"run-{number}", session_id=f"talk-{number // 3}", user=user)
        started = writer.started()
        await store.begin(started + (writer.completed() if number else []), "me", 30)
    looked_at: list[int] = []
    look = store._lists._infos

    async def counted(names: Sequence[bytes]) -> list[RunInfo]:
        looked_at.append(len(names))
        return await look(names)

    store._lists._infos = counted  # type: ignore[method-assign] # to see it
    assert len(await store.runs(user="ada")) == 3
    assert len(await store.runs(session_id="talk-2")) == 3
    assert len(await store.runs(session_id="talk-0", user="ada")) == 1
    assert len(await store.runs(status="running")) == 1
    assert looked_at == [3, 3, 1, 1]


@story
async def test_runs_of_an_older_version_are_found(
    store: RedisStore, other: RedisStore, place: Place
) -> None:
    """It wrote no user, and nothing to find runs by but the index."""
    _, claim, _ = await begun(store, "old", session_id="talk")
    server = shared_server()
    await raw(server, "HDEL", f"{place.prefix}:{{old}}:run", "user")
    for name in ("whose", "unfinished", "{talk}:session"):
        await raw(server, "DEL", f"{place.prefix}:{name}")
    await store.begin(Writer("new", session_id="talk", user="ada").started(), "me", 30)
    assert [info.run_id for info in await other.runs(user="")] == ["old"]
    assert {info.run_id for info in await other.runs(session_id="talk")} == {"old", "new"}
    assert {info.run_id for info in await other.runs(status="running")} == {"old", "new"}
    await store.release(claim)
    await store.delete("old")
    assert [info.run_id for info in await store.runs(session_id="talk")] == ["new"]


# Loops, threads, processes


def test_a_store_is_used_from_several_event_loops_at_once() -> None:
    """Each appends to a run of its own and follows that of the next, in a thread of its own."""
    store = RedisStore(shared_server().url, prefix=new_prefix())
    ready = threading.Barrier(3)
    seen: dict[int, list[Record]] = {}

    async def work(number: int) -> None:
        writer, claim, _ = await begun(store, f"run-{number}")
        await asyncio.to_thread(ready.wait)

        async def follow() -> None:
            seen[number] = [r async for r in store.follow(f"run-{(number + 1) % 3}")]

        followed = asyncio.create_task(follow())
        for text in "abcdef":
            await store.append(claim, writer.texts(text))
        await store.append(claim, writer.completed())
        await followed

    threads = [threading.Thread(target=asyncio.run, args=(work(number),)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [len(seen[number]) for number in range(3)] == [8, 8, 8]
    assert all(contiguous(records) for records in seen.values())
    asyncio.run(store.aclose())


def test_a_store_that_is_closed_is_closed_in_every_event_loop() -> None:
    with RedisServer() as server:
        store = RedisStore(server.url)
        follows, told = threading.Event(), threading.Event()

        async def follow() -> None:
            await begun(store)
            records = store.follow("run-1")
            await anext(records)
            follows.set()
            with pytest.raises(StoreFailure, match="closed"):
                await anext(records)
            while b"name=argstream" in await raw(server, "CLIENT", "LIST"):
                await asyncio.sleep(0.005)
            told.set()

        thread = threading.Thread(target=asyncio.run, args=(follow(),))
        thread.start()
        assert follows.wait(10)
        asyncio.run(store.aclose())
        assert told.wait(10)
        thread.join()


@story
async def test_more_runs_are_listed_than_are_looked_at_together(store: RedisStore) -> None:
    names = [f"run-{number:03}" for number in range(430)]
    for name in names:
        await store.begin(Writer(name, time=1.0).started(), "me", 30)
    assert [info.run_id for info in await store.runs()] == names[::-1]
    assert [info.run_id for info in await store.runs(limit=300)] == names[:-301:-1]


@story
async def test_runs_that_have_expired_hide_no_others() -> None:
    """Those that wait for a person are older, and come after them in the index."""
    async with opened(ttl=0.02) as store:
        for number in range(30):
            writer = Writer(f"open-{number}", time=1.0)
            await store.begin(writer.started(), "me", 30)
        for number in range(230):
            writer = Writer(f"over-{number}", time=2.0)
            await store.begin([*writer.started(), *writer.completed()], "me", 30)
        await asyncio.sleep(0.04)
        assert len(await store.runs()) == 30


@story
async def test_what_happens_while_runs_are_listed_hides_no_others(store: RedisStore) -> None:
    """Those that were looked at are deleted, and one that was not is written to."""
    claims, writers = [], []
    for number in range(450):
        writer = Writer(f"run-{number:03}", time=1.0 + number)
        claims.append(await store.begin(writer.started(), "me", 30))
        writers.append(writer)
    look = store._lists._infos

    async def look_slowly(names: Sequence[bytes]) -> list[RunInfo]:
        infos = await look(names)
        while len(claims) > 300:
            await store.release(claims[-1])
            await store.delete(claims.pop().run_id)
        writers[0].time = 1_000.0
        await store.append(claims[0], writers[0].texts("a"))
        return infos

    store._lists._infos = look_slowly  # type: ignore[method-assign] # to come in between
    listed = {info.run_id for info in await store.runs()}
    assert listed >= {claim.run_id for claim in claims}


def test_a_client_that_is_given_stays_open_and_in_its_event_loop() -> None:
    prefix = new_prefix()

    async def here(client: Redis) -> RedisStore:
        store = RedisStore(client, prefix=prefix)
        writer, claim, _ = await begun(store)
        followed = asyncio.create_task(all_of(store))
        await asyncio.sleep(0.02)
        async with opened(prefix=prefix) as other:
            await other.append(claim, [*writer.texts("a"), *writer.completed()])
        assert contiguous(await followed)
        return store

    # Clients as people have them: with the newer protocol, and with answers as text.
    client = Redis.from_url(shared_server().url, protocol=3, decode_responses=True)
    with asyncio.Runner() as runner:
        store = runner.run(here(client))
        for use in (store.info("run-1"), all_of(store)):
            with pytest.raises(UsageError, match="another event loop"):
                asyncio.run(use)
        runner.run(store.aclose())
        assert runner.run(_ping(client))
        runner.run(client.aclose())


async def _ping(client: Redis) -> bool:
    return bool(await client.ping())


def test_something_else_than_a_client_is_refused() -> None:
    with pytest.raises(UsageError, match=r"not a builtins\.int"):
        RedisStore(6379)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(UsageError, match="has its own"):
        RedisStore(Redis(), socket_timeout=1)


@pytest.mark.parametrize(
    "options",
    [
        {"prefix": ""},
        {"prefix": "\ud800"},
        {"ttl": 0},
        {"ttl": float("inf")},
        {"ttl": float("nan")},
        {"ttl": 1e17},
        {"patience": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        RedisStore("redis://localhost", **options)


@story
async def test_followers_share_one_connection() -> None:
    """However many runs and followers there are in an event loop."""
    with RedisServer() as server:
        async with opened(server.url) as store:
            for number in range(20):
                await begun(store, f"run-{number}")
            followers = [store.follow(f"run-{number % 20}") for number in range(60)]
            for follower in followers:
                await anext(follower)
            waiting = [asyncio.create_task(_anext(follower)) for follower in followers]
            await asyncio.sleep(0.05)
            clients = await raw(server, "CLIENT", "LIST")
            assert clients.count(b"cmd=subscribe") == 1
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            await asyncio.sleep(0.02)
            assert b"cmd=subscribe" not in await raw(server, "CLIENT", "LIST")


_OTHER_PROCESS = """
import asyncio, sys
from argstream import Approve
from argstream.errors import RunTaken
from argstream.runs import RedisStore
from tests.runs.records import Writer, decided

async def main(url, prefix):
    store = RedisStore(url, prefix=prefix)
    try:
        await store.claim("run-1", "the other", 30)
    except RunTaken as taken:
        print(taken.owner, flush=True)
    async for record in store.follow("run-1"):
        print(record.seq, record.event.type, flush=True)
        if record.event.type == "approval_requested":
            await store.decide("run-1", {"c1": Approve(digest="d1")})
            await store.stop("run-1", "enough")

asyncio.run(main(*sys.argv[1:]))
"""


@story
async def test_another_process_follows_decides_and_stops(store: RedisStore, place: Place) -> None:
    writer, claim, _ = await begun(store)
    command = (sys.executable, "-c", _OTHER_PROCESS, shared_server().url, place.prefix)
    other = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    await store.append(claim, writer.records(asked("c1", "d1")))
    async for posts in store.posts("run-1"):
        if posts.decisions and posts.stop_reason == "enough":
            break
    await store.append(claim, [*writer.records(decided("c1")), *writer.completed()])
    said, _ = await other.communicate()
    assert said.decode().splitlines() == [
        "me",
        "1 run_started",
        "2 approval_requested",
        "3 approval_decided",
        "4 run_completed",
    ]


@story
async def test_records_too_large_to_be_told_are_followed_too(
    store: RedisStore, other: RedisStore
) -> None:
    writer, claim, _ = await begun(store)
    followed = asyncio.create_task(all_of(other))
    await asyncio.sleep(0.02)
    for _ in range(3):
        await store.append(claim, writer.texts("x" * 3_000_000))
    await store.append(claim, writer.completed())
    assert contiguous(await followed)
    assert len(await other.read("run-1")) == 5
