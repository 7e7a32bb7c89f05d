"""Detect the protocol of a stream by its first payloads.

Also detects payloads inside a framework's events, and unsupported formats for the error message.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from argstream.providers._deltas import Delta
from argstream.providers._payloads import (
    UnreadableError,
    all_fields_of,
    fields_of,
    is_done,
    is_failure,
    payloads_in,
)

Feed: TypeAlias = Callable[[object, str], list[Delta]]
"""The signature of ``ProviderDecoder.feed``."""

# Fields that only one protocol has, in both spellings.
_FIELDS: Final = {
    name: protocol
    for protocol, names in {
        "bedrock": "messageStart contentBlockStart contentBlockDelta contentBlockStop messageStop",
        "bedrock-invoke": "bytes",
        "claude-agent": "num_turns subtype",
        "gemini": "candidates promptFeedback prompt_feedback",
        "gemini-interactions": "event_type",
        "gemini-live": "setupComplete serverContent toolCall toolCallCancellation goAway "
        "sessionResumptionUpdate setup_complete server_content tool_call tool_call_cancellation "
        "go_away session_resumption_update",
        "langchain": "lc tool_call_chunks response_metadata",
        "openai-chat": "choices",
        "pydantic-ai": "event_kind",
        "xai-grpc": "outputs",
    }.items()
    for name in names.split()
}
# Prefixes of the type of a payload. The first match decides.
_TYPES: Final = {
    start: protocol
    for protocol, starts in {
        "cohere": "message-start message-end content-start content-delta content-end tool-call- "
        "tool-plan- citation-",
        "anthropic": "message_ content_block_ ping",
        "openai-agents": "raw_response_event run_item_stream_event agent_updated_stream_event",
        "openai-responses": "response.",
        "openai-chat": "chunk",  # an event of the SDK's chat.completions.stream
        "langchain": "AIMessage",
        "openai-realtime": "session. conversation. input_audio_buffer.",
        "claude-agent": "stream_event assistant user system result",
    }.items()
    for start in starts.split()
}
_BEDROCK_EVENTS: Final = {name for name, protocol in _FIELDS.items() if protocol == "bedrock"}
# Events of frameworks that hold a provider's payload: the field, and the protocol in it.
_WRAPPED: Final = {
    "data": (
        "openai-chat",  # the Mistral SDK's CompletionEvent
        "openai-responses",  # openai-agents' RawResponsesStreamEvent, if the caller names it
    ),
    "event": ("bedrock",),  # a dict of Strands' stream_async
}

_FOR_FRONT_ENDS: Final = (
    "an output format for front ends. Pass the model provider's own stream instead."
)
_AI_SDK: Final = f"this is the AI SDK's UI message stream, {_FOR_FRONT_ENDS}"
_AG_UI: Final = f"this is a stream of AG-UI events, {_FOR_FRONT_ENDS}"
_LANGGRAPH: Final = (
    'this is LangGraph\'s stream_mode="updates" or "values", which has no deltas. '
    'Use stream_mode="messages".'
)
# Event types of unsupported formats, by prefix.
_UNSUPPORTED_TYPES: Final = {
    start: why
    for why, starts in {
        _AI_SDK: "text- reasoning- tool-input- tool-output- tool-approval- start-step finish-step "
        "data-",
        _AG_UI: "RUN_ STEP_ TEXT_MESSAGE_ TOOL_CALL_ REASONING_ STATE_ MESSAGES_SNAPSHOT",
    }.items()
    for start in starts.split()
}


def detect(payload: object, event: str = "") -> str | None:
    """Return the protocol of a payload, or None if it is not known.

    ``event`` is its event name. Only that identifies some payloads of an AWS event stream.
    """
    if type(payload).__module__ == "argstream.feed":
        return "feed"
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
        all_fields = all_fields_of(several[0] if several else payload)
        if "parent_tool_use_id" in all_fields:
            return "claude-agent"  # also if it is None, in messages of the main agent
        fields = fields_of(all_fields)
    except (UnreadableError, RecursionError):
        return None
    by_field = next((_FIELDS[name] for name in fields if name in _FIELDS), None)
    return by_field or _by_type(fields) or _by_several(fields)


class Wrapping(NamedTuple):
    """A provider's payload inside an event of a framework."""

    field: str
    protocol: str


def detect_wrapping(payload: object) -> Wrapping | None:
    """Return the field that holds a provider's payload, or None if it is not wrapped."""
    fields = _readable_fields(payload)
    for field, protocols in _WRAPPED.items():
        inner = fields.get(field)
        if _may_be_payload(inner) and (found := detect(inner)) in protocols:
            return Wrapping(field, found)
    return None


def unwrapping(feed: Feed, field: str) -> Feed:
    """Return a feed that passes the value of this field on, and ignores events without it."""

    def feed_unwrapped(payload: object, event: str) -> list[Delta]:
        inner = fields_of(payload).get(field)
        return feed(inner, event) if _may_be_payload(inner) else []

    return feed_unwrapped


def explain_unsupported(payload: object) -> str | None:
    """Return the name of a known format that is not supported, and what to pass instead.

    Such a stream must fail at its first event. The AI SDK's stream ends with ``[DONE]``, for
    example, and would be detected as OpenAI's.
    """
    fields = _readable_fields(payload)
    type_ = fields.get("type")
    if isinstance(type_, str):
        if type_ == "start":
            return _AI_SDK
        return next(
            (why for start, why in _UNSUPPORTED_TYPES.items() if type_.startswith(start)), None
        )
    # The whole state, or the update of one node.
    state = next(iter(fields.values())) if len(fields) == 1 else None
    if any(map(_has_langchain_messages, (fields, state))):
        return _LANGGRAPH
    return None


def _has_langchain_messages(state: object) -> bool:
    messages = state.get("messages") if isinstance(state, Mapping) else None
    if not isinstance(messages, list) or not messages:
        return False
    fields = _readable_fields(messages[0])
    return "content" in fields and fields.get("type") in {"human", "ai", "tool", "system"}


def _readable_fields(payload: object) -> Mapping[str, Any]:
    try:
        return fields_of(payload)
    except (UnreadableError, RecursionError):
        return {}


def _may_be_payload(value: object) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "__dict__")


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
    """Detect by combinations of fields that are common on their own."""
    if fields.get("type") == "message":
        return "anthropic"
    if "ns" in fields and "data" in fields:  # LangGraph's newer form
        return "langchain"
    kind = fields.get("object")
    if isinstance(kind, str):
        if kind == "response":
            return "openai-responses"
        if kind.startswith("chat.completion"):
            return "openai-chat"
    if "event" in fields and "uuid" in fields and "session_id" in fields:
        return "claude-agent"  # a StreamEvent that was dumped without its empty fields
    if "done" in fields and "model" in fields:
        return "ollama"
    if str(fields.get("event", "")).startswith(("on_chat_model_", "on_chain_", "on_tool_")):
        return "langchain"  # an event of astream_events
    if "bytes" in fields_of(fields.get("chunk")):  # from boto3
        return "bedrock-invoke"
    if fields.get("type") == "error":
        is_responses = "sequence_number" in fields or "error" not in fields
        return "openai-responses" if is_responses else "anthropic"
    return "openai-chat" if "error" in fields else None
