"""Output of Claude Code: its lines, and the same as messages of the Agent SDK."""

import json
from collections.abc import Iterable
from typing import Any

from claude_agent_sdk._internal.message_parser import parse_message

from argstream.assembly import Assembler, Call
from argstream.events import Event
from tests.provider_streams import Payload, block_stop, input_json, tool_use

SESSION: Payload = {"session_id": "session_1", "uuid": "uuid_1"}
FORMS = ["lines", "objects"]


def init() -> Payload:
    return {"type": "system", "subtype": "init", "model": "claude", "tools": [], **SESSION}


def event(payload: Payload, parent: str | None = None) -> Payload:
    """Wrap an event of Anthropic."""
    return {"type": "stream_event", "event": payload, "parent_tool_use_id": parent, **SESSION}


def streamed(*payloads: Payload, parent: str | None = None) -> list[Payload]:
    return [event(payload, parent) for payload in payloads]


def assistant(
    *blocks: Payload, id_: str | None = "msg_1", parent: str | None = None, **fields: Any
) -> Payload:
    """A complete message, or the part of one that has just been completed."""
    usage = fields.pop("usage", {"input_tokens": 7, "output_tokens": 1})
    message: Payload = {"id": id_, "type": "message", "role": "assistant", "model": "claude"}
    message |= {"content": list(blocks), "stop_reason": fields.pop("stop_reason", None)}
    return _message("assistant", {**message, "usage": usage}, parent, fields)


def _message(type_: str, message: Payload, parent: str | None, fields: Payload) -> Payload:
    own = {"type": type_, "message": message, "parent_tool_use_id": parent}
    return {**own, **SESSION, **fields}


def text(written: str) -> Payload:
    return {"type": "text", "text": written}


def thinking(thought: str, signature: str = "c2ln") -> Payload:
    return {"type": "thinking", "thinking": thought, "signature": signature}


def use(value: Any, id_: str = "toolu_1", name: str = "write") -> Payload:
    return {"type": "tool_use", "id": id_, "name": name, "input": value}


def user(content: Any, parent: str | None = None, **fields: Any) -> Payload:
    return _message("user", {"role": "user", "content": content}, parent, fields)


def tool_result(content: Any = "done", id_: str = "toolu_1", **fields: Any) -> Payload:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **fields}


def run_result(subtype: str = "success", **fields: Any) -> Payload:
    own = {"type": "result", "subtype": subtype, "is_error": subtype != "success"}
    times = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1}
    usage = {"input_tokens": 7, "output_tokens": 5}
    return {**own, **times, "usage": usage, **SESSION, **fields}


def streamed_call(
    *pieces: str,
    value: Any = None,
    index: int = 0,
    id_: str = "toolu_1",
    parent: str | None = None,
    message: str = "msg_1",
) -> list[Payload]:
    """A streamed call: the complete message comes before the event that stops it."""
    value = json.loads("".join(pieces) or "{}") if value is None else value
    return [
        *streamed(tool_use(index, id_=id_), parent=parent),
        *streamed(*(input_json(index, piece) for piece in pieces), parent=parent),
        assistant(use(value, id_), id_=message, parent=parent),
        event(block_stop(index), parent),
    ]


def in_form(form: str, lines: Iterable[Payload]) -> list[Any]:
    """Return the lines as bytes, or as messages of the SDK, which drops some."""
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
