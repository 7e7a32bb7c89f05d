"""The keys of a terminal, one by one, for as long as somebody is asked.

Ctrl-C stays a signal, for whoever runs the program. One setting is changed, that lines are
collected until Enter, and put back whatever happens; the echo is off while the screen is painted.

Who comes back to us, by ``fg``, comes with the setting of his shell. What he has typed until then
was meant for the shell, and is dropped.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from select import select
from typing import Any, Final, TextIO, TypeAlias

from argstream.terminal._writing import is_in_background
from argstream.terminal.approving._keys import Key, KeyDecoder

if sys.platform != "win32":
    import termios

__all__ = ["Hangup", "Keyboard", "is_terminal"]

_MOMENT_SECONDS: Final = 0.05
"""After which an Escape is the key and begins nothing."""
_ALONE_SECONDS: Final = 0.25
"""After which a key is not part of a paste, of a word, or held: all of these are quicker."""
_SEQUENCE_SECONDS: Final = 1.0
"""After which the rest of a sequence is not waited for any more, however slow the line."""
_LOOK_SECONDS: Final = 0.1
"""How often is looked whether the terminal is still ours."""
_POLL_SECONDS: Final = 0.03
_PIECE: Final = 4096
_LOCAL_FLAGS: Final = 3
_SPECIAL: Final = 6

Modes: TypeAlias = list[Any]


class Hangup(Exception):  # noqa: N818 - it says what is the case
    """The terminal is gone."""


def is_terminal(source: TextIO | None) -> bool:
    """Say whether keys could be pressed there, and read by us: there is no termios on Windows."""
    try:
        return sys.platform != "win32" and source is not None and os.isatty(source.fileno())
    except (OSError, ValueError):  # closed, or no file at all
        return False


class Keyboard:
    """Reads keys while ``listening``."""

    def __init__(self, source: TextIO, on_key: Callable[[], None] | None = None) -> None:
        self._source = source
        self._on_key = on_key
        self.file = source.fileno()
        """What the system calls it by."""
        self._decoder = KeyDecoder()
        self._before: Modes = []  # if they are changed
        self._is_away = False  # in the background

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Have each key at once, from now on: what was typed before is dropped."""
        try:
            self._set_modes()
            self.flush()
            yield
        finally:
            self._restore_modes()

    @contextmanager
    def left(self) -> Iterator[None]:
        """Leave the terminal to somebody else for a while, as it was before."""
        self._restore_modes()
        try:
            yield
        finally:
            self._set_modes()
            self.flush()

    def flush(self) -> None:
        """Drop what was typed and not read."""
        self._decoder = KeyDecoder()
        if not is_in_background(self._source):  # else it is the shell's, who stops us for this
            with suppress(termios.error):  # it is gone, as who reads will be told
                termios.tcflush(self.file, termios.TCIFLUSH)

    async def read(self) -> list[Key]:
        """Wait for keys; give all that came at once. Raises Hangup.

        None at all: the terminal was somebody else's meanwhile. What he sees may be theirs.
        """
        while True:
            is_ready = await self._ready(self._patience())
            if is_in_background(self._source):
                self._is_away = True
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            if self._set_modes() or self._is_away:
                self._is_away = False
                self.flush()
                return []
            keys = self._decoder.feed(self._piece()) if is_ready else self._decoder.pause()
            if keys:
                if self._on_key is not None:
                    self._on_key()
                return keys

    async def is_more_coming(self) -> bool:
        """Wait a moment to see whether something follows on the heels of what was read."""
        return await self._ready(_ALONE_SECONDS)

    def _patience(self) -> float:
        if self._decoder.is_after_escape:
            return _MOMENT_SECONDS
        return _SEQUENCE_SECONDS if self._decoder.is_inside else _LOOK_SECONDS

    def _piece(self) -> bytes:
        try:
            piece = os.read(self.file, _PIECE)
        except BlockingIOError:  # somebody else was quicker
            return b""
        except OSError:
            raise Hangup from None
        if not piece:
            raise Hangup
        return piece

    def _modes(self) -> Modes:
        try:
            return termios.tcgetattr(self.file)
        except termios.error:
            raise Hangup from None

    def _set_modes(self) -> bool:
        """Have each key at once; tell whether that has changed anything."""
        modes = self._modes()
        if not modes[_LOCAL_FLAGS] & termios.ICANON or is_in_background(self._source):
            return False
        self._before = self._modes()
        modes[_LOCAL_FLAGS] &= ~termios.ICANON
        modes[_SPECIAL][termios.VMIN], modes[_SPECIAL][termios.VTIME] = 1, 0
        termios.tcsetattr(self.file, termios.TCSANOW, modes)
        return True

    def _restore_modes(self) -> None:
        """Undo that, and nothing that others have done meanwhile."""
        before, self._before = self._before, []
        if not before or is_in_background(self._source):
            return  # it is the shell's, and as the shell wants it
        with suppress(Hangup):
            modes = self._modes()
            modes[_LOCAL_FLAGS] |= before[_LOCAL_FLAGS] & termios.ICANON
            for place in (termios.VMIN, termios.VTIME):
                modes[_SPECIAL][place] = before[_SPECIAL][place]
            termios.tcsetattr(self.file, termios.TCSANOW, modes)

    async def _ready(self, seconds: float) -> bool:
        """Wait until something can be read."""
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        try:
            loop.add_reader(self.file, arrived.set)
        except (NotImplementedError, OSError):  # some cannot watch files, or not this one
            return await self._polled(seconds)
        try:
            async with asyncio.timeout(seconds):
                await arrived.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self.file)
        return True

    async def _polled(self, seconds: float) -> bool:
        """Wait by looking again and again."""
        end = time.monotonic() + seconds
        while not select([self.file], [], [], 0)[0]:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True
