"""Which API made an item that is kept in a history.

A conversation can move from one provider to another. What belongs to the API that is asked goes
back to it as it came; what belongs to another would only be refused. An item does not say where it
comes from, but its form does: no two of these share one. Where a form was not known when this was
written, the id of its message tells.
"""

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
_WITH_CALL_ID: Final = {"function_call", "custom_tool_call", "apply_patch_call"}
"""Responses' calls, of which Gemini has some by the same name."""
_CHAT_FIELDS: Final = {"field", "reasoning_details", "extra_content"}
_CHAT_PARTS: Final = {"image_url", "input_audio", "file"}
_SPOKEN: Final = {"output_text", "refusal"}


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
    if _is_anthropic(item, type_, message_id):
        return "anthropic"
    return "openai-responses" if _is_responses(item, type_, message_id) else None


def _is_anthropic(item: Item, type_: str, message_id: str) -> bool:
    if type_ in _THOUGHTS:
        # A thought that was cut has no signature, and nobody would take it without one.
        return bool(item.get(_THOUGHTS[type_]))
    if type_ == "compaction":
        return "content" in item
    is_result = type_.endswith("tool_result") and "tool_use_id" in item
    return is_result or type_ in _ANTHROPIC or message_id.startswith("msg_")


def _is_responses(item: Item, type_: str, message_id: str) -> bool:
    if type_ in _WITH_CALL_ID:
        return bool(item.get("call_id"))
    if type_ == "reasoning":
        return isinstance(item.get("summary"), list)
    if type_ == "compaction":
        return "encrypted_content" in item
    if type_ == "message":
        content = item.get("content")
        return isinstance(content, list) and all(
            isinstance(part, dict) and part.get("type") in _SPOKEN for part in content
        )
    return type_ in _RESPONSES or message_id.startswith("resp_")
