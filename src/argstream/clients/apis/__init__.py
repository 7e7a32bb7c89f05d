"""The APIs that models are asked through: address, headers, and a request as the body of each."""

from typing import Any, Protocol

from argstream.adapters import ProtocolName
from argstream.clients.apis.anthropic import AnthropicApi
from argstream.clients.apis.chat_habits import CHAT_HABITS, ChatHabits
from argstream.clients.apis.openai_chat import ChatApi
from argstream.clients.apis.openai_responses import ResponsesApi
from argstream.clients.request import ModelRequest

__all__ = ["CHAT_HABITS", "AnthropicApi", "Api", "ChatApi", "ChatHabits", "ResponsesApi"]


class Api(Protocol):
    """One API. All of it is pure: the same request gives the same body."""

    protocol: ProtocolName
    """Of what it answers."""
    path: str
    """Where it is, below the base URL that its own SDK would be given."""

    def headers(self, key: str | None) -> dict[str, str]:
        """Give the headers that it needs, with the key if there is one."""

    def body(self, model: str, request: ModelRequest) -> dict[str, Any]:
        """Write a request for a stream.

        Raises ``UsageError`` if the history is one that no API takes, such as a call without its
        result, or if the settings contradict each other.
        """
