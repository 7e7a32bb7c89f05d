"""The terminal: what it costs to show a file while a model writes it, beside Rich.

``python terminal.py WAY SIZE SECONDS PIPE`` shows it on standard output and writes what that cost
to the pipe: the first part as fast as it goes, the last seconds at the pace of a model.
"""

import fcntl
import gc
import json
import os
import pty
import re
import subprocess
import sys
import termios
import time
import typing
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.syntax import Syntax

from argstream import ArgumentDelta, Event, ToolArgsDelta, stream
from argstream.terminal import Line, LiveTerminal, RunView
from report import Cell, Chapter, Table, fraction, milliseconds, number, percent, size_name, times
from timing import progress
from workloads import anthropic_bytes, anthropic_call, write

_OURS, _RICH = "argstream", "Rich, line by line"
_SMALL, _LARGE = 20_000, 100_000
_DELTA = 25
_DELTAS_PER_SECOND, _FRAMES_PER_SECOND = 100, 20
_LAST_LINE = "this_is_the_last_line"

_MOST_OF_A_CORE = 0.05
_MOST_GROWTH = 1.5
_MOST_BESIDE_RICH = 1 / 1.5


def measure(*, quick: bool = False) -> Chapter:
    """Show a file in each way, in processes that have a terminal of their own."""
    return Chapter(
        "The terminal",
        "A file of 100 kB is written with 100 deltas per second, in a terminal of 120 × 40. "
        "*Growth*: the cost divided by that of a file of 20 kB. Rich uses a `Live` display for "
        "the current line.",
        [_table(quick=quick)],
    )


@dataclass(frozen=True)
class _Shown:
    cpu_seconds: float
    seconds: float
    frames: int

    @property
    def cpu_per_frame(self) -> float:
        return self.cpu_seconds / self.frames


def _table(*, quick: bool) -> Table:
    seconds, rounds = (1.0, 1) if quick else (3.0, 3)
    found: dict[tuple[str, int], _Shown] = {}
    for way, size in list(product(_WAYS, (_SMALL, _LARGE))) * rounds:
        shown = _in_terminal(way, size, seconds)
        progress(f"  {size_name(size):34} {way:34} {shown.cpu_per_frame * 1e3:8.2f} ms per frame")
        if shown.cpu_per_frame <= found.setdefault((way, size), shown).cpu_per_frame:
            found[way, size] = shown
    ours, rich = found[_OURS, _LARGE], found[_RICH, _LARGE]
    rows: list[list[Cell]] = []
    beside = fraction(ours.cpu_per_frame / rich.cpu_per_frame, _MOST_BESIDE_RICH)
    for way, shown, ratio in ((_OURS, ours, beside), (_RICH, rich, "–")):
        most, most_growth = (_MOST_OF_A_CORE, _MOST_GROWTH) if way == _OURS else (None, None)
        share = percent(shown.cpu_seconds / shown.seconds, most)
        growth = times(shown.cpu_per_frame / found[way, _SMALL].cpu_per_frame, most_growth)
        frames, cost = number(shown.frames / shown.seconds), milliseconds(shown.cpu_per_frame)
        rows.append([way, share, frames, cost, ratio, growth])
    header = ["way", "of a core", "frames a second", "ms per frame", "of Rich's", "growth"]
    return Table(header, rows)


def _in_terminal(way: str, size: int, seconds: float) -> _Shown:
    """Run another process on a pseudo-terminal, and read all that it writes."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 120))
    told, telling = os.pipe()
    removed = ("NO_COLOR", "FORCE_COLOR", "COLORTERM")
    environment = {name: value for name, value in os.environ.items() if name not in removed}
    command = [sys.executable, __file__, way, str(size), str(seconds), str(telling)]
    process: Any = {"env": {**environment, "TERM": "xterm-256color"}, "start_new_session": True}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, pass_fds=[telling], **process):
        os.close(theirs)
        os.close(telling)
        written = _drained(ours)
    with os.fdopen(told) as pipe:
        result = pipe.read()
    if not result:
        sys.exit(f"{way}: its process failed, see above")
    if _LAST_LINE.encode() not in re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", written):
        sys.exit(f"{way}: the last line was not shown")
    return _Shown(**json.loads(result))


def _drained(terminal: int) -> bytes:
    pieces = []
    with os.fdopen(terminal, "rb", buffering=0) as output:
        try:
            while piece := output.read(65_536):
                pieces.append(piece)
        except OSError:  # Linux reports the end of a pseudo-terminal in this way
            pass
    return b"".join(pieces)


# In the other process


_frames: list[None] = []  # as many as were painted


class _CountedView(RunView):
    def tail(self, now: float, columns: int, rows: int) -> list[Line]:
        _frames.append(None)
        return super().tail(now, columns, rows)


class _CountedLive(Live):
    def refresh(self) -> None:
        _frames.append(None)
        super().refresh()


class _Rich:
    """Prints complete lines above a live display, in which only the last line grows."""

    def __init__(self) -> None:
        console = Console(file=sys.stdout)
        self._live = _CountedLive(console=console, refresh_per_second=_FRAMES_PER_SECOND)
        self._live.start()
        self.close = self._live.stop
        self._text, self._line = "", 1

    def show(self, event: Event) -> None:
        if isinstance(event, ArgumentDelta) and event.path == ("content",):
            complete, newline, self._text = (self._text + event.text).rpartition("\n")
            if newline:
                self._live.console.print(self._syntax(complete))
                self._line += complete.count("\n") + 1
            self._live.update(self._syntax(self._text))

    def _syntax(self, text: str) -> Syntax:
        # With the 16 colours of the terminal, as ours.
        return Syntax(text, "python", theme="ansi_dark", line_numbers=True, start_line=self._line)


_WAYS: dict[str, Callable[[], Any]] = {_OURS: lambda: LiveTerminal(_CountedView()), _RICH: _Rich}


def _show(way: Any, deltas: list[list[Event]], count: int) -> _Shown:
    """Show all deltas; measure the last ``count`` of them, at the pace of a model."""
    for events in deltas[:-count]:
        for event in events:
            way.show(event)
    _frames.clear()
    while len(_frames) < 3:
        time.sleep(0.02)
    gc.collect()
    frames, began, cpu_began = len(_frames), time.monotonic(), time.process_time()
    for number_, events in enumerate(deltas[-count:], 1):
        for event in events:
            way.show(event)
        time.sleep(max(0, began + number_ / _DELTAS_PER_SECOND - time.monotonic()))
    cpu_seconds = time.process_time() - cpu_began
    shown = _Shown(cpu_seconds, time.monotonic() - began, len(_frames) - frames)
    way.close()
    return shown


def _deltas(size: int) -> list[list[Event]]:
    """Return the events of a call that writes real Python, by delta; all sizes end alike."""
    source = Path(typing.__file__).read_text(encoding="utf-8")[:_LARGE]
    content = f"{source.rpartition(chr(10))[0]}\n{_LAST_LINE}\n"[-size:]
    text = write({"path": "src/app.py", "content": content})
    pieces = [text[start : start + _DELTA] for start in range(0, len(text), _DELTA)]
    deltas: list[list[Event]] = [[]]
    for event in stream(anthropic_bytes(anthropic_call(pieces))):
        if isinstance(event, ToolArgsDelta):
            deltas.append([])
        deltas[-1].append(event)
    return deltas


def _main(way: str, size: str, seconds: str, pipe: str) -> None:
    fcntl.ioctl(sys.stdout, termios.TIOCSCTTY, 0)  # the terminal controls this process
    shown = _show(_WAYS[way](), _deltas(int(size)), round(float(seconds) * _DELTAS_PER_SECOND))
    os.write(int(pipe), json.dumps(asdict(shown)).encode())


if __name__ == "__main__":
    _main(*sys.argv[1:])
