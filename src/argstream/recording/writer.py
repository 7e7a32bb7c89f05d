"""Writing a recording while its bytes arrive: each line is with the system before the next comes.

So a process that is killed loses nothing but the last moment, and a recording can be watched while
it grows: ``tail -f turn.rec | argstream watch``.
"""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from argstream.errors import UsageError
from argstream.recording._redaction import Redactor
from argstream.recording.format import (
    Chunk,
    End,
    Ending,
    Header,
    Request,
    Response,
    chunk_line,
    end_line,
    header_line,
)

__all__ = ["Recorder"]

_ONLY_OWNER = 0o600  # what a model says to somebody is theirs


class Recorder:
    """Writes one recording. Use ``with`` or ``close()``, so that it says how it ended.

    ``file`` is a path, which must not exist unless ``overwrite`` is true, or a binary file.
    ``secrets`` are looked for in all that is written, and taken out. ``clock`` gives seconds; times
    are counted from ``started``, which is now unless told otherwise.
    """

    def __init__(  # noqa: PLR0913 - all but the first have a name and a default
        self,
        file: str | Path | BinaryIO,
        *,
        overwrite: bool = False,
        request: Request | None = None,
        response: Response | None = None,
        secrets: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
        started: float | None = None,
    ) -> None:
        self._clock = clock
        self._started = clock() if started is None else started
        self._redactor = Redactor(secrets)
        self._is_closed = False
        self._path = Path(file) if isinstance(file, str | Path) else None
        self._owns_file = self._path is not None
        self._file = _open_new(file, overwrite=overwrite) if isinstance(file, str | Path) else file
        since = datetime.now(UTC).timestamp() - (clock() - self._started)
        recorded = datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds")
        self._write(header_line(Header(recorded.replace("+00:00", "Z"), request, response)))

    def write(self, chunk: bytes) -> None:
        """Write what has arrived now. Nothing is nothing."""
        if self._is_closed:
            raise UsageError("the recording is closed")
        if not isinstance(chunk, bytes | bytearray | memoryview):
            raise UsageError(
                f"a recording is of bytes as they came, not of {type(chunk).__name__}: give it "
                "what iter_bytes() or aiter_bytes() of the response gives"
            )
        if chunk:
            for at, data in self._redactor.feed(self._clock() - self._started, bytes(chunk)):
                self._write(chunk_line(Chunk(at, data)))

    @property
    def removed(self) -> int:
        """How often a secret was taken out of what was written."""
        return self._redactor.removed

    def discard(self) -> None:
        """Take back what is written, because it is no recording of anything."""
        self._is_closed = True
        if self._path is not None:
            self._file.close()
            if self._path.is_file():
                self._path.unlink()

    def close(self, ending: Ending = "orderly", reason: str = "") -> None:
        """Write how it ended; once."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            for at, data in self._redactor.close():
                self._write(chunk_line(Chunk(at, data)))
            reason = self._redactor.redacted(reason)
            at = self._clock() - self._started
            self._write(end_line(End(at, ending, reason, self.removed)))
        finally:
            if self._owns_file:
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        elif isinstance(error, Exception):
            self.close("cut", f"the source failed with {type(error).__name__}")
        else:  # Ctrl-C, a generator that is closed, a task that is cancelled
            self.close("aborted", "reading was stopped")

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        try:
            while left:
                written = self._file.write(left)
                left = left[written or 0 :]  # a raw file may write less, or nothing yet
            self._file.flush()
        except OSError:
            # What is written ends in the middle of a line, so nothing may follow it.
            self._is_closed = True
            if self._owns_file:
                self._file.close()
            raise


def _open_new(file: str | Path, *, overwrite: bool = False) -> BinaryIO:
    """Open a file to write to, for its owner only, without a buffer; an existing one is kept.

    A device or a pipe is not kept, but used.
    """
    path = Path(file)
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
    flags |= os.O_TRUNC if overwrite or (path.exists() and not path.is_file()) else os.O_EXCL
    descriptor = os.open(path, flags, _ONLY_OWNER)
    if overwrite and path.is_file():
        with suppress(OSError):  # if it is somebody else's, they know who may read it
            path.chmod(_ONLY_OWNER)
    # Raw on purpose: what a buffer could not write, it would try to write again when it is closed.
    return FileIO(descriptor, "wb")
