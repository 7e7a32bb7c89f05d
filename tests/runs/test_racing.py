"""Two processes race for one run and one decision. Exactly one of them wins, each time."""

import asyncio
import multiprocessing
from contextlib import aclosing
from itertools import product
from pathlib import Path
from typing import Any

from argstream import Deny
from argstream.errors import AlreadyDecidedError, RunBusyError, UsageError
from argstream.runs import RedisStore, SqliteStore, Store
from tests.runs.records import SECONDS, Writer, requested
from tests.runs.redis_server import new_prefix, shared_cluster, shared_server

RUNS = 20
NAMES = ("ada", "bob")
Address = tuple[str, str]  # a URL and a prefix, or a path and ""
LOST = (RunBusyError, AlreadyDecidedError, UsageError)
EXPECTED = {"begin": UsageError, "lease": RunBusyError, "decide": AlreadyDecidedError}


def open_at(address: Address) -> Store:
    where, prefix = address
    return RedisStore(where, prefix=prefix) if prefix else SqliteStore(where)


def race(addresses: list[Address], name: str, barrier: Any, results: Any) -> None:
    """In a process of its own: do each step at the same time as the other process."""

    async def attempt(store: Store, step: str, run_id: str) -> None:
        match step:
            case "begin":
                writer = Writer(run_id)
                records = [*writer.started(), *writer.records(requested())]
                await store.release(await store.create(records, name, SECONDS))
            case "lease":
                await store.acquire(run_id, name, SECONDS)
            case _:
                await store.decide(run_id, {"c1": Deny(name)})

    async def run(address: Address) -> dict[tuple[int, str], type[Exception] | None]:
        outcomes: dict[tuple[int, str], type[Exception] | None] = {}
        async with aclosing(open_at(address)) as store:
            for number, step in product(range(RUNS), EXPECTED):
                barrier.wait(20)
                try:
                    await attempt(store, step, f"run-{number}")
                    outcomes[number, step] = None
                except LOST as error:
                    outcomes[number, step] = type(error)
        return outcomes

    results.put((name, [asyncio.run(run(address)) for address in addresses]))


async def final_states(address: Address) -> list[tuple[str | None, str]]:
    async with aclosing(open_at(address)) as store:
        return [
            ((await store.info(run)).owner, (await store.commands(run)).decisions["c1"].reason)
            for run in (f"run-{number}" for number in range(RUNS))
        ]


def test_one_of_two_racing_processes_wins(tmp_path: Path) -> None:
    servers = (shared_server().url, shared_cluster().url)
    addresses = [(str(tmp_path / "runs.db"), ""), *((url, new_prefix()) for url in servers)]
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.SimpleQueue()
    racers = [context.Process(target=race, args=(addresses, n, barrier, results)) for n in NAMES]
    for racer in racers:
        racer.start()
    outcomes = dict(results.get() for _ in racers)
    for racer in racers:
        racer.join(20)
    for place, address in enumerate(addresses):
        winners = {}
        for number, step in product(range(RUNS), EXPECTED):
            errors = {outcomes[name][place][number, step]: name for name in NAMES}
            assert errors.keys() == {None, EXPECTED[step]}, (address, number, step)
            winners[number, step] = errors[None]
        expected = [(winners[n, "lease"], winners[n, "decide"]) for n in range(RUNS)]
        assert asyncio.run(final_states(address)) == expected
