"""``argstream parse``: JSON as it arrives → fragments as NDJSON, flushed per chunk."""

import json
import re
import sys

from argstream.cli._input import UnreadableFile, chunks, complain
from argstream.jsonstream import Fragment, Limits, Parser

__all__ = ["parse_to_ndjson"]


def parse_to_ndjson(file: str) -> int:
    """Copy a file, or standard input for "-", to standard output as fragments.

    Returns the exit status: 0 for complete, 1 for malformed or truncated, 2 if it cannot be read.
    """
    # A person's own file may be as long as they like; what it costs is their own memory.
    parser = Parser(Limits(max_chars=sys.maxsize))
    try:
        for chunk in chunks(file, "type JSON, then Ctrl-D on a line of its own"):
            _write(parser.feed(chunk))
            if parser.error is not None:
                break
    except UnreadableFile as error:
        complain(str(error))
        return 2
    _write(parser.close())
    if parser.error is None:
        return 0
    complain(f"{parser.verdict}, in {json.dumps(parser.error.path)}: {parser.error.message}")
    return 1


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
