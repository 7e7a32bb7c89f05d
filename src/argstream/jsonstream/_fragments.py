"""The five fragments into which JSON text is parsed.

A fragment is flat and carries its path, so each one can be understood alone. All fragments of a
value share one path tuple. Offsets count characters, not bytes.

The order for every value is ``Start``, any number of ``Text`` (strings only), ``Done``. In an
object, a ``Key`` comes before the ``Start``. Children are done before their parents. ``Invalid``
is always the last fragment.

Fragments are named tuples, which cost half as much as dataclasses. Different types with equal
fields compare equal, so check the type too, for example with ``match``.
"""

from typing import Final, Literal, NamedTuple, TypeAlias, get_args

JsonValue: TypeAlias = dict[str, "JsonValue"] | list["JsonValue"] | str | int | float | bool | None
JsonPath: TypeAlias = tuple[str | int, ...]
Kind: TypeAlias = Literal["object", "array", "string", "number", "boolean", "null"]
Reason: TypeAlias = Literal[
    "unexpected_character",
    "extra_text",
    "bad_literal",
    "bad_number",
    "bad_escape",
    "control_character",
    "invalid_utf8",
    "duplicate_key",
    "not_an_object",
    "truncated",
    "too_deep",
    "too_long",
    "key_too_long",
    "number_too_long",
    "number_too_large",
]

_MESSAGES: Final[dict[Reason, str]] = {
    "unexpected_character": "this character is not allowed here",
    "extra_text": "the value is complete, only white space may follow",
    "bad_literal": "not one of the JSON literals true, false and null",
    "bad_number": "not a valid JSON number",
    "bad_escape": r"a backslash must be followed by one of \"\\/bfnrt or by u and four hex digits",
    "control_character": r"a control character in a string must be escaped, as \n or \u0000",
    "invalid_utf8": "the bytes are not UTF-8",
    "duplicate_key": "the object already has this key",
    "not_an_object": "the arguments of a tool must be an object",
    "truncated": "the text ended before the value was complete",
    "too_deep": "nested deeper than Limits.max_depth allows",
    "too_long": "longer than Limits.max_chars allows",
    "key_too_long": "a key longer than Limits.max_key_chars allows",
    "number_too_long": "a number with more digits than Limits.max_digits allows",
    "number_too_large": "a number too large for a float, where it would become infinite",
}


class Key(NamedTuple):
    """An object key is complete and its value has not started. The path ends with the key."""

    path: JsonPath
    offset: int  # of the key's closing quote


class Start(NamedTuple):
    """The first character of a value, which determines its kind."""

    path: JsonPath
    kind: Kind
    offset: int  # of the value's first character


class Text(NamedTuple):
    """The next piece of a string, decoded and not empty. At most one per value and feed."""

    path: JsonPath
    text: str


class Done(NamedTuple):
    """The value at this path is complete. The root's path is ``()``."""

    path: JsonPath
    value: JsonValue
    offset: int  # just past the value's last character


class Invalid(NamedTuple):
    """The text is not valid JSON, ended too early, or exceeded a limit. No fragments follow."""

    path: JsonPath
    offset: int  # of the first invalid character, or of the premature end
    reason: Reason

    @property
    def message(self) -> str:
        """The reason as a sentence, with the offset."""
        return f"{_MESSAGES[self.reason]} (at character {self.offset})"


Fragment: TypeAlias = Key | Start | Text | Done | Invalid

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
KIND_WORDS: Final[dict[Kind, str]] = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "number": "a number",
    "boolean": "a boolean",
    "null": "null",
}
KIND_OF_TYPE: Final[dict[type, Kind]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
}


def kind_of(value: object) -> Kind | None:
    """Return the JSON kind of a value, or None.

    >>> kind_of(True), kind_of(1), kind_of((1,))
    ('boolean', 'number', None)
    """
    if (kind := KIND_OF_TYPE.get(type(value))) is not None:
        return kind
    # For subclasses. bool comes before int in the table, because it is a subclass of int.
    return next((kind for base, kind in KIND_OF_TYPE.items() if isinstance(value, base)), None)


def kind_words(value: object) -> str:
    kind = kind_of(value)
    return f"a {type(value).__name__}" if kind is None else KIND_WORDS[kind]
