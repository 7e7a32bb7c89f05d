"""Shows events in a terminal as they come, without ever making who tells them wait.

``show`` hands an event to the scene and returns. A thread paints: at most twenty frames a second,
fewer if painting is slow, so that it takes no more than a third of the time. While something is
open it paints now and then without being told, so that what moves moves on; otherwise it sleeps.
The thread waits for a terminal that is slow or that Ctrl-S has stopped; nobody else does.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Protocol, Self, TextIO, TypeAlias

from argstream.errors import UsageError
from argstream.events import ApprovalRequested, Event
from argstream.terminal.screen import Screen, tail_bound
from argstream.terminal.spans import Line

__all__ = ["LiveTerminal", "Tail"]

Tail: TypeAlias = Callable[[float, int, int], list[Line]]
"""Given the time, columns and rows: lines for the tail, each of which will be one row."""

_FRAME: Final = 0.05
"""Seconds from one frame to the next, at least."""
_TICK: Final = 0.1
"""Seconds from one frame to the next if nothing came."""
_REST: Final = 2
"""How many times as long as a frame took the thread rests after it, at least."""
_LONGEST_REST: Final = 1.0
"""And at most, in seconds: a terminal that was stopped for a while goes on at once."""


class Shown(Protocol):
    """What is shown: a scene, or something that stands for one."""

    def take(self, event: Event, now: float) -> None:
        """Take what happened."""

    def committed(self) -> list[Line]:
        """Give what became final since it was last asked."""

    def tail(self, now: float, columns: int, rows: int) -> list[Line]:
        """Give what is not final; the last line is the status."""

    def finish(self, now: float) -> None:
        """Make final whatever is open."""


class _Question:
    """What stands at the bottom while somebody is asked."""

    def __init__(self, tail: Tail, *, is_alone: bool) -> None:
        self.tail = tail
        self.is_alone = is_alone
        self.seen: tuple[int, float] | None = None
        """In which of the times between others that had the terminal, and since when."""

    def painted(self, times_away: int, *, is_seen: bool) -> None:
        """Note that it was painted, or could not be."""
        if not is_seen:
            self.seen = None
        elif self.seen is None or self.seen[0] != times_away:
            self.seen = times_away, time.monotonic()


class LiveTerminal:
    """A terminal that shows a scene. All of its methods may be called from any thread."""

    def __init__(
        self,
        scene: Shown,
        output: TextIO | None = None,
        *,
        screen: Screen | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin to show a scene; on the standard output, if nothing else is said."""
        self._scene = scene
        self._screen = screen or Screen(sys.stdout if output is None else output)
        self._clock = clock
        self._process = os.getpid()
        self._changed = threading.Condition(threading.Lock())
        # All of these belong to who holds the lock. It is never held while something is written.
        self._said: list[Line] = []  # committed, and not painted yet
        self._last: tuple[object, int] | None = None  # what that is about; how often we were away
        self._question: _Question | None = None
        self._is_dirty = False
        self._is_closed = False
        self._suspensions = 0
        self._failure: Exception | None = None
        self._is_failure_told = False
        self._painting = threading.Lock()  # held while a frame is made and written
        self._painter = threading.Thread(
            target=self._paint_on, name="argstream-painter", daemon=True
        )
        self._screen.open()
        self._painter.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def show(self, event: Event) -> None:
        """Show what happened, soon. Raise what went wrong with the terminal meanwhile, once."""
        with self._change() as is_shown:
            if not is_shown:
                return
            is_request = isinstance(event, ApprovalRequested)
            if is_request:  # what was final before is not about it
                self._collect()
            self._scene.take(event, self._clock())
            if is_request:
                self._collect(event)

    def say(self, *lines: Line, about: object = None) -> None:
        """Commit lines of ours, behind all that is final already; ``is_last`` knows what about."""
        with self._change() as is_shown:
            if is_shown:
                self._collect()
                self._commit(lines, about)

    def is_last(self, about: object) -> bool:
        """Tell whether this is what was last committed, with nothing of anybody's behind it.

        It is what lines were said to be about, or a request for approval that was shown.
        """
        with self._change() as is_shown:
            if is_shown:
                self._collect()
            return self._last == (about, self._screen.times_away)

    def ask(self, tail: Tail | None, *, alone: bool = False) -> None:
        """Let something stand at the bottom in place of the status line, until told otherwise.

        ``alone``: nothing that is shown is committed until then, only what is said.
        """
        with self._change() as is_shown:
            if is_shown:
                self._question = None if tail is None else _Question(tail, is_alone=alone)

    def asked_since(self) -> float | None:
        """Tell since when it stands on the screen, by ``time.monotonic``; None if it does not."""
        question = self._question
        seen = None if question is None else question.seen
        if seen is None or seen[0] != self._screen.times_away:
            return None
        return seen[1]

    def tail_size(self) -> tuple[int, int]:
        """Give the columns and rows that the tail can have now."""
        columns, rows = self._screen.size()
        return max(columns - 1, 1), tail_bound(rows)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Give the terminal to somebody else, such as an editor, with all that is final on it."""
        with self._change() as is_shown:
            if is_shown:
                self._suspensions += 1
        if not is_shown:
            yield
            return
        try:
            with self._painting:
                self._paint()
                self._screen.suspend()
            try:
                yield
            finally:
                self._screen.resume()
        finally:
            with self._changed:
                self._suspensions -= 1
                self._is_dirty = True
                self._changed.notify()  # even if it was before: the painter has not looked

    def close(self) -> None:
        """Show what is left, and leave a clean screen. Raise what went wrong, if nobody knows."""
        if self._is_elsewhere():
            return
        with self._changed:
            is_closed, self._is_closed = self._is_closed, True
            self._changed.notify()
        if is_closed:
            return
        try:
            self._painter.join()
            self._scene.finish(self._clock())
            if self._failure is None:
                self._screen.paint([*self._said, *self._scene.committed()], ())
        finally:
            self._screen.close()
        self._raise_failure()

    def _is_elsewhere(self) -> bool:
        """Tell whether this is a forked child: it has no painter, and not the terminal."""
        return os.getpid() != self._process

    @contextmanager
    def _change(self) -> Iterator[bool]:
        """Hold the lock for something that changes what is shown; tell whether it will be shown."""
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
            self._wake()

    def _collect(self, about: object = None) -> None:
        """Take what became final from the scene, unless somebody is asked who must not miss it."""
        if self._question is None or not self._question.is_alone:
            self._commit(self._scene.committed(), about)

    def _commit(self, lines: Sequence[Line], about: object) -> None:
        if lines:
            self._said += lines
            self._last = about, self._screen.times_away

    def _wake(self) -> None:
        if not self._is_dirty:  # else the painter knows
            self._is_dirty = True
            self._changed.notify()

    def _raise_failure(self) -> None:
        if self._failure is not None and not self._is_failure_told:
            self._is_failure_told = True
            raise self._failure

    def _paint_on(self) -> None:
        """Paint until it is closed; this is the thread."""
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
        """Wait until there is something to paint, and tell whether there ever will be."""
        with self._changed:
            while not self._is_closed:
                due = rested if self._is_dirty else ticks
                if self._suspensions:
                    due = None
                timeout = None if due is None else due - time.monotonic()
                if timeout is not None and timeout <= 0:
                    return True
                self._changed.wait(timeout)
        return False

    def _paint(self) -> bool:
        """Make a frame and write it; tell whether something is open."""
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
            return self._scene.tail(now, columns, rows)
        asked = self._question.tail(now, columns, rows)[-rows:]
        # One more, since its last line is the status.
        others = self._scene.tail(now, columns, rows - len(asked) + 1)[:-1]
        return others + asked
