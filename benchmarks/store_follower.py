"""Follows a run and notes how long after it was written each record arrives.

Run by itself it is another process: ``python store_follower.py WHERE RUN``. Says when it has begun,
and at the end of the run all delays, as JSON.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from functools import partial

from argstream import RunStarted, TextDelta
from argstream.log import Store
from argstream.stores import open_store


async def delays(store: Store, run_id: str, begun: Callable[[], object]) -> list[float]:
    """Give the delays of all deltas, in seconds; ``begun`` is called when it has begun."""
    found = []
    async for record in store.follow(run_id):
        now = time.time()
        if isinstance(record.event, TextDelta):
            found.append(now - record.time)
        elif isinstance(record.event, RunStarted):
            begun()
    return found


async def _main(where: str, run_id: str) -> None:
    store = open_store(where)
    print(json.dumps(await delays(store, run_id, partial(print, "begun", flush=True))))
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
