"""The recursive form of fragments, in which nesting replaces the path: jp's RFD 043.

``NestedParser.push`` parses a chunk and returns recursive fragments. ``nested`` translates one flat
fragment. ``FragmentAggregator`` accepts both forms.

``Key`` and ``Start`` have no recursive form. ``Invalid`` is not in the RFD and is passed through
unchanged, so that errors are not lost.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from argstream.jsonstream import _fragments as flat
from argstream.jsonstream._parser import Chunk, Limits, Parser, Pending, Verdict


@dataclass(frozen=True, slots=True)
class Scalar:
    """A complete number, true, false or null."""

    value: int | float | bool | None


@dataclass(frozen=True, slots=True)
class String:
    """The next piece of a string."""

    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """No more fragments follow for this value."""

    # The kind of a value without other fragments. RFD 043 leaves this open.
    empty: Literal["string", "array", "object"] | None = None


@dataclass(frozen=True, slots=True)
class ArrayItem:
    """A fragment of an array item."""

    index: int
    value: "NestedFragment"


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """A fragment of the value of an object entry."""

    key: str
    value: "NestedFragment"


NestedFragment: TypeAlias = Scalar | String | ArrayItem | ObjectEntry | Done


class NestedParser:
    """Parses JSON text into recursive fragments: the ``IncrementalArgParser`` of RFD 043.

    >>> parser = NestedParser()
    >>> parser.push('{"paths": ["lib')
    [ObjectEntry(key='paths', value=ArrayItem(index=0, value=String(text='lib')))]
    """

    def __init__(self, limits: Limits | None = None, *, unique_keys: bool = False) -> None:
        self._parser = Parser(limits, unique_keys=unique_keys)

    @property
    def value(self) -> flat.JsonValue | Pending:
        """The value so far, as in ``Parser.value``."""
        return self._parser.value

    @property
    def verdict(self) -> Verdict:
        """Whether the text is open, complete, truncated or malformed."""
        return self._parser.verdict

    def push(self, chunk: Chunk) -> list[NestedFragment | flat.Invalid]:
        """Parse the next chunk. Does not raise for invalid JSON."""
        return _nested(self._parser.feed(chunk))

    def close(self) -> list[NestedFragment | flat.Invalid]:
        """End the text. Returns the end of a root number, or ``Invalid`` for truncated text."""
        return _nested(self._parser.close())


def nested(fragment: flat.Fragment) -> tuple[NestedFragment | flat.Invalid, ...]:
    """Translate a flat fragment: to none for ``Key`` and ``Start``, to two for a done scalar.

    >>> nested(flat.Text(("patterns", 0), "lo"))
    (ObjectEntry(key='patterns', value=ArrayItem(index=0, value=String(text='lo'))),)
    """
    match fragment:
        case flat.Text(path, text):
            return (_wrap(path, String(text)),)
        case flat.Done(path, int() | float() | None as value):
            return _wrap(path, Scalar(value)), _wrap(path, Done())
        case flat.Done(path, ""):
            return (_wrap(path, Done("string")),)
        case flat.Done(path, list() as value) if not value:
            return (_wrap(path, Done("array")),)
        case flat.Done(path, dict() as value) if not value:
            return (_wrap(path, Done("object")),)
        case flat.Done(path):
            return (_wrap(path, Done()),)
        case flat.Invalid():
            return (fragment,)
        case _:
            return ()


def _nested(fragments: list[flat.Fragment]) -> list[NestedFragment | flat.Invalid]:
    return [form for fragment in fragments for form in nested(fragment)]


def _wrap(path: flat.JsonPath, leaf: NestedFragment) -> NestedFragment:
    for step in reversed(path):
        leaf = ArrayItem(step, leaf) if isinstance(step, int) else ObjectEntry(step, leaf)
    return leaf
