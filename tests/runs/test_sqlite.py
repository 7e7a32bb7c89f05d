"""What is particular to the SQLite store: its file, and what can be wrong with that."""

import asyncio
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import aclosing, closing
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import pytest

from argstream.errors import RunTaken, StoreFailure, UsageError
from argstream.events import TextDelta
from argstream.runs import Claim, SqliteStore, to_json
from tests.runs.records import SECONDS, Writer, asked, begun
from tests.runs.stores import all_of, story

STORES = ["sqlite"]
HALF = "\ud800"


def execute(path: Path, *statements: str) -> None:
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement)


async def with_a_run(path: Path, *events: TextDelta) -> None:
    """Make a file with a run, and close it."""
    async with SqliteStore(path) as store:
        await begun(store, "run-1", *events)


# The file


@pytest.mark.parametrize("is_link", [False, True])
def test_the_file_is_for_its_owner_only(path: Path, is_link: bool) -> None:
    async def modes() -> dict[str, int]:
        async with SqliteStore(link if is_link else path) as store:
            await begun(store)
            files = [file for file in path.parent.iterdir() if file != link]
            return {file.name: file.lstat().st_mode & 0o777 for file in files}

    link = path.with_name("link.db")
    if is_link:  # to a file that is not there yet
        link.symlink_to(path)
    before = os.umask(0)
    try:
        found = asyncio.run(modes())
    finally:
        os.umask(before)
    assert found == {"runs.db": 0o600, "runs.db-wal": 0o600, "runs.db-shm": 0o600}


@story
async def test_runs_are_there_after_closing_and_opening(path: Path) -> None:
    async with SqliteStore(path) as store:
        writer, claim, _ = await begun(store, "run-1", asked())
        await store.append(claim, writer.texts("a"))
        await store.stop("run-1", "enough")
    assert [file.name for file in path.parent.iterdir()] == ["runs.db"]
    async with SqliteStore(path) as store:
        assert [record.seq for record in await store.read("run-1")] == [1, 2, 3]
        assert (await store.info("run-1")).pending == {"c1": "d1"}
        assert (await store.posted("run-1")).stop_reason == "enough"
        with pytest.raises(RunTaken):
            await store.claim("run-1", "you", SECONDS)


@story
async def test_the_file_stays_the_same_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with SqliteStore("runs.db") as store:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        await begun(store)
    assert (tmp_path / "runs.db").exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere/runs.db", r"there is no directory '.*nowhere'"),
        ("", "is a directory"),
        ("\0.db", "cannot be the name of a file"),
        ("n" * 300, "cannot be the path of a store"),
        (f"{HALF}.db", "cannot be the path of a store"),
    ],
)
def test_a_path_that_no_file_can_have_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        SqliteStore(tmp_path / name)


def _diary(path: Path) -> None:
    path.write_text("dear diary, " * 100)


def _cookies(path: Path) -> None:
    execute(path, "CREATE TABLE cookies (name)")


def _newer(path: Path) -> None:
    asyncio.run(with_a_run(path))
    execute(path, "PRAGMA user_version = 99")


def _socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_diary, "no SQLite database"),
        (_cookies, "another program"),
        (_newer, "version 99 of the schema, and this argstream knows 2"),
        (_socket, "it is no file"),
    ],
)
def test_what_is_no_store_is_left_alone(
    path: Path, make: Callable[[Path], None], reason: str
) -> None:
    async def refused() -> None:
        async with SqliteStore(path, busy_seconds=0.1) as store:
            for asking in (store.runs, lambda: begun(store), lambda: all_of(store)) * 2:
                with pytest.raises(StoreFailure, match=reason):
                    await asking()

    make(path)
    before = path.read_bytes() if path.is_file() else b""
    asyncio.run(refused())
    assert (path.read_bytes() if path.is_file() else b"") == before


FIRST_SCHEMA = """
    CREATE TABLE runs (
        key INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL,
        agent TEXT NOT NULL, status TEXT NOT NULL, seq INTEGER NOT NULL, created REAL NOT NULL,
        updated REAL NOT NULL, token INTEGER NOT NULL, owner TEXT, until REAL NOT NULL,
        lasts REAL NOT NULL, pending TEXT NOT NULL, decisions TEXT NOT NULL, stop_reason TEXT,
        posts_version INTEGER NOT NULL
    );
    CREATE INDEX runs_by_session ON runs (session_id);
    CREATE TABLE records (
        run INTEGER NOT NULL REFERENCES runs (key), seq INTEGER NOT NULL, line BLOB NOT NULL,
        PRIMARY KEY (run, seq)
    ) WITHOUT ROWID;
    PRAGMA application_id = 0x61726773;
    PRAGMA user_version = 1;
    PRAGMA journal_mode = WAL;
"""
FIRST_RUN = (
    "INSERT INTO runs (run_id, session_id, agent, status, seq, created, updated, token, owner, "
    "until, lasts, pending, decisions, stop_reason, posts_version) "
    "VALUES (?, 's', 'agent', 'paused', 1, 1.0, 1.0, 2, NULL, 0.0, 0.0, '{}', '{}', NULL, 0)"
)
FIRST_LINE = (
    '{"seq":1,"time":1.0,"run_id":"old","session_id":"s","agent":"agent",'
    '"event":{"type":"run_started","run_id":"old","prompt":"Go","history":[]}}'
)


def older_file(path: Path) -> None:
    """A file as the first version made it, with a run."""
    with closing(sqlite3.connect(path)) as older:
        older.executescript(FIRST_SCHEMA)
        older.execute(FIRST_RUN, ("old",))
        older.execute("INSERT INTO records VALUES (1, 1, ?)", (FIRST_LINE.encode(),))
        older.commit()


@story
async def test_a_file_of_the_first_version_is_read_and_written(path: Path) -> None:
    older_file(path)
    async with SqliteStore(path) as store:
        assert [record.seq for record in await store.read("old")] == [1]
        await store.begin(Writer("new", user="ada").started(), "me", SECONDS)
        await store.claim("old", "me", SECONDS)
    async with SqliteStore(path) as store:
        assert [info.run_id for info in await store.runs(user="")] == ["old"]
        assert [info.run_id for info in await store.runs(user="ada")] == ["new"]
        assert [info.run_id for info in await store.runs(status="paused")] == ["old"]


def begin_at_once(path: Path) -> None:
    """Open a file in six threads at once, each for a run of its own."""

    async def use(number: int) -> None:
        async with SqliteStore(path) as store:
            await asyncio.to_thread(barrier.wait)
            try:
                await begun(store, f"run-{number}")
            except StoreFailure as error:
                failures.append(error)

    failures: list[StoreFailure] = []
    barrier = threading.Barrier(6)
    threads = [threading.Thread(target=asyncio.run, args=(use(number),)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@story
async def test_many_can_open_a_file_of_the_first_version_at_once(path: Path) -> None:
    """Also while a program that knows no other has it open, and goes on writing to it."""
    older_file(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        older.execute("SELECT count(*) FROM runs").fetchone()
        await asyncio.to_thread(begin_at_once, path)
        older.execute(FIRST_RUN, ("by the older program",))
    async with SqliteStore(path) as store:
        assert len(await store.runs(user="")) == 8


@story
async def test_many_can_open_a_new_file_at_once(tmp_path: Path) -> None:
    for round_ in range(10):
        path = tmp_path / f"{round_}.db"
        await asyncio.to_thread(begin_at_once, path)
        async with SqliteStore(path) as store:
            assert len(await store.runs()) == 6


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ({"user": "ada"}, "runs_by_user (user=?)"),
        ({"status": "completed", "user": "ada"}, "runs_by_user (user=?)"),
        ({"session_id": "talk", "user": "ada"}, "runs_by_user (user=? AND session_id=?)"),
        ({"session_id": "talk"}, "runs_by_session (session_id=?)"),
        ({"session_id": "talk", "user": ""}, "runs_by_session (session_id=?)"),
        ({"status": "running"}, "runs_unfinished (status=?)"),
    ],
)
@story
async def test_listing_a_few_runs_uses_an_index(
    path: Path, store: SqliteStore, wanted: dict[str, Any], index: str
) -> None:
    await begun(store)
    asked_for: list[str] = []
    await store._reader.run(lambda connection: connection.set_trace_callback(asked_for.append))
    await store.runs(**wanted, limit=20)
    (select,) = [statement for statement in asked_for if statement.startswith("SELECT")]
    with closing(sqlite3.connect(path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {select}").fetchall()
    assert index in plan[0][3]


# Locks and disks


@story
async def test_a_store_waits_while_the_file_is_locked(path: Path, store: SqliteStore) -> None:
    writer, claim, _ = await begun(store)
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.2, other.execute, ["COMMIT"]).start()
        start = time.monotonic()
        await store.append(claim, writer.texts("a"))
        assert time.monotonic() - start > 0.1


@story
async def test_a_file_that_stays_locked_is_a_failure_and_then_all_goes_on(path: Path) -> None:
    async with SqliteStore(path, busy_seconds=0.2) as store:
        writer, claim, records = await begun(store)
        texts = writer.texts("a")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            start = time.monotonic()
            failed = await asyncio.gather(
                *(store.append(claim, texts) for _ in range(20)), return_exceptions=True
            )
            assert time.monotonic() - start < 2  # not each of them waits anew
            assert {str(error)[-60:] for error in failed} == {str(failed[0])[-60:]}
            assert "another process has it locked" in str(failed[0])
            assert await store.read("run-1") == records
            other.execute("ROLLBACK")
        await store.append(claim, texts)
        assert await store.read("run-1") == records + texts


@pytest.mark.parametrize(
    ("breaks", "mends", "reason"),
    [
        ("max_page_count = 20", "max_page_count = 20000", "the disk is full"),
        ("query_only = 1", "query_only = 0", "it may only be read"),
    ],
)
@story
async def test_when_nothing_can_be_written_nothing_is_half_written(
    store: SqliteStore, breaks: str, mends: str, reason: str
) -> None:
    async def pragma(setting: str) -> None:
        await store._writer.run(lambda c: c.execute(f"PRAGMA {setting}").fetchone())

    writer, claim, records = await begun(store)
    large = writer.texts(*["x" * 10_000] * 50)
    await pragma(breaks)
    with pytest.raises(StoreFailure, match=reason):
        await store.append(claim, large)
    assert await store.read("run-1") == records
    await pragma(mends)
    await store.append(claim, large)
    assert await store.read("run-1") == records + large


@story
async def test_a_file_system_without_shared_memory_is_a_failure(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            return super().execute(statement.replace("= WAL", "= DELETE"), *values)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Elsewhere))
    with pytest.raises(StoreFailure, match="put it on a local disk"):
        await store.runs()


# A file that is damaged, or taken away

OTHERS = to_json(Writer("run-2").texts("a", "b")[1]).decode()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("UPDATE records SET line = '{' WHERE seq = 2", "a record that cannot be read"),
        (f"UPDATE records SET line = '{OTHERS}' WHERE seq = 2", "has a record of 'run-2'"),
        ("DELETE FROM records WHERE seq = 2", "has 3 where 2 should be"),
        ("DELETE FROM records", "has lost what came after 1"),
        ('UPDATE runs SET decisions = \'{"c1":"{"}\'', "a decision that cannot be read"),
    ],
)
@story
async def test_a_log_that_was_tampered_with_is_a_failure(
    path: Path, store: SqliteStore, damage: str, reason: str
) -> None:
    writer, claim, _ = await begun(store)
    async with aclosing(store.follow("run-1")) as following:
        await anext(following)
        await store.append(claim, writer.texts("a", "b"))
        for _ in range(25):
            await store.append(claim, writer.texts(*"c" * 100))
        await asyncio.sleep(0.05)
        execute(path, damage)
        asking = store.posted("run-1") if "decision" in reason else anext(following)
        with pytest.raises(StoreFailure, match=reason):
            await asking


@story
async def test_followers_hear_when_the_file_can_be_read_no_more(
    path: Path, store: SqliteStore
) -> None:
    await begun(store)
    following = asyncio.create_task(all_of(store))
    await asyncio.sleep(0.05)
    execute(path, "ALTER TABLE runs RENAME TO gone")
    with pytest.raises(StoreFailure, match="no such table"):
        await following
    with pytest.raises(StoreFailure, match="no such table"):
        await store.runs()
    execute(path, "ALTER TABLE gone RENAME TO runs")
    assert [info.run_id for info in await store.runs()] == ["run-1"]


@pytest.mark.parametrize("names", [("runs.db", "runs.db-wal", "runs.db-shm"), ("runs.db-wal",)])
@story
async def test_nothing_is_acknowledged_that_could_not_be_found(
    path: Path, store: SqliteStore, names: tuple[str, ...]
) -> None:
    writer, claim, _ = await begun(store)
    for name in names:
        path.with_name(name).unlink()
    with pytest.raises(StoreFailure, match="was deleted"):
        await store.append(claim, writer.texts("a"))


@story
async def test_after_the_file_was_deleted_the_store_begins_a_new_one(
    path: Path, store: SqliteStore
) -> None:
    await begun(store)
    following = asyncio.create_task(anext(store.follow("run-1", 1)))
    await asyncio.sleep(0.05)
    for file in list(path.parent.iterdir()):
        file.unlink()
    with pytest.raises(StoreFailure, match="was deleted"):
        await following
    with pytest.raises(StoreFailure, match="was deleted"):  # readers are told as well
        await store.info("run-1")
    await begun(store, "run-2")
    assert [info.run_id for info in await store.runs()] == ["run-2"]


@story
async def test_a_file_that_was_emptied_is_a_failure(path: Path, store: SqliteStore) -> None:
    await with_a_run(path, *[TextDelta("x" * 1_000, 0)] * 200)
    claim, writer = Claim("run-1", "me", 1), Writer()
    writer.seq = (await store.info("run-1")).seq
    os.truncate(path, 0)
    with pytest.raises(StoreFailure, match="it is empty"):
        await store.append(claim, writer.texts("a"))
