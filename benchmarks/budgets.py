"""What the project promises about its speed, as ratios, and whether it holds."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from readers import ARGSTREAM
from results import Results

Verdict: TypeAlias = Literal["holds", "MISSED", "not measured"]

_STRINGS_AND_EDITS = ["string 10 kB", "string 100 kB", "edits 100 kB"]
_ROWS = ["rows 100 kB"]
_AT_100_KB = ["string 100 kB", "edits 100 kB", "rows 100 kB"]

# peer, workloads, at most this fraction of the peer's cost is 1 / …
_AGAINST_PEERS = [
    ("axio, with the fields", _STRINGS_AND_EDITS, 3.0),
    ("axio, with the fields", _ROWS, 2.5),
    ("jsonriver", _STRINGS_AND_EDITS, 4.0),
    ("jsonriver", _ROWS, 3.0),
    ("jiter", _AT_100_KB, 15.0),
]
_MOST_GROWTH = 1.25


@dataclass(frozen=True)
class Budget:
    """One promise, and what was measured."""

    what: str
    limit: float
    measured: float | None

    @property
    def verdict(self) -> Verdict:
        """Say whether it is kept."""
        if self.measured is None:
            return "not measured"
        return "holds" if self.measured <= self.limit else "MISSED"


def budgets(runs: list[Results]) -> list[Budget]:
    """Check every promise against the run that has its figures."""
    found = [
        Budget(f"argstream / {peer}: {workload}", 1 / divisor, _ratio(runs, peer, workload))
        for peer, workloads, divisor in _AGAINST_PEERS
        for workload in workloads
    ]
    found += [
        Budget(
            f"argstream: 1 MB / 10 kB, Python {run.python}",
            _MOST_GROWTH,
            run.growth_of(ARGSTREAM.name),
        )
        for run in runs
    ]
    return found


def _ratio(runs: list[Results], peer: str, workload: str) -> float | None:
    for run in runs:
        if ratio := run.ratio(peer, workload):
            return ratio
    return None
