"""The Messages API of Anthropic, as a mock writes it."""

from collections.abc import Mapping
from typing import Any, Final

from argstream.testing._mock_checks import anthropic_problems
from argstream.testing._mock_memory import Memory
from argstream.testing._mock_wire import Problem, Turn, seal, sse
from argstream.testing.script import CallTool, Part, Say, Think

__all__ = ["AnthropicDialect"]

_ERRORS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class AnthropicDialect:
    """``POST /v1/messages``."""

    protocol = "anthropic"
    route = "/v1/messages"

    def streamed(self, turn: Turn) -> list[bytes]:
        """Write an answer as events."""
        message = self._message(turn) | {"content": [], "stop_reason": None}
        message["usage"] |= {"output_tokens": 1}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
        for index, (part, block_id) in enumerate(
            zip(turn.reply.parts, turn.ids("toolu_"), strict=True)
        ):
            start, deltas = _opening(part, block_id, turn)
            events.append({"type": "content_block_start", "index": index, "content_block": start})
            if index == 0:
                events.append({"type": "ping"})
            events += [
                {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
            ]
            if not _stays_open(part, turn, index):
                events.append({"type": "content_block_stop", "index": index})
        delta = {"stop_reason": turn.reply.stop, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": _usage(turn)})
        events.append({"type": "message_stop"})
        return [sse(event, event["type"]) for event in events]

    def whole(self, turn: Turn) -> dict[str, Any]:
        """Write an answer at once. A call whose arguments are no object has an empty input."""
        return self._message(turn)

    def error(self, status: int, message: str) -> dict[str, Any]:
        """Write the body of an error."""
        type_ = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": type_, "message": message}}

    def error_events(self, status: int, message: str, position: int) -> list[bytes]:  # noqa: ARG002 - only Responses counts
        """Write the event of an error."""
        return [sse(self.error(status, message), "error")]

    def problems(
        self, headers: Mapping[str, str], body: dict[str, Any], memory: Memory | None
    ) -> list[Problem]:
        """Say what is wrong with a request."""
        return anthropic_problems(headers, body, memory)

    def _message(self, turn: Turn) -> dict[str, Any]:
        blocks = zip(turn.reply.parts, turn.ids("toolu_"), strict=True)
        return {
            "id": f"msg_mock_{turn.number}",
            "type": "message",
            "role": "assistant",
            "model": turn.model,
            "content": [_block(part, block_id) for part, block_id in blocks],
            "stop_reason": turn.reply.stop,
            "stop_sequence": None,
            "usage": _usage(turn) | {"service_tier": "standard"},
        }


def _block(part: Part, block_id: str) -> dict[str, Any]:
    match part:
        case Say(text):
            return {"type": "text", "text": text}
        case Think(text):
            return {"type": "thinking", "thinking": text, "signature": seal(text)}
        case CallTool():
            value = part.value or {}
            return {"type": "tool_use", "id": block_id, "name": part.name, "input": value}


def _opening(part: Part, block_id: str, turn: Turn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Give a block as it is at its start, and its deltas."""
    block = _block(part, block_id)
    match part:
        case Say(text):
            deltas = [{"type": "text_delta", "text": piece} for piece in turn.pieces(text)]
            return block | {"text": ""}, deltas
        case Think(text):
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in turn.pieces(text)]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return block | {"thinking": "", "signature": ""}, deltas
        case CallTool(_, arguments):
            pieces = ["", *turn.pieces(arguments)]  # the first piece is empty, as Anthropic has it
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            return block | {"input": {}}, deltas


def _stays_open(part: Part, turn: Turn, index: int) -> bool:
    """Say whether the block is a call that was cut off: it then has no end of its own."""
    is_last = index == len(turn.reply.parts) - 1
    return is_last and turn.reply.is_cut and isinstance(part, CallTool) and not part.is_whole


def _usage(turn: Turn) -> dict[str, Any]:
    return {
        "input_tokens": turn.input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": turn.output_tokens,
    }
