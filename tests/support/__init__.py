"""Shared by the tests of the parser: exact comparison, and feeding a text to the parser."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn

import pytest

from argstream.jsonstream import Fragment, Limits, Parser, Text
from argstream.sanitise import visible_line
from argstream.testing import chunkings

# A fragment as a plain tuple whose first item is its type and whose values compare exactly: a named
# tuple would equal one of another type, and in Python 1 == 1.0 == True.
Exact = tuple[str, ...]


def exact(fragments: Iterable[Fragment]) -> list[Exact]:
    """Return fragments in comparable form, with adjacent Text of one path joined (invariant 1)."""
    joined: list[Fragment] = []
    for fragment in fragments:
        last = joined[-1] if joined else None
        if isinstance(fragment, Text) and isinstance(last, Text) and fragment.path == last.path:
            joined[-1] = Text(last.path, last.text + fragment.text)
        else:
            joined.append(fragment)
    return [(type(fragment).__name__, *map(repr, fragment)) for fragment in joined]


@cache
def hidden_ranges() -> list[tuple[int, int]]:
    """Return the first and last code points of the ranges of characters that are escaped."""
    runs = groupby(range(0x110000), lambda code: visible_line(chr(code)) != chr(code))
    found = [list(run) for is_hidden, run in runs if is_hidden]
    return [(codes[0], codes[-1]) for codes in found]


def screen(name: str) -> list[str]:
    """Return the lines of a text that a user sees, kept in ``tests/screens``."""
    return (Path(__file__).parents[1] / f"screens/{name}.txt").read_text("utf-8").splitlines()


def every_way(text: str) -> Iterator[tuple[str, Sequence[str | bytes]]]:
    """Cut a text in all ways of ``chunkings``, as text and as bytes."""
    yield from chunkings(text)
    for name, chunks in chunkings(text.encode()):
        yield f"bytes: {name}", chunks


def run(
    chunks: Iterable[str | bytes], limits: Limits | None = None
) -> tuple[Parser, list[Fragment]]:
    parser = Parser(limits)
    fragments: list[Fragment] = []
    for chunk in chunks:
        fragments += parser.feed(chunk)
    fragments += parser.close()
    return parser, fragments


def feed_all(chunks: Iterable[str | bytes], limits: Limits | None = None) -> Parser:
    """Feed chunks up to the first error, and do not close."""
    parser = Parser(limits)
    for chunk in chunks:
        parser.feed(chunk)
        if parser.error is not None:
            break
    return parser


def encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=repr).encode()


def loads(text: str | bytes) -> Any:
    """Parse with json.loads, and replace lone surrogates (invariant 4) before keys are merged."""

    def merge(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {replace_surrogates(key): value for key, value in pairs}

    return replace_surrogates(json.loads(text, object_pairs_hook=merge))


def replace_surrogates(value: Any) -> Any:
    match value:
        case str():
            return re.sub("[\ud800-\udfff]", "\ufffd", value)
        case list():
            return [replace_surrogates(item) for item in value]
        case dict():
            return {key: replace_surrogates(item) for key, item in value.items()}
        case _:
            return value


def program_is_missing(what: str) -> NoReturn:
    """Skip a test whose program is missing, or fail it if ``CI`` is set."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
