"""Measures argstream beside its peers and checks the budgets; writes docs/benchmarks.md.

Exit status 1 if a budget is missed, except with --quick, whose texts are too short for budgets.
"""

import argparse
import os
import sys
from importlib import import_module

from report import ROOT, Chapter, as_page, as_text, missed_budgets
from timing import progress

CHAPTERS = {
    "parsers": "parsers",
    "streams": "streams",
    "checks": "checks",
    "agent": "agent_loop",
    "stores": "stores",
    "terminal": "terminal",
    "server": "server_load",
}
"""Modules by the names that ``--only`` has for them, each with ``measure(quick=…)``."""


def main() -> int:
    """Measure the chapters that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little of each; writes no files")
    parser.add_argument("--only", choices=CHAPTERS, help="one chapter; writes no files")
    options = parser.parse_args()
    chapters: dict[str, Chapter] = {}
    for name in [options.only] if options.only else CHAPTERS:
        progress(f"{name} …")
        # Loaded one after the other: the objects of a later chapter slow down no earlier one.
        chapters[name] = import_module(CHAPTERS[name]).measure(quick=options.quick)
        print(as_text(chapters[name]), end="\n\n", flush=True)
    if not options.quick and not options.only:
        load = f"{os.getloadavg()[2]:.1f} over the last 15 minutes of the run"
        remark = f"The machine has {os.cpu_count()} cores, and its load was {load}."
        (ROOT / "docs" / "benchmarks.md").write_text(as_page(chapters, remark))
    missed = [] if options.quick else missed_budgets(chapters.values())
    for what, figure in missed:
        progress(f"MISSED  {what}: {figure}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
