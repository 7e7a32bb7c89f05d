"""Writes recordings while the bytes arrive, and removes secrets from them.

Lines are not buffered. A process that is killed loses only the last moment, and a recording can be
watched while it grows: ``tail -f turn.rec | argstream watch``.
"""

import base64
import binascii
import contextlib
import html
import inspect
import json
import os
import re
import time
import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import suppress
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Final, Self
from urllib.parse import parse_qsl, quote, unquote, unquote_plus, urlencode, urlsplit, urlunsplit

import msgspec

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
from argstream.wire._frames import is_json

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
_PARAMETERS: Final = frozenset({"alt", "api-version", "beta"})
_REMOVED: Final = "[removed]"
# A part of a path that could be a key: other parts are not so long without a separator.
_LONG_RUN: Final = re.compile("[A-Za-z0-9]{24,}")
_ONLY_OWNER: Final = 0o600
_ONLY_OWNER_FOLDER: Final = 0o700
_MAX_NAME_CHARS: Final = 60
_FIELDS: Final = (b"event:", b"id:", b"retry:")
_ZLIB: Final = ("gzip", "x-gzip", "deflate")
_ANY_HEADER: Final = 47  # wbits that detect a zlib or gzip header
_NO_HEADER: Final = -15
_ZLIB_HEADER_BYTES: Final = 2
_NOT_COMPRESSED: Final = "the response does not match its content-encoding"
_TRUNCATED: Final = "the compressed response is truncated"
_TOO_LARGE: Final = "the compressed response unpacks to too much data"
_MAX_PIECE: Final = 1024 * 1024  # a line has at most 64 MiB
# A compressed response may unpack to this, and to so many times its length in addition.
_MAX_UNPACKED: Final = 16 * 1024 * 1024
_MAX_RATIO: Final = 100
_MIN_SECRET: Final = 8  # a shorter secret would occur in ordinary words
_MIN_RUN: Final = 12  # any part of a random secret is removed if it has this many characters
_BLOCK: Final = _MIN_RUN // 2
_SEPARATOR: Final = b"\xff"  # does not occur in UTF-8
# Parts of the names of headers and parameters whose values are secrets.
_SECRET: Final = ("auth", "cookie", "credential", "key", "pass", "secret", "sig", "token")
# Ends of such names in JSON, without - and _. Stricter, because a tool may have an argument "key".
_SECRET_MEMBER: Final = (
    *("accesskey", "accountkey", "apikey", "privatekey", "secretkey", "subscriptionkey"),
    *("authorization", "connectionstring", "cookie", "credential", "credentials", "password"),
    *("secret", "token"),
)
# Objects whose members are secrets if they look random, whatever their names.
_SECRET_OBJECTS: Final = ("auth", "authentication", "headers")
# Ends of the names of environment variables with secrets.
_SECRET_VARIABLE: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_MIN_RANDOM: Final = 16
_MIN_DISTINCT: Final = 8
# Several words, a URL or a path: the location of a secret rather than the secret.
_ORDINARY: Final = re.compile(
    r"\s|://|^(?:~|\.{1,2})/|^/[A-Za-z._-]{2,}/|^[A-Za-z]:\\|\.(?:crt|json|key|p12|pem|txt)$"
)


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
        self._redactor = Redactor(secrets)
        self._is_closed = False
        self._path = Path(file) if isinstance(file, str | Path) else None
        self._owns_file = self._path is not None
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
            for at, data in self._redactor.feed(self._clock() - self._started, bytes(chunk)):
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

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
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
                left = left[written or 0 :]  # a raw file may write less, or nothing
            self._file.flush()
        except OSError:
            # The file may end in the middle of a line, so do not append to it.
            self._is_closed = True
            if self._owns_file:
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
    writer = _Writer(recorder)
    try:
        with recorder:
            for chunk in source:
                writer.write(chunk)
                yield chunk
    finally:
        if callable(close := getattr(source, "close", None)):
            close()


async def _recorded_async(
    source: AsyncIterable[bytes], recorder: Recorder
) -> AsyncGenerator[bytes, None]:
    writer = _Writer(recorder)
    try:
        with recorder:
            async for chunk in source:
                writer.write(chunk)
                yield chunk
    finally:
        close: Any = getattr(source, "aclose", None) or getattr(source, "close", None)
        if callable(close) and inspect.isawaitable(waiting := close()):
            await waiting


class _Writer:
    """Writes chunks, and deletes the file if they are not bytes as they arrived."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._first: bytes | None = None
        self._is_checked = False

    def write(self, chunk: bytes) -> None:
        try:
            self._recorder.write(chunk)
            if not self._is_checked:
                self._check(bytes(chunk))
        except UsageError:
            self._recorder.discard()
            raise

    def _check(self, chunk: bytes) -> None:
        """Detect from the first two chunks whether chunks are lines without line ends."""
        if self._first is None:
            self._first = chunk
            return
        self._is_checked = True
        first = self._first
        starts = _is_line(first) or (first[:1] == b":" and _has_no_line_end(first))
        if starts and (not chunk or _is_line(chunk)):
            raise UsageError(
                "a recording needs bytes as they arrived, not lines without line ends. Record "
                "iter_bytes() or aiter_bytes() of the response, not iter_lines()"
            )


def _is_line(chunk: bytes) -> bool:
    """Return True if this is a complete line of a stream without its line end."""
    data = chunk.removeprefix(b"data:").strip()
    is_complete = data == b"[DONE]" or (data[:1] == b"{" and is_json(data))
    return (is_complete or chunk.startswith(_FIELDS)) and _has_no_line_end(chunk)


def _has_no_line_end(chunk: bytes) -> bool:
    return b"\n" not in chunk and b"\r" not in chunk


def harmless_headers(
    headers: Iterable[tuple[str, str]], allowed: frozenset[str], redactor: "Redactor"
) -> dict[str, str]:
    return {
        name.lower(): redactor.redacted(value) for name, value in headers if name.lower() in allowed
    }


def harmless_path(path: str, redactor: "Redactor") -> str:
    """Return a path without steps that could be keys."""
    steps = redactor.redacted(path).split("/")
    return "/".join(_REMOVED if _could_be_a_key(step) else step for step in steps)


def _could_be_a_key(step: str) -> bool:
    runs: list[str] = _LONG_RUN.findall(step)
    return any(not run.isalpha() and not run.isdigit() for run in runs)


def harmless_url(url: str, redactor: "Redactor") -> str:
    """Return a URL with only those query parameters that cannot be keys."""
    parts = urlsplit(url)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name.lower() in _PARAMETERS]
    host, path = parts.netloc.rpartition("@")[2], harmless_path(parts.path, redactor)
    query = redactor.redacted(urlencode(kept))
    return urlunsplit((parts.scheme, host, path, query, ""))


class Redactor:
    """Removes secrets from bytes that arrive in chunks.

    The end of a chunk that could be the start of a secret is held back, and keeps its time.
    """

    def __init__(self, secrets: "Iterable[str] | SecretSearch") -> None:
        self._search = secrets if isinstance(secrets, SecretSearch) else SecretSearch(secrets)
        self._held = b""
        self._held_at = 0.0
        self.removed = 0

    def feed(self, at: float, chunk: bytes) -> list[tuple[float, bytes]]:
        """Return the chunk without secrets, except for an end that is held back."""
        return self._feed(at, chunk, is_end=False) if self._search else [(at, chunk)]

    def close(self) -> list[tuple[float, bytes]]:
        """Return the bytes that were held back."""
        return self._feed(self._held_at, b"", is_end=True)

    def redacted(self, text: str) -> str:
        """Return a whole text without secrets."""
        whole = Redactor(self._search)
        data = text.encode(errors="surrogateescape")
        pieces = [*whole.feed(0.0, data), *whole.close()]
        return b"".join(piece for _, piece in pieces).decode(errors="replace")

    def _feed(self, at: float, chunk: bytes, *, is_end: bool) -> list[tuple[float, bytes]]:
        held_at = self._held_at if self._held else at
        data, border = self._held + chunk, len(self._held)
        end = len(data) if is_end else len(data) - self._search.partial_length(data)
        before: list[bytes] = []
        after: list[bytes] = []

        def copy(start: int, stop: int) -> None:
            if start < border:
                before.append(data[start : min(stop, border)])
            if stop > border:
                after.append(data[max(start, border) : stop])

        done = 0
        for start, stop in self._search.found(data):
            if start >= end:
                break
            copy(done, start)
            (before if start < border else after).append(_REMOVED.encode())
            self.removed += 1
            done = min(stop, end)  # an adjacent secret that may continue is held back
        copy(done, end)
        self._held = data[end:]
        self._held_at = held_at if end < border else at
        timed = ((held_at, b"".join(before)), (at, b"".join(after)))
        return [(time, piece) for time, piece in timed if piece]


class SecretSearch:
    """Searches for secrets. Its truth value is False if there are none."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._whole: set[bytes] = set()
        self._blocks: dict[bytes, list[tuple[bytes, int]]] = {}
        # Line by line, because JSON and base64 encode line ends in different ways.
        lines = {line.strip() for secret in secrets for line in secret.splitlines()}
        all_spellings: set[bytes] = set()
        for line in lines:
            if len(line) >= _MIN_SECRET:
                spellings = set(_spellings(line)) - all_spellings
                all_spellings |= spellings
                self._add(spellings, by_runs=looks_random(line))
        self._all = _SEPARATOR.join(all_spellings)

    def _add(self, spellings: set[bytes], *, by_runs: bool) -> None:
        for spelling in spellings:
            if by_runs and len(spelling) >= _MIN_RUN:
                for offset in range(len(spelling) - _BLOCK + 1):
                    block = spelling[offset : offset + _BLOCK]
                    self._blocks.setdefault(block, []).append((spelling, offset))
            else:
                self._whole.add(spelling)

    def __bool__(self) -> bool:
        return bool(self._all)

    def partial_length(self, data: bytes) -> int:
        """Return how many bytes at the end of the data may be part of a secret that continues."""
        length = 0
        while length < len(data) and data[-length - 1 :] in self._all:
            length += 1
        return length

    def found(self, data: bytes) -> list[tuple[int, int]]:
        """Return the ranges of all secrets in order. Adjacent ranges are merged."""
        joined: list[tuple[int, int]] = []
        for start, stop in sorted([*self._found_whole(data), *self._found_runs(data)]):
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
            else:
                joined.append((start, stop))
        return joined

    def _found_whole(self, data: bytes) -> Iterator[tuple[int, int]]:
        for secret in self._whole:
            position = data.find(secret)
            while position >= 0:
                yield position, position + len(secret)
                position = data.find(secret, position + 1)

    def _found_runs(self, data: bytes) -> Iterator[tuple[int, int]]:
        blocks, done = self._blocks, 0
        if not blocks:
            return
        for position in range(0, len(data) - _BLOCK + 1, _BLOCK):
            matches = blocks.get(data[position : position + _BLOCK])
            if matches is None or position + _BLOCK <= done:
                continue
            for secret, offset in matches:
                start, stop = _extent(data, position, secret, offset)
                if stop - start >= _MIN_RUN:
                    yield start, stop
                    done = max(done, stop)


def _extent(data: bytes, position: int, secret: bytes, offset: int) -> tuple[int, int]:
    start, stop, first, last = position, position + _BLOCK, offset, offset + _BLOCK
    while start and first and data[start - 1] == secret[first - 1]:
        start, first = start - 1, first - 1
    while stop < len(data) and last < len(secret) and data[stop] == secret[last]:
        stop, last = stop + 1, last + 1
    return start, stop


def _spellings(secret: str) -> Iterator[bytes]:
    """Yield the encodings of a secret that may occur in a body."""
    quoted = quote(secret, safe="", errors="replace")
    lower = re.sub("%..", lambda found: found[0].lower(), quoted)
    for text in (secret, quoted, lower, json.dumps(secret)[1:-1], html.escape(secret)):
        yield text.encode(errors="surrogateescape")
    plain = secret.encode(errors="surrogateescape")
    for before in range(3):  # bytes before it in its first base64 group
        encoded = base64.b64encode(bytes(before) + plain).rstrip(b"=")
        # Without the characters that also depend on neighbouring bytes.
        last = len(encoded) - (1 if (before + len(plain)) % 3 else 0)
        inside = encoded[(0, 2, 3)[before] : last]
        yield inside
        yield inside.translate(bytes.maketrans(b"+/", b"-_"))


def looks_random(text: str) -> bool:
    """Return True if the text looks like a random token, whose parts are secret too."""
    return (
        len(text) >= _MIN_RANDOM
        and len(set(text)) >= _MIN_DISTINCT
        and any(character.isdigit() for character in text)
        and any(character.isalpha() for character in text)
        and _ORDINARY.search(text) is None
    )


def secrets_of_request(headers: Iterable[tuple[str, str]], target: str) -> set[str]:
    """Return the credentials of a request."""
    secrets: set[str] = set()
    for name, value in headers:
        if _is_secret(name):
            secrets |= _parts(value)
        else:
            pairs = re.findall(r'([\w.-]+)="?([^\s,;"]+)', value)
            secrets |= {found for inner, found in pairs if _is_secret(inner)}
    for parameter in re.split("[&;]", target.partition("?")[2]):
        name, _, value = parameter.partition("=")
        if _is_secret(unquote(name)):
            secrets |= {value, unquote_plus(value), unquote(value)}
    return secrets


def _is_secret(name: str) -> bool:
    name = name.lower()
    return any(word in name for word in _SECRET)


def _parts(value: str) -> set[str]:
    """Return parts of a header's value: all after the scheme, each word, each ``name=value`` value.

    Words are separate, because the rest may be public, such as the list of headers for AWS.
    """
    if value.startswith("AWS4-"):
        return set(re.findall(r"(?:Credential|Signature)=([^,/\s]+)", value))
    scheme, _, rest = value.strip().partition(" ")
    given = rest.strip() if rest and scheme.isalpha() else value.strip()
    words = {given, *given.split()}
    for word in re.split(r'[\s,;"]+', given):
        words |= {word, re.sub(r"^[\w.-]+=(?=[^=])", "", word)}
    if scheme.lower() == "basic":
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):
            user, _, password = base64.b64decode(rest).decode().partition(":")
            words |= {password, *([user] if looks_random(user) else [])}
    return words


def secrets_of_body(body: bytes | bytearray) -> set[str]:
    """Return the API keys in a request body, such as those of MCP servers or search services."""
    try:
        return set(_in_json(msgspec.json.decode(body)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return set()


def _in_json(document: Any) -> Iterator[str]:
    values: list[tuple[Any, bool]] = [(document, False)]
    while values:
        value, is_secret = values.pop()
        if isinstance(value, dict):
            for name, inner in value.items():
                if isinstance(inner, str):
                    yield from _in_member(name, inner, is_inside=is_secret)
                else:
                    is_named = name.lower() in _SECRET_OBJECTS or _is_secret_member(name)
                    values.append((inner, is_secret or is_named))
        elif isinstance(value, list):
            values += [(inner, is_secret) for inner in value]
        elif isinstance(value, str) and is_secret:
            yield from filter(looks_random, _parts(value))


def _in_member(name: str, value: str, *, is_inside: bool) -> Iterator[str]:
    """Yield the secrets in a string. It may also be prose, as in the description of a schema."""
    is_secret = _is_secret_member(name)
    if is_secret and len(value.split()) <= 2:  # a scheme and a key
        yield from _parts(value)
    elif is_secret or is_inside:
        yield from filter(looks_random, {*_parts(value), *value.split("\n")})


def _is_secret_member(name: str) -> bool:
    return re.sub("[-_]", "", name).lower().endswith(_SECRET_MEMBER)


def secrets_of_environment(environment: Mapping[str, str]) -> set[str]:
    """Return the API keys in the environment, which a provider may repeat in an error.

    Only random values are returned, because a password that is a word occurs in ordinary text.
    """
    found: set[str] = set()
    for name, value in environment.items():
        if name.upper().endswith(_SECRET_VARIABLE):
            found.update(_in_variable(value))
    return set(filter(looks_random, found))


def _in_variable(value: str) -> Iterable[str]:
    if value.lstrip().startswith(("{", "[")):
        return secrets_of_body(value.encode(errors="surrogateescape"))
    if "://" in value:
        with contextlib.suppress(ValueError):
            return [unquote(urlsplit(value).password or "")]
    return [line.strip() for line in value.splitlines()]


def is_readable_encoding(encoding: str) -> bool:
    return encoding in ("", "identity", *_ZLIB)


class _TooLargeError(Exception):
    """A compressed response contains far more data than it has bytes."""


class _Decompressor:
    """Decompresses a response while it arrives, in pieces of bounded length."""

    def __init__(self, encoding: str) -> None:
        self._is_deflate = encoding == "deflate"
        self._unpack: Any = None  # created when the header is known
        self._start = b""  # the first bytes, until then
        self._left = _MAX_UNPACKED  # how much more may be unpacked

    @property
    def is_complete(self) -> bool:
        return not self._start if self._unpack is None else self._unpack.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompress the next bytes.

        Raises ``zlib.error`` if they are not valid, and ``_TooLargeError``.
        """
        self._left += len(data) * _MAX_RATIO
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
            self._left -= len(piece)
            if self._left < 0:
                raise _TooLargeError
            yield piece


def _has_header(data: bytes) -> bool:
    """Return True if data begins with the header of zlib (RFC 1950) or gzip."""
    is_zlib = data[0] & 15 == zlib.DEFLATED and int.from_bytes(data[:2]) % 31 == 0
    return is_zlib or data.startswith(b"\x1f\x8b")


class ResponseRecorder:
    """Decompresses the response that a proxy passes on, and records it."""

    def __init__(self, recorder: Recorder, file: Path, encoding: str) -> None:
        self._recorder: Recorder | None = recorder
        self._decompressor = _Decompressor(encoding) if encoding in _ZLIB else None
        self.file = file
        self.problem = ""  # why the recording is incomplete
        self.removed = 0  # number of removed secrets

    def write(self, chunk: bytes) -> None:
        if self._recorder is None:
            return
        try:
            decompressor = self._decompressor
            for piece in (chunk,) if decompressor is None else decompressor.feed(chunk):
                self._recorder.write(piece)
        except (zlib.error, _TooLargeError) as error:
            reason = _NOT_COMPRESSED if isinstance(error, zlib.error) else _TOO_LARGE
            self._end("cut", reason)
            self.problem = f"the recording is incomplete: {reason}"
        except OSError as error:
            self._fail(error)

    def close(self, ending: Ending, reason: str) -> None:
        """Write how the recording ended. Later calls do nothing."""
        if self._recorder is None:
            return
        decompressor = self._decompressor
        if ending == "orderly" and decompressor is not None and not decompressor.is_complete:
            ending, reason = "cut", _TRUNCATED
            self.problem = f"the recording is incomplete: {_TRUNCATED}"
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
            self.directory.mkdir(mode=_ONLY_OWNER_FOLDER, parents=True, exist_ok=True)
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
