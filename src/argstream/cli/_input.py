"""What the commands read: a file or standard input, as it arrives; and where they complain."""

import os
import sys
from collections.abc import Iterator
from io import FileIO
from select import select

from argstream.sanitise import visible_line

__all__ = ["UnreadableFile", "chunks", "complain"]

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
        with FileIO(_STANDARD_INPUT, closefd=False) if file == "-" else FileIO(file) as source:
            while (chunk := source.read(_CHUNK)) != b"":
                if chunk is None:  # it was made non-blocking, and nothing has arrived
                    select([source], [], [])
                else:
                    yield chunk
    except OSError as error:
        raise UnreadableFile(file, error.strerror) from error


def complain(message: str) -> None:
    """Say what is wrong, where it does not mix with the output."""
    print(f"argstream: {message}", file=sys.stderr)  # noqa: T201 - this is what it is for
