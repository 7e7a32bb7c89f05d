"""What stores are measured on: records that are appended, followed, and joined later."""

import asyncio
import gc
import json
import random
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter, time

from argstream import (
    Event,
    RunCompleted,
    RunSnapshot,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    ToolExecutionStarted,
)
from argstream.events import SeenCall
from argstream.log import Claim, Record, Store, to_json
from argstream.stores import open_store
from store_follower import delays
from store_places import CLAIM_SECONDS, Append, Place, StorePlace, Written, first_record, new_run
from workloads import chunks, one_string

_CALL, _TOOL = "call-1", "write_file"
_BATCH = 500
_PAUSE = (0.0005, 0.0015)
"""Between deltas that somebody follows, in seconds: at least and at most."""
_FOLLOWER = Path(__file__).with_name("store_follower.py")


# Appending


@dataclass(frozen=True)
class Appends:
    """So many batches of one size, in one run or in several at once."""

    name: str
    batches: int
    size: int = 1
    runs: int = 1
    durable: bool = False
    """Whether each changes the state of the run, so that it must survive the machine's end."""

    def seconds(self, place: Place) -> float:
        """Say how long a record takes."""

        async def measured() -> float:
            async with place.writing(durable=self.durable) as begin:
                runs = [new_run() for _ in range(self.runs)]
                work = [(await begin(run_id), self._written(run_id)) for run_id in runs]
                gc.collect()  # nobody pays for what another has left behind
                began = perf_counter()
                await asyncio.gather(*(_append_all(append, batches) for append, batches in work))
                return (perf_counter() - began) / (self.runs * self.batches * self.size)

        return asyncio.run(measured())

    def _written(self, run_id: str) -> list[Written]:
        events = [self._event(piece) for piece in _pieces(self.batches * self.size)]
        return [
            Written(batch, [to_json(record) for record in batch])
            for batch in _records(run_id, events, self.size)
        ]

    def _event(self, piece: str) -> Event:
        if self.durable:
            return ToolExecutionStarted(_CALL, _TOOL, piece)
        return ToolArgsDelta(_CALL, _TOOL, piece)


async def _append_all(append: Append, batches: list[Written]) -> None:
    for written in batches:
        await append(written)


# Following


def delays_here(place: StorePlace, deltas: int) -> list[float]:
    """Say how long each delta takes to somebody who follows the run in the same event loop."""

    async def measured() -> list[float]:
        async with aclosing(place.open()) as store:
            claim = await _begun(store)
            has_begun = asyncio.Event()
            following = asyncio.create_task(delays(store, claim.run_id, has_begun.set))
            await has_begun.wait()
            await _write_slowly(store, claim, deltas)
            return await following

    return asyncio.run(measured())


def delays_elsewhere(place: StorePlace, deltas: int) -> list[float]:
    """Say how long each delta takes to somebody who follows the run in another process."""

    async def measured() -> list[float]:
        where = place.where()
        async with aclosing(open_store(where)) as store:
            claim = await _begun(store)
            process = await create_subprocess_exec(
                sys.executable, str(_FOLLOWER), where, claim.run_id, stdout=PIPE
            )
            assert process.stdout is not None
            if not await process.stdout.readline():  # it says that it has begun
                sys.exit(f"{place.name}: the process that was to follow has failed, see above")
            await _write_slowly(store, claim, deltas)
            told, _ = await process.communicate()
            return list(json.loads(told))

    return asyncio.run(measured())


async def _write_slowly(store: Store, claim: Claim, deltas: int) -> None:
    """Write one delta after the other, each when all is quiet again; then end the run."""
    choose = random.Random(7)
    for seq, piece in enumerate(_pieces(deltas), 2):
        await asyncio.sleep(choose.uniform(*_PAUSE))  # not in step with who looks now and then
        await store.append(claim, [_record(claim.run_id, seq, TextDelta(piece, 0))])
    end = RunCompleted("", run_id=claim.run_id)
    await store.append(claim, [_record(claim.run_id, deltas + 2, end)])


# Joining


@dataclass(frozen=True)
class Joining:
    """Somebody who joins a run when a call has been written for a while."""

    name: str
    deltas: int
    joined_before: int
    """How many have joined it before, at the same moment."""

    def seconds(self, place: StorePlace) -> float:
        """Say how long it takes until he has the snapshot."""
        pieces = _pieces(self.deltas)

        async def measured() -> tuple[float, Record]:
            async with aclosing(place.open()) as store:
                run_id = await _write_call(store, pieces)
                for _ in range(self.joined_before):
                    await _join(store, run_id)
                gc.collect()
                began = perf_counter()
                snapshot = await _join(store, run_id)
                return perf_counter() - began, snapshot

        seconds, snapshot = asyncio.run(measured())
        match snapshot.event:
            case RunSnapshot(blocks=(SeenCall(raw=raw),)) if raw == "".join(pieces):
                return seconds
            case _:
                sys.exit(f"{place.name}: the snapshot is not what was written")


async def _write_call(store: Store, pieces: Sequence[str]) -> str:
    claim = await _begun(store)
    deltas = [ToolArgsDelta(_CALL, _TOOL, piece) for piece in pieces]
    for batch in _records(claim.run_id, [ToolCallStarted(_CALL, 0, _TOOL), *deltas], _BATCH):
        await store.append(claim, batch)
    return claim.run_id


async def _join(store: Store, run_id: str) -> Record:
    async with aclosing(store.join(run_id)) as records:
        return await anext(records)


# Records


async def _begun(store: Store) -> Claim:
    return await store.begin([first_record(new_run())], "benchmark", CLAIM_SECONDS)


def _records(run_id: str, events: Sequence[Event], size: int) -> list[list[Record]]:
    """Give the records that follow the first, in batches."""
    records = [_record(run_id, seq, event) for seq, event in enumerate(events, 2)]
    return [records[start : start + size] for start in range(0, len(records), size)]


def _record(run_id: str, seq: int, event: Event) -> Record:
    return Record(seq, time(), run_id, "session", "agent", event)


@cache
def _pieces(count: int) -> list[str]:
    return chunks(one_string(8 * count))[:count]
