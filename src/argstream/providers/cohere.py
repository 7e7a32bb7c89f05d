"""Cohere's chat, version 2.

Each part has events for its start, its deltas and its end. Calls and content have separate indexes.
``tool_calls`` of an event is one call, not a list. Before tool calls, a model may write a plan in a
separate field: it is treated as thinking, and sent back as the plan.
"""

from collections.abc import Hashable
from typing import Any, Final, TypeVar

from msgspec import Struct

from argstream.providers import _deltas as d
from argstream.providers._payloads import PayloadReader, UnreadableError, arguments, integer, plain
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
    """The new part of a message. Some gateways send it as a list."""

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
    type: str = ""
    index: int | None = None
    delta: _Delta | None = None
    id: str | None = None
    message: str | None = None  # of an error


_read = PayloadReader(
    _StreamEvent,
    vital="index delta message tool_calls function content text thinking tool_plan",
    known_types={
        *("tool-call-start", "tool-call-delta", "tool-call-end", "tool-plan-delta"),
        *("content-start", "content-delta", "content-end", "message-end"),
    },
)


class CohereDecoder(d.ProviderDecoder):
    """Payloads of Cohere's chat → deltas."""

    protocol = "cohere"

    def __init__(self) -> None:
        self._thoughts: dict[Hashable, list[str]] = {}  # pieces of open thinking blocks
        self._citations: list[Any] = []
        self._open: dict[Hashable, str] = {}  # call IDs

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of one payload: bytes, a dict, or an event of the SDK."""
        data = _read(payload)
        change = data.delta or _Delta()
        message = change.message or _Message()
        call = _only_part(message.tool_calls) or _ToolCall()
        function = call.function or _Function()
        match data.type:
            case "tool-call-delta":
                return arguments(_index(data), function.arguments, payload)
            case "content-delta":
                return self._content(data.index or 0, message.content)
            case "tool-plan-delta":
                return self._add_thinking(_PLAN, message.tool_plan)
            case "tool-call-start":
                key = _index(data)
                if call.id and self._open.get(key) == call.id:
                    return []  # a repetition
                self._open[key] = call.id or ""
                opened = d.CallOpened(key, call.id or "", function.name or "")
                given = arguments(key, function.arguments, payload)
                return [*self._end_thinking(_PLAN), opened, *given]
            case "tool-call-end":
                self._open.pop(_index(data), None)
                return [d.CallClosed(_index(data))]
            case "content-start":
                return self._end_thinking(_PLAN) + self._content(data.index or 0, message.content)
            case "content-end":
                return self._end_thinking(("content", data.index or 0))
            case "citation-start" if message.citations is not None:
                given = message.citations
                self._citations += given if isinstance(given, list) else [plain(given)]
            case "message-start":
                self._thoughts.clear()
                self._citations.clear()
                self._open.clear()
                return [d.TurnOpened(data.id or "")]
            case "message-end":
                return self._ended(change)
            case type_ if data.message or "error" in (type_, event):
                return [d.ProviderFailed("error", change.error or data.message or "error")]
        return []

    def close(self) -> list[d.Delta]:
        """Return the deltas that are known only at the end of the stream."""
        return self._end_all_thinking()

    def _content(self, index: int, content: _Content | list[_Content] | None) -> list[d.Delta]:
        part = _only_part(content)
        if part is None:
            return []
        key = ("content", index)
        if part.text:
            return [d.TextPiece(key, part.text)]
        if part.type == "thinking" and key not in self._thoughts:
            self._thoughts[key] = []
            return [d.ThinkingOpened(key), *self._add_thinking(key, part.thinking)]
        return self._add_thinking(key, part.thinking)

    def _add_thinking(self, key: Hashable, piece: str | None) -> list[d.Delta]:
        if not piece:
            return []
        self._thoughts.setdefault(key, []).append(piece)
        return [d.ThinkingPiece(key, piece)]

    def _end_thinking(self, key: Hashable) -> list[d.Delta]:
        """End a thinking block. The plan has no end event: it ends when another part begins."""
        pieces = self._thoughts.pop(key, None)
        if pieces is None:
            return []
        text = "".join(pieces)
        item = {"tool_plan": text} if key == _PLAN else {"type": "thinking", "thinking": text}
        return [d.Opaque(key, item), d.ThinkingClosed(key)]

    def _end_all_thinking(self) -> list[d.Delta]:
        return [delta for key in list(self._thoughts) for delta in self._end_thinking(key)]

    def _ended(self, change: _Delta) -> list[d.Delta]:
        deltas = self._end_all_thinking()
        if self._citations:
            deltas.append(d.Opaque("citations", {"citations": self._citations}))
            self._citations = []
        reason = change.finish_reason
        if reason in _FAILURES or change.error:
            code = reason or "error"
            text = change.error or _FAILURES.get(code, code)
            deltas.append(d.ProviderFailed(code, text, code in _FAILURES))
        deltas.append(d.TurnEnded(reason, ending_of(reason)))
        return [*deltas, d.UsageReported(_tokens(change.usage or {})), d.TurnClosed()]


def _index(data: _StreamEvent) -> int:
    if data.index is None:
        raise UnreadableError("tool call event has no index")
    return data.index


def _only_part(given: _Part | list[_Part] | None) -> _Part | None:
    """Return the only part of an event. Some gateways send a list."""
    if not isinstance(given, list):
        return given
    if len(given) > 1:
        raise UnreadableError(f"expected one part in an event, not {len(given)}")
    return given[0] if given else None


def _tokens(usage: dict[str, Any]) -> d.Tokens:
    # Billed units exclude the tokens that Cohere adds to a prompt.
    read = usage.get("tokens") or usage.get("billed_units")
    counts = read if isinstance(read, dict) else {}  # of floats in the SDK
    return d.Tokens(
        input_tokens=integer(counts.get("input_tokens")),
        output_tokens=integer(counts.get("output_tokens")),
        cache_read_tokens=integer(usage.get("cached_tokens")),
    )
