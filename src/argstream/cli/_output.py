"""Bytes as they are on their way to standard output."""

import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from argstream.sanitise import visible

__all__ = ["bytes_output", "silence"]


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


def silence(output: TextIO) -> None:
    """Let what is written, or left in a buffer, go nowhere: Python would try again at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
