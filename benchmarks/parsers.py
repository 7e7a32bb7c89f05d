"""Parsers: what one more chunk costs, how that grows, and whether the value so far is true.

``python parsers.py PARSER…`` measures only these and prints JSON: for the environment of axio.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from time import process_time

from peers import ARGSTREAM, AXIO, PARSERS, Reader, Reparser
from report import (
    ROOT,
    Cell,
    Chapter,
    Figure,
    Table,
    fraction,
    growth_plot,
    microseconds,
    percent,
    size_name,
    times,
)
from timing import Job, Times, cpu_time, take_turns, versions
from workloads import chunks, nested_edits, one_string, small_rows

_AXIO_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
_BESIDE_AXIO = "argstream beside axio"
_GROWTH_SIZES = [10_000, 30_000, 100_000, 300_000, 1_000_000]
_WINDOWS = 20
_WINDOW_SECONDS = 0.02
_TEXTS = [one_string, nested_edits, small_rows]
_STRINGS = ["string 10 kB", "string 100 kB"]
_EDITS, _ROWS = "edits 100 kB", "rows 100 kB"

# argstream's cost as a fraction of the peer's, by workload
_BUDGETS = {
    "jsonriver": dict.fromkeys([*_STRINGS, _EDITS], 1 / 4) | {_ROWS: 1 / 3},
    "jiter": dict.fromkeys([_STRINGS[1], _EDITS, _ROWS], 1 / 15),
    AXIO: dict.fromkeys([*_STRINGS, _EDITS], 1 / 3) | {_ROWS: 1 / 2.5},
}
_MOST_GROWTH = 1.25


def measure(*, quick: bool = False) -> Chapter:
    """Measure all parsers; axio and argstream beside it under a newer Python."""
    found = _measure([name for name in PARSERS if name != AXIO], quick=quick)
    if not _AXIO_PYTHON.exists():
        sys.exit("axio needs an environment of its own: make .venv-bench/ready")
    command = [str(_AXIO_PYTHON), __file__, ARGSTREAM, AXIO, *["--quick"] * quick]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    worker = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    beside = json.loads(worker.stdout)
    for parser, workload, seconds in beside["times"]:
        found[parser if parser == AXIO else _BESIDE_AXIO, workload] = seconds
    sizes = sorted({int(workload) for _, workload in found if workload.isdigit()})
    libraries = "jsonriver", "jiter", "ijson", "partial-json-parser", "langchain-core"
    return Chapter(
        "Parsers",
        "One more chunk of about 4 characters, and the value so far: argstream's time as a "
        "fraction of the other's. *Growth*: a string of 1 MB beside one of 10 kB. *Taken back*: "
        "chunks after which something untrue was shown, such as the 12 of 123. *Behind*: chunks "
        "after which less was shown than by argstream. axio shows top-level fields only "
        f"(Python {beside['python']}).",
        [_table(found, sizes)],
        versions(*libraries) + f", axio {beside['axio']}",
        growth_plot(_lines(found, sizes)),
    )


def _measure(parsers: list[str], *, quick: bool) -> Times:
    shorter = 10 if quick else 1
    texts = {name: one_string(10_000 * 10**i // shorter) for i, name in enumerate(_STRINGS)}
    texts |= {_EDITS: nested_edits(100_000 // shorter), _ROWS: small_rows(100_000 // shorter)}
    found = _time(parsers, texts, rounds=2 if quick else 7)
    # A parser that shows nothing of a string before its end has no growth worth a look.
    growing = [name for name in parsers if name != "ijson"]
    strings = {str(size): one_string(size) for size in _GROWTH_SIZES[: 2 if quick else None]}
    return found | _time(growing, strings, rounds=1 if quick else 3)


def _time(parsers: list[str], texts: dict[str, str], rounds: int) -> Times:
    cut = {name: chunks(text) for name, text in texts.items()}
    jobs = [
        Job(parser, name, partial(_read, parser, pieces))
        for name, pieces in cut.items()
        for parser in parsers
    ]
    return take_turns(jobs, rounds, most_seconds=3.0)


def _read(name: str, pieces: list[str]) -> float:
    """Return the seconds per chunk; of a parser that parses all again, in some windows."""
    reader = PARSERS[name]()
    if isinstance(reader, Reparser):
        return _sample(reader, pieces)
    return cpu_time(lambda: _drive(PARSERS[name](), pieces), len(pieces))


def _drive(reader: Reader, pieces: Iterable[str]) -> None:
    feed = reader.feed
    for piece in pieces:
        feed(piece)
        _ = reader.value  # reading it is part of the cost


def _sample(reader: Reparser, pieces: list[str]) -> float:
    """Time windows, evenly spaced over the text, each of as many chunks as time allows."""
    share = len(pieces) // _WINDOWS
    seconds, position = 0.0, 0
    for start in range(share // 2, share * _WINDOWS, share):
        reader.skip("".join(pieces[position:start]))
        one = _timed(reader, pieces[start : start + 1])
        width = max(1, min(share // 2, round(_WINDOW_SECONDS / max(one, 1e-6))))
        position = start + 1 + width
        seconds += _timed(reader, pieces[start + 1 : position]) / width
    return seconds / _WINDOWS


def _timed(reader: Reader, pieces: list[str]) -> float:
    began = process_time()
    _drive(reader, pieces)
    return process_time() - began


# Whether the value so far is true


def _examine(name: str) -> tuple[float, float]:
    """Return the shares of chunks after which something untrue, or too little, was shown."""
    wrong = behind = total = 0
    for text in (make(3_000) for make in _TEXTS):
        whole = json.loads(text)
        reader, ours = PARSERS[name](), PARSERS[ARGSTREAM]()
        for piece in chunks(text):
            total += 1
            reader.feed(piece)
            ours.feed(piece)
            shown = reader.value
            if shown is not None and not _is_beginning(shown, whole):
                wrong += 1
            elif shown is None or (shown != ours.value and _is_beginning(shown, ours.value)):
                behind += 1
        if reader.value != whole:
            sys.exit(f"{name} parsed a text into something else than json.loads")
    return wrong / total, behind / total


def _is_beginning(part: object, whole: object) -> bool:
    """Return True if more text can turn ``part`` into ``whole``."""
    match part, whole:
        case str(), str():
            return whole.startswith(part)
        case list(), list():
            pairs = list(zip(part, whole, strict=False))
            fits = len(part) <= len(whole)
        case dict(), dict():
            pairs = [(value, whole.get(key)) for key, value in part.items()]
            fits = list(part) == list(whole)[: len(part)]
        case _:
            return part == whole
    return (
        fits and all(a == b for a, b in pairs[:-1]) and all(_is_beginning(*p) for p in pairs[-1:])
    )


# The page


def _table(found: Times, sizes: list[int]) -> Table:
    workloads = list(dict.fromkeys(workload for _, workload in found if not workload.isdigit()))
    header = ["parser", *workloads, f"growth to {size_name(sizes[-1])}", "taken back", "behind"]
    return Table(header, [_row(name, found, workloads, sizes) for name in [*PARSERS, _BESIDE_AXIO]])


def _row(name: str, found: Times, workloads: list[str], sizes: list[int]) -> list[Cell]:
    is_ours = name in (ARGSTREAM, _BESIDE_AXIO)
    costs: list[Cell]
    if is_ours:
        costs = [Figure(f"{microseconds(found[name, workload])} µs") for workload in workloads]
    else:
        base = _BESIDE_AXIO if name == AXIO else ARGSTREAM
        budgets = _BUDGETS.get(name, {})
        costs = [
            fraction(found[base, workload] / found[name, workload], budgets.get(workload))
            for workload in workloads
        ]
    growth: Cell = "–"
    if (name, str(sizes[0])) in found:
        factor = found[name, str(sizes[-1])] / found[name, str(sizes[0])]
        growth = times(factor, _MOST_GROWTH if is_ours else None)
    shown: list[Cell] = ["–", "–"]
    if name not in (AXIO, _BESIDE_AXIO):
        shown = [percent(share) for share in _examine(name)]
    return [name, *costs, growth, *shown]


def _lines(found: Times, sizes: list[int]) -> dict[str, dict[int, float]]:
    return {
        name: {size: found[name, str(size)] for size in sizes}
        for name in PARSERS
        if (name, str(sizes[0])) in found
    }


if __name__ == "__main__":
    measured = _measure(
        [name for name in sys.argv[1:] if name in PARSERS], quick="--quick" in sys.argv
    )
    told = [[parser, workload, seconds] for (parser, workload), seconds in measured.items()]
    axio = versions(AXIO).removeprefix("axio ")
    print(json.dumps({"times": told, "python": platform.python_version(), "axio": axio}))
