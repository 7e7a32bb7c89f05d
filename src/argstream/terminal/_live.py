"""Shows events in a terminal as they come, and never makes the caller wait.

``show`` hands an event to the view and returns. A thread paints: at most twenty frames a second,
fewer if painting is slow, so that it takes no more than a third of the time. While something is
open it paints now and then without being told, so that what moves moves on; otherwise it sleeps.
The thread waits for a terminal that is slow or that Ctrl-S has stopped; callers do not.
"""

import os
import sys
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, Self, TextIO, TypeAlias, TypeVar

from argstream.errors import UsageError
from argstream.events import ApprovalDecided, ApprovalRequested, Event, RunPaused, RunSnapshot
from argstream.runs import Record
from argstream.runs._records import Approve
from argstream.terminal._layout import rows_of
from argstream.terminal._run_view import RunSoFar, RunView
from argstream.terminal._screen import Palette, Screen, is_live, size_of, tail_bound
from argstream.terminal._text import Line, Span, Spans
from argstream.terminal.tool_views import ToolViews

Shown: TypeAlias = Event | Record | RunSnapshot | RunSoFar
"""What can be shown. The times of a record are those at which it was written."""

_Shown = TypeVar("_Shown", bound=Shown)

Tail: TypeAlias = Callable[[float, int, int], list[Line]]
"""Given the time, columns and rows: lines for the tail, each of which will be one row."""

_FRAME: Final = 0.05  # seconds between two frames, at least
_TICK: Final = 0.1  # seconds between two frames if nothing came
_REST: Final = 2  # after a frame, the thread rests at least so many times as long as the frame took
_LONGEST_REST: Final = 1.0  # seconds; a terminal that was stopped for a while goes on at once


class Terminal(Protocol):
    """Shows events to a person as they come. Use it with ``with``."""

    def show(self, event: Shown) -> None:
        """Show an event, without waiting for the terminal."""

    def say(self, *lines: Line) -> None:
        """Show lines of your own in between."""

    def close(self) -> None:
        """Show what is left, and leave a clean screen."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(eq=False)
class _Question:
    tail: Tail
    is_alone: bool
    # How often the screen was away when it was painted first, and when that was.
    seen: tuple[int, float] | None = None

    def painted(self, times_away: int, *, is_seen: bool) -> None:
        if not is_seen:
            self.seen = None
        elif self.seen is None or self.seen[0] != times_away:
            self.seen = times_away, time.monotonic()


class LiveTerminal(Terminal):
    """A terminal that shows a view. Its methods may be called from any thread."""

    def __init__(
        self,
        view: RunView,
        output: TextIO | None = None,
        *,
        screen: Screen | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._view = view
        self._screen = screen or Screen(sys.stdout if output is None else output)
        self._clock = clock
        self._process = os.getpid()
        self._changed = threading.Condition()  # reentrant: a question may ask is_last
        # All of these belong to who holds the lock. It is never held while something is written.
        self._said: list[Line] = []  # committed, and not painted yet
        self._last: tuple[object, int] | None = None  # what that is about; how often we were away
        self._question: _Question | None = None
        self._is_dirty = False
        self._is_closed = False
        self._failure: Exception | None = None
        self._is_failure_told = False
        self._painting = threading.Lock()  # held while a frame is made and written
        self._painter = threading.Thread(
            target=self._paint_on, name="argstream-painter", daemon=True
        )
        self._screen.open()
        self._painter.start()

    def show(self, event: Shown) -> None:
        """Show an event soon. Raise, once, what went wrong with the terminal meanwhile."""
        with self._change() as is_shown:
            if not is_shown:
                return
            bare = event.event if isinstance(event, Record) else event
            is_request = isinstance(bare, ApprovalRequested | ApprovalDecided | RunSoFar)
            if is_request:  # what was final before is not about it
                self._collect()
            before = self._view.asked
            self._view.take(event, self._clock())
            if is_request and self._view.asked is not before:
                self._collect(self._view.asked)

    def say(self, *lines: Line, about: object = None) -> None:
        """Commit lines of ours, behind everything that is final. ``is_last`` compares ``about``."""
        with self._change() as is_shown:
            if is_shown:
                self._collect()
                self._commit(lines, about)
                if isinstance(about, Approve):
                    self._view.shown_edit = about.arguments

    def is_last(self, about: object) -> bool:
        """Return whether the last committed lines are about this.

        It is what lines were said to be about, or a request for approval that was shown.
        """
        with self._changed:
            if self._failure is None and not self._is_elsewhere():
                self._collect()
            return self._last == (about, self._screen.times_away)

    def ask(self, tail: Tail | None, *, alone: bool = False) -> None:
        """Show a question at the bottom in place of the status line; None removes it.

        ``alone``: nothing that is shown is committed until then, only what is said.
        """
        with self._change() as is_shown:
            if is_shown:
                self._question = None if tail is None else _Question(tail, alone)

    def asked_since(self) -> float | None:
        """Return since when the question is visible, by ``time.monotonic``; None if it is not."""
        question = self._question
        seen = None if question is None else question.seen
        if seen is None or seen[0] != self._screen.times_away:
            return None
        return seen[1]

    def tail_size(self) -> tuple[int, int]:
        columns, rows = self._screen.size()
        return max(columns - 1, 1), tail_bound(rows)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Leave the terminal to another program, such as an editor, with everything final on it."""
        with self._change() as is_shown:
            pass
        if not is_shown:
            yield
            return
        with self._painting:
            self._paint()
            self._screen.suspend()
        try:
            yield
        finally:
            self._screen.resume()
            with self._changed:
                self._is_dirty = True
                self._changed.notify()  # even if it was before: the painter has not looked

    def close(self) -> None:
        """Show what is left, and leave a clean screen. Raise a failure that was not raised yet."""
        if self._is_elsewhere():
            return
        with self._changed:
            is_closed, self._is_closed = self._is_closed, True
            self._changed.notify()
        if is_closed:
            return
        try:
            self._painter.join()
            self._view.finish(self._clock())
            if self._failure is None:
                self._screen.paint([*self._said, *self._view.committed()], ())
        finally:
            self._screen.close()
        self._raise_failure()

    def _is_elsewhere(self) -> bool:
        """Return whether this is a forked child, which has no painter and must not write."""
        return os.getpid() != self._process

    @contextmanager
    def _change(self) -> Iterator[bool]:
        """Hold the lock for a change. Yield whether it will be shown."""
        if self._is_elsewhere():
            yield False
            return
        with self._changed:
            self._raise_failure()
            if self._is_closed:
                raise UsageError(
                    "this terminal is closed: show events before that, or make another"
                )
            yield self._failure is None
            if not self._is_dirty:  # else the painter knows
                self._is_dirty = True
                self._changed.notify()

    def _collect(self, about: object = None) -> None:
        """Collect what became final, unless a question is shown alone."""
        if self._question is None or not self._question.is_alone:
            self._commit(self._view.committed(), about)

    def _commit(self, lines: Sequence[Line], about: object) -> None:
        if lines:
            self._said += lines
            self._last = about, self._screen.times_away

    def _raise_failure(self) -> None:
        if self._failure is not None and not self._is_failure_told:
            self._is_failure_told = True
            raise self._failure

    def _paint_on(self) -> None:
        """Paint until the terminal is closed; this is the thread."""
        rested = 0.0  # when the next frame may begin
        ticks: float | None = None  # when it should, though nothing has changed
        try:
            while self._wait(rested, ticks):
                begun = time.monotonic()
                with self._painting:
                    is_open = self._paint()
                ended = time.monotonic()
                rested = max(begun + _FRAME, ended + min(_REST * (ended - begun), _LONGEST_REST))
                ticks = max(begun + _TICK, rested) if is_open else None
        except Exception as failure:  # noqa: BLE001 - show() or close() raises it
            with self._changed:
                self._failure = failure

    def _wait(self, rested: float, ticks: float | None) -> bool:
        """Wait until there is something to paint. Return False when it is closed."""
        with self._changed:
            while not self._is_closed:
                due = rested if self._is_dirty else ticks
                if self._screen.suspensions:
                    due = None
                timeout = None if due is None else due - time.monotonic()
                if timeout is not None and timeout <= 0:
                    return True
                self._changed.wait(timeout)
        return False

    def _paint(self) -> bool:
        """Make a frame and write it. Return whether something is open."""
        with self._changed:
            self._collect()
            committed, self._said = self._said, []
            tail = self._tail()
            question = self._question
            self._is_dirty = False
        times_away = self._screen.times_away  # should it change meanwhile, it is seen a frame later
        is_seen = self._screen.paint(committed, tail)
        if question is not None:
            question.painted(times_away, is_seen=is_seen)
        return bool(tail)

    def _tail(self) -> list[Line]:
        columns, rows = self.tail_size()
        now = self._clock()
        if self._question is None:
            return self._view.tail(now, columns, rows)
        asked = self._question.tail(now, columns, rows)[-rows:]
        # One more, since its last line is the status.
        others = self._view.tail(now, columns, rows - len(asked) + 1)[:-1]
        return asked + others


class PlainTerminal(Terminal):
    """Shows lines that never change: for pipes, files and terminals that cannot be repainted.

    They are written when they are complete. In a terminal they are wrapped at its width, so that
    each row has its margin; anywhere else a line is one line, however long it is.
    """

    def __init__(self, output: TextIO, view: RunView | None = None) -> None:
        self._output = output
        self._view = RunView(has_tail=False) if view is None else view
        self._palette = Palette.of(output)

    def show(self, event: Shown) -> None:
        """Write at once what an event completes."""
        self._view.take(event, time.monotonic())
        self._write(self._view.committed())

    def say(self, *lines: Line) -> None:
        self._write([*self._view.committed(), *lines])

    def close(self) -> None:
        self._view.finish(time.monotonic())
        self._write(self._view.committed())

    def _write(self, lines: Iterable[Line]) -> None:
        text = "".join(self._palette.ansi(_stripped(row)) + "\n" for row in self._rows(lines))
        encoding = getattr(self._output, "encoding", None)  # there is none where nothing is encoded
        if encoding is not None and not text.isascii():
            text = text.encode(encoding, "backslashreplace").decode(encoding)
        if text:
            self._output.write(text)
            self._output.flush()

    def _rows(self, lines: Iterable[Line]) -> Iterator[Spans]:
        columns = size_of(self._output).columns - 1 if self._output.isatty() else None
        for line in lines:
            if columns is None:
                yield line.margin + line.spans
            else:
                yield from rows_of(line, columns)


def _stripped(spans: Spans) -> Spans:
    for count in range(len(spans), 0, -1):
        text, role = spans[count - 1]
        if text.rstrip(" "):
            return (*spans[: count - 1], Span(text.rstrip(" "), role))
    return ()


def open_terminal(
    looks: ToolViews | None = None,
    output: TextIO | None = None,
    *,
    full: bool = False,
    stored: bool | str = False,
    timed: bool = True,
) -> Terminal:
    """Return a terminal for standard output, or for another output.

    ::

        with open_terminal() as terminal:
            async for event in agent.run_stream("Make the tests pass"):
                terminal.show(event)

    ``looks`` choose how the arguments of tools are shown. Long texts are folded, unless ``full``.
    If the run is ``stored``, notes name the command that shows the rest, with this ``--store``. If
    events are not ``timed``, they come faster than they did, and no durations are shown.
    """
    output = sys.stdout if output is None else output
    is_terminal = is_live(output)
    view = RunView(looks, has_tail=is_terminal, full=full, stored=stored, timed=timed)
    return LiveTerminal(view, output) if is_terminal else PlainTerminal(output, view)


@dataclass(eq=False, repr=False)
class ShownEvents(Generic[_Shown]):
    """Events that are printed while they are iterated over, with ``for`` or ``async for``."""

    _events: Any
    _open: Callable[[], Terminal]

    def __iter__(self) -> Iterator[_Shown]:
        with self._open() as terminal:
            for event in self._events:
                terminal.show(event)
                yield event

    async def __aiter__(self) -> AsyncIterator[_Shown]:
        with self._open() as terminal:
            async for event in self._events:
                terminal.show(event)
                yield event


def show(
    events: Iterable[_Shown] | AsyncIterable[_Shown],
    looks: ToolViews | None = None,
    output: TextIO | None = None,
    *,
    full: bool = False,
) -> ShownEvents[_Shown]:
    """Print events while you iterate over them, in a terminal, a pipe or a notebook.

    ::

        for event in show(stream(source)):
            ...

    ``events`` are those of ``stream()`` or of a run, sync or async. They are yielded unchanged. The
    options are those of ``open_terminal``.
    """
    if not isinstance(events, Iterable | AsyncIterable):
        raise UsageError(f"show() needs an iterable of events, not {type(events).__name__}")
    return ShownEvents(events, partial(open_terminal, looks, output, full=full))


def printing(then: Callable[[Record], Any] | None) -> Callable[[Record], Any]:
    """Return a hook that prints runs, then calls another one: for ``Agent(show=True)``."""
    terminals: dict[str, Terminal] = {}

    def hook(record: Record) -> Any:
        terminal = terminals.get(record.run_id)
        if terminal is None:
            terminal = terminals[record.run_id] = open_terminal()
        terminal.show(record)
        if record.event.ends_run or isinstance(record.event, RunPaused):
            terminals.pop(record.run_id).close()
        return None if then is None else then(record)

    return hook
