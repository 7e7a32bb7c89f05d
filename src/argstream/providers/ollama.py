"""Ollama's own chat (``/api/chat``): a JSON object on each line.

A call comes whole, its arguments as an object, so it is closed as soon as it is there; that the
stream then breaks off does not change it. An index may be missing, or the same for every call, and
an id too: each entry with a name is a call of its own. Some who imitate Ollama send arguments as
text. That may come in pieces, so nothing but the end of the turn closes it.
"""

from typing import Any

from msgspec import Struct

from argstream.providers._deltas import (
    ArgumentText,
    CallClosed,
    CallOpened,
    Delta,
    Opaque,
    ProviderDecoder,
    ProviderFailed,
    TextPiece,
    ThinkingClosed,
    ThinkingPiece,
    Tokens,
    TurnClosed,
    TurnEnded,
    TurnOpened,
    UsageReported,
)
from argstream.providers._payloads import PayloadReader, arguments, refuse_duplicate_keys, text_of
from argstream.providers._stop_reasons import ending_of

# Without any reason, the connection to the model was closed: that says nothing.


class _Function(Struct, gc=False):
    index: int | None = None
    name: str | None = None
    arguments: Any = None


class _Entry(Struct, gc=False):
    id: str | None = None
    function: _Function | None = None


class _Message(Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Entry] | None = None
    images: list[Any] | None = None


class _Chunk(Struct, gc=False):
    model: str | None = None
    message: _Message | None = None
    done: Any = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


_read = PayloadReader(
    _Chunk, vital={"message", "content", "thinking", "tool_calls", "function", "name", "index"}
)


class OllamaDecoder(ProviderDecoder):
    """Lines of Ollama's chat → deltas."""

    protocol = "ollama"

    def __init__(self) -> None:
        self._in_turn = False
        self._block = 0
        self._writes = ""  # what the block is: text, thinking, or neither
        self._calls = 0  # so far, in this turn
        self._open: dict[int | None, int] = {}  # calls in text, by their index

    def feed(self, payload: object, event: str = "") -> list[Delta]:
        """Return the deltas of one payload: bytes, a dict, or an object of the SDK."""
        chunk = _read(payload)
        deltas: list[Delta] = []
        if chunk.error:
            return [_failure(chunk.error)]
        if not self._in_turn and (chunk.message is not None or chunk.done is True):
            self._in_turn = True
            self._block = self._calls = 0
            self._writes = ""
            self._open.clear()
            deltas.append(TurnOpened("", chunk.model or ""))
        if (message := chunk.message) is not None:
            if message.thinking:
                deltas.append(ThinkingPiece(self._turn_to("thinking", deltas), message.thinking))
            if message.content:
                deltas.append(TextPiece(self._turn_to("text", deltas), message.content))
            if message.images:
                deltas.append(Opaque(self._turn_to("images", deltas), {"images": message.images}))
            if message.tool_calls:
                self._turn_to("calls", deltas)
                for entry in message.tool_calls:
                    deltas += self._call(entry)
                refuse_duplicate_keys(payload)
        if chunk.done is True:
            self._turn_to("", deltas)
            self._in_turn = False
            reason = chunk.done_reason or None
            deltas += [
                TurnEnded(reason, ending_of(reason)),
                UsageReported(Tokens(chunk.prompt_eval_count, chunk.eval_count)),
                TurnClosed(),
            ]
        return deltas

    def _turn_to(self, what: str, deltas: list[Delta]) -> tuple[str, int]:
        """Begin a block if this is not what the last one was; return the block's key."""
        if what != self._writes:
            if self._writes == "thinking":
                deltas.append(ThinkingClosed(("block", self._block)))
            self._writes = what
            self._block += 1
        return "block", self._block

    def _call(self, entry: _Entry) -> list[Delta]:
        function = entry.function or _Function()
        given = function.arguments
        if not function.name and isinstance(given, str) and function.index in self._open:
            return [ArgumentText(self._open[function.index], given)]
        key = self._calls
        self._calls += 1
        opened = CallOpened(key, text_of(entry.id), function.name or "")
        deltas = [opened, *arguments(key, given)]
        if isinstance(given, str):
            self._open[function.index] = key
            return deltas
        return [*deltas, CallClosed(key)]


def _failure(error: Any) -> ProviderFailed:
    if isinstance(error, dict):  # of a gateway
        return ProviderFailed("error", text_of(error.get("message")) or str(error))
    return ProviderFailed("error", str(error))
