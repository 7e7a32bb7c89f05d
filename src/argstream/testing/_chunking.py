"""Cut text or bytes into chunks, to test that chunking never matters."""

from collections.abc import Iterable, Iterator
from itertools import cycle
from random import Random
from typing import TypeVar

from argstream.errors import UsageError

Data = TypeVar("Data", str, bytes)


def cut(data: Data, sizes: Iterable[int]) -> list[Data]:
    """Cut into chunks of these sizes, repeated. A size of 0 makes an empty chunk.

    >>> cut("abcdefg", [2, 0, 1])
    ['ab', '', 'c', 'de', '', 'f', 'g']
    """
    sizes = list(sizes)
    if data and (not any(sizes) or min(sizes) < 0):
        raise UsageError(f"cut: sizes must not be negative, and not all 0: {sizes}")
    chunks = []
    position = 0
    for size in cycle(sizes):
        if position >= len(data):
            break
        chunks.append(data[position : position + size])
        position += size
    return chunks


def at_every_place(data: Data) -> Iterator[list[Data]]:
    """Yield the data cut once, at each position in turn.

    >>> list(at_every_place("abc"))
    [['a', 'bc'], ['ab', 'c']]
    """
    for position in range(1, len(data)):
        yield [data[:position], data[position:]]


def chunkings(data: Data, seed: int = 0) -> Iterator[tuple[str, list[Data]]]:
    """Yield ways to cut the data, each with a name for the failure message.

    Whole, one unit at a time, in twos and threes, at random, with and without empty chunks.
    """
    empty = data[:0]
    yield "whole", [data]
    yield "whole between empty chunks", [empty, data, empty, empty]
    for size in (1, 2, 3):
        yield f"chunks of {size}", cut(data, [size])
    random = Random(seed)  # noqa: S311 - not for secrets
    for name, sizes in (
        ("random chunks of 1 to 7", range(1, 8)),
        ("random chunks of 0 to 4, empty ones too", range(5)),
        ("random chunks of 1 to 64", range(1, 65)),
    ):
        drawn: list[int] = [random.choice(sizes) for _ in data]
        yield f"{name} (seed {seed})", cut(data, [*drawn, 1])
