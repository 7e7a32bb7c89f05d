"""All that is measured of the way from bytes to events."""

import gc
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import process_time

from memory import Memory, weigh
from readers import ARGSTREAM
from results import versions
from routes import OURS, THROUGH_HTTP, Route
from sdk_streams import Opener
from stopwatch import Effort, Job, Measurement, find, take_turns
from wire_workloads import (
    ALL_PROTOCOLS,
    ANTHROPIC,
    PARTIAL_ARGS,
    PROTOCOLS,
    WireWorkload,
    workload_name,
)

_ALSO_USED = ["pydantic", "httpx2"]
"""What the SDKs spend most of their time in."""
_WHOLE_READING = 25_000
"""Deltas of a reading: a short stream is read more than once, if there is time for it."""


@dataclass(frozen=True)
class _Scale:
    """How much is measured."""

    sizes: list[int]
    growth_sizes: tuple[int, int]
    effort: Effort
    growth_effort: Effort


_FULL = _Scale(
    [20_000, 100_000],
    (10_000, 1_000_000),
    Effort(rounds=3, reading_seconds=0.4, total_seconds=5.0),
    Effort(rounds=2, reading_seconds=0.4, total_seconds=5.0),
)
_QUICK = _Scale(
    [3_000],
    (3_000, 30_000),
    Effort(rounds=1, reading_seconds=0.05, total_seconds=0.2),
    Effort(rounds=1, reading_seconds=0.05, total_seconds=0.2),
)


@dataclass(frozen=True)
class EventResults:
    """What was found out about the ways from bytes to events."""

    versions: dict[str, str]
    beside: list[Route]
    """The SDKs'."""
    on_top: list[Route]
    """Those of argstream on top of an SDK's."""
    sizes: list[int]
    growth_sizes: tuple[int, int]
    measurements: list[Measurement]
    growth: list[Measurement]
    memory: list[Memory]

    def find(self, route: str, workload: str) -> Measurement | None:
        """Look up one figure."""
        return find(self.measurements + self.growth, route, workload)

    def ratio(self, route: Route, size: int) -> float | None:
        """Divide argstream's cost by an SDK's, or on top of an SDK by what that costs alone."""
        workload = workload_name(route.protocol, size)
        ours = self.find(route.name if route.on_top_of else ARGSTREAM.name, workload)
        theirs = self.find(route.on_top_of or route.name, workload)
        return ours.microseconds / theirs.microseconds if ours and theirs else None

    def beside_anthropic(self, protocol: str) -> float | None:
        """Divide argstream's cost per delta of a protocol by that of Anthropic's."""
        found, anthropic = (
            self.find(ARGSTREAM.name, workload_name(name, self.growth_sizes[-1]))
            for name in (protocol, ANTHROPIC)
        )
        return found.microseconds / anthropic.microseconds if found and anthropic else None

    def growth_of(self, protocol: str) -> float | None:
        """Divide argstream's cost in the largest arguments by that in the smallest."""
        small, large = (
            self.find(ARGSTREAM.name, workload_name(protocol, size)) for size in self.growth_sizes
        )
        return large.microseconds / small.microseconds if small and large else None


def gather_events(routes: Sequence[Route], *, quick: bool = False) -> EventResults:
    """Measure argstream and these ways, after a look whether they come to the same result."""
    scale = _QUICK if quick else _FULL
    workloads = [WireWorkload.of(name, size) for size in scale.sizes for name in PROTOCOLS]
    growing = [WireWorkload.of(name, size) for size in scale.growth_sizes for name in ALL_PROTOCOLS]
    smallest, largest = workloads[: len(PROTOCOLS)], workloads[-len(PROTOCOLS) :]
    _check(OURS, [*workloads, *growing, *(workload.in_large_reads() for workload in workloads)])
    _check([*THROUGH_HTTP, *routes], smallest)
    beside = [route for route in routes if not route.on_top_of]
    on_top = [route for route in routes if route.on_top_of]
    jobs = [
        *_jobs([*OURS, *beside], workloads, scale.effort),
        *_jobs(on_top, largest, scale.effort),
        *_jobs(THROUGH_HTTP, largest, scale.effort),
        *_jobs(OURS, [workload.in_large_reads() for workload in largest], scale.effort),
    ]
    return EventResults(
        versions([ARGSTREAM.package, *(route.package for route in routes), *_ALSO_USED]),
        beside,
        on_top,
        scale.sizes,
        scale.growth_sizes,
        take_turns(jobs, scale.effort),
        take_turns([*_jobs(OURS, growing, scale.growth_effort)], scale.growth_effort),
        [
            weigh(*(workload for workload in growing if workload.protocol == protocol))
            for protocol in [*PROTOCOLS, PARTIAL_ARGS]
        ],
    )


def _check(routes: Sequence[Route], workloads: Sequence[WireWorkload]) -> None:
    """Refuse to measure what is wrong."""
    for route, workload in _pairs(routes, workloads):
        if route.check(workload) != json.loads(workload.arguments):
            sys.exit(f"{route.name} came to other arguments than were sent: {workload.name}")


def _jobs(
    routes: Sequence[Route], workloads: Sequence[WireWorkload], effort: Effort
) -> Iterator[Job]:
    for route, workload in _pairs(routes, workloads):
        read = partial(_read, route.connect(workload.chunks), workload.deltas, effort)
        yield Job(route.name, workload.name, read)


def _pairs(
    routes: Sequence[Route], workloads: Sequence[WireWorkload]
) -> Iterator[tuple[Route, WireWorkload]]:
    for workload in workloads:
        for route in routes:
            if route.protocol == workload.protocol:
                yield route, workload


def _read(open_: Opener, deltas: int, effort: Effort) -> float:
    """Take one reading: seconds of CPU time per delta."""
    gc.collect()  # nobody pays for what another has left behind
    seconds = 0.0
    documents = 0
    while not documents or (
        documents * deltas < _WHOLE_READING and seconds < effort.reading_seconds
    ):
        began = process_time()
        with open_() as events:
            for _ in events:
                pass
        seconds += process_time() - began
        documents += 1
    return seconds / (documents * deltas)
