"""A provider's payloads → deltas. One file for each protocol; none imports an SDK."""

from importlib import import_module
from typing import Final, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from argstream.adapters._detection import (
    Feed,
    detect,
    detect_wrapping,
    explain_unsupported,
    unwrapping,
)
from argstream.adapters._endings import StopKind, stop_kind
from argstream.adapters._payloads import UnreadableError, payloads_in
from argstream.deltas import CallClosed, Delta
from argstream.errors import UsageError

__all__ = [
    "AGENTS",
    "Adapter",
    "ClosesNothing",
    "Feed",
    "ProtocolName",
    "StopKind",
    "UnreadableError",
    "detect",
    "detect_wrapping",
    "explain_unsupported",
    "make_adapter",
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
    "gemini",
    "gemini-interactions",
    "gemini-live",
    "langchain",
    "ollama",
    "openai-chat",
    "openai-realtime",
    "openai-responses",
    "xai-grpc",
]
"""What can be read. ``argstream`` is a recording of ours: it tells itself what is in it."""


class Adapter(Protocol):
    """What reads one protocol. Anything with these can be one."""

    protocol: str

    def feed(self, payload: object, event: str = "") -> list[Delta]:
        """Take one payload; raises ``UnreadableError`` if it is no payload at all."""

    def interrupt(self) -> list[Delta]:
        """Say that a payload was lost; gives what was held back, so that it is known as open."""

    def close(self) -> list[Delta]:
        """Say that nothing more comes."""


@runtime_checkable
class ClosesNothing(Protocol):
    """An adapter of a protocol in which the end of a call is seen only by what follows it."""

    def over(self) -> list[CallClosed]:
        """Give the close of those calls that are over: another was written after them."""


AGENTS: Final = frozenset({"claude-agent"})
"""The protocols of agents that have tools of their own, and run all of them themselves."""

# The class in the module that is named like the protocol. It is loaded when it is wanted: nobody
# reads all of them.
_ADAPTERS: Final = {
    "anthropic": "AnthropicAdapter",
    "bedrock": "BedrockAdapter",
    "bedrock-invoke": "BedrockInvokeAdapter",
    "claude-agent": "ClaudeAgentAdapter",
    "cohere": "CohereAdapter",
    "gemini": "GeminiAdapter",
    "gemini-interactions": "GeminiInteractionsAdapter",
    "gemini-live": "GeminiLiveAdapter",
    "langchain": "LangChainAdapter",
    "ollama": "OllamaAdapter",
    "openai-chat": "OpenAIChatAdapter",
    "openai-realtime": "OpenAIRealtimeAdapter",
    "openai-responses": "OpenAIResponsesAdapter",
    "xai-grpc": "XaiGrpcAdapter",
}


def make_adapter(protocol: str) -> Adapter:
    """Give a new adapter for a protocol."""
    if protocol not in _ADAPTERS:
        known = ", ".join(get_args(ProtocolName))
        raise UsageError(f"no protocol is called {protocol!r}; there are: {known}")
    module = import_module(f"argstream.adapters.{protocol.replace('-', '_')}")
    adapter: Adapter = getattr(module, _ADAPTERS[protocol])()
    return adapter
