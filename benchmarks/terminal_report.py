"""The tables of the sixth chapter: the terminal."""

from tables import Table, fraction, milliseconds, share, size_name
from terminal_player import Played
from terminal_results import AT_ONCE, LARGE, SMALL, Shown, TerminalResults
from terminal_ways import OURS, WAYS
from terminal_workloads import FILE


def terminal_tables(results: TerminalResults) -> dict[str, Table]:
    """Make all of them, by the names that the page has for them."""
    return {"terminal_ways": _ways(results), "terminal_shown": _shown(results)}


TERMINAL_TITLES = {
    "terminal_ways": "A file in a terminal, 100 deltas a second",
    "terminal_shown": "What else argstream shows there, and the cost of all of it at once",
}


def _ways(results: TerminalResults) -> Table:
    sizes = [SMALL, LARGE]
    rows = []
    for way in WAYS:
        found = [results.paced.get(Shown(way, FILE, size)) for size in sizes]
        ratio = results.ratio(way) if way != OURS else None
        rows.append(
            [
                way,
                *map(_share, found),
                *map(_rate, found),
                *map(_frame, found),
                fraction(ratio) if ratio else "",
            ]
        )
    columns = [
        f"{figure}, {size_name(size)}"
        for figure in ("of a core", "frames a second", "ms per frame")
        for size in sizes
    ]
    return Table(["way", *columns, "argstream / this, per frame"], rows)


def _shown(results: TerminalResults) -> Table:
    return Table(
        ["what is written", "of a core", "ms per frame", "all at once, ms per kB"],
        [
            [
                f"{shown.what}, {size_name(shown.size)}",
                _share(results.paced.get(shown)),
                _frame(results.paced.get(shown)),
                milliseconds(results.at_once[shown].cpu_seconds / (shown.size / 1000)),
            ]
            for shown in AT_ONCE
        ],
    )


def _share(played: Played | None) -> str:
    return share(played.share) if played else "–"


def _frame(played: Played | None) -> str:
    return milliseconds(played.cpu_per_frame) if played else "–"


def _rate(played: Played | None) -> str:
    return f"{played.frames_per_second:.1f}" if played else "–"
