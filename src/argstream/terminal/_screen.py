r"""A terminal as a place for lines that stay, above a few that change.

Committed lines go into the scrollback and are never touched again. Below them is the tail, which
is painted anew with each frame and takes at most a third of the screen.

Between two frames the cursor is parked, hidden, at the left end of the tail's *first* row. When the
size changes, terminals wrap anew, scroll, or cut, each in its way, but all keep the cursor on its
cell. So the next frame can begin where the cursor is, and erase what is below it, without knowing
what became of the rows. What others print meanwhile comes out above the tail, too.

A frame is one write: nothing is erased that is not written in the same breath, and terminals that
know synchronized output (mode 2026) show it at once. Rows of the tail are cut, and written with
automatic wrapping off, so each takes one row even if the terminal has just become narrower.
"""

import atexit
import codecs
import os
import selectors
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any, Final, Literal, TextIO

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from argstream.terminal._layout import row_of, rows_of
from argstream.terminal._text import Line, Role, Spans, harmless

if sys.platform != "win32":
    import termios

_USUAL_SIZE = os.terminal_size((80, 24))
_LOOKS: Final[dict[str, tuple[Role, ...]]] = {
    "": ("plain", "operator"),
    "dim": ("faint",),
    "bold": ("strong", "tool", "prompt", "name"),
    "italic": ("emphasis",),
    "underline": ("link",),
    "reverse": ("key",),
    "cyan": ("title", "argument", "place", "number", "builtin", "code"),
    "green": ("good", "added", "string"),
    "magenta": ("keyword",),
    "red": ("removed",),
    "yellow": ("warning",),
    "bold red": ("bad",),
    "bold underline": ("heading",),
    "dim italic": ("thought", "comment"),
}
_STYLES: Final = {role: Style.parse(look) for look, roles in _LOOKS.items() for role in roles}
_RESET: Final = "\x1b[0m"
_LOCAL, _SPECIAL = 3, 6  # indexes in tcgetattr(): local flags, special characters
# Held to read and set modes: the painter and the keyboard would undo each other's changes.
_changing_modes: Final = threading.RLock()  # a signal handler may interrupt its holder
_BEGIN: Final = "\x1b[?2026h"
_END: Final = "\x1b[?2026l"
_HIDE_CURSOR: Final = "\x1b[?25l"
_SHOW_CURSOR: Final = "\x1b[?25h"
_WRAP_OFF: Final = "\x1b[?7l"
_WRAP_ON: Final = "\x1b[?7h"
_ERASE_REST_OF_ROW: Final = "\x1b[K"
_ERASE_BELOW: Final = "\x1b[J"
_NEXT_ROW: Final = "\r\n"
_MOST_TAIL_ROWS: Final = 12
_PATIENCE: Final = 0.5  # seconds; a signal handler waits no longer for a frame to be written


class Palette:
    """Turns spans into text with escape sequences: ours, and no others."""

    def __init__(self, *, has_styles: bool = True, has_colours: bool = True) -> None:
        """Without styles, no escape sequence is ever written."""
        self._beginnings: dict[Role, str] = {}
        for role, style in _STYLES.items() if has_styles else ():
            look = style if has_colours else style.without_color
            written = look.render("\0", color_system=ColorSystem.STANDARD)
            self._beginnings[role] = written.partition("\0")[0]

    @classmethod
    def of(cls, output: TextIO, environment: Mapping[str, str] = os.environ) -> "Palette":
        # None for a pipe, and for a dumb terminal. Which it is does not matter: all know sixteen.
        has_styles = _console(output, environment).color_system is not None
        return cls(has_styles=has_styles, has_colours=not environment.get("NO_COLOR"))

    def ansi(self, spans: Spans) -> str:
        """Return a row as it is written, with no colour left open at its end.

        This is the last defence: whatever in a text would act on a terminal is spelled out here,
        should a caller have forgotten it.
        """
        pieces = []
        for text, role in spans:
            beginning = self._beginnings.get(role, "")
            piece = harmless(text)
            pieces.append(f"{beginning}{piece}{_RESET}" if beginning and piece else piece)
        return "".join(pieces)


def _console(output: TextIO, environment: Mapping[str, str]) -> Console:
    return Console(file=output, force_jupyter=False, _environ=environment)


class Screen:
    """Paints on a terminal; one caller at a time, from any thread."""

    def __init__(
        self,
        output: TextIO,
        *,
        palette: Palette | None = None,
        size: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        """``size`` returns columns and rows; it is called for each frame."""
        self._output = output
        self._palette = palette or Palette.of(output)
        self.size: Callable[[], tuple[int, int]] = size or partial(size_of, output)
        self._modes = Modes(output)
        self._interruptions = Interruptions(self._leave, self._come_back)
        self._lock = threading.Lock()
        self._held: list[Line] = []  # committed, and not written yet
        self._painted: tuple[list[str], tuple[int, int]] | None = None  # the tail, and on what size
        self.suspensions: int = 0  # by ``suspend``
        self._is_left = False  # because the process stops, or ends
        self._is_ours = False  # cursor hidden, echo off
        self._is_over = False
        self.times_away: int = 0  # how often other programs had the terminal

    def open(self) -> None:
        """Prepare for Ctrl-Z and the like; only the main thread can."""
        self._interruptions.begin()

    def paint(self, committed: Sequence[Line], tail: Sequence[Line]) -> bool:
        """Write lines that stay, and below them the tail, of which the last rows are shown.

        While another program has the terminal, lines are held back. Return whether they are seen.
        """
        with self._lock:
            if self._is_over:
                return False
            self._held += committed
            if self.suspensions or self._is_left:
                return False
            if is_in_background(self._output):
                self._lose()  # the shell has set it up for itself
                return False
            self._paint(tail)
            return True

    def suspend(self) -> None:
        """Leave the terminal to another program: no tail, the cursor shown, keys echoed."""
        with self._lock:
            self.suspensions += 1
            self._clear()

    def resume(self) -> None:
        """Resume drawing. The next frame shows everything that was held back."""
        with self._lock:
            self.suspensions -= 1
            self._lose()
            if not self.suspensions:
                self._modes.quiet()

    def close(self) -> None:
        """Write what was held back, and leave the terminal as it was, without a tail."""
        with self._lock:
            is_over, self._is_over = self._is_over, True
            self._interruptions.end()
            if is_over:
                return
            self._clear(self._committed_rows(self.size()[0]))

    def _paint(self, tail: Sequence[Line]) -> None:
        columns, rows = size = self.size()
        shown = tail[-tail_bound(rows) :]
        tail_rows = [self._palette.ansi(row_of(line, columns - 1)) for line in shown]
        frame = self._committed_rows(columns)
        if self._is_ours and not frame and self._painted == (tail_rows, size):
            return
        self._modes.quiet()
        if not self._is_ours:
            self._is_ours = True
            frame = _HIDE_CURSOR + frame
        self._painted = tail_rows, size
        self._write(_BEGIN + frame + _tail(tail_rows) + _END)

    def _committed_rows(self, columns: int) -> str:
        lines, self._held = self._held, []
        return "".join(
            # The rest is erased behind the text: should it take a second row after all, because
            # the terminal has just become narrower, then nothing of the tail remains there.
            self._palette.ansi(row) + _ERASE_REST_OF_ROW + _NEXT_ROW
            for line in lines
            for row in rows_of(line, columns - 1)
        )

    def _clear(self, rows: str = "") -> None:
        """Write rows in place of the tail, and give the terminal back."""
        if self._is_ours:
            rows += _ERASE_BELOW + _SHOW_CURSOR
        if rows:
            self._write(_BEGIN + rows + _END)
        self._lose()
        self._modes.restore()

    def _write(self, text: str) -> None:
        try:
            write(self._output, text)
        except (OSError, ValueError):  # it hung up, or was closed
            self._is_over = True
            self._modes.restore()
            raise

    def _leave(self) -> None:
        """Release the terminal at once: the process stops or ends.

        If a frame is just being written, by this thread or by one that waits for the terminal,
        then only the keyboard is.
        """
        self._is_left = True
        if self._lock.acquire(timeout=_PATIENCE):
            try:
                if not self._is_over:
                    self._clear()
            finally:
                self._lock.release()
        if not self._is_over:
            self._modes.reset()

    def _come_back(self) -> None:
        self._is_left = False
        self._lose()  # the shell has set it up for itself

    def _lose(self) -> None:
        """Note that the terminal is not set up for us, and that others may have written on it."""
        self.times_away += self._is_ours
        self._is_ours = False


def tail_bound(rows: int) -> int:
    return max(1, min(_MOST_TAIL_ROWS, rows // 3))


def _tail(rows: Sequence[str]) -> str:
    """Write the rows of the tail, erase what is below, and park the cursor on the first."""
    if not rows:
        return "\r" + _ERASE_BELOW
    text = (_ERASE_REST_OF_ROW + _NEXT_ROW).join(rows)
    up = f"\x1b[{len(rows) - 1}A" if len(rows) > 1 else ""
    return f"{_WRAP_OFF}{text}{_ERASE_BELOW}{_WRAP_ON}\r{up}"


class Modes:
    """Switches the echo of a terminal off, and restores its modes."""

    def __init__(self, output: TextIO) -> None:
        """Keys come from the output's terminal; if it is none, from standard input's."""
        self._keyboards = [output, sys.stdin]
        self._hushed: TextIO | None = None  # whose echo we have switched off
        self._before = [(one, found) for one in self._keyboards if (found := _settings(one))]

    def quiet(self) -> None:
        """Do not echo keys, also if another program has switched that on meanwhile.

        In the background nothing is done: the system stops those who try.
        """
        for keyboard in self._keyboards:
            if switch(keyboard, "ECHO", on=False):
                self._hushed = keyboard

    def restore(self) -> None:
        if self._hushed is not None:
            switch(self._hushed, "ECHO", on=True)
            self._hushed = None

    def reset(self) -> None:
        for keyboard, settings in self._before:
            _set(keyboard, settings)
        self._hushed = None


def switch(keyboard: TextIO, mode: Literal["ECHO", "ICANON"], *, on: bool) -> bool:
    """Switch a mode of a terminal, and no other. Return whether that has changed anything."""
    with _changing_modes:
        settings = _settings(keyboard)
        if settings is None or bool(settings[_LOCAL] & (flag := getattr(termios, mode))) is on:
            return False
        settings[_LOCAL] ^= flag
        if mode == "ICANON":  # each key at once
            settings[_SPECIAL][termios.VMIN], settings[_SPECIAL][termios.VTIME] = 1, 0
        return _set(keyboard, settings)


def _settings(keyboard: TextIO) -> list[Any] | None:
    number = descriptor(keyboard)
    if number is None or sys.platform == "win32":  # there, a console echoes only while it is read
        return None
    try:
        return termios.tcgetattr(number)
    except termios.error:  # no terminal, or it is gone
        return None


def _set(keyboard: TextIO, settings: list[Any]) -> bool:
    if is_in_background(keyboard):
        return False
    try:
        # Now, and not when all is written: that would wait while Ctrl-S holds the terminal.
        termios.tcsetattr(keyboard, termios.TCSANOW, settings)
    except (termios.error, ValueError):  # it is gone, or closed
        return False
    return True


class Interruptions:
    """Calls ``leave`` before the process ends or stops, and ``come_back`` when it goes on."""

    def __init__(self, leave: Callable[[], None], come_back: Callable[[], None]) -> None:
        self._leave = leave
        self._come_back = come_back
        self._process = os.getpid()
        self._taken: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {}

    def begin(self) -> None:
        """Handle the signals that have no handler yet."""
        atexit.register(self._on_exit)
        if threading.current_thread() is not threading.main_thread():
            return
        for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGCONT"):
            number = getattr(signal, name, None)  # some are not on Windows
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                handler = self._on_going_on if name == "SIGCONT" else self._on_signal
                signal.signal(number, handler)
                self._taken[number] = handler

    def end(self) -> None:
        """Restore everything except what others have changed since."""
        atexit.unregister(self._on_exit)
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._taken.items():
                if signal.getsignal(number) == handler:
                    signal.signal(number, signal.SIG_DFL)
            self._taken.clear()

    def _is_ours(self) -> bool:
        return os.getpid() == self._process

    def _on_exit(self) -> None:
        if self._is_ours():
            self._leave()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._on_exit()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)  # it ends here, or stands still until it is told to go on
        signal.signal(number, self._on_signal)
        self._on_going_on(number, None)

    def _on_going_on(self, _number: int, _: FrameType | None) -> None:
        if self._is_ours():
            self._come_back()


def is_live(output: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a terminal can be repainted: a real one, which is not dumb.

    FORCE_COLOR makes no terminal of a pipe. One that cannot show every character, or that belongs
    to another job now, is better served with plain lines.
    """
    colourless = {name: value for name, value in environment.items() if name != "FORCE_COLOR"}
    console = _console(output, colourless)
    # A stream that is no file of the system, such as a StringIO, takes any text.
    encoding = getattr(output, "encoding", None) or "utf-8"
    return (
        console.is_terminal
        and console.is_interactive
        and not console.is_dumb_terminal
        and not console.legacy_windows
        and codecs.lookup(encoding).name == "utf-8"
        and not is_in_background(output)
    )


def size_of(output: TextIO) -> os.terminal_size:
    """Return columns and rows. What cannot be, such as the 0 x 0 of many a CI, is 80 x 24."""
    number = descriptor(output)
    if number is None:
        return _USUAL_SIZE
    try:
        size = os.get_terminal_size(number)
    except OSError:  # no terminal
        return _USUAL_SIZE
    return size if size.columns > 0 and size.lines > 0 else _USUAL_SIZE


def is_in_background(output: TextIO) -> bool:
    """Return whether the terminal belongs to another job of the shell at the moment."""
    number = descriptor(output)
    if number is None or not hasattr(os, "tcgetpgrp"):
        return False
    try:
        return os.tcgetpgrp(number) != os.getpgrp()
    except OSError:  # no terminal, or one that has no jobs
        return False


def descriptor(output: TextIO) -> int | None:
    try:
        return output.fileno()
    except (AttributeError, OSError, ValueError):  # ValueError: it is closed
        return None


def write(output: TextIO, text: str) -> None:
    """Write all of a text, in one call if the system accepts that, and wait if it is slow.

    Around the buffers of Python: they lose what did not fit if an output does not block.
    """
    number = descriptor(output)
    output.flush()
    if number is None:
        output.write(text)
        output.flush()
        return
    left = memoryview(text.encode(output.encoding or "utf-8", "replace"))
    while left:
        try:
            left = left[os.write(number, left) :]
        except BlockingIOError:
            with selectors.DefaultSelector() as selector:
                selector.register(number, selectors.EVENT_WRITE)
                selector.select()
