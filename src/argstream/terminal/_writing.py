"""What is asked of the system about an output, and how all of a text gets there."""

import os
import selectors
from typing import TextIO

__all__ = ["descriptor", "is_in_background", "size_of", "write"]

_USUAL_SIZE = os.terminal_size((80, 24))


def descriptor(output: TextIO) -> int | None:
    """Give the number that the system knows an output by, if it knows it."""
    try:
        return output.fileno()
    except (AttributeError, OSError, ValueError):  # ValueError: it is closed
        return None


def size_of(output: TextIO) -> os.terminal_size:
    """Give columns and rows; what cannot be, such as the 0 x 0 of many a CI, is 80 x 24."""
    number = descriptor(output)
    if number is None:
        return _USUAL_SIZE
    try:
        size = os.get_terminal_size(number)
    except OSError:  # no terminal
        return _USUAL_SIZE
    return size if size.columns > 0 and size.lines > 0 else _USUAL_SIZE


def is_in_background(output: TextIO) -> bool:
    """Tell whether the terminal belongs to another job of the shell at the moment."""
    number = descriptor(output)
    if number is None or not hasattr(os, "tcgetpgrp"):
        return False
    try:
        return os.tcgetpgrp(number) != os.getpgrp()
    except OSError:  # no terminal, or one that has no jobs
        return False


def write(output: TextIO, text: str) -> None:
    """Write all of it, at once if the system takes it at once, and wait if it is slow.

    Around the buffers of Python: they lose what did not fit if an output does not block.
    """
    number = descriptor(output)
    output.flush()
    if number is None:
        output.write(text)
        output.flush()
        return
    left = memoryview(text.encode(output.encoding or "utf-8", "replace"))
    while left:
        try:
            left = left[os.write(number, left) :]
        except BlockingIOError:
            _wait_until_writable(number)


def _wait_until_writable(number: int) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(number, selectors.EVENT_WRITE)
        selector.select()
