"""Helpers for the tests of the encoders: events as records, and the decoded output."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from httpx_sse._decoders import SSEDecoder
from msgspec.structs import replace

from argstream.events import (
    Event,
    RunSnapshot,
    TextDelta,
    ThinkingDelta,
    ToolArgsDelta,
    ToolOutputDelta,
)
from argstream.runs import Record, RunState


class Read(NamedTuple):
    id: str
    data: Any


def read(written: bytes) -> list[Read]:
    """Decode server-sent events with the decoder of a client."""
    decoder = SSEDecoder()
    events = [decoder.decode(line) for line in written.decode().split("\n")]
    # After an ID, this decoder returns an event for a second empty line. Browsers do not.
    return [Read(event.id, json.loads(event.data)) for event in events if event and event.data]


def records_of(events: Iterable[Event], first: int = 1) -> list[Record]:
    return [
        Record(seq, 1_000.0 + seq, "run_1", "talk_1", "agent", event)
        for seq, event in enumerate((one for one in events if not one.is_computed), first)
    ]


def snapshot_of(records: Sequence[Record]) -> RunSnapshot:
    return RunState.from_records(records).snapshot()


def joined(records: Iterable[Record]) -> list[Record]:
    """Merge adjacent deltas of the same text, as a server does."""
    kept: list[Record] = []
    for record in records:
        event = _merged(kept[-1].event, record.event) if kept else None
        if event is None:
            kept.append(record)
        else:
            kept[-1] = replace(record, event=event)
    return kept


def _merged(one: Event, other: Event) -> Event | None:
    """Return both deltas as one, or None if they belong to different texts."""
    field = "delta" if isinstance(one, ToolArgsDelta) else "text"
    if not isinstance(one, TextDelta | ThinkingDelta | ToolArgsDelta | ToolOutputDelta):
        return None
    if type(one) is not type(other) or replace(one, **{field: ""}) != replace(other, **{field: ""}):
        return None
    return replace(one, **{field: getattr(one, field) + getattr(other, field)})


def in_portions(records: Sequence[Record], cuts: Iterable[int]) -> list[list[Record]]:
    """Cut records into portions, and merge the deltas of each portion."""
    places = [0, *sorted({cut % (len(records) + 1) for cut in cuts}), len(records)]
    portions = [records[start:end] for start, end in pairwise(places)]
    return [joined(portion) for portion in portions if portion]
