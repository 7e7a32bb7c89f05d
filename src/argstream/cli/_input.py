"""What the commands read: a file or standard input, as it arrives; and where they complain."""

import os
import sys
from collections.abc import Iterator
from io import FileIO

from argstream.cli._interruptions import Interruptions
from argstream.cli._output import silence
from argstream.errors import UsageError
from argstream.recording import Recording, parse_recording, without_times
from argstream.recording.format import is_recording
from argstream.sanitise import visible_line

__all__ = ["UnreadableFile", "chunks", "complain", "recording_in", "say_aside"]

_CHUNK = 64 * 1024
_STANDARD_INPUT = 0


class UnreadableFile(Exception):  # noqa: N818 - it names what it is about
    """The file cannot be opened or read; the message says which and why."""

    def __init__(self, file: str, reason: str | None) -> None:
        super().__init__(f"cannot read {visible_line(file)}: {reason}")


def chunks(file: str, hint: str) -> Iterator[bytes]:
    """Read without a buffer, which gives what has arrived and does not wait for more.

    A person who types is told, by the hint, what is waited for.
    """
    if file == "-" and os.isatty(_STANDARD_INPUT):
        complain(hint)
    try:
        with (
            FileIO(_STANDARD_INPUT, closefd=False) if file == "-" else FileIO(file) as source,
            Interruptions() as interruptions,
        ):
            while True:
                interruptions.wait_for(source.fileno())
                chunk = source.read(_CHUNK)
                if chunk == b"":
                    return
                if chunk is not None:  # None: somebody else has read what had arrived
                    yield chunk
    except OSError as error:
        raise UnreadableFile(file, error.strerror) from error


def recording_in(file: str, pace: float) -> Recording:
    """Read a recording as a whole. A provider's plain stream has no times, so they are made up."""
    data = b"".join(chunks(file, "waiting for a recording on standard input"))
    if not is_recording(data):
        return without_times(data, pace)
    try:
        return parse_recording(data)
    except UsageError as error:
        raise UnreadableFile(file, str(error)) from error


def complain(message: str) -> None:
    """Say what is wrong, where it does not mix with the output; if nobody listens, go on."""
    say_aside(f"argstream: {message}")


def say_aside(line: str) -> None:
    """Write a line to standard error, if there is one."""
    if sys.stderr is None:  # print() would then take standard output
        return
    try:
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - this is what it is for
    except (OSError, ValueError):
        silence(sys.stderr)
