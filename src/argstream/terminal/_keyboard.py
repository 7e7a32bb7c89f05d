"""The keys of a terminal, one by one, while a question is asked.

Ctrl-C stays a signal for the program. One setting is changed, that lines are
collected until Enter, and put back whatever happens; the echo is off while the screen is painted.

After ``fg``, the terminal has the setting of the shell. What was typed until then
was meant for the shell, and is dropped.
"""

import asyncio
import os
import sys
import time
import unicodedata
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from select import select
from typing import Any, Final, Literal, NamedTuple, TextIO, TypeAlias

from argstream.terminal._layout import width
from argstream.terminal._screen import is_in_background
from argstream.terminal._text import Role, Span, Spans, shown

if sys.platform != "win32":
    import termios

KeyKind: TypeAlias = Literal[
    "character", "enter", "escape", "backspace", "erase_line", "erase_word", "paste", "other"
]
_CONTROLS: Final[dict[str, KeyKind]] = {
    "\r": "enter",
    "\n": "enter",
    "\b": "backspace",
    "\x7f": "backspace",
    "\x15": "erase_line",  # Ctrl-U
    "\x17": "erase_word",  # Ctrl-W
}
_INTRODUCERS: Final = {  # the 8-bit spelling of ESC and a character
    "\x8e": "N",
    "\x8f": "O",
    "\x90": "P",
    "\x98": "X",
    "\x9b": "[",
    "\x9d": "]",
    "\x9e": "^",
    "\x9f": "_",
}
_STRINGS: Final = tuple("PX]^_")  # they go on until they are ended expressly
_PASTE_BEGINS: Final = "[200~"
_PASTE_ENDS: Final = "\x1b[201~"
_MOUSE: Final = 3  # how many characters follow `CSI M`: a button and a place
_MAX_SEQUENCE: Final = 4096  # longer than anything that a terminal sends by itself
_MOMENT_SECONDS: Final = 0.05  # an Escape that is followed by nothing for so long is the key
# A key that is followed by nothing for so long is no paste, no word, and not held.
_ALONE_SECONDS: Final = 0.25
_SEQUENCE_SECONDS: Final = 1.0  # an incomplete sequence ends after this, on slow lines too
_LOOK_SECONDS: Final = 0.1  # how often to check that the terminal is still ours
_POLL_SECONDS: Final = 0.03
_PIECE: Final = 4096
_LOCAL_FLAGS: Final = 3
_SPECIAL: Final = 6
Modes: TypeAlias = list[Any]
_CURSOR = "▏"


class Key(NamedTuple):
    kind: KeyKind
    text: str = ""  # the character, or what was pasted


class HangupError(Exception):
    """The terminal is gone."""


def is_terminal(source: TextIO | None) -> bool:
    """Return whether keys can be read from there. Windows has no termios."""
    try:
        return sys.platform != "win32" and source is not None and os.isatty(source.fileno())
    except (OSError, ValueError):  # closed, or no file at all
        return False


class KeyDecoder:
    r"""Decodes what a terminal sends, in pieces of any size, to keys.

    >>> KeyDecoder().feed(b"y\x1b[A")
    [Key(kind='character', text='y'), Key(kind='other', text='')]
    """

    def __init__(self) -> None:
        self._decode = getincrementaldecoder("utf-8")("replace")
        self._pending = ""  # a sequence that has begun, without its Escape
        self._read: Callable[[str], Key | None] = self._plain

    @property
    def is_inside(self) -> bool:
        return self._read != self._plain

    @property
    def is_after_escape(self) -> bool:
        """Whether the last character may have been the Escape key."""
        return self._read == self._sequence and not self._pending

    def feed(self, piece: bytes) -> list[Key]:
        keys = (self._read(character) for character in self._decode.decode(piece))
        return [key for key in keys if key is not None]

    def pause(self) -> list[Key]:
        """End a sequence that has begun: nothing followed it for a while."""
        if not self.is_inside:
            return []
        was_escape = self.is_after_escape
        self._end()
        return [Key("escape" if was_escape else "other")]

    def _end(self) -> None:
        self._pending, self._read = "", self._plain

    def _plain(self, character: str) -> Key | None:
        if character == "\x1b":
            self._read = self._sequence
            return None
        if character in _INTRODUCERS:
            self._read = self._sequence
            return self._sequence(_INTRODUCERS[character])
        if character.isprintable():
            return Key("character", character)
        return Key(_CONTROLS.get(character, "other"))

    def _sequence(self, character: str) -> Key | None:
        if character == "\x1b" and self._pending[:1] not in _STRINGS:
            return self._begun_anew()
        self._pending += character
        if self._pending == _PASTE_BEGINS:
            self._pending, self._read = "", self._paste
            return None
        if _is_whole(self._pending) or len(self._pending) > _MAX_SEQUENCE:
            self._end()
            return Key("other")
        return None

    def _begun_anew(self) -> Key:
        key = Key("other" if self._pending else "escape")
        self._pending = ""
        return key

    def _paste(self, character: str) -> Key | None:
        self._pending += character
        if character != "~" or not self._pending.endswith(_PASTE_ENDS):
            return None
        text = self._pending.removesuffix(_PASTE_ENDS)
        self._end()
        return Key("paste", text)


def _is_whole(sequence: str) -> bool:
    """Return whether this, which came after Escape, is a complete sequence."""
    first, rest = sequence[0], sequence[1:]
    if first == "[":
        return _is_whole_csi(rest)
    if first in "NO":  # with a number before it if Shift or Ctrl was held
        return rest != "" and not rest[-1].isdigit()
    if first in _STRINGS:
        return rest.endswith(("\x07", "\x1b\\", "\x9c"))
    return True  # Alt and a key


def _is_whole_csi(rest: str) -> bool:
    if rest.startswith("["):  # a function key of the Linux console
        return len(rest) > 1
    if rest.startswith("M"):
        return len(rest) > _MOUSE
    return rest != "" and "@" <= rest[-1] <= "~"


class Keyboard:
    """Reads keys inside of ``with listening()``."""

    def __init__(self, source: TextIO, on_key: Callable[[], None] | None = None) -> None:
        self._source = source
        self._on_key = on_key
        self.file = source.fileno()  # the file descriptor
        self._decoder = KeyDecoder()
        self._before: Modes = []  # if they are changed
        self._is_away = False  # in the background

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Get each key at once from now on. What was typed before is dropped."""
        try:
            self._set_modes()
            self.flush()
            yield
        finally:
            self._restore_modes()

    @contextmanager
    def left(self) -> Iterator[None]:
        """Leave the terminal to another program, with its own modes."""
        self._restore_modes()
        try:
            yield
        finally:
            self._set_modes()
            self.flush()

    def flush(self) -> None:
        self._decoder = KeyDecoder()
        if not is_in_background(self._source):  # else it is the shell's, who stops us for this
            with suppress(termios.error):  # it is gone, as who reads will be told
                termios.tcflush(self.file, termios.TCIFLUSH)

    async def read(self) -> list[Key]:
        """Return the keys that arrived at once, after waiting for the first. Raises HangupError.

        An empty list means that another job had the terminal, and may have written on the screen.

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
        """Return whether another key follows within a moment, as in a paste or a held key."""
        return await self._ready(_ALONE_SECONDS)

    def _patience(self) -> float:
        if self._decoder.is_after_escape:
            return _MOMENT_SECONDS
        return _SEQUENCE_SECONDS if self._decoder.is_inside else _LOOK_SECONDS

    def _piece(self) -> bytes:
        try:
            piece = os.read(self.file, _PIECE)
        except BlockingIOError:  # another process was quicker
            return b""
        except OSError:
            raise HangupError from None
        if not piece:
            raise HangupError
        return piece

    def _modes(self) -> Modes:
        try:
            return termios.tcgetattr(self.file)
        except termios.error:
            raise HangupError from None

    def _set_modes(self) -> bool:
        """Get each key at once. Return whether that has changed anything."""
        modes = self._modes()
        if not modes[_LOCAL_FLAGS] & termios.ICANON or is_in_background(self._source):
            return False
        self._before = self._modes()
        modes[_LOCAL_FLAGS] &= ~termios.ICANON
        modes[_SPECIAL][termios.VMIN], modes[_SPECIAL][termios.VTIME] = 1, 0
        termios.tcsetattr(self.file, termios.TCSANOW, modes)
        return True

    def _restore_modes(self) -> None:
        """Undo that, and no change that another program made meanwhile."""
        before, self._before = self._before, []
        if not before or is_in_background(self._source):
            return  # it is the shell's, and as the shell wants it
        with suppress(HangupError):
            modes = self._modes()
            modes[_LOCAL_FLAGS] |= before[_LOCAL_FLAGS] & termios.ICANON
            for place in (termios.VMIN, termios.VTIME):
                modes[_SPECIAL][place] = before[_SPECIAL][place]
            termios.tcsetattr(self.file, termios.TCSANOW, modes)

    async def _ready(self, seconds: float) -> bool:
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
        end = time.monotonic() + seconds
        while not select([self.file], [], [], 0)[0]:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True


class LineEditor:
    """A line of text with a cursor at its end.

    >>> editor = LineEditor()
    >>> for character in "not now":
    ...     editor.take(Key("character", character))
    >>> editor.take(Key("erase_word"))
    >>> editor.text
    'not '
    """

    def __init__(self) -> None:
        self.text = ""

    def take(self, key: Key) -> None:
        match key.kind:
            case "character":
                self.text += key.text
            case "paste":
                self.text += " ".join(key.text.split())  # several lines become one
            case "backspace":
                self.text = _without_last(self.text)
            case "erase_word":
                self.text = _without_last_word(self.text)
            case "erase_line":
                self.text = ""
            case _:
                pass

    def spans(self, columns: int, role: Role = "plain") -> Spans:
        room = max(columns - width(_CURSOR), 0)
        text = shown(self.text, role).text
        if width(text) <= room:
            return Span(text, role), Span(_CURSOR, "key")
        kept = _end_of(text, room - 1)
        return Span("…", "faint"), Span(kept, role), Span(_CURSOR, "key")


def _without_last(text: str) -> str:
    """Return the text without its last character and the marks on it, which were typed as one."""
    end = len(text) - 1
    while end > 0 and unicodedata.combining(text[end]):
        end -= 1
    return text[: max(end, 0)]


def _without_last_word(text: str) -> str:
    words = text.rstrip()
    return words[: len(words) - len(words.rsplit(maxsplit=1)[-1])] if words else ""


def _end_of(text: str, columns: int) -> str:
    kept = ""
    for character in reversed(text):
        if width(character + kept) > columns:
            break
        kept = character + kept
    return kept
