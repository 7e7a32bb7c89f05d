"""The parser: JSON text in pieces of any size → fragments, at once.

It says with each piece everything that is certain, nothing that is not, and never the same thing
twice. It keeps these promises for every input; the numbers are those of ARCHITECTURE.md, and the
tests cite them.

1. Chunking never matters: however a text is cut, the fragments are the same once neighbouring
   ``Text`` is joined.
2. Deltas are incremental, never cumulative.
3. Every value opens once and closes once, children before parents, in document order.
4. Text is decoded and always encodable: a surrogate without its partner becomes U+FFFD.
5. A prefix of a valid document is never an error; an error is reported at the first character
   after which no continuation is valid.
6. Time is linear, and the value so far can be read at any moment in O(1).
7. The complete value equals ``json.loads`` of the text (4 aside).
9. Bad input never raises.

The grammar is in ``_machine``; here are the face that people use, bytes, and the short path for
long strings.
"""

import re
from codecs import utf_8_decode
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NoReturn, TypeAlias

from argstream.errors import UsageError
from argstream.jsonstream._machine import Cursor, machine, new_fragment
from argstream.jsonstream._strings import decode_simple, scan_string
from argstream.jsonstream.fragments import Fragment, Invalid, JsonPath, JsonValue, Text
from argstream.jsonstream.limits import DEFAULT_LIMITS, Limits
from argstream.jsonstream.pending import Pending

__all__ = ["Chunk", "Parser", "Verdict", "parse"]

# The start of a surrogate, which is no UTF-8 but which Python's decoder waits to see the end of.
_ENCODED_SURROGATE: Final = re.compile(b"\xed[\xa0-\xbf]")
_PARSE_CHUNK: Final = 64 * 1024

Chunk: TypeAlias = str | bytes | bytearray | memoryview
Verdict: TypeAlias = Literal["open", "complete", "truncated", "malformed"]


class Parser:
    r"""Reads one JSON text in pieces.

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

    A key that occurs twice in one object is accepted and the last one wins, as with ``json.loads``;
    ``duplicates`` tells. With ``unique_keys=True`` the second one is ``Invalid``.

    A parser is for one thread at a time.
    """

    __slots__ = ("_bytes", "_closed", "_cursor", "_max_chars", "_send", "_text_until")

    def __init__(self, limits: Limits | None = None, *, unique_keys: bool = False) -> None:
        limits = limits or DEFAULT_LIMITS
        self._max_chars = limits.max_chars
        self._cursor = Cursor()
        reader = machine(self._cursor, limits, unique_keys=unique_keys)
        next(reader)
        self._send = reader.send
        self._bytes = b""  # the start of a UTF-8 sequence whose end has not arrived
        self._closed = False
        # Up to this offset feed() may take a str without further thought: the limit, or -1 while
        # bytes wait and at the end.
        self._text_until = self._max_chars

    @property
    def value(self) -> JsonValue | Pending:
        """The value so far; PENDING before it has begun.

        Live: it grows in place. Reading it costs nothing, but changing it is the parser's business,
        and holding on to a string that still grows makes the next piece copy it.
        """
        return self._cursor.root[0]

    @property
    def verdict(self) -> Verdict:
        """Open until ``close()`` or the first error."""
        error = self._cursor.error
        if error is not None:
            return "truncated" if error.reason == "truncated" else "malformed"
        return "complete" if self._closed else "open"

    @property
    def error(self) -> Invalid | None:
        """The ``Invalid`` that ended it, if one did."""
        return self._cursor.error

    @property
    def path(self) -> JsonPath:
        """The path of the innermost value that is not done: it has begun, or its key is known."""
        return self._cursor.path

    @property
    def offset(self) -> int:
        """How many characters it has taken; after an error, where that is."""
        return self._cursor.offset

    @property
    def duplicates(self) -> tuple[JsonPath, ...]:
        """The paths of keys that were given again in one object, in order."""
        return tuple((*base, key) for base, key in self._cursor.duplicates)

    def __repr__(self) -> str:
        return f"<Parser {self.verdict} at {self.offset}, path {self.path}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise UsageError("a Parser cannot be copied or pickled; feed its text to a new one")

    def feed(self, chunk: Chunk) -> list[Fragment]:
        r"""Take the next piece, cut anywhere, and say what it means. Never raises for bad text.

        Once there was an error or ``close()``, further pieces change nothing.
        """
        cursor = self._cursor
        if type(chunk) is not str or (offset := cursor.offset + len(chunk)) > self._text_until:
            return self._feed_unusual(chunk)
        container = cursor.string_container
        # The short path: text inside a string, the stuff of long arguments. Its test for plain is
        # narrower than JSON's: a no-break space fails it.
        if container is not None and chunk.isprintable():
            piece = chunk
            if "\\" in chunk:
                piece = decode_simple(chunk)
            elif '"' in chunk:
                piece = ""
            if piece:
                cursor.offset = offset
                # Appending is in place, and so O(1), only while nothing else refers to the string
                # (invariant 6); and, from Python 3.13 on, only if it has a line to itself.
                key = cursor.string_key
                value = container[key]
                container[key] = None
                value += piece
                container[key] = value
                return [new_fragment(Text, (cursor.path, piece))]
        if not chunk or cursor.error is not None:
            return []
        cursor.offset = offset
        try:
            return self._send(chunk)
        except StopIteration:
            message = "this Parser broke off in an earlier feed(); make a new one"
            raise UsageError(message) from None

    def close(self) -> list[Fragment]:
        """Say that the text is over: ends a number at the root, or finds that the text was cut."""
        cursor = self._cursor
        if cursor.error is not None or self._closed:
            return []
        if not cursor.may_end:
            return [cursor.fail("truncated", cursor.offset)]
        # White space ends a number and means nothing elsewhere; it does not count as text.
        cursor.offset += 1
        fragments = self._send(" ")
        if cursor.error is None:
            cursor.offset -= 1
            self._closed = True
            self._text_until = -1
        return fragments

    def _feed_unusual(self, chunk: Chunk) -> list[Fragment]:
        """Take bytes, text beyond the limit, text while bytes wait, or anything after the end."""
        cursor = self._cursor
        if not isinstance(chunk, Chunk):
            raise UsageError(f"Parser.feed takes str or bytes, not {type(chunk).__name__}")
        if not chunk or self._closed or cursor.error is not None:
            return []
        if not isinstance(chunk, str):
            return self._feed_bytes(self._bytes + bytes(chunk))
        if self._bytes:
            return [cursor.fail("invalid_utf8", cursor.offset)]
        text = str.__str__(chunk)  # of another class, slices might be so too
        room = self._max_chars - cursor.offset
        fragments = self.feed(text[:room])
        if len(text) > room and cursor.error is None:
            fragments.append(cursor.fail("too_long", self._max_chars))
        return fragments

    def _feed_bytes(self, data: bytes) -> list[Fragment]:
        broken = False
        try:
            text, used = utf_8_decode(data, "strict", False)  # noqa: FBT003 - the C signature
        except UnicodeDecodeError as error:
            broken = True
            used = error.start
            text = data[:used].decode()
        self._bytes, self._text_until = b"", self._max_chars
        fragments = self.feed(text)
        rest = data[used:]
        if rest and self._cursor.error is None:
            # Something beyond ASCII comes next, whole or not. Where no such character can stand,
            # that is said at once, and in the same words whatever the bytes turn out to be.
            if not self._takes_any_text():
                fragments = _joined(fragments, self.feed("\ufffd"))
            elif broken or _ENCODED_SURROGATE.match(rest):
                fragments.append(self._cursor.fail("invalid_utf8", self._cursor.offset))
            else:
                self._bytes, self._text_until = rest, -1
        return fragments

    def _takes_any_text(self) -> bool:
        cursor = self._cursor
        return (
            cursor.held is not None
            and cursor.offset < self._max_chars
            and scan_string(cursor.held + "\ufffd", 0)[2] == "open"
        )


def _joined(fragments: list[Fragment], more: list[Fragment]) -> list[Fragment]:
    """Join what belongs to one feed: of one value, there is at most one ``Text``."""
    match fragments, more:
        case [*before, Text(path, text)], [Text(_, more_text), *rest]:
            return [*before, Text(path, text + more_text), *rest]
        case _:
            return fragments + more


def parse(
    source: Chunk | Iterable[Chunk], limits: Limits | None = None, *, unique_keys: bool = False
) -> Iterator[Fragment]:
    """Yield the fragments of a whole text, or of the chunks of one as they come, up to its end.

    After an error no further chunk is asked for.

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
    """Cut a whole text, so that not all its fragments are in memory at once."""
    for start in range(0, len(text), _PARSE_CHUNK):
        yield text[start : start + _PARSE_CHUNK]
