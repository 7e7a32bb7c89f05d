"""Recordings of our own: what a provider sent, with its times, without keys; to write and to play.

::

    with client.messages.stream(...) as turn:                 # write while you read
        for event in stream(record(turn.response.iter_bytes(), "turn.rec")): ...

    for event in stream(open("turn.rec", "rb")): ...          # read, at once
    for event in stream(read_recording("turn.rec").play()):   # or at the times of then
        ...

The format is in ``docs/recordings.md``. ``argstream.recording.proxy`` records what any client and
its provider say to each other.
"""

from argstream.recording._tee import record, record_async
from argstream.recording.format import VERSION, Chunk, End, Ending, Header, Request, Response
from argstream.recording.reader import Recording, parse_recording, read_recording, without_times
from argstream.recording.writer import Recorder

__all__ = [
    "VERSION",
    "Chunk",
    "End",
    "Ending",
    "Header",
    "Recorder",
    "Recording",
    "Request",
    "Response",
    "parse_recording",
    "read_recording",
    "record",
    "record_async",
    "without_times",
]
