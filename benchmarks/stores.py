"""Stores with many open runs: creating and listing them, recovery, appends and followers.

A model writes 20 deltas a second, and the driver of a run writes them in nearly as many batches. So
an append here is one delta. The runs belong to a thousand users and have conversations of four.
"""

import asyncio
import sqlite3
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time, time

from argstream import Event, RunStarted, ToolArgsDelta, ToolExecutionStarted, open_store
from argstream.runs import Lease, Record, Store
from report import ROOT, Cell, Chapter, Table, number
from timing import progress, versions
from workloads import TOOL

sys.path.append(str(ROOT))
from tests.runs.redis_server import RedisCluster, RedisServer, execute

_OPEN_RUNS, _FEW_RUNS = 100_000, 1_000
_MOST_SECONDS = 120.0  # to create them; then the table has the figures of those that there are
_AT_ONCE, _USERS, _IN_CONVERSATION = 64, 1_000, 4
_FOLLOWED, _RECORDS, _PACE = 50, 100, 0.05  # runs, records of each, and seconds between them
_LEASE = 86_400.0
_TEXT = "def main() -> None: "


def measure(*, quick: bool = False) -> Chapter:
    """Put the same load on every store."""
    columns: dict[str, dict[str, Cell]] = {}
    runs = 2 * _FEW_RUNS if quick else _OPEN_RUNS

    def measure_at(name: str, url: str, nodes: Sequence[RedisServer] = ()) -> None:
        progress(f"  {name}: up to {_MOST_SECONDS:.0f} s to create runs, then about a minute")
        columns[name] = asyncio.run(_measure(url, nodes, runs))

    measure_at("memory", "memory:")
    with tempfile.TemporaryDirectory(dir=ROOT / ".venv") as folder:  # /tmp may be in memory
        measure_at("SQLite", f"{folder}/runs.db")
    with RedisServer(tcp=True) as one:
        measure_at("Redis", one.url, [one])
    with RedisCluster(node_timeout=15_000) as three:
        measure_at("Redis, 3 primaries", three.url, three.nodes[:3])
    rows = [[name, *(one[name] for one in columns.values())] for name in columns["memory"]]
    return Chapter(
        "Stores",
        "Lists are measured with 1,000 open runs and with all of them. Recovery reads all "
        "unfinished runs. An append is a delta of 180 bytes. A follower has its own connection, "
        "like another process; 50 runs write 20 deltas per second each. CPU: client, busiest node.",
        [Table(["store", *columns], rows)],
        f"SQLite {sqlite3.sqlite_version}, {versions('redis')}",
    )


async def _measure(url: str, nodes: Sequence[RedisServer], runs: int) -> dict[str, Cell]:
    async with aclosing(open_store(url)) as store, aclosing(open_store(url)) as second:
        followed = store if url == "memory:" else second
        load, before = _Load(store), await _bytes(url, nodes)
        await load.create(_FEW_RUNS, _MOST_SECONDS)
        few = await _list_times(store)
        await load.create(runs - _FEW_RUNS, _MOST_SECONDS)
        used = await _bytes(url, nodes) - before
        many = await _list_times(store)
        size = f"{used / len(load.runs) / 1e3:.2g} kB" if used else "–"
        found: dict[str, Cell] = {
            "open runs": number(len(load.runs)),
            "memory or file, per run": size,
            **{f"{what}, ms": f"{_short(few[what])} → {_short(many[what])}" for what in many},
            "state changes, per s": number(await load.appends(1, 100, is_durable=True)),
            "appends to 50 runs at once, per s": number(await load.appends(50, 40)),
            "… CPU / of Redis, µs each": await _cost(nodes, load.appends(50, 40), 2_000),
        }
        delays: list[float] = []
        await load.follow(followed, delays)
        delays.sort()
        p50, p99 = (_short(delays[len(delays) * share // 100]) for share in (50, 99))
        found["to a follower, p50 / p99, ms"] = f"{p50} / {p99}"
        return found


@dataclass
class _Run:
    lease: Lease
    seq: int = 1

    def next(self, *, is_durable: bool = False) -> list[Record]:
        self.seq += 1
        event = (ToolExecutionStarted if is_durable else ToolArgsDelta)("call-1", TOOL, _TEXT)
        return [_record(self.lease.run_id, self.seq, event)]


class _Load:
    def __init__(self, store: Store) -> None:
        self.runs: list[_Run] = []
        self._store = store

    async def create(self, runs: int, most_seconds: float) -> None:
        began, numbers = perf_counter(), iter(range(len(self.runs), len(self.runs) + runs))

        async def work() -> None:
            for i in numbers:
                if perf_counter() - began > most_seconds:
                    return
                run_id = f"run-{i}"
                first = _record(run_id, 1, RunStarted(run_id, "Go", user=_user(i)))
                self.runs.append(_Run(await self._store.create([first], "bench", _LEASE)))
                if len(self.runs) % 20_000 == 0:
                    progress(f"    {len(self.runs):,} runs after {perf_counter() - began:.0f} s")

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))

    async def appends(self, runs: int, batches: int, *, is_durable: bool = False) -> float:
        """Append to some runs at once. Return how many appends there were per second."""
        began = perf_counter()

        async def work(run: _Run) -> None:
            for _ in range(batches):
                await self._store.append(run.lease, run.next(is_durable=is_durable))

        await asyncio.gather(*map(work, self.runs[-runs:]))
        return runs * batches / (perf_counter() - began)

    async def follow(self, other: Store, delays: list[float]) -> None:
        """Append to runs at the pace of a model, and note how late a follower has each record."""
        runs = self.runs[:_FOLLOWED]

        async def read(run: _Run) -> None:
            async with aclosing(other.follow(run.lease.run_id, 1)) as following:
                async for record in following:
                    delays.append(time() - record.time)
                    if record.seq > _RECORDS:
                        return

        async def write(number: int, run: _Run) -> None:
            await asyncio.sleep(1 + number / len(runs) * _PACE)  # once all have subscribed
            began = perf_counter()
            for i in range(_RECORDS):
                await asyncio.sleep(began + i * _PACE - perf_counter())
                await self._store.append(run.lease, run.next())

        reading = [read(run) for run in runs]
        await asyncio.gather(*reading, *(write(i, run) for i, run in enumerate(runs)))


async def _list_times(store: Store) -> dict[str, float]:
    """Return the shortest time of each list, in seconds."""
    lists: dict[str, Callable[[], Awaitable[Sequence[object]]]] = {
        "newest 50 runs": lambda: store.runs(limit=50),
        "all unfinished runs": lambda: store.runs(status="running"),
    }
    found = {}
    for name, read in lists.items():
        times = []
        for _ in range(1 if name.startswith("all") else 5):
            began = perf_counter()
            if not await read():
                sys.exit(f"the store does not list {name}")
            times.append(perf_counter() - began)
        found[name] = min(times)
    return found


async def _bytes(url: str, nodes: Sequence[RedisServer]) -> int:
    """Return the memory of the nodes, or the size of the file; 0 for a store in memory."""
    if nodes:
        return sum([(await execute(one, "INFO", "memory"))["used_memory"] for one in nodes])
    return sum(file.stat().st_size for file in Path(url).parent.glob(Path(url).name + "*"))


async def _cost(nodes: Sequence[RedisServer], work: Awaitable[object], records: int) -> Cell:
    """Return the CPU time of this process and of the busiest node, in µs for each record."""
    before = [await _cpu_seconds(node) for node in nodes]
    began = process_time()
    await work
    own = number((process_time() - began) / records * 1e6)
    spent = [await _cpu_seconds(node) - was for node, was in zip(nodes, before, strict=True)]
    return f"{own} / {number(max(spent) / records * 1e6)}" if spent else own


async def _cpu_seconds(node: RedisServer) -> float:
    used = await execute(node, "INFO", "cpu")
    return float(used["used_cpu_user"] + used["used_cpu_sys"])


def _record(run_id: str, seq: int, event: Event) -> Record:
    talk = _conversation(int(run_id.rpartition("-")[2]))
    return Record(seq, time(), run_id, talk, "agent", event)


def _user(i: int) -> str:
    return f"user-{i // _IN_CONVERSATION % _USERS}"


def _conversation(i: int) -> str:
    return f"conversation-{i // _IN_CONVERSATION}"


def _short(seconds: float) -> str:
    return str(number(seconds * 1e3))
