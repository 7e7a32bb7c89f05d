"""What is streamed: one tool call, as each of three providers sends it over the network.

Fields, their order and their padding are those of recorded streams; names and ids are made up. The
arguments are the long string of ``workloads``, cut into the same pieces, one event for each.
"""

import json
import random
import string
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tables import size_name
from workloads import chunks, one_string

ANTHROPIC, CHAT, RESPONSES = "Anthropic", "OpenAI Chat", "OpenAI Responses"
PROTOCOLS = [ANTHROPIC, CHAT, RESPONSES]
TOOL = "write_file"

_READ = 16 * 1024


@dataclass(frozen=True)
class WireWorkload:
    """One stream, as the bytes that arrive."""

    protocol: str
    size: int
    arguments: str
    """The text that all pieces make together."""
    deltas: int
    """Into how many pieces it was cut."""
    chunks: list[bytes]
    name: str

    @classmethod
    def of(cls, protocol: str, size: int) -> "WireWorkload":
        """Write the stream of a provider, one network chunk for each event."""
        arguments = one_string(size)
        pieces = chunks(arguments)
        events = list(_STREAMS[protocol](arguments, pieces))
        name = workload_name(protocol, size)
        return cls(protocol, size, arguments, len(pieces), events, name)

    def in_large_reads(self) -> "WireWorkload":
        """Give the same bytes as they come when the reader was busy: 16 kB at a time."""
        data = b"".join(self.chunks)
        reads = [data[start : start + _READ] for start in range(0, len(data), _READ)]
        name = workload_name(self.protocol, self.size, large_reads=True)
        return replace(self, chunks=reads, name=name)


def workload_name(protocol: str, size: int, *, large_reads: bool = False) -> str:
    """Name a stream, to find its figures by."""
    return f"{protocol} {size_name(size)}" + ", 16 kB reads" * large_reads


def _anthropic(_: str, pieces: Iterable[str]) -> Iterator[bytes]:
    choose = random.Random(5)

    def event(type_: str, **fields: Any) -> bytes:
        payload = _compact({"type": type_, **fields})
        padding = " " * choose.randint(0, 15)  # against guessing the text by its length
        return _event(payload[:-1] + padding + payload[-1:], type_)

    usage = {
        "input_tokens": 599,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 26,
        "service_tier": "standard",
    }
    yield event(
        "message_start",
        message={
            "model": "claude-haiku-4-5-20251001",
            "id": "msg_01TDijN58DzXVn2WcXpw4fBW",
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        },
    )
    call = {"type": "tool_use", "id": "toolu_0113bSV1GiCA46VddyWm86oR", "name": TOOL, "input": {}}
    yield event("content_block_start", index=0, content_block=call)
    yield event("ping")
    for piece in pieces:
        change = {"type": "input_json_delta", "partial_json": piece}
        yield event("content_block_delta", index=0, delta=change)
    yield event("content_block_stop", index=0)
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    yield event("message_delta", delta=end, usage={"output_tokens": 25_000})
    yield event("message_stop")


def _chat(_: str, pieces: Iterable[str]) -> Iterator[bytes]:
    choose = random.Random(6)

    def event(choices: list[object], usage: object = None) -> bytes:
        return _event(
            _compact(
                {
                    "id": "chatcmpl-Dx0XpqH8w09uBXwq1zFGYdETjtnEl",
                    "object": "chat.completion.chunk",
                    "created": 1782955817,
                    "model": "gpt-4o-mini-2024-07-18",
                    "service_tier": "default",
                    "system_fingerprint": "fp_d0469e1700",
                    "choices": choices,
                    "usage": usage,
                    "obfuscation": _obfuscation(choose),
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
    yield _event("[DONE]")


def _responses(arguments: str, pieces: Iterable[str]) -> Iterator[bytes]:
    choose = random.Random(7)
    item_id = "fc_686d66f55bc4819ebe7ccadebeea6edf0629ba9684aa3cc3"
    sequence_number = -1

    def event(type_: str, **fields: object) -> bytes:
        nonlocal sequence_number
        sequence_number += 1
        payload = {"type": type_, "sequence_number": sequence_number, **fields}
        return _event(_compact(payload), type_)

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
            obfuscation=_obfuscation(choose),
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


_STREAMS: dict[str, Callable[[str, Iterable[str]], Iterator[bytes]]] = {
    ANTHROPIC: _anthropic,
    CHAT: _chat,
    RESPONSES: _responses,
}


def _event(payload: str, name: str = "") -> bytes:
    return (f"event: {name}\n" * bool(name) + f"data: {payload}\n\n").encode()


def _compact(payload: object) -> str:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def _obfuscation(choose: random.Random) -> str:
    """Make the padding of OpenAI's: characters that mean nothing."""
    return "".join(choose.choices(string.ascii_letters + string.digits, k=choose.randint(1, 16)))
