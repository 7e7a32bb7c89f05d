"""Where on the axis something is, and how much of it something takes."""

from argstream.terminal.waterfall.timeline import Moment, Unit
from argstream.terminal.words import duration, size

__all__ = ["amount", "position"]


def position(moment: Moment, unit: Unit) -> float:
    """Say where on the axis a moment is."""
    return moment.at if unit == "seconds" else moment.byte


def amount(value: float, unit: Unit) -> str:
    """Say how long something took, or how many bytes."""
    return duration(value) if unit == "seconds" else size(round(value))
