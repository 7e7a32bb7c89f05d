"""Which protocol a payload belongs to, told by its first words."""

from typing import Any

from msgspec import Struct

from argstream.adapters._payloads import PayloadReader, UnreadableError, is_done

__all__ = ["detect"]


class _Head(Struct, gc=False):
    """What tells protocols apart."""

    type: str | None = None
    object: str | None = None
    choices: Any = None
    error: Any = None
    bytes: Any = None
    chunk: dict[str, Any] | None = None
    sequence_number: int | None = None


_read = PayloadReader(_Head)


def detect(payload: object, event: str = "") -> str | None:
    """Say which protocol a payload belongs to, or None if it does not tell."""
    if event.endswith(("Exception", "Error")):  # of an AWS event stream
        return "bedrock-invoke"
    if is_done(payload):
        return "openai-chat"
    try:
        head = _read(payload)
    except (UnreadableError, RecursionError):
        return None
    type_ = head.type or ""
    if head.bytes is not None or "bytes" in (head.chunk or ()):
        return "bedrock-invoke"
    if head.choices is not None or (head.object or "").startswith("chat.completion"):
        return "openai-chat"
    if type_.startswith("response.") or head.object == "response":
        return "openai-responses"
    if type_.startswith(("message", "content_block_")) or type_ == "ping":
        return "anthropic"
    if type_ == "error":
        is_responses = head.sequence_number is not None or head.error is None
        return "openai-responses" if is_responses else "anthropic"
    if type_ == "chunk":  # an event of the SDK's chat.completions.stream
        return "openai-chat"
    return "openai-chat" if head.error is not None else None
