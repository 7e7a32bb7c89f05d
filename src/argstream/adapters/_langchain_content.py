"""What a message of LangChain says beside its calls: text, thoughts, and what the provider runs.

Content is a string, or a list of blocks in the form of whatever provider is behind it, or in
LangChain's own (``output_version="v1"``). A block comes in pieces that share its index. The calls
of a client are in there as well, but they are read from ``tool_call_chunks``, so that they are told
once; only calls that the provider runs itself are nowhere else.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final

from argstream.adapters._openai_items import (
    CALLS,
    OUTPUTS,
    call_id_of,
    call_input,
    call_kind,
    call_name,
    hosted_result,
    result,
)
from argstream.adapters._payloads import text_of
from argstream.deltas import (
    ArgumentText,
    ArgumentValue,
    CallClosed,
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

__all__ = ["ContentReader"]

_THOUGHTS: Final = {"thinking", "redacted_thinking", "reasoning", "reasoning_content"}
_READ_ELSEWHERE: Final = {"tool_use", "tool_call", "tool_call_chunk", "function_call"}
_RUN_BY_PROVIDER: Final[dict[str, CallKind]] = {
    "server_tool_use": "server",
    "mcp_tool_use": "mcp",
    "server_tool_call": "server",
    "server_tool_call_chunk": "server",
}
# Of OpenAI: they come once, when they are done. The other two are in ``tool_call_chunks``.
_WHOLE_CALLS: Final = CALLS.keys() - {"function_call", "custom_tool_call"}
_WRAPPED: Final = {*_RUN_BY_PROVIDER, *_WHOLE_CALLS, *OUTPUTS}
# Fields of a block that come in pieces.
_GROWING: Final = {
    "thinking",
    "reasoning",
    "text",
    "signature",
    "data",
    "encrypted_content",
    "content",
}


class ContentReader:
    """The content of one message."""

    def __init__(self, saw_value: Callable[[], None]) -> None:
        """Read content; tell whoever asks when arguments come as an object."""
        self._saw_value = saw_value
        self._block = 0
        self._writes: tuple[str, Hashable] = ("", None)  # what the block is, and its index
        self._pieces: list[dict[str, Any]] = []  # of a block that must go back as it came
        self._calls: dict[Hashable, Hashable] = {}  # keys of calls by the index of their block

    def text(self, text: str, deltas: list[Delta]) -> None:
        """Take a piece of text."""
        deltas.append(TextPiece(self._turn_to("text", None, deltas), text))

    def thought(self, text: str, deltas: list[Delta]) -> None:
        """Take a piece of a thought that is no block."""
        deltas.append(ThinkingPiece(self._turn_to("thinking", None, deltas), text))

    def blocks(self, blocks: list[Any], deltas: list[Delta]) -> None:
        """Take pieces of blocks."""
        for block in blocks:
            if isinstance(block, str):
                if block:
                    self.text(block, deltas)
            elif isinstance(block, dict):
                said = _unwrapped(block)
                self._read(said, text_of(said.get("type")), _index_of(block), deltas)

    def end_block(self, deltas: list[Delta]) -> None:
        """Say that something else begins."""
        self._turn_to("", None, deltas)

    def _turn_to(self, what: str, index: Hashable, deltas: list[Delta]) -> tuple[str, int]:
        """Begin a block if this is not what the last one was; give the block's key."""
        if (what, index) != self._writes:
            key = ("block", self._block)
            if self._pieces:
                deltas.append(Opaque(key, _joined(self._pieces)))
                self._pieces = []
            if self._writes[0] == "thinking":
                deltas.append(ThinkingClosed(key))
            self._writes = (what, index)
            self._block += 1
        return ("block", self._block)

    def _read(
        self, block: dict[str, Any], type_: str, index: Hashable, deltas: list[Delta]
    ) -> None:
        if type_ == "text" or type_ == "refusal":
            text = block.get("text") or block.get("refusal")
            if isinstance(text, str) and text:
                deltas.append(TextPiece(self._turn_to("text", index, deltas), text))
        elif type_ in _THOUGHTS:
            key = self._turn_to("thinking", index, deltas)
            if not self._pieces:
                deltas.append(ThinkingOpened(key))
            self._pieces.append(block)
            if thought := _thought(block):
                deltas.append(ThinkingPiece(key, thought))
        elif type_ == "input_json_delta":
            piece = block.get("partial_json")
            if index in self._calls and isinstance(piece, str) and piece:
                deltas.append(ArgumentText(self._calls[index], piece))
        elif type_ in _RUN_BY_PROVIDER:
            self._server_call(block, index, _RUN_BY_PROVIDER[type_], deltas)
        elif type_ in _WHOLE_CALLS:
            self._whole_call(block, deltas)
        elif type_ in OUTPUTS:
            self.end_block(deltas)
            deltas += hosted_result(("result", index), block, text_of(block.get("call_id")))
        elif call_id := text_of(block.get("tool_use_id")) or text_of(block.get("tool_call_id")):
            self._server_result(block, call_id, index, deltas)
        elif type_ not in _READ_ELSEWHERE:
            self._turn_to("other", index, deltas)
            self._pieces.append(block)

    def _server_call(
        self, block: dict[str, Any], index: Hashable, kind: CallKind, deltas: list[Delta]
    ) -> None:
        key = self._calls.get(index) if index is not None else None
        if key is None or block.get("name"):
            self.end_block(deltas)
            key = self._calls[index] = ("server", len(self._calls), text_of(block.get("id")))
            name = text_of(block.get("name"))
            deltas.append(CallOpened(key, text_of(block.get("id")), name, kind))
        # While it is written, its input is an empty object; in a sum of chunks it stays so.
        given = block.get("args") or block.get("input") or block.get("partial_json")
        if isinstance(given, str):
            deltas.append(ArgumentText(key, given))
        elif given:
            deltas.append(ArgumentValue(key, (), given))
            self._saw_value()

    def _server_result(
        self, block: dict[str, Any], call_id: str, index: Hashable, deltas: list[Delta]
    ) -> None:
        self.end_block(deltas)
        content = block["output"] if "output" in block else block.get("content")
        type_ = content.get("type") if isinstance(content, dict) else None
        failed = (
            block.get("is_error") is True
            or block.get("status") == "error"
            or (isinstance(type_, str) and type_.endswith("_error"))
        )
        deltas.append(CallResult(call_id, content, failed, ("result", index)))

    def _whole_call(self, block: dict[str, Any], deltas: list[Delta]) -> None:
        self.end_block(deltas)
        id_ = call_id_of(block)
        key = ("server", len(self._calls), id_)
        self._calls[key] = key
        deltas.append(CallOpened(key, id_, call_name(block), call_kind(block)))
        given = call_input(block)
        if isinstance(given, dict):
            deltas.append(ArgumentValue(key, (), given))
            self._saw_value()
        cut = block.get("status") == "incomplete"
        deltas += [CallClosed(key, text_of(given), cut), *result(block)]


def _unwrapped(block: dict[str, Any]) -> dict[str, Any]:
    """Return the call, or the result of one, that LangChain has put into a non-standard block."""
    value = block.get("value") if block.get("type") == "non_standard" else None
    return value if isinstance(value, dict) and text_of(value.get("type")) in _WRAPPED else block


def _index_of(block: dict[str, Any]) -> Hashable:
    index = block.get("index")
    return index if isinstance(index, int | str) else None


def _thought(block: dict[str, Any]) -> str:
    match block:
        case {"thinking": str(text)} | {"reasoning": str(text)}:
            return text
        case {"reasoning_content": {"text": str(text)}}:  # Bedrock
            return text
        case {"summary": [*parts]} | {"content": [*parts]}:  # OpenAI
            texts = (part.get("text") for part in parts if isinstance(part, dict))
            return "".join(text for text in texts if isinstance(text, str))
        case _:
            return ""


def _joined(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """Put a block together again: what grows is joined, of all else the last is true."""
    found: dict[str, list[Any]] = {}
    for piece in pieces:
        for name, value in piece.items():
            if value is not None:
                found.setdefault(name, []).append(value)
    return {name: _join(name, values) for name, values in found.items()}


def _join(name: str, values: list[Any]) -> Any:
    last = values[-1]
    if isinstance(last, str) and name in _GROWING:
        return "".join(value for value in values if isinstance(value, str))
    if isinstance(last, dict):
        return _joined([value for value in values if isinstance(value, dict)])
    if isinstance(last, list):
        parts: dict[Hashable, list[Any]] = {}
        for part in (part for value in values if isinstance(value, list) for part in value):
            index = _index_of(part) if isinstance(part, dict) else None
            parts.setdefault(("part", len(parts)) if index is None else index, []).append(part)
        return [_joined(same) if isinstance(same[0], dict) else same[0] for same in parts.values()]
    return last
