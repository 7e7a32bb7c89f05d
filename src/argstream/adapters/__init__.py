"""A provider's payloads → deltas. One file for each protocol; none imports an SDK."""

from typing import Any, Literal, Protocol, TypeAlias, get_args

from msgspec import Struct

from argstream.adapters._payloads import PayloadReader, UnreadableError, is_done
from argstream.adapters.anthropic import AnthropicAdapter
from argstream.adapters.bedrock_invoke import BedrockInvokeAdapter
from argstream.adapters.openai_chat import OpenAIChatAdapter
from argstream.adapters.openai_responses import OpenAIResponsesAdapter
from argstream.deltas import Delta
from argstream.errors import UsageError

__all__ = ["Adapter", "ProtocolName", "UnreadableError", "detect", "make_adapter"]

ProtocolName: TypeAlias = Literal[
    "auto", "anthropic", "bedrock-invoke", "openai-chat", "openai-responses"
]


class Adapter(Protocol):
    """What reads one protocol. Anything with these can be one."""

    protocol: str

    def feed(self, payload: object, event: str = "") -> list[Delta]:
        """Take one payload; raises ``UnreadableError`` if it is no payload at all."""

    def interrupt(self) -> list[Delta]:
        """Say that a payload was lost; gives what was held back, so that it is known as open."""

    def close(self) -> list[Delta]:
        """Say that nothing more comes."""


_ADAPTERS: dict[str, type[Adapter]] = {
    adapter.protocol: adapter
    for adapter in (
        AnthropicAdapter,
        BedrockInvokeAdapter,
        OpenAIChatAdapter,
        OpenAIResponsesAdapter,
    )
}


def make_adapter(protocol: str) -> Adapter:
    """Give a new adapter for a protocol."""
    if protocol not in _ADAPTERS:
        known = ", ".join(get_args(ProtocolName))
        raise UsageError(f"no protocol is called {protocol!r}; there are: {known}")
    return _ADAPTERS[protocol]()


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
