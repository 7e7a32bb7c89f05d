"""The grammar of JSON as one coroutine: text in, fragments out, cut anywhere.

``machine`` is a generator. Each ``send(text)`` goes on exactly where the last text ended, between
two tokens or inside one, and gives the fragments of this text. So a value that comes in many chunks
is still read by straight code, and what is known between chunks lives in local variables, the
cheapest place that Python has. Nothing recurses: the open containers are a list.

Between tokens, ``expected`` is the table of what may come next. The tables below are the whole
grammar. Strings and scalars know their own insides (``_strings``, ``_scalars``).

What others may look at between two sends stands in the ``Cursor``. The machine refers to that and
never to the parser, so that an abandoned parser is freed at once and not when the garbage collector
comes by.
"""

from collections.abc import Callable, Generator
from typing import Any, Final, Literal, TypeAlias, cast

from argstream.jsonstream._scalars import SCALAR, excess_digit
from argstream.jsonstream._strings import Outcome, scan_string
from argstream.jsonstream.fragments import (
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
from argstream.jsonstream.limits import Limits
from argstream.jsonstream.pending import PENDING, Pending

__all__ = ["Cursor", "machine", "new_fragment"]

# What a character begins: a key, the end of a container, a value of some kind. Mere punctuation
# leads to the next table, white space back to the same.
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

new_fragment: Final = cast(
    "Callable[[type[Fragment], tuple[object, ...]], Fragment]", tuple.__new__
)
"""Makes a fragment for half the price of calling its class, whose own __new__ is Python code."""


class Cursor:
    """Where the machine stands, in the text and in the value."""

    __slots__ = (
        "duplicates", "error", "held", "may_end", "offset", "path", "root",
        "string_container", "string_key",
    )  # fmt: skip

    def __init__(self) -> None:
        self.offset = 0
        """Characters taken so far. The sender adds a text's length before sending it."""
        self.path: JsonPath = ()
        self.root: list[JsonValue | Pending] = [PENDING]
        """The root value, in a list so that it has a container like every other."""
        self.may_end = False
        """Whether the text may be over here: after the root, or in a number that is the root."""
        self.held: str | None = None
        """Inside a string or key, the part of the text that is not certain yet; elsewhere None."""
        self.string_container: Any = None
        """The container of the open string while nothing of it is held: the sender may append."""
        self.string_key: Any = None
        """The place of that string in its container."""
        self.duplicates: list[tuple[JsonPath, str]] = []
        """Keys given again, as the object's path and the key: joined, each could cost O(depth)."""
        self.error: Invalid | None = None

    def fail(self, reason: Reason, offset: int) -> Invalid:
        """Stop here for good."""
        self.error = Invalid(self.path, offset, reason)
        self.offset = offset
        self.string_container = None
        return self.error


class _Impossible(Exception):  # noqa: N818 - it never leaves this module
    """No JSON text has this character here."""

    def __init__(self, reason: Reason, position: int) -> None:
        self.reason = reason
        self.position = position


def machine(  # noqa: PLR0915 - one loop: calls and attributes are what costs
    cursor: Cursor, limits: Limits, *, unique_keys: bool
) -> Generator[list[Fragment], str, None]:
    """Read one JSON text; send it piece by piece, get the fragments of each piece."""
    new = new_fragment
    out: list[Fragment] = []
    text = ""
    position = end = 0
    origin = 0  # the offset of the text's first character

    stack: list[tuple[Any, JsonPath, _Expectation]] = []
    container: Any = cursor.root
    base: JsonPath = ()  # the container's path
    after = _END  # what is expected after a value in this container
    key: Any = 0  # the current value's place in the container
    path: JsonPath = ()  # the current value's path; the container's between values
    expected = _VALUE
    outcome: Outcome
    reason: Reason

    try:
        while True:
            # Whoever runs out of text does this. It is written out each time, since a function
            # cannot yield for us and "yield from" would cost a generator for every chunk.
            if position == end:
                cursor.path = path
                cursor.may_end = expected is _END
                text = yield out
                out, position, end = [], 0, len(text)
                origin = cursor.offset - end

            # Punctuation or white space.
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
                    piece, position, outcome = scan_string(text, position)
                    reached = end if outcome == "open" else position
                    if origin + reached > bound:
                        raise _Impossible("key_too_long", bound - origin)
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
                    raise _Impossible(outcome, position)
                path = (*base, key)
                if key in container:
                    cursor.duplicates.append((base, key))
                    if unique_keys:
                        raise _Impossible("duplicate_key", position)
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

            # Nothing that may stand here.
            if token is None:
                reason = "extra_text" if expected is _END else "unexpected_character"
                raise _Impossible(reason, position)

            # A value begins.
            if after is _AFTER_ITEM:
                key = len(container)
                path = (*base, key)

            # A container.
            if token == "object" or token == "array":
                if len(stack) == limits.max_depth:
                    raise _Impossible("too_deep", position)
                out.append(new(Start, (path, token, origin + position)))
                position += 1
                stack.append((container, base, after))
                if token == "object":
                    value, after, expected = {}, _AFTER_MEMBER, _FIRST_KEY
                else:
                    value, after, expected = [], _AFTER_ITEM, _FIRST_ITEM
                # The key of a new item is the next index. (An object's key is a str, so never.)
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
                    piece, position, outcome = scan_string(text, position)
                    if value is None:
                        # Appending is in place, and so O(1), only while nothing else refers to the
                        # string (invariant 6): so it is taken out of its container.
                        value = container[key]
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
                        raise _Impossible(outcome, position)
                    value = None  # from here on the container alone refers to it
                    cursor.path = path
                    cursor.held = held = text[position:]
                    if not held:
                        cursor.string_key = key
                        cursor.string_container = container
                    text = held + (yield out)
                    cursor.string_container = cursor.held = None
                    out, position, end = [], 0, len(text)
                    origin = cursor.offset - end

            # A number, up to the character after it, or a word, up to its last letter.
            else:
                scalar, state = "", SCALAR
                while True:
                    start = position
                    while position < end and (following := state.get(text[position])) is not None:
                        state = following
                        position += 1
                    scalar += text[start:position]
                    if len(scalar) > limits.max_digits:
                        excess = excess_digit(scalar, limits.max_digits)
                        if excess is not None:
                            raise _Impossible("number_too_long", position - len(scalar) + excess)
                    if position < end or not state:
                        break
                    cursor.path = path
                    cursor.may_end = after is _END and state.convert is not None
                    text = yield out
                    out, position, end = [], 0, len(text)
                    origin = cursor.offset - end
                if state.convert is None or (state and text[position] not in _MAY_FOLLOW_A_NUMBER):
                    reason = "bad_number" if token == "number" else "bad_literal"
                    raise _Impossible(reason, position)
                try:
                    value = state.convert(scalar)
                except ValueError:  # the interpreter's own limit is lower than ours
                    raise _Impossible("number_too_long", position) from None

            # A value that is no container is done.
            if key == len(container):
                container.append(value)
            else:
                container[key] = value
            out.append(new(Done, (path, value, origin + position)))
            path = base
            expected = after
    except _Impossible as impossible:
        cursor.path = path
        out.append(cursor.fail(impossible.reason, origin + impossible.position))
    yield out
