"""Recordings: the bytes of a provider with their times and without secrets.

::

    with client.messages.stream(...) as turn:                 # write while reading
        for event in stream(record(turn.response.iter_bytes(), "turn.rec")): ...

    for event in stream(open("turn.rec", "rb")): ...          # read at once
    for event in stream(read_recording("turn.rec").play()):   # or with the recorded timing
        ...

``docs/recordings.md`` describes the format. ``argstream.recording.proxy`` records the traffic
between any client and its provider.
"""

from typing import TYPE_CHECKING

from argstream._lazy import lazy_exports
from argstream.recording._format import VERSION, Chunk, End, Ending, Header, Request, Response

if TYPE_CHECKING:
    from argstream._secrets import secrets_of_environment
    from argstream.recording._recorder import Recorder, record, record_async
    from argstream.recording._recording import (
        Recording,
        parse_recording,
        read_recording,
        without_times,
    )

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
    "secrets_of_environment",
    "without_times",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "._secrets": "secrets_of_environment",
            "_recorder": "Recorder record record_async",
            "_recording": "Recording parse_recording read_recording without_times",
        },
    )
