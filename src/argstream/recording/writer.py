"""Writing a recording while its bytes arrive: each line is with the system before the next comes.

So a process that is killed loses nothing but the last moment, and a recording can be watched while
it grows: ``tail -f turn.rec | argstream watch``.
"""

import os
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
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

__all__ = ["Recorder", "record", "record_async"]

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
        self._owns_file = isinstance(file, str | Path)
        self._file = _open_new(file, overwrite=overwrite) if isinstance(file, str | Path) else file
        since = datetime.now(UTC).timestamp() - (clock() - self._started)
        recorded = datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds")
        self._write(header_line(Header(recorded.replace("+00:00", "Z"), request, response)))

    def write(self, chunk: bytes) -> None:
        """Write what has arrived now. Nothing is nothing."""
        if self._is_closed:
            raise UsageError("the recording is closed")
        if chunk:
            for at, data in self._redactor.feed(self._clock() - self._started, bytes(chunk)):
                self._write(chunk_line(Chunk(at, data)))

    def close(self, ending: Ending = "orderly", reason: str = "") -> None:
        """Write how it ended; once."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            for at, data in self._redactor.close():
                self._write(chunk_line(Chunk(at, data)))
            reason = self._redactor.redacted(reason)
            self._write(end_line(End(self._clock() - self._started, ending, reason)))
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
    # Raw on purpose: what a buffer could not write, it would try to write again when it is closed.
    return FileIO(os.open(path, flags, _ONLY_OWNER), "wb")


def record(
    source: Iterable[bytes], file: str | Path, *, overwrite: bool = False
) -> Iterator[bytes]:
    """Pass on what comes, and write it down: ``stream(record(response.iter_bytes(), "a.rec"))``."""
    return _recorded(source, Recorder(file, overwrite=overwrite))


def record_async(
    source: AsyncIterable[bytes], file: str | Path, *, overwrite: bool = False
) -> AsyncIterator[bytes]:
    """Do the same for an async source."""
    return _recorded_async(source, Recorder(file, overwrite=overwrite))


def _recorded(source: Iterable[bytes], recorder: Recorder) -> Iterator[bytes]:
    with recorder:
        for chunk in source:
            recorder.write(chunk)
            yield chunk


async def _recorded_async(source: AsyncIterable[bytes], recorder: Recorder) -> AsyncIterator[bytes]:
    with recorder:
        async for chunk in source:
            recorder.write(chunk)
            yield chunk
