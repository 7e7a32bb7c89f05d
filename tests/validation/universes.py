r"""Brute force: every text of a small universe, and what each beginning of one can become.

What a text says so far is its fragments, without their offsets: ``"a"`` and ``"\u0061"`` say the
same. A beginning is *alive* if a text of the universe that begins so is valid, or one of its
continuations is. The earliest possible fragment to refuse a text is the first whose beginning is
not alive.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations, product
from typing import Any, NamedTuple

import jsonschema_rs

from argstream.jsonstream import Done, Fragment, Invalid, Key, Start, Text
from argstream.testing import cut
from tests.validation.continuations import Vocabulary, continuations
from tests.validation.rulings import batches


class Reading(NamedTuple):
    """A text of the universe, read by single characters."""

    text: str
    value: Any
    said: list[list[Fragment]]
    """Its fragments, as they came with each character."""
    beginnings: list[int]
    """For each fragment a number that stands for everything said up to it."""

    @property
    def fragments(self) -> list[Fragment]:
        return [fragment for fragments in self.said for fragment in fragments]


class Universe:
    """Some JSON texts, all of which are whole; and, given a vocabulary, what could become of them.

    Continuations must hold a valid value wherever there is one, or the earliest fragment that is
    found here would be too early.
    """

    def __init__(self, texts: Iterable[str], vocabulary: Vocabulary | None = None) -> None:
        self._numbers: dict[tuple[int, object], int] = {}
        self._continuations: dict[int, list[Any]] = {}
        self.readings = [self._read(text) for text in dict.fromkeys(texts)]
        if vocabulary is not None:
            for reading in self.readings:
                self._go_on(reading, vocabulary)

    def _read(self, text: str) -> Reading:
        said = list(batches(cut(text, [1])))
        beginnings = []
        beginning = 0
        value: Any = None
        for fragment in (fragment for fragments in said for fragment in fragments):
            assert not isinstance(fragment, Invalid), text
            match = (beginning, _without_offset(fragment))
            beginning = self._numbers.setdefault(match, len(self._numbers) + 1)
            beginnings.append(beginning)
            if isinstance(fragment, Done):
                value = fragment.value
        return Reading(text, value, said, beginnings)

    def _go_on(self, reading: Reading, vocabulary: Vocabulary) -> None:
        fragments = reading.fragments
        for count, beginning in enumerate(reading.beginnings, 1):
            if beginning not in self._continuations:
                values = continuations(fragments[:count], vocabulary)
                self._continuations[beginning] = list(values)

    def alive(self, validator: jsonschema_rs.Validator) -> frozenset[int]:
        """Return the beginnings from which a valid value can be reached."""
        alive = {
            beginning
            for reading in self.readings
            if validator.is_valid(reading.value)
            for beginning in reading.beginnings
        }
        return frozenset(alive).union(
            beginning
            for beginning, values in self._continuations.items()
            if beginning not in alive and any(map(validator.is_valid, values))
        )


def earliest(reading: Reading, alive: frozenset[int]) -> int | None:
    """Return how many fragments it takes to know that the text is invalid; None if it is not."""
    for number, beginning in enumerate(reading.beginnings, 1):
        if beginning not in alive:
            return number
    return None


def _without_offset(fragment: Fragment) -> object:
    match fragment:
        case Key(path):
            return "key", path
        case Start(path, kind):
            return "start", path, kind
        case Text(path, text):
            return "text", path, text
        case Done(path, value):
            return "done", path, repr(value)
        case Invalid(path, _, reason):
            return "invalid", path, reason


def words(alphabet: Sequence[str], longest: int) -> list[str]:
    """Return all words over an alphabet, as they are written between quotes."""
    return [
        "".join(letters)
        for size in range(longest + 1)
        for letters in product(alphabet, repeat=size)
    ]


def strings(alphabet: Sequence[str], longest: int) -> list[str]:
    return [f'"{word}"' for word in words(alphabet, longest)]


def arrays(items: Sequence[str], longest: int) -> Iterator[str]:
    """Yield the texts of all arrays of these items."""
    for size in range(longest + 1):
        for chosen in product(items, repeat=size):
            yield "[" + ",".join(chosen) + "]"


def objects(keys: Sequence[str], values: Sequence[str], longest: int) -> Iterator[str]:
    """Yield the texts of all objects with these keys, in every order, and these values."""
    for size in range(longest + 1):
        for names in permutations(keys, size):
            if len({name.replace("\\u0061", "a") for name in names}) < size:
                continue  # the same key twice, once escaped
            for chosen in product(values, repeat=size):
                members = zip(names, chosen, strict=True)
                yield "{" + ",".join(f'"{name}":{value}' for name, value in members) + "}"
