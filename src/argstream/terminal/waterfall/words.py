"""Times and sizes in words, as short as they can be and still tell something."""

from typing import Final

from argstream.terminal.waterfall.timeline import Moment, Unit

__all__ = ["amount", "duration", "position", "size"]

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400


def position(moment: Moment, unit: Unit) -> float:
    """Say where on the axis a moment is."""
    return moment.at if unit == "seconds" else moment.byte


def amount(value: float, unit: Unit) -> str:
    """Say how long something took, or how many bytes."""
    return duration(value) if unit == "seconds" else size(round(value))


def duration(seconds: float) -> str:
    """Say how long something took.

    >>> [duration(seconds) for seconds in (0, 0.0004, 0.0312, 0.5, 59.97, 75, 4000, 200_000)]
    ['0 ms', '0.4 ms', '31 ms', '0.5 s', '1 min 0 s', '1 min 15 s', '1 h 6 min', '2 d 7 h']
    """
    if seconds < 0.0995:
        milliseconds = seconds * 1000
        return f"{milliseconds:.1f} ms" if 0 < milliseconds < 0.95 else f"{milliseconds:.0f} ms"
    if seconds < _MINUTE - 0.05:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    if minutes < _HOUR // _MINUTE:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < _DAY // _HOUR:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def size(count: int) -> str:
    """Say how many bytes these are.

    >>> size(999), size(48_250)
    ('999 B', '48.2 kB')
    """
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.1f} kB" if count < 999_950 else f"{count / 1_000_000:.1f} MB"
