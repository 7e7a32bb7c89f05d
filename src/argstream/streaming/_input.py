"""Opens the sources that ``stream()`` accepts, and turns their items into events.

An item is bytes or text of a response, cut anywhere or into lines, or a payload: a dict, an SDK
object, a feed item, or a decoded server-sent event. The format of bytes (server-sent events, JSON
lines, an AWS event stream, or a recording of any of these) is detected from the first of them.
"""

import inspect
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    aclosing,
    contextmanager,
)
from functools import partial
from types import AsyncGeneratorType
from typing import Any, Final, Protocol, TypeAlias, cast

from argstream import wire
from argstream.assembly import Assembler
from argstream.errors import UsageError
from argstream.events import Event, FailureCode, InvalidVerdict, StreamFailed
from argstream.recording._format import (
    DATA_AFTER_END,
    NOT_ENDED,
    Chunk,
    End,
    Ending,
    is_recording,
    read_header,
    read_line,
)
from argstream.wire import Broken, Frame
from argstream.wire._decoders import BYTE_ORDER_MARK, is_json


class _Response(Protocol):
    """A response of httpx, or of an SDK's ``with_streaming_response``."""

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]: ...


class _AsyncResponse(Protocol):
    """A response of an SDK's async client."""

    def iter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]: ...


class _EitherResponse(Protocol):
    """A response of httpx, which has one class for sync and async clients."""

    def aiter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]: ...


class _RawResponse(Protocol):
    """The result of openai's ``with_raw_response``."""

    @property
    def http_response(self) -> _Response: ...


class _Readable(Protocol):
    """A binary file, or a response of urllib."""

    def read1(self, size: int = ..., /) -> bytes: ...


class _StreamReader(Protocol):
    def iter_any(self) -> AsyncIterable[bytes]: ...


class _AiohttpResponse(Protocol):
    @property
    def content(self) -> _StreamReader: ...


class _AgentsRun(Protocol):
    """The result of openai-agents' ``Runner.run_streamed``."""

    def stream_events(self) -> AsyncIterator[object]: ...


_Items: TypeAlias = Iterable[object] | _Response | _RawResponse | _Readable
_AsyncItems: TypeAlias = AsyncIterable[object] | _AsyncResponse | _AiohttpResponse | _AgentsRun

Source: TypeAlias = _Items | AbstractContextManager[_Items]
"""Sources that ``stream()`` reads with ``for``."""
AsyncSource: TypeAlias = (
    _AsyncItems
    | AbstractAsyncContextManager[_AsyncItems | _EitherResponse]
    | Awaitable[_AsyncItems]
)
"""Sources that ``stream()`` reads with ``async for``."""


def is_async(source: object) -> bool:
    """Return True if a source must be read with ``async for``. Reads nothing."""
    source = _stream_of_boto3(source) or source
    if inspect.isawaitable(source) or _run_of_openai_agents(source) is not None:
        return True
    if hasattr(source, "__aiter__"):
        return not _can_iterate(source)
    if hasattr(source, "__iter__"):
        return False
    if (read := getattr(source, "iter_bytes", None)) is not None:
        # httpx has one class for sync and async. The type of its stream shows which one it is.
        inner = getattr(source, "stream", None)
        only_async = hasattr(inner, "__aiter__") and not hasattr(inner, "__iter__")
        return only_async or inspect.isasyncgenfunction(read)
    if hasattr(source, "http_response"):
        return is_async(source.http_response)
    return _stream_reader(source) is not None or hasattr(source, "__aenter__")


def _can_iterate(source: Any) -> bool:
    """Return True if ``for`` works. aiobotocore's streams have ``__iter__``, which raises."""
    if not hasattr(source, "__iter__"):
        return False
    try:
        iter(source)
    except (NotImplementedError, TypeError):
        return False
    return True


def _stream_reader(source: object) -> Any:
    """Return the reader of an aiohttp response, without fetching the body of other responses."""
    content = inspect.getattr_static(source, "content", None)
    return content if hasattr(content, "iter_any") else None


@contextmanager
def items(source: Any) -> Iterator[Iterable[object]]:
    if (inner := _stream_of_boto3(source)) is not None:
        yield inner
    elif isinstance(source, str | bytes | bytearray | memoryview | Mapping) or _is_model(source):
        yield [source]
    elif (read := getattr(source, "iter_bytes", None)) is not None:  # httpx, SDKs
        yield read()
    elif hasattr(source, "http_response"):  # openai's raw responses
        with items(source.http_response) as found:
            yield found
    elif (read := getattr(source, "iter_content", None)) is not None:  # requests
        raw: Any = getattr(source, "raw", None)
        if getattr(raw, "chunked", True) or not hasattr(raw, "read1"):
            yield read(chunk_size=None)
        else:  # here iter_content would wait for the whole body
            yield _read_chunks(partial(raw.read1, decode_content=True))
    elif (read := getattr(source, "read1", None)) is not None:  # files, urllib
        yield _read_chunks(read)
    elif hasattr(source, "__iter__"):
        yield source
    elif hasattr(source, "__enter__"):
        with source as entered, items(_require_other(source, entered)) as found:
            yield found
    else:
        raise _unknown(source)


async def open_async_items(
    source: Any, enter: Callable[[Any], Awaitable[object]]
) -> AsyncIterable[object]:
    """Open an async source. ``enter`` enters its contexts."""
    source = _stream_of_boto3(source) or source
    if (run := _run_of_openai_agents(source)) is not None:
        return _events_of_run(run, source if run is not source else run.stream_events())
    if hasattr(source, "__aiter__"):
        found = cast("AsyncIterable[object]", source)
        return _with_responses(found) if _is_of(source, "pydantic_ai") else found
    if _is_model(source):
        return _single_item(source)
    if read := getattr(source, "aiter_bytes", None) or getattr(source, "iter_bytes", None):
        return cast("AsyncIterable[object]", read())  # httpx, SDKs
    if hasattr(source, "http_response"):  # openai's raw responses
        return await open_async_items(source.http_response, enter)
    if (reader := _stream_reader(source)) is not None:
        return cast("AsyncIterable[object]", reader.iter_any())  # aiohttp
    if hasattr(source, "__aenter__"):
        return await open_async_items(_require_other(source, await enter(source)), enter)
    raise _unknown(source)


def _require_other(source: object, entered: object) -> object:
    """Return the value of a context. One that returns itself cannot be read."""
    if entered is source:
        raise _unknown(source)
    return entered


async def awaited(source: Any) -> Any:
    if hasattr(source, "__aiter__") or hasattr(source, "__aenter__"):
        return source
    return await source if inspect.isawaitable(source) else source


def close_source(source: Any) -> None:
    source = _closable(source)
    if callable(close := getattr(source, "close", None)):
        close()


async def close_async_source(source: Any) -> None:
    if (run := _run_of_openai_agents(source)) is not None:
        run.cancel()  # closing its events would wait until the run has ended
    source = _closable(source)
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    if callable(close):
        waiting = close()
        if inspect.isawaitable(waiting):
            await waiting


def _closable(source: Any) -> Any:
    """Return the object that owns the connection: for a raw response, the response inside."""
    source = _stream_of_boto3(source) or source
    return source if hasattr(source, "close") else getattr(source, "http_response", source)


def _stream_of_boto3(source: object) -> Any:
    if isinstance(source, Mapping) and "ResponseMetadata" in source:
        return source.get("stream") or source.get("body")
    return None


def _read_chunks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while chunk := read(64 * 1024):
        yield chunk


async def _single_item(item: object) -> AsyncIterator[object]:
    yield item


def _run_of_openai_agents(source: Any) -> Any:
    """Return the run of openai-agents that yields these events, or that the source is itself.

    Only the run can be cancelled. After a call was rejected, it would run the tool otherwise.
    """
    if isinstance(source, AsyncGeneratorType):
        if source.__name__ != "stream_events" or (frame := source.ag_frame) is None:
            return None
        source = frame.f_locals.get("self")
    is_run = hasattr(source, "stream_events") and hasattr(source, "run_loop_task")
    return source if is_run else None


async def _events_of_run(run: Any, events: Any) -> AsyncIterator[object]:
    async with aclosing(events):
        try:
            async for event in events:
                yield event
        except BaseException:  # the consumer leaves, or is cancelled
            run.cancel()
            raise


async def _with_responses(source: Any) -> AsyncIterator[object]:
    """Add whole responses to the events of pydantic-ai, which lack stop reasons and usage.

    A response follows its events. A run (``new_messages``) has it when the next event arrives. The
    stream of one response (``response``, ``get``) has it at the end.
    """
    newest: object = None
    async for event in source:
        if getattr(event, "event_kind", "") != "part_delta":
            before, newest = newest, _newest_response(source)
            if newest is not None and newest is not before:
                yield newest
        yield event
    if hasattr(source, "response"):
        yield source.response
    elif callable(get := getattr(source, "get", None)):  # a model without an agent
        yield get()


def _newest_response(run: Any) -> object:
    try:
        messages = reversed(run.new_messages())
    except (AttributeError, RuntimeError):  # not a run, or one of an agent without this state
        return None
    return next((one for one in messages if one.kind == "response"), None)


def _is_of(source: object, package: str) -> bool:
    return type(source).__module__.partition(".")[0] == package


def _is_model(source: object) -> bool:
    """Return True for a single SDK object. It is iterable, but yields its fields."""
    return hasattr(source, "model_dump")


def _unknown(source: object) -> UsageError:
    if _is_of(source, "pydantic_ai"):
        fix = "Pass agent.run_stream_events(...), or the events of an event_stream_handler"
    elif _is_of(source, "agents"):
        fix = "Pass Runner.run_streamed(...), or its stream_events()"
    else:
        fix = (
            "Pass an SDK's stream, an HTTP response, or an iterable of bytes, lines, dicts or SDK "
            "events"
        )
    return UsageError(f"stream() cannot read an object of type {type(source).__name__}. {fix}")


class Decoder(Protocol):
    def feed(self, chunk: bytes) -> list[Frame | Broken]: ...
    def close(self) -> list[Frame | Broken]: ...


_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:")
_SHOWN: Final = 80
# A list contains several payloads, a tuple one (LangGraph, xAI). Other objects are payloads if they
# have a __dict__, or ListFields (protocol buffers).
_PAYLOADS: Final = (Mapping, tuple, list)


class InputDecoder:
    """Turns the items of a source into events."""

    def __init__(self, assembler: Assembler) -> None:
        self.assembler = assembler
        self._decoder: Decoder | None = None
        self._recording: _RecordingReader | None = None  # reads what the decoder returns
        self._payload_types: tuple[type, ...] = (dict,)
        self._held: list[bytes] = []  # items until it is known whether they are lines
        self._first = b""  # the first item that is not empty
        self._lines: bool | None = None  # whether items are lines; None until that is known
        self._line_end = b""  # appended to lines that lack it
        self._exhausted = False
        self._first_bytes = b""
        self._any_frame = False

    def feed(self, item: object) -> list[Event]:
        if type(item) is bytes:
            if self._decoder is None or self._lines is not False:
                return self._feed_bytes(item)
            return self._decode(self._decoder, item)
        if type(item) in self._payload_types:
            before = self._begin() if self._held else []
            return before + self.assembler.feed(item)
        if isinstance(item, str):
            if item == ":" and self._decoder is None and not self._first:
                return []  # an empty comment
            return self._feed_bytes(_encode(item))
        if isinstance(item, bytes | bytearray | memoryview):
            return self._feed_bytes(bytes(item))
        if hasattr(item, "event") and isinstance(data := getattr(item, "data", None), str | bytes):
            event = getattr(item, "event", None)
            return self.assembler.feed(data, str(event or "")) if data else []
        if isinstance(item, _PAYLOADS) or hasattr(item, "__dict__") or hasattr(item, "ListFields"):
            self._payload_types += (type(item),)
            return self.feed(item)
        raise UsageError(
            f"stream() cannot read an item of type {type(item).__name__}. "
            "Items must be bytes, lines, dicts or SDK events"
        )

    def close(self) -> list[Event]:
        self._exhausted = True
        events = self._begin() if self._held else []
        frames = [] if self._decoder is None else self._decoder.close()
        if not self._any_frame:
            frames = self._detect_recording(frames)
        if self._recording is not None:
            events += self._recording.close(frames)
            return events + self.assembler.close()
        for frame in frames:
            # An incomplete last frame is dropped. The assembler reports the missing end anyway.
            if isinstance(frame, Frame) and _is_complete(frame.data):
                self._any_frame = True
                events += self.assembler.feed(frame.data, frame.event)
        if self._first_bytes and not self._any_frame:
            self.assembler.abort()
            shown = ascii(self._first_bytes)[1:]
            message = f"the source contains no provider event. It starts with {shown}"
            return [StreamFailed("not_a_stream", message)]
        return events + self.assembler.close()

    def interrupt(self, error: Exception) -> list[Event]:
        message = f"the source failed with {type(error).__name__}"
        return self.assembler.abort("truncated", message)

    def abort(self) -> bool:
        """Stop. Returns False if the source was read to its end."""
        was_exhausted, self._exhausted = self._exhausted, True
        self.assembler.abort()
        return not was_exhausted

    def _feed_bytes(self, chunk: bytes) -> list[Event]:
        if self._decoder is None:
            return self._feed_first(chunk)
        if self._lines is None and chunk:
            self._lines = _are_lines(self._first, chunk)
        if self._lines:
            chunk = _with_line_end(chunk, self._line_end)
        return self._decode(self._decoder, chunk)

    def _feed_first(self, chunk: bytes) -> list[Event]:
        """Handle the first items, until their format is known, and whether they are lines."""
        if self.assembler.protocol == "feed":
            raise UsageError("the feed contains text or bytes. Use feed.Text for text of the model")
        if not self._first and not chunk.strip():
            return []  # leading white space has no meaning in any format
        self._held.append(chunk)
        if not chunk:
            return []
        if not self._first or BYTE_ORDER_MARK.startswith(self._first):
            self._first += chunk
            if BYTE_ORDER_MARK.startswith(self._first):
                return []
            self._line_end = b"" if self._first.endswith((b"\n", b"\r")) else b"\n"
            if not _may_be_a_line(self._first):
                self._lines = False
                return self._begin()
            if not _is_event(self._first):
                return []
            # The event is complete, so decode it now. The next item shows whether items are lines.
            self._held = [_with_line_end(self._first, self._line_end)]
            return self._begin()
        self._lines = _are_lines(self._first, chunk)
        return self._begin()

    def _begin(self) -> list[Event]:
        held, self._held = self._held, []
        if self._lines:
            held = [_with_line_end(line, self._line_end) for line in held]
        chunk = b"".join(held)
        self._decoder = _decoder_for(chunk)
        return self._decode(self._decoder, chunk)

    def _decode(self, decoder: Decoder, chunk: bytes) -> list[Event]:
        frames = decoder.feed(chunk)
        if not self._any_frame:
            self._first_bytes = (self._first_bytes + chunk)[:_SHOWN]
            frames = self._detect_recording(frames)
        if self._recording is not None:
            return self._recording.feed(frames)
        events: list[Event] = []
        for frame in frames:
            self._any_frame = True
            if isinstance(frame, Broken):
                events += _break_off(self.assembler, frame)
            elif frame.data or frame.failed:  # without data it is a keep-alive
                events += self.assembler.feed(frame.data, frame.event)
        return events

    def _detect_recording(self, frames: list[Frame | Broken]) -> list[Frame | Broken]:
        """Return the frames after the first line of a recording, or all if it is none."""
        match frames:
            case [Frame(first), *rest] if is_recording(first):
                self._any_frame = True
                self._recording = _RecordingReader(first, self.assembler)
                return rest
        return frames


class _RecordingReader:
    """Reads the lines of a recording. The recorded bytes are an input of their own."""

    def __init__(self, header: bytes, assembler: Assembler) -> None:
        self._assembler = assembler
        self._input = InputDecoder(assembler)
        self._ending: Ending | None = None
        self._unreadable = ""
        try:
            read_header(header)
        except UsageError as error:
            self._unreadable = str(error)

    def feed(self, lines: list[Frame | Broken]) -> list[Event]:
        events: list[Event] = []
        for line in lines:
            if self._ending == "orderly":  # else a failure has been reported already
                events += [*self._input.close(), *self._end("unreadable", DATA_AFTER_END)]
            elif self._ending is None:
                events += self._read(line)
        return events

    def close(self, lines: list[Frame | Broken]) -> list[Event]:
        events = self.feed(lines)
        if self._ending is None:
            events += self._end("truncated", f"the recording ends here: {NOT_ENDED}")
        return events + (self._input.close() if self._ending == "orderly" else [])

    def _read(self, line: Frame | Broken) -> list[Event]:
        if isinstance(line, Broken):
            return _break_off(self._assembler, line)
        if self._unreadable:
            return self._end("unreadable", self._unreadable)
        try:
            read = read_line(line.data)
        except ValueError:
            return self._end("truncated", f"the recording ends here: {NOT_ENDED}")
        if isinstance(read, Chunk):
            return self._input.feed(read.data)
        if isinstance(read, End) and read.ending == "orderly":
            self._ending = "orderly"
        elif isinstance(read, End):
            reason = f"the recording ends here: {read.reason or f'it was {read.ending}'}"
            return self._end("aborted" if read.ending == "aborted" else "truncated", reason)
        return []

    def _end(self, code: FailureCode, message: str) -> list[Event]:
        """End open calls as the live stream would have."""
        self._ending = "cut"
        if self._assembler.stopped:
            return []
        verdict: InvalidVerdict = "aborted" if code == "aborted" else "truncated"
        events = self._assembler.abort(verdict, message)
        return [*events, StreamFailed(code, message, retryable=code == "truncated")]


def _break_off(assembler: Assembler, broken: Broken) -> list[Event]:
    message = f"the stream violates its format ({broken.reason})"
    return assembler.break_off("broken_stream", message)


def _decoder_for(chunk: bytes) -> Decoder:
    if chunk[0] == 0:  # high byte of a message length below 16 MiB
        return wire.AwsEventStreamDecoder()
    start = chunk.removeprefix(BYTE_ORDER_MARK).lstrip()
    return wire.JsonTextDecoder() if start.startswith((b"{", b"[")) else wire.SseDecoder()


def _may_be_a_line(chunk: bytes) -> bool:
    """Return True if this looks like one line. A colon alone is not enough for a comment."""
    line = chunk.removeprefix(BYTE_ORDER_MARK).removesuffix(b"\n").removesuffix(b"\r")
    matches = line.startswith((*_FIELDS, b"{", b"[")) or (len(line) > 1 and line.startswith(b":"))
    return matches and b"\n" not in line and b"\r" not in line


def _are_lines(first: bytes, second: bytes) -> bool:
    """Distinguish lines from a text that happens to be cut where a line could end."""
    first = first.removeprefix(BYTE_ORDER_MARK)
    if first.strip() in (b"[", b"[{", b"{") and second.startswith(b" "):
        return True  # an indented document whose line ends were removed
    if first.startswith((b"{", b"[")):
        return second.startswith((b"{", b"[")) and _is_complete(first)
    if not second.startswith((*_FIELDS, b":")):
        return False
    data = first.removeprefix(b"data:")
    return data == first or not data.strip() or _is_complete(data)


def _is_event(line: bytes) -> bool:
    line = line.removeprefix(BYTE_ORDER_MARK)
    data = line.removeprefix(b"data:").strip()
    return data.startswith(b"{") and _is_complete(data)


def _with_line_end(line: bytes, end: bytes) -> bytes:
    """Append the line end, and the blank line after an event, which some line readers omit."""
    start = line.removeprefix(BYTE_ORDER_MARK)
    is_event = start.startswith(b"data:") and (end or line.endswith(b"\n"))
    if is_event and _is_complete(start.removeprefix(b"data:")):
        end += b"\n"
    return line + end


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # restores bytes that were not UTF-8
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _is_complete(data: bytes) -> bool:
    return data.strip() == b"[DONE]" or is_json(data)
