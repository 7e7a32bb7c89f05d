"""The waterfall: when each call and argument of a stream became visible, as text and as SVG.

Both show the same rows: a call from its name to its verdict, and below it each argument, the wait
for an approval, the tool, and the silence of a client that shows only complete calls. ``draw``
lays them out in the columns of a terminal; ``svg`` draws the same columns as shapes.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, count, groupby, pairwise
from math import ceil, floor, log10
from textwrap import wrap
from typing import Final, Literal, NamedTuple, TypeAlias
from xml.sax.saxutils import escape

from argstream.sanitise import visible_line
from argstream.terminal import timeline as times
from argstream.terminal._layout import cut, width
from argstream.terminal._text import Line, Role, Span, Spans, axis_label, line, text_of
from argstream.terminal.timeline import Stretch, Timeline, Unit, amount, conclusion, position

__all__ = ["Axis", "Timeline", "conclusion", "draw", "svg"]

_Kind: TypeAlias = Literal["axis", "call", "argument", "asked", "tool", "silence", "more"]
_Look: TypeAlias = Literal["line", "solid", "waiting", "running", "silence"]
_Mark: TypeAlias = Literal["", "✓", "✗", "…"]

_DETAILED: Final = 12  # with more calls than these, each has one row
_MOST_CALLS, _MOST_ARGUMENTS = 60, 6  # others are only counted
_NOISE: Final = 1e-9  # less counts as no length
_CUT: Final = "╱"  # noqa: RUF001 - a line of a drawing, no slash
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_FILLS: Final[dict[_Look, tuple[str, Role]]] = {
    "line": ("─", "tool"),
    "solid": ("█", "argument"),
    "waiting": ("┄", "warning"),
    "running": ("▒", "good"),
    "silence": ("░", "faint"),
}
_MARKS: Final[dict[str, Role]] = {"✓": "good", "✗": "bad", "…": "warning"}
_LABELS: Final[dict[_Kind, Role]] = {"argument": "argument", "asked": "warning", "tool": "plain"}
_SHORT_LABELS: Final[dict[_Kind, str]] = {"asked": "asks", "tool": "tool", "silence": "silence"}

_WIDTH, _PAD, _ROW, _COLUMN, _COLUMNS = 960, 24, 21, 7.6, 120  # of the picture; in pixels
_PIECES: Final = re.compile(  # what is in a row of cells
    "(?P<solid>[█▐▕▏▎▍▌▋▊▉]+)|(?P<line>[├─]+)|(?P<waiting>┄+)|(?P<running>▒+)|(?P<silence>░+)"
    r"|(?P<mark>[✓✗…])|(?P<text>[\w.:]+(?: [\w.:]+)*)"
)
_SIGNS: Final = {
    "✓": "m-2.8 0.2l2 2 3.6-4",
    "✗": "m-2.3-2.3l4.6 4.6m0-4.6l-4.6 4.6",
    "…": "m-2.8 0h0m2.8 0h0m2.8 0h0",
}
_COLOURS: Final = {  # light, dark; not every viewer supports CSS variables
    ".paper,.gap{fill:%}.sign{stroke:%}": ("#ffffff", "#0d1117"),
    ".paper,.rule{stroke:%}": ("#d0d7de", "#30363d"),
    "text{fill:%}": ("#1f2328", "#e6edf3"),
    "text.faint,text.asked,text.tool,text.silence,text.more{fill:%}": ("#656d76", "#8b949e"),
    ".grid{stroke:%}": ("#eaeef2", "#1c2128"),
    ".line,.gap{stroke:%}": ("#8c959f", "#6e7681"),
    ".solid{fill:%}": ("#0969da", "#4493f8"),
    ".waiting{stroke:%}.warning{fill:%}": ("#bf8700", "#d29922"),
    "rect.silence,.hatch{stroke:%}": ("#afb8c1", "#57606a"),
    ".good,.running{fill:%}": ("#2da44e", "#3fb950"),
    ".bad{fill:%}": ("#cf222e", "#f85149"),
}
_LIGHT, _DARK = (
    "".join(rule.replace("%", pair[dark]) for rule, pair in _COLOURS.items()) for dark in (0, 1)
)
_STYLE: Final = f"""<style>
text{{font:12px ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}}
.sans{{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}}
.end{{text-anchor:end}}.strong,.call{{font-weight:600}}.heading{{font-size:15px;font-weight:600}}
.line,.waiting,.sign{{fill:none;stroke-linecap:round;stroke-linejoin:round;stroke-width:2}}
.waiting{{stroke-width:3;stroke-dasharray:0.1 6}}.sign{{stroke-width:1.6}}
rect.silence{{fill:url(#waterfall-silence)}}.hatch{{stroke-width:1.2}}
{_LIGHT}
@media (prefers-color-scheme:dark){{{_DARK}}}
</style>
<defs><pattern id="waterfall-silence" width="6" height="6" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="6"/></pattern></defs>"""


def draw(timeline: Timeline, columns: int) -> list[Line]:
    """Return the waterfall as lines of at most ``columns``; no lines if there is no call."""
    if not timeline.calls:
        return []
    table = _Table(timeline, max(24, min(200, columns)))
    lines: list[Line] = []
    axis = (_Row("axis", "", 0, "sooner"), (), table.ticks), (_Row("axis", ""), (), table.rule)
    for row, name, cells in (*axis, *table.rows):
        space = table.names - width(text_of(name)) + 2 + table.sooner - len(row.sooner)
        early = Span(row.sooner, "faint" if row.kind == "axis" else "plain")
        while cells and cells[-1].text == " ":
            cells.pop()
        groups = groupby(cells, key=lambda cell: cell.role)
        bars = (Span(text_of(tuple(group)), role) for role, group in groups)
        lines.append(Line((*name, Span(" " * space), early, Span("  "), *bars)))
    closing = [line(Span(note, "faint")) for note in table.notes(timeline)]
    closing += [line(Span(text, "strong")) for text in [conclusion(timeline)] if text]
    return [*lines, *([line(""), *closing] if closing else [])]


def svg(timeline: Timeline, about: str = "") -> str:
    """Return the waterfall as an SVG document for light and dark pages.

    ``about`` names the source: a recording or a run. The document has no scripts, links or fonts.
    """
    table, closing, unit = _Table(timeline, _COLUMNS), conclusion(timeline), timeline.by
    left, title = table.left, "When each argument was visible"
    about = text_of(cut((Span(visible_line(about)),), 70))
    body, described, y = list[str](), list[str](), 104
    for row, name, cells in table.rows:
        y += 13 if body and row.kind == "call" and table.is_detailed else 0
        spans = (f"{amount(bar.begin, unit)} to {amount(bar.end, unit)}" for bar in row.bars)
        described.append(f"{row.label}: {', '.join(spans)}")
        indent, label = len(text_of(name)) - len(text_of(name).lstrip()), text_of(name).strip()
        body += [f"<g><title>{escape(described[-1])}</title>", _text(indent, y, label, row.kind)]
        body += [_text(left - 2, y, row.sooner, "end"), *_shapes(cells, left, y), "</g>"]
        y += _ROW
    feet = [(text, "faint sans") for note in table.notes(timeline) for text in wrap(note, 140)]
    feet += [(text, "strong sans") for text in wrap(closing, 122)]
    high = y + 16 + 20 * len(feet)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="waterfall-title',
        f' waterfall-text" width="{_WIDTH}" height="{high}" viewBox="0 0 {_WIDTH} {high}">',
        f'<title id="waterfall-title">{escape(f"{title}: {about}" if about else title)}</title>',
        f'<desc id="waterfall-text">{escape("; ".join(described))}. {escape(closing)}</desc>',
        _STYLE,
        f'<rect class="paper" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{high - 1}" rx="10"/>',
        _text(0, 34, title, "heading sans"),
        _text(_COLUMNS, 34, about, "faint end"),
        _text(left - 2, 70, "sooner", "faint end"),
        *_shapes(table.ticks, left, 70),
        *_grid(table.rule, left, 82, y - 12),
        *body,
        *(_text(0, y + 14 + 20 * index, *foot) for index, foot in enumerate(feet)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class Axis:
    """Maps seconds or bytes to places in a row.

    It is linear, except that long stretches without anything to draw are left out: a run that
    waited an hour for an approval would otherwise be two hairlines.
    """

    def __init__(self, drawn: Iterable[Stretch], unit: Unit) -> None:
        """Make an axis of these stretches and of what lies between them, unless that is long."""
        self.unit: Unit = unit
        merged = times.merged(drawn) or [(0.0, 0.0)]
        longest = times.length(merged) / 3 or float("inf")
        first, end = merged[0]
        self.stretches: list[tuple[float, float]] = [(0.0 if first <= longest else first, end)]
        for begin, end in merged[1:]:
            first, before = self.stretches[-1]
            if begin - before <= longest:
                self.stretches[-1] = (first, end)
            else:
                self.stretches.append((begin, end))
        self._begins = [begin for begin, _ in self.stretches]
        self._before = [0.0, *accumulate(end - begin for begin, end in self.stretches)]
        self.length: float = self._before[-1]

    @property
    def gaps(self) -> list[Stretch]:
        """The stretches that are left out."""
        return [(before[1], after[0]) for before, after in pairwise(self.stretches)]

    def place(self, value: float, room: float, gap: float) -> float:
        """Return the place of a value in a row of this room, of which each gap takes ``gap``."""
        gaps = len(self.stretches) - 1
        gap = min(gap, 0.3 * room / gaps) if gaps else 0.0
        scale = (room - gap * gaps) / self.length if self.length > _NOISE else 0.0
        index = max(0, bisect_right(self._begins, value) - 1)
        begin, end = self.stretches[index]
        inside, share = max(begin, min(value, end)) - begin, 0.0
        if value > end and index < gaps:
            share = (value - end) / (self._begins[index + 1] - end)
        return min(room, (self._before[index] + inside) * scale + (index + share) * gap)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return round values with their labels, not many more than ``most``."""
        step, most, values = 0.0, max(1, most), list[float]()
        if self.length > _NOISE:
            steps = _round_steps(self.length / most, self.unit)
            step = next(step for step in steps if step * most >= self.length)
        for begin, end in self.stretches:
            first = ceil(begin / step - _NOISE) if step else 1
            last = floor(end / step + _NOISE) if step else 0
            values += [index * step for index in range(first, last + 1)] or [begin]
        return [(value, axis_label(value, step, values[-1], self.unit)) for value in values]


def _round_steps(least: float, unit: Unit) -> Iterator[float]:
    """Yield round distances between ticks in growing order, from about ``least`` on."""
    exponent = max(0 if unit == "bytes" else -6, floor(log10(least)))
    while unit == "bytes" or exponent < 1:
        yield from (digit * 10.0**exponent for digit in (1, 2, 5))
        exponent += 1
    yield from (10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0)
    yield from (hours * 3600.0 for hours in (1, 2, 3, 6, 12, 24, 48, 96))
    yield from (168 * 3600.0 * 2**power for power in count())


class _Bar(NamedTuple):
    look: _Look
    begin: float
    end: float
    mark: _Mark = ""  # at its end
    caption: str = ""


class _Row(NamedTuple):
    kind: _Kind
    label: str
    depth: int = 0  # of sub-agents
    sooner: str = ""  # how long before the end of the call it was visible
    bars: tuple[_Bar, ...] = ()


def _rows(timeline: Timeline) -> list[_Row]:
    calls = list(times.nested(timeline.calls))
    rows = [row for deep, call in calls[:_MOST_CALLS] for row in _call_rows(call, deep, timeline)]
    more = len(calls) - _MOST_CALLS
    return [*rows, _Row("more", f"… and {more} more calls")] if more > 0 else rows


def _call_rows(call: times.CallTimes, depth: int, timeline: Timeline) -> Iterator[_Row]:
    unit, depth = timeline.by, min(depth, 4)
    begin, end = times.written(call, unit)

    def row(kind: _Kind, label: str, *bars: _Bar, visible: float | None = None) -> _Row:
        sooner = amount(end - visible, unit) if visible is not None and call.ended else ""
        return _Row(kind, label, depth, sooner, bars)

    name = visible_line(call.name[:200])
    name += "" if call.kind == "function" else f" ({call.kind})"
    mark: _Mark = "✓" if call.verdict == "complete" else "✗" if call.verdict else "…"
    arguments = _argument_bars(call, unit)
    tool = list(_tool_bars(call, timeline))
    if len(timeline.calls) > _DETAILED:
        seen = min((bar.begin for _, bar in arguments), default=end)
        bars = [_Bar("line", begin, seen), _Bar("solid", seen, end, mark)]
        bars = bars if seen < end else [_Bar("line", begin, end, mark)]
        tool = [bar._replace(mark="", caption="") for bar in tool]
        yield row("call", name, *tool, *bars, visible=begin)
        return
    word = "" if mark == "✓" else call.verdict or "not complete"
    yield row("call", name, _Bar("line", begin, end, mark, word), visible=begin)
    for label, bar in arguments:
        yield row("argument", label, bar, visible=bar.begin)
    if call.asked:
        asked, until = position(call.asked, unit), position(call.decided or timeline.now, unit)
        wait = amount(until - asked, unit)
        bar = _Bar("waiting", asked, until, "" if call.decided else "…", wait)
        yield row("asked", "asks a person", bar)
    if tool:
        yield row("tool", "tool runs" if call.executed else "until its result", *tool)
    if call.ended:
        quiet = f"{amount(end - begin, unit)} of silence"
        yield row("silence", "without argstream", _Bar("silence", begin, end, "", quiet))


def _argument_bars(call: times.CallTimes, unit: Unit) -> list[tuple[str, _Bar]]:
    """Return names and bars of the arguments; if there are many, the last bar is for the rest."""
    unsettled: _Mark = "✗" if call.ended else "…"
    bars: list[tuple[str, _Bar]] = []
    for path, one in call.arguments.items():
        end = position(one.settled or call.ended or call.last, unit)
        bar = _Bar("solid", position(one.seen, unit), end, "" if one.settled else unsettled)
        bars.append((times.name_of(path), bar))
    rest = [bar for _, bar in bars[_MOST_ARGUMENTS - 1 :]]
    if len(rest) > 1:
        begin, end = min(bar.begin for bar in rest), max(bar.end for bar in rest)
        bar = _Bar("solid", begin, end, max(bar.mark for bar in rest))
        bars[_MOST_ARGUMENTS - 1 :] = [(f"… and {len(rest)} more", bar)]
    return bars


def _tool_bars(call: times.CallTimes, timeline: Timeline) -> Iterator[_Bar]:
    """Yield a bar for each attempt of the tool; one that a crash ended reaches to the next one."""
    for attempt, (start, stop) in enumerate(call.attempts(timeline.now)):
        begin, end = position(start, timeline.by), position(stop, timeline.by)
        is_cut = attempt < call.interruptions
        mark: _Mark = "✗" if is_cut else "" if call.finished else "…"
        caption = "cut off" if is_cut else amount(end - begin, timeline.by)
        yield _Bar("running", begin, end, mark, caption)


def _busy(timeline: Timeline) -> Iterator[Stretch]:
    """Yield when calls were written and tools ran. Waiting for an approval is neither."""
    for call in timeline.calls:
        yield times.written(call, timeline.by)
        for bar in _tool_bars(call, timeline):
            yield bar.begin, bar.begin if bar.mark == "✗" else bar.end


class _Table:
    """The rows in columns: names, how much sooner, and the bars as cells of one character."""

    def __init__(self, timeline: Timeline, columns: int) -> None:
        rows, is_wide = _rows(timeline), columns >= 60
        labels = [_label(row, is_wide=is_wide) for row in rows]
        widest = max((width(text_of(label)) for label in labels), default=0)
        self.names = min(widest, columns * 2 // 5 if is_wide else columns // 3)
        self.sooner = max(len(text) for text in ("sooner", *(row.sooner for row in rows)))
        self.left = self.names + self.sooner + 4
        self._room = columns - self.left
        self._axis = Axis(_busy(timeline), timeline.by)
        self.is_detailed = len(timeline.calls) <= _DETAILED
        self.ticks, self.rule = self._axis_cells()
        self.rows = [
            (row, cut(label, self.names), self._bar_cells(row.bars))
            for row, label in zip(rows, labels, strict=True)
        ]

    def notes(self, timeline: Timeline) -> Iterator[str]:
        """Yield what a reader must know about the rows and the axis."""
        if not self.is_detailed:
            yield (
                f"There are {len(timeline.calls)} calls, so each has one row: thin while only its "
                "name was known, solid from its first argument on, then its tool."
            )
        if self._axis.gaps:
            hidden = amount(times.length(self._axis.gaps), timeline.by)
            tools = " and no tool is known to have run" if timeline.by == "seconds" else ""
            yield f"{_CUT * 2} {hidden} are left out, in which no call was written{tools}."

    def _place(self, value: float) -> float:
        return self._axis.place(value, self._room, gap=2)

    def _axis_cells(self) -> tuple[list[Span], list[Span]]:
        """Return the labels and the rule, with as many ticks as can be labelled."""
        labels, rule = [Span(" ")] * self._room, [Span("─", "faint")] * self._room
        ticks: list[tuple[int, int, str]] = []
        for most in range(max(2, self._room // 6), 0, -1):
            ticks, free, wanted = [], 0, self._axis.ticks(most)
            for value, label in wanted:
                tick = min(int(self._place(value)), self._room - 1)
                start = max(0, min(tick, self._room - len(label)))
                if start >= free:
                    ticks.append((tick, start, label))
                    free = start + len(label) + 2
            if len(ticks) >= len(wanted) - 1:  # the last one is often too near to the end
                break
        for tick, start, label in ticks:
            _write(rule, tick, "┬", "faint")
            _write(labels, start, label, "faint")
        for begin, end in self._axis.gaps:
            first, last = int(self._place(begin)), int(self._place(end))
            _write(rule, first, _CUT * max(1, last - first), "faint")
        return labels, rule

    def _bar_cells(self, bars: Iterable[_Bar]) -> list[Span]:
        cells, captions = [Span(" ")] * self._room, []
        for bar in bars:
            begin, end = self._place(bar.begin), self._place(bar.end)
            first = min(int(begin), self._room - 1)
            last = max(first, min(ceil(end), self._room) - 1)
            fill, role = _FILLS[bar.look]
            text = fill * (last - first + 1)
            if bar.look == "line":
                text = "├" + text[1:]
            elif bar.look == "solid":
                text = _solid(begin - first, end - last, last - first)
            _write(cells, first, text, role)
            _write(cells, last, bar.mark, _MARKS.get(bar.mark, role))
            if bar.caption:
                plain: Role = "faint" if bar.look == "silence" else "plain"
                captions.append((first, last, bar.caption, _MARKS.get(bar.mark, plain)))
        for first, last, caption, role in captions:
            if last - first > len(caption) + 4:
                _write(cells, (first + last - 1 - len(caption)) // 2, f" {caption} ", role)
            elif _is_free(cells, last + 1, last + 2 + len(caption)):
                _write(cells, last + 2, caption, role)
            elif _is_free(cells, first - 1 - len(caption), first):
                _write(cells, first - 1 - len(caption), caption, role)
        return cells


def _label(row: _Row, *, is_wide: bool) -> Spans:
    indent = "  " * row.depth
    if row.kind == "call":
        return (Span(f"{indent}● ", "faint"), Span(row.label, "tool"))
    indent += "" if row.kind == "more" else "    " if is_wide else "  "
    label = row.label if is_wide else _SHORT_LABELS.get(row.kind, row.label)
    return (Span(indent + label, _LABELS.get(row.kind, "faint")),)


def _solid(begin: float, end: float, more: int) -> str:
    """Return a bar from a part of one column to a part of another, exact to about an eighth."""
    if not more:
        return "▐" if begin >= 0.5 else _EIGHTHS[max(2, min(8, ceil((end - begin) * 8)))]
    start = "█" if begin <= 0 else "▐" if begin <= 0.5 else "▕"
    return start + "█" * (more - 1) + _EIGHTHS[max(1, min(8, ceil(end * 8)))]


def _write(cells: list[Span], place: int, text: str, role: Role) -> None:
    for index, character in enumerate(text, place):
        if 0 <= index < len(cells):
            cells[index] = Span(character, role)


def _is_free(cells: list[Span], begin: int, end: int) -> bool:
    return begin >= 0 and end <= len(cells) and not text_of(tuple(cells[begin:end])).strip()


def _shapes(cells: list[Span], left: int, y: float) -> Iterator[str]:
    """Yield the shapes and texts that a row of cells stands for."""
    row = text_of(tuple(cells))
    for piece in _PIECES.finditer(row):
        look, text = piece.lastgroup, piece[0]
        begin = left + piece.start() + {"▐": 0.5, "▕": 0.875}.get(text[0], 0.0)
        end = left + piece.end() - (1 - _EIGHTHS.index(text[-1]) / 8 if text[-1] in _EIGHTHS else 0)
        end += 0.5 if row[piece.end() :][:1] in _SIGNS else 0
        x, wide = _x(begin), _x(end) - _x(begin)
        if look == "text":
            yield _text(begin, y, text, cells[piece.start()].role)
        elif look == "mark":
            x = _x(begin + 0.5)
            yield f'<circle class="{_MARKS[text]}" cx="{x:.1f}" cy="{y}" r="6.5"/>'
            yield f'<path class="sign" d="M{x:.1f} {y}{_SIGNS[text]}"/>'
        elif look == "line" or look == "waiting":
            tick = "m0-4v8m0-4" if text[0] == "├" else ""
            yield f'<path class="{look}" d="M{x:.1f} {y}{tick}h{wide:.1f}"/>'
        else:
            box = f'x="{x:.1f}" y="{y - 5.5}" width="{wide:.1f}" height="11"'
            yield f'<rect class="{look}" {box} rx="{min(3.0, wide / 2):.1f}"/>'


def _grid(rule: list[Span], left: int, top: int, bottom: int) -> Iterator[str]:
    yield f'<path class="rule" d="M{_x(left):.1f} {top}H{_x(_COLUMNS):.1f}"/>'
    for column, cell in enumerate(rule, left):
        if cell.text == "┬":
            yield f'<path class="grid" d="M{_x(column + 0.5):.1f} {top}V{bottom}"/>'
        elif cell.text == _CUT:
            yield f'<path class="gap" d="M{_x(column):.1f} {top + 6}l6-12"/>'


def _text(column: float, y: float, text: str, look: str) -> str:
    return f'<text class="{look}" x="{_x(column):.1f}" y="{y + 4}">{escape(text)}</text>'


def _x(column: float) -> float:
    return _PAD + column * _COLUMN
