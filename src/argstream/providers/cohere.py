"""Cohere's chat, version 2.

Every part is opened, grows and is ended, each with a type of event of its own. Calls and content
are counted apart. What an event has in ``tool_calls`` is one call, not a list. Before it calls
tools, a model may write a plan, in a field of its own: it thinks aloud, so that is thinking here,
and goes back as the plan that it was.
"""

from collections.abc import Hashable
from typing import Any, Final, TypeVar

from msgspec import Struct

from argstream.providers._deltas import (
    CallClosed,
    CallOpened,
    Delta,
    Opaque,
    ProviderDecoder,
    ProviderFailed,
    TextPiece,
    ThinkingClosed,
    ThinkingOpened,
    ThinkingPiece,
    Tokens,
    TurnClosed,
    TurnEnded,
    TurnOpened,
    UsageReported,
)
from argstream.providers._payloads import (
    PayloadReader,
    UnreadableError,
    arguments,
    is_done,
    plain,
    refuse_duplicate_keys,
)
from argstream.providers._stop_reasons import ending_of

_FAILURES: Final = {
    "ERROR": "the provider could not finish its answer",
    "TIMEOUT": "the provider took too long",
}
_PLAN: Final = "plan"


class _Function(Struct, gc=False):
    name: str | None = None
    arguments: Any = None


class _ToolCall(Struct, gc=False):
    id: str | None = None
    function: _Function | None = None


class _Content(Struct, gc=False):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None


_Part = TypeVar("_Part", _ToolCall, _Content)


class _Message(Struct, gc=False):
    """What is new of a message. Lists are those of a response that was not streamed."""

    tool_calls: _ToolCall | list[_ToolCall] | None = None
    content: _Content | list[_Content] | None = None
    tool_plan: str | None = None
    citations: Any = None


class _Delta(Struct, gc=False):
    message: _Message | None = None
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: str | None = None


class _StreamEvent(Struct, gc=False):
    """An event of the stream. A response that was not streamed has its message at the top."""

    type: str = ""
    index: int | None = None
    delta: _Delta | None = None
    id: str | None = None
    message: _Message | str | None = None
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None


_read = PayloadReader(
    _StreamEvent,
    vital={
        "index",
        "delta",
        "message",
        "tool_calls",
        "function",
        "content",
        "text",
        "thinking",
        "tool_plan",
    },
    known_types={
        "tool-call-start",
        "tool-call-delta",
        "tool-call-end",
        "content-start",
        "content-delta",
        "content-end",
        "tool-plan-delta",
        "message-end",
    },
)


class CohereDecoder(ProviderDecoder):
    """Payloads of Cohere's chat → deltas."""

    protocol = "cohere"

    def __init__(self) -> None:
        self._thoughts: dict[Hashable, list[str]] = {}  # that are open, in pieces
        self._citations: list[Any] = []
        self._open: dict[Hashable, str] = {}  # ids of calls

    def feed(self, payload: object, event: str = "") -> list[Delta]:
        """Return the deltas of one payload: bytes, a dict, or an event of the SDK."""
        try:
            data = _read(payload)
        except UnreadableError:
            if is_done(payload):
                return []
            raise
        change = data.delta or _Delta()
        message = change.message or _Message()
        match data.type:
            case "tool-call-delta":
                call = _one(message.tool_calls) or _ToolCall()
                return arguments(_index(data), _given(call), payload)
            case "content-delta":
                return self._content(data.index or 0, message.content)
            case "tool-plan-delta":
                return self._thought(_PLAN, message.tool_plan)
            case "tool-call-start":
                call = _one(message.tool_calls) or _ToolCall()
                key = _index(data)
                if call.id and self._open.get(key) == call.id:
                    return []  # said twice
                self._open[key] = call.id or ""
                given = arguments(key, _given(call), payload)
                return [*self._thought_over(_PLAN), _opened(key, call), *given]
            case "tool-call-end":
                self._open.pop(_index(data), None)
                return [CallClosed(_index(data))]
            case "content-start":
                return self._thought_over(_PLAN) + self._content(data.index or 0, message.content)
            case "content-end":
                return self._thought_over(("content", data.index or 0))
            case "citation-start" if message.citations is not None:
                self._cite(message.citations)
            case "message-start":
                self._thoughts.clear()
                self._citations.clear()
                self._open.clear()
                return [TurnOpened(data.id or "")]
            case "message-end":
                return self._ended(change)
            case type_ if isinstance(data.message, _Message):
                if type_:
                    return []
                refuse_duplicate_keys(payload)
                return self._response(data, data.message)
            case type_ if isinstance(data.message, str) or "error" in (type_, event):
                said = change.error or data.message
                return [ProviderFailed("error", said if isinstance(said, str) else "error")]
        return []

    def close(self) -> list[Delta]:
        """Return what can only be said at the end of the stream."""
        return self._all_thoughts_over()

    def _content(self, index: int, content: _Content | list[_Content] | None) -> list[Delta]:
        part = _one(content)
        if part is None:
            return []
        key = ("content", index)
        if part.text:
            return [TextPiece(key, part.text)]
        if part.type == "thinking" and key not in self._thoughts:
            self._thoughts[key] = []
            return [ThinkingOpened(key), *self._thought(key, part.thinking)]
        return self._thought(key, part.thinking)

    def _thought(self, key: Hashable, piece: str | None) -> list[Delta]:
        if not piece:
            return []
        self._thoughts.setdefault(key, []).append(piece)
        return [ThinkingPiece(key, piece)]

    def _thought_over(self, key: Hashable) -> list[Delta]:
        """End a thought. The plan has no end of its own: it ends where something else begins."""
        pieces = self._thoughts.pop(key, None)
        if pieces is None:
            return []
        text = "".join(pieces)
        item = {"tool_plan": text} if key == _PLAN else {"type": "thinking", "thinking": text}
        return [Opaque(key, item), ThinkingClosed(key)]

    def _all_thoughts_over(self) -> list[Delta]:
        return [delta for key in list(self._thoughts) for delta in self._thought_over(key)]

    def _cite(self, citations: Any) -> None:
        self._citations += citations if isinstance(citations, list) else [plain(citations)]

    def _ended(self, change: _Delta) -> list[Delta]:
        deltas = self._all_thoughts_over()
        if self._citations:
            deltas.append(Opaque("citations", {"citations": self._citations}))
            self._citations = []
        reason = change.finish_reason
        if reason in _FAILURES or change.error:
            code = reason or "error"
            said = change.error or _FAILURES.get(code, code)
            deltas.append(ProviderFailed(code, said, code in _FAILURES))
        deltas.append(TurnEnded(reason, ending_of(reason)))
        return [*deltas, UsageReported(_tokens(change.usage or {})), TurnClosed()]

    def _response(self, data: _StreamEvent, message: _Message) -> list[Delta]:
        deltas: list[Delta] = [TurnOpened(data.id or "")]
        deltas += self._thought(_PLAN, message.tool_plan) + self._thought_over(_PLAN)
        for index, content in enumerate(_several(message.content)):
            deltas += self._content(index, content) + self._thought_over(("content", index))
        calls = _several(message.tool_calls)
        for key, call in enumerate(calls):
            deltas += [_opened(key, call), *arguments(key, _given(call))]
            if key < len(calls) - 1:  # the last one may have been cut
                deltas.append(CallClosed(key))
        if message.citations is not None:
            self._cite(message.citations)
        return deltas + self._ended(_Delta(finish_reason=data.finish_reason, usage=data.usage))


def _index(data: _StreamEvent) -> int:
    if data.index is None:
        raise UnreadableError("a part of a call without an index")
    return data.index


def _several(given: _Part | list[_Part] | None) -> list[_Part]:
    return given if isinstance(given, list) else [] if given is None else [given]


def _one(given: _Part | list[_Part] | None) -> _Part | None:
    """Return the part of an event: only one has an index, though gateways send lists."""
    parts = _several(given)
    if len(parts) > 1:
        raise UnreadableError("several parts in one event, which has only one index")
    return parts[0] if parts else None


def _opened(key: int, call: _ToolCall) -> CallOpened:
    name = call.function and call.function.name
    return CallOpened(key, call.id or "", name or "")


def _given(call: _ToolCall) -> object:
    return call.function and call.function.arguments


def _tokens(usage: dict[str, Any]) -> Tokens:
    # What is billed leaves out what Cohere itself adds to a prompt.
    read = usage.get("tokens") or usage.get("billed_units")
    counts = read if isinstance(read, dict) else {}
    return Tokens(
        input_tokens=_number(counts.get("input_tokens")),
        output_tokens=_number(counts.get("output_tokens")),
        cache_read_tokens=_number(usage.get("cached_tokens")),
    )


def _number(given: object) -> int | None:
    """Return a token count. The SDK has floats."""
    if isinstance(given, float) and given.is_integer():
        return int(given)
    return given if type(given) is int else None
