"""Measures argstream beside its peers and the SDKs, and the cost of all that is built on it.

Prints the tables, writes docs/benchmarks.md and its plot.

Exit status 1 if a budget is missed.
"""

import argparse
import sys

from agent_results import gather_agent
from budgets import (
    agent_budgets,
    budgets,
    check_budgets,
    event_budgets,
    store_budgets,
    terminal_budgets,
)
from check_results import gather_checks
from event_results import gather_events
from newer_python import ROOT, Unavailable, measure_axio
from peers import PEERS
from plot import growth_plot
from report import Findings, as_markdown, as_text
from results import Results, gather
from routes import SDK_ROUTES
from store_results import gather_stores
from terminal_results import gather_terminal

_JUDGING, _AGENT, _STORES, _TERMINAL = "judging", "agent", "stores", "terminal"
"""What ``--only`` calls the chapters from the third on, each of which is measured as a whole."""


def main() -> int:
    """Run everything."""
    options = _options()
    peers = [peer for peer in PEERS if options.only in peer.name]
    routes = [route for route in SDK_ROUTES if options.only in route.name]
    runs = [gather(peers, quick=options.quick)] if peers else []
    without_axio = ""
    if options.only in "axio":
        try:
            runs.append(measure_axio(quick=options.quick))
        except Unavailable as reason:
            without_axio = str(reason)
    events = gather_events(routes, quick=options.quick) if routes else None
    checks = gather_checks(quick=options.quick) if options.only in _JUDGING else None
    agent = gather_agent(quick=options.quick) if options.only in _AGENT else None
    stores = gather_stores(quick=options.quick) if options.only in _STORES else None
    terminal = gather_terminal(quick=options.quick) if options.only in _TERMINAL else None
    if not (runs or events or checks or agent or stores or terminal):
        sys.exit(without_axio or f"no peer has {options.only!r} in its name")
    promises = [
        *(budgets(runs) if runs else []),
        *(event_budgets(events) if events else []),
        *(check_budgets(checks) if checks else []),
        *(agent_budgets(agent) if agent else []),
        *(store_budgets(stores) if stores else []),
        *(terminal_budgets(terminal) if terminal else []),
    ]
    findings = Findings(runs, events, checks, agent, stores, terminal, promises, without_axio)
    print(as_text(findings))
    if not options.quick and not options.only:
        _write(runs, as_markdown(findings))
    return 1 if any(promise.verdict == "MISSED" for promise in promises) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds, no files written")
    parser.add_argument(
        "--only",
        default="",
        metavar="NAME",
        help="peers with this in their name, judging, agent, stores, or terminal; no files written",
    )
    return parser.parse_args()


def _write(runs: list[Results], page: str) -> None:
    (ROOT / "docs" / "benchmarks.md").write_text(page)
    (ROOT / "docs" / "benchmarks.svg").write_text(growth_plot(runs))


if __name__ == "__main__":
    sys.exit(main())
