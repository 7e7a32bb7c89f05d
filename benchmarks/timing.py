"""Stopwatches: CPU time in interleaved rounds, function calls per delta, versions of packages.

Everything that is compared is read in turns, so that a slow moment of the machine does not hit one
way alone. The best reading counts, because noise only ever adds.
"""

import gc
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from time import process_time
from types import FrameType
from typing import Any, TypeAlias

from report import ROOT

Times: TypeAlias = dict[tuple[str, str], float]
"""Seconds per chunk, delta or record, by way and workload."""

_ENOUGH_UNITS = 25_000
"""A reading repeats a short workload until it has processed this many units."""


@dataclass(frozen=True)
class Job:
    """One way to process one workload. ``read`` returns the seconds per unit."""

    way: str
    workload: str
    read: Callable[[], float]


def take_turns(jobs: Sequence[Job], rounds: int, most_seconds: float = 4.0) -> Times:
    """Read each job once per round. After ``most_seconds`` of CPU time it skips rounds."""
    gc.collect()
    gc.freeze()  # modules loaded so far do not slow down the collections of this measurement
    readings: dict[tuple[str, str], list[float]] = {}
    spent = dict.fromkeys(((job.way, job.workload) for job in jobs), 0.0)
    for turn in range(rounds):
        progress(f"  round {turn + 1} of {rounds}")
        for job in jobs:
            key = (job.way, job.workload)
            if spent[key] > most_seconds:
                continue
            began = process_time()
            readings.setdefault(key, []).append(job.read())
            spent[key] += process_time() - began
            if turn == 0:
                progress(f"  {job.workload:34} {job.way:34} {readings[key][0] * 1e6:12,.2f} µs")
    return {key: min(found) for key, found in readings.items()}


def cpu_time(work: Callable[[], object], units: int, most_seconds: float = 0.4) -> float:
    """Return the CPU seconds per unit of ``work``, which processes ``units`` of them."""
    gc.collect()
    seconds, times = 0.0, 0
    while not times or (times * units < _ENOUGH_UNITS and seconds < most_seconds):
        began = process_time()
        work()
        seconds += process_time() - began
        times += 1
    return seconds / (times * units)


def calls_per_delta(make: Callable[[int], Callable[[], object]], deltas: int) -> float:
    """Return the Python function calls that one more delta causes, in all threads.

    ``make(n)`` returns a function that processes n deltas. The difference between 2n and n has no
    fixed costs in it, and it is the same on every machine.
    """
    make(20)()  # fill caches, load modules
    calls = _count_calls(make(2 * deltas)) - _count_calls(make(deltas))
    return round(calls / deltas, 1)  # garbage collection may add a few


def _count_calls(work: Callable[[], object]) -> int:
    calls = 0

    def count(_: FrameType, what: str, __: object) -> None:
        nonlocal calls
        calls += what == "call"

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return calls


def in_newer_python(script: str, *arguments: str) -> Any:
    """Run a script in .venv-bench, and return the JSON that it prints."""
    python = ROOT / ".venv-bench" / "bin" / "python"
    if not python.exists():
        sys.exit("some peers need an environment of their own: make .venv-bench/ready")
    worker = subprocess.run([python, script, *arguments], stdout=subprocess.PIPE, check=True)
    return json.loads(worker.stdout)


def exhaust(items: Iterable[object]) -> None:
    """Iterate to the end and keep nothing."""
    for _ in items:
        pass


async def exhaust_async(items: AsyncIterable[object]) -> None:
    """Iterate to the end and keep nothing."""
    async for _ in items:
        pass


def versions(*packages: str) -> str:
    """Return the installed versions, for the page."""
    return ", ".join(f"{package} {version(package)}" for package in packages)


def progress(line: str) -> None:
    """Print a line for those who wait."""
    print(line, file=sys.stderr, flush=True)
