"""Which API made an item that is kept in a history.

A conversation can move from one provider to another. What belongs to the API that is asked goes
back to it as it came; what belongs to another would only be refused. An item does not say where it
comes from, but its form does: no two of these share one. Where a form was not known when this was
written, the id of its message tells.
"""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from argstream.history import Item

__all__ = ["Origin", "origin_of"]

Origin: TypeAlias = Literal["anthropic", "openai-chat", "openai-responses"]

_THOUGHTS: Final = {"thinking": "signature", "redacted_thinking": "data"}
"""Anthropic's, each with the field that it is checked by; Cohere's have the same type."""
_ANTHROPIC: Final = {
    "text",
    "tool_use",
    "server_tool_use",
    "mcp_tool_use",
    "container_upload",
    "image",
    "document",
    "search_result",
}
_RESPONSES: Final = {
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "code_interpreter_call",
    "web_search_call",
    "file_search_call",
    "image_generation_call",
    "computer_call",
    "computer_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "additional_tools",
    "program",
    "program_output",
    "input_image",
    "input_file",
}
_CHAT_FIELDS: Final = {"field", "reasoning_details", "extra_content"}
_CHAT_PARTS: Final = {"image_url", "input_audio", "file"}
_SPOKEN: Final = {"output_text", "refusal"}
_MESSAGE_IDS: Final[dict[str, Origin]] = {"msg_": "anthropic", "resp_": "openai-responses"}


def _has_call_id(item: Item) -> bool:
    return bool(item.get("call_id"))


def _has_summary(item: Item) -> bool:
    return isinstance(item.get("summary"), list)


def _is_spoken(item: Item) -> bool:
    content = item.get("content")
    return isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") in _SPOKEN for part in content
    )


# What others call by the same name as Responses does: Gemini a call, LangChain a thought.
_CHECKED: Final[dict[str, Callable[[Item], bool]]] = {
    "function_call": _has_call_id,
    "custom_tool_call": _has_call_id,
    "apply_patch_call": _has_call_id,
    "reasoning": _has_summary,
    "message": _is_spoken,
}


def origin_of(item: Item | None, message_id: str = "") -> Origin | None:
    """Say which of the APIs that we can ask made an item of this message, None if none did."""
    if not item:
        return None
    type_ = item.get("type")
    if "index" in item or item.get("object") == "realtime.item":
        return None  # LangChain's and Realtime's copies of what others made
    if not isinstance(type_, str):
        if item.keys() & _CHAT_FIELDS:
            return "openai-chat"
        return "anthropic" if "container" in item else None
    if type_ in _CHAT_PARTS:
        return "openai-chat"
    if type_ in _THOUGHTS:
        # A thought that was cut has no signature, and nobody would take it without one.
        return "anthropic" if item.get(_THOUGHTS[type_]) else None
    if type_ == "compaction":
        return "anthropic" if "content" in item else "openai-responses"
    if type_ in _ANTHROPIC or (type_.endswith("tool_result") and "tool_use_id" in item):
        return "anthropic"
    if type_ in _RESPONSES or type_ in _CHECKED:
        return "openai-responses" if _CHECKED.get(type_, bool)(item) else None
    return next((api for start, api in _MESSAGE_IDS.items() if message_id.startswith(start)), None)
