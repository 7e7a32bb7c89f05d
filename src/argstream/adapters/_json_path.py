"""The paths of leaves, as Gemini writes them: RFC 9535, as far as it names one place."""

import re
from collections.abc import Iterator
from typing import Final

from argstream.adapters._payloads import UnreadableError
from argstream.jsonstream import JsonPath

__all__ = ["parse_path"]

_STEP: Final = re.compile(
    r"""\.([^.\[]+)                       # .name
    |   \[ (0|[1-9][0-9]{0,14}) \]        # [0]
    |   \[ '( (?:[^'\\]|\\.)* )' \]       # ['name']
    |   \[ "( (?:[^"\\]|\\.)* )" \]       # ["name"]
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES: Final = dict(zip("bfnrt/\\'\"", "\b\f\n\r\t/\\'\"", strict=True))


def parse_path(path: str) -> JsonPath:
    r"""Read the JSON path of a leaf: names and indexes of RFC 9535.

    >>> parse_path("$.a[0]['x y']")
    ('a', 0, 'x y')
    """
    if not path.startswith("$") or path == "$":
        raise UnreadableError(f"not the path of an argument: {path[:80]}")
    return tuple(_steps(path))


def _steps(path: str) -> Iterator[str | int]:
    place = 1
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            raise UnreadableError(f"not the path of an argument: {path[:80]}")
        place = step.end()
        name, index, *quoted = step.groups()
        if index is not None:
            yield int(index)
        elif name is not None:
            yield name
        else:
            yield _ESCAPE.sub(_unescaped, next(text for text in quoted if text is not None))


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    if code not in _ESCAPES:
        raise UnreadableError(f"no escape of a JSON path: {escape[0]}")
    return _ESCAPES[code]
