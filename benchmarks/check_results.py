"""All that is measured of judging a call while it is written."""

import gc
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from time import process_time

from argstream import Event, ToolArgsCompleted, stream
from argstream.jsonstream import Parser
from argstream.judging import CallJudge
from argstream.policy import Policy
from argstream.validation import ToolSpec
from big_streams import anthropic
from check_peers import judging_peers
from checks import RULES, SCHEMAS, Check, checks, text
from earliness import Earliness, gather_earliness
from readers import ARGSTREAM
from results import versions
from stopwatch import Effort, Job, Measurement, find, measure, take_turns
from tables import size_name
from wire_events import TOOL
from workloads import Workload

ALONE = "parsing alone"
STREAM = "stream()"
JUDGED_STREAMS = ["stream(tools=…)", "stream(policy=…)", "stream(tools=…, policy=…)"]

_WHOLE_READING = 25_000
"""Chunks of a reading, at least: short documents are read more than once."""


@dataclass(frozen=True)
class _Scale:
    """How much is measured."""

    size: int
    peer_sizes: tuple[int, int]
    growth_sizes: tuple[int, int]
    effort: Effort
    stream_effort: Effort
    growth_effort: Effort
    peer_effort: Effort


_FULL = _Scale(
    100_000,
    (10_000, 100_000),
    (10_000, 1_000_000),
    Effort(rounds=7, reading_seconds=0, total_seconds=5.0),
    Effort(rounds=4, reading_seconds=0, total_seconds=5.0),
    Effort(rounds=3, reading_seconds=0, total_seconds=5.0),
    Effort(rounds=3, reading_seconds=0.25, total_seconds=1.5),
)
_ONE_ROUND = Effort(rounds=1, reading_seconds=0, total_seconds=0.2)
_QUICK = _Scale(
    3_000,
    (1_000, 3_000),
    (3_000, 30_000),
    _ONE_ROUND,
    _ONE_ROUND,
    _ONE_ROUND,
    Effort(rounds=1, reading_seconds=0.05, total_seconds=0.2),
)


@dataclass(frozen=True)
class CheckResults:
    """What was found out about judging."""

    versions: dict[str, str]
    checks: list[Check]
    size: int
    peer_sizes: tuple[int, int]
    growth_sizes: tuple[int, int]
    measurements: list[Measurement]
    streams: list[Measurement]
    growth: list[Measurement]
    """The workload's name is the size."""
    peers: list[Measurement]
    early: Earliness

    def ratio(self, check: Check) -> float | None:
        """Divide the cost of parsing and judging by that of parsing alone."""
        return _ratio(
            find(self.measurements, check.name, check.text),
            find(self.measurements, ALONE, check.text),
        )

    def stream_ratio(self, way: str, text: str) -> float | None:
        """Divide the cost of a judged stream by that of one that is not."""
        return _ratio(find(self.streams, way, text), find(self.streams, STREAM, text))

    def growth_of(self, name: str) -> float | None:
        """Divide a check's cost per chunk in the largest arguments by that in the smallest."""
        small, large = (find(self.growth, name, size_name(size)) for size in self.growth_sizes)
        return _ratio(large, small)

    def peer_ratio(self, peer: str, workload: str) -> float | None:
        """Divide argstream's cost by a peer's."""
        return _ratio(find(self.peers, ARGSTREAM.name, workload), find(self.peers, peer, workload))

    @property
    def growing(self) -> list[str]:
        """Name what the growth was measured of."""
        return list(dict.fromkeys(found.parser for found in self.growth))


def gather_checks(*, quick: bool = False) -> CheckResults:
    """Measure all of it, after a look whether everything is judged to be right."""
    scale = _QUICK if quick else _FULL
    all_checks = list(checks())
    growing = [check for check in all_checks if check.text in SCHEMAS]
    streams = [job for name in SCHEMAS for job in _stream_jobs(name, scale.size)]
    return CheckResults(
        versions([ARGSTREAM.package, "jsonschema-rs", "pydantic"]),
        all_checks,
        scale.size,
        scale.peer_sizes,
        scale.growth_sizes,
        take_turns(_check_jobs(all_checks, scale.size), scale.effort),
        take_turns(streams, scale.stream_effort),
        take_turns(_growth_jobs(growing, scale.growth_sizes), scale.growth_effort),
        [found for name in SCHEMAS for found in _beside_peers(name, scale)],
        gather_earliness(),
    )


def peer_workload(name: str, size: int) -> str:
    """Name a text of a size, to find its figures by."""
    return f"{name}, {size_name(size)}"


def _check_jobs(all_checks: Sequence[Check], size: int) -> list[Job]:
    """Put parsing alone and everything that is compared with it next to each other."""
    jobs = []
    for name in dict.fromkeys(check.text for check in all_checks):
        workload = text(name, size)
        jobs.append(_job(ALONE, name, partial(_parse, workload), workload))
        for check in all_checks:
            if check.text == name:
                _demand_right(check, workload)
                jobs.append(_job(check.name, name, partial(_judge, workload, check.open), workload))
    return jobs


def _growth_jobs(all_checks: Sequence[Check], sizes: tuple[int, int]) -> list[Job]:
    texts = {(name, size): text(name, size) for name in SCHEMAS for size in sizes}
    jobs = []
    for check in all_checks:
        for size in sizes:
            workload = texts[check.text, size]
            read = partial(_judge, workload, check.open)
            jobs.append(_job(check.name, size_name(size), read, workload))
    return jobs


def _stream_jobs(name: str, size: int) -> list[Job]:
    workload = text(name, size)
    chunks = list(anthropic("", workload.chunks))
    tools = [ToolSpec(TOOL, schema=SCHEMAS[name])]
    ways: list[tuple[list[ToolSpec] | None, Policy | None]] = [
        (None, None),
        (tools, None),
        (None, RULES),
        (tools, RULES),
    ]
    jobs = []
    for way, (known, policy) in zip([STREAM, *JUDGED_STREAMS], ways, strict=True):
        read = partial(_stream, chunks, known, policy)
        if not any(isinstance(event, ToolArgsCompleted) for event in read()):
            sys.exit(f"{way} refuses what is right: {name}")
        jobs.append(_job(way, name, partial(_exhaust, read), workload))
    return jobs


def _beside_peers(name: str, scale: _Scale) -> list[Measurement]:
    workloads = [text(name, size) for size in scale.peer_sizes]
    named = [
        Workload(peer_workload(name, size), workload.text, workload.chunks)
        for size, workload in zip(scale.peer_sizes, workloads, strict=True)
    ]
    return measure(judging_peers(name), named, scale.peer_effort)


def _demand_right(check: Check, workload: Workload) -> None:
    """Refuse to measure what is wrong."""
    parser, judge = Parser(unique_keys=True), check.open()
    for chunk in workload.chunks:
        judge.feed(parser.feed(chunk))
    value = parser.value
    assert isinstance(value, dict)
    error = judge.finish(value, as_read=True)
    if error is not None:
        sys.exit(f"{check.name}: what is right is refused: {error.message}")


def _job(name: str, workload_name: str, work: Callable[[], object], workload: Workload) -> Job:
    documents = max(1, round(_WHOLE_READING / len(workload.chunks)))
    return Job(name, workload_name, partial(_read, work, len(workload.chunks), documents))


def _read(work: Callable[[], object], chunks: int, documents: int) -> float:
    """Take one reading: seconds of CPU time per chunk."""
    gc.collect()  # nobody pays for what another has left behind
    began = process_time()
    for _ in range(documents):
        work()
    return (process_time() - began) / (chunks * documents)


def _parse(workload: Workload) -> None:
    feed = Parser(unique_keys=True).feed
    for chunk in workload.chunks:
        feed(chunk)


def _judge(workload: Workload, open_: Callable[[], CallJudge]) -> None:
    parse, judge = Parser(unique_keys=True).feed, open_().feed
    for chunk in workload.chunks:
        judge(parse(chunk))


def _stream(
    chunks: list[bytes], tools: list[ToolSpec] | None, policy: Policy | None
) -> Iterable[Event]:
    return stream(chunks, tools=tools, policy=policy, on_ask="report")


def _exhaust(read: Callable[[], Iterable[Event]]) -> None:
    for _ in read():
        pass


def _ratio(one: Measurement | None, other: Measurement | None) -> float | None:
    return one.microseconds / other.microseconds if one and other else None
