r"""The lines of a recording: what they mean, and how they are written. Performs no I/O.

A recording is JSON lines. The first is the header; then comes a line for each chunk, as it arrived
and with its time; the last says how it ended. A recording without that line was cut off itself.
``docs/recordings.md`` describes the format.

>>> print(chunk_line(Chunk(0.25, b"data: hi\n\n")).decode(), end="")
{"at":0.25,"text":"data: hi\n\n"}
>>> read_line(b'{"at":0.25,"base64":"gA=="}')
Chunk(at=0.25, data=b'\x80')
"""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct, field

from argstream.errors import UsageError
from argstream.wire._frames import BYTE_ORDER_MARK

VERSION: Final = 1
"""Of the format. It grows when a reader of the old one would misread the new one."""

Ending: TypeAlias = Literal["orderly", "cut", "aborted"]
"""orderly: the source ended by itself. cut: it broke off. aborted: reading was stopped."""

NOT_ENDED: Final = "the recording itself was cut off"
"""The reason if there is no last line."""

GOES_ON: Final = (
    "a recording is over with its end, but something follows; of several recordings, read one at "
    "a time"
)
"""What is wrong with lines after the last one."""

_LONGEST: Final = 1e9  # seconds, about thirty years

_BEGINNING: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"argstream"\s*:\s*"recording"\s*[,}]')


class Request(Struct, frozen=True, omit_defaults=True):
    """What was asked, without anything that could be a key."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    """Only if it was asked for: it holds the prompt."""


class Response(Struct, frozen=True, omit_defaults=True):
    """How the answer began."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)


class Header(Struct, frozen=True, omit_defaults=True):
    """The first line: when it was recorded, and of what, as far as the recorder knew."""

    recorded: str = ""
    """The moment from which times are counted, as an ISO 8601 time in UTC."""
    request: Request | None = None
    response: Response | None = None


class Chunk(NamedTuple):
    """Bytes that arrived together."""

    at: float
    """Seconds since the start."""
    data: bytes


class End(NamedTuple):
    """The last line."""

    at: float
    ending: Ending
    reason: str = ""
    removed: int = 0
    """How often a secret was taken out of the chunks."""


class _Line(Struct):
    at: float = 0.0
    text: str | None = None
    base64: str | None = None
    end: Ending | None = None
    reason: str = ""
    removed: int = 0


class _Version(Struct):
    version: Any = None


_read_line = msgspec.json.Decoder(_Line).decode
_read_version = msgspec.json.Decoder(_Version).decode
_read_header = msgspec.json.Decoder(Header).decode


def is_recording(start: bytes) -> bool:
    """Return True if these bytes begin a recording. Its first hundred bytes are enough."""
    return _BEGINNING.match(start) is not None


def header_line(header: Header) -> bytes:
    told: dict[str, Any] = {"argstream": "recording", "version": VERSION}
    return _written({**told, **msgspec.to_builtins(header)})


def chunk_line(chunk: Chunk) -> bytes:
    """Encode a chunk: as text if it is UTF-8 by itself, otherwise in base64."""
    try:
        return _written({"at": round(chunk.at, 6), "text": chunk.data.decode()})
    except UnicodeDecodeError:
        encoded = base64.b64encode(chunk.data).decode()
        return _written({"at": round(chunk.at, 6), "base64": encoded})


def end_line(end: End) -> bytes:
    line: dict[str, Any] = {"at": round(end.at, 6), "end": end.ending}
    if end.reason:
        line["reason"] = end.reason
    if end.removed:
        line["removed"] = end.removed
    return _written(line)


def read_header(line: bytes) -> Header:
    """Parse the first line. Raises ``UsageError`` if it is none, or of a later version."""
    line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        version = _read_version(line).version
        if type(version) is not int or version < 1 or not is_recording(line):
            raise UsageError("this is no recording of argstream: its first line has no version")
        if version > VERSION:
            raise UsageError(
                f"this recording is of version {version}, and this argstream reads up to version "
                f"{VERSION}: install a newer one"
            )
        return _read_header(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise UsageError("this is no recording of argstream: its first line is broken") from None


def read_line(line: bytes) -> Chunk | End | None:
    """Parse a line after the first. Return None for one that a later version may have added.

    Raises ``ValueError`` for what is no line of a recording, such as one that was cut off.
    """
    try:
        read = _read_line(line)
        if not 0 <= read.at <= _LONGEST:
            raise ValueError("no time")
        if read.text is not None:
            return Chunk(read.at, read.text.encode())
        if read.base64 is not None:
            return Chunk(read.at, base64.b64decode(read.base64, validate=True))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise ValueError("no line of a recording") from None
    return None if read.end is None else End(read.at, read.end, read.reason, read.removed)


def _written(line: Mapping[str, Any]) -> bytes:
    """Encode as ASCII, so that nothing in it acts on a terminal."""
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"
