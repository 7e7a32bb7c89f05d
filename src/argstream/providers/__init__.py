"""Provider payloads → deltas, and histories → request bodies. No module imports an SDK."""

from importlib import import_module
from typing import Final, Literal, TypeAlias, get_args

from argstream.errors import UsageError
from argstream.providers._deltas import ProviderDecoder
from argstream.providers._detect import (
    Feed,
    detect,
    detect_wrapping,
    explain_unsupported,
    unwrapping,
)
from argstream.providers._payloads import UnreadableError, payloads_in
from argstream.providers._stop_reasons import stop_kind

__all__ = [
    "AGENTS",
    "Feed",
    "ProtocolName",
    "ProviderDecoder",
    "UnreadableError",
    "detect",
    "detect_wrapping",
    "explain_unsupported",
    "make_decoder",
    "payloads_in",
    "stop_kind",
    "unwrapping",
]

ProtocolName: TypeAlias = Literal[
    "auto",
    "anthropic",
    "argstream",
    "bedrock",
    "bedrock-invoke",
    "claude-agent",
    "cohere",
    "feed",
    "gemini",
    "gemini-interactions",
    "gemini-live",
    "langchain",
    "ollama",
    "openai-agents",
    "openai-chat",
    "openai-realtime",
    "openai-responses",
    "pydantic-ai",
    "xai-grpc",
]
"""The protocols that can be decoded. ``argstream`` is a recording, which names its own protocol."""

AGENTS: Final = frozenset({"claude-agent", "openai-agents", "pydantic-ai"})
"""Protocols of agents that run all of their tools themselves."""

_DECODERS: Final = {
    "anthropic": ("anthropic", "AnthropicDecoder"),
    "bedrock": ("bedrock", "BedrockDecoder"),
    "bedrock-invoke": ("bedrock", "BedrockInvokeDecoder"),
    "claude-agent": ("claude_agent", "ClaudeAgentDecoder"),
    "cohere": ("cohere", "CohereDecoder"),
    "feed": ("feed", "FeedDecoder"),
    "gemini": ("gemini", "GeminiDecoder"),
    "gemini-interactions": ("gemini_interactions", "GeminiInteractionsDecoder"),
    "gemini-live": ("gemini", "GeminiLiveDecoder"),
    "langchain": ("langchain", "LangChainDecoder"),
    "ollama": ("ollama", "OllamaDecoder"),
    "openai-agents": ("openai_agents", "OpenAIAgentsDecoder"),
    "openai-chat": ("openai_chat", "OpenAIChatDecoder"),
    "openai-realtime": ("openai_realtime", "OpenAIRealtimeDecoder"),
    "openai-responses": ("openai_responses", "OpenAIResponsesDecoder"),
    "pydantic-ai": ("pydantic_ai", "PydanticAIDecoder"),
    "xai-grpc": ("xai_grpc", "XaiGrpcDecoder"),
}
"""Module and class of each protocol. A module is imported when its protocol is first used."""


def make_decoder(protocol: str) -> ProviderDecoder:
    """Return a new decoder for a protocol."""
    if protocol not in _DECODERS:
        known = ", ".join(get_args(ProtocolName))
        raise UsageError(f"unknown protocol {protocol!r}. Known protocols: {known}")
    module, name = _DECODERS[protocol]
    decoder: ProviderDecoder = getattr(import_module(f"{__name__}.{module}"), name)()
    return decoder
