"""The figures of docs/providers.md, measured on recordings/. To print its tables:

python -m tests.outside.provider_facts ../shared
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from argstream import stream
from argstream.assembly import Call
from argstream.events import ToolArgsDelta
from tests.outside.recordings import Recording, recordings

# A tool that one project gave to many providers: ``foo``, optional, before ``bar``, required.
SAME_TOOL, ITS_RECORDINGS = "run_me", "jp__"


class Measured(NamedTuple):
    """A call of a recording, and how it was streamed."""

    provider: str
    call: Call
    pieces: list[int]  # the number of characters in each
    schema: list[str] | None  # the parameters of its tool, where the stream contains the schema
    is_same_tool: bool

    @property
    def names(self) -> list[str]:
        """The names of its arguments, in the order of arrival."""
        return list(self.call.arguments or {})


def measure(every_recording: Iterable[Recording]) -> list[Measured]:
    return [found for recording in every_recording for found in _measure(recording)]


def _measure(recording: Recording) -> Iterator[Measured]:
    events = stream([recording.data])
    pieces: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if isinstance(event, ToolArgsDelta):
            pieces[event.call_id].append(len(event.delta))
    schemas = dict(_schemas(recording.data))
    provider, _, name = recording.name.partition("/")
    for call in events.calls:
        is_same_tool = call.name == SAME_TOOL and name.startswith(ITS_RECORDINGS)
        yield Measured(provider, call, pieces[call.id], schemas.get(call.name), is_same_tool)


def _schemas(data: bytes) -> Iterator[tuple[str, list[str]]]:
    """Find the schemas of tools that a stream repeats, as Responses and Realtime do."""
    for line in data.split(b"\n"):
        payload = line.removeprefix(b"data:").strip()
        if payload.startswith(b"{") and b'"properties"' in payload:
            yield from _schemas_in(json.loads(payload))


def _schemas_in(value: Any) -> Iterator[tuple[str, list[str]]]:
    if isinstance(value, list):
        for part in value:
            yield from _schemas_in(part)
    elif isinstance(value, dict):
        name, parameters = value.get("name"), value.get("parameters")
        if name and isinstance(parameters, dict) and "properties" in parameters:
            yield name, list(parameters["properties"])
        for part in value.values():
            yield from _schemas_in(part)


def pieces_table(calls: Sequence[Measured]) -> str:
    """How finely each provider streams arguments."""
    rows = []
    for provider, found in sorted(_by_provider(calls).items()):
        pieces = [measured.pieces for measured in found if measured.pieces]
        if pieces:
            at_once = sum(len(sizes) == 1 for sizes in pieces)
            characters = median(size for sizes in pieces for size in sizes)
            most = max(len(sizes) for sizes in pieces)
            rows.append([provider, len(pieces), at_once, most, f"{characters:g}"])
    head = ["recordings of", "calls", "in one piece", "most pieces", "characters a piece, median"]
    return _table(head, rows)


def order_table(calls: Sequence[Measured]) -> str:
    """Whether arguments come in the order of the schema, where the stream contains it."""
    rows = []
    for provider, found in sorted(_by_provider(calls).items()):
        known = [one for one in found if one.schema is not None and len(one.names) > 1]
        if known:
            in_order = sum(_in_schema_order(one) for one in known)
            telling = sum(one.names != sorted(one.names) for one in known)
            rows.append([provider, len(known), in_order, telling])
    head = ["recordings of", "calls", "in the order of the schema", "of these, not alphabetical"]
    return _table(head, rows)


def same_tool_table(calls: Sequence[Measured]) -> str:
    """In which order the arguments of one and the same tool come from many providers."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for measured in calls:
        if measured.is_same_tool and len(measured.names) > 1:
            counts[measured.provider][", ".join(measured.names)] += 1
    orders = ["foo, bar", "bar, foo"]
    rows = [[name, *(counts[name][order] for order in orders)] for name in sorted(counts)]
    return _table(["recordings of", *orders], rows)


def _in_schema_order(measured: Measured) -> bool:
    expected = [name for name in measured.schema or [] if name in measured.names]
    return expected == [name for name in measured.names if name in expected]


def _by_provider(calls: Iterable[Measured]) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = defaultdict(list)
    for measured in calls:
        if isinstance(measured.call.arguments, dict):
            found[measured.provider].append(measured)
    return found


def _table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in [head, rule, *rows])


if __name__ == "__main__":
    measured_calls = measure(recordings(Path(sys.argv[1]) / "recordings"))
    for table in (pieces_table, order_table, same_tool_table):
        print(table(measured_calls))  # noqa: T201 - this is what it is for
