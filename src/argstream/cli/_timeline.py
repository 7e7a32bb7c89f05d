"""When each thing in a recording could be known."""

from collections.abc import Iterator

from argstream.adapters import ProtocolName
from argstream.recording import Recording
from argstream.streaming import stream
from argstream.terminal.waterfall import Moment, Timeline, Unit

__all__ = ["timeline_of"]


def timeline_of(
    recording: Recording, protocol: ProtocolName, *, is_deep: bool
) -> tuple[Timeline, str]:
    """Read a recording, note when what came, and say of which protocol it is.

    Deep: also what is inside of arguments.
    """
    now = Moment()

    def lines() -> Iterator[bytes]:
        """Give the lines; the events of one are there before the next is asked for."""
        nonlocal now
        sizes = [0, *(len(chunk.data) for chunk in recording.chunks), 0]
        for (at, line), count in zip(recording.lines(), sizes, strict=True):
            now = Moment(at, now.byte + count)
            yield line

    by: Unit = "seconds" if recording.has_times else "bytes"
    timeline = Timeline(origin=0.0, by=by, is_deep=is_deep)
    events = stream(lines(), protocol)
    for event in events:
        timeline.note(event, now.at, byte=now.byte)
    return timeline, events.protocol
