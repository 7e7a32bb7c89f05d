"""Amazon Bedrock's ConverseStream and InvokeModelWithResponseStream.

A turn is a list of blocks, and ``contentBlockIndex`` is the key. Text and thinking begin with their
first delta, other blocks have a start event. The type of an event is its event name, as in
``contentBlockDelta``; in boto3 it is the only key of the event. The arguments of a call are text,
but some models (Nova) send an object. Usage follows the stop reason.
"""

# ruff: noqa: N815 - the names are those on the wire

import base64
import binascii
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from argstream.history import CallKind
from argstream.providers import _deltas as d
from argstream.providers._payloads import (
    PayloadReader,
    UnreadableError,
    arguments,
    count,
    failure,
    fields_of,
    is_failure,
    plain,
    text_of,
    total,
)
from argstream.providers.anthropic import AnthropicDecoder, turn_ended

_FORMS: Final = ("toolUse", "toolResult", "image")  # of blocks with a start event


class _Reasoning(Struct, gc=False):
    text: str | None = None
    signature: str | None = None
    redactedContent: str | None = None


class _Delta(Struct, gc=False):
    toolUse: dict[str, Any] | None = None
    text: str | None = None
    reasoningContent: _Reasoning | None = None
    toolResult: list[Any] | None = None
    citation: dict[str, Any] | None = None
    image: dict[str, Any] | None = None


class _Body(Struct, gc=False):
    contentBlockIndex: int | None = None
    delta: _Delta | None = None
    start: dict[str, Any] | None = None
    stopReason: str | None = None
    usage: dict[str, Any] | None = None


class _Event(Struct, gc=False):
    """An event under its name."""

    contentBlockDelta: _Body | None = None
    contentBlockStart: _Body | None = None
    contentBlockStop: _Body | None = None
    messageStart: _Body | None = None
    messageStop: _Body | None = None
    metadata: _Body | None = None


_EVENTS: Final = _Event.__struct_fields__
_VITAL: Final = (
    f"{' '.join(_EVENTS)} contentBlockIndex delta start toolUse text reasoningContent signature "
    "redactedContent toolResult stopReason"
)


class _Chunk(Struct, gc=False):
    """A payload of InvokeModel. boto3 wraps it in another object, with the bytes decoded."""

    bytes: str | None = None


_read = PayloadReader(_Body, _VITAL)
_read_event = PayloadReader(_Event, _VITAL)
_read_invoke = PayloadReader(_Chunk)


class BedrockDecoder(d.ProviderDecoder):
    """Payloads of ConverseStream → deltas."""

    protocol = "bedrock"

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}  # open blocks
        self._has_usage = False
        self._has_stop_reason = False
        # Strands omits the index for models of other providers. Blocks are then counted.
        self._has_indexes = False  # whether a block of this message had an index
        self._counted = 0  # the blocks of this message that were stopped without an index

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of a named event, or of an event of boto3."""
        if type(payload) is dict:
            match payload:  # fast path for boto3's most frequent events
                case {"contentBlockDelta": {"contentBlockIndex": int(index), "delta": change}}:
                    match change:
                        case {"toolUse": {"input": str(text)}}:
                            return [d.ArgumentText(index, text)] if text else []
                        case {"text": str(text)}:
                            return self._add_text(index, text)
            payload = plain(payload)  # with bytes in base64, as in JSON
        if event in _EVENTS:
            return self._read_named(event, _read(payload), payload)
        if is_failure(event):
            return [_failure(event, payload)]
        data = _read_event(payload)
        for name in _EVENTS:
            if (body := getattr(data, name)) is not None:
                return self._read_named(name, body, payload)
        fields = fields_of(payload)
        if "output" in fields:
            raise UnreadableError("the response was not streamed. Request it with converse_stream")
        for name, error in fields.items():
            if is_failure(name):
                return [_failure(name, error)]
        message = text_of(fields.get("message")) or text_of(fields.get("Message"))
        return [d.ProviderFailed("error", message)] if message else []  # the body of an error

    def close(self) -> list[d.Delta]:
        """Return the deltas that are known only at the end of the stream."""
        rest = self._rest_of_blocks()
        return rest + self._turn_closed() if self._has_stop_reason else rest

    def _read_named(self, name: str, body: _Body, payload: object) -> list[d.Delta]:
        if name == "contentBlockDelta":
            if body.delta is None:
                raise UnreadableError("contentBlockDelta has no delta")
            return self._block_changed(self._index_of(body), body.delta, payload)
        if name == "contentBlockStart":
            return self._block_started(self._index_of(body), body.start or {})
        if name == "contentBlockStop":
            if body.contentBlockIndex is None and self._has_indexes:
                return []
            index = self._index_of(body)
            self._counted += 1
            return self._stopped(index)
        if name == "messageStart":
            before = self._turn_closed() if self._has_stop_reason else []
            self._blocks.clear()
            self._has_usage = False
            self._has_indexes = False
            self._counted = 0
            return [*before, d.TurnOpened()]
        if name == "messageStop":
            deltas = [*self._rest_of_blocks(), turn_ended(body.stopReason)]
            self._has_stop_reason = True
            # Usage usually follows the stop reason.
            return deltas + self._turn_closed() if self._has_usage else deltas
        self._has_usage = True
        reported: list[d.Delta] = [d.UsageReported(_tokens(body.usage or {}))]
        return reported + self._turn_closed() if self._has_stop_reason else reported

    def _index_of(self, body: _Body) -> int:
        """Return the index of a block. Blocks without an index are sequential."""
        if body.contentBlockIndex is not None:
            self._has_indexes = True
            return body.contentBlockIndex
        if self._has_indexes:
            raise UnreadableError("event has no contentBlockIndex")
        return self._counted

    def _block_changed(self, index: int, change: _Delta, payload: object) -> list[d.Delta]:
        if change.toolUse is not None:
            return arguments(index, change.toolUse.get("input"), payload)
        if change.text:
            return self._add_text(index, change.text)
        if change.reasoningContent is not None:
            return self._add_thinking(index, change.reasoningContent)
        if change.toolResult is not None:
            self._block(index, "toolResult").content += change.toolResult
        elif change.citation is not None:
            self._block(index, "text").citations.append(change.citation)
        elif change.image is not None:
            block = self._block(index, "image")
            match change.image:
                case {"source": {"bytes": str(piece)}}:
                    block.data.append(piece)
                case fields:
                    block.head |= fields
        return []

    def _block(self, index: int, form: str) -> "_Block":
        block = self._blocks.get(index)
        if block is None:
            block = self._blocks[index] = _Block(form)
        return block

    def _add_text(self, index: int, text: str) -> list[d.Delta]:
        self._block(index, "text").pieces.append(text)
        return [d.TextPiece(index, text)] if text else []

    def _add_thinking(self, index: int, thought: _Reasoning) -> list[d.Delta]:
        deltas: list[d.Delta] = [] if index in self._blocks else [d.ThinkingOpened(index)]
        block = self._block(index, "reasoningContent")
        block.signature += thought.signature or ""
        if thought.redactedContent:
            block.data.append(thought.redactedContent)
        if thought.text:
            block.pieces.append(thought.text)
            deltas.append(d.ThinkingPiece(index, thought.text))
        return deltas

    def _block_started(self, index: int, start: dict[str, Any]) -> list[d.Delta]:
        form = next((form for form in _FORMS if isinstance(start.get(form), dict)), None)
        if form is None:
            self._blocks.pop(index, None)
            return []  # its first delta shows the kind
        head = start[form]
        known = self._blocks.get(index)
        if known is not None and head.get("toolUseId") and known.head == head:
            return []  # a repetition
        self._blocks[index] = _Block(form, dict(head))
        if form != "toolUse":
            return []
        id_, name = text_of(head.get("toolUseId")), text_of(head.get("name"))
        return [d.CallOpened(index, id_, name, _kind(head))]

    def _stopped(self, index: int) -> list[d.Delta]:
        block = self._blocks.pop(index, None)
        if block is None:
            return []
        rest = block.rest(index)
        return [*rest, d.CallClosed(index)] if block.form == "toolUse" else rest

    def _rest_of_blocks(self) -> list[d.Delta]:
        """End the blocks that were not stopped, without closing their calls."""
        rest = [delta for index, block in self._blocks.items() for delta in block.rest(index)]
        self._blocks.clear()
        return rest

    def _turn_closed(self) -> list[d.Delta]:
        self._has_usage = self._has_stop_reason = False
        return [*self._rest_of_blocks(), d.TurnClosed()]


class BedrockInvokeDecoder(d.ProviderDecoder):
    """Model payloads inside InvokeModel's event stream → deltas."""

    protocol = "bedrock-invoke"

    def __init__(self) -> None:
        self._inner: AnthropicDecoder | BedrockDecoder | None = None  # None until the first payload

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of one payload of the event stream, or an event of boto3."""
        if isinstance(payload, dict) and isinstance(payload.get("chunk"), dict):
            data = payload["chunk"].get("bytes")
            return self._feed_inner(data) if data else []
        chunk = _read_invoke(payload or b"{}")  # a connection error has no payload
        if chunk.bytes is None:
            return [_failure(event, payload)] if is_failure(event) else []
        try:
            inner = base64.b64decode(chunk.bytes, validate=True)
        except binascii.Error as error:
            raise UnreadableError(f"invalid base64: {error}") from error
        return self._feed_inner(inner)

    def interrupt(self) -> list[d.Delta]:
        """Return the buffered deltas after a payload was lost."""
        return [] if self._inner is None else self._inner.interrupt()

    def close(self) -> list[d.Delta]:
        """Return the deltas that are known only at the end of the stream."""
        return [] if self._inner is None else self._inner.close()

    def _feed_inner(self, payload: object) -> list[d.Delta]:
        if self._inner is None:
            # Only Anthropic's payloads have a type.
            has_type = "type" in fields_of(payload)
            self._inner = AnthropicDecoder() if has_type else BedrockDecoder()
        return self._inner.feed(payload)


class _Block(Struct, eq=False):
    form: str  # its name in Converse
    head: dict[str, Any] = {}  # from its start event
    pieces: list[str] = []  # of its text
    signature: str = ""
    citations: list[Any] = []
    content: list[Any] = []  # of a result
    data: list[str] = []  # of an image or redacted thinking, in base64

    def rest(self, index: int) -> list[d.Delta]:
        """Return the deltas that are known only at the end of the block."""
        match self.form:
            case "toolUse" if _kind(self.head) != "function":
                return [d.Opaque(index, {"toolUse": {**self.head, "input": {}}})]
            case "toolResult":
                call_id, status = text_of(self.head.get("toolUseId")), self.head.get("status")
                result = d.CallResult(call_id, self.content, status == "error", index)
                item = {"toolResult": {**self.head, "content": self.content}}
                return [result, d.Opaque(index, item)]
            case "text" if self.citations:
                content = [{"text": "".join(self.pieces)}]
                cited = {"content": content, "citations": self.citations}
                return [d.Opaque(index, {"citationsContent": cited})]
            case "reasoningContent":
                item = {"reasoningContent": self._thought()}
                return [d.Opaque(index, item), d.ThinkingClosed(index)]
            case "image":
                if self.data:
                    self.head["source"] = {"bytes": _joined(self.data)}
                return [d.Opaque(index, {"image": self.head})]
        return []

    def _thought(self) -> dict[str, Any]:
        if self.data:
            return {"redactedContent": _joined(self.data)}
        text = {"text": "".join(self.pieces)}
        return {"reasoningText": {**text, "signature": self.signature} if self.signature else text}


def _kind(head: dict[str, Any]) -> CallKind:
    return "server" if head.get("type") == "server_tool_use" else "function"


def _joined(pieces: list[str]) -> str:
    """Join base64 pieces that were encoded separately."""
    if len(pieces) > 1:
        with suppress(ValueError):
            data = b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
            return base64.b64encode(data).decode()
    return "".join(pieces)


def _failure(name: str, payload: object) -> d.ProviderFailed:
    error = fields_of(payload or {})  # a connection error has no payload
    message = error.get("message") or error.get("originalMessage")
    return failure({"code": name, "message": message}, "code")


def _tokens(usage: dict[str, Any]) -> d.Tokens:
    # inputTokens excludes the cache. Nova has other names in InvokeModel.
    read = total(count(usage, "cacheReadInputTokens"), count(usage, "cacheReadInputTokenCount"))
    written = total(
        count(usage, "cacheWriteInputTokens"), count(usage, "cacheWriteInputTokenCount")
    )
    return d.Tokens(
        input_tokens=total(count(usage, "inputTokens"), read, written),
        output_tokens=count(usage, "outputTokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
