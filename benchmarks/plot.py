"""The growth plot, written as SVG by hand: µs per chunk against the size of the string, log–log.

It has its own light background, so that it reads the same on a light and on a dark page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from readers import ARGSTREAM
from results import GROWTH_SIZES, Results
from tables import size_name

_WIDTH, _HEIGHT = 800, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 620, 64, 424
_LABEL_DISTANCE = 18
_TIMES = {0: "1 µs", 1: "10 µs", 2: "100 µs", 3: "1 ms", 4: "10 ms", 5: "100 ms", 6: "1 s"}
_OUR_COLOUR = "#0550ae"
_COLOURS = ["#1a7f37", "#bc4c00", "#8250df", "#57606a", "#a40e26", "#9a6700", "#1b7c83"]

_STYLE = """\
text { font: 13px -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: #424a53 }
.title { font-size: 16px; font-weight: 600; fill: #1f2328 }
.ours { font-weight: 700 }
.grid { stroke: #d8dee4 }
polyline { fill: none; stroke-linejoin: round; stroke-linecap: round }"""


@dataclass(frozen=True)
class _Line:
    label: str
    colour: str
    points: list[tuple[float, float]]
    """Where they are in the picture."""
    is_ours: bool


def growth_plot(runs: list[Results]) -> str:
    """Draw one line per parser."""
    lowest, highest = _decades(runs)
    lines = _lines(runs, lowest, highest)
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" role="img"',
            f'  viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}">',
            "<title>Cost of a chunk as a string grows</title>",
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="#fdfdfd"/>',
            _text(_LEFT, 32, "What one more chunk costs while a string grows", css="title"),
            _text(_LEFT, 51, "time per chunk of about 4 characters, value read after each"),
            *_axes(lowest, highest),
            *(_drawn(line) for line in lines),
            *_labels(lines),
            "</svg>",
            "",
        ]
    )


def _decades(runs: list[Results]) -> tuple[int, int]:
    """Find the powers of ten between which all times lie."""
    times = [log10(found.microseconds) for run in runs for found in run.growth]
    return floor(min(times)), ceil(max(times))


def _lines(runs: list[Results], lowest: int, highest: int) -> list[_Line]:
    lines = []
    colours = iter(_COLOURS * 2)
    for run in runs:
        for parser in dict.fromkeys(found.parser for found in run.growth):
            is_ours = parser == ARGSTREAM.name
            if is_ours and run is not runs[0]:
                continue  # one line of ours is enough, the table has the other
            points = [
                (_x(int(found.workload)), _y(log10(found.microseconds), lowest, highest))
                for found in run.growth
                if found.parser == parser
            ]
            colour = _OUR_COLOUR if is_ours else next(colours)
            lines.append(_Line(parser, colour, points, is_ours))
    return lines


def _x(size: int) -> float:
    first, last = log10(GROWTH_SIZES[0]), log10(GROWTH_SIZES[-1])
    return _LEFT + (log10(size) - first) / (last - first) * (_RIGHT - _LEFT)


def _y(decade: float, lowest: int, highest: int) -> float:
    return _BOTTOM - (decade - lowest) / (highest - lowest) * (_BOTTOM - _TOP)


def _axes(lowest: int, highest: int) -> list[str]:
    parts = []
    for decade in range(lowest, highest + 1):
        y = _y(decade, lowest, highest)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>')
        if decade in _TIMES:
            parts.append(_text(_LEFT - 8, y + 4, _TIMES[decade], anchor="end"))
    for size in GROWTH_SIZES:
        parts.append(f'<path class="grid" d="M{_x(size):.1f} {_TOP}V{_BOTTOM}"/>')
        parts.append(_text(_x(size), _BOTTOM + 20, size_name(size), anchor="middle"))
    middle = (_LEFT + _RIGHT) / 2
    parts.append(_text(middle, _BOTTOM + 42, "size of the string", anchor="middle"))
    return parts


def _drawn(line: _Line) -> str:
    width = 3.5 if line.is_ours else 1.75
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in line.points)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width + 0.75}" fill="{line.colour}"/>'
        for x, y in line.points
    )
    return f'<polyline points="{points}" stroke="{line.colour}" stroke-width="{width}"/>{dots}'


def _labels(lines: Sequence[_Line]) -> list[str]:
    """Name each line at its end, from the top down, no two closer than a line of text."""
    labels = []
    free = float("-inf")
    for line in sorted(lines, key=lambda line: line.points[-1][1]):
        x, y = line.points[-1]
        if x == _x(GROWTH_SIZES[-1]):  # lines that end early have room around them
            y = max(y, free)
            free = y + _LABEL_DISTANCE
        css = "ours" if line.is_ours else ""
        labels.append(_text(x + 12, y + 4, line.label, css=css, colour=line.colour))
    return labels


def _text(  # noqa: PLR0913 - all of them are about one piece of text
    x: float, y: float, text: str, *, css: str = "", anchor: str = "start", colour: str = ""
) -> str:
    attributes = f' class="{css}"' * bool(css) + f' style="fill:{colour}"' * bool(colour)
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{attributes}>{escape(text)}</text>'
