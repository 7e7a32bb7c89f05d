"""Short payloads of the three main APIs, and helpers that assemble them."""

import json
from collections.abc import Iterable
from typing import Any

from argstream import events as ev
from argstream.assembly import Assembler, Call
from argstream.events import Event, StreamFailed, TextDelta, ThinkingDelta, TurnCompleted
from argstream.history import CallKind, CallPart, Item
from argstream.providers import ProtocolName

Payload = dict[str, Any]


# Anthropic Messages


def message_start(id_: str = "msg_1", **fields: Any) -> Payload:
    message = {"id": id_, "model": "claude", "content": [], "usage": {"input_tokens": 7}, **fields}
    return {"type": "message_start", "message": message}


def block_start(index: int, type_: str, **fields: Any) -> Payload:
    block = {"type": type_, **fields}
    return {"type": "content_block_start", "index": index, "content_block": block}


def tool_use(index: int, name: str = "write", id_: str = "toolu_1", **fields: Any) -> Payload:
    return block_start(index, "tool_use", **{"id": id_, "name": name, "input": {}, **fields})


def input_json(index: int, text: str) -> Payload:
    delta = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "index": index, "delta": delta}


def block_delta(index: int, type_: str, **fields: Any) -> Payload:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type_, **fields}}


def block_stop(index: int) -> Payload:
    return {"type": "content_block_stop", "index": index}


def message_end(stop_reason: str = "tool_use") -> list[Payload]:
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]


def text_block(index: int, *pieces: str) -> list[Payload]:
    deltas = (block_delta(index, "text_delta", text=piece) for piece in pieces)
    return [block_start(index, "text", text=""), *deltas, block_stop(index)]


def thinking_block(index: int, *pieces: str) -> list[Payload]:
    deltas = (block_delta(index, "thinking_delta", thinking=piece) for piece in pieces)
    return [block_start(index, "thinking", thinking=""), *deltas, block_stop(index)]


def call_block(index: int, *pieces: str, id_: str = "toolu_1") -> list[Payload]:
    deltas = (input_json(index, piece) for piece in pieces)
    return [tool_use(index, id_=id_), *deltas, block_stop(index)]


def anthropic_call(*pieces: str, stop_reason: str = "tool_use") -> list[Payload]:
    """A turn with one call whose block is stopped."""
    return [message_start(), *call_block(0, *pieces), *message_end(stop_reason)]


# OpenAI Chat Completions


def chunk(*, finish: str | None = None, choice: int = 0, **delta: Any) -> Payload:
    choices = [{"index": choice, "delta": delta, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": choices}


def entry(
    arguments: Any = None,
    *,
    index: Any = 0,
    id: str | None = None,
    name: str | None = None,
    **fields: Any,
) -> Payload:
    """An entry of tool_calls without the fields that are None."""
    function = {"name": name, "arguments": arguments}
    found = {
        "index": index,
        "id": id,
        "function": {key: value for key, value in function.items() if value is not None},
        **fields,
    }
    return {key: value for key, value in found.items() if value is not None}


def tool_calls(*entries: Payload, finish: str | None = None, choice: int = 0) -> Payload:
    return chunk(tool_calls=list(entries), finish=finish, choice=choice)


def chat_call(*pieces: str, finish: str = "tool_calls") -> list[Payload]:
    """A turn with one call, in the form that OpenAI sends."""
    return [
        tool_calls(entry("", id="call_1", name="write", type="function")),
        *(tool_calls(entry(piece)) for piece in pieces),
        chunk(finish=finish),
    ]


# OpenAI Responses


def response_created(id_: str = "resp_1") -> Payload:
    return {"type": "response.created", "response": {"id": id_, "model": "gpt", "output": []}}


def item_added(index: int, **item: Any) -> Payload:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def item_done(index: int, **item: Any) -> Payload:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def arguments_delta(index: int, text: str, **fields: Any) -> Payload:
    type_ = "response.function_call_arguments.delta"
    return {"type": type_, "output_index": index, "delta": text, **fields}


def arguments_done(index: int, text: str) -> Payload:
    type_ = "response.function_call_arguments.done"
    return {"type": type_, "output_index": index, "arguments": text}


def response_ended(status: str = "completed", **fields: Any) -> Payload:
    response = {"id": "resp_1", "status": status, **fields}
    return {"type": f"response.{status}", "response": response}


FUNCTION_CALL: Payload = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "write",
    "arguments": "",
}


def responses_call(*pieces: str) -> list[Payload]:
    """A turn with one call, in the form that OpenAI sends."""
    text = "".join(pieces)
    return [
        response_created(),
        item_added(0, **FUNCTION_CALL),
        *(arguments_delta(0, piece) for piece in pieces),
        arguments_done(0, text),
        item_done(0, **{**FUNCTION_CALL, "arguments": text, "status": "completed"}),
        response_ended(),
    ]


# Running them


def assemble(payloads: Iterable[object], **options: Any) -> tuple[list[Call], list[Event]]:
    """Feed all payloads, close, and return the calls with every event."""
    assembler = Assembler(**options)
    events: list[Event] = []
    for payload in payloads:
        events += assembler.feed(payload)
    events += assembler.close()
    return assembler.calls, events


def fed(payloads: Iterable[object]) -> Assembler:
    assembler = Assembler()
    for payload in payloads:
        assembler.feed(payload)
    return assembler


def open_call(text: str) -> Call:
    """Return a call whose arguments have arrived up to this text."""
    return fed(anthropic_call(text)[:3]).calls[0]


def only_call(payloads: Iterable[object], **options: Any) -> Call:
    calls, _ = assemble(payloads, **options)
    (call,) = calls
    return call


def completed(payloads: Iterable[object], **options: Any) -> TurnCompleted:
    _, events = assemble(payloads, **options)
    (event,) = [event for event in events if isinstance(event, TurnCompleted)]
    return event


def types(events: Iterable[Event]) -> list[str]:
    return [event.type for event in events]


def of_type(events: Iterable[Event], *kinds: type) -> list[Any]:
    return [event for event in events if isinstance(event, kinds)]


def turns(events: Iterable[Event]) -> list[Any]:
    return of_type(events, TurnCompleted)


def failures(events: Iterable[Event]) -> list[Any]:
    return of_type(events, StreamFailed)


def results(events: Iterable[Event]) -> list[Any]:
    return of_type(events, ev.ToolCallCompleted, ev.ToolCallFailed)


def texts(events: Iterable[Event]) -> list[str]:
    return [event.text for event in of_type(events, TextDelta)]


def joined(events: Iterable[Event]) -> list[Event]:
    """Join neighbouring deltas of one kind and block, for comparison (invariant 1).

    The ToolArgsDelta events of each call are joined and moved to the end.
    """
    result: list[Event] = []
    raw: dict[str, str] = {}
    for event in events:
        last = result[-1] if result else None
        match event, last:
            case ev.ToolArgsDelta(call_id, _, delta), _:
                raw[call_id] = raw.get(call_id, "") + delta
            case ev.ArgumentDelta(id1, name, path1, text), ev.ArgumentDelta(
                id2, _, path2, before
            ) if (
                id1,
                path1,
            ) == (id2, path2):
                result[-1] = ev.ArgumentDelta(id1, name, path1, before + text)
            case TextDelta(text, block1), TextDelta(before, block2) if block1 == block2:
                result[-1] = TextDelta(before + text, block1)
            case ThinkingDelta(text, block1), ThinkingDelta(before, block2) if block1 == block2:
                result[-1] = ThinkingDelta(before + text, block1)
            case _:
                result.append(event)
    return [*result, *(ev.ToolArgsDelta(call_id, "", text) for call_id, text in raw.items())]


def sse(payloads: Iterable[Payload], *, done: bool = False) -> bytes:
    """Encode the payloads as a body of server-sent events."""
    lines = []
    for payload in payloads:
        if "type" in payload:
            lines.append(f"event: {payload['type']}\n")
        lines.append(f"data: {json.dumps(payload)}\n\n")
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode()


def outcomes(calls: Iterable[Call]) -> list[Any]:
    """Return the arguments of each complete call and the verdict of each other call."""
    return [call.arguments if call.verdict == "complete" else call.verdict for call in calls]


class Reader:
    """Assembles payloads of one protocol."""

    def __init__(self, protocol: ProtocolName) -> None:
        self._protocol = protocol

    def assemble(self, payloads: Iterable[object]) -> tuple[list[Call], list[Event]]:
        return assemble(payloads, protocol=self._protocol)

    def only_call(self, payloads: Iterable[object]) -> Call:
        return only_call(payloads, protocol=self._protocol)

    def completed(self, payloads: Iterable[object]) -> TurnCompleted:
        return completed(payloads, protocol=self._protocol)

    def verdicts(self, payloads: Iterable[object]) -> list[str]:
        return [call.verdict for call in self.assemble(payloads)[0]]


# Expected values


def call_part(
    call_id: str,
    name: str,
    arguments: Any,
    raw: str,
    *,
    kind: CallKind = "function",
    item: Item | None = None,
) -> CallPart:
    """A complete call in a message."""
    return CallPart(
        call_id=call_id,
        name=name,
        kind=kind,
        arguments=arguments,
        raw=raw,
        verdict="complete",
        item=item,
    )


HM_AND_SO: list[Event] = [
    ev.ThinkingStarted(0),
    ThinkingDelta("hm", 0),
    ev.ThinkingCompleted("hm", 0),
    TextDelta("so", 1),
]
"""A thought and a text, each in one delta."""

ONE_ARGUMENT_IN_TWO_PIECES = [
    "tool_call_started",
    "tool_args_delta",
    "argument_started",
    "argument_delta",
    "tool_args_delta",
    "argument_delta",
    "argument_completed",
    "tool_args_completed",
]


def provider_failed(code: str, message: str, retryable: bool = False) -> StreamFailed:
    """The event for an error that the provider reported under its own code."""
    return StreamFailed("provider_error", message, retryable, code)
