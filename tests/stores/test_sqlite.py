"""What is particular to the SQLite store: its file, its threads, what survives."""

import asyncio
import gc
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, closing
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

import pytest

from argstream.errors import RunTaken, StoreFailure, UsageError
from argstream.events import ToolExecutionStarted
from argstream.log import Claim
from argstream.stores import SqliteStore
from argstream.stores._checks import Wanted
from argstream.stores._sqlite_rows import newest
from tests.stores.records import SECONDS, Writer, asked, begun
from tests.stores.stores import all_of

Answer = TypeVar("Answer")
ROOT = Path(__file__).parents[2]


def with_store(
    path: Path, story: Callable[[SqliteStore], Awaitable[Answer]], *, busy_seconds: float = 10.0
) -> Answer:
    async def opened() -> Answer:
        async with aclosing(SqliteStore(path, busy_seconds=busy_seconds)) as store:
            return await asyncio.wait_for(story(store), 30)

    return asyncio.run(opened())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


# The file


def test_the_file_is_for_its_owner_only(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        await begun(store)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        assert modes == {"runs.db": 0o600, "runs.db-wal": 0o600, "runs.db-shm": 0o600}

    before = os.umask(0)
    try:
        with_store(path, story)
    finally:
        os.umask(before)


def test_runs_are_there_after_closing_and_opening(path: Path) -> None:
    async def write(store: SqliteStore) -> None:
        writer, claim, _ = await begun(store, "run-1", asked())
        await store.append(claim, writer.texts("a"))
        await store.stop("run-1", "enough")

    async def read(store: SqliteStore) -> None:
        assert [record.seq for record in await store.read("run-1")] == [1, 2, 3]
        assert (await store.info("run-1")).pending == {"c1": "d1"}
        assert (await store.posted("run-1")).stop_reason == "enough"
        with pytest.raises(RunTaken):
            await store.claim("run-1", "you", SECONDS)

    with_store(path, write)
    assert [file.name for file in path.parent.iterdir()] == ["runs.db"]
    with_store(path, read)


def test_the_file_stays_the_same_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(store: SqliteStore) -> None:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        await begun(store)

    monkeypatch.chdir(tmp_path)
    with_store(Path("runs.db"), story)
    assert (tmp_path / "runs.db").exists()


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no directory '.*nowhere'"):
        SqliteStore(tmp_path / "nowhere" / "runs.db")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        SqliteStore(tmp_path)


def refuses(path: Path, reason: str) -> None:
    """See that a store does not work, and says why, to who writes and to who reads."""

    async def story(store: SqliteStore) -> None:
        for _ in range(2):
            with pytest.raises(StoreFailure, match=reason):
                await store.runs()
            with pytest.raises(StoreFailure, match=reason):
                await begun(store)
            with pytest.raises(StoreFailure, match=reason):
                await all_of(store)

    before = path.read_bytes()
    with_store(path, story, busy_seconds=0.1)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    path.write_text("dear diary, " * 100)
    refuses(path, "no SQLite database")


def test_a_database_of_another_program_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE cookies (name)")
    refuses(path, "another program")


def test_a_newer_schema_is_left_alone(path: Path) -> None:
    with_store(path, begun)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")
    refuses(path, "version 99 of the schema, and this argstream knows 2")


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


def test_a_file_of_the_first_version_is_read_and_written(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        assert [record.seq for record in await store.read("old")] == [1]
        await store.begin(Writer("new", user="ada").started(), "me", SECONDS)
        await store.claim("old", "me", SECONDS)
        assert [info.run_id for info in await store.runs(user="")] == ["old"]
        assert [info.run_id for info in await store.runs(user="ada")] == ["new"]
        assert [info.run_id for info in await store.runs(status="paused")] == ["old"]

    older_file(path)
    with_store(path, story)
    with_store(path, lambda store: store.runs(user="ada"))


def test_many_can_open_a_file_of_the_first_version_at_once(path: Path) -> None:
    """Also while a program that knows no other has it open, and goes on writing to it."""
    older_file(path)

    async def use(number: int) -> None:
        async with aclosing(SqliteStore(path)) as store:
            await begun(store, f"run-{number}")

    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        older.execute("SELECT count(*) FROM runs").fetchone()
        threads = [threading.Thread(target=asyncio.run, args=(use(number),)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        older.execute(FIRST_RUN, ("by the older program",))
    assert len(with_store(path, lambda store: store.runs(user=""))) == 8


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (Wanted(None, None, "ada"), "runs_by_user (user=?)"),
        (Wanted("completed", None, "ada"), "runs_by_user (user=?)"),
        (Wanted(None, "talk", "ada"), "runs_by_user (user=? AND session_id=?)"),
        (Wanted(None, "talk", None), "runs_by_session (session_id=?)"),
        (Wanted(None, "talk", ""), "runs_by_session (session_id=?)"),
        (Wanted("running", None, None), "runs_unfinished (status=?)"),
    ],
)
def test_nobody_looks_at_all_runs_to_find_a_few(path: Path, wanted: Wanted, index: str) -> None:
    with_store(path, begun)
    asked_for: list[str] = []
    with closing(sqlite3.connect(path)) as connection:
        connection.set_trace_callback(asked_for.append)
        newest(connection, wanted, 20)
        connection.set_trace_callback(None)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {asked_for[0]}").fetchall()
    assert index in plan[0][3]


def test_many_can_open_a_new_file_at_once(tmp_path: Path) -> None:
    def use(path: Path, number: int) -> None:
        barrier.wait()
        try:
            with_store(path, lambda store: begun(store, f"run-{number}"))
        except StoreFailure as error:
            failures.append(error)

    failures: list[StoreFailure] = []
    barrier = threading.Barrier(6)
    for round_ in range(10):
        path = tmp_path / f"{round_}.db"
        threads = [threading.Thread(target=use, args=(path, number)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(with_store(path, lambda store: store.runs())) == 6
    assert failures == []


def test_what_is_no_file_is_a_failure(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        with pytest.raises(StoreFailure, match="it is no file"):
            await store.runs()

    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        with_store(path, story)


def test_a_file_system_without_shared_memory_is_a_failure(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            return super().execute(statement.replace("= WAL", "= DELETE"), *values)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Elsewhere))

    async def story(store: SqliteStore) -> None:
        with pytest.raises(StoreFailure, match="put it on a local disk"):
            await store.runs()

    with_store(path, story)


def test_a_store_waits_for_who_has_the_file_locked(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        writer, claim, _ = await begun(store)
        with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            threading.Timer(0.2, other.execute, ["COMMIT"]).start()
            start = time.monotonic()
            await store.append(claim, writer.texts("a"))
            assert time.monotonic() - start > 0.1

    with_store(path, story)


def test_a_file_that_stays_locked_is_a_failure_and_then_all_goes_on(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
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

    with_store(path, story, busy_seconds=0.2)


async def on_writer(store: SqliteStore, work: Callable[[Connection], Answer]) -> Answer:
    return await store._writer.run(work)


def test_a_full_disk_is_a_failure_and_nothing_is_half_written(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        writer, claim, records = await begun(store)
        large = writer.texts(*["x" * 10_000] * 50)
        await on_writer(store, lambda c: c.execute("PRAGMA max_page_count = 20").fetchone())
        with pytest.raises(StoreFailure, match="the disk is full"):
            await store.append(claim, large)
        assert await store.read("run-1") == records
        await on_writer(store, lambda c: c.execute("PRAGMA max_page_count = 20000").fetchone())
        await store.append(claim, large)
        assert await store.read("run-1") == records + large

    with_store(path, story)


def test_a_file_that_may_only_be_read_is_a_failure(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        writer, claim, records = await begun(store)
        await on_writer(store, lambda c: c.execute("PRAGMA query_only = 1").fetchone())
        with pytest.raises(StoreFailure, match="it may only be read"):
            await store.append(claim, writer.texts("a"))
        assert await store.read("run-1") == records

    with_store(path, story)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("UPDATE records SET line = '{' WHERE seq = 2", "a record that cannot be read"),
        ("DELETE FROM records WHERE seq = 2", "has 3 where 2 should be"),
        ("DELETE FROM records", "has lost what came after 1"),
        ('UPDATE runs SET decisions = \'{"c1":"{"}\'', "a decision that cannot be read"),
    ],
)
def test_a_log_that_was_tampered_with_is_a_failure(path: Path, damage: str, reason: str) -> None:
    async def story(store: SqliteStore) -> None:
        writer, claim, _ = await begun(store)
        async with aclosing(store.follow("run-1")) as following:
            await anext(following)
            await store.append(claim, writer.texts("a", "b"))
            for _ in range(25):
                await store.append(claim, writer.texts(*"c" * 100))
            await asyncio.sleep(0.05)
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute(damage)
            asking = store.posted("run-1") if "decision" in reason else anext(following)
            with pytest.raises(StoreFailure, match=reason):
                await asking

    with_store(path, story)


# Group commit


async def traced(store: SqliteStore) -> list[str]:
    """Give a list of what SQLite is told to do from now on."""
    statements: list[str] = []
    await on_writer(store, lambda connection: connection.set_trace_callback(statements.append))
    return statements


def test_what_many_runs_write_at_once_is_one_commit(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        runs = await asyncio.gather(*(begun(store, f"run-{number}") for number in range(50)))
        statements = await traced(store)
        for _ in range(4):
            await asyncio.gather(
                *(store.append(claim, writer.texts("a", "b")) for writer, claim, _ in runs)
            )
        assert statements.count("COMMIT") <= 4 * 3
        assert len(await store.read("run-7")) == 9

    with_store(path, story)


def test_in_a_group_one_fails_alone(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        runs = await asyncio.gather(*(begun(store, f"run-{number}") for number in range(5)))
        stale = Claim("run-2", "old", 0)
        gap = Writer("run-4")
        gap.seq = 7
        writing = [store.append(claim, writer.texts("a")) for writer, claim, _ in runs]
        outcomes = await asyncio.gather(
            *writing[:2],
            store.append(stale, Writer("run-2").started()),
            store.append(runs[4][1], gap.texts("gap")),
            store.claim("run-0", "you", SECONDS),
            on_writer(store, lambda connection: connection.execute("no statement")),
            *writing[2:],
            return_exceptions=True,
        )
        kinds = [type(outcome) for outcome in outcomes]
        refused = [RunTaken, UsageError, RunTaken, StoreFailure]
        assert kinds == [type(None)] * 2 + refused + [type(None)] * 3
        for number in range(5):
            assert len(await store.read(f"run-{number}")) == 2

    with_store(path, story)


def test_what_must_survive_waits_for_the_disk_and_deltas_do_not(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        writer, claim, _ = await begun(store, "run-1", asked())

        async def is_synced(work: Awaitable[object]) -> bool:
            await work
            (level,) = await store._writer.run(
                lambda connection: connection.execute("PRAGMA synchronous").fetchone(),
                is_durable=store._writer._is_durable or False,
            )
            return bool(level == 2)

        started = ToolExecutionStarted("c1", "send", "key")
        assert not await is_synced(store.append(claim, writer.texts("a")))
        assert await is_synced(store.append(claim, writer.records(started)))
        assert not await is_synced(store.append(claim, writer.texts("b")))
        assert await is_synced(store.stop("run-1"))
        assert not await is_synced(store.renew(claim, SECONDS))
        assert not await is_synced(store.release(claim))
        assert await is_synced(store.claim("run-1", "me", SECONDS))

    with_store(path, story)


# Processes


def script(path: Path, *lines: str) -> list[str]:
    """A program that writes to the store, and says which record was acknowledged."""
    head = (
        "import asyncio, os, signal, sys, threading",
        "from argstream.errors import StoreFailure",
        "from argstream.stores import SqliteStore",
        "from tests.stores.records import *",
        "async def main():",
        f"    store = SqliteStore({str(path)!r})",
        "    writer, claim, _ = await begun(store)",
    )
    body = [f"    {line}" for line in lines]
    return [sys.executable, "-c", "\n".join([*head, *body, "asyncio.run(main())"])]


def test_what_was_acknowledged_survives_a_kill(path: Path) -> None:
    command = script(
        path,
        "while True:",
        "    await store.append(claim, writer.texts('a', 'b'))",
        "    print(writer.seq, flush=True)",
    )
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(100)]
        process.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]

    async def story(store: SqliteStore) -> None:
        seqs = [record.seq for record in await store.read("run-1")]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) >= acknowledged[-1]

    with_store(path, story)


def test_a_program_that_forgets_to_close_the_store_ends_and_loses_nothing(path: Path) -> None:
    command = script(
        path,
        "following = store.follow('run-1')",
        "await anext(following)",
        "await store.append(claim, writer.texts('a'))",
        "globals()['kept'] = store, following",
    )
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=20, text=True, check=True)
    assert done.stderr == ""
    assert len(with_store(path, lambda store: store.read("run-1"))) == 2


def test_a_child_that_was_forked_is_told_to_open_the_store_anew(path: Path) -> None:
    program = (
        "import asyncio, os, sys",
        "from argstream.errors import StoreFailure",
        "from argstream.stores import SqliteStore",
        "from tests.stores.records import begun",
        f"store = SqliteStore({str(path)!r})",
        "writer, claim, _ = asyncio.run(begun(store))",
        "child = os.fork()",
        "try:",
        "    asyncio.run(store.append(claim, writer.texts('a')))",
        "    assert child, 'a child can use it'",
        "    assert os.waitpid(child, 0)[1] == 0",
        "    asyncio.run(store.aclose())",
        "except StoreFailure as error:",
        "    print(error)",
    )
    command = [sys.executable, "-c", "\n".join(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=20, text=True, check=True)
    assert done.stdout.count("open it anew here") == 1
    assert len(with_store(path, lambda store: store.read("run-1"))) == 2


def test_a_store_that_nobody_has_any_more_ends_its_threads(path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(path)
        await begun(store)
        assert len(await store.read("run-1")) == 1

    before = threading.active_count()
    asyncio.run(story())
    gc.collect()
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_nobody_looks_for_what_others_write_unless_somebody_waits(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        await begun(store)
        assert store._writer._patience() is None
        async with aclosing(store.follow("run-1")) as following:
            await anext(following)
            assert store._writer._patience() is not None
        assert store._writer._patience() is None

    with_store(path, story)


def test_followers_hear_when_the_file_can_be_read_no_more(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        await begun(store)
        following = asyncio.create_task(all_of(store))
        await asyncio.sleep(0.05)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("ALTER TABLE runs RENAME TO gone")
        with pytest.raises(StoreFailure, match="no such table"):
            await following

    with_store(path, story)
