"""Finding secrets in bytes, in linear time however many there are, in all ways to spell them.

Of a secret that looks random, any run of twelve characters is found; of one that may be a word, all
of it. A run of twelve in the data has a whole block of six in it that begins at a multiple of six.
So only these are looked up, among all blocks of all secrets, and then followed to both sides.
"""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

from argstream.recording._secrets import looks_random

__all__ = ["SecretSearch"]

_SHORTEST_SECRET: Final = 8  # a shorter one would be found in many a word
_SHORTEST_RUN: Final = 12  # of a longer one, what gives away a part of it
_BLOCK: Final = _SHORTEST_RUN // 2
_NO_TEXT: Final = b"\xff"


class SecretSearch:
    """Looks for secrets. It is false if there are none that can be looked for."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._whole: set[bytes] = set()
        self._blocks: dict[bytes, list[tuple[bytes, int]]] = {}
        # The lines, because in JSON or base64 a line may stand elsewhere than the next one.
        lines = {line.strip() for secret in secrets for line in secret.splitlines()}
        all_spellings: set[bytes] = set()
        for line in lines:
            if len(line) >= _SHORTEST_SECRET:
                spellings = set(_spellings(line)) - all_spellings
                all_spellings |= spellings
                self._add(spellings, by_runs=looks_random(line))
        self._all = _NO_TEXT.join(all_spellings)

    def _add(self, spellings: set[bytes], *, by_runs: bool) -> None:
        for spelling in spellings:
            if by_runs and len(spelling) >= _SHORTEST_RUN:
                for offset in range(len(spelling) - _BLOCK + 1):
                    block = spelling[offset : offset + _BLOCK]
                    self._blocks.setdefault(block, []).append((spelling, offset))
            else:
                self._whole.add(spelling)

    def __bool__(self) -> bool:
        return bool(self._all)

    def growing(self, data: bytes) -> int:
        """Say how much at the end of the data may go on as a part of a secret."""
        length = 0
        while length < len(data) and data[-length - 1 :] in self._all:
            length += 1
        return length

    def found(self, data: bytes) -> list[tuple[int, int]]:
        """Find all secrets, in order, joined where they touch."""
        joined: list[tuple[int, int]] = []
        for start, stop in sorted([*self._found_whole(data), *self._found_runs(data)]):
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
            else:
                joined.append((start, stop))
        return joined

    def _found_whole(self, data: bytes) -> Iterator[tuple[int, int]]:
        for secret in self._whole:
            position = data.find(secret)
            while position >= 0:
                yield position, position + len(secret)
                position = data.find(secret, position + 1)

    def _found_runs(self, data: bytes) -> Iterator[tuple[int, int]]:
        blocks, done = self._blocks, 0
        if not blocks:
            return
        for position in range(0, len(data) - _BLOCK + 1, _BLOCK):
            places = blocks.get(data[position : position + _BLOCK])
            if places is None or position + _BLOCK <= done:
                continue
            for secret, offset in places:
                start, stop = _extent(data, position, secret, offset)
                if stop - start >= _SHORTEST_RUN:
                    yield start, stop
                    done = max(done, stop)


def _extent(data: bytes, position: int, secret: bytes, offset: int) -> tuple[int, int]:
    """Follow what is equal to both sides."""
    start, stop, first, last = position, position + _BLOCK, offset, offset + _BLOCK
    while start and first and data[start - 1] == secret[first - 1]:
        start, first = start - 1, first - 1
    while stop < len(data) and last < len(secret) and data[stop] == secret[last]:
        stop, last = stop + 1, last + 1
    return start, stop


def _spellings(secret: str) -> Iterator[bytes]:
    """Give a secret as it may stand in a body."""
    quoted = quote(secret, safe="", errors="replace")
    lower = re.sub("%..", lambda found: found[0].lower(), quoted)
    for text in (secret, quoted, lower, json.dumps(secret)[1:-1], html.escape(secret)):
        yield text.encode(errors="surrogateescape")
    plain = secret.encode(errors="surrogateescape")
    for before in range(3):  # bytes, in the group of three in which it begins
        encoded = base64.b64encode(bytes(before) + plain).rstrip(b"=")
        # What is mixed with its neighbours is left out.
        last = len(encoded) - (1 if (before + len(plain)) % 3 else 0)
        inside = encoded[(0, 2, 3)[before] : last]
        yield inside
        yield inside.translate(bytes.maketrans(b"+/", b"-_"))
