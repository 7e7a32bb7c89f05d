"""The recursive form of fragments, in which nesting replaces the path: jp's RFD 043.

``NestedParser.push`` parses a chunk and returns recursive fragments. ``nested`` translates one flat
fragment. ``FragmentAggregator`` builds values from fragments of either form.

``Key`` and ``Start`` have no recursive form. ``Invalid`` is not in the RFD and is passed through
unchanged, so that errors are not lost.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from argstream.errors import UsageError
from argstream.jsonstream import _fragments as flat
from argstream.jsonstream._parser import PENDING, Chunk, Limits, Parser, Pending, Verdict


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
        case flat.Done(path, value):
            empty: Any = None if value else flat.kind_of(value)
            return (_wrap(path, Done(empty)),)
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
        self._leaf: list[Any] = []  # the texts or the scalar of the value in recursive form

    def push(self, fragment: flat.Fragment | NestedFragment) -> flat.JsonValue | Pending:
        """Return the value that this fragment completes, at any path, otherwise PENDING."""
        match fragment:
            case flat.Start(kind="object"):
                self._open.append({})
            case flat.Start(kind="array"):
                self._open.append([])
            case flat.Done(path, value):
                if isinstance(value, dict | list):
                    value = self._open.pop()  # the copy, not the parser's value
                self._add(value, path[-1] if path else None)
                return value
            case Scalar() | String() | ArrayItem() | ObjectEntry() | Done():
                return self._push_nested(fragment)
            case flat.Key() | flat.Start() | flat.Text() | flat.Invalid():
                pass
            case _:
                raise UsageError(
                    f"push() needs a fragment, not {type(fragment).__name__}. Push one at a time"
                )
        return PENDING

    def _push_nested(self, fragment: NestedFragment) -> flat.JsonValue | Pending:
        depth, step = 0, None
        while isinstance(fragment, ArrayItem | ObjectEntry):
            if depth == len(self._open):
                self._open.append([] if isinstance(fragment, ArrayItem) else {})
            step = fragment.key if isinstance(fragment, ObjectEntry) else fragment.index
            depth, fragment = depth + 1, fragment.value
        if isinstance(fragment, Done):
            value = self._completed(depth, fragment.empty)
            self._add(value, step)
            return value
        self._leaf.append(fragment.text if isinstance(fragment, String) else fragment.value)
        return PENDING

    def _completed(self, depth: int, empty: str | None) -> flat.JsonValue:
        if len(self._open) > depth:
            container: flat.JsonValue = self._open.pop()
            return container
        leaf, self._leaf = self._leaf, []
        if leaf:
            return "".join(leaf) if isinstance(leaf[0], str) else leaf[0]
        if empty is None:
            raise UsageError(
                "Done() follows no other fragment, so the kind of the empty value is unknown. "
                "Pass Done('string'), Done('array') or Done('object')"
            )
        values: dict[str, flat.JsonValue] = {"string": "", "array": [], "object": {}}
        return values[empty]

    def _add(self, value: Any, step: str | int | None) -> None:
        match self._open:
            case [*_, dict() as parent]:
                parent[step] = value
            case [*_, list() as parent]:
                parent.append(value)
