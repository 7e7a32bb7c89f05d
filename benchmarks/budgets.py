"""What the project promises about its speed, as ratios, and whether it holds."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent_results import AgentResults
from agent_workloads import AGENT
from check_results import CheckResults
from event_results import EventResults
from readers import ARGSTREAM
from results import Results
from store_places import BARE_REDIS, BARE_SQLITE, BARE_SQLITE_THREAD, MEMORY, REDIS, SQLITE
from store_results import ALONE, AT_ONCE, BATCHES, DURABLE, STORES, StoreResults
from tables import size_name
from terminal_results import LARGE, SMALL, Shown, TerminalResults
from terminal_ways import OURS, RICH_LINES, RICH_WHOLE
from terminal_workloads import FILE
from wire_workloads import ALL_PROTOCOLS, ANTHROPIC

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

# SDK's stream of 100 kB, at most this fraction of its cost is 1 / …
_AGAINST_SDKS = {
    "anthropic messages.stream": 10.0,
    "openai chat.completions.stream": 30.0,
}
_SDK_SIZE = 100_000
_MOST_ON_TOP = 1.3
_MOST_BESIDE_ANTHROPIC = 2.0
_MOST_BYTES_PER_CHARACTER = 4.0
_MOST_WITH_AN_AGENT = 2.0

# store, what it is compared with, how records are appended, at most so many times the time
_AGAINST_BASES = [
    (SQLITE, BARE_SQLITE, BATCHES, 3.0),
    (SQLITE, BARE_SQLITE_THREAD, ALONE, 2.5),
    (SQLITE, BARE_SQLITE_THREAD, AT_ONCE, 1.0),
    (SQLITE, BARE_SQLITE_THREAD, DURABLE, 3.0),
    (REDIS, BARE_REDIS, ALONE, 3.5),
    (REDIS, BARE_REDIS, BATCHES, 1.0),
]
_MOST_WITH_A_STORE = 1.5
_MOST_OF_A_SECOND_JOIN = 1 / 5

_MOST_OF_A_CORE = 0.05
_MOST_GROWTH_OF_A_FRAME = 1.5
"""Frames are far apart, so their cost varies more than that of what follows at once."""
# way, at most so many times its cost of a frame
_AGAINST_RICH = {RICH_LINES: 1.0, RICH_WHOLE: 1 / 30}


@dataclass(frozen=True)
class Budget:
    """One promise, and what was measured."""

    what: str
    limit: float
    measured: float | None
    unit: str = ""
    """What it is counted in, if it is no ratio."""

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


def event_budgets(results: EventResults) -> list[Budget]:
    """Check what is promised about the way from bytes to events."""
    size = size_name(_SDK_SIZE)
    small, large = map(size_name, results.growth_sizes)
    found = [
        Budget(
            f"argstream / {route.name}: {size}",
            1 / _AGAINST_SDKS[route.name],
            results.ratio(route, _SDK_SIZE),
        )
        for route in results.beside
        if route.name in _AGAINST_SDKS
    ]
    found += [
        Budget(f"{route.name} / that alone: {size}", _MOST_ON_TOP, results.ratio(route, _SDK_SIZE))
        for route in results.on_top
    ]
    found += [
        Budget(
            f"bytes to events, {protocol}: {large} / {small}",
            _MOST_GROWTH,
            results.growth_of(protocol),
        )
        for protocol in ALL_PROTOCOLS
    ]
    found += [
        Budget(
            f"bytes to events, {protocol} / {ANTHROPIC}: {large}",
            _MOST_BESIDE_ANTHROPIC,
            results.beside_anthropic(protocol),
        )
        for protocol in ALL_PROTOCOLS
        if protocol != ANTHROPIC
    ]
    found += [
        Budget(
            f"memory of an open call, {memory.protocol}, per character",
            _MOST_BYTES_PER_CHARACTER,
            memory.open_bytes_per_character,
            "bytes",
        )
        for memory in results.memory
    ]
    return found


def check_budgets(results: CheckResults) -> list[Budget]:
    """Check what is promised about judging a call while it is written."""
    small, large = map(size_name, results.growth_sizes)
    found = [
        Budget(
            f"parsing and judging / parsing alone: {check.name}", check.most, results.ratio(check)
        )
        for check in results.checks
        if check.most
    ]
    found += [
        Budget(
            f"parsing and judging, {name}: {large} / {small}", _MOST_GROWTH, results.growth_of(name)
        )
        for name in results.growing
    ]
    return found


def agent_budgets(results: AgentResults) -> list[Budget]:
    """Check what is promised about an agent around the stream."""
    return [
        Budget(
            f"agent / stream(), async for: {turn.name}",
            _MOST_WITH_AN_AGENT,
            results.ratio(AGENT, turn),
        )
        for turn in results.turns
    ]


def store_budgets(results: StoreResults) -> list[Budget]:
    """Check what is promised about the stores."""
    found = [
        Budget(
            f"{store} / {base}: {appends.name}", most, results.ratio_to_base(store, base, appends)
        )
        for store, base, appends, most in _AGAINST_BASES
    ]
    found += [
        Budget(
            f"agent with a store ({store}) / without: {writing.name}",
            _MOST_WITH_A_STORE,
            results.ratio_to_no_store(store, writing),
        )
        for writing in results.writings
        if not writing.pause
        for store in (MEMORY, SQLITE)
    ]
    found += [
        Budget(
            f"second join of a run / first: {store}",
            _MOST_OF_A_SECOND_JOIN,
            results.ratio_of_joins(store),
        )
        for store in STORES
    ]
    return found


def terminal_budgets(results: TerminalResults) -> list[Budget]:
    """Check what is promised about the terminal."""
    small, large = map(size_name, (SMALL, LARGE))
    played = results.paced[Shown(OURS, FILE, LARGE)]
    found = [
        Budget(
            f"terminal, {FILE} of {large}, 100 deltas a second",
            _MOST_OF_A_CORE * 100,
            played.share * 100,
            "% of a core",
        ),
        Budget(
            f"terminal, a frame of {FILE}: {large} / {small}",
            _MOST_GROWTH_OF_A_FRAME,
            results.growth_of(OURS),
        ),
    ]
    found += [
        Budget(f"terminal, a frame of {FILE}: {large}, argstream / {way}", most, results.ratio(way))
        for way, most in _AGAINST_RICH.items()
    ]
    return found


def _ratio(runs: list[Results], peer: str, workload: str) -> float | None:
    for run in runs:
        if ratio := run.ratio(peer, workload):
            return ratio
    return None
