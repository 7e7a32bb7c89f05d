"""One call in pieces, as each protocol that streams arguments sends it.

For tests of behaviour that all protocols share. Payloads are minimal; recordings/ and the tests
of the adapters have real ones.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from string import Template
from struct import pack
from typing import Any, NamedTuple
from zlib import crc32

from argstream.providers import ProtocolName
from tests import provider_streams as api
from tests.provider_streams import FUNCTION_CALL, Payload, anthropic_call, responses_call, sse


class Streamed(NamedTuple):
    """How a protocol sends a call."""

    protocol: ProtocolName
    payloads: Callable[..., list[Payload]]  # from the pieces of the arguments' text
    wire: Callable[[Iterable[Payload]], bytes]

    def body(self, *pieces: str) -> bytes:
        return self.wire(self.payloads(*pieces))


def json_lines(payloads: Iterable[Payload]) -> bytes:
    return b"".join(json.dumps(payload).encode() + b"\n" for payload in payloads)


def aws_header(name: str, value: str) -> bytes:
    return pack(">B", len(name)) + name.encode() + pack(">BH", 7, len(value)) + value.encode()


def aws_message(headers: bytes, payload: bytes) -> bytes:
    prelude = pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = prelude + pack(">I", crc32(prelude)) + headers + payload
    return body + pack(">I", crc32(body))


def aws_event(name: str, payload: bytes) -> bytes:
    headers = aws_header(":message-type", "event") + aws_header(":event-type", name)
    return aws_message(headers, payload)


class Templates:
    """The payloads of a protocol: lines that begin with the name of a part of a response.

    A block (a call, a text, a thought) has a start, pieces and a stop. Other parts are head, end,
    errors, calls that the provider runs, and forgeries. An indented line continues one.
    """

    def __init__(self, protocol: ProtocolName) -> None:
        text = (Path(__file__).parent / f"templates/{protocol}.txt").read_text("utf-8")
        lines = (line.split(maxsplit=1) for line in re.sub(r"\n +", " ", text).splitlines())
        self._lines = [(part, json.loads(payload)) for part, payload in lines]

    def write(self, part: str, *, place: int = 0, **values: Any) -> list[Payload]:
        """Write a part. ``$index`` and ``$next`` are two numbers that no other place has."""
        values |= {"place": place, "index": 2 * place, "next": 2 * place + 1}
        return [_filled(payload, values) for name, payload in self._lines if name == part]

    def write_block(
        self, kind: str, pieces: Iterable[str], *, is_closed: bool = True, **values: Any
    ) -> list[Payload]:
        """Write a call, a text or a thought. One that is not closed has no end."""
        written = [self.write(f"{kind}-piece", piece=piece, **values) for piece in pieces]
        end = self.write(f"{kind}-stop", **values) if is_closed else []
        return [*self.write(kind, **values), *chain.from_iterable(written), *end]


def _filled(template: Any, values: dict[str, Any]) -> Any:
    match template:
        case dict():
            return {key: _filled(inner, values) for key, inner in template.items()}
        case list():
            return [_filled(inner, values) for inner in template]
        case str() if template.startswith("$"):
            return values[template[1:]]
        case str():
            return Template(template).safe_substitute(values)
        case _:
            return template


def _from_templates(
    protocol: ProtocolName, call_id: str, reason: str, wire: Callable[[Iterable[Payload]], bytes]
) -> Streamed:
    templates = Templates(protocol)

    def payloads(*pieces: str) -> list[Payload]:
        values: dict[str, Any] = {"id": call_id, "name": "write", "text": "".join(pieces)}
        call = templates.write_block("call", pieces, **values)
        return [
            *templates.write("head", id="m1"),
            *call,
            *templates.write("end", reason=reason, **values),
        ]

    return Streamed(protocol, payloads, wire)


def _bedrock_wire(payloads: Iterable[Payload]) -> bytes:
    return b"".join(
        aws_event(name, json.dumps(value).encode())
        for payload in payloads
        for name, value in payload.items()
    )


def _bedrock_invoke_wire(payloads: Iterable[Payload]) -> bytes:
    encoded = (base64.b64encode(json.dumps(payload).encode()).decode() for payload in payloads)
    return b"".join(aws_event("chunk", json.dumps({"bytes": text}).encode()) for text in encoded)


def _claude_agent(*pieces: str) -> list[Payload]:
    session: Payload = {"session_id": "s", "uuid": "u"}
    events = [
        {"type": "stream_event", "event": event, "parent_tool_use_id": None, **session}
        for event in anthropic_call(*pieces)
    ]
    result = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}
    return [*events, {**result, "result": "done", **session}]


def _openai_realtime(*pieces: str) -> list[Payload]:
    text = "".join(pieces)
    item = {**FUNCTION_CALL, "status": "in_progress"}
    done = {**FUNCTION_CALL, "status": "completed", "arguments": text}
    response = {"object": "realtime.response", "id": "resp_1", "output": []}
    payloads = [
        {"type": "session.created", "session": {"model": "gpt-realtime"}},
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        api.item_added(0, **item),
        *(api.arguments_delta(0, piece, item_id="fc_1", call_id="call_1") for piece in pieces),
        {**api.arguments_done(0, text), "item_id": "fc_1", "call_id": "call_1", "name": "write"},
        api.item_done(0, **done),
        {"type": "response.done", "response": {**response, "status": "completed"}},
    ]
    return [
        {"event_id": f"event_{number}", "response_id": "resp_1", **payload}
        for number, payload in enumerate(payloads)
    ]


def _openai_agents(*pieces: str) -> list[Payload]:
    return [{"type": "raw_response_event", "data": event} for event in responses_call(*pieces)]


STREAMED = [
    Streamed("anthropic", anthropic_call, sse),
    _from_templates("bedrock", "tooluse_1", "tool_use", _bedrock_wire),
    Streamed("bedrock-invoke", anthropic_call, _bedrock_invoke_wire),
    Streamed("claude-agent", _claude_agent, json_lines),
    _from_templates("cohere", "write_1", "TOOL_CALL", sse),
    _from_templates("gemini-interactions", "f1", "requires_action", sse),
    _from_templates("langchain", "call_1", "tool_calls", json_lines),
    Streamed("openai-agents", _openai_agents, json_lines),
    Streamed("openai-chat", api.chat_call, sse),
    Streamed("openai-realtime", _openai_realtime, json_lines),
    Streamed("openai-responses", responses_call, sse),
    _from_templates("pydantic-ai", "call_1", "", json_lines),
]
