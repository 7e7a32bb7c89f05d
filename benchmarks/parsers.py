"""Parsers: what one more chunk costs, how that grows, and whether the value so far is true.

Each parser is used in the cheapest way that its interface allows, and loaded when it is used: axio
needs a newer Python. ``python parsers.py PARSER…`` measures only these and prints JSON.
"""

import json
import platform
import sys
import types
from collections.abc import Callable, Generator, Iterable
from functools import partial
from importlib import import_module
from time import process_time
from typing import Any, Protocol

from argstream.jsonstream import Parser
from report import Cell, Chapter, Figure, Table, fraction, microseconds, percent, size_name, times
from timing import Job, Times, cpu_time, in_newer_python, take_turns, versions
from workloads import chunks, nested_edits, one_string, small_rows

ARGSTREAM, AXIO = "argstream", "axio"
_BESIDE_AXIO = "argstream beside axio"
_GROWTH_SIZES = {False: [10_000, 1_000_000], True: [10_000, 30_000]}
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
_NOT_MEASURED: Cell = "–"


def measure(*, quick: bool = False) -> Chapter:
    """Measure all parsers; axio and argstream beside it under a newer Python."""
    found = _measure([name for name in PARSERS if name != AXIO], quick=quick)
    beside = in_newer_python(__file__, ARGSTREAM, AXIO, *["--quick"] * quick)
    for parser, workload, seconds in beside["times"]:
        found[parser if parser == AXIO else _BESIDE_AXIO, workload] = seconds
    sizes = sorted({int(workload) for _, workload in found if workload.isdigit()})
    libraries = "jsonriver", "jiter", "ijson", "partial-json-parser", "langchain-core"
    return Chapter(
        "Parsers",
        "The time for one more chunk of about 4 characters and for reading the value so far. "
        "1/6 means that argstream needs a sixth of the other parser's time. *Growth*: the time "
        "in a string of 1 MB, divided by that in 10 kB. *Taken back*: chunks after which the "
        "parser showed a wrong value, such as 12 for 123. *Behind*: chunks after which it "
        "showed less than argstream. axio shows only top-level fields "
        f"(Python {beside['python']}).",
        [_table(found, sizes)],
        versions(*libraries) + f", axio {beside['axio']}",
    )


def _measure(parsers: list[str], *, quick: bool) -> Times:
    shorter = 10 if quick else 1
    texts = {name: one_string(10_000 * 10**i // shorter) for i, name in enumerate(_STRINGS)}
    texts |= {_EDITS: nested_edits(100_000 // shorter), _ROWS: small_rows(100_000 // shorter)}
    found = _time(parsers, texts, rounds=2 if quick else 7)
    # A parser that shows nothing of a string before its end has no growth worth a look.
    growing = [name for name in parsers if name != "ijson"]
    strings = {str(size): one_string(size) for size in _GROWTH_SIZES[quick]}
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
    if isinstance(reader, _Reparser):
        return _sample(reader, pieces)
    return cpu_time(lambda: _drive(PARSERS[name](), pieces), len(pieces))


def _drive(reader: "_Reader", pieces: Iterable[str]) -> None:
    feed = reader.feed
    for piece in pieces:
        feed(piece)
        _ = reader.value  # reading it is part of the cost


def _sample(reader: "_Reparser", pieces: list[str]) -> float:
    """Time windows, evenly spaced over the text, each of as many chunks as time allows."""
    share = len(pieces) // _WINDOWS
    seconds, position = 0.0, 0
    for start in range(share // 2, share * _WINDOWS, share):
        reader.text += "".join(pieces[position:start])
        one = _timed(reader, pieces[start : start + 1])
        width = max(1, min(share // 2, round(_WINDOW_SECONDS / max(one, 1e-6))))
        position = start + 1 + width
        seconds += _timed(reader, pieces[start + 1 : position]) / width
    return seconds / _WINDOWS


def _timed(reader: "_Reader", pieces: list[str]) -> float:
    began = process_time()
    _drive(reader, pieces)
    return process_time() - began


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


def _table(found: Times, sizes: list[int]) -> Table:
    workloads = list(dict.fromkeys(workload for _, workload in found if not workload.isdigit()))
    header = ["parser", *workloads, f"growth to {size_name(sizes[-1])}", "taken back", "behind"]
    return Table(header, [_row(name, found, workloads, sizes) for name in PARSERS])


def _row(name: str, found: Times, workloads: list[str], sizes: list[int]) -> list[Cell]:
    is_ours, costs, growth = name == ARGSTREAM, list[Cell](), _NOT_MEASURED
    base, budgets = _BESIDE_AXIO if name == AXIO else ARGSTREAM, _BUDGETS.get(name, {})
    for workload in workloads:
        time = found[name, workload]
        ratio = fraction(found[base, workload] / time, budgets.get(workload))
        costs.append(Figure(f"{microseconds(time)} µs") if is_ours else ratio)
    if (name, str(sizes[0])) in found:
        factor = found[name, str(sizes[-1])] / found[name, str(sizes[0])]
        growth = times(factor, _MOST_GROWTH if is_ours else None)
    shown = [_NOT_MEASURED] * 2 if name == AXIO else [percent(share) for share in _examine(name)]
    return [name, *costs, growth, *shown]


# The parsers


class _Reader(Protocol):
    """Reads one text. After each chunk, ``value`` is as much as the parser can show."""

    @property
    def value(self) -> object: ...
    def feed(self, chunk: str, /) -> object: ...


class _Reparser:
    """Parses the whole text again with each chunk."""

    def __init__(self, parse: Callable[[str], object]) -> None:
        self._parse = parse
        self.text = ""
        self.value: object = None

    def feed(self, chunk: str) -> None:
        self.text += chunk
        self.value = self._parse(self.text)


class _Jsonriver:
    """Resumes the async generator by hand: an event loop would only add to its cost."""

    def __init__(self) -> None:
        self.value: object = None
        running = self._run(import_module("jsonriver").parse)
        running.send(None)
        self.feed = running.send

    async def _run(self, parse: Callable[[object], Any]) -> None:
        async for value in parse(_Mailbox()):
            self.value = value


class _Mailbox:
    @types.coroutine
    def __anext__(self) -> Generator[None, str, str]:
        return (yield)


class _Ijson:
    """Pushes bytes, and builds the value as ijson itself does. Strings appear when complete."""

    def __init__(self) -> None:
        ijson = import_module("ijson")
        self._builder = import_module("ijson.common").ObjectBuilder()
        self._events: list[tuple[str, object]] = ijson.sendable_list()
        parse = ijson.get_backend("yajl2_c").basic_parse_coro(self._events, use_float=True)
        self._send = parse.send

    @property
    def value(self) -> object:
        return self._builder.value

    def feed(self, chunk: str) -> None:
        self._send(chunk.encode())
        for event, value in self._events:
            self._builder.event(event, value)
        self._events.clear()


class _Axio:
    """Appends each delta to its field, the plain way to keep them. Nested values stay raw text."""

    def __init__(self) -> None:
        self._feed = import_module("axio.tool_args").ToolArgStream("call_1").feed
        self._delta = import_module("axio.events").ToolFieldDelta
        self.value: dict[str, str] = {}

    def feed(self, chunk: str) -> None:
        fields = self.value
        for event in self._feed(chunk):
            if isinstance(event, self._delta):
                fields[event.key] = fields.get(event.key, "") + event.text


def _jiter() -> _Reparser:
    from_json = import_module("jiter").from_json
    return _Reparser(lambda text: from_json(text.encode(), partial_mode="trailing-strings"))


def _imported(module: str, function: str) -> _Reparser:
    return _Reparser(getattr(import_module(module), function))


PARSERS: dict[str, Callable[[], _Reader]] = {
    ARGSTREAM: Parser,
    "jsonriver": _Jsonriver,
    "jiter": _jiter,
    "ijson": _Ijson,
    "partial-json-parser": partial(_imported, "partial_json_parser", "loads"),
    "langchain-core": partial(_imported, "langchain_core.utils.json", "parse_partial_json"),
    AXIO: _Axio,
}


if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name in PARSERS]
    measured = _measure(names, quick="--quick" in sys.argv)
    told = [[parser, workload, seconds] for (parser, workload), seconds in measured.items()]
    axio = versions(AXIO).removeprefix("axio ")
    print(json.dumps({"times": told, "python": platform.python_version(), "axio": axio}))
