"""How long a chunk takes: rounds over all parsers, the best of each, sampled where it must be.

Parsers and workloads take turns, so that a slow moment of the machine does not hit one of them
alone, and the best round counts, since noise only ever adds. A parser that looks at all text again
with each chunk needs quadratic time for a whole document. Of such a one only windows are measured,
evenly spaced over the document, and their mean stands for the whole.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from readers import Feeder, Peer, Puller, Skipper, drive
from workloads import Workload


@dataclass(frozen=True)
class Effort:
    """How much time may be spent."""

    rounds: int
    reading_seconds: float
    """One reading of one parser on one workload: what would take longer is sampled."""
    total_seconds: float
    """All rounds of one parser on one workload: what has taken longer skips the other rounds."""
    hopeless_seconds: float = float("inf")
    """One chunk: what needs longer half-way through the document is not measured at all."""


@dataclass(frozen=True)
class Measurement:
    """What one parser needs for one workload."""

    parser: str
    workload: str
    microseconds: float
    """Per chunk."""
    sampled: int | None = None
    """How many of the chunks were measured, if not all."""


def find(measurements: Iterable[Measurement], parser: str, workload: str) -> Measurement | None:
    """Look up one figure."""
    for found in measurements:
        if (found.parser, found.workload) == (parser, workload):
            return found
    return None


@dataclass(frozen=True)
class Job:
    """What the stopwatch does again and again."""

    parser: str
    workload: str
    read: Callable[[], float]
    """Takes one reading: seconds per chunk."""
    sampled: int | None = None
    """How many of the chunks it measures, if not all."""


@dataclass(frozen=True)
class _Plan:
    documents: int
    """How many times the document is read in one reading."""
    windows: int | None = None
    """How many stretches of the document are measured, if not all of it."""
    width: int = 1
    """Chunks in a window."""

    @property
    def sampled(self) -> int | None:
        """How many of the chunks are measured, if not all."""
        return self.windows * self.width if self.windows else None


_WHOLE_READING = 25_000
"""Chunks of a reading, at least: short documents are read more than once."""
_WINDOWS = 60
_FEWEST_WINDOWS = 4
_FEW = 10
_LONG = 0.02


def measure(
    peers: Sequence[Peer], workloads: Sequence[Workload], effort: Effort
) -> list[Measurement]:
    """Measure all peers on all workloads, in turns."""
    jobs = [
        Job(peer.name, workload.name, partial(_read, peer, workload, plan), plan.sampled)
        for peer, workload, plan in _plans(peers, workloads, effort)
    ]
    return take_turns(jobs, effort)


def take_turns(
    jobs: Sequence[Job], effort: Effort, choose: Callable[[list[float]], float] = min
) -> list[Measurement]:
    """Do each job once per round, and keep the best of its readings, or what ``choose`` makes."""
    readings: list[list[float]] = [[] for _ in jobs]
    spent = [0.0] * len(jobs)
    for turn in range(effort.rounds):
        for number, job in enumerate(jobs):
            if spent[number] > effort.total_seconds:
                continue
            began = perf_counter()
            seconds = job.read()
            spent[number] += perf_counter() - began
            readings[number].append(seconds)
            if turn == 0:
                _progress(f"{job.workload:31} {job.parser:41} about {seconds * 1e6:12,.2f} µs")
    return [
        Measurement(job.parser, job.workload, choose(found) * 1e6, job.sampled)
        for job, found in zip(jobs, readings, strict=True)
    ]


def _plans(
    peers: Sequence[Peer], workloads: Sequence[Workload], effort: Effort
) -> Iterator[tuple[Peer, Workload, _Plan]]:
    """Plan everything, without those that are too slow."""
    hopeless: dict[str, int] = {}
    for workload in workloads:
        for peer in peers:
            # Who was too slow for one text is not asked about a much longer one: a single chunk of
            # that could take minutes.
            if len(workload.text) > 2 * hopeless.get(peer.name, len(workload.text)):
                continue
            if plan := _plan(peer, workload, effort):
                yield peer, workload, plan
            else:
                hopeless[peer.name] = len(workload.text)


def _plan(peer: Peer, workload: Workload, effort: Effort) -> _Plan | None:
    chunks = workload.chunks
    documents = max(1, round(_WHOLE_READING / len(chunks)))
    reader = peer.make()
    if isinstance(reader, Puller):
        return _Plan(documents)
    middle = len(chunks) // 2
    _skip(reader, chunks[:middle])
    one = _quickest_of_a_few(reader, chunks[middle : middle + _FEW])
    _skip(reader, chunks[middle + _FEW :])  # ijson complains about a text that does not end
    if one > effort.hopeless_seconds:
        return None
    affordable = int(effort.reading_seconds / one)
    if affordable >= len(chunks):
        return _Plan(min(documents, affordable // len(chunks)))
    windows = max(_FEWEST_WINDOWS, min(_WINDOWS, affordable))
    return _Plan(1, windows, max(1, affordable // windows))


def _quickest_of_a_few(reader: Feeder, chunks: list[str]) -> float:
    """Time single chunks, but not another one when one took long."""
    best = float("inf")
    for number, chunk in enumerate(chunks):
        began = perf_counter()
        reader.feed(chunk)
        seconds = perf_counter() - began
        best = min(best, seconds)
        if seconds > _LONG:
            _skip(reader, chunks[number + 1 :])
            break
    return best


def _read(peer: Peer, workload: Workload, plan: _Plan) -> float:
    """Take one reading: seconds per chunk."""
    chunks = workload.chunks
    if plan.windows is None:
        began = perf_counter()
        for _ in range(plan.documents):
            drive(peer.make(), chunks)
        return (perf_counter() - began) / (len(chunks) * plan.documents)
    reader = peer.make()
    assert not isinstance(reader, Puller)
    seconds = 0.0
    done = 0
    for start in _starts(len(chunks), plan.windows, plan.width):
        _skip(reader, chunks[done:start])
        done = start + plan.width
        window = chunks[start:done]
        began = perf_counter()
        drive(reader, window)
        seconds += perf_counter() - began
    _skip(reader, chunks[done:])
    return seconds / (plan.windows * plan.width)


def _starts(chunks: int, windows: int, width: int) -> Iterator[int]:
    """Put each window into the middle of its share of the document."""
    share = chunks / windows
    for number in range(windows):
        yield int(share * number + (share - width) / 2)


def _skip(reader: Feeder, chunks: list[str]) -> None:
    """Bring a reader to a later place of the document, as cheaply as it can be done."""
    if text := "".join(chunks):
        if isinstance(reader, Skipper):
            reader.skip(text)
        else:
            reader.feed(text)


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
