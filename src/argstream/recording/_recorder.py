"""Writes recordings while the bytes arrive, and removes secrets from them.

Lines are not buffered. A process that is killed loses only the last moment, and a recording can be
watched while it grows: ``tail -f turn.rec | argstream watch``.
"""

import inspect
import os
import re
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Final, Self
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from argstream._secrets import REMOVED, Secrets
from argstream.errors import UsageError
from argstream.recording._format import (
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
from argstream.wire._decoders import is_payload

REQUEST_HEADERS: Final = frozenset(
    {"accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta", "user-agent"}
)
RESPONSE_HEADERS: Final = frozenset(
    {
        "content-type",
        "openai-processing-ms",
        "request-id",
        "retry-after",
        "x-amzn-requestid",
        "x-request-id",
    }
)
_PARAMETERS: Final = ("alt", "api-version", "beta")
# 24 letters and digits in a row may be a key. Other path segments are shorter or have separators.
_KEY: Final = re.compile("(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{24}")
_ONLY_OWNER: Final = 0o600
_MAX_NAME_CHARS: Final = 60
_FIELDS: Final = (b"event:", b"id:", b"retry:")
_ZLIB: Final = ("gzip", "x-gzip", "deflate")
READABLE_ENCODINGS: Final = ("", "identity", *_ZLIB)
_ANY_HEADER: Final = 47  # wbits that detect a zlib or gzip header
_NO_HEADER: Final = -15
_ZLIB_HEADER_BYTES: Final = 2
_MAX_PIECE: Final = 1024 * 1024  # a line has at most 64 MiB
# A recording of a compressed response may have this length plus this multiple of the compressed
# length. A byte can become six in JSON.
_MAX_UNPACKED: Final = 16 * 1024 * 1024
_MAX_RATIO: Final = 100


class Recorder:
    """Writes one recording. Use ``with`` or ``close()`` to write how it ended.

    ``file`` is a path, which must not exist unless ``overwrite`` is true, or a binary file.
    ``secrets`` (8 characters or more) are removed from the chunks and the end, not from ``request``
    and ``response``. ``clock`` returns seconds. Times are counted from ``started``, by default now.
    """

    def __init__(
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
        self._secrets = Secrets(secrets)
        self._redactor = self._secrets.redactor()
        self.length: int = 0  # of the file
        self._is_closed = False
        self._path = Path(file) if isinstance(file, str | Path) else None
        self._file = _open_new(file, overwrite=overwrite) if isinstance(file, str | Path) else file
        since = datetime.now(UTC).timestamp() - (clock() - self._started)
        recorded = datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds")
        self._write(header_line(Header(recorded.replace("+00:00", "Z"), request, response)))

    def write(self, chunk: bytes) -> None:
        """Write bytes that have just arrived."""
        if self._is_closed:
            raise UsageError("the recording is closed. Create a new Recorder")
        if not isinstance(chunk, bytes | bytearray | memoryview):
            raise UsageError(
                f"a recording needs bytes, not {type(chunk).__name__}. Record the chunks of the "
                "response's iter_bytes() or aiter_bytes()"
            )
        if chunk:
            for at, data in self._redactor.feed_at(self._clock() - self._started, bytes(chunk)):
                self._write(chunk_line(Chunk(at, data)))

    @property
    def removed(self) -> int:
        """The number of secrets that were removed."""
        return self._redactor.removed

    def discard(self) -> None:
        """Close and delete the file, because its content is not a valid recording."""
        self._is_closed = True
        if self._path is not None:
            self._file.close()
            if self._path.is_file():
                self._path.unlink()

    def close(self, ending: Ending = "orderly", reason: str = "") -> None:
        """Write how the recording ended. Later calls do nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            for at, data in self._redactor.feed_at(0.0, b"", is_end=True):
                self._write(chunk_line(Chunk(at, data)))
            reason = self._secrets.redacted(reason)
            at = self._clock() - self._started
            self._write(end_line(End(at, ending, reason, self.removed)))
        finally:
            if self._path is not None:
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.close()
        elif isinstance(error, Exception):
            self.close("cut", f"the source failed with {type(error).__name__}")
        else:  # Ctrl-C, a generator that is closed, a task that is cancelled
            self.close("aborted", "reading was stopped")

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        self.length += len(line)
        try:
            while left:
                written = self._file.write(left)
                left = left[written or 0 :]  # a raw file may write less, or nothing
            self._file.flush()
        except OSError:
            # The file may end in the middle of a line, so do not append to it.
            self._is_closed = True
            if self._path is not None:
                self._file.close()
            raise


def _open_new(file: str | Path, *, overwrite: bool = False) -> BinaryIO:
    """Open a file for its owner only, without a buffer. Raises if it exists, unless ``overwrite``.

    A device or a pipe is used as it is.
    """
    path = Path(file)
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
    flags |= os.O_TRUNC if overwrite or (path.exists() and not path.is_file()) else os.O_EXCL
    descriptor = os.open(path, flags, _ONLY_OWNER)
    if overwrite and path.is_file():
        with suppress(OSError):  # the file of another user keeps its mode
            path.chmod(_ONLY_OWNER)
    # Unbuffered, because a buffer would retry a failed write when it is closed.
    return FileIO(descriptor, "wb")


def record(
    source: Iterable[bytes],
    file: str | Path,
    *,
    overwrite: bool = False,
    secrets: Iterable[str] = (),
) -> Generator[bytes, None, None]:
    """Yield the chunks of a source and write them: ``stream(record(r.iter_bytes(), "a.rec"))``.

    ``secrets`` are removed from the file. When reading stops, the source is closed.
    """
    return _recorded(source, Recorder(file, overwrite=overwrite, secrets=secrets))


def record_async(
    source: AsyncIterable[bytes],
    file: str | Path,
    *,
    overwrite: bool = False,
    secrets: Iterable[str] = (),
) -> AsyncGenerator[bytes, None]:
    """Like ``record``, for an async source."""
    return _recorded_async(source, Recorder(file, overwrite=overwrite, secrets=secrets))


def _recorded(source: Iterable[bytes], recorder: Recorder) -> Generator[bytes, None, None]:
    write = _writer(recorder)
    try:
        with recorder:
            for chunk in source:
                write(chunk)
                yield chunk
    finally:
        if callable(close := getattr(source, "close", None)):
            close()


async def _recorded_async(
    source: AsyncIterable[bytes], recorder: Recorder
) -> AsyncGenerator[bytes, None]:
    write = _writer(recorder)
    try:
        with recorder:
            async for chunk in source:
                write(chunk)
                yield chunk
    finally:
        close: Any = getattr(source, "aclose", None) or getattr(source, "close", None)
        if callable(close) and inspect.isawaitable(waiting := close()):
            await waiting


def _writer(recorder: Recorder) -> Callable[[bytes], None]:
    """Return a function that writes chunks. It deletes the file if they turn out to be lines."""
    chunks: list[bytes] = []  # the first two

    def write(chunk: bytes) -> None:
        try:
            recorder.write(chunk)
            if len(chunks) < 2:
                chunks.append(bytes(chunk))
                _refuse_lines(*chunks)
        except UsageError:
            recorder.discard()
            raise

    return write


def _refuse_lines(first: bytes, second: bytes | None = None) -> None:
    """Detect from the first two chunks whether chunks are lines without line ends."""
    starts = _is_line(first) or (first[:1] == b":" and _has_no_line_end(first))
    if starts and second is not None and (not second or _is_line(second)):
        raise UsageError(
            "a recording needs bytes as they arrived, not lines without line ends. Record "
            "iter_bytes() or aiter_bytes() of the response, not iter_lines()"
        )


def _is_line(chunk: bytes) -> bool:
    """Return True if this is a complete line of a stream without its line end."""
    data = chunk.removeprefix(b"data:").strip()
    return (is_payload(data) or chunk.startswith(_FIELDS)) and _has_no_line_end(chunk)


def _has_no_line_end(chunk: bytes) -> bool:
    return b"\n" not in chunk and b"\r" not in chunk


def harmless_headers(
    headers: Iterable[tuple[str, str]], allowed: frozenset[str], secrets: Secrets
) -> dict[str, str]:
    return {
        name.lower(): secrets.redacted(value) for name, value in headers if name.lower() in allowed
    }


def harmless_path(path: str, secrets: Secrets) -> str:
    """Return a path without steps that could be keys."""
    steps = secrets.redacted(path).split("/")
    return "/".join(REMOVED if _KEY.search(step) else step for step in steps)


def harmless_url(url: str, secrets: Secrets) -> str:
    """Return a URL with only those query parameters that cannot be keys."""
    parts = urlsplit(url)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name.lower() in _PARAMETERS]
    host, path = parts.netloc.rpartition("@")[2], harmless_path(parts.path, secrets)
    query = secrets.redacted(urlencode(kept))
    return urlunsplit((parts.scheme, host, path, query, ""))


class _Decompressor:
    """Decompresses a response while it arrives, in pieces of bounded length."""

    def __init__(self, encoding: str) -> None:
        self._is_deflate = encoding == "deflate"
        self._unpack: Any = None  # created when the header is known
        self._start = b""  # the first bytes, until then
        self.limit = _MAX_UNPACKED  # of the length of the recording

    @property
    def is_complete(self) -> bool:
        return not self._start if self._unpack is None else self._unpack.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompress the next bytes. Raises ``zlib.error`` if they are not valid."""
        self.limit += len(data) * _MAX_RATIO
        if self._unpack is None:
            data = self._start = self._start + data
            if len(data) < _ZLIB_HEADER_BYTES:
                return
            is_raw = self._is_deflate and not _has_header(data)  # as of many servers
            self._unpack = zlib.decompressobj(_NO_HEADER if is_raw else _ANY_HEADER)
        piece = b""
        while data or len(piece) == _MAX_PIECE:  # a full piece may have a rest inside zlib
            if self._unpack.eof:  # gzip allows several members
                data = data.lstrip(b"\0")  # padding
                if not data:
                    break
                self._unpack = zlib.decompressobj(_ANY_HEADER)
            piece = self._unpack.decompress(data, _MAX_PIECE)
            data = self._unpack.unconsumed_tail or self._unpack.unused_data
            yield piece


def _has_header(data: bytes) -> bool:
    """Return True if data begins with the header of zlib (RFC 1950) or gzip."""
    is_zlib = data[0] & 15 == zlib.DEFLATED and int.from_bytes(data[:2]) % 31 == 0
    return is_zlib or data.startswith(b"\x1f\x8b")


class ResponseRecorder:
    """Decompresses the response that a proxy passes on, and records it."""

    def __init__(
        self,
        recorder: Recorder | None = None,
        file: Path | None = None,
        encoding: str = "",
        problem: str = "",
    ) -> None:
        self._recorder = recorder
        self._decompressor = _Decompressor(encoding) if encoding in _ZLIB else None
        self.file = file
        self.problem = problem  # why there is no recording, or why it is incomplete
        self.removed = 0  # number of removed secrets

    def write(self, chunk: bytes) -> None:
        if self._recorder is None:
            return
        try:
            decompressor = self._decompressor
            for piece in (chunk,) if decompressor is None else decompressor.feed(chunk):
                self._recorder.write(piece)
                if decompressor is not None and self._recorder.length > decompressor.limit:
                    self._cut("the compressed response unpacks to too much data")
                    return
        except zlib.error:
            self._cut("the response does not match its content-encoding")
        except OSError as error:
            self._fail(error)

    def close(self, ending: Ending, reason: str) -> None:
        """Write how the recording ended. Later calls do nothing."""
        if self._recorder is None:
            return
        decompressor = self._decompressor
        if ending == "orderly" and decompressor is not None and not decompressor.is_complete:
            self._cut("the compressed response is truncated")
        else:
            self._end(ending, reason)

    def _cut(self, reason: str) -> None:
        self._end("cut", reason)
        self.problem = f"the recording is incomplete: {reason}"

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
        self.problem = f"the recording is incomplete: {error.strerror}"
        self._recorder = None


class NumberedFiles:
    """Names for new files in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._number = 0

    def prepare(self) -> None:
        """Create the directory, and continue the numbers of the files in it."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            names = [path.name for path in self.directory.iterdir()]
        except FileExistsError:
            raise UsageError(
                f"{self.directory} is a file. Pass a directory: each response becomes a file"
            ) from None
        except OSError as error:
            raise UsageError(f"cannot write to {self.directory}: {error.strerror}") from error
        numbers = [int(found[1]) for name in names if (found := re.match(r"(\d{1,9})-", name))]
        self._number = max(numbers, default=0)

    def next(self, path: str) -> Path:
        """Return a name for the response to a request. Another process may have used it."""
        self._number += 1
        return self.directory / f"{self._number:04}-{_name(path)}.rec"


def _name(path: str) -> str:
    """Return a part of a file name: ``/v1/chat/completions`` becomes ``chat-completions``."""
    steps = [step for step in path.split("/") if not re.fullmatch(r"v\d+\w*|", step)]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(steps)).strip("-.")
    return plain[-_MAX_NAME_CHARS:].lstrip("-.") or "response"
