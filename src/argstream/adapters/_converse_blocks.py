"""Blocks in Converse's own form: what goes back to Bedrock, and what it says."""

import base64
from contextlib import suppress
from typing import Any

from argstream.adapters._payloads import text_of
from argstream.deltas import (
    ArgumentValue,
    CallKind,
    CallOpened,
    CallResult,
    Delta,
    Opaque,
    TextPiece,
    ThinkingClosed,
    ThinkingOpened,
    ThinkingPiece,
)

__all__ = ["Block", "call_opened", "whole_block"]


class Block:
    """A block that is being written; ``form`` is its name in Converse."""

    __slots__ = ("citations", "content", "data", "form", "head", "pieces", "signature")

    def __init__(self, form: str, head: dict[str, Any] | None = None) -> None:
        self.form = form
        self.head = head or {}  # what was known at its start
        self.pieces: list[str] = []  # of its text
        self.signature = ""
        self.citations: list[Any] = []
        self.content: list[Any] = []  # of a result
        self.data: list[str] = []  # of an image or a thought that is not shown, in base64

    def rest(self, index: int) -> list[Delta]:
        """Give what can only be said at its end."""
        match self.form:
            case "toolUse" if _kind(self.head) != "function":
                return [Opaque(index, {"toolUse": {**self.head, "input": {}}})]
            case "toolResult":
                return _result(index, {**self.head, "content": self.content})
            case "text" if self.citations:
                content = [{"text": "".join(self.pieces)}]
                said = {"content": content, "citations": self.citations}
                return [Opaque(index, {"citationsContent": said})]
            case "reasoningContent":
                item = {"reasoningContent": self._thought()}
                return [Opaque(index, item), ThinkingClosed(index)]
            case "image":
                if self.data:
                    self.head["source"] = {"bytes": _joined(self.data)}
                return [Opaque(index, {"image": self.head})]
        return []

    def _thought(self) -> dict[str, Any]:
        if self.data:
            return {"redactedContent": _joined(self.data)}
        text = {"text": "".join(self.pieces)}
        return {"reasoningText": {**text, "signature": self.signature} if self.signature else text}


def call_opened(index: int, head: dict[str, Any]) -> CallOpened:
    """Give a call of which this is known."""
    id_, name = text_of(head.get("toolUseId")), text_of(head.get("name"))
    return CallOpened(index, id_, name, _kind(head))


def _kind(head: dict[str, Any]) -> CallKind:
    return "server" if head.get("type") == "server_tool_use" else "function"


def whole_block(index: int, block: dict[str, Any]) -> list[Delta]:
    """Read a block of a response that was not streamed."""
    match block:
        case {"toolUse": dict(use)}:
            value = use.get("input") or {}  # it is here, so it is whole
            kept = Block("toolUse", use).rest(index)
            return [call_opened(index, use), ArgumentValue(index, (), value), *kept]
        case {"toolResult": dict(result)}:
            return _result(index, result)
        case {"text": str(text)}:
            return [TextPiece(index, text)]
        case {"citationsContent": {"content": [*content]}}:
            texts = [part.get("text") for part in content if isinstance(part, dict)]
            said = "".join(text_of(text) for text in texts)
            return [TextPiece(index, said), Opaque(index, block)]
        case {"reasoningContent": {**thought}}:
            known = thought.get("reasoningText")
            text = text_of(known.get("text")) if isinstance(known, dict) else ""
            piece = [ThinkingPiece(index, text)] if text else []
            return [ThinkingOpened(index), *piece, Opaque(index, block), ThinkingClosed(index)]
    return [Opaque(index, block)]


def _result(index: int, result: dict[str, Any]) -> list[Delta]:
    call_id, failed = text_of(result.get("toolUseId")), result.get("status") == "error"
    return [
        CallResult(call_id, result.get("content"), failed, index),
        Opaque(index, {"toolResult": result}),
    ]


def _joined(pieces: list[str]) -> str:
    """Join what was encoded piece by piece. One piece alone stays as it is, whatever it is."""
    if len(pieces) > 1:
        with suppress(ValueError):
            data = b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
            return base64.b64encode(data).decode()
    return "".join(pieces)
