"""All that one interpreter measured, and its way from one process to another."""

import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version

from readers import ARGSTREAM, Peer
from stopwatch import Effort, Measurement, find, measure
from truth import Truth, examine
from workloads import Workload, nested_edits, one_string, small_rows, workloads

GROWTH_SIZES = [10_000, 30_000, 100_000, 300_000, 1_000_000]

QUICK = Effort(rounds=2, reading_seconds=0.1, total_seconds=0.2, hopeless_seconds=0.5)
FULL = Effort(rounds=10, reading_seconds=0.6, total_seconds=3.0)
GROWTH = Effort(rounds=5, reading_seconds=0.5, total_seconds=1.5, hopeless_seconds=0.5)


@dataclass(frozen=True)
class Results:
    """What was found out about some parsers under one interpreter."""

    python: str
    versions: dict[str, str]
    remarks: dict[str, str]
    """By parser: what who reads the figures must know about it."""
    measurements: list[Measurement]
    growth: list[Measurement]
    """One string of growing size; the workload's name is the size."""
    truths: list[Truth]

    def find(self, parser: str, workload: str) -> Measurement | None:
        """Look up one figure."""
        return find(self.measurements + self.growth, parser, workload)

    def ratio(self, peer: str, workload: str) -> float | None:
        """Divide argstream's cost by a peer's."""
        ours = self.find(ARGSTREAM.name, workload)
        theirs = self.find(peer, workload)
        return ours.microseconds / theirs.microseconds if ours and theirs else None

    def growth_of(self, parser: str) -> float | None:
        """Divide a parser's cost in the largest string by that in the smallest."""
        small = self.find(parser, str(GROWTH_SIZES[0]))
        large = self.find(parser, str(GROWTH_SIZES[-1]))
        return large.microseconds / small.microseconds if small and large else None

    def to_json(self) -> str:
        """Write it down for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Results":
        """Read what another process wrote."""
        found = json.loads(text)
        return cls(
            found["python"],
            found["versions"],
            found["remarks"],
            [Measurement(**item) for item in found["measurements"]],
            [Measurement(**item) for item in found["growth"]],
            [Truth(**item) for item in found["truths"]],
        )


def gather(peers: Sequence[Peer], *, quick: bool = False) -> Results:
    """Measure argstream and these peers under this interpreter."""
    parsers = [ARGSTREAM, *peers]
    documents = [
        Workload.of("string", one_string(3_000)),
        Workload.of("edits", nested_edits(3_000)),
        Workload.of("rows", small_rows(3_000)),
    ]
    truths = [examine(peer, documents, workloads()) for peer in parsers if peer.gives_values]
    sizes = [Workload.of(str(size), one_string(size)) for size in GROWTH_SIZES]
    growing = [peer for peer in parsers if peer.shows_open_strings]
    return Results(
        platform.python_version(),
        versions(peer.package for peer in parsers),
        {peer.name: peer.remark for peer in parsers},
        measure(parsers, list(workloads()), QUICK if quick else FULL),
        measure(growing, sizes, QUICK if quick else GROWTH),
        truths,
    )


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Ask for the versions of what was measured."""
    found = {}
    for package in dict.fromkeys(packages):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # argstream itself, run from its source
            continue
    return found
