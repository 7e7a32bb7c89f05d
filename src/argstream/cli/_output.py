"""Bytes as they are on their way to standard output; and sizes in words."""

import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from argstream.sanitise import visible

__all__ = ["bytes_output", "silence", "size"]


def bytes_output() -> Callable[[bytes], None]:
    """Give a function that writes bytes at once.

    On a terminal they are shown as text, in which nothing acts on it: a model wrote some of them.
    """
    if sys.stdout.isatty():
        decoder = getincrementaldecoder("utf-8")("replace")

        def show(data: bytes) -> None:
            sys.stdout.write(visible(decoder.decode(data)))
            sys.stdout.flush()

        return show

    def write(data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    return write


def size(count: int) -> str:
    """Say how many bytes these are.

    >>> size(999), size(48_250)
    ('999 B', '48.2 kB')
    """
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def silence(output: TextIO) -> None:
    """Let what is written, or left in a buffer, go nowhere: Python would try again at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
