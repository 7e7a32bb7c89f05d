"""The incremental parser: chunks of JSON text → fragments.

Each ``feed`` returns all fragments that are certain, and each fragment only once. The parser keeps
invariants 1 to 7 and 9 of ARCHITECTURE.md for every input; the tests cite their numbers.

``_parse_text`` is the grammar, a generator: ``send(text)`` resumes exactly where the last text
ended, so all state between chunks is in local variables. Three decisions make it fast, each
measured:

- The fast path: while a string is open and the chunk is plain text (the usual case), ``feed``
  appends the chunk itself and does not resume the generator.
- Appending in place: CPython extends a ``str`` in place if nothing else refers to it. The string
  is removed from its container, extended and put back: O(1) per chunk.
- Runs of characters: ``str`` methods and one pattern find plain text. Only punctuation, white
  space, numbers and literals, which are short, are read character by character.

A number is done when the character after it arrives; ``true`` is done at its ``e``. A byte order
mark is an error (RFC 8259).
"""

import re
from codecs import utf_8_decode
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, NoReturn, TypeAlias, cast

from argstream.errors import UsageError
from argstream.jsonstream._fragments import (
    Done,
    Fragment,
    Invalid,
    JsonPath,
    JsonValue,
    Key,
    Kind,
    Reason,
    Start,
    Text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for one JSON text. Exceeding one ends the text with ``Invalid``."""

    max_depth: int = 256  # nesting of objects and arrays
    max_chars: int = 64 * 1024 * 1024  # of the whole text
    max_key_chars: int = 64 * 1024  # of one key, as written between its quotes
    max_digits: int = 4300  # of one number; CPython does not convert longer integers

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(f"Limits: {name} must be an int of at least 1, not {value!r}")


DEFAULT_LIMITS: Final = Limits()


class Pending(Enum):
    """The type of PENDING. It is an enum, so that type checkers narrow ``is PENDING``."""

    PENDING = "pending"

    def __repr__(self) -> str:
        return "PENDING"


PENDING: Final = Pending.PENDING


# The first two bytes of a surrogate: not valid UTF-8, but Python's decoder waits for the third.
_ENCODED_SURROGATE: Final = re.compile(b"\xed[\xa0-\xbf]")
_PARSE_CHUNK: Final = 64 * 1024  # limits how many fragments of a whole text are in memory

Chunk: TypeAlias = str | bytes | bytearray | memoryview
Verdict: TypeAlias = Literal["open", "complete", "truncated", "malformed"]


class Parser:
    r"""Parses one JSON text in chunks.

    >>> parser = Parser()
    >>> for fragment in parser.feed('{"path":"/tm'):
    ...     print(fragment)
    Start(path=(), kind='object', offset=0)
    Key(path=('path',), offset=6)
    Start(path=('path',), kind='string', offset=8)
    Text(path=('path',), text='/tm')
    >>> parser.value
    {'path': '/tm'}
    >>> for fragment in parser.feed('p"}'):
    ...     print(fragment)
    Text(path=('path',), text='p')
    Done(path=('path',), value='/tmp', offset=14)
    Done(path=(), value={'path': '/tmp'}, offset=15)
    >>> parser.close(), parser.verdict
    ([], 'complete')

    If a key occurs twice in one object, the last value wins, as with ``json.loads``; ``duplicates``
    lists such keys. With ``unique_keys=True`` the second key is ``Invalid``.

    A parser is not thread-safe.
    """

    __slots__ = ("_bytes", "_closed", "_cursor", "_max_chars", "_send", "_text_until")

    def __init__(self, limits: Limits | None = None, *, unique_keys: bool = False) -> None:
        limits = limits or DEFAULT_LIMITS
        self._max_chars = limits.max_chars
        self._cursor = _Cursor()
        grammar = _parse_text(self._cursor, limits, unique_keys=unique_keys)
        next(grammar)
        self._send = grammar.send
        self._bytes = b""  # an incomplete UTF-8 sequence
        self._closed = False
        # feed() accepts str without further checks up to this offset. It is max_chars, or -1 while
        # _bytes is not empty and after close().
        self._text_until = self._max_chars

    @property
    def value(self) -> JsonValue | Pending:
        """The value so far, or PENDING before its first character.

        It grows in place: do not change it. A reference to a string that is still growing forces
        the next chunk to copy the string.
        """
        return self._cursor.root[0]

    @property
    def verdict(self) -> Verdict:
        """``open`` until ``close()`` or the first error."""
        error = self._cursor.error
        if error is not None:
            return "truncated" if error.reason == "truncated" else "malformed"
        return "complete" if self._closed else "open"

    @property
    def error(self) -> Invalid | None:
        """The ``Invalid`` that ended the text, or None."""
        return self._cursor.error

    @property
    def path(self) -> JsonPath:
        """The path of the innermost open value: one that has started, or whose key is known."""
        return self._cursor.path

    @property
    def offset(self) -> int:
        """The number of characters read; after an error, the position of the error."""
        return self._cursor.offset

    @property
    def duplicates(self) -> tuple[JsonPath, ...]:
        """The paths of repeated keys, in order."""
        return tuple((*base, key) for base, key in self._cursor.duplicates)

    def __repr__(self) -> str:
        return f"<Parser {self.verdict} at {self.offset}, path {self.path}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise UsageError("a Parser cannot be copied or pickled. Feed its text to a new Parser")

    def feed(self, chunk: Chunk) -> list[Fragment]:
        """Parse the next chunk and return its fragments. Does not raise for invalid JSON.

        After an error or ``close()``, chunks are ignored.
        """
        cursor = self._cursor
        if type(chunk) is not str or (offset := cursor.offset + len(chunk)) > self._text_until:
            return self._feed_unusual(chunk)
        container = cursor.string_container
        # The fast path: text inside a string, which is most of a long argument. isprintable() is
        # stricter than JSON: it is False for a no-break space.
        if container is not None and chunk.isprintable():
            piece = chunk
            if "\\" in chunk:
                piece = _decode_simple(chunk)
            elif '"' in chunk:
                piece = ""
            if piece:
                cursor.offset = offset
                # Appending is in place, and so O(1), only while nothing else refers to the string
                # (invariant 6), and since Python 3.13 only if it is a statement on its own line.
                key = cursor.string_key
                value = container[key]
                container[key] = None
                value += piece
                container[key] = value
                return [_new_fragment(Text, (cursor.path, piece))]
        if not chunk or cursor.error is not None:
            return []
        cursor.offset = offset
        try:
            return self._send(chunk)
        except StopIteration:
            message = "an earlier feed() of this Parser was interrupted. Create a new Parser"
            raise UsageError(message) from None

    def close(self) -> list[Fragment]:
        """End the text. Return the ``Done`` of a root number, or ``Invalid`` for truncated text."""
        cursor = self._cursor
        if cursor.error is not None or self._closed:
            return []
        if not cursor.may_end:
            return [cursor.fail("truncated", cursor.offset)]
        # White space ends a number and has no effect elsewhere. It is not counted in the offset.
        cursor.offset += 1
        fragments = self._send(" ")
        if cursor.error is None:
            cursor.offset -= 1
            self._closed = True
            self._text_until = -1
        return fragments

    def _feed_unusual(self, chunk: Chunk) -> list[Fragment]:
        """Feed bytes, text beyond the limit or after incomplete UTF-8, or a chunk after the end."""
        cursor = self._cursor
        if not isinstance(chunk, Chunk):
            raise UsageError(f"Parser.feed accepts str or bytes, not {type(chunk).__name__}")
        if not chunk or self._closed or cursor.error is not None:
            return []
        if not isinstance(chunk, str):
            return self._feed_bytes(self._bytes + bytes(chunk))
        if self._bytes:
            return [cursor.fail("invalid_utf8", cursor.offset)]
        text = str.__str__(chunk)  # slices of a str subclass might not be plain str
        room = self._max_chars - cursor.offset
        fragments = self.feed(text[:room])
        if len(text) > room and cursor.error is None:
            fragments.append(cursor.fail("too_long", self._max_chars))
        return fragments

    def _feed_bytes(self, data: bytes) -> list[Fragment]:
        broken = False
        try:
            text, used = utf_8_decode(data)  # an incomplete character at the end is not an error
        except UnicodeDecodeError as error:
            broken = True
            used = error.start
            text = data[:used].decode()
        self._bytes, self._text_until = b"", self._max_chars
        fragments = self.feed(text)
        rest = data[used:]
        if rest and self._cursor.error is None:
            # The next character is not ASCII, even if it is incomplete. If none is allowed here,
            # report that now: the error does not depend on the missing bytes.
            if not self._accepts_any_text():
                fragments = _joined(fragments, self.feed("\ufffd"))
            elif broken or _ENCODED_SURROGATE.match(rest):
                fragments.append(self._cursor.fail("invalid_utf8", self._cursor.offset))
            else:
                self._bytes, self._text_until = rest, -1
        return fragments

    def _accepts_any_text(self) -> bool:
        cursor = self._cursor
        return (
            cursor.held is not None
            and cursor.offset < self._max_chars
            and _scan_string(cursor.held + "\ufffd", 0)[2] == "open"
        )


def parse(
    source: Chunk | Iterable[Chunk], limits: Limits | None = None, *, unique_keys: bool = False
) -> Iterator[Fragment]:
    """Yield the fragments of a whole text, or of an iterable of chunks.

    After an error, no further chunk is consumed.

    >>> list(parse("-1"))
    [Start(path=(), kind='number', offset=0), Done(path=(), value=-1, offset=2)]
    """
    parser = Parser(limits, unique_keys=unique_keys)
    for chunk in _slices(source) if isinstance(source, Chunk) else source:
        yield from parser.feed(chunk)
        if parser.error is not None:
            return
    yield from parser.close()


def _slices(text: Chunk) -> Iterator[Chunk]:
    for start in range(0, len(text), _PARSE_CHUNK):
        yield text[start : start + _PARSE_CHUNK]


class Location(NamedTuple):
    """A position in a text, counted from 1 as in editors."""

    line: int
    column: int


def locate(text: str, offset: int) -> Location:
    r"""Return the line and column of an offset, which may be the end of the text.

    >>> locate('{\n  "a": x}', 9)
    Location(line=2, column=8)
    """
    start_of_line = text.rfind("\n", 0, offset) + 1
    return Location(text.count("\n", 0, offset) + 1, offset - start_of_line + 1)


def _joined(fragments: list[Fragment], more: list[Fragment]) -> list[Fragment]:
    """Join the fragments of one feed, so that each value has at most one ``Text``."""
    match fragments, more:
        case [*before, Text(path, text)], [Text(_, more_text), *rest]:
            return [*before, Text(path, text + more_text), *rest]
        case _:
            return fragments + more


# In an _Expectation, a character maps to the token that it starts. A comma or colon maps to the
# table for what follows it, and white space maps to the same table.
_Token: TypeAlias = Kind | Literal["key", "close"]
_Expectation: TypeAlias = dict[str, "_Token | _Expectation"]

_VALUE: Final[_Expectation] = {
    '"': "string",
    "{": "object",
    "[": "array",
    "t": "boolean",
    "f": "boolean",
    "n": "null",
    **dict.fromkeys("-0123456789", "number"),
}
_FIRST_ITEM: Final[_Expectation] = {**_VALUE, "]": "close"}
_AFTER_ITEM: Final[_Expectation] = {",": _VALUE, "]": "close"}
_FIRST_KEY: Final[_Expectation] = {'"': "key", "}": "close"}
_NEXT_KEY: Final[_Expectation] = {'"': "key"}
_COLON: Final[_Expectation] = {":": _VALUE}
_AFTER_MEMBER: Final[_Expectation] = {",": _NEXT_KEY, "}": "close"}
_END: Final[_Expectation] = {}

_WHITE_SPACE: Final = " \t\n\r"
_MAY_FOLLOW_A_NUMBER: Final = frozenset(_WHITE_SPACE + ",]}")

for _table in (
    _VALUE, _FIRST_ITEM, _AFTER_ITEM, _FIRST_KEY, _NEXT_KEY, _COLON, _AFTER_MEMBER, _END,
):  # fmt: skip
    _table.update(dict.fromkeys(_WHITE_SPACE, _table))

_new_fragment: Final = cast(
    "Callable[[type[Fragment], tuple[object, ...]], Fragment]", tuple.__new__
)  # half the cost of calling the class, whose __new__ is Python code


class _Cursor:
    """The position of the grammar generator in the text and in the value."""

    __slots__ = (
        "duplicates", "error", "held", "may_end", "offset", "path", "root",
        "string_container", "string_key",
    )  # fmt: skip

    def __init__(self) -> None:
        self.offset = 0  # characters read; feed() adds a text's length before sending it
        self.path: JsonPath = ()
        self.root: list[JsonValue | Pending] = [PENDING]  # so that the root has a container
        self.may_end = False  # after the root value, or inside a number that is the root
        # Inside a string or key: the end of the text that cannot be decoded yet. Elsewhere None.
        self.held: str | None = None
        self.string_container: Any = None  # of the open string, while feed() may append to it
        self.string_key: Any = None  # key or index of that string in its container
        # Object path and repeated key. Joining the two would cost O(depth) for each.
        self.duplicates: list[tuple[JsonPath, str]] = []
        self.error: Invalid | None = None

    def fail(self, reason: Reason, offset: int) -> Invalid:
        self.error = Invalid(self.path, offset, reason)
        self.offset = offset
        self.string_container = None
        return self.error


class _SyntaxError(Exception):
    """The character at this position is not valid. Caught in this module."""

    def __init__(self, reason: Reason, position: int) -> None:
        self.reason = reason
        self.position = position


def _parse_text(  # noqa: PLR0915 - one loop, because calls and attributes are slow
    cursor: _Cursor, limits: Limits, *, unique_keys: bool
) -> Generator[list[Fragment], str, None]:
    """Parse one JSON text: send its chunks and receive the fragments of each.

    Between tokens, the next character is looked up in ``expected``; the eight tables above define
    what may follow. The generator refers to a ``_Cursor`` and not to the parser, which avoids a
    reference cycle: an abandoned parser is freed at once.
    """
    new = _new_fragment
    out: list[Fragment] = []
    text = ""
    position = end = 0
    origin = 0  # the offset of the text's first character
    stack: list[tuple[Any, JsonPath, _Expectation]] = []
    container: Any = cursor.root
    base: JsonPath = ()  # the container's path
    after = _END  # what is expected after a value in this container
    key: Any = 0  # the current value's key or index in the container
    path: JsonPath = ()  # the current value's path; the container's between values
    expected = _VALUE
    outcome: _Outcome
    reason: Reason

    try:
        while True:
            # The end of the text. These lines are repeated at each yield: "yield from" would create
            # a generator for every chunk.
            if position == end:
                cursor.path = path
                cursor.may_end = expected is _END
                text = yield out
                out, position, end = [], 0, len(text)
                origin = cursor.offset - end

            token = expected.get(text[position])
            if type(token) is dict:
                expected = token
                position += 1
                continue

            # A key, up to its closing quote.
            if token == "key":
                position += 1
                key = ""
                bound = origin + position + limits.max_key_chars
                while True:
                    piece, position, outcome = _scan_string(text, position)
                    reached = end if outcome == "open" else position
                    if origin + reached > bound:
                        raise _SyntaxError("key_too_long", bound - origin)
                    key += piece
                    if outcome != "open":
                        break
                    cursor.path = path
                    cursor.held = held = text[position:]
                    text = held + (yield out)
                    cursor.held = None
                    out, position, end = [], 0, len(text)
                    origin = cursor.offset - end
                if outcome != "closed":
                    raise _SyntaxError(outcome, position)
                path = (*base, key)
                if key in container:
                    cursor.duplicates.append((base, key))
                    if unique_keys:
                        raise _SyntaxError("duplicate_key", position)
                out.append(new(Key, (path, origin + position)))
                position += 1
                expected = _COLON
                continue

            # The end of a container.
            if token == "close":
                position += 1
                value = container
                container, base, after = stack.pop()
                out.append(new(Done, (path, value, origin + position)))
                path = base
                expected = after
                continue

            if token is None:
                reason = "extra_text" if expected is _END else "unexpected_character"
                raise _SyntaxError(reason, position)

            # A value starts.
            if after is _AFTER_ITEM:
                key = len(container)
                path = (*base, key)

            # A container.
            if token == "object" or token == "array":
                if len(stack) == limits.max_depth:
                    raise _SyntaxError("too_deep", position)
                out.append(new(Start, (path, token, origin + position)))
                position += 1
                stack.append((container, base, after))
                if token == "object":
                    value, after, expected = {}, _AFTER_MEMBER, _FIRST_KEY
                else:
                    value, after, expected = [], _AFTER_ITEM, _FIRST_ITEM
                # True for a new array item only: an object's key is a str.
                if key == len(container):
                    container.append(value)
                else:
                    container[key] = value
                container = value
                base = path
                continue

            out.append(new(Start, (path, token, origin + position)))

            # A string, up to its closing quote.
            if token == "string":
                position += 1
                value = ""
                while True:
                    piece, position, outcome = _scan_string(text, position)
                    if value is None:
                        value = container[key]  # removed, so that appending is in place
                        container[key] = None
                    if piece:
                        out.append(new(Text, (path, piece)))
                        value += piece
                    if outcome == "closed":
                        position += 1
                        break
                    if key == len(container):
                        container.append(value)
                    else:
                        container[key] = value
                    if outcome != "open":
                        raise _SyntaxError(outcome, position)
                    value = None  # only the container refers to the string now
                    cursor.path = path
                    cursor.held = held = text[position:]
                    if not held:
                        cursor.string_key = key
                        cursor.string_container = container
                    text = held + (yield out)
                    cursor.string_container = cursor.held = None
                    out, position, end = [], 0, len(text)
                    origin = cursor.offset - end

            # A number, up to the character after it, or a literal, up to its last letter.
            else:
                scalar, state = "", _SCALAR
                while True:
                    start = position
                    while position < end and (following := state.get(text[position])) is not None:
                        state = following
                        position += 1
                    scalar += text[start:position]
                    if len(scalar) > limits.max_digits:
                        excess = _excess_digit(scalar, limits.max_digits)
                        if excess is not None:
                            raise _SyntaxError("number_too_long", position - len(scalar) + excess)
                    if position < end or not state:
                        break
                    cursor.path = path
                    cursor.may_end = after is _END and state.convert is not None
                    text = yield out
                    out, position, end = [], 0, len(text)
                    origin = cursor.offset - end
                if state.convert is None or (state and text[position] not in _MAY_FOLLOW_A_NUMBER):
                    reason = "bad_number" if token == "number" else "bad_literal"
                    raise _SyntaxError(reason, position)
                try:
                    value = state.convert(scalar)
                except ValueError:  # the interpreter's limit is lower than max_digits
                    raise _SyntaxError("number_too_long", position) from None

            # A string or scalar is done.
            if key == len(container):
                container.append(value)
            else:
                container[key] = value
            out.append(new(Done, (path, value, origin + position)))
            path = base
            expected = after
    except _SyntaxError as error:
        cursor.path = path
        out.append(cursor.fail(error.reason, origin + error.position))
    yield out


# Strings are decoded as far as possible. The caller keeps an incomplete rest (part of an escape, a
# high surrogate whose low one may follow) and prepends it to the next chunk. It has at most eleven
# characters ("\ud83d\ude0"), so each character is read a constant number of times. Surrogates may
# be escaped, or unescaped in chunks whose producer split a pair. Both are treated alike.

_Outcome: TypeAlias = Literal["closed", "open"] | Reason

_ESCAPES: Final = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_REPLACEMENT: Final = "\ufffd"

_Run: TypeAlias = Callable[[str, int], re.Match[str]]  # never None: a run may be empty

_plain_run: Final = cast("_Run", re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*').match)
_hex_digits: Final = cast("_Run", re.compile(r"[0-9A-Fa-f]{0,4}").match)
_low_surrogate: Final = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})|([\udc00-\udfff])").match
_start_of_low_surrogate: Final = re.compile(
    r"(?:\\(?:u(?:[Dd](?:[C-Fc-f][0-9A-Fa-f]?)?)?)?)?\Z"
).match


def _decode_simple(text: str) -> str:
    """Decode printable text with one-letter escapes, or return "" if there is anything else."""
    if text.count("\\") == text.count("\\n") and '"' not in text:
        return text.replace("\\n", "\n")  # the most frequent escape; costs half of the loop below
    decoded, *parts = text.split("\\")
    if '"' in decoded:
        return ""
    for part in parts:
        escaped = _ESCAPES.get(part[:1])
        if escaped is None or '"' in part[1:]:
            return ""
        decoded += escaped + part[1:]
    return decoded


def _scan_string(text: str, position: int) -> tuple[str, int, _Outcome]:
    """Decode the inside of a string from ``position`` on.

    Returns the decoded text, where the scan stopped, and why: ``closed`` at the closing quote,
    ``open`` at the end of the text or before an incomplete escape, or the reason why the character
    there is invalid.
    """
    end = len(text)
    # Most pieces are short and plain. isprintable() is stricter than JSON, but fast.
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
    """Decode a UTF-16 unit, together with the low surrogate that may follow at ``position``.

    Returns the character and where it ends, or None if a low surrogate may still follow.
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


class _ScalarState(dict[str, "_ScalarState"]):
    """Maps the next character to the next state. ``convert`` is None where no scalar can end.

    The last letter of a literal leads to an empty state.
    """

    def __init__(self, convert: Callable[[str], JsonValue] | None = None) -> None:
        super().__init__()
        self.convert = convert


_SCALAR: Final = _ScalarState()  # before the first character
_MINUS: Final = _ScalarState()
_ZERO: Final = _ScalarState(int)
_INTEGER: Final = _ScalarState(int)
_POINT: Final = _ScalarState()
_FRACTION: Final = _ScalarState(float)
_LETTER_E: Final = _ScalarState()
_EXPONENT_SIGN: Final = _ScalarState()
_EXPONENT: Final = _ScalarState(float)

for _state, _characters, _following in (
    (_SCALAR, "-", _MINUS),
    (_SCALAR, "0", _ZERO),
    (_SCALAR, "123456789", _INTEGER),
    (_MINUS, "0", _ZERO),
    (_MINUS, "123456789", _INTEGER),
    (_ZERO, ".", _POINT),
    (_ZERO, "eE", _LETTER_E),
    (_INTEGER, "0123456789", _INTEGER),
    (_INTEGER, ".", _POINT),
    (_INTEGER, "eE", _LETTER_E),
    (_POINT, "0123456789", _FRACTION),
    (_FRACTION, "0123456789", _FRACTION),
    (_FRACTION, "eE", _LETTER_E),
    (_LETTER_E, "+-", _EXPONENT_SIGN),
    (_LETTER_E, "0123456789", _EXPONENT),
    (_EXPONENT_SIGN, "0123456789", _EXPONENT),
    (_EXPONENT, "0123456789", _EXPONENT),
):
    _state.update(dict.fromkeys(_characters, _following))

_LITERALS: Final[dict[str, JsonValue]] = {"true": True, "false": False, "null": None}
_COMPLETE_LITERAL: Final = _ScalarState(_LITERALS.__getitem__)

for _literal in _LITERALS:
    _state = _SCALAR
    for _letter in _literal[:-1]:
        _state = _state.setdefault(_letter, _ScalarState())
    _state[_literal[-1]] = _COMPLETE_LITERAL


def _excess_digit(number: str, allowed: int) -> int | None:
    """Return the position of the first digit beyond the limit, or None."""
    digits = [index for index, char in enumerate(number) if char.isdigit()]
    return digits[allowed] if len(digits) > allowed else None
