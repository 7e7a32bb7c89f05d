"""Damage recorded provider streams at random, and read them with ``stream()``.

Run by ``make soak-recordings``, which reads 100,000 of them. The recordings are outside data, see
CONTRIBUTING.md. For every damaged recording:

- no exception, and the stream ends with an event that says how (invariant 9);
- every call has one verdict, and no event after it changes the arguments (invariant 10);
- a complete call has exactly the text that its deltas had;
- every event survives JSON (invariant 4).

A case depends on its number alone. ``fuzz_recordings.py NUMBER 1`` repeats one.
"""

import argparse
import json
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from struct import unpack_from

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.assembly.test_hostile import ENDS, check, damaged
from tests.outside.recordings import PROTOCOLS, Recording, outside_data, recordings
from tests.turns import aws_message

from argstream import stream
from argstream.events import Event
from argstream.testing import cut

MAX_BYTES = 40_000  # of a recording: longer ones are cut, so that no case takes long
# Streams that continue after a turn, with the results of calls.
SESSIONS = ("claude-agent", "gemini-live", "openai-realtime")
SESSION_ENDS = (*ENDS, "run_completed", "run_failed", "tool_call_completed")
PROGRESS_SECONDS = 10.0
TOKENS = (
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"null", b"-", b"1e999", b"9" * 5_000),
    *(b"\\ud83d", b"\xff", b"\0", b"\r", b"\n", b"\n\n", "\ufeff\u2028".encode()),
    *(b"data: ", b"data: [DONE]\n\n", b"event: error\n", b": \n"),
    *(b'"type":"error",', b'"index":7,', b'"id":"x",'),
)

Pieces = list[bytes]
Mutation = Callable[[random.Random, Pieces], None]


def _split(data: bytes) -> Pieces:
    """Cut a recording into the lines or the AWS messages that it consists of."""
    if data[:1] != b"\0":
        return data.splitlines(keepends=True)
    pieces = []
    while data:
        (length,) = unpack_from(">I", data)
        pieces.append(data[:length])
        data = data[length:]
    return pieces


def _drop(rng: random.Random, pieces: Pieces) -> None:
    at = rng.randrange(len(pieces))
    del pieces[at : at + rng.randint(1, 3)]


def _repeat(rng: random.Random, pieces: Pieces) -> None:
    at = rng.randrange(len(pieces))
    to = rng.randint(0, len(pieces))
    pieces[to:to] = pieces[at : at + rng.randint(1, 3)]


def _swap(rng: random.Random, pieces: Pieces) -> None:
    at, to = rng.randrange(len(pieces)), rng.randrange(len(pieces))
    pieces[at], pieces[to] = pieces[to], pieces[at]


def _truncate(rng: random.Random, pieces: Pieces) -> None:
    at = rng.randrange(len(pieces))
    pieces[at:] = [pieces[at][: rng.randint(0, len(pieces[at]))]]


def _damage_payload(rng: random.Random, pieces: Pieces) -> None:
    """Replace something inside the JSON of a piece. AWS messages keep a correct checksum."""
    at = rng.randrange(len(pieces))
    piece = pieces[at]
    is_aws = piece[:1] == b"\0" and len(piece) > 16
    headers = piece[12 : 12 + unpack_from(">I", piece, 4)[0]] if is_aws else b""
    text = piece[12 + len(headers) : -4] if is_aws else piece
    found = re.search(rb"[{\[].*[}\]]", text, re.DOTALL)
    if found is None:
        return
    try:
        value = json.loads(found[0])
    except ValueError:
        return
    new = text.replace(found[0], json.dumps(damaged(value, rng)).encode())
    pieces[at] = aws_message(headers, new) if is_aws else new


def _damage_bytes(rng: random.Random, pieces: Pieces) -> None:
    at = rng.randrange(len(pieces))
    piece = bytearray(pieces[at])
    start = rng.randint(0, len(piece))
    piece[start : start + rng.randint(0, 4)] = rng.choice(
        (rng.randbytes(rng.randint(0, 3)), rng.choice(TOKENS))
    )
    pieces[at] = bytes(piece)


MUTATIONS: Sequence[Mutation] = (
    *(_drop, _repeat, _swap, _truncate, _damage_bytes),
    *[_damage_payload] * 3,
)


class Cases:
    """Damaged recordings by number. The protocols take turns."""

    def __init__(self, found: Sequence[Recording]) -> None:
        self._by_protocol = [
            [recording for recording in found if recording.protocol == protocol]
            for protocol in PROTOCOLS
        ]

    def play(self, number: int) -> str:
        """Read the damaged recording with this number and check it. Return its name."""
        rng = random.Random(number)
        recording = rng.choice(self._by_protocol[number % len(PROTOCOLS)])
        data = self._damaged(rng, recording)
        protocol = rng.choice(("auto", *PROTOCOLS[recording.protocol]))
        sizes = rng.choice(([len(data) + 1], [rng.randint(1, 300) for _ in range(20)]))
        try:
            events = stream(cut(data, sizes), protocol=protocol)
            found = list(events)
            check(found, events.calls, self._ends(events.protocol, found))
        except Exception as error:
            error.add_note(f"case {number}: {recording.name}, protocol {protocol}")
            raise
        return recording.name

    @staticmethod
    def _ends(protocol: str | None, events: Sequence[Event]) -> Sequence[str]:
        if any(event.type == "stream_failed" for event in events):
            return (*SESSION_ENDS, events[-1].type)  # a turn that has failed has no other end
        return SESSION_ENDS if protocol in SESSIONS else ENDS

    def _damaged(self, rng: random.Random, recording: Recording) -> bytes:
        pieces = self._pieces(rng, recording)
        for _ in range(rng.randint(1, 5)):
            rng.choice(MUTATIONS)(rng, pieces)
            if rng.random() < 0.05:  # continue with another recording
                pieces += self._pieces(rng, rng.choice(rng.choice(self._by_protocol)))
            pieces = pieces or [b""]
        return b"".join(pieces)

    @staticmethod
    def _pieces(rng: random.Random, recording: Recording) -> Pieces:
        data = recording.data
        if len(data) <= MAX_BYTES:
            return _split(data)
        kept = _split(data)
        start = rng.randrange(len(kept)) if rng.random() < 0.5 else 0
        total, end = 0, start
        while end < len(kept) and total <= MAX_BYTES:
            total += len(kept[end])
            end += 1
        return kept[:3] + kept[max(3, start) : end]


def play(cases: Cases, first: int, count: int) -> Iterator[str]:
    """Play cases, and yield a line about the progress every few seconds."""
    began = reported = time.monotonic()
    for number in range(first, first + count):
        cases.play(number)
        if time.monotonic() - reported > PROGRESS_SECONDS:
            reported = time.monotonic()
            done = number + 1 - first
            left = (reported - began) / done * (count - done)
            yield f"{done:,} of {count:,} damaged recordings read, {left:.0f} s left"
    yield f"{count:,} damaged recordings read in {time.monotonic() - began:.0f} s"


def main() -> None:
    """Play the cases with these numbers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int, nargs="?", default=0, help="number of the first case")
    parser.add_argument("count", type=int, nargs="?", default=100_000)
    options = parser.parse_args()
    folder = outside_data("recordings")
    if not folder.is_dir():
        print(f"skipped: no {folder}. Put outside data there, or set ARGSTREAM_OUTSIDE_DATA")
        sys.exit("CI" in os.environ)
    for line in play(Cases(list(recordings(folder))), options.first, options.count):
        print(line, flush=True)


if __name__ == "__main__":
    main()
