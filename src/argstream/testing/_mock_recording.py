"""A recorded answer, ready to be sent again: of our own recordings, or the body of an answer.

A body is server-sent events, JSON lines, or one document. A recording of ``argstream record`` knows
more: its status, its type, whether it was cut, and its times. If it is of an API that the mock does
not know, it is sent as it came, whatever is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from argstream.adapters import detect
from argstream.errors import UsageError
from argstream.recording import Recording, parse_recording
from argstream.recording.format import is_recording
from argstream.recording.reader import sse_events
from argstream.testing._mock_answers import Answer, Write
from argstream.testing._mock_wire import decode, sse
from argstream.wire import Broken, Frame, JsonTextDecoder, SseDecoder
from argstream.wire.frames import BYTE_ORDER_MARK

__all__ = ["RecordedAnswer", "read_answer"]

_WHOLE: Final = ("chat.completion", "response")
_WITHOUT_BODY: Final = (204, 304)
_ROUTES: Final = {
    "/messages": "anthropic",
    "/chat/completions": "openai-chat",
    "/responses": "openai-responses",
}


@dataclass(frozen=True)
class RecordedAnswer:
    """An answer as it was recorded: its events, or, if it was not streamed, its body."""

    protocol: str
    """Empty if the mock does not know the API."""
    events: tuple[bytes, ...] = ()
    whole: bytes | None = None
    status: int = 200
    content_type: str = ""
    """Empty: as the API has it."""
    is_cut: bool = False
    timed: Answer | None = None
    """The answer as it came, with its times, if that is wanted."""

    def dressed(self, answer: Answer) -> Answer:
        """Give an answer with this body what else is known of it."""
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
    """Find out what a recording is, and frame it as events where it is not yet."""
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
    return replace(made, timed=_timed(recording, made)) if timed else made


def _of_recorded_body(recording: Recording, *, is_cut: bool) -> RecordedAnswer:
    request, response = recording.header.request, recording.header.response
    as_it_came = tuple(chunk.data for chunk in recording.chunks)
    protocol = ""
    if request is not None:
        path = urlsplit(request.url).path
        routes = (protocol for route, protocol in _ROUTES.items() if path.endswith(route))
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


def _timed(recording: Recording, made: RecordedAnswer) -> Answer:
    """Give the answer as it came: each chunk when it came."""
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
    """Give an event the name that its payload has: Anthropic's client wants one."""
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
