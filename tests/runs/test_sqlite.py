"""The SQLite store: its file, locks, full disks, damage and deletion."""

import asyncio
import os
import socket
import sqlite3
import threading
from collections.abc import Callable
from contextlib import aclosing, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from argstream.errors import StoreError, UsageError
from argstream.events import TextDelta
from argstream.runs import Lease, SqliteStore, to_json
from tests.runs.records import Writer, begin_run
from tests.runs.stores import follow_all, store_test

STORES = ["sqlite"]


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(statement)


async def make_file_with_run(path: Path, *events: TextDelta) -> None:
    async with SqliteStore(path) as store:
        await begin_run(store, "run-1", *events)


@pytest.mark.parametrize("is_link", [False, True])
def test_file_is_readable_by_its_owner_only(path: Path, is_link: bool) -> None:
    async def modes() -> dict[str, int]:
        async with SqliteStore(link if is_link else path) as store:
            await begin_run(store)
            files = [file for file in path.parent.iterdir() if file != link]
            return {file.name: file.lstat().st_mode & 0o777 for file in files}

    link = path.with_name("link.db")
    if is_link:  # to a file that does not exist yet
        link.symlink_to(path)
    before = os.umask(0)
    try:
        found = asyncio.run(modes())
    finally:
        os.umask(before)
    assert found == {"runs.db": 0o600, "runs.db-wal": 0o600, "runs.db-shm": 0o600}


@store_test
async def test_relative_path_is_resolved_when_the_store_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with SqliteStore("runs.db") as store:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        await begin_run(store)
    assert {path.name for path in tmp_path.iterdir()} == {"elsewhere", "runs.db"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere/runs.db", r"no directory '.*nowhere'"),
        ("", "is a directory"),
        ("\0.db", "is not a valid file name"),
        ("n" * 300, "is not a usable path"),
        ("\ud800.db", "is not a usable path"),
    ],
)
def test_impossible_path_raises(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        SqliteStore(tmp_path / name)


def make_file_of_format(path: Path, number: int) -> None:
    asyncio.run(make_file_with_run(path))
    execute(path, f"PRAGMA user_version = {number}")


def make_socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))


NO_STORES: list[tuple[Callable[[Path], object], str]] = [
    (lambda path: path.write_text("dear diary, " * 100), "not an SQLite database"),
    (lambda path: execute(path, "CREATE TABLE cookies (name)"), "another program"),
    (lambda path: make_file_of_format(path, 3), "has format 3 .* this one reads format 6"),
    (lambda path: make_file_of_format(path, 99), "has format 99 .* this one reads format 6"),
    (make_socket, "not a regular file"),
]


@pytest.mark.parametrize(("make", "reason"), NO_STORES)
def test_foreign_file_is_unchanged(path: Path, make: Callable[[Path], object], reason: str) -> None:
    async def use() -> None:
        async with SqliteStore(path, busy_seconds=0.1) as store:
            for attempt in (store.runs, lambda: begin_run(store), lambda: follow_all(store)) * 2:
                with pytest.raises(StoreError, match=reason):
                    await attempt()

    make(path)
    before = path.read_bytes() if path.is_file() else b""
    asyncio.run(use())
    assert (path.read_bytes() if path.is_file() else b"") == before


def begin_in_six_threads(path: Path) -> None:

    async def use(number: int) -> None:
        async with SqliteStore(path) as store:
            await asyncio.to_thread(barrier.wait)
            try:
                await begin_run(store, f"run-{number}")
            except StoreError as error:
                failures.append(error)

    failures: list[StoreError] = []
    barrier = threading.Barrier(6)
    threads = [threading.Thread(target=asyncio.run, args=(use(number),)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@store_test
async def test_new_file_can_be_opened_many_times_at_once(tmp_path: Path) -> None:
    for number in range(5):
        path = tmp_path / f"{number}.db"
        await asyncio.to_thread(begin_in_six_threads, path)
        async with SqliteStore(path) as store:
            assert len(await store.runs()) == 6


INDEXES: list[tuple[dict[str, Any], str]] = [
    ({"user": "ada"}, "runs_by_user (user=?)"),
    ({"status": "completed", "user": "ada"}, "runs_by_user (user=?)"),
    ({"conversation_id": "talk", "user": "ada"}, "runs_by_user (user=? AND conversation_id=?)"),
    ({"conversation_id": "talk"}, "runs_by_conversation (conversation_id=?)"),
    ({"conversation_id": "talk", "user": ""}, "runs_by_conversation (conversation_id=?)"),
    ({"status": "running"}, "runs_unfinished (status=?)"),
]


@store_test
async def test_listing_a_few_runs_uses_an_index(path: Path, store: SqliteStore) -> None:
    await begin_run(store)
    traced: list[str] = []
    await store._reader.run(lambda connection: connection.set_trace_callback(traced.append))
    for query, index in INDEXES:
        traced.clear()
        await store.runs(**query, limit=20)
        (select,) = [statement for statement in traced if statement.startswith("SELECT")]
        with closing(sqlite3.connect(path)) as connection:
            plan = connection.execute(f"EXPLAIN QUERY PLAN {select}").fetchall()
        assert index in plan[0][3], query


@store_test
async def test_store_waits_while_the_file_is_locked_but_not_for_ever(path: Path) -> None:
    async with SqliteStore(path, busy_seconds=0.3) as store:
        writer, lease, records = await begin_run(store)
        texts = writer.texts("a")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            appends = [store.append(lease, texts) for _ in range(100)]
            async with asyncio.timeout(10):  # they wait together, not one after the other
                failed = await asyncio.gather(*appends, return_exceptions=True)
            assert all("another process has locked it" in str(error) for error in failed)
            assert await store.read("run-1") == records
            writing = asyncio.create_task(store.append(lease, texts))
            await asyncio.sleep(0.1)
            assert not writing.done()
            other.execute("ROLLBACK")
            await writing
        assert await store.read("run-1") == records + texts


@pytest.mark.parametrize(
    ("breaks", "repairs", "reason"),
    [
        ("max_page_count = 20", "max_page_count = 20000", "the disk is full"),
        ("query_only = 1", "query_only = 0", "it is read-only"),
    ],
)
@store_test
async def test_failed_write_leaves_nothing_half_written(
    store: SqliteStore, breaks: str, repairs: str, reason: str
) -> None:
    async def pragma(setting: str) -> None:
        await store._writer.run(lambda c: c.execute(f"PRAGMA {setting}").fetchone())

    writer, lease, records = await begin_run(store)
    large = writer.texts(*["x" * 10_000] * 50)
    await pragma(breaks)
    with pytest.raises(StoreError, match=reason):
        await store.append(lease, large)
    assert await store.read("run-1") == records
    await pragma(repairs)
    await store.append(lease, large)
    assert await store.read("run-1") == records + large


@store_test
async def test_file_system_without_shared_memory_is_a_failure(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            return super().execute(statement.replace("= WAL", "= DELETE"), *values)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Elsewhere))
    with pytest.raises(StoreError, match="Put the file on a local disk"):
        await store.runs()


FOREIGN = to_json(Writer("run-2").texts("a", "b")[1]).decode()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("UPDATE records SET line = '{' WHERE seq = 2", "a record that cannot be read"),
        ("UPDATE records SET line = 7 WHERE seq = 2", "a record that cannot be read"),
        (f"UPDATE records SET line = '{FOREIGN}' WHERE seq = 2", "has a record of 'run-2'"),
        ("DELETE FROM records WHERE seq = 2", "has seq 3 instead of 2"),
        ("DELETE FROM records", "has lost its records after 1"),
        (
            "UPDATE runs SET state = json_set(state, '$.decisions.c1', '{')",
            "a decision that cannot be read",
        ),
        ("UPDATE runs SET state = '{'", "a run that cannot be read"),
        ("UPDATE runs SET seq = 'x'", "a run that cannot be read"),
    ],
)
@store_test
async def test_damaged_log_fails(path: Path, store: SqliteStore, damage: str, reason: str) -> None:
    writer, lease, _ = await begin_run(store)
    async with aclosing(store.follow("run-1")) as following:
        await anext(following)
        await store.append(lease, writer.texts("a", "b"))
        for _ in range(25):
            await store.append(lease, writer.texts(*"c" * 100))
        await asyncio.sleep(0.05)
        execute(path, damage)
        attempt = store.commands("run-1") if "UPDATE runs" in damage else anext(following)
        with pytest.raises(StoreError, match=reason):
            await attempt
    await begin_run(store, "run-2")
    assert "run-2" in [info.run_id for info in await store.runs()]  # it hides no other run
    execute(path, "UPDATE conversations SET title = x'ff'")
    with pytest.raises(StoreError, match="a conversation that cannot be read"):
        await store.conversations()


@store_test
async def test_unreadable_file_fails_until_it_is_repaired(path: Path, store: SqliteStore) -> None:
    await begin_run(store)
    following = asyncio.create_task(follow_all(store))
    await asyncio.sleep(0.05)
    execute(path, "ALTER TABLE runs RENAME TO gone")
    for attempt in (following, store.runs()):
        with pytest.raises(StoreError, match="no such table"):
            await attempt
    execute(path, "ALTER TABLE gone RENAME TO runs")
    assert [info.run_id for info in await store.runs()] == ["run-1"]


@pytest.mark.parametrize("names", [("runs.db", "runs.db-wal", "runs.db-shm"), ("runs.db-wal",)])
@store_test
async def test_write_to_a_deleted_file_is_not_acknowledged(
    path: Path, store: SqliteStore, names: tuple[str, ...]
) -> None:
    writer, lease, _ = await begin_run(store)
    for name in names:
        path.with_name(name).unlink()
    with pytest.raises(StoreError, match="was deleted"):
        await store.append(lease, writer.texts("a"))


@store_test
async def test_store_creates_a_new_file_after_deletion(path: Path, store: SqliteStore) -> None:
    await begin_run(store)
    following = asyncio.ensure_future(anext(store.follow("run-1", 1)))
    await asyncio.sleep(0.05)
    for file in list(path.parent.iterdir()):
        file.unlink()
    for attempt in (following, store.info("run-1")):
        with pytest.raises(StoreError, match="was deleted"):
            await attempt
    await begin_run(store, "run-2")
    assert [info.run_id for info in await store.runs()] == ["run-2"]


@store_test
async def test_only_a_new_run_creates_a_deleted_file_again(path: Path, store: SqliteStore) -> None:
    writer, lease, _ = await begin_run(store)  # nothing was read
    for file in list(path.parent.iterdir()):
        file.unlink()
    for attempt in (store.append(lease, writer.texts("a")), store.info("run-1"), store.runs()):
        with pytest.raises(StoreError, match="was deleted"):
            await attempt
    assert not path.exists()


@store_test
async def test_truncated_file_is_a_failure(path: Path, store: SqliteStore) -> None:
    await make_file_with_run(path, *[TextDelta("x" * 1_000, 0)] * 200)
    await store.info("run-1")
    os.truncate(path, 0)
    with pytest.raises(StoreError, match="it is empty"):
        await store.append(Lease("run-1", "me", 1), Writer().texts("a"))
