"""Which protocol a payload belongs to, told by its first words."""

from collections.abc import Mapping
from typing import Any, Final

from argstream.adapters._aws import is_failure
from argstream.adapters._payloads import UnreadableError, fields_of, is_done, payloads_in

__all__ = ["detect"]

# Fields that no other protocol has, in any of their spellings.
_FIELDS: Final = {
    name: protocol
    for protocol, names in {
        "bedrock": "messageStart contentBlockStart contentBlockDelta contentBlockStop messageStop "
        "stopReason",
        "bedrock-invoke": "bytes",
        "claude-agent": "parent_tool_use_id num_turns subtype",
        "gemini": "candidates promptFeedback prompt_feedback",
        "gemini-interactions": "event_type",
        "gemini-live": "setupComplete serverContent toolCall toolCallCancellation goAway "
        "sessionResumptionUpdate setup_complete server_content tool_call tool_call_cancellation "
        "go_away session_resumption_update",
        "langchain": "lc tool_call_chunks response_metadata",
        "openai-chat": "choices",
        "xai-grpc": "outputs",
    }.items()
    for name in names.split()
}
# How the type of a payload begins.
_TYPES: Final = {
    "message-": "cohere",
    "content-": "cohere",
    "tool-": "cohere",
    "citation-": "cohere",
    "message_": "anthropic",
    "content_block_": "anthropic",
    "ping": "anthropic",
    "response.": "openai-responses",
    "chunk": "openai-chat",  # an event of the SDK's chat.completions.stream
    "AIMessage": "langchain",
    "session.": "openai-realtime",
    "conversation.": "openai-realtime",
    "input_audio_buffer.": "openai-realtime",
    "stream_event": "claude-agent",
    "assistant": "claude-agent",
    "user": "claude-agent",
    "system": "claude-agent",
    "result": "claude-agent",
}
_BEDROCK_EVENTS: Final = {name for name, protocol in _FIELDS.items() if protocol == "bedrock"}


def detect(payload: object, event: str = "") -> str | None:
    """Say which protocol a payload belongs to, or None if it does not tell.

    ``event`` is the name that the wire gave it. An AWS event stream says there what its payloads do
    not.
    """
    if event in _BEDROCK_EVENTS or is_failure(event):
        return "bedrock"
    if is_done(payload):
        return "openai-chat"
    if isinstance(payload, tuple) and payload:
        return "xai-grpc" if _is_protobuf(payload[-1]) else "langchain"
    if _is_protobuf(payload):
        return "xai-grpc"
    try:
        several = payloads_in(payload)
        fields = fields_of(several[0] if several else payload)
    except (UnreadableError, RecursionError):
        return None
    by_field = next((_FIELDS[name] for name in fields if name in _FIELDS), None)
    return by_field or _by_type(fields) or _by_several(fields)


def _is_protobuf(payload: object) -> bool:
    return hasattr(getattr(payload, "proto", payload), "ListFields")


def _by_type(fields: Mapping[str, Any]) -> str | None:
    type_ = fields.get("type")
    if not isinstance(type_, str):
        return None
    if "event_id" in fields:  # every event of a session has one
        return "openai-realtime"
    return next((known for start, known in _TYPES.items() if type_.startswith(start)), None)


def _by_several(fields: Mapping[str, Any]) -> str | None:
    """Tell by what is common when it stands alone."""
    if fields.get("type") == "message":
        return "anthropic"
    if "ns" in fields and "data" in fields:  # LangGraph's newer form
        return "langchain"
    kind = fields.get("object")
    if isinstance(kind, str):
        if kind == "response":
            return "openai-responses"
        if kind == "interaction":
            return "gemini-interactions"
        if kind.startswith("chat.completion"):
            return "openai-chat"
    if "done" in fields and "model" in fields:
        return "ollama"
    if str(fields.get("event", "")).startswith(("on_chat_model_", "on_chain_", "on_tool_")):
        return "langchain"  # an event of astream_events
    if "finish_reason" in fields and "message" in fields:  # an answer that was not streamed
        return "cohere"
    if "bytes" in fields_of(fields.get("chunk")):  # as boto3 gives it
        return "bedrock-invoke"
    if fields.get("type") == "error":
        is_responses = "sequence_number" in fields or "error" not in fields
        return "openai-responses" if is_responses else "anthropic"
    return "openai-chat" if "error" in fields else None
