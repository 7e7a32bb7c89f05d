"""``argstream parse``: JSON as it arrives → fragments as NDJSON, flushed per chunk."""

import json
import os
import re
import sys
from io import FileIO
from pathlib import Path

from argstream.jsonstream import Fragment, Limits, Parser

__all__ = ["parse_to_ndjson"]

_CHUNK = 64 * 1024


def parse_to_ndjson(file: Path) -> int:
    """Copy a file, or standard input for "-", to standard output as fragments.

    Returns the exit status: 0 for complete, 1 for malformed or truncated, 2 for unreadable.
    """
    try:
        source = _open(file)
    except OSError as error:
        _complain(f"cannot read {file}: {error.strerror}")
        return 2
    # A person's own file may be as long as they like; what it costs is their own memory.
    parser = Parser(Limits(max_chars=sys.maxsize))
    with source:
        while parser.error is None and (chunk := source.read(_CHUNK)):
            _write(parser.feed(chunk))
    _write(parser.close())
    if parser.error is None:
        return 0
    _complain(f"{parser.verdict}, in {json.dumps(parser.error.path)}: {parser.error.message}")
    return 1


def _open(file: Path) -> FileIO:
    """Open without a buffer, so that a read gives what has arrived and does not wait for more."""
    if str(file) != "-":
        return FileIO(file)
    standard_input = 0
    if os.isatty(standard_input):
        _complain("type JSON, then Ctrl-D on a line of its own")
    return FileIO(standard_input, closefd=False)


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
        written = json.dumps(line, allow_nan=False)
    except ValueError:
        # JSON cannot write infinity, but a number too large for a float: that is what was read.
        written = re.sub(
            r'("(?:[^"\\]|\\.)*")|Infinity', lambda token: token[1] or "1e999", json.dumps(line)
        )
    return written.replace("\x7f", "\\u007f")
