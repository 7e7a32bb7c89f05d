"""Anthropic Messages, also from Vertex and Bedrock.

A turn is a list of blocks. A block starts, grows by deltas, and stops. Its index is its key.
"""

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from argstream.history import CallKind
from argstream.providers import _deltas as d
from argstream.providers._payloads import (
    PayloadReader,
    UnreadableError,
    count,
    failure,
    has_failed,
    refuse_duplicate_keys,
    text_of,
    total,
)
from argstream.providers._stop_reasons import ending_of

CALLS: Final[dict[str, CallKind]] = {
    "tool_use": "function",
    "server_tool_use": "server",
    "mcp_tool_use": "mcp",
}
_RUN_BY_PROVIDER: Final = {"server_tool_use", "mcp_tool_use"}
_THOUGHTS: Final = {"thinking", "redacted_thinking"}
_TEXT_CHANGES: Final = {"input_json_delta", "text_delta", "thinking_delta"}
# Fields of a call that assembly keeps itself. All others must be sent back.
_KEPT_CALL_FIELDS: Final = {"type", "id", "name", "input"}


class _Delta(Struct, gc=False):
    """The ``delta`` of a block, or of the message."""

    type: str = ""
    partial_json: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: dict[str, Any] | None = None
    content: str | None = None
    stop_reason: str | None = None
    container: dict[str, Any] | None = None


class _StreamEvent(Struct, gc=False):
    """An event of the stream. A response that was not streamed has the type ``message``."""

    type: str = ""
    index: int | None = None
    delta: _Delta | None = None
    content_block: dict[str, Any] | None = None
    message: dict[str, Any] | str | None = None
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    id: str | None = None
    model: str | None = None
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None


_read = PayloadReader(
    _StreamEvent,
    vital="index delta content_block partial_json text thinking content",
    known_types={
        "message",
        *("content_block_start", "content_block_delta", "content_block_stop"),
        *("message_start", "message_delta", "message_stop"),
    },
)


class AnthropicDecoder(d.ProviderDecoder):
    """Payloads of the Messages API → deltas."""

    protocol = "anthropic"

    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}  # open blocks
        self._inputs: dict[int, Any] = {}  # of calls that began with an input and have no delta yet
        self._usage: dict[str, Any] = {}
        self._has_stop_reason = False

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of one payload: bytes, a dict, or an event of the SDK."""
        if type(payload) is not bytes and getattr(payload, "type", "") == "content_block_delta":
            # Fast path: the SDK's object for a piece of text has the fields of our struct.
            change: Any = getattr(payload, "delta", None)
            if getattr(change, "type", None) in _TEXT_CHANGES:
                return self._block_changed(getattr(payload, "index", 0), change)
        data = _read(payload)
        match data.type:
            case "content_block_delta":
                if data.delta is None or data.index is None:
                    raise UnreadableError("content_block_delta has no index or no delta")
                return self._block_changed(data.index, data.delta)
            case "content_block_start":
                if data.content_block is None or data.index is None:
                    raise UnreadableError("content_block_start has no index or no content_block")
                if data.content_block.get("input"):
                    refuse_duplicate_keys(payload)
                return self._block_started(data.index, data.content_block)
            case "content_block_stop" if data.index is not None:
                return self._block_stopped(data.index)
            case "message_start" if isinstance(data.message, dict):
                if data.message.get("content"):
                    refuse_duplicate_keys(payload)
                return self._message_started(data.message)
            case "message_delta":
                return self._message_changed(data)
            case "message_stop":
                return self._message_stopped()
            case "message":
                refuse_duplicate_keys(payload)
                deltas = self._message_started(asdict(data))
                if not data.stop_reason:
                    deltas.append(d.TurnEnded(None, "cut"))  # a snapshot of an unfinished message
                return deltas + self._message_stopped()
            case type_ if type_ == "error" or data.error or event == "error":
                return [failure(data.error or {"message": data.message}, "type")]
            case _:  # a ping, or an event that is not known
                return []

    def close(self) -> list[d.Delta]:
        """Return the deltas that are known only at the end of the stream."""
        deltas = self._rest_of_blocks()
        return deltas + self._message_stopped() if self._has_stop_reason else deltas

    def _message_stopped(self) -> list[d.Delta]:
        self._has_stop_reason = False
        return [*self._rest_of_blocks(), d.TurnClosed()]

    def _block_changed(self, index: int, change: _Delta) -> list[d.Delta]:
        match change.type:
            case "input_json_delta":
                if not change.partial_json:
                    return []
                if self._inputs:
                    self._inputs.pop(index, None)  # the input was a placeholder
                return [d.ArgumentText(index, change.partial_json)]
            case "text_delta" if change.text:
                self._extend(index, "text", change.text)
                return [d.TextPiece(index, change.text)]
            case "thinking_delta" if change.thinking:
                self._extend(index, "thinking", change.thinking)
                return [d.ThinkingPiece(index, change.thinking)]
            case "signature_delta" if change.signature:
                self._extend(index, "signature", change.signature)
            case "citations_delta" if change.citation is not None:
                block = self._blocks.setdefault(index, {"type": "text"})
                if not isinstance(block.get("citations"), list):
                    block["citations"] = []
                block["citations"].append(change.citation)
            case "compaction_delta" if change.content:
                self._extend(index, "content", change.content)
            case _ if change.partial_json:
                raise UnreadableError(f"partial_json in a delta of type {change.type!r}")
        return []

    def _extend(self, index: int, field: str, piece: str) -> None:
        block = self._blocks.get(index)
        if block is not None:
            text = block.pop(field, None) or ""
            text += piece  # in place: nothing else refers to it (invariant 6)
            block[field] = text

    def _block_started(self, index: int, block: dict[str, Any]) -> list[d.Delta]:
        known = self._blocks.get(index, {})
        if block.get("id") and block.get("id") == known.get("id"):
            return []  # a repetition
        self._blocks[index] = block = dict(block)
        type_, text = block.get("type"), block.get("text")
        if type_ in CALLS:
            if block.get("input"):
                self._inputs[index] = block["input"]
            name, id_ = text_of(block.get("name")), text_of(block.get("id"))
            return [d.CallOpened(index, id_, name, CALLS[type_])]
        if type_ == "text" and text:
            return [d.TextPiece(index, str(text))]
        if type_ in _THOUGHTS:
            thought = block.get("thinking")
            return [
                d.ThinkingOpened(index),
                *([d.ThinkingPiece(index, str(thought))] if thought else ()),
            ]
        if call_id := text_of(block.get("tool_use_id")):
            # A call with a result is complete, also if its block was not stopped.
            running = [
                at
                for at, other in self._blocks.items()
                if other.get("id") == call_id and other.get("type") in _RUN_BY_PROVIDER
            ]
            closed = [delta for at in running for delta in self._block_stopped(at)]
            return [*closed, d.CallResult(call_id, block.get("content"), has_failed(block), index)]
        return []

    def _read_whole_block(
        self, index: int, block: dict[str, Any], *, is_complete: bool
    ) -> list[d.Delta]:
        deltas = self._block_started(index, block)
        if block.get("type") in CALLS:
            self._inputs[index] = block.get("input") or {}  # whole, not a placeholder
        return deltas + (self._block_stopped(index) if is_complete else self._rest_of_block(index))

    def _block_stopped(self, index: int) -> list[d.Delta]:
        deltas = self._rest_of_block(index)
        block = self._blocks.pop(index, {})
        return [*deltas, d.CallClosed(index)] if block.get("type") in CALLS else deltas

    def _rest_of_block(self, index: int) -> list[d.Delta]:
        """Return the deltas that are known only at the end of a block."""
        block = self._blocks.get(index, {})
        deltas: list[d.Delta] = []
        match block.get("type"):
            case str(type_) if type_ in CALLS:
                if index in self._inputs:
                    deltas.append(d.ArgumentValue(index, (), self._inputs.pop(index)))
                if block.keys() - _KEPT_CALL_FIELDS:
                    deltas.append(d.Opaque(index, {**block, "input": {}}))
            case "text" if not block.get("citations"):
                pass
            case str(type_):
                deltas.append(d.Opaque(index, block))
                if type_ in _THOUGHTS:
                    deltas.append(d.ThinkingClosed(index))
        return deltas

    def _rest_of_blocks(self) -> list[d.Delta]:
        """End the blocks that were not stopped, without closing their calls."""
        rest = [delta for index in self._blocks for delta in self._rest_of_block(index)]
        self._blocks.clear()
        return rest

    def _message_started(self, message: dict[str, Any]) -> list[d.Delta]:
        self._blocks.clear()
        self._inputs.clear()
        usage, content = message.get("usage"), message.get("content")
        self._usage.clear()
        self._has_stop_reason = False
        deltas: list[d.Delta] = [
            d.TurnOpened(text_of(message.get("id")), text_of(message.get("model"))),
            *self._usage_reported(usage),
        ]
        stop_reason = text_of(message.get("stop_reason"))
        content = content if isinstance(content, list) else []
        for index, block in enumerate(content):
            # The last block may be cut. The others ended when the next one began.
            deltas += self._read_whole_block(index, block, is_complete=index < len(content) - 1)
        self._blocks.clear()
        if stop_reason:
            self._has_stop_reason = True
            deltas.append(turn_ended(stop_reason))
        return deltas

    def _message_changed(self, data: _StreamEvent) -> list[d.Delta]:
        change = data.delta or _Delta()
        deltas = self._usage_reported(data.usage)
        if change.container is not None:  # without it in the next request, its files are lost
            deltas.append(d.Opaque("container", {"container": change.container}))
        if change.stop_reason:
            self._has_stop_reason = True
            deltas += [*self._rest_of_blocks(), turn_ended(change.stop_reason)]
        return deltas

    def _usage_reported(self, usage: object) -> list[d.Delta]:
        """Merge a usage report. Some servers report 0 for counts that only message_start has."""
        if not isinstance(usage, dict) or not usage:
            return []
        known = self._usage
        known |= {name: number for name, number in usage.items() if number or name not in known}
        return [d.UsageReported(tokens_of(known))]


def turn_ended(stop_reason: str | None) -> d.TurnEnded:
    """Return the end of a turn with this stop reason."""
    return d.TurnEnded(stop_reason, ending_of(stop_reason))


def tokens_of(usage: dict[str, Any]) -> d.Tokens:
    """Return the token counts. Cached tokens, read or written, are part of the input."""
    read = count(usage, "cache_read_input_tokens")
    written = count(usage, "cache_creation_input_tokens")
    return d.Tokens(
        input_tokens=total(count(usage, "input_tokens"), read, written),
        output_tokens=count(usage, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
