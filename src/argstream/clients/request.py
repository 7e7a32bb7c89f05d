"""What a model is asked, in words that belong to no provider, and what a model is."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Literal, Protocol

from msgspec import Struct, structs

from argstream.adapters import ProtocolName
from argstream.errors import UsageError
from argstream.history import Message

__all__ = ["Model", "ModelRequest", "ModelSettings", "OfferedTool"]


# What the APIs call how hard a model thinks; which of them a model takes is for it to say.
_EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh", "max")


class ModelSettings(Struct, frozen=True, kw_only=True):
    """How a model is to answer. What is not set is left to the provider."""

    max_tokens: int | None = None
    """At most so many are written. Anthropic wants a number, so there it is 8192 if not set."""
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: tuple[str, ...] = ()
    tool_choice: str | None = None
    """Whether it calls tools: ``auto``, ``any`` (at least one), ``none``, or one by its name."""
    parallel_tool_calls: bool | None = None
    thinking: int | Literal["low", "medium", "high"] | None = None
    """How much it may think: tokens (Anthropic), or an effort (OpenAI and compatible servers)."""
    headers: Mapping[str, str] = {}
    """Sent with each request, besides those that the API needs."""
    extra: Mapping[str, Any] = {}
    """Fields of the request's body, as the provider calls them; they win."""

    def __post_init__(self) -> None:
        """Raise UsageError for what no API takes."""
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"max_tokens is a number of 1 or more, not {self.max_tokens!r}")
        thinking: object = self.thinking
        is_tokens = type(thinking) is int and thinking >= 0
        if thinking is not None and not is_tokens and thinking not in _EFFORTS:
            raise UsageError(
                f"thinking is a number of tokens from 0, or one of {', '.join(_EFFORTS)}; not "
                f"{thinking!r}"
            )

    def __repr__(self) -> str:
        """Show what is set, but of headers only the names: a value may be a token."""
        shown = (f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"ModelSettings({', '.join(shown)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show the same to rich: what a struct would tell it has the values of headers in it."""
        return [
            (name, list(value) if name == "headers" else value)
            for name, value in structs.asdict(self).items()
            if value not in (None, (), {})
        ]


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool that the model may call."""

    name: str
    description: str = ""
    schema: Mapping[str, Any]
    eager_input_streaming: bool | None = None
    """Whether its input is streamed without being buffered (Anthropic); None: as the API does."""


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One turn that is asked of a model."""

    messages: tuple[Message, ...]
    """The last one is the user's, or the assistant's own if it paused."""
    instructions: str = ""
    tools: tuple[OfferedTool, ...] = ()
    settings: ModelSettings = ModelSettings()


class Model(Protocol):
    """Who can be asked. Anything with these can be one."""

    name: str
    """To be told to a person, such as ``anthropic:claude-opus-4-7``."""
    protocol: ProtocolName
    """Of what it answers; ``auto`` if that shall be found out."""

    def stream(self, request: ModelRequest) -> AsyncIterator[object]:
        """Ask for a turn, and give what the provider sends: bytes, payloads or an SDK's events.

        Raises ``ProviderFailure`` if no answer begins. An iterator that is closed closes the
        connection.
        """
