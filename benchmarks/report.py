"""The results as people read them: tables for the terminal, a page for the docs."""

import platform
from dataclasses import dataclass

from agent_report import AGENT_TITLES, agent_tables
from agent_results import AgentResults
from budgets import Budget
from check_report import CHECK_TITLES, check_remarks, check_tables
from check_results import CheckResults
from event_report import EVENT_TITLES, event_remarks, event_tables
from event_results import EventResults
from prose import PAGE
from readers import ARGSTREAM
from results import GROWTH_SIZES, Results
from stopwatch import Measurement
from store_report import STORE_TITLES, store_tables
from store_results import StoreResults
from tables import (
    Table,
    fraction,
    growth,
    markdown_table,
    microseconds,
    plain_table,
    size_name,
)
from terminal_report import TERMINAL_TITLES, terminal_tables
from terminal_results import TerminalResults

_AXIO_IS_APART = """\
axio needs Python 3.12 or newer, so it is measured in an environment of its own, with argstream
beside it under the same Python. The rows of that run carry the version of that Python."""


_TITLES = {**EVENT_TITLES, **CHECK_TITLES, **AGENT_TITLES, **STORE_TITLES, **TERMINAL_TITLES}


@dataclass(frozen=True)
class Findings:
    """All that was measured, by chapter. None: that one was not."""

    runs: list[Results]
    events: EventResults | None
    checks: CheckResults | None
    agent: AgentResults | None
    stores: StoreResults | None
    terminal: TerminalResults | None
    promises: list[Budget]
    without_axio: str
    """Why axio was not measured, if so."""

    def tables(self) -> dict[str, Table]:
        """Make those of all chapters but the first, by the names that the page has for them."""
        return {
            **(event_tables(self.events) if self.events else {}),
            **(check_tables(self.checks) if self.checks else {}),
            **(agent_tables(self.agent) if self.agent else {}),
            **(store_tables(self.stores) if self.stores else {}),
            **(terminal_tables(self.terminal) if self.terminal else {}),
        }


def as_text(findings: Findings) -> str:
    """Make the page for the terminal, of what there is."""
    runs = findings.runs
    parts: list[str] = []
    if runs:
        parts += [
            "µs per chunk (~ sampled)",
            plain_table(*_times(runs)),
            "argstream's cost as a fraction of the peer's, under the same Python",
            plain_table(*_ratios(runs)),
            "µs per chunk of one string, by its size (~ sampled)",
            plain_table(*_growth(runs)),
            "What is shown after each chunk, in how many of them",
            plain_table(*_truths(runs)),
        ]
    for name, table in findings.tables().items():
        parts += [_TITLES[name], plain_table(*table)]
    parts += [
        "Budgets",
        plain_table(*_budgets(findings.promises)),
        _without(findings.without_axio),
        f"Versions: {_versions(findings)}",
    ]
    return "\n\n".join(filter(None, parts))


def as_markdown(findings: Findings) -> str:
    """Make the page for the docs, of all chapters."""
    runs = findings.runs
    missed = [promise for promise in findings.promises if promise.verdict == "MISSED"]
    return PAGE.format(
        ratios=markdown_table(*_ratios(runs)),
        growth=markdown_table(*_growth(runs)),
        truths=markdown_table(*_truths(runs)),
        budgets=markdown_table(*_budgets(findings.promises)),
        budget_summary=f"MISSED: {len(missed)}." if missed else "None is missed.",
        remarks="\n".join(_remarks(runs)),
        times=markdown_table(*_times(runs)),
        without_axio=_without(findings.without_axio) or _AXIO_IS_APART,
        versions=_versions(findings),
        event_remarks=event_remarks(findings.events) if findings.events else "",
        check_remarks=check_remarks(),
        **{name: markdown_table(*table) for name, table in findings.tables().items()},
    )


def _times(runs: list[Results]) -> Table:
    workloads = _workloads(runs)
    return Table(
        ["parser", *workloads],
        [
            [_label(runs, run, parser), *(_time(run.find(parser, name)) for name in workloads)]
            for run in runs
            for parser in run.remarks
        ],
    )


def _ratios(runs: list[Results]) -> Table:
    workloads = _workloads(runs)
    return Table(
        ["peer", *workloads],
        [
            [_label(runs, run, parser), *(_ratio(run.ratio(parser, name)) for name in workloads)]
            for run in runs
            for parser in run.remarks
            if parser != ARGSTREAM.name
        ],
    )


def _growth(runs: list[Results]) -> Table:
    rows = []
    for run in runs:
        for parser in dict.fromkeys(found.parser for found in run.growth):
            times = [_time(run.find(parser, str(size))) for size in GROWTH_SIZES]
            ratio = run.growth_of(parser)
            rows.append([_label(runs, run, parser), *times, growth(ratio) if ratio else "–"])
    return Table(["parser", *map(size_name, GROWTH_SIZES), "1 MB / 10 kB"], rows)


def _truths(runs: list[Results]) -> Table:
    return Table(
        ["parser", "taken back later", "behind argstream", "final values"],
        [
            [
                truth.parser,
                f"{truth.wrong / truth.chunks:.1%}",
                f"{truth.behind / truth.chunks:.1%}",
                truth.raised or ("right" if all(truth.finals) else "WRONG"),
            ]
            for truth in runs[0].truths
        ],
    )


def _budgets(promises: list[Budget]) -> Table:
    return Table(
        ["what", "at most", "measured", "verdict"],
        [
            [
                promise.what,
                _promised(promise, promise.limit),
                _promised(promise, promise.measured),
                promise.verdict,
            ]
            for promise in promises
        ],
    )


def _workloads(runs: list[Results]) -> list[str]:
    return list(dict.fromkeys(found.workload for found in runs[0].measurements))


def _label(runs: list[Results], run: Results, parser: str) -> str:
    """Name a parser, with its Python where that is not the one of most others."""
    if run is runs[0]:
        return parser
    return f"{parser} ({run.python.rpartition('.')[0]})"


def _time(found: Measurement | None) -> str:
    return microseconds(found.microseconds, sampled=bool(found.sampled)) if found else "–"


def _ratio(ratio: float | None) -> str:
    return fraction(ratio) if ratio else "–"


def _promised(promise: Budget, ratio: float | None) -> str:
    """Write growth, which is close to 1, in another way than a fraction of a peer's cost."""
    if ratio and promise.unit:
        return f"{ratio:.2f} {promise.unit}"
    return growth(ratio) if ratio and promise.limit >= 1 else _ratio(ratio)


def _remarks(runs: list[Results]) -> list[str]:
    remarks = {parser: remark for run in runs for parser, remark in run.remarks.items()}
    return [f"- **{parser}**: {remark}" for parser, remark in remarks.items()]


def _without(reason: str) -> str:
    return f"axio was not measured: {reason}." if reason else ""


def _versions(findings: Findings) -> str:
    found = {run.python: dict(run.versions) for run in findings.runs}
    chapters = (
        findings.events,
        findings.checks,
        findings.agent,
        findings.stores,
        findings.terminal,
    )
    for results in chapters:
        if results:
            found.setdefault(platform.python_version(), {}).update(results.versions)
    return "; ".join(
        f"Python {python} with "
        + ", ".join(f"{package} {version}" for package, version in versions.items())
        for python, versions in found.items()
    )
