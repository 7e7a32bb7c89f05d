"""A model that writes at a steady pace, and says in each piece when it was due.

The clock is that of the machine, the same in all processes. A piece says when it *should* have been
sent, as a provider's bytes wait in a socket while nobody reads them: so it counts if the server was
busy. What is due at once comes at once, as from a socket.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Iterator
from typing import NamedTuple

import msgspec

from argstream.adapters import ProtocolName
from argstream.clients import ModelRequest
from argstream.history import TextPart

__all__ = ["CONTENT", "Mark", "Order", "PacedModel", "marks_of"]

CONTENT = "content"
"""The argument that is written piece by piece."""
_BEFORE, _AFTER = '{"path": "notes.txt", "content": "', '"}'
_mark = re.compile(r"(\d+)@(\d+\.\d{4});")


class Mark(NamedTuple):
    """One piece that the model has written."""

    number: int
    due: float


class Order(msgspec.Struct, frozen=True):
    """What is asked of the model: the prompt of a run."""

    at: float
    """When it begins to write."""
    pieces: int
    texts: int
    """How many of them are a text; the others are an argument."""
    per_second: float
    size: int = 0
    """How many characters a piece has at least."""

    def due(self, number: int) -> float:
        """Say when a piece is sent; they are counted from 1 on."""
        return self.at + (number - 1) / self.per_second

    def written(self, number: int) -> str:
        """Give a piece."""
        return f"{number}@{self.due(number):.4f};".rjust(self.size)


def marks_of(text: str) -> list[Mark]:
    """Read what the model wrote, as text or as the text of arguments; raises if it is not that."""
    text = text.removeprefix(_BEFORE).removesuffix(_AFTER)
    found = _mark.findall(text)
    if "".join(f"{number}@{due};" for number, due in found) != text.replace(" ", ""):
        raise ValueError(f"no model wrote this: {text[:200]!r}")
    return [Mark(int(number), float(due)) for number, due in found]


class PacedModel:
    """Writes a text, and then an argument, at a steady pace; then the run is over."""

    name = "paced"
    protocol: ProtocolName = "anthropic"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[bytes, None]:
        """Give the bytes of an answer, as Anthropic's API sends them."""
        prompt = request.messages[-1].parts[0]
        if not isinstance(prompt, TextPart):  # it is told what its call gave
            yield b"".join((_START, _stop("end_turn")))
            return
        order = msgspec.json.decode(prompt.text, type=Order)
        waiting = [_START]
        for number, event in enumerate(list(_events(order)), 1):
            late = time.monotonic() - order.due(number)
            if late < 0:
                if waiting:
                    yield b"".join(waiting)
                    waiting = []
                await asyncio.sleep(-late)
            waiting.append(event)
        yield b"".join((*waiting, _stop("tool_use")))


def _events(order: Order) -> Iterator[bytes]:
    """Give the pieces as they are sent, each with what is said before and after it."""
    for number in range(1, order.pieces + 1):
        text = order.written(number)
        if number <= order.texts:
            begin = _open(0, {"type": "text", "text": ""}) if number == 1 else b""
            end = _close(0) if number == order.texts else b""
            yield begin + _TEXT % text.encode() + end
            continue
        call = {"type": "tool_use", "id": "call_1", "name": "write_file", "input": {}}
        begin = _open(1, call) if number == order.texts + 1 else b""
        before = _BEFORE if number == order.texts + 1 else ""
        after = _AFTER if number == order.pieces else ""
        piece = (before + text + after).replace('"', '\\"')
        yield begin + _JSON % piece.encode() + (_close(1) if after else b"")


def _sse(kind: str, **payload: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **payload})}\n\n".encode()


def _open(index: int, block: object) -> bytes:
    return _sse("content_block_start", index=index, content_block=block)


def _close(index: int) -> bytes:
    return _sse("content_block_stop", index=index)


def _stop(reason: str) -> bytes:
    end = {"stop_reason": reason, "stop_sequence": None}
    return _sse("message_delta", delta=end, usage={"output_tokens": 1}) + _sse("message_stop")


# What is sent most is written with little work: this stands for a provider, who is elsewhere.
_TEXT = _sse("content_block_delta", index=0, delta={"type": "text_delta", "text": "%s"})
_JSON = _sse(
    "content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": "%s"}
)
_START = _sse(
    "message_start",
    message={
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "paced",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
)
