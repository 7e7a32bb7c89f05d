"""The recursive form of fragments: a path becomes nesting, as in jp's RFD 043.

``nested`` translates one of our flat fragments. The form knows a value only by its pieces and its
end, so it has nothing for ``Key`` and ``Start``, and an empty string, object and array look alike
in it. ``Invalid``, which it lacks too, is passed on as it is: an error must not get lost in
translation.
"""

from dataclasses import dataclass
from typing import TypeAlias

from argstream.jsonstream import fragments as flat

__all__ = ["ArrayItem", "Done", "NestedFragment", "ObjectEntry", "Scalar", "String", "nested"]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, true, false or null, whole."""

    value: int | float | bool | None


@dataclass(frozen=True, slots=True)
class String:
    """A piece of a string."""

    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """No more fragments for this value."""


@dataclass(frozen=True, slots=True)
class ArrayItem:
    """A fragment of an item of an array."""

    index: int
    value: "NestedFragment"


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """A fragment of the value of an object's entry."""

    key: str
    value: "NestedFragment"


NestedFragment: TypeAlias = Scalar | String | ArrayItem | ObjectEntry | Done


def nested(fragment: flat.Fragment) -> tuple[NestedFragment | flat.Invalid, ...]:
    """Translate a fragment: to nothing for ``Key`` and ``Start``, to two for the end of a scalar.

    >>> nested(flat.Text(("patterns", 0), "lo"))
    (ObjectEntry(key='patterns', value=ArrayItem(index=0, value=String(text='lo'))),)
    """
    match fragment:
        case flat.Text(path, text):
            return (_wrap(path, String(text)),)
        case flat.Done(path, int() | float() | None as value):
            return _wrap(path, Scalar(value)), _wrap(path, Done())
        case flat.Done(path):
            return (_wrap(path, Done()),)
        case flat.Invalid():
            return (fragment,)
        case _:
            return ()


def _wrap(path: flat.JsonPath, leaf: NestedFragment) -> NestedFragment:
    for step in reversed(path):
        leaf = ArrayItem(step, leaf) if isinstance(step, int) else ObjectEntry(step, leaf)
    return leaf
