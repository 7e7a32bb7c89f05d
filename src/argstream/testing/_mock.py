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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from argstream.recording import Recording, parse_recording
from argstream.recording._format import is_recording
from argstream.recording._recording import sse_events
from argstream.recording.proxy import LoopbackService, disconnect
from argstream.testing._chunking import cut
from argstream.testing._mock_protocols import (
    STATUS_MESSAGES,
    AnthropicDialect,
    ChatDialect,
    Dialect,
    Problem,
    ResponsesDialect,
    Turn,
    decode,
    encode,
    sse,
)
from argstream.wire import Broken, Frame, JsonTextDecoder, SseDecoder
from argstream.wire._decoders import BYTE_ORDER_MARK

_Fault = TypeVar("_Fault", bound=Fault)
_WHOLE: Final = ("chat.completion", "response")
_WITHOUT_BODY: Final = (204, 304)
_ANTHROPIC: Final[Dialect] = AnthropicDialect()
_CHAT: Final[Dialect] = ChatDialect()
_RESPONSES: Final[Dialect] = ResponsesDialect()
_DIALECTS: Final = {dialect.route: dialect for dialect in (_ANTHROPIC, _CHAT, _RESPONSES)}
_ROUTES: Final = ", ".join(f"POST {route}" for route in _DIALECTS)
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
    status: int
    """Status of the response."""
    problems: tuple[str, ...]
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
                body=_object(body),
                status=200,
                problems=(),
            )
            answer, problems = self._decide(headers, request)
            messages = tuple(problem.message for problem in problems)
            request = replace(request, status=answer.status, problems=messages)
            self._requests.append(request)
        if self._on_request is not None:
            self._on_request(request)
        # The header names of Anthropic and OpenAI.
        ids = dict.fromkeys(("request-id", "x-request-id"), f"req_mock_{request.number}")
        return replace(answer, headers={**answer.headers, **ids})

    def _decide(
        self, headers: Mapping[str, str], request: ReceivedRequest
    ) -> "tuple[Answer, list[Problem]]":
        body, path = request.body, request.path
        dialect = _DIALECTS.get(path) if request.method == "POST" else None
        if self._accepts_any_request():
            return self._next(dialect or _CHAT, body or {}), []
        if dialect is None:
            dialect = _ANTHROPIC if "anthropic-version" in headers else _CHAT
            problems = [Problem(f"unknown route {request.method} {path}. Routes: {_ROUTES}", 404)]
        elif body is None:
            problems = [Problem("the body must be a JSON object")]
        else:
            problems = dialect.problems(headers, body) or self._reply_problems(dialect, body)
            if not problems and self._check is not None and (message := self._check(request)):
                problems = [Problem(message)]
            if not problems:
                return self._next(dialect, body), []
        message = "; ".join(problem.message for problem in problems)
        return error_answer(dialect, problems[0].status, message), problems

    def _accepts_any_request(self) -> bool:
        """Return True if the next answer is a recording of an unknown API."""
        if self._answered >= len(self._answers) and not self._repeats:
            return False
        answer = self._scripted()
        return isinstance(answer, RecordedAnswer) and not answer.protocol

    def _reply_problems(self, dialect: Dialect, body: dict[str, Any]) -> list[Problem]:
        """Return why the script has no answer to a valid request."""
        if self._answered >= len(self._answers) and not self._repeats:
            message = "the script has no more replies ({} sent). Add one, or pass repeat=True"
            return [Problem(message.format(len(self._answers)))]
        answer = self._scripted()
        if isinstance(answer, Reply):
            return []
        if answer.protocol != dialect.protocol:
            request = f"the request is for {dialect.protocol}"
            return [Problem(f"the recording is for {answer.protocol}, but {request}")]
        is_stream = answer.whole is None
        if answer.status < 400 and is_stream != (body.get("stream") is True):
            found, wanted = ("a stream", "true") if is_stream else ("not a stream", "false")
            return [Problem(f"the recording is {found}. Send stream: {wanted}")]
        return []

    def _scripted(self) -> "Reply | RecordedAnswer":
        return self._answers[self._answered % len(self._answers)]

    def _next(self, dialect: Dialect, body: dict[str, Any]) -> "Answer":
        answer = self._scripted()
        self._answered += 1
        streamed = body.get("stream") is True
        own = answer.faults if isinstance(answer, Reply) else ()
        faults = (*self._faults, *own)
        failure = fault_answer(dialect, faults, streamed=streamed)
        if failure is not None:
            return failure
        if isinstance(answer, Reply):
            turn = Turn(self._answered, answer, body)
            if streamed:
                return stream_answer(dialect, dialect.streamed(turn), faults)
            return whole_answer(encode(dialect.whole(turn)), faults)
        if answer.timed is not None:
            return answer.timed
        if answer.whole is not None:
            return answer.with_head(whole_answer(answer.whole, faults))
        return answer.with_head(stream_answer(dialect, answer.events, faults))


class Write(NamedTuple):
    """Bytes that are sent at once, after a pause."""

    data: bytes
    seconds_before: float = 0.0


@dataclass(frozen=True)
class Answer:
    """A response that is built in full before its first byte is sent."""

    status: int
    headers: Mapping[str, str]
    writes: Sequence[Write]
    length: int | None = None  # None: chunked encoding, one chunk for each write
    seconds_before: float = 0.0
    is_cut: bool = field(default=False, kw_only=True)  # closed without a proper end


def error_answer(dialect: Dialect, status: int, message: str) -> Answer:
    body = encode(dialect.error(status, message))
    return Answer(status, {"content-type": "application/json"}, [Write(body)], len(body))


def fault_answer(dialect: Dialect, faults: Sequence[Fault], *, streamed: bool) -> Answer | None:
    """Return the error response if a fault requires one."""
    for fault in faults:
        if isinstance(fault, Status) or (isinstance(fault, ErrorEvent) and not streamed):
            answer = error_answer(dialect, fault.status, _message(fault))
            retry_after = fault.retry_after if isinstance(fault, Status) else None
            if retry_after is None and fault.status == 429:
                retry_after = 1
            headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
            return replace(
                answer,
                headers={**answer.headers, **headers},
                seconds_before=_seconds_before(faults),
            )
    return None


def stream_answer(dialect: Dialect, events: Iterable[bytes], faults: Sequence[Fault]) -> Answer:
    """Return events as a response, with one write for each event unless they are split."""
    events = list(events)
    for broken in _faults_of(Malformed, faults):
        if events:
            index = min(_event_at(broken.at, events), len(events) - 1)
            events[index] = _halved(events[index])
    for error in _faults_of(ErrorEvent, faults):
        index = min(_event_at(error.at, events), len(events))
        events[index:] = dialect.error_events(error.status, _message(error), index)
    headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    return _build_answer(events, headers, None, faults)


def whole_answer(body: bytes, faults: Sequence[Fault]) -> Answer:
    if _faults_of(Malformed, faults):
        body = body[: len(body) // 2]
    return _build_answer([body], {"content-type": "application/json"}, len(body), faults)


def _build_answer(
    writes: list[bytes], headers: dict[str, str], length: int | None, faults: Sequence[Fault]
) -> Answer:
    starts = [0, *accumulate(map(len, writes[:-1]))]  # of events, before they are split
    ends = [_byte_at(fault.at, writes) for fault in _faults_of(Cut, faults)]
    if ends:
        writes = _truncate(min(ends), writes)
    for split in _faults_of(Split, faults):
        writes = cut(b"".join(writes), _sizes(split, sum(map(len, writes))))
    slow = _faults_of(Slow, faults)
    before, between = _seconds_before(faults), sum(fault.between for fault in slow)
    total = max((fault.total for fault in slow if fault.total is not None), default=None)
    if total is not None:
        between = total / max(1, len(starts) - 1)
        before += total if len(starts) == 1 else 0
    timed = _timed(writes, starts, between)
    return Answer(200, headers, timed, length, before, is_cut=bool(ends))


def _timed(writes: list[bytes], starts: list[int], between: float) -> list[Write]:
    """Add a pause before a write for each event that starts in it, except for the first event."""
    ends = list(accumulate(map(len, writes)))
    counts = [0] * len(writes)
    for start in starts[1:]:
        write = bisect_right(ends, start)
        if write < len(writes):  # not cut off
            counts[write] += 1
    return [Write(data, between * count) for data, count in zip(writes, counts, strict=True)]


def _seconds_before(faults: Sequence[Fault]) -> float:
    return sum(fault.before for fault in _faults_of(Slow, faults))


def _faults_of(kind: type[_Fault], faults: Sequence[Fault]) -> list[_Fault]:
    return [fault for fault in faults if isinstance(fault, kind)]


def _event_at(place: Place, events: list[bytes]) -> int:
    """Return the number of events before a place."""
    if place != "call":
        return place
    pieces = [index for index, event in enumerate(events) if _has_arguments(event)]
    return pieces[len(pieces) // 2] if pieces else len(events) // 2


def _byte_at(place: Place, writes: list[bytes]) -> int:
    """Return the number of bytes before a place: for a call, to the middle of its middle event."""
    if place != "call":
        return place
    index = _event_at(place, writes)
    return sum(map(len, writes[:index])) + len(writes[index]) // 2 if writes else 0


def _truncate(end: int, writes: list[bytes]) -> list[bytes]:
    starts = accumulate(map(len, writes), initial=0)
    kept = [write[: max(0, end - start)] for start, write in zip(starts, writes, strict=False)]
    return [write for write in kept if write]


def _sizes(split: Split, length: int) -> list[int]:
    if split.seed is None:
        return list(split.sizes)
    random = Random(split.seed)  # noqa: S311 - not for secrets
    return [random.randint(1, max(split.sizes)) for _ in range(length)] or [1]


def _halved(event: bytes) -> bytes:
    """Drop half of an event's payload, so that it is not JSON."""
    start = event.rfind(b"data:") + len(b"data:")
    text = event.rstrip(b"\r\n")
    return text[: max(start + 1, (start + len(text)) // 2)] + b"\n\n"


def _message(fault: Status | ErrorEvent) -> str:
    return fault.message or STATUS_MESSAGES.get(
        fault.status, "An error, as configured in the mock provider"
    )


def _has_arguments(event: bytes) -> bool:
    """Return True if an event contains a piece of a tool's arguments, in any of the APIs."""
    decoder = SseDecoder()
    frames = [*decoder.feed(event), *decoder.close()]
    return any(
        _is_argument_piece(decode(frame.data)) for frame in frames if isinstance(frame, Frame)
    )


def _is_argument_piece(payload: Any) -> bool:
    match payload:
        case {"delta": {"partial_json": str(piece)}}:
            return bool(piece)
        case {
            "choices": [{"delta": {"tool_calls": [{"function": {"arguments": str(piece)}}, *_]}}]
        }:
            return bool(piece)
        case {"type": str(type_), "delta": str(piece)} if type_.endswith("_call_arguments.delta"):
            return bool(piece)
        case _:
            return False


@dataclass(frozen=True)
class RecordedAnswer:
    """A recorded response: its events, or its body if it was not streamed."""

    protocol: str  # empty for an unknown API
    events: tuple[bytes, ...] = ()
    whole: bytes | None = None
    status: int = 200
    content_type: str = ""  # empty: the default of the API
    is_cut: bool = False
    timed: Answer | None = None  # the response with its timing, for ``timed=True``

    def with_head(self, answer: Answer) -> Answer:
        """Apply the recording's status, content type and cut to a response."""
        headers = dict(answer.headers)
        if self.content_type:
            headers["content-type"] = self.content_type
        if self.status in _WITHOUT_BODY:
            return replace(answer, status=self.status, headers=headers, writes=(), length=0)
        is_cut = answer.is_cut or self.is_cut
        # The full length of a truncated body is unknown.
        length = None if self.is_cut else answer.length
        return replace(answer, status=self.status, headers=headers, length=length, is_cut=is_cut)


def read_answer(recording: str | Path | bytes, *, timed: bool = False) -> RecordedAnswer:
    """Detect the API of a recording, and frame JSON lines as events."""
    if isinstance(recording, bytes):
        return _parse(recording, timed=timed)
    try:
        return _parse(Path(recording).read_bytes(), timed=timed)
    except OSError as error:
        raise UsageError(f"cannot read {recording}: {error.strerror}") from error


def _parse(data: bytes, *, timed: bool) -> RecordedAnswer:
    if is_recording(data):
        return _parse_recording(parse_recording(data), timed=timed)
    if timed:
        raise UsageError("timed needs a recording of argstream. A response body has no times")
    return _parse_body(data)


def _parse_recording(recording: Recording, *, timed: bool) -> RecordedAnswer:
    response = recording.header.response
    is_cut = recording.ending != "orderly"
    made = _parse_recorded_body(recording, is_cut=is_cut)
    if response is not None and not 200 <= response.status < 600:
        raise UsageError(f"a response with the status {response.status} cannot be replayed")
    if response is not None:
        content_type = response.headers.get("content-type", "")
        made = replace(made, status=response.status, content_type=content_type)
    made = replace(made, is_cut=is_cut)
    return replace(made, timed=_as_recorded(recording, made)) if timed else made


def _parse_recorded_body(recording: Recording, *, is_cut: bool) -> RecordedAnswer:
    request, response = recording.header.request, recording.header.response
    chunks = tuple(chunk.data for chunk in recording.chunks)
    protocol = ""
    if request is not None:
        path = urlsplit(request.url).path
        dialects = _DIALECTS.values()
        found = (one for one in dialects if path.endswith(one.route.removeprefix("/v1")))
        protocol = next((dialect.protocol for dialect in found), "")
        if not protocol:
            return RecordedAnswer("", chunks)
    if protocol and response is not None and response.status >= 400:
        return RecordedAnswer(protocol, whole=recording.data)
    try:
        made = _parse_body(recording.data)
    except UsageError:  # another API, or too short to detect it
        return RecordedAnswer(protocol, chunks)
    if is_cut and made.whole is None:  # do not complete a truncated event
        return replace(made, events=chunks)
    return made


def _as_recorded(recording: Recording, made: RecordedAnswer) -> Answer:
    times = [0.0, *(chunk.at for chunk in recording.chunks)]
    pauses = [max(0.0, later - earlier) for earlier, later in pairwise(times)]
    chunks = [chunk.data for chunk in recording.chunks]
    writes = [Write(data, pause) for data, pause in zip(chunks, pauses, strict=True)]
    length = None if made.whole is None else len(made.whole)
    return made.with_head(Answer(200, {"content-type": "text/event-stream"}, writes, length))


def _parse_body(data: bytes) -> RecordedAnswer:
    data = data.removeprefix(BYTE_ORDER_MARK)
    if data.lstrip()[:1] in (b"{", b"["):
        return _from_json(data)
    events = sse_events(data.lstrip(b"\r\n"))
    if events and not events[-1].endswith((b"\n\n", b"\r\n\r\n", b"\r\r")):
        # Recordings often lack the last blank line, but clients need it.
        events[-1] += b"\n\n"
    return RecordedAnswer(_protocol(_frames(SseDecoder(), data)), tuple(events))


def _from_json(data: bytes) -> RecordedAnswer:
    frames = _frames(JsonTextDecoder(), data)
    protocol = _protocol(frames)
    if len(frames) == 1 and _is_whole(decode(frames[0].data)):
        return RecordedAnswer(protocol, whole=data)
    events = [_FRAMING[protocol](frame.data) for frame in frames]
    if protocol == "openai-chat" and frames[-1].data.strip() != b"[DONE]":
        events.append(sse(b"[DONE]"))
    return RecordedAnswer(protocol, tuple(events))


def _frames(decoder: SseDecoder | JsonTextDecoder, data: bytes) -> list[Frame]:
    frames = [*decoder.feed(data), *decoder.close()]
    return [frame for frame in frames if not isinstance(frame, Broken)]


def _protocol(frames: list[Frame]) -> str:
    found = (detect(frame.data, frame.event) for frame in frames)
    protocol = next((protocol for protocol in found if protocol is not None), "")
    if protocol in _FRAMING:
        return protocol
    raise UsageError(
        "not a recording of Anthropic Messages, OpenAI Chat Completions or OpenAI Responses. "
        "Pass the body of a response, as server-sent events or JSON lines"
    )


def _named_event(data: bytes) -> bytes:
    """Return an event named after its payload's type, as Anthropic's client needs it."""
    payload = decode(data)
    name = payload.get("type") if isinstance(payload, dict) else None
    return sse(data, name if isinstance(name, str) and name.isprintable() else "")


_FRAMING: Final[dict[str, Callable[[bytes], bytes]]] = {
    "anthropic": _named_event,
    "openai-chat": sse,
    "openai-responses": _named_event,
}


def _is_whole(payload: Any) -> bool:
    return isinstance(payload, dict) and (
        payload.get("type") == "message" or payload.get("object") in _WHOLE
    )


def _object(body: bytes) -> dict[str, Any] | None:
    value = decode(body)
    return value if isinstance(value, dict) else None
