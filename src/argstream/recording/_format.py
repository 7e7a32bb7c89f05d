r"""The file format of recordings. Performs no I/O.

A recording consists of JSON lines: a header, a line for each chunk with its time, and a last line
that states how the stream ended. A recording without that line is truncated.
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
from argstream.wire._decoders import BYTE_ORDER_MARK

VERSION: Final = 1
"""Version of the format. It increases when old readers would misread new files."""

Ending: TypeAlias = Literal["orderly", "cut", "aborted"]
"""orderly: the source ended by itself. cut: the connection broke. aborted: reading was stopped."""

NOT_ENDED: Final = "the recording itself was cut off"  # it has no last line
DATA_AFTER_END: Final = "there is data after the end of the recording. Read one recording at a time"
_MAX_SECONDS: Final = 1e9  # about thirty years
_START: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"argstream"\s*:\s*"recording"\s*[,}]')


class Request(Struct, frozen=True, omit_defaults=True):
    """The request, without values that could be keys."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None  # only with ``with_request``, because it contains the prompt


class Response(Struct, frozen=True, omit_defaults=True):
    """The head of the response."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)


class Header(Struct, frozen=True, omit_defaults=True):
    """The first line: the time of the recording, and its request and response if known."""

    recorded: str = ""  # start of the recording: ISO 8601, UTC
    request: Request | None = None
    response: Response | None = None


class Chunk(NamedTuple):
    """Bytes that arrived together."""

    at: float  # seconds since the start
    data: bytes


class End(NamedTuple):
    """The last line."""

    at: float
    ending: Ending
    reason: str = ""
    removed: int = 0  # number of secrets removed from the chunks


class _Line(Struct):
    at: float = 0.0
    text: str | None = None
    base64: str | None = None
    end: Ending | None = None
    reason: str = ""
    removed: int = 0


_read_line = msgspec.json.Decoder(_Line).decode


def is_recording(start: bytes) -> bool:
    """Return True if these bytes start a recording. Its first hundred bytes are enough."""
    return _START.match(start) is not None


def header_line(header: Header) -> bytes:
    return _encode({"argstream": "recording", "version": VERSION, **msgspec.to_builtins(header)})


def chunk_line(chunk: Chunk) -> bytes:
    """Encode a chunk: as text if it is valid UTF-8, otherwise in base64."""
    try:
        return _encode({"at": round(chunk.at, 6), "text": chunk.data.decode()})
    except UnicodeDecodeError:
        encoded = base64.b64encode(chunk.data).decode()
        return _encode({"at": round(chunk.at, 6), "base64": encoded})


def end_line(end: End) -> bytes:
    details = {"reason": end.reason, "removed": end.removed}
    given = {name: value for name, value in details.items() if value}
    return _encode({"at": round(end.at, 6), "end": end.ending, **given})


def read_header(line: bytes) -> Header:
    """Parse the first line. Raises ``UsageError`` if it is invalid or of a later version."""
    line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        version = msgspec.json.decode(line, type=dict[str, Any]).get("version")
        if type(version) is not int or version < 1 or not is_recording(line):
            raise UsageError("not a recording of argstream: the first line has no version")
        if version > VERSION:
            raise UsageError(
                f"the recording has version {version}, but this argstream supports up to version "
                f"{VERSION}. Install a newer argstream"
            )
        return msgspec.json.decode(line, type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise UsageError("not a recording of argstream: the first line is damaged") from None


def read_line(line: bytes) -> Chunk | End | None:
    """Parse a line after the first. Return None for an unknown kind, as of a later version.

    Raises ``ValueError`` for an invalid line, such as a truncated one.
    """
    try:
        read = _read_line(line)
        if not 0 <= read.at <= _MAX_SECONDS:
            raise ValueError("invalid time")
        if read.text is not None:
            return Chunk(read.at, read.text.encode())
        if read.base64 is not None:
            return Chunk(read.at, base64.b64decode(read.base64, validate=True))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise ValueError("not a line of a recording") from None
    return None if read.end is None else End(read.at, read.end, read.reason, read.removed)


def _encode(line: Mapping[str, Any]) -> bytes:
    """Encode as ASCII, so that it cannot control a terminal."""
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"
