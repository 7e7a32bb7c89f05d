"""One call, as the three big APIs send it.

Fields, their order and their padding are those of recorded streams; names and ids are made up.
"""

import random
from collections.abc import Iterable, Iterator
from typing import Any

from wire_events import TOOL, compact, padding, server_sent


def anthropic(_: str, pieces: Iterable[str]) -> Iterator[bytes]:
    """Write Anthropic Messages."""
    return anthropic_bytes(anthropic_payloads(pieces))


def anthropic_bytes(payloads: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Put what Anthropic says on its own wire."""
    choose = random.Random(5)
    for payload in payloads:
        text = compact(payload)
        spaces = " " * choose.randint(0, 15)  # against guessing the text by its length
        yield server_sent(text[:-1] + spaces + text[-1:], payload["type"])


def anthropic_payloads(pieces: Iterable[str], tool: str = TOOL) -> Iterator[dict[str, Any]]:
    """Give what Anthropic says, on whatever wire."""
    call = {"type": "tool_use", "id": "toolu_0113bSV1GiCA46VddyWm86oR", "name": tool, "input": {}}
    changes = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    return _anthropic_turn(call, changes, "tool_use")


def anthropic_text_payloads(pieces: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Give what Anthropic says when the model calls nothing."""
    changes = ({"type": "text_delta", "text": piece} for piece in pieces)
    return _anthropic_turn({"type": "text", "text": ""}, changes, "end_turn")


def _anthropic_turn(
    block: dict[str, Any], changes: Iterable[dict[str, str]], stop_reason: str
) -> Iterator[dict[str, Any]]:
    usage = {
        "input_tokens": 599,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 26,
        "service_tier": "standard",
    }
    message: dict[str, Any] = {
        "model": "claude-haiku-4-5-20251001",
        "id": "msg_01TDijN58DzXVn2WcXpw4fBW",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": message}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "ping"}
    for change in changes:
        yield {"type": "content_block_delta", "index": 0, "delta": change}
    yield {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": stop_reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 25_000}}
    yield {"type": "message_stop"}


def openai_chat(_: str, pieces: Iterable[str]) -> Iterator[bytes]:
    """Write OpenAI Chat Completions."""
    choose = random.Random(6)

    def event(choices: list[object], usage: object = None) -> bytes:
        return server_sent(
            compact(
                {
                    "id": "chatcmpl-Dx0XpqH8w09uBXwq1zFGYdETjtnEl",
                    "object": "chat.completion.chunk",
                    "created": 1782955817,
                    "model": "gpt-4o-mini-2024-07-18",
                    "service_tier": "default",
                    "system_fingerprint": "fp_d0469e1700",
                    "choices": choices,
                    "usage": usage,
                    "obfuscation": padding(choose),
                }
            )
        )

    def choice(finish_reason: str | None = None, **delta: object) -> list[object]:
        return [
            {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason},
        ]

    call = {
        "index": 0,
        "id": "call_ZR5UUuTt3pf61kjwAJIYdVMj",
        "type": "function",
        "function": {"name": TOOL, "arguments": ""},
    }
    yield event(choice(role="assistant", content=None, tool_calls=[call], refusal=None))
    for piece in pieces:
        yield event(choice(tool_calls=[{"index": 0, "function": {"arguments": piece}}]))
    yield event(choice("tool_calls"))
    usage = {"prompt_tokens": 53, "completion_tokens": 25_000, "total_tokens": 25_053}
    yield event([], usage)
    yield server_sent("[DONE]")


def openai_responses(arguments: str, pieces: Iterable[str]) -> Iterator[bytes]:
    """Write OpenAI Responses."""
    choose = random.Random(7)
    item_id = "fc_686d66f55bc4819ebe7ccadebeea6edf0629ba9684aa3cc3"
    sequence_number = -1

    def event(type_: str, **fields: object) -> bytes:
        nonlocal sequence_number
        sequence_number += 1
        payload = {"type": type_, "sequence_number": sequence_number, **fields}
        return server_sent(compact(payload), type_)

    def call(status: str, text: str) -> dict[str, str]:
        return {
            "id": item_id,
            "type": "function_call",
            "status": status,
            "arguments": text,
            "call_id": "call_UuBjgXhfKp38j2KhLk0rLlSC",
            "name": TOOL,
        }

    def response(status: str, output: list[object], usage: object = None) -> dict[str, object]:
        return {
            "id": "resp_686d66f4fc54819eb7c72db6896d82170629ba9684aa3cc3",
            "object": "response",
            "created_at": 1752000244,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "model": "gpt-4o-mini-2024-07-18",
            "output": output,
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": usage,
            "metadata": {},
        }

    yield event("response.created", response=response("in_progress", []))
    yield event("response.in_progress", response=response("in_progress", []))
    yield event("response.output_item.added", output_index=0, item=call("in_progress", ""))
    for piece in pieces:
        yield event(
            "response.function_call_arguments.delta",
            item_id=item_id,
            output_index=0,
            delta=piece,
            obfuscation=padding(choose),
        )
    whole = call("completed", arguments)
    yield event(
        "response.function_call_arguments.done",
        item_id=item_id,
        output_index=0,
        arguments=arguments,
    )
    yield event("response.output_item.done", output_index=0, item=whole)
    usage = {
        "input_tokens": 341,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 25_000,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 25_341,
    }
    yield event("response.completed", response=response("completed", [whole], usage))
