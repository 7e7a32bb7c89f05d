"""A recorded answer, ready to be sent again: server-sent events, JSON lines, or one document."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from argstream.adapters import detect
from argstream.errors import UsageError
from argstream.testing._mock_wire import decode, sse
from argstream.wire import Broken, Frame, JsonTextDecoder, SseDecoder

__all__ = ["Recording", "read_recording"]

# An event with the blank line that ends it, or what is left.
_EVENT: Final = re.compile(rb".+?(?:\r\n\r\n|\n\n|\r\r)[\r\n]*|.+", re.DOTALL)
_WHOLE: Final = ("chat.completion", "response")


@dataclass(frozen=True)
class Recording:
    """An answer as it was recorded: its events, or, if it was not streamed, its body."""

    protocol: str
    events: tuple[bytes, ...] = ()
    whole: bytes | None = None


def read_recording(recording: str | Path | bytes) -> Recording:
    """Find out what a recording is, and frame it as events where it is not yet."""
    if isinstance(recording, bytes):
        return _parse(recording)
    try:
        return _parse(Path(recording).read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {recording}: {error.strerror}") from error


def _parse(data: bytes) -> Recording:
    data = data.removeprefix(b"\xef\xbb\xbf")
    if data.lstrip()[:1] in (b"{", b"["):
        return _from_json(data)
    events = _EVENT.findall(data.lstrip(b"\r\n"))
    if events and not events[-1].endswith((b"\n\n", b"\r\n\r\n", b"\r\r")):
        # Recordings often lack the last blank line, without which no client takes the event.
        events[-1] += b"\n\n"
    return Recording(_protocol(_frames(SseDecoder(), data)), tuple(events))


def _from_json(data: bytes) -> Recording:
    frames = _frames(JsonTextDecoder(), data)
    protocol = _protocol(frames)
    if len(frames) == 1 and _is_whole(decode(frames[0].data)):
        return Recording(protocol, whole=data)
    events = [_FRAMING[protocol](frame.data) for frame in frames]
    if protocol == "openai-chat" and frames[-1].data.strip() != b"[DONE]":
        events.append(sse(b"[DONE]"))
    return Recording(protocol, tuple(events))


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
