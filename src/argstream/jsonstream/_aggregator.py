"""Builds values from fragments."""

from collections.abc import Callable
from typing import Any, Final

from argstream.errors import UsageError
from argstream.jsonstream import recursive
from argstream.jsonstream._fragments import Done, Fragment, Invalid, JsonValue, Key, Start, Text
from argstream.jsonstream._parser import PENDING, Pending
from argstream.jsonstream.recursive import ArrayItem, NestedFragment, ObjectEntry, Scalar, String

_EMPTY: Final[dict[str, Callable[[], JsonValue]]] = {"string": str, "array": list, "object": dict}


class FragmentAggregator:
    """Builds values from the fragments of one document, flat or recursive.

    The values belong to the aggregator. Unlike ``Parser.value`` and the ``Done.value`` of a
    container, they are not shared with a parser.

    >>> from argstream.jsonstream import parse
    >>> aggregator = FragmentAggregator()
    >>> [value for f in parse('{"a": [1, "x"]}') if (value := aggregator.push(f)) is not PENDING]
    [1, 'x', [1, 'x'], {'a': [1, 'x']}]
    """

    def __init__(self) -> None:
        self._open: list[Any] = []  # the containers around the next value, outermost first
        # The incomplete value in recursive form.
        self._pieces: list[str] = []
        self._scalar: int | float | bool | Pending | None = PENDING

    def push(self, fragment: Fragment | NestedFragment) -> JsonValue | Pending:
        """Return the value that this fragment completes, at any path, otherwise PENDING."""
        match fragment:
            case Start(kind="object"):
                self._open.append({})
            case Start(kind="array"):
                self._open.append([])
            case Done(path, value):
                if isinstance(value, dict | list):
                    value = self._open.pop()  # the copy, not the parser's value
                self._add(value, path[-1] if path else None)
                return value
            case Scalar() | String() | ArrayItem() | ObjectEntry() | recursive.Done():
                return self._push_nested(fragment)
            case Key() | Start() | Text() | Invalid():
                pass
            case _:
                raise UsageError(
                    f"push() needs a fragment, not {type(fragment).__name__}. Push one at a time"
                )
        return PENDING

    def _push_nested(self, fragment: NestedFragment) -> JsonValue | Pending:
        depth, step = 0, None
        while isinstance(fragment, ArrayItem | ObjectEntry):
            if depth == len(self._open):
                self._open.append([] if isinstance(fragment, ArrayItem) else {})
            step = fragment.key if isinstance(fragment, ObjectEntry) else fragment.index
            depth, fragment = depth + 1, fragment.value
        if isinstance(fragment, recursive.Done):
            value = self._completed(depth, fragment.empty)
            self._add(value, step)
            return value
        if isinstance(fragment, String):
            self._pieces.append(fragment.text)
        else:
            self._scalar = fragment.value
        return PENDING

    def _completed(self, depth: int, empty: str | None) -> JsonValue:
        if len(self._open) > depth:
            container: JsonValue = self._open.pop()
            return container
        if self._pieces:
            text = "".join(self._pieces)
            self._pieces.clear()
            return text
        if not isinstance(self._scalar, Pending):
            scalar, self._scalar = self._scalar, PENDING
            return scalar
        if empty is None:
            raise UsageError(
                "Done() follows no other fragment, so the kind of the empty value is unknown. "
                "Pass Done('string'), Done('array') or Done('object')"
            )
        return _EMPTY[empty]()

    def _add(self, value: Any, step: str | int | None) -> None:
        match self._open:
            case [*_, dict() as parent]:
                parent[step] = value
            case [*_, list() as parent]:
                parent.append(value)
