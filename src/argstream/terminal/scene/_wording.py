"""What is said of amounts and reasons."""

from collections.abc import Iterator
from datetime import datetime

from argstream.sanitise import visible_line
from argstream.terminal.words import size

__all__ = [
    "because",
    "bytes_of",
    "clock",
    "lines_and_size",
]


def bytes_of(text: str) -> int:
    """Give how long a text is as UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def lines_and_size(lines: int, count: int) -> Iterator[str]:
    """Say how much was written; one line is not worth a word."""
    if lines > 1:
        yield f"{lines} lines"
    yield size(count)


def clock(seconds: float) -> str:
    """Say a moment that is given in seconds since 1970; one beyond all calendars is never."""
    try:
        moment = datetime.fromtimestamp(seconds).astimezone()
    except (OverflowError, ValueError, OSError):
        return "the end of time"
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def because(reason: str) -> str:
    """Add a reason, if there is one."""
    return f": {visible_line(reason)}" if reason else ""
