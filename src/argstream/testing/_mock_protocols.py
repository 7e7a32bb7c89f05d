"""The three APIs of the mock provider: which requests each accepts, how it answers and fails."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from argstream.models._scripted import CallTool, Part, Reply, Say, Think, anthropic_block, signature
from argstream.providers._payloads import joined
from argstream.providers._stop_reasons import WORDS
from argstream.testing._chunking import cut

# The creation time of the first answer, the same in every run.
_FIRST_SECOND: Final = 1_767_225_600
_ANTHROPIC_ERRORS: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OPENAI_ERRORS: Final = {
    401: ("invalid_request_error", "invalid_api_key"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("server_error", "overloaded"),
    529: ("server_error", "overloaded"),
}


@dataclass(frozen=True)
class Turn:
    """A reply and the body of its request."""

    number: int  # counts answers from 1; IDs contain it
    reply: Reply
    body: dict[str, Any]

    @property
    def model(self) -> str:
        return str(self.body["model"])

    def pieces(self, text: str) -> list[str]:
        return cut(text, [self.reply.piece_size])

    def ids(self, prefix: str) -> list[str]:
        """Return an ID for each part. Calls keep the ID of the script."""
        return [
            (isinstance(part, CallTool) and part.call_id) or f"{prefix}mock_{self.number}_{index}"
            for index, part in enumerate(self.reply.parts)
        ]

    @property
    def input_tokens(self) -> int:
        """A count that grows with each turn, like a history."""
        return 100 * self.number

    @property
    def output_tokens(self) -> int:
        return self.tokens(Say, Think, CallTool)

    def tokens(self, *kinds: type) -> int:
        """Count one token for each piece of the parts of these kinds."""
        parts = [part for part in self.reply.parts if isinstance(part, kinds)]
        texts = [part.arguments if isinstance(part, CallTool) else part.text for part in parts]
        return sum(len(self.pieces(text)) for text in texts)


class RefusedError(Exception):
    """A request that is answered with an error status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def encode(payload: object) -> bytes:
    """Encode JSON as providers do: compact, without escapes beyond ASCII."""
    try:
        return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # a lone surrogate, which must be escaped
        return json.dumps(payload, separators=(",", ":")).encode()


def sse(payload: dict[str, Any] | bytes, name: str = "") -> bytes:
    data = payload if isinstance(payload, bytes) else encode(payload)
    return (b"event: %s\n" % name.encode() if name else b"") + b"data: %s\n\n" % data


class AnthropicDialect:
    protocol = "anthropic"
    route = "/v1/messages"
    key_headers: tuple[str, ...] = ("x-api-key", "authorization")
    required: tuple[tuple[str, ...], ...] = (("model",), ("max_tokens",), ("messages",))
    tool_form = '{"name": …, "input_schema": {…}}'

    def streamed(self, turn: Turn) -> list[bytes]:
        message = self.whole(turn) | {"content": [], "stop_reason": None}
        message["usage"] |= {"output_tokens": 1}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
        for index, block_id in enumerate(turn.ids("toolu_")):
            start, *others = anthropic_block(turn.reply, index, block_id, turn.reply.piece_size)
            events.append(start)
            if index == 0:
                events.append({"type": "ping"})
            if isinstance(turn.reply.parts[index], CallTool):  # its first piece is empty
                first = {"type": "input_json_delta", "partial_json": ""}
                events.append({"type": "content_block_delta", "index": index, "delta": first})
            events += others
        delta = {"stop_reason": WORDS["anthropic"][turn.reply.stop], "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": _anthropic_usage(turn)})
        events.append({"type": "message_stop"})
        return [sse(event, event["type"]) for event in events]

    def error(self, status: int, message: str) -> dict[str, Any]:
        type_ = _ANTHROPIC_ERRORS.get(
            status, "api_error" if status >= 500 else "invalid_request_error"
        )
        return {"type": "error", "error": {"type": type_, "message": message}}

    def error_events(self, status: int, message: str, position: int) -> list[bytes]:
        return [sse(self.error(status, message), "error")]

    def is_tool(self, tool: object) -> bool:
        match tool:
            case {"name": str(), "input_schema": dict()}:
                return True
            case {"name": str(), "type": str(type_)}:
                return type_ != "custom"  # Anthropic's own tools have no schema
        return False

    def whole(self, turn: Turn) -> dict[str, Any]:
        """Return a message. A call whose arguments are not an object has an empty input."""
        blocks = zip(turn.reply.parts, turn.ids("toolu_"), strict=True)
        return {
            "id": f"msg_mock_{turn.number}",
            "type": "message",
            "role": "assistant",
            "model": turn.model,
            "content": [_anthropic_block(part, block_id) for part, block_id in blocks],
            "stop_reason": WORDS["anthropic"][turn.reply.stop],
            "stop_sequence": None,
            "usage": _anthropic_usage(turn) | {"service_tier": "standard"},
        }


def _anthropic_block(part: Part, block_id: str) -> dict[str, Any]:
    match part:
        case Say(text):
            return {"type": "text", "text": text}
        case Think(text):
            return {"type": "thinking", "thinking": text, "signature": signature(text)}
        case CallTool():
            value = part.value or {}
            return {"type": "tool_use", "id": block_id, "name": part.name, "input": value}


def _anthropic_usage(turn: Turn) -> dict[str, Any]:
    return {
        "input_tokens": turn.input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": turn.output_tokens,
    }


class _OpenAiDialect:
    key_headers: tuple[str, ...] = ("authorization", "api-key")

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"error": _openai_error(status, message)}


class ChatDialect(_OpenAiDialect):
    protocol = "openai-chat"
    route = "/v1/chat/completions"
    required: tuple[tuple[str, ...], ...] = (("model",), ("messages",))
    tool_form = '{"type": "function", "function": {"name": …}}'

    def streamed(self, turn: Turn) -> list[bytes]:
        head = _chat_head(turn, "chat.completion.chunk")
        options = turn.body.get("stream_options")
        includes_usage = isinstance(options, dict) and options.get("include_usage") is True
        # If usage was requested, chunks without it have usage: null.
        no_usage = {"usage": None} if includes_usage else {}
        finish = WORDS["openai-chat"][turn.reply.stop]
        chunks = [
            *(head | {"choices": [_chat_choice(delta)]} | no_usage for delta in _chat_deltas(turn)),
            head | {"choices": [_chat_choice({}, finish)]} | no_usage,
        ]
        if includes_usage:
            chunks.append(head | {"choices": [], "usage": _chat_usage(turn)})
        return [*map(sse, chunks), sse(b"[DONE]")]

    def whole(self, turn: Turn) -> dict[str, Any]:
        message: dict[str, Any] = {"refusal": None, "annotations": []}
        message |= joined([*_chat_deltas(turn)], {"content", "reasoning_content", "arguments"})
        message["content"] = message["content"] or None
        for call in message.get("tool_calls", []):
            del call["index"]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": WORDS["openai-chat"][turn.reply.stop],
        }
        return _chat_head(turn, "chat.completion") | {
            "choices": [choice],
            "usage": _chat_usage(turn),
        }

    def error_events(self, status: int, message: str, position: int) -> list[bytes]:
        return [sse(self.error(status, message))]

    def is_tool(self, tool: object) -> bool:
        match tool:
            case {"type": "function", "function": form} | {"type": "custom", "custom": form}:
                return isinstance(form, dict) and isinstance(form.get("name"), str)
        return False


def _chat_head(turn: Turn, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-mock-{turn.number}",
        "object": kind,
        "created": _FIRST_SECOND + turn.number,
        "model": turn.model,
        "service_tier": "default",
        "system_fingerprint": "fp_mock",
    }


def _chat_choice(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _chat_deltas(turn: Turn) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "", "refusal": None}
    index = 0
    for part, call_id in zip(turn.reply.parts, turn.ids("call_"), strict=True):
        match part:
            case Say(text) | Think(text):
                field = "content" if isinstance(part, Say) else "reasoning_content"
                for piece in turn.pieces(text):
                    yield {field: piece}
            case CallTool(name, arguments):
                function = {"name": name, "arguments": ""}
                opened = {"index": index, "id": call_id, "type": "function", "function": function}
                yield {"tool_calls": [opened]}
                for piece in turn.pieces(arguments):
                    yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
                index += 1


def _chat_usage(turn: Turn) -> dict[str, Any]:
    return {
        "prompt_tokens": turn.input_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.input_tokens + turn.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": turn.tokens(Think), "audio_tokens": 0},
    }


class ResponsesDialect(_OpenAiDialect):
    protocol = "openai-responses"
    route = "/v1/responses"
    required: tuple[tuple[str, ...], ...] = (("model",), ("input", "prompt"))
    tool_form = '{"type": "function", "name": …}'

    def streamed(self, turn: Turn) -> list[bytes]:
        done = self.whole(turn)
        begun = done | {"status": "in_progress", "incomplete_details": None}
        begun |= {"output": [], "usage": None}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for index, (part, item) in enumerate(zip(turn.reply.parts, done["output"], strict=True)):
            events += ({**event, "output_index": index} for event in _item_events(part, item, turn))
        events.append({"type": f"response.{done['status']}", "response": done})
        return [
            sse({**event, "sequence_number": number}, event["type"])
            for number, event in enumerate(events)
        ]

    def whole(self, turn: Turn) -> dict[str, Any]:
        reason = WORDS["openai-responses"].get(turn.reply.stop)
        # A response repeats fields of its request. Clients require these.
        echoed = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return {
            "id": f"resp_mock_{turn.number}",
            "object": "response",
            "created_at": _FIRST_SECOND + turn.number,
            "status": "completed" if reason is None else "incomplete",
            "background": False,
            "error": None,
            "incomplete_details": None if reason is None else {"reason": reason},
            "model": turn.model,
            "output": [*_response_items(turn)],
            "usage": {
                "input_tokens": turn.input_tokens,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": turn.output_tokens,
                "output_tokens_details": {"reasoning_tokens": turn.tokens(Think)},
                "total_tokens": turn.input_tokens + turn.output_tokens,
            },
            **{name: turn.body.get(name, default) for name, default in echoed.items()},
        }

    def error_events(self, status: int, message: str, position: int) -> list[bytes]:
        event = {
            "type": "error",
            "sequence_number": position,
            "error": _openai_error(status, message),
        }
        return [sse(event, "error")]

    def is_tool(self, tool: object) -> bool:
        match tool:
            case {"type": "function", "name": str()}:
                return True
            case {"type": str(type_)}:
                return type_ != "function"
        return False


def _response_items(turn: Turn) -> Iterator[dict[str, Any]]:
    ids = zip(turn.reply.parts, turn.ids(""), turn.ids("call_"), strict=True)
    for number, (part, item_id, call_id) in enumerate(ids, 1):
        is_cut = turn.reply.is_cut and number == len(turn.reply.parts)
        status = "incomplete" if is_cut else "completed"
        match part:
            case Say(text):
                yield {
                    "id": f"msg_{item_id}",
                    "type": "message",
                    "status": status,
                    "content": [
                        {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
                    ],
                    "role": "assistant",
                }
            case Think(text):
                yield {
                    "id": f"rs_{item_id}",
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": text}],
                    "encrypted_content": signature(text),
                }
            case CallTool(name, arguments):
                yield {
                    "id": f"fc_{item_id}",
                    "type": "function_call",
                    "status": status,
                    "arguments": arguments,
                    "call_id": call_id,
                    "name": name,
                }


def _item_events(part: Part, item: dict[str, Any], turn: Turn) -> Iterator[dict[str, Any]]:
    of_item = {"item_id": item["id"]}
    opened: dict[str, Any]
    match part:
        case Say(text) | Think(text):
            extra: dict[str, Any] = {}
            if isinstance(part, Say):
                key, part_name, text_name = "content", "content_part", "output_text"
                opened, extra = {"status": "in_progress", "content": []}, {"logprobs": []}
            else:
                key, text_name = "summary", "reasoning_summary_text"
                part_name, opened = "reasoning_summary_part", {"summary": []}
            place, whole = of_item | {f"{key}_index": 0}, item[key][0]
            yield {"type": "response.output_item.added", "item": item | opened}
            yield {"type": f"response.{part_name}.added", **place, "part": whole | {"text": ""}}
            for piece in turn.pieces(text):
                yield {"type": f"response.{text_name}.delta", **place, "delta": piece, **extra}
            yield {"type": f"response.{text_name}.done", **place, "text": text, **extra}
            yield {"type": f"response.{part_name}.done", **place, "part": whole}
        case CallTool(_, arguments):
            call = "response.function_call_arguments"
            opened = {"status": "in_progress", "arguments": ""}
            yield {"type": "response.output_item.added", "item": item | opened}
            for piece in turn.pieces(arguments):
                yield {"type": f"{call}.delta", **of_item, "delta": piece}
            if item["status"] == "completed":
                yield {"type": f"{call}.done", **of_item, "arguments": arguments}
    yield {"type": "response.output_item.done", "item": item}


def _openai_error(status: int, message: str) -> dict[str, Any]:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    type_, code = _OPENAI_ERRORS.get(status, (kind, "server_error" if status >= 500 else None))
    return {"message": message, "type": type_, "param": None, "code": code}


def check_form(dialect: "Dialect", headers: Mapping[str, str], body: dict[str, Any]) -> None:
    """Raise RefusedError if a request does not have the form of the API."""
    if not any(map(headers.get, dialect.key_headers)):
        raise RefusedError(f"no API key. Send the header {' or '.join(dialect.key_headers)}", 401)
    if dialect.protocol == "anthropic" and not headers.get("anthropic-version"):
        raise RefusedError("anthropic-version: this header is required")
    for names in dialect.required:
        if not any(map(body.get, names)):
            raise RefusedError(f"{' or '.join(names)}: this is required")
    tools = body.get("tools") or []
    for number, tool in enumerate(tools if isinstance(tools, list) else [tools]):
        if not dialect.is_tool(tool):
            raise RefusedError(f"tools[{number}]: expected {dialect.tool_form}, not {tool!r:.200}")


# Each has ``streamed`` and ``whole`` for a response, ``error`` and ``error_events`` for an error
# (after ``position`` other events). ``required`` has the fields of a request, with alternatives.
Dialect: TypeAlias = AnthropicDialect | ChatDialect | ResponsesDialect
