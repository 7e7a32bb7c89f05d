"""Several processes with one SQLite file: nobody takes the file's log away under another."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from argstream.errors import StoreFailure
from argstream.events import TextDelta, ToolExecutionStarted
from argstream.log import Claim
from argstream.stores import SqliteStore
from tests.stores.records import Writer, begun

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).parent / "argstream"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def play(path: Path, story: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def opened() -> None:
        async with aclosing(SqliteStore(path)) as store:
            await asyncio.wait_for(story(store), 30)

    asyncio.run(opened())


def run(*command: str | Path) -> str:
    """Run a program of its own, and give what it says."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    return done.stdout


def length_elsewhere(path: Path) -> int:
    """Open the file in another process, and close it: how long is the run there?"""
    program = (
        "import asyncio",
        "from argstream.stores import SqliteStore",
        "async def main():",
        f"    store = SqliteStore({str(path)!r})",
        "    print((await store.info('run-1')).seq)",
        "    await store.aclose()",
        "asyncio.run(main())",
    )
    return int(run(sys.executable, "-c", "\n".join(program)))


def test_what_another_process_opens_and_closes_stays_in_use_here(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        writer, claim, _ = await begun(store)
        await store.info("run-1")  # so that both connections are open
        assert length_elsewhere(path) == 1
        assert path.with_name("runs.db-wal").exists()
        await store.append(claim, writer.texts("a"))
        await store.append(claim, writer.records(ToolExecutionStarted("c1", "send", "key")))
        assert length_elsewhere(path) == 3
        assert length_elsewhere(path) == 3

    play(path, story)
    assert length_elsewhere(path) == 3


AGENT = """
import asyncio, sys
from pathlib import Path
from contextlib import aclosing
from argstream import Agent, ScriptedModel, open_store, tool
from argstream.clients import CallTool, Reply
from argstream.history import ResultPart

place = Path(sys.argv[1])

@tool
async def step(number: int) -> str:
    "Do it."
    with (place / "effects").open("a") as effects:
        effects.write(f"{number} ")
    print("begun", flush=True)
    while number or not (place / "go on").exists():
        await asyncio.sleep(0.01)
    return "ok"

def answer(request):
    parts = [part for message in request.messages for part in message.parts]
    number = sum(isinstance(part, ResultPart) for part in parts)
    return Reply("done") if number == 2 else Reply(CallTool("step", {"number": number}))

async def main():
    async with aclosing(open_store(place / "runs.db")) as store:
        model = ScriptedModel(answer, repeat=True)
        agent = Agent(model, [step], store=store, claim_seconds=0.5)
        if len(sys.argv) == 2:
            await agent.run_async("Go")
        else:
            (info,) = await store.runs()
            print((await agent.resume(info.run_id, wait=20)).text)

asyncio.run(main())
"""


def test_a_tool_runs_once_though_somebody_lists_the_runs_before_the_crash(tmp_path: Path) -> None:
    first = [sys.executable, "-c", AGENT, str(tmp_path)]
    with subprocess.Popen(first, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        # This is the moment: what is written after it must be found.
        assert "running" in run(COMMAND, "runs", "--store", str(tmp_path / "runs.db"))
        (tmp_path / "go on").touch()
        assert process.stdout.readline() == "begun\n"
        process.kill()
    run(sys.executable, "-c", AGENT, str(tmp_path), "again")
    assert (tmp_path / "effects").read_text() == "0 1 "


def test_looking_for_the_runs_of_a_store_that_is_not_there_makes_none(path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run(COMMAND, "runs", "--store", str(path))
    assert list(path.parent.iterdir()) == []


def test_a_link_to_a_file_that_is_not_there_yet_makes_that_for_its_owner_only(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)

    async def story(store: SqliteStore) -> None:
        await begun(store)
        modes = {file.name: file.lstat().st_mode & 0o777 for file in path.parent.iterdir()}
        del modes["link.db"]
        assert modes == {"runs.db": 0o600, "runs.db-wal": 0o600, "runs.db-shm": 0o600}

    play(link, story)


# A file that is taken away


@pytest.mark.parametrize("names", [("runs.db", "runs.db-wal", "runs.db-shm"), ("runs.db-wal",)])
def test_nothing_is_acknowledged_that_nobody_could_find(path: Path, names: list[str]) -> None:
    async def story(store: SqliteStore) -> None:
        writer, claim, _ = await begun(store)
        for name in names:
            path.with_name(name).unlink()
        with pytest.raises(StoreFailure, match="was deleted"):
            await store.append(claim, writer.texts("a"))

    play(path, story)


def test_after_the_file_was_deleted_the_store_begins_a_new_one(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        await begun(store)
        following = asyncio.create_task(anext(store.follow("run-1", 1)))
        await asyncio.sleep(0.05)
        for file in list(path.parent.iterdir()):
            file.unlink()
        with pytest.raises(StoreFailure, match="was deleted"):
            await following
        with pytest.raises(StoreFailure, match="was deleted"):  # as he is told who reads
            await store.info("run-1")
        await begun(store, "run-2")
        assert [info.run_id for info in await store.runs()] == ["run-2"]

    play(path, story)


def test_a_file_that_was_emptied_is_a_failure(path: Path) -> None:
    async def written(store: SqliteStore) -> None:
        await begun(store, "run-1", *[TextDelta("x" * 1_000, 0)] * 200)

    async def story(store: SqliteStore) -> None:
        claim, writer = Claim("run-1", "me", 1), Writer()
        writer.seq = (await store.info("run-1")).seq
        os.truncate(path, 0)
        with pytest.raises(StoreFailure, match="it is empty"):
            await store.append(claim, writer.texts("a"))

    play(path, written)
    play(path, story)


def test_a_file_that_was_mended_works_again(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        with pytest.raises(StoreFailure, match="no such table"):
            await store.runs()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("ALTER TABLE gone RENAME TO runs")
        assert [info.run_id for info in await store.runs()] == ["run-1"]

    async def written(store: SqliteStore) -> None:
        await begun(store)

    play(path, written)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("ALTER TABLE runs RENAME TO gone")
    play(path, story)


def test_a_disk_that_is_full_from_the_first_is_named(path: Path) -> None:
    program = (
        "import asyncio, resource, signal",
        "from argstream.errors import StoreFailure",
        "from argstream.stores import SqliteStore",
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)",
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))",
        "try:",
        f"    asyncio.run(SqliteStore({str(path)!r}).runs())",
        "except StoreFailure as error:",
        "    print(error)",
    )
    assert "the disk does not work" in run(sys.executable, "-c", "\n".join(program))
