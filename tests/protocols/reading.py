"""What the tests of the formats share: events as records, and what a client reads of them."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from httpx_sse._decoders import SSEDecoder

from argstream.events import Event
from argstream.log import Record, joined, merged
from argstream.snapshots import RunView


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
        for seq, event in enumerate((kept for event in events for kept in merged([event])), first)
    ]


def snapshot_of(records: Sequence[Record]) -> Record:
    """Give the snapshot of a run that has come so far."""
    view = RunView()
    for record in records:
        view.take(record.event)
    seq = records[-1].seq if records else 0
    return Record(seq, 1_000.0 + seq, "run_1", "talk_1", "agent", view.snapshot())


def in_portions(records: Sequence[Record], cuts: Iterable[int]) -> list[list[Record]]:
    """Cut records at some places, and join what grows the same in each portion."""
    places = [0, *sorted({cut % (len(records) + 1) for cut in cuts}), len(records)]
    portions = [records[start:end] for start, end in pairwise(places)]
    return [joined(portion) for portion in portions if portion]
