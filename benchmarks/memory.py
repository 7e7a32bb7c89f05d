"""How much memory one call takes while it is written, its events dropped as they come.

``tracemalloc`` counts what Python asks for. The bytes that arrive are made before it starts, so
they are not in the figures.
"""

import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass

from argstream import ToolArgsDelta, stream
from wire_workloads import WireWorkload


@dataclass(frozen=True)
class Memory:
    """What the calls of one protocol take."""

    protocol: str
    small_size: int
    large_size: int
    small_bytes: int
    """At most, with the small arguments, to the end of the stream."""
    open_bytes_per_character: float
    """From the small arguments to the large ones, until the last piece of them."""
    bytes_per_character: float
    """The same, to the end of the stream."""


def weigh(small: WireWorkload, large: WireWorkload) -> Memory:
    """Compare a small and a large call: a difference has no constant in it."""
    _peaks(small.chunks)  # what is made once, whatever is read, is made here
    small_open, small_end = _peaks(small.chunks)
    large_open, large_end = _peaks(large.chunks)
    characters = len(large.arguments) - len(small.arguments)
    return Memory(
        small.protocol,
        small.size,
        large.size,
        small_end,
        (large_open - small_open) / characters,
        (large_end - small_end) / characters,
    )


def _peaks(chunks: Sequence[bytes]) -> tuple[int, int]:
    """Read a stream and give the most memory: until the last piece, and until the end."""
    while_open = 0
    tracemalloc.start()
    try:
        for event in stream(chunks):
            if type(event) is ToolArgsDelta:
                while_open = tracemalloc.get_traced_memory()[1]
        return while_open, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
