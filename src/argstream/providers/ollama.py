"""Ollama's own chat API (``/api/chat``): a JSON object on each line.

A call arrives whole, with an object as arguments, and is closed at once, also if the stream breaks
off after it. Index and ID may be missing or the same for every call, so each entry with a name is a
new call. Some compatible servers send arguments as text, possibly in pieces. Only the end of the
turn closes such a call.
"""

from typing import Any

from msgspec import Struct

from argstream.providers import _deltas as d
from argstream.providers._payloads import (
    PayloadReader,
    arguments,
    failure,
    refuse_duplicate_keys,
    text_of,
)
from argstream.providers._stop_reasons import ending_of


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


_read = PayloadReader(_Chunk, vital="message content thinking tool_calls function name index")


class OllamaDecoder(d.ProviderDecoder):
    """Lines of Ollama's chat → deltas."""

    protocol = "ollama"

    def __init__(self) -> None:
        self._in_turn = False
        self._blocks = d.Blocks()
        self._calls = 0  # number of calls in this turn
        self._open: dict[int | None, int] = {}  # keys of calls with text arguments, by index

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of one payload: bytes, a dict, or an object of the SDK."""
        chunk = _read(payload)
        deltas: list[d.Delta] = []
        if chunk.error:
            return [failure(chunk.error)]
        if not self._in_turn and (chunk.message is not None or chunk.done is True):
            self._in_turn = True
            self._blocks, self._calls = d.Blocks(), 0
            self._open.clear()
            deltas.append(d.TurnOpened("", chunk.model or ""))
        if (message := chunk.message) is not None:
            if message.thinking:
                block = self._blocks.key_for("thinking", deltas)
                deltas.append(d.ThinkingPiece(block, message.thinking))
            if message.content:
                deltas.append(d.TextPiece(self._blocks.key_for("text", deltas), message.content))
            if message.images:
                block = self._blocks.key_for("images", deltas)
                deltas.append(d.Opaque(block, {"images": message.images}))
            if message.tool_calls:
                self._blocks.end(deltas)
                for entry in message.tool_calls:
                    deltas += self._call(entry)
                refuse_duplicate_keys(payload)
        if chunk.done is True:
            self._blocks.end(deltas)
            self._in_turn = False
            reason = chunk.done_reason or None
            deltas += [
                d.TurnEnded(reason, ending_of(reason)),
                d.UsageReported(d.Tokens(chunk.prompt_eval_count, chunk.eval_count)),
                d.TurnClosed(),
            ]
        return deltas

    def _call(self, entry: _Entry) -> list[d.Delta]:
        function = entry.function or _Function()
        given = function.arguments
        if not function.name and isinstance(given, str) and function.index in self._open:
            return [d.ArgumentText(self._open[function.index], given)]
        key = self._calls
        self._calls += 1
        opened = d.CallOpened(key, text_of(entry.id), function.name or "")
        deltas = [opened, *arguments(key, given)]
        if isinstance(given, str):
            self._open[function.index] = key
            return deltas
        return [*deltas, d.CallClosed(key)]
