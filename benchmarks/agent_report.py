"""The tables of the fourth chapter: the agent."""

from agent_results import BASES, AgentResults
from stopwatch import Measurement
from tables import Table, growth, microseconds


def agent_tables(results: AgentResults) -> dict[str, Table]:
    """Make all of them, by the names that the page has for them."""
    return {"agent_costs": _costs(results), "agent_runs": _runs(results)}


AGENT_TITLES = {
    "agent_costs": "An agent around the stream: µs of CPU time per delta, and the ratio",
    "agent_runs": "A run in which the model says one word: µs of CPU time per run",
}


def _costs(results: AgentResults) -> Table:
    rows = []
    for turn in results.turns:
        cells = []
        for way, base in BASES.items():
            times = [_time(results.find(name, turn)) for name in (base, way)]
            cells += [*times, _ratio(results.ratio(way, turn))]
        rows.append([turn.name, *cells])
    columns = [cell for way, base in BASES.items() for cell in (base, way, "ratio")]
    return Table(["what is written", *columns], rows)


def _runs(results: AgentResults) -> Table:
    return Table(["runs", "µs per run"], [[found.parser, _time(found)] for found in results.runs])


def _time(found: Measurement | None) -> str:
    return microseconds(found.microseconds, sampled=False) if found else "–"


def _ratio(ratio: float | None) -> str:
    return growth(ratio) if ratio else "–"
