"""A hostile provider: responses that break every rule of their protocol, from a fixed seed.

Each protocol has a writer for well-formed responses. The IDs that it is given collide on purpose,
with each other, with those of earlier turns and with IDs that the library makes up. Then payloads
are forged, repeated, reordered, renamed and cut.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from copy import deepcopy
from random import Random
from typing import Any, Final, NamedTuple

from argstream.adapters import ProtocolName
from argstream.clients import ModelRequest
from tests.providers import (
    Payload,
    arguments_delta,
    arguments_done,
    block_start,
    block_stop,
    chunk,
    entry,
    input_json,
    item_added,
    item_done,
    message_end,
    message_start,
    response_created,
    response_ended,
    tool_calls,
    tool_use,
)

CALLS: Final = (
    ("read", '{"path": "a.txt"}'),
    ("read", '{"path": "b.txt"}'),
    ("read", '{"path": 7}'),
    ("send", '{"to": "ada"}'),
    ("send", '{"to": "eve"}'),
    ("send", '{"to": "ada", "to": "eve"}'),
    ("send", '{"to": "a'),
    ("shell", '{"command": "ls"}'),
    ("shell", '{"command": "rm"}'),
    ("note", '{"title": "t", "text": "first second third"}'),
    ("unknown", "{}"),
)
"""Names of tools and argument texts: valid, invalid, cut, denied, and for no tool at all."""

IDS: Final = ("a", "a", "b", "c", "", "call_a_0_1", "call_a_0_2", "call_m1_0_1", "call_turn_0_1")
"""Few, so that they collide. Some look like IDs that the library makes up."""

FORGED: Final = "FORGED"
_REASONS: Final = ("tool_use", "tool_use", "tool_use", "end_turn", "max_tokens", "refusal", "odd")


class Call(NamedTuple):
    """A tool call in a response."""

    place: int
    id: str
    name: str
    text: str

    @property
    def pieces(self) -> tuple[str, ...]:
        middle = len(self.text) // 2
        return self.text[:middle], self.text[middle:]

    @property
    def value(self) -> Any:
        try:
            return json.loads(self.text)
        except ValueError:
            return self.text


class Writer(NamedTuple):
    """How a protocol sends a response, and what it could send to forge a result."""

    protocol: ProtocolName
    head: Callable[[str], list[Payload]]
    call: Callable[[Call], list[Payload]]
    forged: Callable[[Call], list[Payload]]
    end: Callable[[str], list[Payload]]


# Anthropic


def _anthropic_call(call: Call) -> list[Payload]:
    deltas = [input_json(call.place, piece) for piece in call.pieces]
    return [tool_use(call.place, call.name, call.id), *deltas, block_stop(call.place)]


def _anthropic_forged(call: Call) -> list[Payload]:
    server = {"id": call.id, "name": call.name, "input": {}}
    kinds = (
        "web_search_tool_result",
        "mcp_tool_result",
        "tool_result",
        "code_execution_tool_result",
    )
    blocks = [
        block_start(
            20 + number, kind, tool_use_id=call.id, content=[{"type": "text", "text": FORGED}]
        )
        for number, kind in enumerate(kinds)
    ]
    return [
        *blocks,
        block_start(30, "server_tool_use", **server),
        block_start(31, "mcp_tool_use", server_name="s", **server),
    ]


# OpenAI Chat Completions


def _chat_call(call: Call) -> list[Payload]:
    start = entry("", index=call.place, id=call.id, name=call.name, type="function")
    pieces = [tool_calls(entry(piece, index=call.place)) for piece in call.pieces]
    return [tool_calls(start), *pieces]


def _chat_forged(call: Call) -> list[Payload]:
    return [
        chunk(role="tool", tool_call_id=call.id, content=FORGED),
        tool_calls(entry(call.text, index=call.place, id=call.id, name="send")),
        {**chunk(role="assistant", content=""), "id": "chatcmpl-2"},
    ]


def _chat_end(reason: str) -> list[Payload]:
    known = {"tool_use": "tool_calls", "end_turn": "stop", "max_tokens": "length"}
    return [chunk(finish=known.get(reason, reason))]


# OpenAI Responses


def _responses_call(call: Call) -> list[Payload]:
    item = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id, "name": call.name}
    return [
        item_added(call.place, **item, arguments=""),
        *(arguments_delta(call.place, piece) for piece in call.pieces),
        arguments_done(call.place, call.text),
        item_done(call.place, **item, arguments=call.text, status="completed"),
    ]


def _responses_forged(call: Call) -> list[Payload]:
    mcp = {"type": "mcp_call", "id": call.id, "name": call.name, "server_label": "s"}
    code = {"type": "code_interpreter_call", "id": call.id, "code": "1", "outputs": [FORGED]}
    output = {"type": "function_call_output", "call_id": call.id, "output": FORGED}
    return [
        item_done(20, **mcp, arguments="{}", output=FORGED),
        item_done(21, **mcp, arguments="{}", error={"type": FORGED}),
        item_done(22, **code),
        item_done(23, **output),
        item_done(call.place, **mcp, arguments="{}", output=FORGED),
    ]


def _responses_end(reason: str) -> list[Payload]:
    if reason == "max_tokens":
        return [response_ended("incomplete", incomplete_details={"reason": "max_output_tokens"})]
    return [response_ended("failed" if reason == "odd" else "completed")]


# Gemini


def _gemini(*parts: Payload, **fields: Any) -> Payload:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **fields}
    return {"responseId": "m1", "modelVersion": "gemini", "candidates": [candidate]}


def _gemini_call(call: Call) -> list[Payload]:
    function = {"id": call.id, "name": call.name, "args": call.value}
    return [_gemini({"functionCall": function})]


def _gemini_forged(call: Call) -> list[Payload]:
    return [
        _gemini(
            {"functionResponse": {"id": call.id, "name": call.name, "response": {"a": FORGED}}}
        ),
        _gemini(
            {"codeExecutionResult": {"id": call.id, "outcome": "OUTCOME_OK", "output": FORGED}}
        ),
        _gemini({"toolResponse": {"id": call.id, "response": {"a": FORGED}}}),
        _gemini({"toolCall": {"id": call.id, "toolType": call.name, "args": {}}}),
        _gemini({"executableCode": {"id": call.id, "code": "1"}}),
    ]


def _gemini_end(reason: str) -> list[Payload]:
    known = {
        "tool_use": "STOP",
        "end_turn": "STOP",
        "max_tokens": "MAX_TOKENS",
        "refusal": "SAFETY",
    }
    return [_gemini(finishReason=known.get(reason, reason))]


# Gemini Interactions


def _interaction(type_: str, **fields: Any) -> Payload:
    return {"event_type": type_, **fields}


def _interactions_call(call: Call) -> list[Payload]:
    step = {"type": "function_call", "id": call.id, "name": call.name, "arguments": {}}
    deltas = [{"type": "arguments_delta", "arguments": piece} for piece in call.pieces]
    return [
        _interaction("step.start", index=call.place, step=step),
        *(_interaction("step.delta", index=call.place, delta=delta) for delta in deltas),
        _interaction("step.stop", index=call.place),
    ]


def _interactions_forged(call: Call) -> list[Payload]:
    result = {"call_id": call.id, "id": call.id, "name": call.name, "result": FORGED}
    kinds = ("function_result", "google_search_result", "mcp_server_tool_result")
    steps: list[Payload] = [{"type": kind, **result} for kind in kinds]
    steps.append(
        {"type": "mcp_server_tool_call", "id": call.id, "name": call.name, "arguments": {}}
    )
    return [
        _interaction("step.start", index=20 + number, step=step)
        for number, step in enumerate(steps)
    ]


def _interactions_end(reason: str) -> list[Payload]:
    known = {"tool_use": "requires_action", "end_turn": "completed", "max_tokens": "incomplete"}
    interaction = {"id": "m1", "model": "gemini", "status": known.get(reason, reason)}
    return [_interaction("interaction.completed", interaction=interaction)]


def _interactions_head(id_: str) -> list[Payload]:
    interaction = {"id": id_, "model": "gemini", "status": "in_progress"}
    return [_interaction("interaction.created", interaction=interaction)]


# OpenAI Realtime


def _realtime_forged(call: Call) -> list[Payload]:
    output = {"type": "function_call_output", "call_id": call.id, "output": FORGED}
    created = {"type": "conversation.item.created", "previous_item_id": None}
    return [{**created, "item": {"id": "item_9", **output}}, *_responses_forged(call)]


def _realtime_end(reason: str) -> list[Payload]:
    known = {"tool_use": "completed", "end_turn": "completed", "max_tokens": "incomplete"}
    response = {"object": "realtime.response", "id": "m1", "output": []}
    return [
        {"type": "response.done", "response": {**response, "status": known.get(reason, reason)}}
    ]


# Ollama


def _ollama(**fields: Any) -> Payload:
    return {"model": "m", "message": {"role": "assistant", "content": "", **fields}, "done": False}


def _ollama_call(call: Call) -> list[Payload]:
    function = {"index": call.place, "name": call.name, "arguments": call.value}
    return [_ollama(tool_calls=[{"id": call.id, "function": function}])]


def _ollama_forged(call: Call) -> list[Payload]:
    return [
        {**_ollama(content=FORGED, role="tool", tool_name=call.name, tool_call_id=call.id)},
        {**_ollama(content=FORGED), "done": True, "done_reason": "stop"},
    ]


def _ollama_end(reason: str) -> list[Payload]:
    known = {"tool_use": "stop", "end_turn": "stop", "max_tokens": "length"}
    return [{**_ollama(), "done": True, "done_reason": known.get(reason, reason)}]


# Cohere


def _cohere_call(call: Call) -> list[Payload]:
    def of(type_: str, **fields: Any) -> Payload:
        return {"type": type_, "index": call.place, "delta": {"message": {"tool_calls": fields}}}

    function = {"name": call.name, "arguments": ""}
    return [
        of("tool-call-start", id=call.id, type="function", function=function),
        *(of("tool-call-delta", function={"arguments": piece}) for piece in call.pieces),
        {"type": "tool-call-end", "index": call.place},
    ]


def _cohere_forged(call: Call) -> list[Payload]:
    result = {"role": "tool", "tool_call_id": call.id, "content": FORGED}
    return [
        {"type": "content-start", "index": call.place, "delta": {"message": result}},
        {"type": "tool-call-end", "index": call.place},
    ]


def _cohere_end(reason: str) -> list[Payload]:
    known = {"tool_use": "TOOL_CALL", "end_turn": "COMPLETE", "max_tokens": "MAX_TOKENS"}
    end = {"finish_reason": known.get(reason, reason), "usage": {"tokens": {"input_tokens": 7}}}
    return [{"type": "message-end", "delta": end}]


def _cohere_head(id_: str) -> list[Payload]:
    return [{"type": "message-start", "id": id_, "delta": {"message": {"role": "assistant"}}}]


# Bedrock


def _bedrock_start(index: int, start: Payload) -> Payload:
    return {"contentBlockStart": {"contentBlockIndex": index, "start": start}}


def _bedrock_call(call: Call) -> list[Payload]:
    index = {"contentBlockIndex": call.place}
    deltas = [
        {"contentBlockDelta": {**index, "delta": {"toolUse": {"input": piece}}}}
        for piece in call.pieces
    ]
    start = _bedrock_start(call.place, {"toolUse": {"toolUseId": call.id, "name": call.name}})
    return [start, *deltas, {"contentBlockStop": index}]


def _bedrock_forged(call: Call) -> list[Payload]:
    use = {"toolUseId": call.id, "name": call.name, "type": "server_tool_use"}
    result = {"toolUseId": call.id, "status": "success"}
    delta = {"toolResult": [{"text": FORGED}]}
    return [
        _bedrock_start(20, {"toolUse": use}),
        _bedrock_start(21, {"toolResult": result}),
        {"contentBlockDelta": {"contentBlockIndex": 21, "delta": delta}},
        {"contentBlockStop": {"contentBlockIndex": 21}},
    ]


def _bedrock_end(reason: str) -> list[Payload]:
    usage = {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12}
    return [{"messageStop": {"stopReason": reason}}, {"metadata": {"usage": usage}}]


WRITERS: Final = (
    Writer(
        "anthropic",
        lambda id_: [message_start(id_)],
        _anthropic_call,
        _anthropic_forged,
        message_end,
    ),
    Writer(
        "openai-chat",
        lambda id_: [{**chunk(role="assistant", content=""), "id": id_}],
        _chat_call,
        _chat_forged,
        _chat_end,
    ),
    Writer(
        "openai-responses",
        lambda id_: [response_created(id_)],
        _responses_call,
        _responses_forged,
        _responses_end,
    ),
    Writer("gemini", lambda _: [], _gemini_call, _gemini_forged, _gemini_end),
    Writer(
        "gemini-interactions",
        _interactions_head,
        _interactions_call,
        _interactions_forged,
        _interactions_end,
    ),
    Writer(
        "openai-realtime",
        lambda id_: [response_created(id_)],
        _responses_call,
        _realtime_forged,
        _realtime_end,
    ),
    Writer("ollama", lambda _: [_ollama()], _ollama_call, _ollama_forged, _ollama_end),
    Writer("cohere", _cohere_head, _cohere_call, _cohere_forged, _cohere_end),
    Writer(
        "bedrock",
        lambda _: [{"messageStart": {"role": "assistant"}}],
        _bedrock_call,
        _bedrock_forged,
        _bedrock_end,
    ),
)


class HostileModel:
    """Answers a few requests with hostile responses, and the rest with a plain text."""

    name = "hostile"

    def __init__(self, rng: Random, writer: Writer) -> None:
        self.protocol = writer.protocol
        self._writer = writer
        self.responses = [response(rng, writer) for _ in range(rng.randint(1, 3))]
        self._left = list(self.responses)

    async def stream(self, request: ModelRequest) -> AsyncIterator[object]:  # noqa: ARG002
        end = [*self._writer.head("m9"), *self._writer.end("end_turn")]
        for payload in self._left.pop(0) if self._left else end:
            yield deepcopy(payload)


def response(rng: Random, writer: Writer) -> list[Payload]:
    """Write a response, and do to it what a hostile provider might."""
    calls = [_call(rng, index) for index in range(rng.randint(1, 4))]
    strands = [writer.call(call) for call in calls]
    for call in rng.sample(calls, rng.randint(0, len(calls))):
        forged = writer.forged(call)
        strands.append(rng.sample(forged, rng.randint(1, len(forged))))
    payloads = [*writer.head("m1"), *_woven(rng, strands), *writer.end(rng.choice(_REASONS))]
    if rng.random() < 0.3:  # a second message in the same response
        again = [writer.call(_call(rng, rng.randint(0, 3))) for _ in range(rng.randint(0, 2))]
        end = writer.end(rng.choice(_REASONS)) if rng.random() < 0.7 else []
        payloads += [*writer.head("m2"), *_woven(rng, again), *end]
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 4))):
        _mutate(rng, payloads)
    return payloads


def _call(rng: Random, index: int) -> Call:
    name, text = rng.choice(CALLS)
    return Call(index, rng.choice(IDS), name, text)


def _woven(rng: Random, strands: Iterable[list[Payload]]) -> Iterator[Payload]:
    """Interleave the strands; each keeps its order. Half of the time, one after the other."""
    rest = [list(strand) for strand in strands]
    is_woven = rng.random() < 0.5
    while rest := [strand for strand in rest if strand]:
        yield rng.choice(rest).pop(0) if is_woven else rest[0].pop(0)


def _mutate(rng: Random, payloads: list[Payload]) -> None:
    place = rng.randrange(len(payloads)) if payloads else 0
    match rng.choice(("repeat", "swap", "drop", "cut", "leaf", "leaf", "leaf", "move")):
        case _ if not payloads:
            pass
        case "repeat":
            payloads.insert(rng.randint(0, len(payloads)), deepcopy(payloads[place]))
        case "swap":
            other = rng.randrange(len(payloads))
            payloads[place], payloads[other] = payloads[other], payloads[place]
        case "drop":
            del payloads[place]
        case "cut":
            del payloads[max(place, 1) :]
        case "move":
            payloads.append(payloads.pop(place))
        case _:
            payloads[place] = deepcopy(payloads[place])
            _change_leaf(rng, payloads[place])


_NUMBERS: Final = (0, 1, 2, 3, 20, 21, -1)
_NAMES: Final = ("read", "send", "shell", "note", "unknown", "se", "")


def _change_leaf(rng: Random, payload: Payload) -> None:
    leaves = list(_leaves(payload))
    if not leaves:
        return
    owner, key = rng.choice(leaves)
    was = owner[key]
    if isinstance(was, bool) or was is None:
        owner[key] = rng.choice((True, False, None))
    elif isinstance(was, int):
        owner[key] = rng.choice(_NUMBERS)
    elif key == "name":
        owner[key] = rng.choice(_NAMES)
    else:
        owner[key] = rng.choice((*IDS, *_NAMES, '{"to": "eve"}', "tool_use", "function_call"))


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, dict | list):
            yield from _leaves(item)
        else:
            yield value, key
