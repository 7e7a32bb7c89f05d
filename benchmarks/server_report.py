"""The tables of the server under load."""

from collections.abc import Sequence

from server_results import Crowded
from server_sending import OURS, WAYS, Sent
from server_stalled import Stalls
from tables import Table, milliseconds, rate, share

__all__ = ["crowds_table", "sending_table", "stalled_table"]


def crowds_table(found: Sequence[Crowded]) -> Table:
    """Tell of those who watch: how long they waited, and what that took."""
    return Table(
        [
            "what goes on",
            "deltas a second",
            "frames a second",
            "MB a second",
            "p50 ms",
            "p99 ms",
            "most ms",
            "server, of a core",
            "clients, of a core",
            "µs per frame",
            "server MB",
            "wrong",
        ],
        [
            [
                one.crowd.name,
                rate(one.crowd.runs * one.crowd.per_second),
                rate(one.watched.frames / one.watched.seconds),
                f"{one.watched.bytes / one.watched.seconds / 1e6:.1f}",
                milliseconds(one.watched.p50),
                milliseconds(one.watched.p99),
                milliseconds(one.watched.most),
                share(one.server_share),
                share(one.clients_share),
                f"{one.server.cpu_seconds / one.watched.frames * 1e6:.1f}",
                f"{one.server.bytes_most / 1e6:.0f}",
                str(len(one.watched.wrong)),
            ]
            for one in found
        ],
    )


def sending_table(found: Sequence[Sent]) -> Table:
    """Tell what a frame costs the server, in which way it is sent."""
    loops = list(dict.fromkeys(one.loop for one in found))
    cost = {(one.way, one.loop): one.cpu_per_frame for one in found}
    return Table(
        ["µs of CPU time per frame", *loops, *(f"argstream / this, {loop}" for loop in loops)],
        [
            [
                way,
                *(f"{cost[way, loop] * 1e6:.1f}" for loop in loops),
                *(
                    "" if way == OURS else f"{cost[OURS, loop] / cost[way, loop]:.2f}"
                    for loop in loops
                ),
            ]
            for way in WAYS
        ],
    )


def stalled_table(found: Stalls) -> Table:
    """Tell of those who do not read."""
    return Table(
        [
            "clients that do not read",
            "MB of the run",
            "kB of the server's memory each",
            "cut off",
            "others: p50 ms",
            "p99 ms",
            "most ms",
        ],
        [
            [
                f"{found.clients:,}",
                f"{found.bytes_of_run / 1e6:.0f}",
                f"{found.bytes_each / 1000:.0f}",
                f"{found.dropped:,}",
                milliseconds(found.others.p50),
                milliseconds(found.others.p99),
                milliseconds(found.others.most),
            ]
        ],
    )
