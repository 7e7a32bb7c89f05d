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

from argstream.errors import RunTaken, StoreFailure, UsageError
from argstream.events import ToolExecutionStarted
from argstream.runs import Claim, Record, SqliteStore
from tests.runs.records import SECONDS, Writer, asked, begun
from tests.runs.stores import all_of, story

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).parent / "argstream"
STORES = ["sqlite"]
RUNS = 70


async def many_begun(store: SqliteStore) -> list[tuple[Writer, Claim, list[Record]]]:
    return await asyncio.gather(*(begun(store, f"run-{number}") for number in range(RUNS)))


# Group commit


@story
async def test_many_runs_are_written_together_and_each_gets_its_own_records(
    store: SqliteStore,
) -> None:
    runs = await many_begun(store)
    statements: list[str] = []
    await store._writer.run(lambda connection: connection.set_trace_callback(statements.append))
    following = [asyncio.create_task(all_of(store, writer.run_id)) for writer, _, _ in runs]
    for number in range(4):
        batches = [
            writer.texts(*(f"{writer.run_id} {number} {place}" for place in range(number + 1)))
            for writer, _, _ in runs
        ]
        await asyncio.gather(
            *(
                store.append(claim, batch)
                for (_, claim, _), batch in zip(runs, batches, strict=True)
            )
        )
        for (_, _, records), batch in zip(runs, batches, strict=True):
            records.extend(batch)
    assert statements.count("COMMIT") <= 4 * 3
    assert (await store.info("run-7")).seq == 11
    ends = [writer.completed() for writer, _, _ in runs]
    await asyncio.gather(
        *(store.append(claim, end) for (_, claim, _), end in zip(runs, ends, strict=True))
    )
    for (_, _, records), end, followed in zip(runs, ends, following, strict=True):
        assert await followed == await store.read(end[0].run_id) == records + end


@pytest.mark.parametrize("statement", ["SELECT 1", "no statement"])
@story
async def test_in_a_group_each_write_fails_alone(store: SqliteStore, statement: str) -> None:
    """Also if one of them makes the whole transaction fail."""
    runs = await many_begun(store)
    (lost, lost_claim, _), (gap, gap_claim, _), (again, again_claim, _), *others = runs
    await store.release(lost_claim)
    gap.seq += 1
    known = again.texts("again")
    await store.append(again_claim, known)
    outcomes = await asyncio.gather(
        store._writer.run(lambda connection: connection.execute(statement).fetchall()),
        store.append(lost_claim, lost.texts("x")),
        store.append(gap_claim, gap.texts("x")),
        store.append(Claim("run-4", "old", 0), Writer("run-4").started()),
        store.claim("run-5", "you", SECONDS),
        store.append(again_claim, known),
        *(store.append(claim, writer.texts("x")) for writer, claim, _ in others),
        return_exceptions=True,
    )
    assert isinstance(outcomes[0], StoreFailure) == (statement == "no statement")
    refused = [type(outcome) for outcome in outcomes[1:5]]
    assert refused == [RunTaken, UsageError, RunTaken, RunTaken]
    assert outcomes[5:] == [None] * (RUNS - 2)
    lengths = [(await store.info(writer.run_id)).seq for writer, _, _ in runs]
    assert lengths == [1, 1, *[2] * (RUNS - 2)]


@story
async def test_durable_events_wait_for_the_disk_and_deltas_do_not(store: SqliteStore) -> None:
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


# Threads


def test_a_store_that_is_forgotten_ends_its_threads(path: Path) -> None:
    async def use() -> None:
        store = SqliteStore(path)
        await begun(store)
        assert len(await store.read("run-1")) == 1

    before = threading.active_count()
    asyncio.run(use())
    gc.collect()
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


@story
async def test_the_file_is_polled_only_while_a_follower_waits(store: SqliteStore) -> None:
    await begun(store)
    assert store._writer._patience() is None
    async with aclosing(store.follow("run-1")) as following:
        await anext(following)
        assert store._writer._patience() is not None
    assert store._writer._patience() is None


@story
async def test_when_the_writer_dies_all_callers_are_told(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, claim, _ = await begun(store)
    following = asyncio.create_task(anext(store.follow("run-1", 1)))
    await asyncio.sleep(0.05)
    entered, go_on = threading.Event(), threading.Event()

    def die(*_: object) -> None:
        entered.set()
        go_on.wait(10)
        raise SystemExit("the end")

    monkeypatch.setattr(store._writer, "_try", die)
    texts = writer.texts("a")
    waiting = [asyncio.create_task(store.append(claim, texts))]
    await asyncio.to_thread(entered.wait, 10)
    waiting += [asyncio.create_task(store.append(claim, texts)) for _ in range(3)]
    await asyncio.sleep(0.01)
    go_on.set()
    for task in (*waiting, following):
        with pytest.raises(StoreFailure, match="has broken down"):
            await asyncio.wait_for(task, 5)
    with pytest.raises(StoreFailure, match="has broken down"):
        await store.append(claim, texts)


@story
async def test_an_error_while_polling_does_not_end_the_writer(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, claim, records = await begun(store)

    def look(_: object) -> None:
        raise ValueError("what")

    monkeypatch.setattr(store._writer._lookout, "look", look)
    with pytest.raises(StoreFailure, match="what"):
        await asyncio.wait_for(anext(store.follow("run-1", 1)), 5)
    await asyncio.wait_for(store.append(claim, more := writer.texts("a")), 5)
    assert await store.read("run-1") == records + more


# Processes


def run(*command: str | Path) -> str:
    """Run a program of its own, and return what it prints."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    assert done.stderr == ""
    return done.stdout


def script(path: Path, *lines: str) -> list[str]:
    """A program that has begun a run in a new store."""
    head = (
        "import asyncio, os",
        "from argstream.errors import StoreFailure",
        "from argstream.runs import SqliteStore",
        "from tests.runs.records import begun",
        f"store = SqliteStore({str(path)!r})",
        "writer, claim, _ = asyncio.run(begun(store))",
    )
    return [sys.executable, "-c", "\n".join([*head, *lines])]


def length_elsewhere(path: Path) -> int:
    """Open the file in another process, and close it: how long is the run there?"""
    program = (
        "import asyncio",
        "from argstream.runs import SqliteStore",
        "async def main():",
        f"    async with SqliteStore({str(path)!r}) as store:",
        "        print((await store.info('run-1')).seq)",
        "asyncio.run(main())",
    )
    return int(run(sys.executable, "-c", "\n".join(program)))


@story
async def test_what_another_process_opens_and_closes_stays_in_use_here(
    path: Path, store: SqliteStore
) -> None:
    writer, claim, _ = await begun(store)
    await store.info("run-1")  # so that both connections are open
    assert length_elsewhere(path) == 1
    assert path.with_name("runs.db-wal").exists()
    await store.append(claim, writer.texts("a"))
    await store.append(claim, writer.records(ToolExecutionStarted("c1", "send", "key")))
    assert length_elsewhere(path) == 3
    await store.aclose()
    assert length_elsewhere(path) == 3


def test_acknowledged_records_survive_a_kill(path: Path) -> None:
    command = script(
        path,
        "async def main():",
        "    while True:",
        "        await store.append(claim, writer.texts('a', 'b'))",
        "        print(writer.seq, flush=True)",
        "asyncio.run(main())",
    )
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(100)]
        process.kill()
        acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]

    async def read() -> list[int]:
        async with SqliteStore(path) as store:
            return [record.seq for record in await store.read("run-1")]

    seqs = asyncio.run(read())
    assert seqs == list(range(1, len(seqs) + 1))
    assert len(seqs) >= acknowledged[-1]


def test_a_program_that_forgets_to_close_the_store_ends_and_loses_nothing(path: Path) -> None:
    command = script(
        path,
        "async def main():",
        "    following = store.follow('run-1')",
        "    await anext(following)",
        "    await store.append(claim, writer.texts('a'))",
        "    globals()['kept'] = store, following",
        "asyncio.run(main())",
    )
    run(*command)
    assert length_elsewhere(path) == 2


def test_a_forked_child_is_told_to_open_the_store_again(path: Path) -> None:
    command = script(
        path,
        "child = os.fork()",
        "try:",
        "    asyncio.run(store.append(claim, writer.texts('a')))",
        "    assert child, 'a child can use it'",
        "    assert os.waitpid(child, 0)[1] == 0",
        "    asyncio.run(store.aclose())",
        "except StoreFailure as error:",
        "    print(error)",
    )
    assert run(*command).count("open it anew here") == 1
    assert length_elsewhere(path) == 2


def test_a_disk_that_is_full_from_the_first_is_named(path: Path) -> None:
    program = (
        "import asyncio, resource, signal",
        "from argstream.errors import StoreFailure",
        "from argstream.runs import SqliteStore",
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)",
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))",
        "try:",
        f"    asyncio.run(SqliteStore({str(path)!r}).runs())",
        "except StoreFailure as error:",
        "    print(error)",
    )
    assert "the disk does not work" in run(sys.executable, "-c", "\n".join(program))


def test_listing_the_runs_of_a_store_that_is_not_there_makes_none(path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run(COMMAND, "runs", "--store", str(path))
    assert list(path.parent.iterdir()) == []


AGENT = """
import asyncio, sys
from pathlib import Path
from contextlib import aclosing
from argstream import Agent, ScriptedModel, open_store, tool
from argstream.models import CallTool, Reply
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


def test_a_tool_runs_once_though_the_runs_are_listed_before_the_crash(tmp_path: Path) -> None:
    """Regression: closing the file in the other process took its log away under this one."""
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
