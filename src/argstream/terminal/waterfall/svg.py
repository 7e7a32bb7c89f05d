"""A waterfall as a picture: one SVG that needs nothing else, for light and for dark pages.

It holds no script, no link and no font, and nothing in it came from a model but names: those are
made visible as in a terminal (``sanitise``) and then escaped for XML.
"""

from collections.abc import Iterator
from itertools import pairwise
from textwrap import wrap
from typing import Final
from xml.sax.saxutils import escape

from argstream.sanitise import visible_line
from argstream.terminal.spans import Span, text_of
from argstream.terminal.waterfall._svg_style import SHAPES, STYLE
from argstream.terminal.waterfall.axis import Axis
from argstream.terminal.waterfall.figures import conclusion, notes
from argstream.terminal.waterfall.rows import Bar, Row, busy, rows_of_calls
from argstream.terminal.waterfall.timeline import Timeline
from argstream.terminal.waterfall.words import amount
from argstream.terminal.widths import cut, width

__all__ = ["svg"]

_WIDTH: Final = 960
_PAD: Final = 24
_NAMES: Final = 230  # what labels take at most
_SOONER: Final = 84
_BESIDE: Final = 28  # between that and the axis, whose labels are as wide
_RIGHT: Final = _WIDTH - _PAD - 8
_TOP: Final = 92
_ROW: Final = 21
_BETWEEN: Final = 13  # above each call
_THICK: Final = 11
_LEAST: Final = 2.5  # of a bar, to be seen
_GAP: Final = 18
_LETTER: Final = 7.4  # how wide a letter is at most: nobody can measure it here
_SMALL: Final = 5.8
_MARKS: Final = {"✓": "waterfall-yes", "✗": "waterfall-no", "…": "waterfall-open"}
_TITLE: Final = "When each argument was visible"


def svg(timeline: Timeline, about: str = "") -> str:
    """Draw it. ``about`` says what it is of: the name of a recording, the id of a run."""
    rows = list(rows_of_calls(timeline))
    axis = Axis(busy(timeline), timeline.by)
    return _Picture(rows, axis, timeline, about).whole()


class _Picture:
    def __init__(self, rows: list[Row], axis: Axis, timeline: Timeline, about: str) -> None:
        self._rows = rows
        self._axis = axis
        wanted = max((_indent(row) + width(row.label) * _LETTER for row in rows), default=0.0)
        self._names = min(_PAD + _NAMES, round(wanted))
        self._left = self._names + _SOONER + _BESIDE
        self._places = axis.places(_RIGHT - self._left, _GAP)
        self._is_detailed = any(row.kind not in ("call", "more") for row in rows)
        self._tops = list(self._heights())
        self._bottom = self._tops.pop()
        self._about = _fitting(visible_line(about), 70)
        self._conclusion = conclusion(timeline)
        self._notes = notes(timeline, axis)

    def whole(self) -> str:
        """Give the document."""
        feet = list(self._feet())
        height = self._bottom + 24 + (20 * len(feet) + 10 if feet else 0)
        title = f"{_TITLE}: {self._about}" if self._about else _TITLE
        body = [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
                f'viewBox="0 0 {_WIDTH} {height}" role="img" '
                'aria-labelledby="waterfall-title waterfall-description">'
            ),
            f'<title id="waterfall-title">{escape(title)}</title>',
            f'<desc id="waterfall-description">{escape(self._description())}</desc>',
            f"<style>{STYLE}</style>",
            f"<defs>{SHAPES}</defs>",
            (
                f'<rect class="paper" x="0.5" y="0.5" width="{_WIDTH - 1}" '
                f'height="{height - 1}" rx="10"/>'
            ),
            _text(_PAD, 37, _TITLE, "ink heading"),
            _text(_WIDTH - _PAD, 37, self._about, "pale code end"),
            *self._grid(),
            *(
                piece
                for row, top in zip(self._rows, self._tops, strict=True)
                for piece in self._row(row, top)
            ),
            *feet,
            "</svg>",
        ]
        return "\n".join(body) + "\n"

    def _description(self) -> str:
        """Say in words what the picture shows, for who cannot see it."""
        said = []
        for row in self._rows:
            times = ", ".join(
                f"{self._amount(bar.begin)} to {self._amount(bar.end)}" for bar in row.bars
            )
            said.append(f"{row.label}: {times}" if times else row.label)
        return "; ".join(said) + ". " + self._conclusion

    def _heights(self) -> Iterator[int]:
        """Say where each row begins, and where the last one ends."""
        top = _TOP
        for before, row in pairwise([None, *self._rows]):
            if row is not None and row.kind == "call" and before is not None and self._is_detailed:
                top += _BETWEEN
            yield top
            top += _ROW
        yield top

    def _grid(self) -> Iterator[str]:
        """Give the axis, with a line for each of its labels through all rows."""
        top, bottom = _TOP - 10, self._bottom + 6
        yield _text(self._left - _BESIDE, top - 8, "sooner", "pale small end")
        free = 0.0
        for value, label in self._axis.ticks(9):
            x = self._x(value)
            yield f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>'
            half = len(label) * _SMALL / 2
            if x - half >= free:
                yield _text(x, top - 8, label, "pale small middle")
                free = x + half + 8
        yield f'<line class="rule" x1="{self._left}" y1="{top}" x2="{_RIGHT}" y2="{top}"/>'
        for begin, end in self._places.gaps():
            middle = self._left + (begin + end) / 2
            yield (f'<path class="gap" d="M{middle - 6:.1f} {top + 6}l6-12h6l-6 12z"/>')

    def _row(self, row: Row, top: int) -> Iterator[str]:
        middle = top + _ROW / 2
        indent = _indent(row)
        label = _fitting(row.label, int((self._names - indent) / _LETTER + 0.5))
        look = {"call": "name code", "argument": "ink code"}.get(row.kind, "pale")
        yield f"<g><title>{escape(self._hint(row))}</title>"
        yield _text(indent, middle + 4, label, look)
        if row.sooner:
            strength = "ink" if row.kind == "argument" else "pale"
            yield _text(self._left - _BESIDE, middle + 4, row.sooner, f"{strength} number")
        for bar in row.bars:
            yield from self._bar(bar, middle)
        yield "</g>"

    def _hint(self, row: Row) -> str:
        """Say what one sees when pointing at a row."""
        said = [
            f"{self._amount(bar.begin)} to {self._amount(bar.end)}"
            + (f" ({bar.caption})" if bar.caption else "")
            for bar in row.bars
        ]
        sooner = [f"visible {row.sooner} sooner"] if row.sooner else []
        return ", ".join([row.label, *said, *sooner])

    def _bar(self, bar: Bar, middle: float) -> Iterator[str]:
        begin, end = self._x(bar.begin), self._x(bar.end)
        length = max(_LEAST, end - begin)
        if bar.look in ("line", "waiting"):
            yield (
                f'<line class="{bar.look}" x1="{begin:.1f}" y1="{middle}" '
                f'x2="{begin + length:.1f}" y2="{middle}"/>'
            )
        else:
            yield (
                f'<rect class="{bar.look}" x="{begin:.1f}" y="{middle - _THICK / 2}" '
                f'width="{length:.1f}" height="{_THICK}" rx="{min(3.0, length / 2):.1f}"/>'
            )
        if bar.look == "line":
            yield (
                f'<line class="line" x1="{begin:.1f}" y1="{middle - 4}" '
                f'x2="{begin:.1f}" y2="{middle + 4}"/>'
            )
        if bar.mark and (self._is_detailed or bar.mark != "✓"):
            yield f'<use href="#{_MARKS[bar.mark]}" x="{end:.1f}" y="{middle}"/>'
        if bar.caption:
            yield from self._caption(bar, begin, begin + length, middle)

    def _caption(self, bar: Bar, begin: float, end: float, middle: float) -> Iterator[str]:
        """Write it into the bar, if it is long enough; else beside it, where there is room."""
        wide = len(bar.caption) * _SMALL
        beside = 12 if bar.mark else 6
        y = middle + 4
        has_room = end + beside + wide <= _WIDTH - 8
        may_break = bar.look != "running" or not (has_room or begin - wide - 6 > self._left)
        if end - begin > wide + 40 and may_break:
            x = (begin + end) / 2
            yield (
                f'<rect class="plate" x="{x - wide / 2 - 4:.1f}" y="{middle - _THICK / 2 - 1}" '
                f'width="{wide + 8:.1f}" height="{_THICK + 2}"/>'
            )
            yield _text(x, y, bar.caption, "pale small middle")
        elif has_room:
            yield _text(end + beside, y, bar.caption, "pale small")
        else:
            yield _text(begin - 6, y, bar.caption, "pale small end")

    def _feet(self) -> Iterator[str]:
        """Give what stands below."""
        y = self._bottom + 36
        said = [(note, "pale") for note in self._notes]
        said += [(self._conclusion, "ink conclusion")] if self._conclusion else []
        for text, look in said:
            for piece in wrap(text, 122 if look != "pale" else 140):
                yield _text(_PAD, y, piece, look)
                y += 20

    def _x(self, value: float) -> float:
        return self._left + self._places.of(value)

    def _amount(self, value: float) -> str:
        return amount(value, self._axis.unit)


def _indent(row: Row) -> int:
    return _PAD + 16 * row.depth + (0 if row.kind in ("call", "more") else 16)


def _text(x: float, y: float, text: str, look: str) -> str:
    return f'<text class="{look}" x="{x:g}" y="{y:g}">{escape(text)}</text>' if text else ""


def _fitting(text: str, columns: int) -> str:
    """Cut a text that is already visible; wide characters are about as wide here as there."""
    return text_of(cut((Span(text),), columns)) if width(text) > columns else text
