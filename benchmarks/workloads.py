"""What is read: arguments of tool calls, and the bytes in which providers send them.

The texts are the same in every run. They are what a model writes: one line of JSON with an object
as its root, characters beyond ASCII as themselves. Fields and padding of the payloads are those of
recorded streams; names and ids are made up.
"""

import json
import random
import string
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

TOOL = "write_file"
TAGS = ["new", "eu", "paid", "trial", "beta"]

_WORDS = [
    "the", "value", "of", "this", "loop", "def", "return", "import",
    "self", "for", "if", "not", "None", "in", "raise", "with",
]  # fmt: skip
_BEYOND_ASCII = ["café", "naïve", "→", "Größe", "日本語"]
_NAMES = ["Ada Lovelace", "Grace Hopper", "Alan Turing", "Edsger Dijkstra", "Barbara Liskov"]


def write_file(path: str, content: str) -> str:
    """Write a file. This one writes nothing."""
    return f"{path}: {len(content)} characters"


# Texts


def chunks(text: str) -> list[str]:
    """Cut a text into pieces of 1 to 7 characters, 4 on average: about a token each."""
    choose = random.Random(1)
    pieces, position = [], 0
    while position < len(text):
        length = choose.randint(1, 7)
        pieces.append(text[position : position + length])
        position += length
    return pieces


def one_string(size: int) -> str:
    """Write a file: nearly all of it is one string."""
    return write({"path": "src/app.py", "content": code(random.Random(2), size)})


def nested_edits(size: int) -> str:
    """Edit a file in many places: nested strings of some hundred characters."""
    choose = random.Random(3)

    def text() -> str:
        return code(choose, choose.randint(80, 320), _BEYOND_ASCII)

    edits = until(size, lambda: {"old": text(), "new": text()})
    return write({"path": "src/app.py", "edits": edits})


def small_rows(size: int) -> str:
    """Store a table: keys, numbers, words and short strings."""
    return write({"rows": rows(size)})


def rows(size: int) -> list[dict[str, object]]:
    """Return the rows of a table."""
    choose = random.Random(4)
    return until(
        size,
        lambda: {
            "id": choose.randint(1, 100_000),
            "name": choose.choice(_NAMES),
            "score": round(choose.uniform(0, 1000), 2),
            "active": choose.random() < 0.5,
            "tags": choose.sample(TAGS, 2),
        },
    )


def until(size: int, make: Callable[[], Any]) -> list[Any]:
    """Make items until they are this long as JSON."""
    items, length = [], 0
    while length < size:
        items.append(make())
        length += len(write(items[-1])) + 2
    return items


def code(choose: random.Random, size: int, rare: list[str] | None = None) -> str:
    """Make lines that look like code, of about this size as JSON.

    Some have quotes, some a tab before a comment, and if wanted some a word beyond ASCII.
    """
    lines, length = [], 0
    while length < size:
        words = choose.choices(_WORDS, k=choose.randint(3, 9))
        if choose.random() < 0.1:
            words.append(f'"{choose.choice(_WORDS)}"')
        if choose.random() < 0.05:
            words.append("\t# see above")
        if rare and choose.random() < 0.1:
            words.append(choose.choice(rare))
        lines.append("    " * choose.randint(0, 3) + " ".join(words) + "\n")
        length += len(write(lines[-1])) - len('""')
    return "".join(lines)


def write(value: object) -> str:
    """Write JSON as a model does."""
    return json.dumps(value, ensure_ascii=False)


# Streams of providers: one tool call, one network chunk for each event

Payloads: TypeAlias = Iterator[dict[str, Any]]


def anthropic_call(pieces: Iterable[str], tool: str = TOOL) -> Payloads:
    """Yield the payloads of Anthropic for a call."""
    block = {"type": "tool_use", "id": "toolu_0113bSV1GiCA46VddyWm86oR", "name": tool, "input": {}}
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    return _anthropic_turn(block, deltas, "tool_use")


def anthropic_text(pieces: Iterable[str]) -> Payloads:
    """Yield the payloads of Anthropic for a text."""
    deltas = ({"type": "text_delta", "text": piece} for piece in pieces)
    return _anthropic_turn({"type": "text", "text": ""}, deltas, "end_turn")


def _anthropic_turn(block: object, deltas: Iterable[object], stop_reason: str) -> Payloads:
    ids = {"model": "claude-haiku-4-5-20251001", "id": "msg_01TDijN58DzXVn2WcXpw4fBW"}
    end = {"stop_reason": None, "stop_sequence": None}
    usage = {"input_tokens": 599, "output_tokens": 26, "service_tier": "standard"}
    message: dict[str, Any] = {**ids, "type": "message", "role": "assistant", "content": []}
    yield {"type": "message_start", "message": {**message, **end, "usage": usage}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "ping"}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    last = {"stop_reason": stop_reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": last, "usage": {"output_tokens": 25_000}}
    yield {"type": "message_stop"}


def anthropic_bytes(payloads: Payloads) -> list[bytes]:
    """Write server-sent events, with spaces that hide the length of the text."""
    choose = random.Random(5)
    return [
        _sse(text[:-1] + " " * choose.randint(0, 15) + text[-1:], payload["type"])
        for payload in payloads
        for text in [_compact(payload)]
    ]


def _openai_chat(pieces: list[str]) -> Iterator[bytes]:
    choose = random.Random(6)

    def event(finish_reason: str | None = None, **delta: object) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        ids = {"id": "chatcmpl-Dx0XpqH8w09uBXwq1zFGYdETjtnEl", "object": "chat.completion.chunk"}
        model = {"created": 1782955817, "model": "gpt-4o-mini-2024-07-18", "usage": None}
        names = {"service_tier": "default", "system_fingerprint": "fp_d0469e1700"}
        hidden = {"obfuscation": _padding(choose)}
        payload = {**ids, **model, **names, "choices": [choice], **hidden}
        return _sse(_compact(payload))

    function = {"name": TOOL, "arguments": ""}
    call = {"index": 0, "id": "call_ZR5UUuTt3pf61kjwAJI", "type": "function", "function": function}
    yield event(role="assistant", content=None, tool_calls=[call], refusal=None)
    for piece in pieces:
        yield event(tool_calls=[{"index": 0, "function": {"arguments": piece}}])
    yield event("tool_calls")
    yield _sse("[DONE]")


def responses_call(pieces: list[str]) -> list[bytes]:
    """Return the events of OpenAI's Responses for a call."""
    choose = random.Random(7)
    at = {"item_id": "fc_686d66f55bc4819ebe7ccadebeea6edf0629ba9684aa3cc3", "output_index": 0}

    def call(status: str, text: str) -> dict[str, object]:
        ids = {"id": at["item_id"], "call_id": "call_UuBjgXhfKp38j2KhLk0rLlSC"}
        return {**ids, "type": "function_call", "status": status, "arguments": text, "name": TOOL}

    type_, text = "response.function_call_arguments.", "".join(pieces)
    deltas: list[dict[str, object]] = [
        {"type": type_ + "delta", **at, "delta": piece, "obfuscation": _padding(choose)}
        for piece in pieces
    ]
    deltas.append({"type": type_ + "done", **at, "arguments": text})
    return _responses_turn(call("in_progress", ""), deltas, call("completed", text))


def responses_text(text: str) -> list[bytes]:
    """Return the events of OpenAI's Responses for a text."""
    at = {"item_id": "msg_686d66f55bc4819ebe7ccadebeea6edf", "output_index": 0}
    item = {"id": at["item_id"], "type": "message", "role": "assistant", "content": []}
    delta = {"type": "response.output_text.delta", **at, "content_index": 0, "delta": text}
    content = {"type": "output_text", "text": text, "annotations": []}
    return _responses_turn(item, [delta], {**item, "content": [content], "status": "completed"})


def _responses_turn(added: object, deltas: list[dict[str, object]], done: object) -> list[bytes]:
    def response(status: str, *output: object) -> dict[str, object]:
        ids = {"id": "resp_686d66f4fc54819eb7c72db6896d8217", "object": "response"}
        return {**ids, "model": "gpt-4o-mini-2024-07-18", "status": status, "output": output}

    payloads: list[dict[str, object]] = [
        {"type": "response.created", "response": response("in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": added},
        *deltas,
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": response("completed", done)},
    ]
    numbered = enumerate(payloads)
    return [_sse(_compact({**one, "sequence_number": i}), str(one["type"])) for i, one in numbered]


ANTHROPIC, CHAT, RESPONSES = "Anthropic", "OpenAI Chat", "OpenAI Responses"
_STREAMS: dict[str, Callable[[list[str]], Iterable[bytes]]] = {
    ANTHROPIC: lambda pieces: anthropic_bytes(anthropic_call(pieces)),
    CHAT: _openai_chat,
    RESPONSES: responses_call,
}
PROTOCOLS = list(_STREAMS)


def call_bytes(protocol: str, arguments: str) -> list[bytes]:
    """Return the stream of a provider in which the model writes these arguments."""
    return list(_STREAMS[protocol](chunks(arguments)))


def _sse(payload: str, name: str = "") -> bytes:
    return (f"event: {name}\n" * bool(name) + f"data: {payload}\n\n").encode()


def _compact(payload: object) -> str:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def _padding(choose: random.Random, longest: int = 16) -> str:
    """Make characters that mean nothing: providers hide the length of the text with them."""
    characters = string.ascii_letters + string.digits
    return "".join(choose.choices(characters, k=choose.randint(1, longest)))
