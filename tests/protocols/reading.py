"""What the tests of the formats share: events as records, and what a client reads of them."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from httpx_sse._decoders import SSEDecoder
from msgspec.structs import replace

from argstream.events import Event, TextDelta, ThinkingDelta, ToolArgsDelta, ToolOutputDelta
from argstream.runs import Record, RunView, is_stored


class Read(NamedTuple):
    """One server-sent event."""

    id: str
    data: Any


def read(written: bytes) -> list[Read]:
    """Read server-sent events with a client's decoder."""
    decoder = SSEDecoder()
    events = [decoder.decode(line) for line in written.decode().split("\n")]
    # A second empty line is an event to this decoder, if an id was ever given; to browsers none.
    return [Read(event.id, json.loads(event.data)) for event in events if event and event.data]


def records_of(events: Iterable[Event], first: int = 1) -> list[Record]:
    """Give events as a log has them that was written event by event: without views."""
    return [
        Record(seq, 1_000.0 + seq, "run_1", "talk_1", "agent", event)
        for seq, event in enumerate(filter(is_stored, events), first)
    ]


def snapshot_of(records: Sequence[Record]) -> Record:
    """Give the snapshot of a run that has come so far."""
    view = RunView()
    for record in records:
        view.take(record.event)
    seq = records[-1].seq if records else 0
    return Record(seq, 1_000.0 + seq, "run_1", "talk_1", "agent", view.snapshot())


def joined(records: Iterable[Record]) -> list[Record]:
    """Give records as a server does that has collected them: neighbours that grow as one."""
    kept: list[Record] = []
    for record in records:
        event = _together(kept[-1].event, record.event) if kept else None
        if event is None:
            kept.append(record)
        else:
            kept[-1] = replace(record, event=event)
    return kept


def _together(one: Event, other: Event) -> Event | None:
    """Give two pieces of the same as one; None if they are not."""
    field = "delta" if isinstance(one, ToolArgsDelta) else "text"
    kinds = TextDelta | ThinkingDelta | ToolArgsDelta | ToolOutputDelta
    if not isinstance(one, kinds) or replace(one, **{field: ""}) != _without(other, field):
        return None
    return replace(one, **{field: getattr(one, field) + getattr(other, field)})


def _without(event: Event, field: str) -> Event:
    return replace(event, **{field: ""}) if hasattr(event, field) else event


def in_portions(records: Sequence[Record], cuts: Iterable[int]) -> list[list[Record]]:
    """Cut records at some places, and join what grows the same in each portion."""
    places = [0, *sorted({cut % (len(records) + 1) for cut in cuts}), len(records)]
    portions = [records[start:end] for start, end in pairwise(places)]
    return [joined(portion) for portion in portions if portion]
