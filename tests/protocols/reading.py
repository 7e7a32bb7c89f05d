"""Helpers for the tests of the encoders: events as records, and the decoded output."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from httpx_sse._decoders import SSEDecoder

from argstream import events as ev
from argstream.runs import Record, RunState, joined


class Read(NamedTuple):
    id: str
    data: Any


def read(written: bytes) -> list[Read]:
    """Decode server-sent events with the decoder of a client."""
    decoder = SSEDecoder()
    events = [decoder.decode(line) for line in written.decode().split("\n")]
    # After an ID, this decoder returns an event for a second empty line. Browsers do not.
    return [Read(event.id, json.loads(event.data)) for event in events if event and event.data]


def records_of(events: Iterable[ev.Event], first: int = 1) -> list[Record]:
    return [
        Record(seq, 1_000.0 + seq, "run_1", "talk_1", "agent", event)
        for seq, event in enumerate((one for one in events if not one.is_computed), first)
    ]


def snapshot_of(records: Sequence[Record]) -> ev.RunSnapshot:
    return RunState.from_records(records).snapshot()


def in_portions(records: Sequence[Record], cuts: Iterable[int]) -> list[list[Record]]:
    """Cut records into portions, and merge the deltas of each portion."""
    places = [0, *sorted({cut % (len(records) + 1) for cut in cuts}), len(records)]
    portions = [records[start:end] for start, end in pairwise(places)]
    return [joined(portion) for portion in portions if portion]
