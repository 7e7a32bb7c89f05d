"""Passing on what comes while it is written down: a recorder between a response and ``stream()``.

Of a response, bytes are wanted. Lines that have lost their ends could never be put together again,
so they are refused as soon as they can be told.
"""

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable
from pathlib import Path
from typing import Any, Final

from argstream.errors import UsageError
from argstream.recording.writer import Recorder
from argstream.wire.json_text import is_json

__all__ = ["record", "record_async"]

_FIELDS: Final = (b"event:", b"id:", b"retry:")


def record(
    source: Iterable[bytes],
    file: str | Path,
    *,
    overwrite: bool = False,
    secrets: Iterable[str] = (),
) -> Generator[bytes, None, None]:
    """Pass on what comes, and write it down: ``stream(record(response.iter_bytes(), "a.rec"))``.

    ``secrets`` are looked for in what is written, and taken out. Who stops reading closes the
    source.
    """
    return _recorded(source, Recorder(file, overwrite=overwrite, secrets=secrets))


def record_async(
    source: AsyncIterable[bytes],
    file: str | Path,
    *,
    overwrite: bool = False,
    secrets: Iterable[str] = (),
) -> AsyncGenerator[bytes, None]:
    """Do the same for an async source."""
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
    """Gives a recorder what it can take; what it cannot is no recording, and leaves no file."""

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
        """Tell by the first two whether these are lines without their ends."""
        if self._first is None:
            self._first = chunk
            return
        self._is_checked = True
        begins = _is_line(self._first) or (self._first[:1] == b":" and _has_no_end(self._first))
        if begins and (not chunk or _is_line(chunk)):
            raise UsageError(
                "a recording is of bytes as they came, and these are lines without their ends: "
                "record what iter_bytes() or aiter_bytes() of the response gives, not iter_lines()"
            )


def _is_line(chunk: bytes) -> bool:
    """Say whether this is a line of a stream, and nothing can be missing of it but its end."""
    data = chunk.removeprefix(b"data:").strip()
    is_whole = data == b"[DONE]" or (data[:1] == b"{" and is_json(data))
    return (is_whole or chunk.startswith(_FIELDS)) and _has_no_end(chunk)


def _has_no_end(chunk: bytes) -> bool:
    return b"\n" not in chunk and b"\r" not in chunk
