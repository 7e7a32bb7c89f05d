"""Bytes of a terminal → keys. Pure: who reads them, and when, is not known here.

What a key sends that is not a character (an arrow, a function key, what the terminal answers to
somebody's question) begins with Escape and ends by rules of its own. All of it is one key,
``other``. To take its last letter for a key that was pressed would be to approve by accident: the 9
of some number pads sends ``ESC O y``.

The Escape key itself is the same first byte with nothing behind it, which only time can tell:
``pause`` is called when no more has come for a while.
"""

from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

__all__ = ["Key", "KeyDecoder", "KeyKind"]

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
_MOUSE: Final = 3
"""How many characters follow ``CSI M``: a button and a place."""
_MAX_SEQUENCE: Final = 4096
"""Longer than anything that a terminal sends by itself."""


class Key(NamedTuple):
    """A key that was pressed, or what came in its place."""

    kind: KeyKind
    text: str = ""
    """The character, or what was pasted."""


class KeyDecoder:
    r"""Reads what a terminal sends, in pieces of any size.

    >>> KeyDecoder().feed(b"y\x1b[A")
    [Key(kind='character', text='y'), Key(kind='other', text='')]
    """

    def __init__(self) -> None:
        self._decode = getincrementaldecoder("utf-8")("replace")
        self._pending = ""  # a sequence that has begun, without its Escape
        self._read: Callable[[str], Key | None] = self._plain

    @property
    def is_inside(self) -> bool:
        """Whether a sequence has begun and not ended."""
        return self._read != self._plain

    @property
    def is_after_escape(self) -> bool:
        """Whether the last that came may be the Escape key."""
        return self._read == self._sequence and not self._pending

    def feed(self, piece: bytes) -> list[Key]:
        """Give the keys that are now known."""
        keys = (self._read(character) for character in self._decode.decode(piece))
        return [key for key in keys if key is not None]

    def pause(self) -> list[Key]:
        """Take that nothing more has come for a while: what has begun ends here."""
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
    """Say whether what came after Escape is all that belongs to it."""
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
