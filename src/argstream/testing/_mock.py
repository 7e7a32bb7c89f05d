"""A mock provider for real clients, which answers from a script or recordings.

::

    with MockProvider(Reply(CallTool("add", {"a": 1, "b": 2}))) as provider:
        client = anthropic.Anthropic(base_url=provider.anthropic_url, api_key="any")
        ...
        provider.check()

It serves Anthropic Messages, OpenAI Chat Completions and OpenAI Responses, streamed or not, on the
loopback interface only.
"""

import asyncio
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

from argstream.errors import MissingExtraError, UsageError

try:
    from aiohttp import web
except ModuleNotFoundError:
    raise MissingExtraError("http", "the mock provider") from None

from argstream._asyncio import run_in_thread
from argstream._secrets import REMOVED, secrets_of_header
from argstream.assembly import Assembler
from argstream.events import ToolArgsDelta
from argstream.models._scripted import (
    Cut,
    ErrorEvent,
    Fault,
    Malformed,
    Place,
    Reply,
    Slow,
    Split,
    Status,
    checked_faults,
)
from argstream.providers import detect
from argstream.providers._payloads import json_or_none
from argstream.recording import Recording, parse_recording
from argstream.recording._format import is_recording
from argstream.recording._recording import sse_events
from argstream.recording.proxy import LoopbackService, disconnect
from argstream.testing._chunking import cut
from argstream.testing._mock_protocols import (
    AnthropicDialect,
    ChatDialect,
    Dialect,
    RefusedError,
    ResponsesDialect,
    Turn,
    check_form,
    encode,
    sse,
)
from argstream.wire import Broken, Frame, JsonTextDecoder, SseDecoder
from argstream.wire._decoders import BYTE_ORDER_MARK

_Fault = TypeVar("_Fault", bound=Fault)
_ANTHROPIC: Final[Dialect] = AnthropicDialect()
_CHAT: Final[Dialect] = ChatDialect()
_DIALECTS: Final = {one.route: one for one in (_ANTHROPIC, _CHAT, ResponsesDialect())}
_MAX_BODY_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class ReceivedRequest:
    """A request that the provider received, without its key."""

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    """By name in lower case. Values that could be secrets are ``[removed]``."""
    body: dict[str, Any] | None
    """None if it was not a JSON object."""
    status: int = 200
    """Status of the response."""
    problems: tuple[str, ...] = ()
    """Why it was rejected. Empty if it was not."""

    @property
    def is_streamed(self) -> bool:
        return self.body is not None and self.body.get("stream") is True


class HangUp(NamedTuple):
    """A client that disconnected before the end of its response."""

    sent: int
    """Bytes of the response that were sent. The client may not have read all of them."""
    of: int
    """Bytes of the whole response."""


class MockProvider(LoopbackService):
    """A server on the loopback interface that answers from a script or recordings.

    A single reply answers every request. The replies of a list answer one request each. Later
    requests are rejected, unless ``repeat`` is true: then the list starts again. Rejected requests
    use no reply.

    ``faults`` apply to every response, in addition to those of the reply. ``on_request`` is called
    for each request before the response is sent, in a thread of its own.

    The provider checks only the format of a request. ``check`` is called for valid requests, one at
    a time. If it returns a message, the request is rejected with status 400 and this message.
    """

    def __init__(
        self,
        script: "Reply | RecordedAnswer | Sequence[Reply | RecordedAnswer]",
        *,
        faults: Iterable[Fault] = (),
        repeat: bool = False,
        port: int = 0,
        on_request: Callable[[ReceivedRequest], None] | None = None,
        check: Callable[[ReceivedRequest], str | None] | None = None,
    ) -> None:
        if isinstance(script, Reply | RecordedAnswer):
            script, repeat = (script,), True
        given = tuple(script)
        if not given or not all(isinstance(one, Reply | RecordedAnswer) for one in given):
            raise UsageError("MockProvider needs Reply objects. For recordings, use replaying()")
        super().__init__(port)
        self._answers = given
        self._faults = checked_faults(faults)
        self._repeats = repeat
        self._on_request = on_request
        self._check = check
        self._hang_ups: list[HangUp] = []
        # Guards _requests and _answered: callbacks have threads. A check may read requests.
        self._lock = threading.RLock()
        self._requests: list[ReceivedRequest] = []
        self._answered = 0

    @classmethod
    def replaying(
        cls,
        *recordings: str | Path | bytes,
        faults: Iterable[Fault] = (),
        timed: bool = False,
        repeat: bool = False,
        port: int = 0,
        on_request: Callable[[ReceivedRequest], None] | None = None,
    ) -> Self:
        """Serve recorded responses: files, or their bytes.

        These are recordings of ``argstream record``, or bodies of server-sent events or JSON lines.
        One recording answers every request to its API. Several answer one request each. ``timed``
        sends the chunks with the recorded timing, and allows no faults.
        """
        if timed and tuple(faults):
            raise UsageError("MockProvider: timed and faults cannot be combined. Pass one of them")
        read = [read_answer(recording, timed=timed) for recording in recordings]
        return cls(
            read[0] if len(read) == 1 else read,
            faults=faults,
            repeat=repeat,
            port=port,
            on_request=on_request,
        )

    @property
    def anthropic_url(self) -> str:
        """The ``base_url`` for Anthropic's client."""
        return self.url

    @property
    def openai_url(self) -> str:
        """The ``base_url`` for OpenAI's client, which includes the version."""
        return f"{self.url}/v1"

    @property
    def requests(self) -> list[ReceivedRequest]:
        """All requests so far, including rejected ones."""
        with self._lock:
            return list(self._requests)

    @property
    def hang_ups(self) -> list[HangUp]:
        """Responses whose client disconnected before their end."""
        return list(self._hang_ups)

    def check(self) -> None:
        """Raise an error that lists the problems of all rejected requests, if there are any."""
        problems = [
            f"request {request.number}, {request.method} {request.path}: {problem}"
            for request in self.requests
            for problem in request.problems
        ]
        if problems:
            raise UsageError("\n".join(["the mock provider rejected these requests:", *problems]))

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if "transfer-encoding" in request.headers:
            return web.Response(status=411, text="Send the body with a content-length")
        if (request.content_length or 0) > _MAX_BODY_BYTES:
            return web.Response(status=413, text="The body is too long")
        try:
            body = await request.content.read()
        except (OSError, web.RequestPayloadError):
            disconnect(request)
            return web.Response()  # it cannot be sent
        headers = {name.lower(): value for name, value in request.headers.items()}
        respond = partial(self._answer_to, request.method, request.raw_path, headers, body)
        if self._check is None and self._on_request is None:
            answer = respond()
        else:
            answer = await run_in_thread(respond, "mock provider")
        return await self._send(answer, request)

    async def _send(self, answer: "Answer", request: web.BaseRequest) -> web.StreamResponse:
        head = {"server": "argstream-mock", **answer.headers}
        response = web.StreamResponse(status=answer.status, headers=head)
        response.content_length = answer.length
        sent = 0
        try:
            await asyncio.sleep(answer.seconds_before)
            await response.prepare(request)
            for data, seconds_before in answer.writes:
                await asyncio.sleep(seconds_before)
                await response.write(data)
                sent += len(data)
        except (ConnectionError, asyncio.CancelledError) as error:
            if not self.is_stopping:
                whole = sum(len(write.data) for write in answer.writes)
                self._hang_ups.append(HangUp(sent, whole))
            if isinstance(error, asyncio.CancelledError):
                raise
        if answer.is_cut:
            disconnect(request)
        return response

    def _answer_to(self, method: str, path: str, headers: dict[str, str], body: bytes) -> "Answer":
        with self._lock:
            request = ReceivedRequest(
                number=len(self._requests) + 1,
                method=method,
                path=path.partition("?")[0],  # the query may contain a key
                headers={
                    name: REMOVED if secrets_of_header(name, value) else value
                    for name, value in headers.items()
                },
                body=value if isinstance(value := json_or_none(body), dict) else None,
            )
            problems: tuple[str, ...] = ()
            try:
                answer = self._decide(headers, request)
            except RefusedError as refused:
                of_header = _ANTHROPIC if "anthropic-version" in headers else _CHAT
                dialect = _dialect_of(request) or of_header
                answer = error_answer(dialect, refused.status, str(refused))
                problems = (str(refused),)
            request = replace(request, status=answer.status, problems=problems)
            self._requests.append(request)
        if self._on_request is not None:
            self._on_request(request)
        # The header names of Anthropic and OpenAI.
        ids = dict.fromkeys(("request-id", "x-request-id"), f"req_mock_{request.number}")
        return replace(answer, headers={**answer.headers, **ids})

    def _decide(self, headers: Mapping[str, str], request: ReceivedRequest) -> "Answer":
        body, dialect, scripted = request.body, _dialect_of(request), self._scripted()
        if isinstance(scripted, RecordedAnswer) and not scripted.protocol:
            return self._next(scripted, dialect or _CHAT, body or {})
        if dialect is None:
            routes = ", ".join(f"POST {route}" for route in _DIALECTS)
            raise RefusedError(
                f"unknown route {request.method} {request.path}. Routes: {routes}", 404
            )
        if body is None:
            raise RefusedError("the body must be a JSON object")
        check_form(dialect, headers, body)
        if scripted is None:
            sent = len(self._answers)
            raise RefusedError(
                f"the script has no more replies ({sent} sent). Add one, or pass repeat=True"
            )
        if isinstance(scripted, RecordedAnswer):
            scripted.require_fit(dialect, is_streamed=request.is_streamed)
        if self._check is not None and (message := self._check(request)):
            raise RefusedError(message)
        return self._next(scripted, dialect, body)

    def _scripted(self) -> "Reply | RecordedAnswer | None":
        """Return the next answer; None if the script is over."""
        if self._answered >= len(self._answers) and not self._repeats:
            return None
        return self._answers[self._answered % len(self._answers)]

    def _next(
        self, scripted: "Reply | RecordedAnswer", dialect: Dialect, body: dict[str, Any]
    ) -> "Answer":
        self._answered += 1
        if isinstance(scripted, RecordedAnswer):
            return with_faults(scripted.answer, self._faults, dialect)
        turn = Turn(self._answered, scripted, body)
        if body.get("stream") is True:
            answer = stream_answer(dialect.streamed(turn))
        else:
            answer = whole_answer(encode(dialect.whole(turn)))
        return with_faults(answer, (*self._faults, *scripted.faults), dialect)


def _dialect_of(request: ReceivedRequest) -> Dialect | None:
    return _DIALECTS.get(request.path) if request.method == "POST" else None


class Write(NamedTuple):
    """Bytes that are sent at once, after a pause."""

    data: bytes
    seconds_before: float = 0.0


@dataclass(frozen=True)
class Answer:
    """A response that is built in full before its first byte is sent."""

    headers: Mapping[str, str]
    writes: Sequence[Write]
    is_stream: bool = True
    length: int | None = None  # None: chunked encoding, one chunk for each write
    status: int = 200
    seconds_before: float = 0.0
    is_cut: bool = False  # closed without a proper end


def stream_answer(events: Iterable[bytes]) -> Answer:
    headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    return Answer(headers, [*map(Write, events)])


def whole_answer(body: bytes) -> Answer:
    return Answer(
        {"content-type": "application/json"}, [Write(body)], is_stream=False, length=len(body)
    )


def error_answer(dialect: Dialect, status: int, message: str) -> Answer:
    return replace(whole_answer(encode(dialect.error(status, message))), status=status)


def with_faults(answer: Answer, faults: Sequence[Fault], dialect: Dialect) -> Answer:
    if not faults:
        return answer
    slow = _faults_of(Slow, faults)
    before = sum(fault.before for fault in slow)
    for fault in faults:
        if isinstance(fault, Status) or (isinstance(fault, ErrorEvent) and not answer.is_stream):
            failure = error_answer(dialect, fault.status, _message(fault))
            retry_after = fault.retry_after if isinstance(fault, Status) else None
            if retry_after is None and fault.status == 429:
                retry_after = 1
            headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
            return replace(failure, headers={**failure.headers, **headers}, seconds_before=before)
    writes = _damaged(answer, faults, dialect)
    length = None if answer.length is None else sum(map(len, writes))
    starts = [0, *accumulate(map(len, writes[:-1]))]  # of events, before they are split
    ends = [_byte_at(fault.at, writes) for fault in _faults_of(Cut, faults)]
    if ends:
        writes = cut(b"".join(writes)[: min(ends)], map(len, writes))
    for split in _faults_of(Split, faults):
        body = b"".join(writes)
        random, largest = Random(split.seed), max(split.sizes)  # noqa: S311 - not for secrets
        drawn = [random.randint(1, largest) for _ in body] or [1]
        writes = cut(body, split.sizes if split.seed is None else drawn)
    between = sum(fault.between for fault in slow)
    total = max((fault.total for fault in slow if fault.total is not None), default=None)
    if total is not None:
        between = total / max(1, len(starts) - 1)
        before += total if len(starts) == 1 else 0
    return replace(
        answer,
        writes=_timed(writes, starts, between),
        length=length,
        seconds_before=before,
        is_cut=answer.is_cut or bool(ends),
    )


def _damaged(answer: Answer, faults: Sequence[Fault], dialect: Dialect) -> list[bytes]:
    """Apply the faults that change the content."""
    writes = [write.data for write in answer.writes]
    for broken in _faults_of(Malformed, faults):
        if not answer.is_stream:
            writes = [body[: len(body) // 2] for body in writes]
        elif writes:
            index = min(_event_at(broken.at, writes), len(writes) - 1)
            writes[index] = _halved(writes[index])
    for error in _faults_of(ErrorEvent, faults):
        index = min(_event_at(error.at, writes), len(writes))
        writes[index:] = dialect.error_events(error.status, _message(error), index)
    return writes


def _timed(writes: list[bytes], starts: list[int], between: float) -> list[Write]:
    """Add a pause before a write for each event that starts in it, except for the first event."""
    ends = list(accumulate(map(len, writes)))
    counts = Counter(bisect_right(ends, start) for start in starts[1:])
    return [Write(data, between * counts[number]) for number, data in enumerate(writes)]


def _faults_of(kind: type[_Fault], faults: Sequence[Fault]) -> list[_Fault]:
    return [fault for fault in faults if isinstance(fault, kind)]


def _event_at(place: Place, events: list[bytes]) -> int:
    """Return the index of an event: for a call, of the middle one with arguments."""
    if place != "call":
        return place
    reader = Assembler()
    pieces = [
        index
        for index, event in enumerate(events)
        for frame in _frames(SseDecoder(), event)
        if any(isinstance(one, ToolArgsDelta) for one in reader.feed(frame.data, frame.event))
    ]
    return pieces[len(pieces) // 2] if pieces else len(events) // 2


def _byte_at(place: Place, writes: list[bytes]) -> int:
    """Return the number of bytes before a place: for a call, to the middle of its middle event."""
    if place != "call":
        return place
    index = _event_at(place, writes)
    return sum(map(len, writes[:index])) + len(writes[index]) // 2 if writes else 0


def _halved(event: bytes) -> bytes:
    """Drop half of an event's payload, so that it is not JSON."""
    start = event.rfind(b"data:") + len(b"data:")
    text = event.rstrip(b"\r\n")
    return text[: max(start + 1, (start + len(text)) // 2)] + b"\n\n"


def _message(fault: Status | ErrorEvent) -> str:
    return fault.message or f"Error {fault.status}, as configured in the mock provider"


@dataclass(frozen=True)
class RecordedAnswer:
    protocol: str  # empty for an unknown API
    answer: Answer

    def require_fit(self, dialect: Dialect, *, is_streamed: bool) -> None:
        """Raise RefusedError if this does not answer such a request."""
        if self.protocol != dialect.protocol:
            request = f"the request is for {dialect.protocol}"
            raise RefusedError(f"the recording is for {self.protocol}, but {request}")
        if self.answer.status < 400 and self.answer.is_stream != is_streamed:
            found, wanted = (
                ("a stream", "true") if self.answer.is_stream else ("not a stream", "false")
            )
            raise RefusedError(f"the recording is {found}. Send stream: {wanted}")


def read_answer(recording: str | Path | bytes, *, timed: bool = False) -> RecordedAnswer:
    """Detect the API of a recording, and frame JSON lines as events."""
    try:
        data = recording if isinstance(recording, bytes) else Path(recording).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {recording!s}: {error.strerror}") from error
    if is_recording(data):
        return _parse_recording(parse_recording(data), timed=timed)
    if timed:
        raise UsageError("timed needs a recording of argstream. A response body has no times")
    return _parse_body(data)


def _parse_recording(recording: Recording, *, timed: bool) -> RecordedAnswer:
    """Return the response with its status, content type and end, and its times if wanted."""
    request, response = recording.header.request, recording.header.response
    is_cut = recording.ending != "orderly"
    answer = stream_answer(chunk.data for chunk in recording.chunks)
    protocol = None if request is None else _protocol_at(urlsplit(request.url).path)
    if protocol and response is not None and response.status >= 400:
        answer = whole_answer(recording.data)
    elif protocol != "":
        with suppress(UsageError):  # another API, or too short to detect it
            made = _parse_body(recording.data)
            protocol = made.protocol
            if not (is_cut and made.answer.is_stream):  # do not complete a truncated event
                answer = made.answer
    if timed:
        times = [0.0, *(chunk.at for chunk in recording.chunks)]
        pauses = [max(0.0, later - earlier) for earlier, later in pairwise(times)]
        data = [chunk.data for chunk in recording.chunks]
        answer = replace(answer, writes=[*map(Write, data, pauses)])
    if is_cut:  # the full length is unknown
        answer = replace(answer, is_cut=True, length=None)
    if response is not None:
        headers = dict(answer.headers)
        headers["content-type"] = response.headers.get("content-type") or headers["content-type"]
        answer = replace(answer, status=response.status, headers=headers)
    return RecordedAnswer(protocol or "", answer)


def _protocol_at(path: str) -> str:
    dialects = _DIALECTS.values()
    found = (one for one in dialects if path.endswith(one.route.removeprefix("/v1")))
    return next((dialect.protocol for dialect in found), "")


def _parse_body(data: bytes) -> RecordedAnswer:
    data = data.removeprefix(BYTE_ORDER_MARK)
    if data.lstrip()[:1] in (b"{", b"["):
        return _from_json(data)
    events = sse_events(data.lstrip(b"\r\n"))
    if events and not events[-1].endswith((b"\n\n", b"\r\n\r\n", b"\r\r")):
        # Recordings often lack the last blank line, but clients need it.
        events[-1] += b"\n\n"
    return RecordedAnswer(_protocol(_frames(SseDecoder(), data)), stream_answer(events))


def _from_json(data: bytes) -> RecordedAnswer:
    frames = _frames(JsonTextDecoder(), data)
    protocol = _protocol(frames)
    payloads = [json_or_none(frame.data) for frame in frames]
    match payloads:
        case [{"type": "message"} | {"object": "chat.completion" | "response"}]:
            return RecordedAnswer(protocol, whole_answer(data))
    # Anthropic's client needs events that are named after the types of their payloads.
    names = [str(one.get("type", "")) if isinstance(one, dict) else "" for one in payloads]
    events = [sse(frame.data, name) for frame, name in zip(frames, names, strict=True)]
    if protocol == "openai-chat" and frames[-1].data.strip() != b"[DONE]":
        events.append(sse(b"[DONE]"))
    return RecordedAnswer(protocol, stream_answer(events))


def _frames(decoder: SseDecoder | JsonTextDecoder, data: bytes) -> list[Frame]:
    frames = [*decoder.feed(data), *decoder.close()]
    return [frame for frame in frames if not isinstance(frame, Broken)]


def _protocol(frames: list[Frame]) -> str:
    found = (detect(frame.data, frame.event) for frame in frames)
    protocol = next((protocol for protocol in found if protocol is not None), "")
    if protocol in [dialect.protocol for dialect in _DIALECTS.values()]:
        return protocol
    raise UsageError(
        "not a recording of Anthropic Messages, OpenAI Chat Completions or OpenAI Responses. "
        "Pass the body of a response, as server-sent events or JSON lines"
    )
