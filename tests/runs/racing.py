"""One of two processes that race: does what it is told, a line at a time, and says how it went.

Run as ``python -m tests.runs.racing WHERE PREFIX NAME``. A line is ``begin``, ``claim`` or
``decide``, the id of a run, and the moment at which to do it.
"""

import asyncio
import sys
import time

from argstream import Deny
from argstream.errors import AlreadyDecided, RunTaken, UsageError
from argstream.runs import RedisStore, SqliteStore, Store
from tests.runs.records import SECONDS, Writer, asked

LOST = (RunTaken, AlreadyDecided, UsageError)


def open_at(where: str, prefix: str) -> Store:
    return RedisStore(where, prefix=prefix) if prefix else SqliteStore(where)


async def race(store: Store, name: str, what: str, run_id: str) -> None:
    match what:
        case "begin":
            writer = Writer(run_id)
            claim = await store.begin([*writer.started(), *writer.records(asked())], name, SECONDS)
            await store.release(claim)
        case "claim":
            await store.claim(run_id, name, SECONDS)
        case _:
            await store.decide(run_id, {"c1": Deny(name)})


async def main(where: str, prefix: str, name: str) -> None:
    store = open_at(where, prefix)
    print("ready", flush=True)  # noqa: T201 - that is how it speaks
    while line := await asyncio.to_thread(sys.stdin.readline):
        what, run_id, moment = line.split()
        while time.time() < float(moment):  # sleeping would not end at the same time in both
            pass
        try:
            await race(store, name, what, run_id)
        except LOST as error:
            print(type(error).__name__, flush=True)  # noqa: T201 - as above
        else:
            print("won", flush=True)  # noqa: T201 - as above
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
