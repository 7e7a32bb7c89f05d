"""The Responses API of OpenAI, as a mock writes it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from argstream.testing._mock_checks import responses_problems
from argstream.testing._mock_memory import Memory
from argstream.testing._mock_thoughts import reasoning_item
from argstream.testing._mock_wire import FIRST_SECOND, Problem, Turn, openai_error, sse
from argstream.testing.script import CallTool, Part, Say, Stop, Think

__all__ = ["ResponsesDialect"]

_INCOMPLETE: Final[dict[Stop, str]] = {
    "max_tokens": "max_output_tokens",
    "refusal": "content_filter",
}
# What a response says again of its request, and what it says if the request did not.
_ECHOED: Final[dict[str, Any]] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}


class ResponsesDialect:
    """``POST /v1/responses``."""

    protocol = "openai-responses"
    route = "/v1/responses"

    def streamed(self, turn: Turn) -> list[bytes]:
        """Write an answer as events."""
        begun = _response(turn) | {"status": "in_progress", "incomplete_details": None}
        begun |= {"output": [], "usage": None}
        done = self.whole(turn)
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for index, (part, item) in enumerate(zip(turn.reply.parts, done["output"], strict=True)):
            events += ({**event, "output_index": index} for event in _events(part, item, turn))
        events.append({"type": f"response.{done['status']}", "response": done})
        return [
            sse({**event, "sequence_number": number}, event["type"])
            for number, event in enumerate(events)
        ]

    def whole(self, turn: Turn) -> dict[str, Any]:
        """Write an answer at once."""
        return _response(turn) | {"output": _items(turn), "usage": _usage(turn)}

    def error(self, status: int, message: str) -> dict[str, Any]:
        """Write the body of an error."""
        return {"error": openai_error(status, message)}

    def error_events(self, status: int, message: str, position: int) -> list[bytes]:
        """Write the event of an error."""
        event = {
            "type": "error",
            "sequence_number": position,
            "error": openai_error(status, message),
        }
        return [sse(event, "error")]

    def problems(
        self, headers: Mapping[str, str], body: dict[str, Any], memory: Memory | None
    ) -> list[Problem]:
        """Say what is wrong with a request."""
        return responses_problems(headers, body, memory)


def _response(turn: Turn) -> dict[str, Any]:
    reason = _INCOMPLETE.get(turn.reply.stop)
    echoed = {name: turn.body.get(name, default) for name, default in _ECHOED.items()}
    return {
        "id": f"resp_mock_{turn.number}",
        "object": "response",
        "created_at": FIRST_SECOND + turn.number,
        "status": "completed" if reason is None else "incomplete",
        "background": False,
        "error": None,
        "incomplete_details": None if reason is None else {"reason": reason},
        "model": turn.model,
        **echoed,
    }


def _items(turn: Turn) -> list[dict[str, Any]]:
    """Give each part as an item, as it is at its end."""
    last = len(turn.reply.parts) - 1
    ids = zip(turn.reply.parts, turn.ids(""), turn.ids("call_"), strict=True)
    return [
        _item(
            part, item_id, call_id, "incomplete" if turn.reply.is_cut and n == last else "completed"
        )
        for n, (part, item_id, call_id) in enumerate(ids)
    ]


def _item(part: Part, item_id: str, call_id: str, status: str) -> dict[str, Any]:
    match part:
        case Say(text):
            return {
                "id": f"msg_{item_id}",
                "type": "message",
                "status": status,
                "content": [_text_part(text)],
                "role": "assistant",
            }
        case Think(text):
            return reasoning_item(f"rs_{item_id}", text)
        case CallTool(name, arguments):
            return {
                "id": f"fc_{item_id}",
                "type": "function_call",
                "status": status,
                "arguments": arguments,
                "call_id": call_id,
                "name": name,
            }


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _events(part: Part, item: dict[str, Any], turn: Turn) -> Iterator[dict[str, Any]]:
    """Write one item: added, growing, done."""
    of_item = {"item_id": item["id"]}
    match part:
        case Say(text):
            of_text = {**of_item, "content_index": 0}
            yield _added(item | {"status": "in_progress", "content": []})
            yield {"type": "response.content_part.added", **of_text, "part": _text_part("")}
            for piece in turn.pieces(text):
                delta = {"delta": piece, "logprobs": []}
                yield {"type": "response.output_text.delta", **of_text, **delta}
            yield {"type": "response.output_text.done", **of_text, "text": text, "logprobs": []}
            yield {"type": "response.content_part.done", **of_text, "part": _text_part(text)}
        case Think(text):
            of_summary = {**of_item, "summary_index": 0}
            summary = "response.reasoning_summary"
            empty = {"type": "summary_text", "text": ""}
            yield _added(item | {"summary": []})
            yield {"type": f"{summary}_part.added", **of_summary, "part": empty}
            for piece in turn.pieces(text):
                yield {"type": f"{summary}_text.delta", **of_summary, "delta": piece}
            yield {"type": f"{summary}_text.done", **of_summary, "text": text}
            yield {"type": f"{summary}_part.done", **of_summary, "part": item["summary"][0]}
        case CallTool(_, arguments):
            call = "response.function_call_arguments"
            yield _added(item | {"status": "in_progress", "arguments": ""})
            for piece in turn.pieces(arguments):
                yield {"type": f"{call}.delta", **of_item, "delta": piece}
            if item["status"] == "completed":
                yield {"type": f"{call}.done", **of_item, "arguments": arguments}
    yield {"type": "response.output_item.done", "item": item}


def _added(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "item": item}


def _usage(turn: Turn) -> dict[str, Any]:
    return {
        "input_tokens": turn.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": turn.output_tokens,
        "output_tokens_details": {"reasoning_tokens": turn.thinking_tokens},
        "total_tokens": turn.input_tokens + turn.output_tokens,
    }
