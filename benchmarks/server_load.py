"""Puts the server under load: many who watch one run, many runs, many who do not read.

The server and what loads it are processes of their own, and what each has used is told apart. Each
who watches checks that nothing was lost, doubled or in another order.

Exit status 1 if something was, or if it took longer than it may.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from server_report import crowds_table, stalled_table
from server_results import (
    CROWDS,
    MOST_SECONDS,
    Crowded,
    Crowd,
    crowded,
)
from server_stalled import Stalls, stalls
from tables import Table, markdown_table, plain_table


def main() -> int:
    """Run all of it."""
    options = _options()
    found = [
        _crowded(crowd, options.seconds) for crowd in CROWDS if options.only in crowd.name
    ]
    stalled = stalls(options.stalled) if options.only in "stalled" else None
    tables = [crowds_table(found)] if found else []
    tables += [stalled_table(stalled)] if stalled else []
    print("\n\n".join(plain_table(*table) for table in tables))
    if options.write:
        _write(options.write, tables)
    return 1 if _complaints(found, stalled) else 0
