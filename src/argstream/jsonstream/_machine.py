"""The grammar of JSON as one coroutine: text in, fragments out, cut anywhere.

``machine`` is a generator. Each ``send(text)`` goes on exactly where the last text ended, between
two tokens or inside one, and gives the fragments of this text. So a value that comes in many chunks
is still read by straight code, and what is known between chunks lives in local variables, the
cheapest place that Python has. Nothing recurses: the open containers are a list.

Between tokens, ``expected`` is the table of what may come next. The tables below are the whole
grammar. Strings and numbers know their own insides (``_strings``, ``_numbers``).

What others may look at between two sends stands in the ``Cursor``. The machine refers to the
cursor, never to the parser, so that an abandoned parser is freed at once and not when the garbage
collector comes by.
"""

from collections.abc import Callable, Generator
from typing import Any, Final, Literal, TypeAlias, cast

from argstream.jsonstream._numbers import NUMBER, excess_digit
from argstream.jsonstream._strings import Outcome, scan_string
from argstream.jsonstream.fragments import (
    Done,
    Fragment,
    Invalid,
    JsonValue,
    Key,
    Kind,
    Path,
    Reason,
    Start,
    Text,
)
from argstream.jsonstream.limits import Limits
from argstream.jsonstream.pending import PENDING, Pending

__all__ = ["Cursor", "machine", "new_fragment"]

# What a character begins: a key, the end of a container, a value of some kind. Mere punctuation
# leads to the next table.
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
_WORDS: Final[dict[str, tuple[str, bool | None]]] = {
    "t": ("true", True),
    "f": ("false", False),
    "n": ("null", None),
}

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
        "duplicates", "error", "held", "key", "may_end", "offset", "open_string", "path", "root",
    )  # fmt: skip

    def __init__(self) -> None:
        self.offset = 0
        """Characters taken so far. Counted by who sends, before sending."""
        self.path: Path = ()
        self.root: list[JsonValue | Pending] = [PENDING]
        """The root value, in a list so that it has a container like every other."""
        self.may_end = False
        """Whether the text may be over here: after the root, or in a number that is the root."""
        self.held: str | None = None
        """Inside a string or key, the part of the text that is not certain yet; elsewhere None."""
        self.open_string: Any = None
        """The container of an open string of which nothing is held: who sends may append to it."""
        self.key: Any = None
        """The place of that string in its container."""
        self.duplicates: list[tuple[Path, str]] = []
        """Keys given again, as the object's path and the key: together they could cost O(depth)."""
        self.error: Invalid | None = None

    def fail(self, reason: Reason, offset: int) -> Invalid:
        """Stop here for good."""
        self.error = Invalid(self.path, offset, reason)
        self.offset = offset
        self.open_string = None
        return self.error


class _Impossible(Exception):  # noqa: N818 - it never leaves this module
    """The character at this position cannot be."""

    def __init__(self, reason: Reason, position: int) -> None:
        self.reason = reason
        self.position = position


def machine(  # noqa: PLR0912, PLR0915 - one loop: calls and attributes are what costs
    cursor: Cursor, limits: Limits, *, unique_keys: bool
) -> Generator[list[Fragment], str, None]:
    """Read one JSON text; send it piece by piece, get the fragments of each piece."""
    new = new_fragment
    out: list[Fragment] = []
    text = ""
    position = end = 0
    origin = 0  # the offset of the text's first character

    stack: list[tuple[Any, Path, _Expectation]] = []
    container: Any = cursor.root
    base: Path = ()  # the container's path
    after = _END  # what is expected after a value in this container
    key: Any = 0  # the current value's place in the container
    path: Path = ()  # the current value's path; the container's between values
    expected = _VALUE
    outcome: Outcome

    try:
        while True:
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

            if token == "key":
                position += 1
                key = ""
                bound = origin + position + limits.max_key_chars
                while True:
                    piece, position, outcome = scan_string(text, position)
                    if origin + (end if outcome == "open" else position) > bound:
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

            if token == "close":
                position += 1
                value = container
                container, base, after = stack.pop()
                out.append(new(Done, (path, value, origin + position)))
                path = base
                expected = after
                continue

            if token is None:
                reason: Reason = "extra_text" if expected is _END else "unexpected_character"
                raise _Impossible(reason, position)

            # A value begins.
            if after is _AFTER_ITEM:
                key = len(container)
                path = (*base, key)
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
                if key == len(container):
                    container.append(value)
                else:
                    container[key] = value
                container = value
                base = path
                continue

            out.append(new(Start, (path, token, origin + position)))
            if token == "string":
                position += 1
                value = ""
                while True:
                    piece, position, outcome = scan_string(text, position)
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
                    value = None  # the container alone refers to it: see below
                    cursor.path = path
                    cursor.held = held = text[position:]
                    if not held:
                        cursor.key = key
                        cursor.open_string = container
                    text = held + (yield out)
                    cursor.open_string = cursor.held = None
                    out, position, end = [], 0, len(text)
                    origin = cursor.offset - end
                    # Appending is in place, and so O(1), only while nothing else refers to the
                    # string (invariant 6).
                    value = container[key]
                    container[key] = None
            elif token == "number":
                number, state = "", NUMBER
                while True:
                    start = position
                    while position < end and (following := state.get(text[position])) is not None:
                        state = following
                        position += 1
                    number += text[start:position]
                    if len(number) > limits.max_digits:
                        excess = excess_digit(number, limits.max_digits)
                        if excess is not None:
                            raise _Impossible("number_too_long", position - len(number) + excess)
                    if position < end:
                        break
                    cursor.path = path
                    cursor.may_end = after is _END and state.convert is not None
                    text = yield out
                    out, position, end = [], 0, len(text)
                    origin = cursor.offset - end
                if state.convert is None or text[position] not in _MAY_FOLLOW_A_NUMBER:
                    raise _Impossible("bad_number", position)
                try:
                    value = state.convert(number)
                except ValueError:  # the interpreter's own limit is lower than ours
                    raise _Impossible("number_too_long", position) from None
            else:
                word, value = _WORDS[text[position]]
                while not text.startswith(word, position):
                    arrived = text[position : position + len(word)]
                    for index, letter in enumerate(arrived):
                        if letter != word[index]:
                            raise _Impossible("bad_literal", position + index)
                    word = word[len(arrived) :]
                    cursor.path = path
                    text = yield out
                    out, position, end = [], 0, len(text)
                    origin = cursor.offset - end
                position += len(word)

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
