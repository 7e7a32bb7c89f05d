"""The base of the UI protocols.

An encoder belongs to one run and one format. It applies records to a ``RunState`` and writes the
changes as bytes that all viewers share. A late viewer is sent a replay of the state, and then the
same bytes. That works because an encoder is pure: what it writes depends on the run and on its own
options, and it does not read the clock. Records are split at each pause, because the streams of
some protocols end there, and the next request continues at that point.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import (
    Annotated,
    Any,
    ClassVar,
    Concatenate,
    Final,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    cast,
    overload,
)
from uuid import uuid4

from msgspec import Meta

from argstream import events as ev
from argstream._asyncio import current_loop
from argstream.errors import UsageError
from argstream.runs._records import Record
from argstream.runs._state import Change, RunState
from argstream.sanitise import encode_json
from argstream.streaming import AsyncEventStream, EventStream

Json: TypeAlias = dict[str, Any]

INTERVAL: Final = 0.045
"""Seconds for which records are collected by default: less than between deltas at 20 per second.
With 0.05, each delta came just before the end of an interval, and the median delay was 22 ms."""

_LONGEST_INTERVAL: Final = 1.0

CloseReason: TypeAlias = Literal["shutdown", "behind", "failure"]
"""Why a stream ends before its run pauses or ends: the server shuts down and others continue its
runs; the viewer has not read for so long that its next chunk is gone; the log cannot be read. In
each case the viewer can reconnect."""

CLOSE_MESSAGES: Final[Mapping[CloseReason, str]] = {
    "shutdown": "the server is shutting down",
    "behind": "the client is too far behind",
    "failure": "the run cannot be read at the moment",
}
"""Messages for viewers that are disconnected. Each format adds how to reconnect."""


class Written(NamedTuple):
    """Bytes for a viewer."""

    data: bytes
    ends: bool = False
    """Whether the stream ends here. Later output belongs to another request."""


class Encoder(ABC):
    """Writes one run in one format. ``state`` is the run as far as it was written."""

    can_catch_up: ClassVar[bool] = False
    """Whether a replay may come in the middle of a stream, in place of what was missed."""

    def __init__(self, *, arguments: Literal["events", "off"] = "off") -> None:
        self.state: RunState = RunState(arguments=arguments)
        self.is_bare: bool = False
        """Whether there is only a stream and no run: then the application runs the calls."""
        self._arguments: Final = arguments

    @property
    def interval(self) -> float:
        """How long to collect records now, in seconds.

        Longer for clients that process the whole text again with each piece.
        """
        return INTERVAL

    def begin(self, snapshot: ev.RunSnapshot) -> None:
        """Continue from a snapshot."""
        self.state = RunState.from_snapshot(snapshot, arguments=self._arguments)

    @abstractmethod
    def encode(self, records: Sequence[Record]) -> Written:
        """Write the next records. The server joins neighbouring deltas first."""

    @abstractmethod
    def replay(self) -> Written:
        """Write the run so far, for a new viewer. The encoder itself does not change."""

    @abstractmethod
    def close_reason(self, why: CloseReason) -> bytes:
        """Write why the stream ends before the run pauses or ends."""


class ChangeEncoder(Encoder):
    """Writes each change of the run as JSON objects, one for each server-sent event."""

    end_mark: ClassVar[bytes] = b""
    """What is written after the last object of a stream."""

    def encode(self, records: Sequence[Record]) -> Written:
        """Write the next records."""
        items: list[Json] = []
        for record in records:
            for change in self.state.apply_record(record):
                items += self._encode(change)
        return self._framed(items)

    @abstractmethod
    def _encode(self, change: Change) -> Iterable[Json]:
        """Return the objects of a change. Read what changed from its block and the state."""

    @abstractmethod
    def _is_last(self, item: Json) -> bool:
        """Return True if a stream ends after this object."""

    def _framed(self, items: Iterable[Json]) -> Written:
        data, ends = bytearray(), False
        for item in items:
            data += frame(item)
            if ends := self._is_last(item):
                data += self.end_mark
        return Written(bytes(data), ends)


Events: TypeAlias = Iterable[ev.Event] | AsyncIterable[ev.Event]
Encoded: TypeAlias = Generator[bytes, None, None] | AsyncGenerator[bytes, None]
_Options = ParamSpec("_Options")


class Encode(Protocol[_Options]):
    """The type of ``encode``: it writes the events of ``stream()`` or of a run."""

    @overload
    def __call__(
        self, events: Iterable[ev.Event], *args: _Options.args, **options: _Options.kwargs
    ) -> Generator[bytes, None, None]: ...
    @overload
    def __call__(
        self, events: AsyncIterable[ev.Event], *args: _Options.args, **options: _Options.kwargs
    ) -> AsyncGenerator[bytes, None]: ...


def sync_or_async(
    encode: Callable[Concatenate[Events, _Options], Encoded],
) -> Encode[_Options]:
    """Declare, for type checkers, that the result is async if the events are."""
    return cast("Encode[_Options]", encode)


def encode_with(
    encoder: Encoder, events: Events, run_id: str = "", conversation_id: str = ""
) -> Encoded:
    """Write the events of ``stream()`` or of a run, each at once, and close their source.

    If the source raises, the client gets a failed run, and then the exception is raised.
    """
    writer = _Writer(encoder, run_id or f"run_{uuid4().hex}", conversation_id)
    return _encode_async(writer, events) if _is_async(events) else _encode(writer, events)


def _is_async(events: Any) -> bool:
    """Return True for async iterables. A run is one if an event loop is running."""
    if not (hasattr(events, "__iter__") or hasattr(events, "__aiter__")):
        raise UsageError(f"encode() needs the events of stream() or a run, not {events!r}")
    if isinstance(events, EventStream):  # these have both methods, and one of them only raises
        return False
    if isinstance(events, AsyncEventStream) or not hasattr(events, "__iter__"):
        return True
    return current_loop() is not None and hasattr(events, "__aiter__")


def _encode(writer: "_Writer", events: Any) -> Generator[bytes, None, None]:
    iterator = iter(events)
    try:
        for event in iterator:
            yield from writer.write(event)
        yield from writer.end()
    except Exception as error:
        yield from writer.end(error)
        raise
    finally:
        if hasattr(iterator, "close"):
            iterator.close()


async def _encode_async(writer: "_Writer", events: Any) -> AsyncGenerator[bytes, None]:
    iterator = aiter(events)
    try:
        async for event in iterator:
            for data in writer.write(event):
                yield data
        for data in writer.end():
            yield data
    except Exception as error:
        for data in writer.end(error):
            yield data
        raise
    finally:
        source = iterator if hasattr(iterator, "aclose") else events  # an AsyncEventStream
        if hasattr(source, "aclose"):
            await source.aclose()


class _Writer:
    """Writes events that have no records. A stream without a run gets a start and an end."""

    def __init__(self, encoder: Encoder, run_id: str, conversation_id: str) -> None:
        self._encoder = encoder
        self._run_id = run_id
        self._conversation_id = conversation_id
        self._rests = False  # the run has paused or ended

    def write(self, event: ev.Event) -> Iterator[bytes]:
        if not isinstance(event, ev.BaseEvent):
            raise UsageError(f"encode() needs events, not {event!r}. Pass the source to stream()")
        state, events = self._encoder.state, [] if event.is_computed else [event]
        if isinstance(event, ev.RunResumed) and not state.seq:
            raise UsageError(
                "the events of a resumed run do not include its beginning. Use AgentServer, or an "
                "encoder that begins with a snapshot of the run"
            )
        if isinstance(event, ev.RunPaused | ev.RunResumed) and state.mode == "observed":
            return  # its process continues by itself, and so does this stream
        if not state.seq and not isinstance(event, ev.RunStarted):
            self._encoder.is_bare = True
            events.insert(0, ev.RunStarted(self._run_id, ""))
        if isinstance(event, ev.RunStarted):
            self._run_id = event.run_id
        self._rests = event.ends_run or isinstance(event, ev.RunPaused)
        ids = self._run_id, self._conversation_id
        numbered = enumerate(events, state.seq + 1)
        records = [Record(seq, time.time(), *ids, "", each) for seq, each in numbered]
        if data := self._encoder.encode(records).data:
            yield data

    def end(self, error: Exception | None = None) -> Iterator[bytes]:
        """Write the end of the run, if it did not end or pause; after an error of the source."""
        if self._rests:
            return
        state, run_id = self._encoder.state, self._run_id
        failures = [one for one in state.failures if isinstance(one, ev.StreamFailed)]
        if error is not None:  # its text may contain secrets
            message = f"the model failed with {type(error).__name__}"
            failures = [ev.StreamFailed("model_failed", message)]
        if failures:
            code, message = failures[-1].specific_code, failures[-1].message
            yield from self.write(ev.RunFailed(code, message, run_id, state.usage))
        else:
            yield from self.write(ev.RunCompleted(None, state.usage, state.stop_reason, run_id))


def interval_for(length: int, characters_per_second: float) -> float:
    """Return how long to collect records for clients that process all text at each piece.

    >>> interval_for(100, 1_000_000), interval_for(200_000, 1_000_000), interval_for(10**9, 1_000)
    (0.045, 0.2, 1.0)
    """
    return min(max(INTERVAL, length / characters_per_second), _LONGEST_INTERVAL)


_RETRY_MILLISECONDS: Final = 1_000


def frame(data: object, seq: int | None = None) -> bytes:
    r"""Write an SSE event whose data is JSON, which has no line breaks. Its id is a ``seq``.

    >>> frame({"text": "one\ntwo"}, 7)
    b'id: 7\ndata: {"text":"one\\ntwo"}\n\n'
    """
    start = b"data: " if seq is None else b"id: %d\ndata: " % seq
    return start + encode_json(data) + b"\n\n"


def comment(text: str = "") -> bytes:
    """Write an SSE comment. Clients ignore it; it keeps the connection open."""
    return b": " + " ".join(text.splitlines()).encode() + b"\n\n"


def reconnect(why: str) -> bytes:
    """Ask the client to reconnect soon. Browsers then send the last ID that they saw."""
    return b"retry: %d\n" % _RETRY_MILLISECONDS + comment(why)


ChosenId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
"""An ID that a client chooses, such as that of a conversation (a chat, a thread)."""

Reason: TypeAlias = Annotated[str, Meta(max_length=10_000)]
"""The reason for a decision. The model and all viewers receive it."""


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else encode_json(value).decode()


def usage_counts(usage: ev.Usage) -> dict[str, int]:
    """Return the usage under the names that both front-end protocols share. Unknown is left out."""
    counts = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "cachedInputTokens": usage.cache_read_tokens,
        "reasoningTokens": usage.reasoning_tokens,
    }
    return {name: number for name, number in counts.items() if number is not None}
