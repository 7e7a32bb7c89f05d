"""The one axis that all bars of a waterfall share.

It is linear, but for long stretches in which nothing is to be drawn: a run that waited for a person
until the next morning would otherwise be two hair lines. Those are cut out, and that is shown and
said.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import ceil, floor, log10
from typing import Final, NamedTuple

from argstream.terminal.waterfall.timeline import Unit

__all__ = ["Axis", "Stretch", "Tick", "merged"]

_CUT_BEYOND: Final = 1 / 3  # of the time in which something is to be drawn
_DECADE: Final = (1.0, 2.0, 5.0)
_SECONDS: Final = (10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0)
_HOUR: Final = 3600.0
_HOURS: Final = (1, 2, 3, 6, 12, 24, 48, 96, 168)
_NOISE: Final = 1e-9  # of a length, or of steps: what is shorter is none
_SIZES: Final = ((10_000_000, 1_000_000, "MB"), (10_000, 1000, "kB"), (0, 1, "B"))
_CLOCK_FROM: Final = 120.0  # seconds from which minutes are easier to read


class Stretch(NamedTuple):
    """From here to there."""

    begin: float
    end: float


class Tick(NamedTuple):
    """A place of the axis that is labelled."""

    value: float
    label: str


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Join those that touch or overlap, in their order.

    >>> merged([Stretch(3, 4), Stretch(0, 1), Stretch(1, 2)])
    [Stretch(begin=0, end=2), Stretch(begin=3, end=4)]
    """
    joined: list[Stretch] = []
    for stretch in sorted(stretches):
        if joined and stretch.begin <= joined[-1].end:
            joined[-1] = Stretch(joined[-1].begin, max(joined[-1].end, stretch.end))
        else:
            joined.append(stretch)
    return joined


class Axis:
    """Where on a picture a value is."""

    def __init__(self, drawn: Iterable[Stretch], unit: Unit) -> None:
        """Make an axis on which these stretches are drawn, and what is between them if it fits."""
        self.unit: Unit = unit
        self.stretches = _kept(merged(drawn))
        self.length = sum(end - begin for begin, end in self.stretches)
        """Of what is drawn."""

    @property
    def gaps(self) -> list[Stretch]:
        """What is left out."""
        return [Stretch(before.end, after.begin) for before, after in pairwise(self.stretches)]

    def places(self, room: float, gap: float) -> "Places":
        """Lay the axis over so much room, of which each gap takes so much."""
        return Places(self.stretches, self.length, room, gap)

    def ticks(self, most: int) -> list[Tick]:
        """Choose round values to label, not many more than ``most``."""
        step = _step(self.length, max(1, most), self.unit)
        values: list[float] = []
        for begin, end in self.stretches:
            values += _multiples(step, begin, end) or [begin]
        return [Tick(value, _label(value, step, values[-1], self.unit)) for value in values]


class Places:
    """An axis over a row of so much room."""

    def __init__(
        self, stretches: Sequence[Stretch], length: float, room: float, gap: float
    ) -> None:
        count = len(stretches) - 1
        self.room = room
        self.gap = min(gap, 0.3 * room / count) if count else 0.0
        self._scale = (room - self.gap * count) / length if length > _NOISE else 0.0
        self._edges: list[tuple[float, float]] = []  # values, and where they are
        place = 0.0
        for begin, end in stretches:
            self._edges.append((begin, place))
            place += (end - begin) * self._scale
            self._edges.append((end, place))
            place += self.gap

    def of(self, value: float) -> float:
        """Say where a value is; what is beyond an end is at that end."""
        index = bisect_right(self._edges, (value, self.room + 1)) - 1
        if index < 0:
            return 0.0
        if index == len(self._edges) - 1:
            return min(self.room, self._edges[-1][1])
        (left, place), (right, next_place) = self._edges[index], self._edges[index + 1]
        share = (value - left) / (right - left) if right > left else 0.0
        return min(self.room, place + share * (next_place - place))

    def gaps(self) -> Iterator[tuple[float, float]]:
        """Give where what is left out would be."""
        for (_, begin), (_, end) in zip(self._edges[1::2], self._edges[2::2], strict=False):
            yield begin, end


def _kept(drawn: Sequence[Stretch]) -> list[Stretch]:
    """Say which parts of the axis are drawn: what lies between is, too, unless it is long."""
    if not drawn:
        return [Stretch(0.0, 0.0)]
    longest = _CUT_BEYOND * sum(end - begin for begin, end in drawn) or float("inf")
    begin = 0.0 if drawn[0].begin <= longest else drawn[0].begin
    kept = [Stretch(begin, drawn[0].end)]
    for stretch in drawn[1:]:
        if stretch.begin - kept[-1].end <= longest:
            kept[-1] = Stretch(kept[-1].begin, stretch.end)
        else:
            kept.append(stretch)
    return kept


def _step(length: float, most: int, unit: Unit) -> float:
    """Choose the distance of labels: the least round one of which not too many fit."""
    if length <= _NOISE:
        return 0.0
    return next(step for step in _round_steps(length / most, unit) if step * most >= length)


def _round_steps(least: float, unit: Unit) -> Iterator[float]:
    """Yield round distances in growing order, from about ``least`` on."""
    exponent = max(0 if unit == "bytes" else -6, floor(log10(least)))
    while unit == "bytes" or exponent < 1:
        yield from (digit * 10.0**exponent for digit in _DECADE)
        exponent += 1
    yield from _SECONDS
    while True:
        yield from (hours * _HOUR for hours in _HOURS)
        exponent += 1
        yield 10.0**exponent * _HOUR


def _multiples(step: float, begin: float, end: float) -> list[float]:
    if not step:
        return []
    first, last = ceil(begin / step - _NOISE), floor(end / step + _NOISE)
    return [index * step for index in range(first, last + 1)]


def _label(value: float, step: float, largest: float, unit: Unit) -> str:
    """Write a value, in the unit that the largest one calls for, as exactly as the step does."""
    if unit == "bytes":
        _, divisor, name = next(size for size in _SIZES if largest >= size[0])
        return f"{value / divisor:.{_decimals(step / divisor)}f} {name}"
    if largest < 0.2:
        return f"{value * 1000:.{_decimals(step * 1000)}f} ms"
    decimals = _decimals(step)
    if largest < _CLOCK_FROM:
        return f"{value:.{decimals}f} s"
    minutes, seconds = divmod(round(value, decimals), 60)
    hours, minutes = divmod(int(minutes), 60)
    tail = f"{seconds:0{decimals + 3 if decimals else 2}.{decimals}f}"
    return f"{hours}:{minutes:02}:{tail}" if hours else f"{minutes}:{tail}"


def _decimals(step: float) -> int:
    return max(0, -floor(log10(step))) if step else 1
