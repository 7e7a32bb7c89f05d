"""A recording that never gets in the way: what goes wrong with it is noted, not raised."""

import zlib
from pathlib import Path
from typing import Final

from argstream.recording.format import Ending
from argstream.recording.writer import Recorder

__all__ = ["Tape", "is_readable_encoding"]

_ZLIB: Final = ("gzip", "x-gzip", "deflate")
_ANY_HEADER: Final = 47  # of zlib or of gzip, whichever it has
_NO_HEADER: Final = -15
_LONGEST_HEADER: Final = 2  # of zlib: after that, it is known whether there is one
_NOT_COMPRESSED: Final = "the answer is not compressed as it says"
_NOT_WHOLE: Final = "the answer ends before what is compressed in it"


def is_readable_encoding(encoding: str) -> bool:
    """Say whether the bytes can be written as they were before they were compressed."""
    return encoding in ("", "identity", *_ZLIB)


class _Unpacking:
    """Undoes the compression of an answer while it comes."""

    def __init__(self, encoding: str) -> None:
        self._is_deflate = encoding == "deflate"
        self._unpack = zlib.decompressobj(_ANY_HEADER)
        self._start = b""  # what has come before anything could be told of it

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return self._unpack.eof or not self._start

    def feed(self, data: bytes) -> bytes:
        """Give what is in the next bytes; raises ``zlib.error`` if they are not as they should."""
        if len(self._start) < _LONGEST_HEADER:
            return self._feed_first(data)
        return self._feed(data)

    def _feed_first(self, data: bytes) -> bytes:
        self._start += data
        try:
            return self._feed(data)
        except zlib.error:
            if not self._is_deflate:
                raise
        self._is_deflate = False
        self._unpack = zlib.decompressobj(_NO_HEADER)  # many send it so, and all understand it
        return self._feed(self._start)

    def _feed(self, data: bytes) -> bytes:
        pieces = []
        while data:
            if self._unpack.eof:  # of gzip, there may be several, one after the other
                data = data.lstrip(b"\0")  # with which some fill it up
                if not data:
                    break
                self._unpack = zlib.decompressobj(_ANY_HEADER)
            pieces.append(self._unpack.decompress(data))
            data = self._unpack.unused_data
        return b"".join(pieces)


class Tape:
    """Takes what a proxy passes on, as it was before it was compressed."""

    def __init__(self, recorder: Recorder, file: Path, encoding: str) -> None:
        self._recorder: Recorder | None = recorder
        self._unpacking = _Unpacking(encoding) if encoding in _ZLIB else None
        self.file = file
        self.problem = ""
        """Why it is not whole, if it is not."""
        self.removed = 0
        """How often a secret was taken out."""

    def write(self, chunk: bytes) -> None:
        """Write what has arrived."""
        if self._recorder is None:
            return
        try:
            if self._unpacking is not None:
                chunk = self._unpacking.feed(chunk)
            self._recorder.write(chunk)
        except zlib.error:
            self._end("cut", _NOT_COMPRESSED)
            self.problem = f"the recording is not whole: {_NOT_COMPRESSED}"
        except OSError as error:
            self._fail(error)

    def close(self, ending: Ending, reason: str) -> None:
        """Write how it ended; once."""
        if self._recorder is None:
            return
        if ending == "orderly" and self._unpacking is not None and not self._unpacking.is_whole:
            ending, reason = "cut", _NOT_WHOLE
            self.problem = f"the recording is not whole: {_NOT_WHOLE}"
        self._end(ending, reason)

    def _end(self, ending: Ending, reason: str) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            recorder.close(ending, reason)
            self.removed = recorder.removed
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.problem = f"the recording is not whole: {error.strerror}"
        self._recorder = None
