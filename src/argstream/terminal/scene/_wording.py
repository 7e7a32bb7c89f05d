"""How amounts, times and places are said."""

from collections.abc import Iterator
from datetime import datetime

from argstream.events import Usage
from argstream.jsonstream import JsonPath
from argstream.sanitise import visible_line

__all__ = [
    "because",
    "bytes_of",
    "clock",
    "cost",
    "duration",
    "lines_and_size",
    "place",
    "size",
]


def bytes_of(text: str) -> int:
    """Give how long a text is as UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def size(count: int) -> str:
    """Say an amount of bytes.

    >>> size(312), size(6_260), size(250_000_000)
    ('312 B', '6.3 kB', '250.0 MB')
    """
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 999_950 else f"{count / 1e6:.1f} MB"


def duration(seconds: float) -> str:
    """Say how long something takes.

    >>> duration(7.91), duration(75), duration(7500)
    ('7.9 s', '1 min 15 s', '2 h 5 min')
    """
    seconds = max(seconds, 0)
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def lines_and_size(lines: int, count: int) -> Iterator[str]:
    """Say how much was written; one line is not worth a word."""
    if lines > 1:
        yield f"{lines} lines"
    yield size(count)


def clock(seconds: float) -> str:
    """Say a time of the day that is given in seconds since 1970."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S")


def cost(usage: Usage) -> str:
    """Say what was read and written."""
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out"


def because(reason: str) -> str:
    """Add a reason, if there is one."""
    return f": {visible_line(reason)}" if reason else ""


def place(path: JsonPath) -> str:
    """Say where in the arguments.

    >>> place(("edits", 2, "old"))
    'edits[2].old'
    """
    steps = (f"[{step}]" if isinstance(step, int) else f".{visible_line(step)}" for step in path)
    return "".join(steps).removeprefix(".")
