"""``argstream parse``: JSON as it arrives → fragments as NDJSON, flushed per chunk."""

import json
import os
import re
import sys
from collections.abc import Iterator
from io import FileIO
from select import select

from argstream.jsonstream import Fragment, Limits, Parser

__all__ = ["parse_to_ndjson"]

_CHUNK = 64 * 1024


def parse_to_ndjson(file: str) -> int:
    """Copy a file, or standard input for "-", to standard output as fragments.

    Returns the exit status: 0 for complete, 1 for malformed or truncated, 2 if it cannot be read.
    """
    # A person's own file may be as long as they like; what it costs is their own memory.
    parser = Parser(Limits(max_chars=sys.maxsize))
    try:
        for chunk in _chunks(file):
            _write(parser.feed(chunk))
            if parser.error is not None:
                break
    except _UnreadableError as error:
        _complain(f"cannot read {ascii(file)[1:-1]}: {error}")
        return 2
    _write(parser.close())
    if parser.error is None:
        return 0
    _complain(f"{parser.verdict}, in {json.dumps(parser.error.path)}: {parser.error.message}")
    return 1


class _UnreadableError(Exception):
    """The file cannot be opened or read; the message says why."""


def _chunks(file: str) -> Iterator[bytes]:
    """Read without a buffer, which gives what has arrived and does not wait for more."""
    standard_input = 0
    if file == "-" and os.isatty(standard_input):
        _complain("type JSON, then Ctrl-D on a line of its own")
    try:
        with FileIO(standard_input, closefd=False) if file == "-" else FileIO(file) as source:
            while (chunk := source.read(_CHUNK)) != b"":
                if chunk is None:  # it was made non-blocking, and nothing has arrived
                    select([source], [], [])
                else:
                    yield chunk
    except OSError as error:
        raise _UnreadableError(error.strerror) from error


def _complain(message: str) -> None:
    print(f"argstream: {message}", file=sys.stderr)  # noqa: T201 - this is what it is for


def _write(fragments: list[Fragment]) -> None:
    for fragment in fragments:
        line = {"fragment": type(fragment).__name__.lower(), **fragment._asdict()}
        sys.stdout.write(_to_json(line) + "\n")
    sys.stdout.flush()


def _to_json(line: dict[str, object]) -> str:
    """Write printable ASCII only, so that nothing in the text can act on a terminal."""
    try:
        return json.dumps(line, allow_nan=False)
    except ValueError:
        # JSON cannot write infinity, but a number too large for a float: that is what was read.
        return re.sub(
            r'("(?:[^"\\]|\\.)*")|Infinity', lambda token: token[1] or "1e999", json.dumps(line)
        )
