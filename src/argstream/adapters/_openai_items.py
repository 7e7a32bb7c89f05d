"""The output items of OpenAI: what Responses, Realtime and LangChain's content have in common.

A response is a list of items: messages, thoughts, calls. An item is added, grows by deltas, and is
done; its last form is said again in whole.
"""

from collections.abc import Hashable
from typing import Any, Final, NamedTuple

from argstream.adapters._payloads import (
    UnreadableError,
    count,
    refuse_duplicate_keys,
    text_of,
    without,
)
from argstream.deltas import (
    BlockSaid,
    CallKind,
    CallResult,
    Delta,
    Opaque,
    ProviderFailed,
    ThinkingClosed,
    Tokens,
    TurnEnded,
)

__all__ = [
    "CALLS",
    "CUT",
    "THINKING_DELTAS",
    "CallItem",
    "call_id_of",
    "check_input",
    "failure",
    "id_of",
    "ids_of",
    "item_done",
    "kept_of_call",
    "result",
    "tokens",
    "turn_ended",
]


class CallItem(NamedTuple):
    """What is to be known of a type of item that is a call."""

    kind: CallKind
    input: str
    """The field with its input; assembly keeps that, so it is not kept in the item."""
    tool: str = ""
    """Its tool's name, where the item has none."""


CALLS: Final = {
    "function_call": CallItem("function", "arguments"),
    "mcp_call": CallItem("mcp", "arguments"),
    "custom_tool_call": CallItem("custom", "input"),
    "code_interpreter_call": CallItem("code", "code", "code_interpreter"),
    "apply_patch_call": CallItem("patch", "operation", "apply_patch"),
}
CUT: Final = {"incomplete", "cancelled", "failed", "in_progress", "queued"}
THINKING_DELTAS: Final = {
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
}
_NOT_SENT: Final = {"parsed_arguments"}  # what the SDK adds to an item
_RETRYABLE: Final = {"rate_limit_exceeded", "server_error", "overloaded", "internal_error"}


def check_input(item: dict[str, Any], payload: object) -> None:
    """Refuse an item whose input is of a type that it cannot have, or says a key twice."""
    for field in ("operation", "arguments"):
        given = item.get(field)
        if isinstance(given, dict):
            refuse_duplicate_keys(payload)
        elif not isinstance(given, str | None):
            raise UnreadableError(f"{field} is a {type(given).__name__}")


def id_of(item: dict[str, Any] | None) -> str:
    """Give the id of an item, empty if it has none."""
    return text_of((item or {}).get("id"))


def ids_of(item: dict[str, Any]) -> list[str]:
    """Give all ids by which an item is known, first the one under which results go back."""
    return [id_ for id_ in (text_of(item.get("call_id")), id_of(item)) if id_]


def call_id_of(item: dict[str, Any]) -> str:
    """Give the id under which the result of a call goes back, empty if it has none."""
    return next(iter(ids_of(item)), "")


def kept_of_call(item: dict[str, Any], field: str) -> dict[str, Any]:
    """Give what must go back with a call, without its input."""
    return without(item, field, *_NOT_SENT)


def result(item: dict[str, Any]) -> list[CallResult]:
    """Give what came of a call that the provider ran."""
    match item:
        case {"type": "mcp_call", "id": str(id_), "error": error} if error is not None:
            return [CallResult(id_, error, failed=True)]
        case {"type": "mcp_call", "id": str(id_), "output": output} if output is not None:
            return [CallResult(id_, output)]
        case {"type": "code_interpreter_call", "id": str(id_), "outputs": outputs}:
            return [CallResult(id_, outputs)]
        case _:
            return []


def item_done(key: Hashable, type_: str, item: dict[str, Any]) -> list[Delta]:
    """Take the last form of an item that is no call: all of its text once more, and itself."""
    if type_ == "reasoning":
        thought = "\n\n".join(_texts(item.get("summary")) or _texts(item.get("content")))
        return [
            BlockSaid(key, thought, is_thinking=True),
            Opaque(key, item),
            ThinkingClosed(key),
        ]
    if type_ == "message":  # of what is spoken, the words
        return [BlockSaid(key, "".join(_texts(item.get("content")))), Opaque(key, item)]
    return [Opaque(key, item)]


def turn_ended(status: str, details: dict[str, Any] | None) -> TurnEnded:
    """Say why a response ended: if it was cut, its details may tell more than its status."""
    if status in CUT:
        return TurnEnded(text_of((details or {}).get("reason")) or status, "cut")
    return TurnEnded(status, "finished" if status == "completed" else "unknown")


def _texts(parts: object) -> list[str]:
    found = parts if isinstance(parts, list) else []
    texts = (
        part.get("text") or part.get("refusal") or part.get("transcript")
        for part in found
        if isinstance(part, dict)
    )
    return [text for text in texts if isinstance(text, str)]


def failure(error: dict[str, Any]) -> ProviderFailed:
    """Read an error, wherever it stood."""
    code = text_of(error.get("code")) or text_of(error.get("type")) or "error"
    return ProviderFailed(code, text_of(error.get("message")) or code, code in _RETRYABLE)


def tokens(usage: dict[str, Any]) -> Tokens:
    """Read what a response cost. Realtime spells the details in its own way."""
    read = "input_tokens_details" if "input_tokens_details" in usage else "input_token_details"
    written = (
        "output_tokens_details" if "output_tokens_details" in usage else "output_token_details"
    )
    return Tokens(
        input_tokens=count(usage, "input_tokens"),
        output_tokens=count(usage, "output_tokens"),
        cache_read_tokens=count(usage, read, "cached_tokens"),
        reasoning_tokens=count(usage, written, "reasoning_tokens"),
    )
