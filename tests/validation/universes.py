r"""Brute force: every text of a small universe, and the values that each prefix can become.

A prefix is identified by its fragments without offsets, so ``"a"`` and ``"\u0061"`` are the same.
It is *alive* if a text of the universe that starts with it is valid, or one of its continuations
is. The earliest fragment at which a text can be rejected is the first whose prefix is not alive.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations, product
from typing import Any, NamedTuple

import jsonschema_rs

from argstream.jsonstream import Done, Fragment, Invalid, Key, Start, Text
from argstream.testing import cut
from tests.validation.checking import batches


class Vocabulary(NamedTuple):
    """How an unfinished text may continue."""

    endings: Sequence[str]  # of a string
    values: Sequence[Any]  # where any value may stand; of these, numbers after a first digit
    members: Sequence[dict[str, Any]]  # of an object, unless it has them
    items: Sequence[list[Any]]  # of an array


def continuations(fragments: Iterable[Fragment], vocabulary: Vocabulary) -> list[Any]:
    unfinished = _Unfinished(fragments)
    values = _endings(unfinished, vocabulary)
    for container, key in reversed(unfinished.containers):
        values = list(_completed(container, key, values, vocabulary))
    return values


_NOTHING = object()


def _endings(unfinished: "_Unfinished", vocabulary: Vocabulary) -> list[Any]:
    match unfinished.open:
        case "string":
            return [unfinished.text + ending for ending in vocabulary.endings]
        case "number":
            return [value for value in vocabulary.values if type(value) in (int, float)]
        case "boolean":
            return [True, False]
        case "null":
            return [None]
        case "any":
            return list(vocabulary.values)
        case _:
            return [unfinished.done]


def _completed(
    container: Any, key: str | None, values: Iterable[Any], vocabulary: Vocabulary
) -> Iterator[Any]:
    for value in values:
        if isinstance(container, list):
            items = container if value is _NOTHING else [*container, value]
            yield from (items + more for more in vocabulary.items)
        else:
            members = container if value is _NOTHING else {**container, key: value}
            for more in vocabulary.members:
                yield members | {name: more[name] for name in more if name not in members}


class _Unfinished:
    def __init__(self, fragments: Iterable[Fragment]) -> None:
        self.containers: list[tuple[Any, str | None]] = []  # outermost first, with the open key
        self.open: str | None = "any"  # the kind of the open scalar; "any" before a value
        self.text = ""
        self.done: Any = _NOTHING
        for fragment in fragments:
            self._take(fragment)

    def _take(self, fragment: Fragment) -> None:
        match fragment:
            case Key(path):
                self.containers[-1] = (self.containers[-1][0], str(path[-1]))
                self.open = "any"
            case Start(_, "object" | "array" as kind):
                self.containers.append(({} if kind == "object" else [], None))
                self.open = None
            case Start(_, kind):
                self.open, self.text = kind, ""
            case Text(_, text):
                self.text += text
            case Done(_, value):
                self.open = None
                if isinstance(value, dict | list):
                    self.containers.pop()
                if not self.containers:
                    self.done = value
                    return
                container, key = self.containers[-1]
                if isinstance(container, list):
                    container.append(value)
                else:
                    container[key] = value
            case _:
                pass


class Reading(NamedTuple):
    text: str
    value: Any
    batches: list[list[Fragment]]  # the fragments of each character
    prefixes: list[int]  # the number of the prefix that ends with each fragment

    @property
    def fragments(self) -> list[Fragment]:
        return [fragment for fragments in self.batches for fragment in fragments]


class Universe:
    """Complete JSON texts and, given a vocabulary, the continuations of their prefixes.

    Continuations must include a valid value wherever there is one.
    """

    def __init__(self, texts: Iterable[str], vocabulary: Vocabulary | None = None) -> None:
        self._numbers: dict[tuple[int, object], int] = {}
        self._continuations: dict[int, list[Any]] = {}
        self.readings = [self._read(text) for text in dict.fromkeys(texts)]
        if vocabulary is not None:
            for reading in self.readings:
                self._continue(reading, vocabulary)

    def _read(self, text: str) -> Reading:
        reading = Reading(text, None, list(batches(cut(text, [1]))), [])
        prefix = 0
        value: Any = None
        for fragment in reading.fragments:
            assert not isinstance(fragment, Invalid), text
            step = (prefix, _without_offset(fragment))
            prefix = self._numbers.setdefault(step, len(self._numbers) + 1)
            reading.prefixes.append(prefix)
            if isinstance(fragment, Done):
                value = fragment.value
        return reading._replace(value=value)

    def _continue(self, reading: Reading, vocabulary: Vocabulary) -> None:
        fragments = reading.fragments
        for count, prefix in enumerate(reading.prefixes, 1):
            if prefix not in self._continuations:
                self._continuations[prefix] = continuations(fragments[:count], vocabulary)

    def alive(self, validator: jsonschema_rs.Validator) -> frozenset[int]:
        valid = (one for one in self.readings if validator.is_valid(one.value))
        alive = {prefix for reading in valid for prefix in reading.prefixes}
        return frozenset(alive).union(
            prefix
            for prefix, values in self._continuations.items()
            if prefix not in alive and any(map(validator.is_valid, values))
        )


def earliest(reading: Reading, alive: frozenset[int]) -> int | None:
    dead = (number for number, prefix in enumerate(reading.prefixes, 1) if prefix not in alive)
    return next(dead, None)


def _without_offset(fragment: Fragment) -> object:
    match fragment:
        case Text(path, text):
            return "text", path, text
        case Start(path, kind):
            return "start", path, kind
        case Done(path, value):
            return "done", path, repr(value)
        case _:
            return "key", fragment.path


def strings(alphabet: Sequence[str], longest: int) -> list[str]:
    sizes = range(longest + 1)
    return [f'"{"".join(word)}"' for size in sizes for word in product(alphabet, repeat=size)]


def arrays(items: Sequence[str], longest: int) -> Iterator[str]:
    for size in range(longest + 1):
        for chosen in product(items, repeat=size):
            yield "[" + ",".join(chosen) + "]"


def objects(keys: Sequence[str], values: Sequence[str], longest: int) -> Iterator[str]:
    for size in range(longest + 1):
        for names in permutations(keys, size):
            if len({name.replace("\\u0061", "a") for name in names}) < size:
                continue  # the same key twice, once escaped
            for chosen in product(values, repeat=size):
                members = zip(names, chosen, strict=True)
                yield "{" + ",".join(f'"{name}":{value}' for name, value in members) + "}"
