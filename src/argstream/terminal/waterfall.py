"""The waterfall: when each call and argument of a run became visible, as text and as SVG.

Both show the same rows: a call from its name to its verdict, and below it each argument, the wait
for an approval, the tool, and the silence of a client that shows only complete calls. ``lines``
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

from argstream.runs import Argument, Call, RunState
from argstream.sanitise import visible_line
from argstream.terminal._layout import cut, width
from argstream.terminal._text import Line, Role, Span, amount, axis_label, line, path_name, text_of

__all__ = ["Axis", "Unit", "Waterfall", "argument_name"]

Unit: TypeAlias = Literal["seconds", "bytes"]
Stretch: TypeAlias = tuple[float, float]
_Kind: TypeAlias = Literal["axis", "call", "argument", "asked", "tool", "silence", "more"]
_Look: TypeAlias = Literal["line", "solid", "waiting", "running", "silence"]
_Mark: TypeAlias = Literal["", "✓", "✗", "…"]

_DETAILED: Final = 12  # with more calls than these, each has one row
_MOST_CALLS, _MOST_ARGUMENTS = 60, 6  # others are only counted
_LONGEST_NAME: Final = 41  # columns, of a tool in a sentence
_NOISE: Final = 1e-9  # less counts as no length
_ENDS: Final = {
    "complete": "the last brace",
    "truncated": "the call was found cut off",
    "malformed": "the call was found malformed",
    "rejected": "the call was refused",
    "aborted": "the call was broken off",
}
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

    def lines(self, columns: int) -> list[Line]:
        """Return the waterfall as lines of at most ``columns``; no lines if there is no call."""
        if not self.calls:
            return []
        table = _Table(self, max(24, min(200, columns)))
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
        closing = [line(Span(note, "faint")) for note in table.notes()]
        closing += [line(Span(text, "strong")) for text in [self.conclusion()] if text]
        return [*lines, *([line(""), *closing] if closing else [])]

    def svg(self, about: str = "") -> str:
        """Return the waterfall as an SVG document for light and dark pages.

        ``about`` names the source: a recording or a run. Scripts, links and fonts are not used.
        """
        table, closing, unit = _Table(self, _COLUMNS), self.conclusion(), self.unit
        left, title = table.left, "When each argument was visible"
        about = text_of(cut((Span(visible_line(about)),), 70))
        body, titles, y = list[str](), list[str](), 104
        for row, name, cells in table.rows:
            y += 13 if body and row.kind == "call" and table.is_detailed else 0
            spans = (f"{amount(bar.begin, unit)} to {amount(bar.end, unit)}" for bar in row.bars)
            titles.append(f"{row.label}: {', '.join(spans)}")
            indent, label = len(text_of(name)) - len(text_of(name).lstrip()), text_of(name).strip()
            body += [f"<g><title>{escape(titles[-1])}</title>", _text(indent, y, label, row.kind)]
            body += [_text(left - 2, y, row.sooner, "end"), *_shapes(cells, left, y), "</g>"]
            y += _ROW
        feet = [(text, "faint sans") for note in table.notes() for text in wrap(note, 140)]
        feet += [(text, "strong sans") for text in wrap(closing, 122)]
        high, named = y + 16 + 20 * len(feet), escape(f"{title}: {about}" if about else title)
        paper = f'x="0.5" y="0.5" width="{_WIDTH - 1}" height="{high - 1}" rx="10"'
        parts = [
            '<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="waterfall-title',
            f' waterfall-text" width="{_WIDTH}" height="{high}" viewBox="0 0 {_WIDTH} {high}">',
            f'<title id="waterfall-title">{named}</title>',
            f'<desc id="waterfall-text">{escape("; ".join(titles))}. {escape(closing)}</desc>',
            _STYLE,
            f'<rect class="paper" {paper}/>',
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

    def conclusion(self) -> str:
        """Return a sentence that sums up the waterfall, or "" if no call has its verdict."""
        ended = [call for call in self.calls if call.verdict]
        if not ended:
            return ""
        if (quiet := self.silence()) <= 0:
            which = "The call" if len(ended) == 1 else "Each call"
            return f"{which} came whole: there was no silence to replace."
        is_timed = self.unit == "seconds"
        how = (
            "of silence were replaced" if is_timed else "were shown that would have been waited for"
        )
        replaced = f"{amount(quiet, self.unit)} {how}"

        def lead(call: Call) -> float:
            _, end = self.written(call)
            return end - min((self.at(one.started_at) for one in self.arguments(call)), default=end)

        best = max(ended, key=lambda call: round(lead(call), 3))
        if lead(best) <= 0:
            return f"In all, {replaced}."
        name = text_of(cut((Span(visible_line(best.name[:200])),), _LONGEST_NAME))
        of = f" of {name}" if len(self.calls) > 1 else ""
        is_text = best.is_free_text and best.verdict == "complete"
        end = "the last character" if is_text else _ENDS[best.verdict or "aborted"]
        early = f"The first argument{of} was visible {amount(lead(best), self.unit)} before {end}"
        return f"{early}{'; in all,' if len(ended) > 1 else ':'} {replaced}."

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
        gaps = ((before, after) for (_, before), (after, _) in pairwise(self.stretches))
        self.gaps: list[Stretch] = list(gaps)  # what is left out
        self._begins = [begin for begin, _ in self.stretches]
        self._before = [0.0, *accumulate(end - begin for begin, end in self.stretches)]
        self.length: float = self._before[-1]

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


def _rows(waterfall: Waterfall) -> list[_Row]:
    calls = list(_nested(waterfall.calls))
    rows = [row for deep, call in calls[:_MOST_CALLS] for row in _call_rows(call, deep, waterfall)]
    more = len(calls) - _MOST_CALLS
    return [*rows, _Row("more", f"… and {more} more calls")] if more > 0 else rows


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


def _call_rows(call: Call, depth: int, waterfall: Waterfall) -> Iterator[_Row]:
    unit, (begin, end) = waterfall.unit, waterfall.written(call)

    def row(kind: _Kind, label: str, *bars: _Bar, visible: float | None = None) -> _Row:
        sooner = amount(end - visible, unit) if visible is not None and call.verdict else ""
        return _Row(kind, label, min(depth, 4), sooner, bars)

    name = visible_line(call.name[:200])
    name += "" if call.kind == "function" else f" ({call.kind})"
    mark: _Mark = "✓" if call.verdict == "complete" else "✗" if call.verdict else "…"
    arguments = _argument_bars(call, waterfall)
    tool = list(_tool_bars(call, waterfall))
    if len(waterfall.calls) > _DETAILED:
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
    if call.request:
        is_open = call.decision is None
        until = waterfall.at(waterfall.state.time if is_open else call.decided_at)
        asked = waterfall.at(call.requested_at)
        bar = _Bar("waiting", asked, until, "…" if is_open else "", amount(until - asked, unit))
        yield row("asked", "asks a person", bar)
    if tool:
        yield row("tool", "tool runs" if call.executed_at else "until its result", *tool)
    if call.verdict:
        quiet = f"{amount(end - begin, unit)} of silence"
        yield row("silence", "without argstream", _Bar("silence", begin, end, "", quiet))


def _argument_bars(call: Call, waterfall: Waterfall) -> list[tuple[str, _Bar]]:
    """Return names and bars of the arguments; if there are many, the last bar is for the rest."""
    bars: list[tuple[str, _Bar]] = []
    for one in waterfall.arguments(call):
        mark: _Mark = "" if one.is_done else "✗" if call.verdict else "…"
        end = waterfall.at(one.done_at if one.is_done else call.last_text_at)
        bars.append((argument_name(one), _Bar("solid", waterfall.at(one.started_at), end, mark)))
    rest = [bar for _, bar in bars[_MOST_ARGUMENTS - 1 :]]
    if len(rest) > 1:
        begin, end = min(bar.begin for bar in rest), max(bar.end for bar in rest)
        bar = _Bar("solid", begin, end, max(bar.mark for bar in rest))
        bars[_MOST_ARGUMENTS - 1 :] = [(f"… and {len(rest)} more", bar)]
    return bars


def _tool_bars(call: Call, waterfall: Waterfall) -> Iterator[_Bar]:
    """Yield a bar for each attempt of the tool; one that a crash ended reaches to the next one.

    A tool that another process runs has only a result. Its bar starts when the call was allowed.
    """
    starts, end = call.executed_at, call.ended_at if call.outcome else waterfall.state.time
    if not starts and call.outcome:
        allowed = call.completed_at if call.verdict == "complete" else None
        if call.request:
            is_approved = call.decision and call.decision.decision in ("approved", "edited")
            allowed = call.decided_at if is_approved else None
        starts = [] if allowed is None or allowed == end else [allowed]
    mark: _Mark = "" if call.outcome else "…"
    for attempt, (begin, until) in enumerate(pairwise(map(waterfall.at, [*starts, end]))):
        bar = _Bar("running", begin, until, mark, amount(until - begin, waterfall.unit))
        is_cut = attempt < call.interruptions
        yield bar._replace(mark="✗", caption="cut off") if is_cut else bar


def _busy(waterfall: Waterfall) -> Iterator[Stretch]:
    """Yield when calls were written and tools ran. Waiting for an approval is neither."""
    for call in waterfall.calls:
        yield waterfall.written(call)
        for bar in _tool_bars(call, waterfall):
            yield bar.begin, bar.begin if bar.mark == "✗" else bar.end


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


class _Table:
    """The rows in columns: names, how much sooner, and the bars as cells of one character."""

    def __init__(self, waterfall: Waterfall, columns: int) -> None:
        rows, is_wide = _rows(waterfall), columns >= 60
        labels = [_label(row, is_wide=is_wide) for row in rows]
        widest = max((width(text_of(label)) for label in labels), default=0)
        self.names = min(widest, columns * 2 // 5 if is_wide else columns // 3)
        self.sooner = max(len(text) for text in ("sooner", *(row.sooner for row in rows)))
        self.left = self.names + self.sooner + 4
        self._room = columns - self.left
        self._calls = len(waterfall.calls)
        self._axis = Axis(_busy(waterfall), waterfall.unit)
        self.is_detailed = self._calls <= _DETAILED
        self.ticks, self.rule = self._axis_cells()
        self.rows = [
            (row, cut(label, self.names), self._bar_cells(row.bars))
            for row, label in zip(rows, labels, strict=True)
        ]

    def notes(self) -> Iterator[str]:
        """Yield what a reader must know about the rows and the axis."""
        if not self.is_detailed:
            yield (
                f"There are {self._calls} calls, so each has one row: thin while only its name was "
                "known, solid from its first argument on, then its tool."
            )
        if self._axis.gaps:
            hidden = amount(_length(self._axis.gaps), self._axis.unit)
            tools = " and no tool is known to have run" if self._axis.unit == "seconds" else ""
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


def _label(row: _Row, *, is_wide: bool) -> tuple[Span, ...]:
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
