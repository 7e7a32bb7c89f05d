"""A provider that one can start: the real clients talk to it, and it says what a script says.

::

    with MockProvider(Reply(CallTool("add", {"a": 1, "b": 2}))) as provider:
        client = anthropic.Anthropic(base_url=provider.anthropic_url, api_key="any")
        ...
        provider.check()

It serves Anthropic Messages, OpenAI Chat Completions and OpenAI Responses, streamed or not, on the
loopback interface only.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

from argstream.errors import UsageError
from argstream.models import Reply as ScriptedReply
from argstream.providers import detect
from argstream.recording import Recording, parse_recording
from argstream.recording._format import is_recording
from argstream.recording._recording import sse_events
from argstream.recording.proxy import LoopbackServer
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
from argstream.testing._replies import (
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
from argstream.wire import Broken, Frame, JsonTextDecoder, SseDecoder
from argstream.wire._frames import BYTE_ORDER_MARK

_Fault = TypeVar("_Fault", bound=Fault)
_WHOLE: Final = ("chat.completion", "response")
_WITHOUT_BODY: Final = (204, 304)
_RECORDED_ROUTES: Final = {
    "/messages": "anthropic",
    "/chat/completions": "openai-chat",
    "/responses": "openai-responses",
}
_ANTHROPIC: Final[Dialect] = AnthropicDialect()
_CHAT: Final[Dialect] = ChatDialect()
_RESPONSES: Final[Dialect] = ResponsesDialect()
_DIALECTS: Final = {dialect.route: dialect for dialect in (_ANTHROPIC, _CHAT, _RESPONSES)}
_ROUTES: Final = ", ".join(f"POST {route}" for route in _DIALECTS)
# Parts of the names of headers whose values are secrets.
_SECRET: Final = ("auth", "key", "token", "secret", "cookie")
_MOST_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class ReceivedRequest:
    """A request that the provider received, without its key."""

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    """By name in lower case; the value of one that could hold a secret is ``[removed]``."""
    body: dict[str, Any] | None
    """None if it was not a JSON object."""
    status: int
    """Of the answer."""
    problems: tuple[str, ...]
    """Why it was refused, if it was."""

    @property
    def is_streamed(self) -> bool:
        return self.body is not None and self.body.get("stream") is True


class HangUp(NamedTuple):
    """A client went away before its answer was over."""

    sent: int
    """How many bytes of the answer had left; a few of them nobody has read."""
    of: int
    """How many it has."""


class MockProvider:
    """A server on the loopback interface that answers as a script or a recording says.

    A single reply answers every request. A list answers one request each; what comes after its end
    is refused, unless ``repeat`` starts it again. A request that is refused uses no reply.

    ``faults`` are made in every answer, besides those of the reply itself. ``on_request`` is called
    for each request, in the thread that answers it, before the answer is sent.

    The provider checks the form of a request only. ``check`` can refuse more. It is called with one
    request at a time, if that would be answered (its status is 200 so far). If it returns a
    message, the request is refused with status 400 and this message.
    """

    def __init__(
        self,
        script: "ScriptedReply | RecordedAnswer | Sequence[ScriptedReply | RecordedAnswer]",
        *,
        faults: Iterable[Fault] = (),
        repeat: bool = False,
        port: int = 0,
        on_request: Callable[[ReceivedRequest], None] | None = None,
        check: Callable[[ReceivedRequest], str | None] | None = None,
    ) -> None:
        if isinstance(script, ScriptedReply | RecordedAnswer):
            script, repeat = (script,), True
        given = tuple(script)
        if not given or not all(isinstance(one, ScriptedReply | RecordedAnswer) for one in given):
            raise UsageError("MockProvider: give it a Reply, or a list of at least one")
        self._answers = [Reply.of(one) if isinstance(one, ScriptedReply) else one for one in given]
        self._faults = checked_faults(faults)
        self._repeats = repeat
        self._on_request = on_request
        self._check = check
        self._port = port
        self._server: _MockServer | None = None
        self._hang_ups: list[HangUp] = []
        # Guards what follows, since each connection has a thread. A check may read the requests.
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
        """Serve recorded answers: files, or their bytes.

        These are recordings of ``argstream record``, or bodies of server-sent events or JSON lines.
        One recording answers every request to its API, several answer one request each. ``timed``
        sends each chunk of a recording when it came, and allows no faults.
        """
        if timed and tuple(faults):
            raise UsageError("MockProvider: timed sends what was recorded, so it makes no faults")
        read = [read_answer(recording, timed=timed) for recording in recordings]
        return cls(
            read[0] if len(read) == 1 else read,
            faults=faults,
            repeat=repeat,
            port=port,
            on_request=on_request,
        )

    def start(self) -> Self:
        """Begin to listen. ``with`` does it."""
        if self._server is not None:
            raise UsageError("MockProvider: it is running already; stop it first")
        self._server = _MockServer(self._port, self._respond, self._hang_ups)
        return self

    def stop(self) -> None:
        """Stop at once, also in the middle of an answer."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address of the server, without a path."""
        if self._server is None:
            raise UsageError("MockProvider: it has no address until it runs; use `with`")
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def anthropic_url(self) -> str:
        """The ``base_url`` for Anthropic's client."""
        return self.url

    @property
    def openai_url(self) -> str:
        """The ``base_url`` for OpenAI's client, which wants the version in it."""
        return f"{self.url}/v1"

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Every request so far, also those that were refused."""
        with self._lock:
            return list(self._requests)

    @property
    def hang_ups(self) -> list[HangUp]:
        """The answers during which the client went away. That shows when more is sent."""
        return list(self._hang_ups)

    def check(self) -> None:
        """Raise an error that lists what was wrong with the requests, if anything was."""
        problems = [
            f"request {request.number}, {request.method} {request.path}: {problem}"
            for request in self.requests
            for problem in request.problems
        ]
        if problems:
            raise UsageError("\n".join(["the mock provider refused:", *problems]))

    def _respond(self, raw: "_RawRequest") -> "Answer":
        path = raw.path.partition("?")[0]  # some put a key into what follows
        body = _object(raw.body)
        with self._lock:
            request = ReceivedRequest(
                number=len(self._requests) + 1,
                method=raw.method,
                path=path,
                headers=_without_secrets(raw.headers),
                body=body,
                status=200,
                problems=(),
            )
            answer, problems = self._decide(raw, request)
            messages = tuple(problem.message for problem in problems)
            request = replace(request, status=answer.status, problems=messages)
            self._requests.append(request)
        if self._on_request is not None:
            self._on_request(request)
        # Anthropic's name for it, and OpenAI's.
        ids = dict.fromkeys(("request-id", "x-request-id"), f"req_mock_{request.number}")
        return replace(answer, headers={**answer.headers, **ids})

    def _decide(
        self, raw: "_RawRequest", request: ReceivedRequest
    ) -> "tuple[Answer, list[Problem]]":
        body, path = request.body, request.path
        dialect = _DIALECTS.get(path) if raw.method == "POST" else None
        if self._is_for_anything():
            return self._next(dialect or _CHAT, body or {}), []
        if dialect is None:
            dialect = _ANTHROPIC if "anthropic-version" in raw.headers else _CHAT
            problems = [Problem(f"there is no {raw.method} {path} here; there are: {_ROUTES}", 404)]
        elif body is None:
            problems = [Problem("the body must be a JSON object")]
        else:
            problems = dialect.problems(raw.headers, body) or self._lacking(dialect, body)
            if not problems and self._check is not None and (message := self._check(request)):
                problems = [Problem(message)]
            if not problems:
                return self._next(dialect, body), []
        message = "; ".join(problem.message for problem in problems)
        return error_answer(dialect, problems[0].status, message), problems

    def _is_for_anything(self) -> bool:
        """Return True if the next answer is of an API of which nothing else is known."""
        if self._answered >= len(self._answers) and not self._repeats:
            return False
        answer = self._scripted()
        return isinstance(answer, RecordedAnswer) and not answer.protocol

    def _lacking(self, dialect: Dialect, body: dict[str, Any]) -> list[Problem]:
        """Return why there is no answer to a request that is right in itself."""
        if self._answered >= len(self._answers) and not self._repeats:
            message = "the script is over after {} replies: add one, or say repeat=True"
            return [Problem(message.format(len(self._answers)))]
        answer = self._scripted()
        if isinstance(answer, Reply):
            return []
        if answer.protocol != dialect.protocol:
            return [Problem(f"the recording is of {answer.protocol}, not of {dialect.protocol}")]
        is_stream = answer.whole is None
        if answer.status < 400 and is_stream != (body.get("stream") is True):
            found, wanted = ("a stream", "true") if is_stream else ("no stream", "false")
            return [Problem(f"the recording is {found}: ask for it with stream: {wanted}")]
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
            return answer.dressed(whole_answer(answer.whole, faults))
        return answer.dressed(stream_answer(dialect, answer.events, faults))


class Write(NamedTuple):
    """Bytes that are sent at once, after a pause."""

    data: bytes
    seconds_before: float = 0.0


@dataclass(frozen=True)
class Answer:
    """A response, decided in full before its first byte is sent."""

    status: int
    headers: Mapping[str, str]
    writes: Sequence[Write]
    length: int | None = None  # None: sent in chunks, one for each write
    seconds_before: float = 0.0
    is_cut: bool = field(default=False, kw_only=True)  # closed without an orderly end


def error_answer(dialect: Dialect, status: int, message: str) -> Answer:
    body = encode(dialect.error(status, message))
    return Answer(status, {"content-type": "application/json"}, [Write(body)], len(body))


def fault_answer(dialect: Dialect, faults: Sequence[Fault], *, streamed: bool) -> Answer | None:
    """Return the error that takes the place of an answer, if a fault says so."""
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
                seconds_before=_Timing(faults).before,
            )
    return None


def stream_answer(dialect: Dialect, events: Iterable[bytes], faults: Sequence[Fault]) -> Answer:
    """Return events as an answer, each as a write of its own unless they are split."""
    events = list(events)
    for broken in _of(Malformed, faults):
        if events:
            index = min(_event_at(broken.at, events), len(events) - 1)
            events[index] = _halved(events[index])
    for error in _of(ErrorEvent, faults):
        index = min(_event_at(error.at, events), len(events))
        events[index:] = dialect.error_events(error.status, _message(error), index)
    headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    return _written(events, headers, None, faults)


def whole_answer(body: bytes, faults: Sequence[Fault]) -> Answer:
    if _of(Malformed, faults):
        body = body[: len(body) // 2]
    return _written([body], {"content-type": "application/json"}, len(body), faults)


def _written(
    writes: list[bytes], headers: dict[str, str], length: int | None, faults: Sequence[Fault]
) -> Answer:
    starts = [0, *accumulate(map(len, writes[:-1]))]  # of events, which a split may put elsewhere
    # The shortest counts, if there are several.
    ends = [_byte_at(fault.at, writes) for fault in _of(Cut, faults)]
    if ends:
        writes = _up_to(min(ends), writes)
    for split in _of(Split, faults):
        writes = cut(b"".join(writes), _sizes(split, sum(map(len, writes))))
    timing = _Timing(faults)
    before, between = timing.before, timing.between
    if timing.total is not None:
        between = timing.total / max(1, len(starts) - 1)
        before += timing.total if len(starts) == 1 else 0
    timed = _timed(writes, starts, between)
    return Answer(200, headers, timed, length, before, is_cut=bool(ends))


class _Timing:
    """What all faults together say about time."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        slow = _of(Slow, faults)
        self.before = sum(fault.before for fault in slow)
        self.between = sum(fault.between for fault in slow)
        self.total = max((fault.total for fault in slow if fault.total is not None), default=None)


def _timed(writes: list[bytes], starts: list[int], between: float) -> list[Write]:
    """Wait before a write for each event that begins in it, but not for the first of all."""
    ends = list(accumulate(map(len, writes)))
    counts = [0] * len(writes)
    for start in starts[1:]:
        write = bisect_right(ends, start)
        if write < len(writes):  # the rest is cut off
            counts[write] += 1
    return [Write(data, between * count) for data, count in zip(writes, counts, strict=True)]


def _of(kind: type[_Fault], faults: Sequence[Fault]) -> list[_Fault]:
    return [fault for fault in faults if isinstance(fault, kind)]


def _event_at(place: Place, events: list[bytes]) -> int:
    """Return how many events come before a place."""
    if place != "call":
        return place
    pieces = [index for index, event in enumerate(events) if _has_arguments(event)]
    return pieces[len(pieces) // 2] if pieces else len(events) // 2


def _byte_at(place: Place, writes: list[bytes]) -> int:
    """Return how many bytes come before a place: for a call, half of the event in its middle."""
    if place != "call":
        return place
    index = _event_at(place, writes)
    return sum(map(len, writes[:index])) + len(writes[index]) // 2 if writes else 0


def _up_to(end: int, writes: list[bytes]) -> list[bytes]:
    starts = accumulate(map(len, writes), initial=0)
    kept = [write[: max(0, end - start)] for start, write in zip(starts, writes, strict=False)]
    return [write for write in kept if write]


def _sizes(split: Split, length: int) -> list[int]:
    if split.seed is None:
        return list(split.sizes)
    random = Random(split.seed)  # noqa: S311 - not for secrets
    return [random.randint(1, max(split.sizes)) for _ in range(length)] or [1]


def _halved(event: bytes) -> bytes:
    """Drop half of an event's payload: no half of an object is JSON."""
    start = event.rfind(b"data:") + len(b"data:")
    text = event.rstrip(b"\r\n")
    return text[: max(start + 1, (start + len(text)) // 2)] + b"\n\n"


def _message(fault: Status | ErrorEvent) -> str:
    return fault.message or STATUS_MESSAGES.get(fault.status, "An error, as was asked")


def _has_arguments(event: bytes) -> bool:
    """Return True if an event is a piece of a tool's arguments, in any of the APIs."""
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
    """An answer as it was recorded: its events, or, if it was not streamed, its body."""

    protocol: str  # empty if the mock does not know the API
    events: tuple[bytes, ...] = ()
    whole: bytes | None = None
    status: int = 200
    content_type: str = ""  # empty: as the API has it
    is_cut: bool = False
    timed: Answer | None = None  # the answer with its times, if that is wanted

    def dressed(self, answer: Answer) -> Answer:
        """Add status, content type and cut of the recording to an answer with its body."""
        headers = dict(answer.headers)
        if self.content_type:
            headers["content-type"] = self.content_type
        if self.status in _WITHOUT_BODY:
            return replace(answer, status=self.status, headers=headers, writes=(), length=0)
        is_cut = answer.is_cut or self.is_cut
        # Of what was cut, nobody knows how long it should have been.
        length = None if self.is_cut else answer.length
        return replace(answer, status=self.status, headers=headers, length=length, is_cut=is_cut)


def read_answer(recording: str | Path | bytes, *, timed: bool = False) -> RecordedAnswer:
    """Detect what a recording is, and frame it as events where it is not yet."""
    if isinstance(recording, bytes):
        return _parse(recording, timed=timed)
    try:
        return _parse(Path(recording).read_bytes(), timed=timed)
    except OSError as error:
        raise UsageError(f"cannot read {recording}: {error.strerror}") from error


def _parse(data: bytes, *, timed: bool) -> RecordedAnswer:
    if is_recording(data):
        return _of_own(parse_recording(data), timed=timed)
    if timed:
        raise UsageError("only a recording of argstream has times; this is the body of an answer")
    return _of_body(data)


def _of_own(recording: Recording, *, timed: bool) -> RecordedAnswer:
    response = recording.header.response
    is_cut = recording.ending != "orderly"
    made = _of_recorded_body(recording, is_cut=is_cut)
    if response is not None and not 200 <= response.status < 600:
        raise UsageError(f"an answer with the status {response.status} cannot be sent again")
    if response is not None:
        content_type = response.headers.get("content-type", "")
        made = replace(made, status=response.status, content_type=content_type)
    made = replace(made, is_cut=is_cut)
    return replace(made, timed=_as_recorded(recording, made)) if timed else made


def _of_recorded_body(recording: Recording, *, is_cut: bool) -> RecordedAnswer:
    request, response = recording.header.request, recording.header.response
    as_it_came = tuple(chunk.data for chunk in recording.chunks)
    protocol = ""
    if request is not None:
        path = urlsplit(request.url).path
        routes = (protocol for route, protocol in _RECORDED_ROUTES.items() if path.endswith(route))
        protocol = next(routes, "")
        if not protocol:
            return RecordedAnswer("", as_it_came)
    if protocol and response is not None and response.status >= 400:
        return RecordedAnswer(protocol, whole=recording.data)
    try:
        made = _of_body(recording.data)
    except UsageError:  # of another API, or there is too little of it to tell
        return RecordedAnswer(protocol, as_it_came)
    if is_cut and made.whole is None:  # not to be mended
        return replace(made, events=as_it_came)
    return made


def _as_recorded(recording: Recording, made: RecordedAnswer) -> Answer:
    times = [0.0, *(chunk.at for chunk in recording.chunks)]
    pauses = [max(0.0, later - earlier) for earlier, later in pairwise(times)]
    chunks = [chunk.data for chunk in recording.chunks]
    writes = [Write(data, pause) for data, pause in zip(chunks, pauses, strict=True)]
    length = None if made.whole is None else len(made.whole)
    return made.dressed(Answer(200, {"content-type": "text/event-stream"}, writes, length))


def _of_body(data: bytes) -> RecordedAnswer:
    data = data.removeprefix(BYTE_ORDER_MARK)
    if data.lstrip()[:1] in (b"{", b"["):
        return _from_json(data)
    events = sse_events(data.lstrip(b"\r\n"))
    if events and not events[-1].endswith((b"\n\n", b"\r\n\r\n", b"\r\r")):
        # Recordings often lack the last blank line, without which no client takes the event.
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
        "this is no recording of Anthropic Messages, OpenAI Chat Completions or OpenAI Responses: "
        "give the body of an answer, as server-sent events or JSON lines"
    )


def _named(data: bytes) -> bytes:
    """Return an event with the name that its payload has: Anthropic's client needs one."""
    payload = decode(data)
    name = payload.get("type") if isinstance(payload, dict) else None
    return sse(data, name if isinstance(name, str) and name.isprintable() else "")


_FRAMING: Final[dict[str, Callable[[bytes], bytes]]] = {
    "anthropic": _named,
    "openai-chat": sse,
    "openai-responses": _named,
}


def _is_whole(payload: Any) -> bool:
    return isinstance(payload, dict) and (
        payload.get("type") == "message" or payload.get("object") in _WHOLE
    )


class _RawRequest:
    """A request as it came. It holds the key, so it is neither kept nor shown."""

    __slots__ = ("body", "headers", "method", "path")

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body


def _object(body: bytes) -> dict[str, Any] | None:
    value = decode(body)
    return value if isinstance(value, dict) else None


def _without_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: "[removed]" if any(word in name for word in _SECRET) else value
        for name, value in headers.items()
    }


_Respond: TypeAlias = Callable[[_RawRequest], Answer]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "argstream-mock"
    sys_version = ""
    disable_nagle_algorithm = True  # each write leaves at once
    server: "_MockServer"

    def _handle(self) -> None:
        body = self._read_body()
        if body is None:
            return
        headers: dict[str, str] = {}
        for name, value in self.headers.items():
            headers[name.lower()] = value
        self._send(self.server.respond(_RawRequest(self.command, self.path, headers, body)))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - http.server has it so

    def _read_body(self) -> bytes | None:
        length = self.headers.get("content-length", "0")
        if "transfer-encoding" in self.headers:
            self.send_error(411, "Send the body with a content-length")
        elif not length.isascii() or not length.isdigit():
            self.send_error(400, "The content-length is no number")
        elif int(length[:12]) > _MOST_BYTES:
            self.send_error(413, "The body is too long")
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):
                return body
        self.close_connection = True
        return None

    def _send(self, answer: Answer) -> None:
        self._pause(answer.seconds_before)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        in_chunks = answer.length is None
        if in_chunks:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(answer.length))
        self.end_headers()
        sent = 0
        for data, seconds_before in answer.writes:
            try:
                self._pause(seconds_before)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if in_chunks else data)
            except ConnectionError:
                if not self.server.stopping.is_set():
                    whole = sum(len(write.data) for write in answer.writes)
                    self.server.hang_ups.append(HangUp(sent, whole))
                raise
            sent += len(data)
        if answer.is_cut:
            self.close_connection = True
        elif in_chunks:
            self.wfile.write(b"0\r\n\r\n")

    def _pause(self, seconds: float) -> None:
        if seconds and self.server.stopping.wait(seconds):
            raise ConnectionAbortedError("the mock provider is being stopped")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: requests are in ``MockProvider.requests``."""


class _MockServer(LoopbackServer):
    def __init__(self, port: int, respond: _Respond, hang_ups: list[HangUp]) -> None:
        self.respond = respond
        self.hang_ups = hang_ups
        super().__init__(port, _Handler)
