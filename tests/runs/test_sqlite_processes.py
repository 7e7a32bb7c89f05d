"""The threads of an SQLite store, and several processes with one file."""

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable
from contextlib import aclosing
from pathlib import Path

import pytest

from argstream.errors import LeaseLostError, RunBusyError, StoreError, UsageError
from argstream.events import ToolExecutionStarted
from argstream.runs import Lease, Record, SqliteStore
from tests.runs.records import SECONDS, Writer, begin_run, requested
from tests.runs.stores import follow_all, store_test

ROOT = Path(__file__).parents[2]
STORES = ["sqlite"]
RUNS = 30


async def begin_many(store: SqliteStore) -> list[tuple[Writer, Lease, list[Record]]]:
    return await asyncio.gather(*(begin_run(store, f"run-{number}") for number in range(RUNS)))


@store_test
async def test_concurrent_writes_share_a_commit(store: SqliteStore) -> None:
    runs = await begin_many(store)
    statements: list[str] = []
    await store._writer.run(lambda connection: connection.set_trace_callback(statements.append))
    following = [asyncio.create_task(follow_all(store, writer.run_id)) for writer, _, _ in runs]
    for number in range(5):
        appends = []
        for writer, lease, records in runs:
            texts = [f"{writer.run_id} {number} {place}" for place in range(number + 1)]
            batch = writer.texts(*texts) if number < 4 else writer.completed()
            records.extend(batch)
            appends.append(store.append(lease, batch))
        await asyncio.gather(*appends)
    assert statements.count("COMMIT") <= 5 * 3
    for (writer, _, records), followed in zip(runs, following, strict=True):
        assert await followed == await store.read(writer.run_id) == records


@pytest.mark.parametrize("statement", ["SELECT 1", "no statement"])
@store_test
async def test_each_write_of_a_group_fails_alone(store: SqliteStore, statement: str) -> None:
    """Also if one of them makes the whole transaction fail."""
    runs = await begin_many(store)
    (lost, lost_lease, _), (gap, gap_lease, _), (again, second_lease, _), *others = runs
    await store.release(lost_lease)
    gap.seq += 1
    known = again.texts("again")
    await store.append(second_lease, known)
    outcomes = await asyncio.gather(
        store._writer.run(lambda connection: connection.execute(statement).fetchall()),
        store.append(lost_lease, lost.texts("x")),
        store.append(gap_lease, gap.texts("x")),
        store.append(Lease("run-4", "old", 0), Writer("run-4").started()),
        store.acquire("run-5", "you", SECONDS),
        store.append(second_lease, known),
        *(store.append(lease, writer.texts("x")) for writer, lease, _ in others),
        return_exceptions=True,
    )
    assert isinstance(outcomes[0], StoreError) == (statement == "no statement")
    refused = [type(outcome) for outcome in outcomes[1:5]]
    assert refused == [LeaseLostError, UsageError, LeaseLostError, RunBusyError]
    assert outcomes[5:] == [None] * (RUNS - 2)
    lengths = [(await store.info(writer.run_id)).seq for writer, _, _ in runs]
    assert lengths == [1, 1, *[2] * (RUNS - 2)]


@store_test
async def test_durable_events_wait_for_the_disk_and_deltas_do_not(store: SqliteStore) -> None:
    writer, lease, _ = await begin_run(store, "run-1", requested())

    async def is_synced(work: Awaitable[object]) -> bool:
        await work
        (level,) = await store._writer.run(
            lambda connection: connection.execute("PRAGMA synchronous").fetchone(),
            is_durable=store._writer._is_durable or False,
        )
        return bool(level == 2)

    started = ToolExecutionStarted("c1", "send", "key")
    assert not await is_synced(store.append(lease, writer.texts("a")))
    assert await is_synced(store.append(lease, writer.records(started)))
    assert not await is_synced(store.append(lease, writer.texts("b")))
    assert await is_synced(store.stop("run-1"))
    assert not await is_synced(store.renew(lease, SECONDS))
    assert not await is_synced(store.release(lease))
    assert await is_synced(store.acquire("run-1", "me", SECONDS))


def test_unreferenced_store_ends_its_threads(path: Path) -> None:
    async def use() -> None:
        store = SqliteStore(path)
        await begin_run(store)
        assert len(await store.read("run-1")) == 1

    before = threading.active_count()
    asyncio.run(use())
    gc.collect()
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


@store_test
async def test_file_is_polled_only_while_a_follower_waits(store: SqliteStore) -> None:
    await begin_run(store)
    assert not store._writer._watched()
    async with aclosing(store.follow("run-1")) as following:
        await anext(following)
        assert store._writer._watched()
    assert not store._writer._watched()


@store_test
async def test_crash_of_the_writer_thread_fails_all_callers(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, lease, _ = await begin_run(store)
    following = asyncio.ensure_future(anext(store.follow("run-1", 1)))
    await asyncio.sleep(0.05)
    entered, go_on = threading.Event(), threading.Event()

    def die(*_: object) -> None:
        entered.set()
        go_on.wait(10)
        raise SystemExit("the end")

    monkeypatch.setattr(store._writer, "_try", die)
    texts = writer.texts("a")
    waiting = [asyncio.create_task(store.append(lease, texts))]
    await asyncio.to_thread(entered.wait, 10)
    waiting += [asyncio.create_task(store.append(lease, texts)) for _ in range(3)]
    await asyncio.sleep(0.01)
    go_on.set()
    for attempt in (*waiting, following, store.append(lease, texts)):
        with pytest.raises(StoreError, match="has broken down"):
            await asyncio.wait_for(attempt, 5)


@store_test
async def test_error_while_polling_does_not_end_the_writer_thread(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, lease, records = await begin_run(store)

    def look(_: object) -> None:
        raise ValueError("what")

    monkeypatch.setattr(store._writer, "_poll", look)
    with pytest.raises(StoreError, match="what"):
        await asyncio.wait_for(anext(store.follow("run-1", 1)), 5)
    await asyncio.wait_for(store.append(lease, more := writer.texts("a")), 5)
    assert await store.read("run-1") == records + more


BEGIN = """
import asyncio, os, sys
from argstream.errors import StoreError
from argstream.runs import SqliteStore
from tests.runs.records import begin_run
store = SqliteStore(sys.argv[1])
writer, lease, _ = asyncio.run(begin_run(store))
"""
PRINT_LENGTH = """
import asyncio, sys
from argstream.runs import SqliteStore
async def main():
    async with SqliteStore(sys.argv[1]) as store:
        print((await store.info("run-1")).seq)
asyncio.run(main())
"""


async def length(path: Path | str) -> int:
    async with SqliteStore(path) as store:
        return (await store.info("run-1")).seq


def run(program: str, path: Path) -> str:
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    assert done.stderr == ""
    return done.stdout.strip()


@store_test
async def test_file_survives_closing_in_another_process(path: Path, store: SqliteStore) -> None:
    """Regression: the other process deleted the log of the file, and later records were lost."""
    writer, lease, _ = await begin_run(store)
    await store.info("run-1")  # so that both connections are open
    assert run(PRINT_LENGTH, path) == "1"
    assert path.with_name("runs.db-wal").exists()
    await store.append(lease, writer.texts("a"))
    await store.append(lease, writer.records(ToolExecutionStarted("c1", "send", "key")))
    await store.stop("run-1", "enough")
    assert run(PRINT_LENGTH, path) == "3"
    await store.aclose()
    async with SqliteStore(path, clock=time.time) as again:
        assert (await again.info("run-1")).seq == 3
        assert (await again.commands("run-1")).stop_reason == "enough"
        with pytest.raises(RunBusyError):
            await again.acquire("run-1", "you", SECONDS)


def test_program_that_does_not_close_the_store_ends_and_loses_nothing(path: Path) -> None:
    program = f"""{BEGIN}
async def main():
    following = store.follow("run-1")
    await anext(following)
    await store.append(lease, writer.texts("a"))
    globals()["kept"] = store, following
asyncio.run(main())
"""
    run(program, path)
    assert asyncio.run(length(path)) == 2


def test_forked_child_must_open_the_store_again(path: Path) -> None:
    program = f"""{BEGIN}
child = os.fork()
try:
    asyncio.run(store.append(lease, writer.texts("a")))
    assert child, "a child can use it"
    assert os.waitpid(child, 0)[1] == 0
    asyncio.run(store.aclose())
except StoreError as error:
    print(error)
"""
    assert run(program, path).count("opened before this process was forked") == 1
    assert asyncio.run(length(path)) == 2


def test_disk_that_is_full_from_the_start_is_named(path: Path) -> None:
    program = """
import asyncio, resource, signal, sys
from argstream.errors import StoreError
from argstream.runs import SqliteStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    asyncio.run(SqliteStore(sys.argv[1]).runs())
except StoreError as error:
    print(error)
"""
    assert "the disk failed" in run(program, path)
