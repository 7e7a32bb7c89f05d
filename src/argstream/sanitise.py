r"""Escape text of a model, so that no character controls the screen and none is invisible.

A character that would control a terminal, reorder its neighbours or be invisible is shown as its
name or number between two rare brackets:

>>> print(visible("\x1b[2J rm -rf \u202e/pmt/"))
⟦ESC⟧[2J rm -rf ⟦RLO⟧/pmt/
>>> print(visible(r"C:\temp, \x1b and \u202e are plain text"))
C:\temp, \x1b and \u202e are plain text

Names are Unicode's abbreviations; other characters are shown as ``⟦U+E000⟧``. The opening bracket
is escaped too: the text ``⟦ESC⟧`` is shown as ``⟦U+27E6⟧ESC⟧``. So an escape is never ambiguous,
and three things hold (invariant 13):

- *Different texts look different.* Each character has its own escape, which ends at the first ``⟧``
  if it starts with ``⟦``, otherwise after one character. ``original`` reverses it.
- *Chunking never matters.* The escape of a character does not depend on its neighbours, so
  ``visible(a) + visible(b) == visible(a + b)``, and a stream can be shown piece by piece.
- *Linear*, and almost free for plain ASCII.

These are escaped:

- everything for which ``str.isprintable`` is False: control and format characters (including bidi,
  zero-width and tag characters), line and paragraph separators, surrogates, private use, characters
  that this Python does not know, and spaces other than U+0020. A path with a no-break space looks
  right and is not found. The ideographic space is not escaped: it is twice as wide, and common in
  Chinese and Japanese;
- ``UNSEEN``: letters, marks and symbols without a visible shape;
- carriage return, a control character with which a line can be overwritten. Lines that end with
  CRLF therefore show ``⟦CR⟧``. There is no exception, because a CRLF can arrive in two chunks.

Look-alike letters, combining marks and right-to-left letters are visible and are not escaped. The
user interface must confine them to their line. ``warnings_about`` describes words in which letters
of two scripts look alike, and stacks of marks: an approver cannot see these.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Any, Final

import msgspec

from argstream.errors import UsageError

_OPENING: Final = "⟦"  # one column wide in every terminal, and can be copied
_CLOSING: Final = "⟧"

UNSEEN: Final = (
    (0x034F, 0x034F, "combining grapheme joiner: a mark without a shape"),
    (0x115F, 0x1160, "Hangul fillers: letters without a shape"),
    (0x17B4, 0x17B5, "Khmer inherent vowels: marks without a shape"),
    (0x180B, 0x180F, "Mongolian variation selectors and vowel separator"),
    (0x2800, 0x2800, "Braille pattern without dots: looks like a space"),
    (0x3164, 0x3164, "Hangul filler"),
    # Includes the emoji selector: it is invisible after a letter, and makes line widths uncertain.
    (0xFE00, 0xFE0F, "variation selectors: any data can be hidden in them"),
    (0xFFA0, 0xFFA0, "halfwidth Hangul filler"),
    (0x13441, 0x13442, "Egyptian blanks"),
    (0x16FE4, 0x16FE4, "Khitan filler"),
    (0x1D159, 0x1D159, "null notehead of music: looks like a space"),
    (0xE0100, 0xE01EF, "variation selectors, the rest of them"),
)
"""Invisible characters that ``str.isprintable`` accepts: first and last code point, and why."""

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

# Classes of a regular expression, also of JavaScript: letters of Latin, letters of scripts with
# look-alikes, and marks that can be stacked. Of Greek only look-alikes, because Greek letters are
# common in words such as "10μs" and "Δt".
_LATIN: Final = "A-Za-z\u00c0-\u024f\u1e00-\u1eff"
_SCRIPTS: Final = {
    "Armenian": "\u0531-\u0587",
    "Cherokee": "\u13a0-\u13fd\uab70-\uabbf",
    "Coptic": "\u2c80-\u2cf3",
    "Cyrillic": "\u0400-\u0481\u048a-\u052f\u1c80-\u1c88\ua640-\ua66e\ua680-\ua69d",
    "Greek": (
        "\u037f\u0391\u0392\u0395-\u0397\u0399\u039a\u039c-\u039f\u03a1\u03a4\u03a5\u03a7"
        "\u03b1\u03b3\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03f2\u03f3\u03f9\u1f00-\u1ffc"
    ),
    "Lisu": "\ua4d0-\ua4fd",
}
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u06d6-\u06dc\u0e31\u0e34-\u0e3a"
    "\u0e47-\u0e4e\u0f71-\u0f84\u1ab0-\u1ace\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f"
)
_MIXED_WITH: Final = "".join(_SCRIPTS.values())
# Each alternative ends where the script changes. A letter after a backslash may be an escape: \n
_CHANGE: Final = re.compile(
    rf"(?<!\\)[{_LATIN}][0-9{_MARKS}]{{0,8}}(?=[{_MIXED_WITH}])"
    rf"|[{_MIXED_WITH}][0-9{_MARKS}]{{0,8}}(?=[{_LATIN}])"
)
_STACK: Final = re.compile(f"[{_MARKS}]{{5,}}")
_IN_WORD: Final = re.compile(f"[0-9{_LATIN}{_MIXED_WITH}]")
_MAX_WORD: Final = 20  # characters that are shown on each side
_MAX_WARNINGS: Final = 3
_MAX_FOUND: Final = 1000  # including repeated ones

_escaped: Final = re.compile(
    rf"{_OPENING}(?:U\+((?:[1-9A-F]|10)?[0-9A-F]{{4}})|([A-Z0-9]+)){_CLOSING}"
)


def visible(text: str) -> str:
    r"""Escape control and invisible characters, except newlines and tabs.

    >>> print(visible("one\r\ntwo\u200b"))
    one⟦CR⟧
    two⟦ZWSP⟧
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return _pattern("\t\n").sub(_escape, text)


def visible_line(text: str) -> str:
    r"""Escape newlines and tabs too. For text of one line: names, IDs, headings.

    >>> visible_line("notes.txt\nApproved: yes")
    'notes.txt⟦LF⟧Approved: yes'
    """
    if text.isascii() and text.isprintable():
        return text
    return _pattern("").sub(_escape, text)


def original(shown: str) -> str:
    r"""Reverse ``visible`` or ``visible_line``, for instance after an edit.

    Numeric escapes are accepted for all characters. Text that is not an escape is not changed.

    >>> original("⟦ESC⟧[0m ⟦U+27E6⟧ESC⟧ ⟦what?⟧")
    '\x1b[0m ⟦ESC⟧ ⟦what?⟧'
    """
    return _escaped.sub(_unescape, shown)


def warnings_about(value: Any) -> tuple[str, ...]:
    """Return warnings about a text, or the texts in a JSON value, that may not be what they seem.

    There are two kinds: a word with letters of scripts that look alike, and a stack of combining
    marks, which can cover other lines. After three warnings, the rest is one more.

    >>> warnings_about({"url": "https://\u0430pi.example"})
    ('Mixed scripts: “\u0430pi” has Cyrillic \u0430 (U+0430)',)
    """
    found: dict[str, None] = {}
    left = _MAX_FOUND
    values = [value]
    while values:
        match values.pop():
            case str(text) if not text.isascii():
                for warning in _warnings(text):
                    left -= 1
                    if not left or (len(found) == _MAX_WARNINGS and warning not in found):
                        return (*found, "More such words")
                    found[warning] = None
            case dict(members):
                values += [one for member in reversed(members.items()) for one in member[::-1]]
            case [*items]:
                values += reversed(items)
    return tuple(found)


def _warnings(text: str) -> Iterator[str]:
    for change in _CHANGE.finditer(text):
        start, end = change.span()
        letter = change[0][0]
        other = text[end] if re.match(f"[{_LATIN}]", letter) else letter
        while change.start() - start < _MAX_WORD and start and _IN_WORD.match(text, start - 1):
            start -= 1
        while end - change.end() < _MAX_WORD and _IN_WORD.match(text, end):
            end += 1
        script = next(name for name, letters in _SCRIPTS.items() if re.match(f"[{letters}]", other))
        word = visible_line(text[start:end])
        yield f"Mixed scripts: “{word}” has {script} {other} ({_number(ord(other))})"
    for stack in _STACK.finditer(text):
        base = visible_line(text[max(stack.start() - 1, 0) : stack.start()])
        yield f"Stacked marks: “{base}” has {len(stack[0])} combining marks"


def _is_hidden(character: str) -> bool:
    if character.isprintable():
        return ord(character) in _UNSEEN_CODES or character == _OPENING
    return character != "\u3000"  # the ideographic space


@cache  # not at import, because it takes about 20 ms and ASCII does not need it
def _pattern(kept: str) -> re.Pattern[str]:
    """Return a pattern that matches all characters that ``_escape`` must look at.

    ``re`` uses a bitmap for a character set below U+10000 and tries range after range beyond. So
    the pattern matches all characters beyond, and ``_escape`` decides.
    """

    def is_escaped(code: int) -> bool:
        return _is_hidden(chr(code)) and chr(code) not in kept

    runs = [list(run) for escaped, run in groupby(range(0x10000), is_escaped) if escaped]
    hidden = "".join(f"\\u{codes[0]:04x}-\\u{codes[-1]:04x}" for codes in runs)
    return re.compile(f"[{hidden}\U00010000-\U0010ffff]")


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character > "\uffff" and not _is_hidden(character):
        return character
    code = ord(character)
    return f"{_OPENING}{_NAMES.get(code) or _number(code)}{_CLOSING}"


def _number(code: int) -> str:
    return f"U+{code:04X}"


def _unescape(match: re.Match[str]) -> str:
    number, name = match.groups()
    if number:
        return chr(int(number, 16))
    return chr(_CODES[name]) if name in _CODES else match[0]


_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_BYTES: Final = re.compile("[\udc80-\udcff]+")
# An incomplete surrogate pair or UTF-8 sequence at the end of a chunk. A low surrogate that could
# start a UTF-8 sequence may also be the end of a pair.
_INCOMPLETE: Final = re.compile(
    "(?:[\ud800-\udbff]|(?<![\ud800-\udbff])(?:[\udcc2-\udcdf]|[\udce0-\udcef][\udc80-\udcbf]?"
    "|[\udcf0-\udcf4][\udc80-\udcbf]{0,2}))\\Z"
)


class SurrogateReplacer:
    """Joins surrogate pairs and replaces lone surrogates in a text that arrives in chunks."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: str = ""  # an incomplete character

    def feed(self, piece: str) -> str:
        """Return the chunk in a form that can be encoded."""
        if self.held:
            piece = self.held + piece
            self.held = ""
        elif not _SURROGATE.search(piece):
            return piece
        if (incomplete := _INCOMPLETE.search(piece)) is not None:
            self.held = incomplete[0]
            piece = piece[: incomplete.start()]
        return replace_lone_surrogates(piece)

    def close(self) -> str:
        """Return the replacement of an incomplete last character."""
        held, self.held = self.held, ""
        return replace_lone_surrogates(held)


def replace_lone_surrogates(text: str) -> str:
    """Join surrogate pairs and escaped bytes, and replace lone surrogates by U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    text = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    text = _BYTES.sub(
        lambda run: run[0].encode(errors="surrogateescape").decode(errors="replace"), text
    )
    return _SURROGATE.sub("\ufffd", text)


def replace_lone_surrogates_in_json(value: Any) -> Any:
    """Apply ``replace_lone_surrogates`` to all strings and keys of a JSON value."""
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


def encode_json(value: object) -> bytes:
    r"""Encode a value as JSON, with lone surrogates replaced: they have no bytes in UTF-8.

    >>> print(encode_json({"text": "a\ud800"}).decode())
    {"text":"a�"}
    """
    try:
        return msgspec.json.encode(value)
    except TypeError as error:
        raise UsageError(f"{error}: convert it to JSON values first") from error
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))
        return msgspec.json.encode(replace_lone_surrogates_in_json(plain))
