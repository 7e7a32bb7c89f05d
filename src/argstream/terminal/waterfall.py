"""The waterfall: when each call and argument of a run became visible, as text and as SVG.

Both show the same rows: a call from its name to its verdict, and below it each argument, the wait
for an approval, and the tool. ``_Chart`` lays the rows out in columns. ``lines`` writes the columns
as characters, ``svg`` draws them as shapes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from math import ceil, floor
from operator import itemgetter
from textwrap import wrap
from typing import Final, Literal, NamedTuple, TypeAlias
from xml.sax.saxutils import escape

from argstream.runs import Argument, Call, RunState
from argstream.sanitise import visible_line
from argstream.terminal._layout import cut, width
from argstream.terminal._text import Line, Role, Span, Spans, amount, axis_label, path_name, text_of

Unit: TypeAlias = Literal["seconds", "bytes"]
Stretch: TypeAlias = tuple[float, float]
_Kind: TypeAlias = Literal["call", "argument", "approval", "tool", "more"]
_Mark: TypeAlias = Literal["", "✓", "✗", "…"]
_Text: TypeAlias = tuple[int, str, Role]  # column, text, colour

_MOST_CALLS, _MOST_ARGUMENTS = 60, 12  # others are only counted
_NOISE: Final = 1e-9  # less counts as no length
_CUT: Final = "╱"  # noqa: RUF001 - a line of a drawing, no slash
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_KINDS: Final[dict[_Kind, tuple[str, Role]]] = {  # how bars are filled, and the colour of the row
    "call": ("─", "tool"),
    "argument": ("█", "argument"),
    "approval": ("┄", "warning"),
    "tool": ("▒", "good"),
    "more": ("", "faint"),
}
_MARKS: Final[dict[str, tuple[Role, str]]] = {  # their colours, and their shapes in the picture
    "✓": ("good", "m-2.8 0.2l2 2 3.6-4"),
    "✗": ("bad", "m-2.3-2.3l4.6 4.6m0-4.6l-4.6 4.6"),
    "…": ("warning", "m-2.8 0h0m2.8 0h0m2.8 0h0"),
}
# Round distances between ticks.
_DECADES: Final = [digit * 10.0**power for power in range(-6, 16) for digit in (1, 2, 5)]
_HOURS: Final = (1, 2, 3, 6, 12, 24, 48, 96, *(168 * 2**power for power in range(32)))
_STEPS: Final[dict[Unit, list[float]]] = {
    "bytes": [step for step in _DECADES if step >= 1],
    "seconds": [step for step in _DECADES if step < 10]
    + [10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0]
    + [hours * 3600.0 for hours in _HOURS],
}


_WIDTH, _PAD, _ROW, _COLUMN, _COLUMNS = 960, 24, 21, 7.6, 120  # of the picture; in pixels
_COLOURS: Final = {  # light, dark; not every viewer supports CSS variables
    ".paper,.gap{fill:%}.sign{stroke:%}": ("#ffffff", "#0d1117"),
    ".paper,.rule{stroke:%}": ("#d0d7de", "#30363d"),
    "text{fill:%}": ("#1f2328", "#e6edf3"),
    "text.faint,text.approval,text.tool,text.more{fill:%}": ("#656d76", "#8b949e"),
    ".grid{stroke:%}": ("#eaeef2", "#1c2128"),
    "path.call,.gap{stroke:%}": ("#8c959f", "#6e7681"),
    "rect.argument{fill:%}": ("#0969da", "#4493f8"),
    "path.approval{stroke:%}.warning{fill:%}": ("#bf8700", "#d29922"),
    ".good,rect.tool{fill:%}": ("#2da44e", "#3fb950"),
    ".bad{fill:%}": ("#cf222e", "#f85149"),
}
_LIGHT, _DARK = (
    "".join(rule.replace("%", pair[dark]) for rule, pair in _COLOURS.items()) for dark in (0, 1)
)
_STYLE: Final = f"""<style>
text{{font:12px ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}}
.sans{{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}}
.end{{text-anchor:end}}.strong,.call{{font-weight:600}}.heading{{font-size:15px;font-weight:600}}
path{{fill:none;stroke-linecap:round;stroke-linejoin:round;stroke-width:2}}
.rule,.grid,.gap{{stroke-width:1}}.sign{{stroke-width:1.6}}
path.approval{{stroke-width:3;stroke-dasharray:0.1 6}}
{_LIGHT}
@media (prefers-color-scheme:dark){{{_DARK}}}
</style>"""


class Waterfall:
    """The times of the calls of a run, and pictures of them."""

    def __init__(self, state: RunState, unit: Unit = "seconds", *, is_deep: bool = False) -> None:
        """Show a state as it is now.

        Times count from the ``RunStarted`` event, or from 0 if the state has none. For a stream
        without times, apply each event with the number of bytes so far, and pass ``"bytes"``.
        ``is_deep`` includes the values inside of arguments.
        """
        self.state = state
        self.unit: Unit = unit
        self._is_deep = is_deep
        calls = (block for block in state.blocks if isinstance(block, Call))
        self.calls: list[Call] = [call for call in calls if call.started_at is not None]

    def lines(self, columns: int, *, detailed: bool = False) -> list[Line]:
        """Return the waterfall as lines of at most ``columns``; no lines if there is no call.

        A call has one row: thin while only its name is known, solid from its first argument on,
        then the wait for an approval and the tool. ``detailed`` shows each of these, and each
        argument, in a row of its own.
        """
        if not self.calls:
            return []
        chart = _Chart(self, max(24, min(200, columns)), detailed=detailed)
        labels = [label for _, label in chart.ticks]
        lines = [chart.line(labels, sooner="sooner"), chart.line(chart.rule())]
        lines += [chart.line(_characters(bars), name, row.sooner) for row, name, bars in chart.rows]
        notes = [Line((Span(text, role),), breaks="words") for text, role in chart.notes if text]
        return [*lines, Line(()), *notes] if notes else lines

    def svg(self, about: str = "") -> str:
        """Return the waterfall as an SVG document for light and dark pages.

        ``about`` names the source: a recording or a run. Scripts, links and fonts are not used.
        """
        chart, unit = _Chart(self, _COLUMNS, detailed=True), self.unit
        left, title = chart.left, "When each argument was visible"
        about = text_of(cut((Span(visible_line(about)),), 70))
        body, titles, y = list[str](), list[str](), 104
        for row, name, bars in chart.rows:
            y += 13 if body and row.kind == "call" else 0
            times = (f"{amount(bar.begin, unit)} to {amount(bar.end, unit)}" for bar in row.bars)
            titles.append(f"{row.name[-1].text}: {', '.join(times)}")
            texts = _text(0, y, text_of(name), row.kind), _text(left - 2, y, row.sooner, "end")
            body += [f"<g><title>{escape(titles[-1])}</title>", *texts, *_shapes(bars, left, y)]
            body.append("</g>")
            y += _ROW
        feet = [(row, f"{role} sans") for text, role in chart.notes for row in wrap(text, 122)]
        high, named = y + 16 + 20 * len(feet), escape(f"{title}: {about}" if about else title)
        parts = [
            '<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="waterfall-title',
            f' waterfall-text" width="{_WIDTH}" height="{high}" viewBox="0 0 {_WIDTH} {high}">',
            f'<title id="waterfall-title">{named}</title>',
            f'<desc id="waterfall-text">{escape("; ".join([*titles, self.conclusion()]))}</desc>',
            _STYLE,
            f'<rect class="paper" x="1" y="1" width="{_WIDTH - 2}" height="{high - 2}" rx="10"/>',
            _text(0, 34, title, "heading sans"),
            _text(_COLUMNS, 34, about, "faint end"),
            _text(left - 2, 70, "sooner", "faint end"),
            *(_text(left + at, 70, *label) for _, (at, *label) in chart.ticks),
            f'<path class="rule" d="M{_x(left)} 82H{_x(_COLUMNS)}"/>',
            *(f'<path class="grid" d="M{_x(left + x)} 82V{y - 12}"/>' for x, _ in chart.ticks),
            *(f'<path class="gap" d="M{_x(left + x)} 88l6-12h8l-6 12"/>' for x, _ in chart.gaps),
            *body,
            *(_text(0, y + 14 + 20 * index, *foot) for index, foot in enumerate(feet)),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def conclusion(self) -> str:
        """Return a sentence that sums up the waterfall, or "" if no call has its verdict."""
        ended = [call for call in self.calls if call.verdict]
        if not ended:
            return ""
        leads = [
            (self.written(call)[1] - self.at(arguments[0].started_at), call.name)
            for call in ended
            if (arguments := self.arguments(call))
        ]
        lead, name = max(leads, key=lambda one: round(one[0], 3), default=(0.0, ""))
        if lead <= 0:
            return "No call was readable before it was complete."
        name = text_of(cut((Span(visible_line(name[:200])),), 41))
        early, sooner = amount(lead, self.unit), amount(self.silence(), self.unit)
        shown = f"{name}: first argument shown {early} before its end."
        return f"{shown} All calls: {sooner}."

    def silence(self) -> float:
        """Return how long calls were written. Time that several calls share is counted once."""
        return _length(_merged(self.written(call) for call in self.calls if call.verdict))

    def at(self, time: float | None) -> float:
        """Return a time of the state, counted from the start; 0 if it is not known."""
        return 0.0 if time is None else round(time - (self.state.started_at or 0.0), 6)

    def written(self, call: Call) -> Stretch:
        """Return when a call was written: from its name to its verdict or its last text."""
        return self.at(call.started_at), self.at(call.last_text_at)

    def arguments(self, call: Call) -> list[Argument]:
        """Return the arguments as the model wrote them, in order. A free text is one argument."""
        found: list[Argument] = []
        stack = [call.written] if call.is_free_text else [*reversed(call.written.children.values())]
        while stack:
            argument = stack.pop()
            if argument.started_at is not None:
                found.append(argument)
            if self._is_deep:
                stack += reversed(argument.children.values())
        return found


class Axis:
    """Maps seconds or bytes to places in a row.

    It is linear, except that long stretches without anything to draw are left out: a run that
    waited an hour for an approval would otherwise be two hairlines.
    """

    def __init__(self, drawn: Iterable[Stretch], unit: Unit) -> None:
        """Make an axis of these stretches and of what lies between them, unless that is long."""
        self.unit: Unit = unit
        merged = _merged(drawn) or [(0.0, 0.0)]
        longest = _length(merged) / 3 or float("inf")
        start = [(0.0, 0.0)] if merged[0][0] <= longest else []
        self.stretches: list[Stretch] = _merged([*start, *merged], longest)
        # What is left out.
        self.gaps: list[Stretch] = [(a, b) for (_, a), (b, _) in pairwise(self.stretches)]
        self._before = [0.0, *accumulate(end - begin for begin, end in self.stretches)]
        self.length: float = self._before[-1]

    def place(self, value: float, room: float, gap: float) -> float:
        """Return the place of a value in a row of this room, of which each gap takes ``gap``."""
        gaps = len(self.stretches) - 1
        gap = min(gap, 0.3 * room / gaps) if gaps else 0.0
        scale = (room - gap * gaps) / self.length if self.length > _NOISE else 0.0
        index = max(0, bisect_right(self.stretches, value, key=itemgetter(0)) - 1)
        begin, end = self.stretches[index]
        inside, share = max(begin, min(value, end)) - begin, 0.0
        if value > end and index < gaps:
            share = (value - end) / (self.stretches[index + 1][0] - end)
        return min(room, (self._before[index] + inside) * scale + (index + share) * gap)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return round values with their labels, not many more than ``most``."""
        step, most, values = 0.0, max(1, most), list[float]()
        if self.length > _NOISE:
            step = next(step for step in _STEPS[self.unit] if step * most >= self.length)
        for begin, end in self.stretches:
            first = ceil(begin / step - _NOISE) if step else 1
            last = floor(end / step + _NOISE) if step else 0
            values += [index * step for index in range(first, last + 1)] or [begin]
        return [(value, axis_label(value, step, values[-1], self.unit)) for value in values]


class _Bar(NamedTuple):
    begin: float
    end: float
    mark: _Mark = ""  # at its end
    kind: _Kind = "more"  # that of its row sets it


class _Row(NamedTuple):
    kind: _Kind
    name: Spans
    sooner: str = ""  # how long before the end of the call it was visible
    bars: tuple[_Bar, ...] = ()


def _nested(calls: Iterable[Call]) -> Iterator[tuple[int, Call]]:
    """Yield calls with their depth, each followed by the calls of its sub-agent."""
    children: dict[str | None, list[Call]] = {None: []}
    for call in calls:  # a parent starts before its children, so there are no cycles
        children[call.parent_id if call.parent_id in children else None].append(call)
        children.setdefault(call.call_id, [])
    stack = [(0, call) for call in reversed(children.pop(None))]
    while stack:
        depth, call = stack.pop()
        yield depth, call
        stack += [(depth + 1, child) for child in reversed(children.pop(call.call_id, []))]


def _one_row(call: Call, depth: int, waterfall: Waterfall) -> Iterator[_Row]:
    first, *others = _call_rows(call, depth, waterfall)
    bars, later = first.bars, [bar for row in others for bar in row.bars]
    if arguments := [bar.begin for bar in later if bar.kind == "argument"]:
        readable = bars[0]._replace(begin=arguments[0], kind="argument")
        bars = (bars[0]._replace(end=arguments[0], mark=""), readable)
    yield first._replace(bars=(*bars, *(bar for bar in later if bar.kind != "argument")))


def _call_rows(call: Call, depth: int, waterfall: Waterfall) -> Iterator[_Row]:
    unit, (begin, end) = waterfall.unit, waterfall.written(call)

    def row(kind: _Kind, label: str, *bars: _Bar) -> _Row:
        is_visible = kind in ("call", "argument") and call.verdict
        sooner = amount(end - bars[0].begin, unit) if is_visible else ""
        margin = Span("  " * min(depth, 4) + ("● " if kind == "call" else "  "), "faint")
        own = tuple(bar._replace(kind=kind) for bar in bars)
        return _Row(kind, (margin, Span(label, _KINDS[kind][1])), sooner, own)

    name = visible_line(call.name[:200]) + (f" ({call.kind})" if call.kind != "function" else "")
    mark: _Mark = "✓" if call.verdict == "complete" else "✗" if call.verdict else "…"
    name += "" if mark == "✓" else f" · {call.verdict or 'unfinished'}"
    yield row("call", name, _Bar(begin, end, mark))
    arguments = waterfall.arguments(call)
    for one in arguments[:_MOST_ARGUMENTS]:
        seen, done = waterfall.at(one.started_at), waterfall.at(one.done_at)
        bar = _Bar(seen, done) if one.is_done else _Bar(seen, end, "✗" if call.verdict else "…")
        yield row("argument", argument_name(one), bar)
    if (more := len(arguments) - _MOST_ARGUMENTS) > 0:
        yield row("more", f"… and {more} more")
    if call.request:
        is_open = call.decision is None
        until = waterfall.at(waterfall.state.time if is_open else call.decided_at)
        asked = waterfall.at(call.requested_at)
        bar = _Bar(asked, until, "…" if is_open else "")
        yield row("approval", f"approval {amount(until - asked, unit)}", bar)
    if bars := list(_tool_bars(call, waterfall)):
        last = bars[-1]
        took = "cut off" if last.mark == "✗" else amount(last.end - last.begin, unit)
        yield row("tool", f"tool {took}", *bars)


def _tool_bars(call: Call, waterfall: Waterfall) -> Iterator[_Bar]:
    """Yield a bar for each attempt of the tool. After a crash, only the start of one is known.

    A tool that another process runs has only a result. Its bar starts when the call was allowed.
    """
    starts, end = call.executed_at, call.ended_at if call.outcome else waterfall.state.time
    if not starts and call.outcome:
        is_approved = call.decision and call.decision.decision in ("approved", "edited")
        is_free = call.verdict == "complete" and not call.request
        allowed = call.decided_at if is_approved else call.completed_at if is_free else None
        starts = [] if allowed is None or allowed == end else [allowed]
    for attempt, (begin, until) in enumerate(pairwise(map(waterfall.at, [*starts, end]))):
        mark: _Mark = "" if call.outcome else "…"
        yield _Bar(begin, begin, "✗") if attempt < call.interruptions else _Bar(begin, until, mark)


def argument_name(argument: Argument) -> str:
    """Return the name of an argument as it is shown; a free text has none."""
    return path_name(argument.path)[:200] if argument.path else "(text)"


def _merged(stretches: Iterable[Stretch], gap: float = 0.0) -> list[Stretch]:
    """Return these stretches in order, with those joined that overlap or have a small gap."""
    joined: list[Stretch] = []
    for begin, end in sorted(stretches):
        if joined and begin - joined[-1][1] <= gap:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def _length(stretches: Iterable[Stretch]) -> float:
    return sum(end - begin for begin, end in stretches)


class _Chart:
    """The rows in columns: names, how much sooner, and the bars."""

    def __init__(self, waterfall: Waterfall, columns: int, *, detailed: bool) -> None:
        calls, rows_of = list(_nested(waterfall.calls)), _call_rows if detailed else _one_row
        rows = [row for deep, call in calls[:_MOST_CALLS] for row in rows_of(call, deep, waterfall)]
        if (more := len(calls) - _MOST_CALLS) > 0:
            rows.append(_Row("more", (Span(f"  … and {more} more calls", "faint"),)))
        names = [cut(row.name, min(columns * 2 // 5, columns - 16)) for row in rows]
        self._names = max((width(text_of(name)) for name in names), default=0)
        self._sooner = max(len(text) for text in ("sooner", *(row.sooner for row in rows)))
        self.left = self._names + self._sooner + 4
        self._room = columns - self.left
        bars_of = (bar for row in rows for bar in row.bars)
        busy = ((bar.begin, bar.end) for bar in bars_of if bar.kind != "approval")  # may take days
        self._axis = axis = Axis(busy, waterfall.unit)
        bars = ([self._placed(bar) for bar in row.bars] for row in rows)
        self.rows = list(zip(rows, names, bars, strict=True))
        self.ticks = list(self._ticks())
        self.gaps = [(self._place(begin), self._place(end)) for begin, end in axis.gaps]
        hidden = amount(_length(axis.gaps), axis.unit)
        note = f"{_CUT * 2} {hidden} idle time hidden" if axis.gaps else ""
        self.notes: list[tuple[str, Role]] = [(note, "faint"), (waterfall.conclusion(), "strong")]

    def rule(self) -> Iterator[_Text]:
        """Yield the line of the axis, its ticks and its gaps."""
        yield 0, "─" * self._room, "faint"
        for tick, _ in self.ticks:
            yield min(int(tick), self._room - 1), "┬", "faint"
        for begin, end in self.gaps:
            yield int(begin), _CUT * max(1, int(end) - int(begin)), "faint"

    def line(self, texts: Iterable[_Text], name: Spans = (), sooner: str = "") -> Line:
        """Return a row with these texts in the columns of the bars. Later texts win."""
        cells = [Span(" ")] * self._room
        for column, text, role in texts:
            cells[column : column + len(text)] = [Span(character, role) for character in text]
        while cells and cells[-1].text == " ":
            cells.pop()
        groups = groupby(cells, key=lambda cell: cell.role)
        bars = (Span(text_of(tuple(group)), role) for role, group in groups)
        space = self._names - width(text_of(name)) + 2 + self._sooner
        early = Span(f"{sooner:>{space}}  ", "plain" if name else "faint")
        return Line((*name, early, *bars))

    def _place(self, value: float) -> float:
        return self._axis.place(value, self._room, gap=2)

    def _placed(self, bar: _Bar) -> _Bar:
        """Return a bar in columns. It is at least a quarter of a column long."""
        begin = min(self._place(bar.begin), self._room - 1)
        return _Bar(begin, max(self._place(bar.end), begin + 0.25), bar.mark, bar.kind)

    def _ticks(self) -> Iterator[tuple[float, _Text]]:
        """Yield the places of ticks with their labels, without those that do not fit."""
        free, widest = 0, max(len(label) for _, label in self._axis.ticks(self._room // 6))
        for value, label in self._axis.ticks(max(2, self._room // (widest + 3))):
            tick = self._place(value)
            start = min(int(tick), self._room - len(label))
            if start >= free:
                yield tick, (start, label, "faint")
                free = start + len(label) + 2


def _characters(bars: Sequence[_Bar]) -> Iterator[_Text]:
    """Yield bars as characters. The last ones come first: a mark stands on the bar after it."""
    for begin, end, mark, kind in reversed(bars):
        fill, role = _KINDS[kind]
        last = ceil(end) - 1
        text = fill * (last - int(begin) + 1)
        if kind == "call":
            text = "├" + text[1:]
        elif kind == "argument":
            text = text[1:] + _EIGHTHS[ceil((end - last) * 8)]
        yield int(begin), text, role
        if mark:
            yield last, mark, _MARKS[mark][0]


def _shapes(bars: Sequence[_Bar], left: int, y: int) -> Iterator[str]:
    """Yield bars as shapes, in the same order."""
    for begin, end, mark, kind in reversed(bars):
        x, wide = _x(left + begin), _COLUMN * (end - begin)
        if kind == "call" or kind == "approval":
            tick = "m0-4v8m0-4" if kind == "call" else ""
            yield f'<path class="{kind}" d="M{x} {y}{tick}h{wide:.1f}"/>'
        else:
            box = f'x="{x}" y="{y - 5.5}" width="{wide:.1f}" height="11"'
            yield f'<rect class="{kind}" {box} rx="{min(3.0, wide / 2):.1f}"/>'
        if mark:
            x, (role, sign) = _x(left + end), _MARKS[mark]
            yield f'<circle class="{role}" cx="{x}" cy="{y}" r="6.5"/>'
            yield f'<path class="sign" d="M{x} {y}{sign}"/>'


def _text(column: float, y: float, text: str, look: str) -> str:
    bare = text.lstrip()
    x = _x(column + len(text) - len(bare))
    return f'<text class="{look}" x="{x}" y="{y + 4}">{escape(bare)}</text>'


def _x(column: float) -> str:
    return f"{_PAD + column * _COLUMN:.1f}"
