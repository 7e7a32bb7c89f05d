"""A recording that never gets in the way: what goes wrong with it is noted, not raised."""

import zlib
from pathlib import Path
from typing import Final

from argstream.recording.format import Ending
from argstream.recording.writer import Recorder

__all__ = ["Tape", "is_readable_encoding"]

_ZLIB: Final = ("gzip", "x-gzip", "deflate")
_ANY_HEADER: Final = 47  # of zlib or of gzip, whichever it has


def is_readable_encoding(encoding: str) -> bool:
    """Say whether the bytes can be written as they were before they were compressed."""
    return encoding in ("", "identity", *_ZLIB)


class Tape:
    """Takes what a proxy passes on, as it was before it was compressed."""

    def __init__(self, recorder: Recorder, file: Path, encoding: str) -> None:
        self._recorder: Recorder | None = recorder
        self._decompress = zlib.decompressobj(_ANY_HEADER) if encoding in _ZLIB else None
        self.file = file
        self.problem = ""
        """Why it is not whole, if it is not."""

    def write(self, chunk: bytes) -> None:
        """Write what has arrived."""
        if self._recorder is None:
            return
        try:
            if self._decompress is not None:
                chunk = self._decompress.decompress(chunk)
            self._recorder.write(chunk)
        except zlib.error:
            self.close("cut", "the answer is not compressed as it says")
            self.problem = "the recording is not whole: the answer is not compressed as it says"
        except OSError as error:
            self._fail(error)

    def close(self, ending: Ending, reason: str) -> None:
        """Write how it ended; once."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            recorder.close(ending, reason)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.problem = f"the recording is not whole: {error.strerror}"
        self._recorder = None
