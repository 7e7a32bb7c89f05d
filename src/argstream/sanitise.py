r"""What a model wrote, made safe to show: nothing in it acts on a screen, and nothing hides.

A character that would act on a terminal, change the order of its neighbours, or not be seen, is
shown by its name or number between two brackets that hardly any text contains:

>>> print(visible("\x1b[2J rm -rf \u202e/pmt/"))
⟦ESC⟧[2J rm -rf ⟦RLO⟧/pmt/
>>> print(visible(r"C:\temp, \x1b and \u202e are plain text"))
C:\temp, \x1b and \u202e are plain text

Names are Unicode's own abbreviations; what has none is shown as ``⟦U+E000⟧``. Of the brackets, the
opening one is escaped as well: ``⟦ESC⟧``, if that is what the model wrote, is shown as
``⟦U+27E6⟧ESC⟧``. So an escape can always be believed, and three things hold (invariant 13):

- *Different texts look different.* Each character has its own spelling, and it is known where a
  spelling ends: at the first ``⟧`` if it began with ``⟦``, else after one character. ``original``
  reads it back.
- *Chunking never matters.* Each character is spelled alike wherever it stands, so
  ``visible(a) + visible(b) == visible(a + b)``, and a stream can be shown piece by piece.
- *Linear*, and next to nothing for plain ASCII.

Escaped are

- all that ``str.isprintable`` denies: control and format characters (bidi, zero-width and tag
  characters among them), line and paragraph separators, surrogates, private use, whatever this
  Python does not know yet, and spaces other than the usual one. A path with a no-break space
  looks right and is not found. The ideographic space stays: it is twice as wide, and ordinary in
  Chinese and Japanese;
- ``UNSEEN``: letters, marks and symbols that show nothing;
- carriage return, which is a control character that lets a line be overwritten. A text with CRLF
  therefore shows ``⟦CR⟧`` at the end of its lines. No exception for CRLF: it could come in two
  pieces.

Not done here: look-alike letters stay as they are, and so do combining marks and right-to-left
letters, which are seen. A face has to keep them from reaching beyond the line they stand in.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Any, Final, TypedDict

_OPENING: Final = "⟦"  # narrow in every terminal, and copied as any other character
_CLOSING: Final = "⟧"
_KEPT: Final = "\t\n"
_IDEOGRAPHIC_SPACE: Final = "\u3000"

UNSEEN: Final = (
    (0x034F, 0x034F, "combining grapheme joiner: a mark without a shape"),
    (0x115F, 0x1160, "Hangul fillers: letters without a shape"),
    (0x17B4, 0x17B5, "Khmer inherent vowels: marks without a shape"),
    (0x180B, 0x180F, "Mongolian variation selectors and vowel separator"),
    (0x2800, 0x2800, "Braille pattern without dots: looks like a space"),
    (0x3164, 0x3164, "Hangul filler"),
    # Also the one that makes an emoji colourful: after a letter nobody sees it, and it makes the
    # width of a line uncertain.
    (0xFE00, 0xFE0F, "variation selectors: any data can be hidden in them"),
    (0xFFA0, 0xFFA0, "halfwidth Hangul filler"),
    (0x13441, 0x13442, "Egyptian blanks"),
    (0x16FE4, 0x16FE4, "Khitan filler"),
    (0x1D159, 0x1D159, "null notehead of music: looks like a space"),
    (0xE0100, 0xE01EF, "variation selectors, the rest of them"),
)
"""What is not seen although its category does not tell: first and last code point, and why."""

_UNSEEN_CODES: Final = frozenset(
    code for first, last, _ in UNSEEN for code in range(first, last + 1)
)

_NAMES: Final = {
    code: name
    for first, names in (
        (0x00, "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI"),
        (0x10, "DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EOM SUB ESC FS GS RS US"),
        (0x7F, "DEL"),
        (0x80, "PAD HOP BPH NBH IND NEL SSA ESA HTS HTJ VTS PLD PLU RI SS2 SS3"),
        (0x90, "DCS PU1 PU2 STS CCH MW SPA EPA SOS SGC SCI CSI ST OSC PM APC"),
        (0xA0, "NBSP"),
        (0xAD, "SHY"),
        (0x034F, "CGJ"),
        (0x061C, "ALM"),
        (0x180B, "FVS1 FVS2 FVS3 MVS FVS4"),
        (0x200B, "ZWSP ZWNJ ZWJ LRM RLM"),
        (0x202A, "LRE RLE PDF LRO RLO NNBSP"),
        (0x205F, "MMSP WJ"),
        (0x2066, "LRI RLI FSI PDI"),
        (0xFE00, " ".join(f"VS{number}" for number in range(1, 17))),
        (0xFEFF, "BOM"),
        (0xE0100, " ".join(f"VS{number}" for number in range(17, 257))),
    )
    for code, name in enumerate(names.split(), first)
}
_CODES: Final = {name: code for code, name in _NAMES.items()}

_spelling: Final = re.compile(
    rf"{_OPENING}(?:U\+((?:[1-9A-F]|10)?[0-9A-F]{{4}})|([A-Z0-9]+)){_CLOSING}"
)


class Table(TypedDict):
    """All that is needed to do the same elsewhere, in a page for instance; ready for JSON."""

    opening: str
    closing: str
    kept: str
    """What ``visible`` keeps although ``ranges`` has it; ``visible_line`` escapes it too."""
    ranges: list[tuple[int, int]]
    """The escaped code points, first and last, in order."""
    names: dict[str, str]
    """What stands between the brackets instead of the number: ``{"U+001B": "ESC", …}``."""


def visible(text: str) -> str:
    r"""Spell out what would act or hide; newlines and tabs stay.

    >>> print(visible("one\r\ntwo\u200b"))
    one⟦CR⟧
    two⟦ZWSP⟧
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return _pattern(_KEPT).sub(_spell, text)


def visible_line(text: str) -> str:
    r"""Spell out newlines and tabs too: for a name, an id, a heading, which are one line.

    >>> visible_line("notes.txt\nApproved: yes")
    'notes.txt⟦LF⟧Approved: yes'
    """
    if text.isascii() and text.isprintable():
        return text
    return _pattern("").sub(_spell, text)


def original(shown: str) -> str:
    r"""Read back what ``visible`` or ``visible_line`` has spelled, for instance after an edit.

    A number is read for any character, also for one that is never escaped or that has a name.
    What is not a spelling stays as it is.

    >>> original("⟦ESC⟧[0m ⟦U+27E6⟧ESC⟧ ⟦what?⟧")
    '\x1b[0m ⟦ESC⟧ ⟦what?⟧'
    """
    return _spelling.sub(_read, shown)


def table() -> Table:
    """Return the table of code points. This takes about 0.1 s: keep the result."""
    return {
        "opening": _OPENING,
        "closing": _CLOSING,
        "kept": _KEPT,
        "ranges": list(_ranges(0x110000, "")),
        "names": {_number(code): name for code, name in _NAMES.items()},
    }


def _is_hidden(character: str) -> bool:
    if character.isprintable():
        return ord(character) in _UNSEEN_CODES or character == _OPENING
    return character != _IDEOGRAPHIC_SPACE


def _ranges(end: int, kept: str) -> Iterator[tuple[int, int]]:
    """Yield the runs of hidden code points below ``end``, first and last."""

    def is_hidden(code: int) -> bool:
        character = chr(code)
        return _is_hidden(character) and character not in kept

    for hidden, run in groupby(range(end), is_hidden):
        if hidden:
            codes = list(run)
            yield codes[0], codes[-1]


@cache  # and not when the module is loaded, for it takes some 20 ms and ASCII does not need it
def _pattern(kept: str) -> re.Pattern[str]:
    """Make the pattern for what ``_spell`` has to look at.

    A set of characters below U+10000 is a bit map for ``re``; beyond, it would try range after
    range. So the pattern finds all characters there, and ``_spell`` decides.
    """
    hidden = "".join(f"\\u{first:04x}-\\u{last:04x}" for first, last in _ranges(0x10000, kept))
    return re.compile(f"[{hidden}\U00010000-\U0010ffff]")


def _spell(match: re.Match[str]) -> str:
    character = match[0]
    if character > "\uffff" and not _is_hidden(character):
        return character
    code = ord(character)
    return f"{_OPENING}{_NAMES.get(code) or _number(code)}{_CLOSING}"


def _number(code: int) -> str:
    return f"U+{code:04X}"


def _read(match: re.Match[str]) -> str:
    number, name = match.groups()
    if number:
        return chr(int(number, 16))
    return chr(_CODES[name]) if name in _CODES else match[0]


_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_BYTES: Final = re.compile("[\udc80-\udcff]+")
# The beginning of a pair, or of the bytes of a character, at the end of a piece. What could begin
# bytes may as well be the end of a pair.
_BEGINNING: Final = re.compile(
    "(?:[\ud800-\udbff]|(?<![\ud800-\udbff])(?:[\udcc2-\udcdf]|[\udce0-\udcef][\udc80-\udcbf]?"
    "|[\udcf0-\udcf4][\udc80-\udcbf]{0,2}))\\Z"
)


class SurrogateReplacer:
    """Joins or replaces surrogates in a text that comes in pieces."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = ""
        """The beginning of a character whose end has not come."""

    def feed(self, piece: str) -> str:
        """Return the piece in a form that can be encoded."""
        if self.held:
            piece = self.held + piece
            self.held = ""
        elif not _SURROGATE.search(piece):
            return piece
        if (beginning := _BEGINNING.search(piece)) is not None:
            self.held = beginning[0]
            piece = piece[: beginning.start()]
        return replace_lone_surrogates(piece)

    def close(self) -> str:
        """Return the replacement of a character whose end never came."""
        held, self.held = self.held, ""
        return replace_lone_surrogates(held)


def replace_lone_surrogates(text: str) -> str:
    """Return the text with halves of characters joined, or replaced."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    text = _PAIR.sub(lambda pair: _joined(pair[0]), text)
    text = _BYTES.sub(lambda run: _decoded(run[0]), text)
    return _SURROGATE.sub("\ufffd", text)


def _joined(pair: str) -> str:
    return pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _decoded(run: str) -> str:
    return run.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def replace_lone_surrogates_in_json(value: Any) -> Any:
    """Apply ``mended`` to all strings and keys of a JSON value."""
    if isinstance(value, str):
        return replace_lone_surrogates(value)
    if isinstance(value, dict):
        return {
            replace_lone_surrogates_in_json(key): replace_lone_surrogates_in_json(part)
            for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [replace_lone_surrogates_in_json(part) for part in value]
    return value
