"""Reading the file that an edit is about, so that it can be shown in its place."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["MAX_BYTES", "file_reader"]

MAX_BYTES: Final = 2_000_000


def file_reader(root: Path) -> Callable[[str], str | None]:
    """Make a function that reads text files by the paths that a model writes.

    A relative path is meant from ``root`` on. None is given for all that is no regular file, larger
    than ``MAX_BYTES``, no UTF-8, or cannot be read. It never waits, as for a pipe that nobody
    writes to. What it reads is shown to the person at the terminal, and goes nowhere else.
    """

    def read(path: str) -> str | None:
        try:
            # Opened first and looked at then: what a name stands for can change in between.
            file = os.open(root / path, os.O_RDONLY | _FLAGS)
        except (OSError, ValueError):  # ValueError: a path with a NUL
            return None
        try:
            return _text(file)
        except (OSError, UnicodeDecodeError):
            return None
        finally:
            os.close(file)

    return read


# Windows has neither.
_FLAGS: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def _text(file: int) -> str | None:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return None
    pieces = []
    room = MAX_BYTES + 1
    while room > 0 and (piece := os.read(file, room)):
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces).decode() if room > 0 else None
