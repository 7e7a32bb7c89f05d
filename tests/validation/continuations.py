"""Other values that a text could still become, after some of its fragments."""

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from argstream.jsonstream import Done, Fragment, Key, Start, Text
from tests.validation.schemas import NAMES, NUMBERS, TEXTS, random_instance


class Vocabulary(NamedTuple):
    """With what a text may go on."""

    endings: Sequence[str]
    """Of a string."""
    values: Sequence[Any]
    """Where any value may stand; its numbers are those that may follow the start of one."""
    members: Sequence[dict[str, Any]]
    """What an object may get before it is closed, less what it has."""
    items: Sequence[list[Any]]
    """What an array may get before it is closed."""


def continuations(fragments: Iterable[Fragment], vocabulary: Vocabulary) -> Iterator[Any]:
    """Yield every value whose text begins with these fragments and goes on as it may."""
    unfinished = _Unfinished(fragments)
    values: Iterable[Any] = _endings(unfinished, vocabulary)
    for container, key in reversed(unfinished.containers):
        values = list(_completed(container, key, values, vocabulary))
    yield from values


def continuation(fragments: Iterable[Fragment], random: Random) -> Any:
    """Return one such value, at random."""
    vocabulary = Vocabulary(
        TEXTS,
        [random_instance(random), random.choice(NUMBERS), True, False, None],
        [_random_members(random)],
        [[random_instance(random) for _ in range(random.randrange(3))]],
    )
    return random.choice(list(continuations(fragments, vocabulary)))


def _random_members(random: Random) -> dict[str, Any]:
    names = random.sample(NAMES, random.randrange(3))
    return {name: random_instance(random) for name in names}


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
    """Yield the container with each of the values at its end, and more after that."""
    for value in values:
        if isinstance(container, list):
            items = container if value is _NOTHING else [*container, value]
            for more_items in vocabulary.items:
                yield items + more_items
        else:
            members = container if value is _NOTHING else {**container, key: value}
            for more in vocabulary.members:
                # A key that is there must not be given again.
                yield members | {name: more[name] for name in more if name not in members}


class _Unfinished:
    """What some fragments leave open: a scalar, and the containers around it."""

    def __init__(self, fragments: Iterable[Fragment]) -> None:
        self.containers: list[tuple[Any, str | None]] = []
        """From the outside in, each with the key whose value has not come."""
        self.open: str | None = "any"
        """Which kind of scalar has begun; ``any`` if anything may; None if nothing is open."""
        self.text = ""
        self.done: Any = _NOTHING
        """The value, if all of it has come."""
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
