"""What Claude Code says: its lines, and the same as messages of the Agent SDK."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from claude_agent_sdk import Transport
from claude_agent_sdk._internal.message_parser import parse_message

from argstream.assembly import Assembler, Call
from argstream.events import Event
from tests.provider_streams import Payload, block_stop, input_json, tool_use

SESSION: Payload = {"session_id": "session_1", "uuid": "uuid_1"}
FORMS = ["lines", "objects"]


def init() -> Payload:
    return {"type": "system", "subtype": "init", "model": "claude", "tools": [], **SESSION}


def event(payload: Payload, parent: str | None = None) -> Payload:
    """An event of Anthropic's in its envelope."""
    return {"type": "stream_event", "event": payload, "parent_tool_use_id": parent, **SESSION}


def streamed(*payloads: Payload, parent: str | None = None) -> list[Payload]:
    return [event(payload, parent) for payload in payloads]


def assistant(
    *blocks: Payload, id_: str | None = "msg_1", parent: str | None = None, **fields: Any
) -> Payload:
    """A whole message, or the part of one that has just been finished."""
    message = {
        "id": id_,
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": list(blocks),
        "stop_reason": None,
        "usage": {"input_tokens": 7, "output_tokens": 1},
    }
    message |= {name: fields.pop(name) for name in ("stop_reason", "usage") if name in fields}
    return {
        "type": "assistant",
        "message": message,
        "parent_tool_use_id": parent,
        **SESSION,
        **fields,
    }


def text(said: str) -> Payload:
    return {"type": "text", "text": said}


def thinking(thought: str, signature: str = "c2ln") -> Payload:
    return {"type": "thinking", "thinking": thought, "signature": signature}


def use(value: Any, id_: str = "toolu_1", name: str = "write") -> Payload:
    return {"type": "tool_use", "id": id_, "name": name, "input": value}


def user(content: Any, parent: str | None = None, **fields: Any) -> Payload:
    message = {"role": "user", "content": content}
    return {
        "type": "user",
        "message": message,
        "parent_tool_use_id": parent,
        **SESSION,
        **fields,
    }


def tool_result(content: Any = "done", id_: str = "toolu_1", **fields: Any) -> Payload:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **fields}


def run_result(subtype: str = "success", **fields: Any) -> Payload:
    return {
        "type": "result",
        "subtype": subtype,
        "is_error": subtype != "success",
        "duration_ms": 1,
        "duration_api_ms": 1,
        "num_turns": 1,
        "usage": {"input_tokens": 7, "output_tokens": 5},
        **SESSION,
        **fields,
    }


def streamed_call(
    *pieces: str,
    value: Any = None,
    index: int = 0,
    id_: str = "toolu_1",
    parent: str | None = None,
    message: str = "msg_1",
) -> list[Payload]:
    """A call as it comes: the whole one before the event that stops it."""
    value = json.loads("".join(pieces) or "{}") if value is None else value
    return [
        *streamed(tool_use(index, id_=id_), parent=parent),
        *streamed(*(input_json(index, piece) for piece in pieces), parent=parent),
        assistant(use(value, id_), id_=message, parent=parent),
        event(block_stop(index), parent),
    ]


def in_form(form: str, lines: Iterable[Payload]) -> list[Any]:
    """The lines as bytes, or what the SDK makes of them. Of some it makes nothing."""
    if form == "lines":
        return [json.dumps(line).encode() for line in lines]
    return [found for line in lines if (found := parse_message(line)) is not None]


def read(form: str, lines: Iterable[Payload]) -> tuple[list[Call], list[Event]]:
    """Feed all lines in this form, close, and return the calls with every event."""
    assembler = Assembler("claude-agent")
    events: list[Event] = []
    for payload in in_form(form, lines):
        events += assembler.feed(payload)
    return assembler.calls, events + assembler.close()


class FakeTransport(Transport):
    """Plays lines to the SDK as if Claude Code wrote them."""

    def __init__(self, lines: Sequence[Payload]) -> None:
        self._lines = lines
        self._asked: asyncio.Queue[str] = asyncio.Queue()

    async def connect(self) -> None:
        """There is nothing to start."""

    async def write(self, data: str) -> None:
        request = json.loads(data)
        if request["type"] == "control_request":
            self._asked.put_nowait(request["request_id"])

    async def read_messages(self) -> AsyncIterator[Payload]:
        answer = {"subtype": "success", "request_id": await self._asked.get(), "response": {}}
        yield {"type": "control_response", "response": answer}
        for line in self._lines:
            await asyncio.sleep(0)
            yield line

    async def close(self) -> None:
        """There is nothing to stop."""

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        """Nobody listens."""
