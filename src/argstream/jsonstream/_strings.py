r"""Inside a string: from the character after the opening quote to the closing one.

``scan_string`` takes what has arrived and decodes as much of it as is certain. What is not certain
yet (half an escape, a surrogate whose partner may still come) is left: the caller holds it and puts
it in front of the next chunk. It is never longer than eleven characters (``\ud83d\ude0``), so every
character is looked at a constant number of times.

A surrogate can be written as an escape or, in ``str`` chunks whose producer split a pair, stand
there itself; both are read alike. With its partner it becomes one character; without, U+FFFD
(invariant 4).
"""

import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias, cast

from argstream.jsonstream.fragments import Reason

__all__ = ["Outcome", "decode_simple", "scan_string"]

Outcome: TypeAlias = Literal["closed", "open"] | Reason

_ESCAPES: Final = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_REPLACEMENT: Final = "\ufffd"

_Run: TypeAlias = Callable[[str, int], re.Match[str]]  # of any length, even 0: it always matches

_plain_run: Final = cast("_Run", re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*').match)
_hex_digits: Final = cast("_Run", re.compile(r"[0-9A-Fa-f]{0,4}").match)
_low_surrogate: Final = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})|([\udc00-\udfff])").match
_start_of_low_surrogate: Final = re.compile(
    r"(?:\\(?:u(?:[Dd](?:[C-Fc-f][0-9A-Fa-f]?)?)?)?)?\Z"
).match


def decode_simple(text: str) -> str:
    """Decode printable text from inside a string, if one-letter escapes are all that is in it.

    Returns "" if there is anything else: then ``scan_string`` has to look.
    """
    if text.count("\\") == text.count("\\n") and '"' not in text:
        return text.replace("\\n", "\n")  # by far the most frequent one, at half the price
    decoded, *parts = text.split("\\")
    if '"' in decoded:
        return ""
    for part in parts:
        escaped = _ESCAPES.get(part[:1])
        if escaped is None or '"' in part[1:]:
            return ""
        decoded += escaped + part[1:]
    return decoded


def scan_string(text: str, position: int) -> tuple[str, int, Outcome]:
    """Decode a string's inside from ``position`` on: what it says, where the scan stopped, and why.

    ``closed``: there is the closing quote. ``open``: what begins there is not certain yet (often it
    is the end of the text). Any other outcome is the reason why the character there cannot be.
    """
    end = len(text)
    # Most pieces are short and plain. This test for plain is narrower than JSON's, but quick.
    quote = text.find('"', position)
    decoded = text[position:] if quote < 0 else text[position:quote]
    if "\\" not in decoded and decoded.isprintable():
        return (decoded, end, "open") if quote < 0 else (decoded, quote, "closed")
    decoded = piece = ""
    while True:
        stop = _plain_run(text, position).end()
        decoded += piece + text[position:stop]
        if stop == end:
            break
        char = text[stop]
        if char == '"':
            return decoded, stop, "closed"
        if char == "\\":
            following = text[stop + 1 : stop + 2]
            if piece := _ESCAPES.get(following, ""):
                position = stop + 2
                continue
            if not following:
                break
            if following != "u":
                return decoded, stop + 1, "bad_escape"
            position = _hex_digits(text, stop + 2).end()
            if position < stop + 6:
                if position == end:
                    break
                return decoded, position, "bad_escape"
            unit = int(text[stop + 2 : position], 16)
        elif char < " ":
            return decoded, stop, "control_character"
        else:
            position = stop + 1
            unit = ord(char)
        character = _character(unit, text, position)
        if character is None:
            break
        piece, position = character
    return decoded, stop, "open"


def _character(unit: int, text: str, position: int) -> tuple[str, int] | None:
    """Make a character of a UTF-16 unit, and of its partner if that follows at ``position``.

    Returns the character and where it ends; None if the partner may still come.
    """
    if not 0xD800 <= unit <= 0xDFFF:
        return chr(unit), position
    if unit >= 0xDC00:
        return _REPLACEMENT, position
    if low := _low_surrogate(text, position):
        partner = int(low[1], 16) if low[1] else ord(low[2])
        return chr(0x10000 + ((unit - 0xD800) << 10) + (partner - 0xDC00)), low.end()
    if _start_of_low_surrogate(text, position):
        return None
    return _REPLACEMENT, position
