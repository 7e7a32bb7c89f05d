"""The Chat Completions API of OpenAI, as a mock writes it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from argstream.testing._mock_checks import chat_problems
from argstream.testing._mock_memory import Memory
from argstream.testing._mock_wire import FIRST_SECOND, Problem, Turn, openai_error, sse
from argstream.testing.script import CallTool, Say, Stop, Think

__all__ = ["ChatDialect"]

_FINISH: Final[dict[Stop, str]] = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
    "pause_turn": "stop",  # it has no pause
}


class ChatDialect:
    """``POST /v1/chat/completions``."""

    protocol = "openai-chat"
    route = "/v1/chat/completions"

    def streamed(self, turn: Turn) -> list[bytes]:
        """Write an answer as chunks."""
        head = _head(turn, "chat.completion.chunk")
        options = turn.body.get("stream_options")
        tells_usage = isinstance(options, dict) and options.get("include_usage") is True
        # A chunk that does not tell the usage says so, once it was asked for.
        no_usage = {"usage": None} if tells_usage else {}
        finish = _FINISH[turn.reply.stop]
        chunks = [
            *(head | {"choices": [_choice(delta)]} | no_usage for delta in _deltas(turn)),
            head | {"choices": [_choice({}, finish)]} | no_usage,
        ]
        if tells_usage:
            chunks.append(head | {"choices": [], "usage": _usage(turn)})
        return [*map(sse, chunks), sse(b"[DONE]")]

    def whole(self, turn: Turn) -> dict[str, Any]:
        """Write an answer at once."""
        parts = turn.reply.parts
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(part.text for part in parts if isinstance(part, Say)) or None,
            "refusal": None,
            "annotations": [],
        }
        if thought := "".join(part.text for part in parts if isinstance(part, Think)):
            message["reasoning_content"] = thought
        if calls := [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": part.name, "arguments": part.arguments},
            }
            for part, call_id in zip(parts, turn.ids("call_"), strict=True)
            if isinstance(part, CallTool)
        ]:
            message["tool_calls"] = calls
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": _FINISH[turn.reply.stop],
        }
        return _head(turn, "chat.completion") | {"choices": [choice], "usage": _usage(turn)}

    def error(self, status: int, message: str) -> dict[str, Any]:
        """Write the body of an error."""
        return {"error": openai_error(status, message)}

    def error_events(self, status: int, message: str, position: int) -> list[bytes]:  # noqa: ARG002 - only Responses counts
        """Write the event of an error."""
        return [sse(self.error(status, message))]

    def problems(
        self, headers: Mapping[str, str], body: dict[str, Any], memory: Memory | None
    ) -> list[Problem]:
        """Say what is wrong with a request."""
        return chat_problems(headers, body, memory)


def _head(turn: Turn, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-mock-{turn.number}",
        "object": kind,
        "created": FIRST_SECOND + turn.number,
        "model": turn.model,
        "service_tier": "default",
        "system_fingerprint": "fp_mock",
    }


def _choice(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _deltas(turn: Turn) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "", "refusal": None}
    index = 0
    for part, call_id in zip(turn.reply.parts, turn.ids("call_"), strict=True):
        match part:
            case Say(text):
                for piece in turn.pieces(text):
                    yield {"content": piece}
            case Think(text):
                for piece in turn.pieces(text):
                    yield {"reasoning_content": piece}
            case CallTool(name, arguments):
                function = {"name": name, "arguments": ""}
                opened = {"index": index, "id": call_id, "type": "function", "function": function}
                yield {"tool_calls": [opened]}
                for piece in turn.pieces(arguments):
                    yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
                index += 1


def _usage(turn: Turn) -> dict[str, Any]:
    return {
        "prompt_tokens": turn.input_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.input_tokens + turn.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": turn.thinking_tokens, "audio_tokens": 0},
    }
