"""Puts the server under load: many who watch one run, many runs, many who do not read.

The server and those who load it are processes of their own, and what each has used is told apart.
Each who watches checks that nothing was lost, doubled or in another order.

Exit status 1 if something was, or if it took longer than it may. A machine that is busy with
something else will say so.
"""

import argparse
import sys
from pathlib import Path

from server_report import crowds_table, sending_table, stalled_table
from server_results import CROWDS, Crowd, Crowded, crowded
from server_sending import LOOPS, WAYS, Sent, dearer, sent
from server_stalled import Stalls, stalls
from tables import markdown_table, plain_table

_STALLED, _SENDING = "stalled clients", "sending"


def main() -> int:
    """Run all of it."""
    options = _options()
    found = [_tried(crowd, options.seconds) for crowd in CROWDS if options.only in crowd.name]
    stalled = _stalled(options.stalled) if options.only in _STALLED else None
    tables = [crowds_table(found)] if found else []
    tables += [stalled_table(stalled)] if stalled else []
    sending = _sending() if options.only in _SENDING else []
    tables += [sending_table(sending)] if sending else []
    print("\n\n".join(plain_table(*table) for table in tables))
    if options.write is not None:
        options.write.write_text("\n\n".join(markdown_table(*table) for table in tables) + "\n")
    complaints = [complaint for one in found for complaint in one.complaints]
    complaints += stalled.complaints if stalled else []
    complaints += dearer(sending)
    for complaint in complaints:
        print(f"MISSED  {complaint}", file=sys.stderr)
    return 1 if complaints else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="for how long each run says something"
    )
    parser.add_argument("--stalled", type=int, default=1_000, help="how many do not read")
    parser.add_argument("--only", default="", metavar="NAME", help="those with this in their name")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables as Markdown")
    return parser.parse_args()


def _tried(crowd: Crowd, seconds: float) -> Crowded:
    _progress(f"{crowd.name}: {crowd.lead:.0f} s until all are there, then {seconds:.0f} s …")
    found = crowded(crowd, seconds)
    watched = found.watched
    _progress(
        f"{crowd.name}: {watched.frames:,} frames to {watched.viewers:,} viewers, p99 "
        f"{watched.p99 * 1000:.0f} ms, server {found.server_share:.0%} of a core, clients "
        f"{found.clients_share:.0%}"
    )
    return found


def _stalled(clients: int) -> Stalls:
    _progress(f"{_STALLED}: {clients:,} of them, about a minute …")
    found = stalls(clients)
    _progress(f"{_STALLED}: {found.dropped:,} cut off, {found.bytes_each / 1000:.0f} kB each")
    return found


def _sending() -> list[Sent]:
    found = []
    for loop in LOOPS:
        for way in WAYS:
            one = sent(way, loop, viewers=500, seconds=4.0)
            _progress(f"{_SENDING}: {way}, {loop}: {one.cpu_per_frame * 1e6:.1f} µs per frame")
            found.append(one)
    return found


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
