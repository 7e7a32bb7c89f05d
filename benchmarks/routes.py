"""The ways from bytes to events that are measured: argstream, the SDKs, argstream on an SDK."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import sdk_streams
from argstream import ToolArgsCompleted, stream
from readers import ARGSTREAM
from sdk_streams import Opener
from wire_workloads import (
    ALL_PROTOCOLS,
    ANTHROPIC,
    CHAT,
    PROTOCOLS,
    RESPONSES,
    WireWorkload,
)


@dataclass(frozen=True)
class Route:
    """One way, for the streams of one protocol."""

    name: str
    protocol: str
    package: str
    connect: Callable[[list[bytes]], Opener]
    """From the chunks to what opens a stream of them: this is done before the clock starts."""
    arguments: Callable[[Iterable[Any]], object]
    """From all events to the arguments, to see whether they came out right."""
    remark: str = ""
    """What who reads the figures must know about it."""
    on_top_of: str = ""
    """The name of the SDK's route that this one reads from."""

    def check(self, workload: WireWorkload) -> object:
        """Read the stream once and give the arguments."""
        with self.connect(workload.chunks)() as events:
            return self.arguments(events)


def _from_ours(events: Iterable[Any]) -> object:
    (completed,) = [event for event in events if isinstance(event, ToolArgsCompleted)]
    return completed.arguments


def _from_bytes(chunks: list[bytes]) -> Opener:
    return lambda: stream(chunks)


def _from_response(chunks: list[bytes]) -> Opener:
    open_ = sdk_streams.response(chunks)
    return lambda: stream(open_())


def _on_top(route: Route) -> Route:
    """Read the events of an SDK's stream with argstream."""

    def connect(chunks: list[bytes]) -> Opener:
        open_ = route.connect(chunks)
        return lambda: stream(open_())

    name = f"argstream on {route.name}"
    return Route(name, route.protocol, ARGSTREAM.package, connect, _from_ours, on_top_of=route.name)


OURS = [
    Route(ARGSTREAM.name, protocol, ARGSTREAM.package, _from_bytes, _from_ours)
    for protocol in ALL_PROTOCOLS
]

THROUGH_HTTP = [
    Route("argstream, through httpx2", protocol, "httpx2", _from_response, _from_ours)
    for protocol in PROTOCOLS
]

_MESSAGES_CREATE = Route(
    "anthropic messages.create",
    ANTHROPIC,
    "anthropic",
    sdk_streams.messages_create,
    sdk_streams.from_messages_create,
    "With `stream=True`: one object for each event of the provider, and nothing else. Pieces of "
    "arguments are for its user to join and to parse.",
)
_MESSAGES_STREAM = Route(
    "anthropic messages.stream",
    ANTHROPIC,
    "anthropic",
    sdk_streams.messages_stream,
    sdk_streams.from_messages_stream,
    "Iterated over. What `create` gives, a second event for each piece, and a snapshot of the "
    "message with the arguments so far, for which jiter parses all of them again with each piece. "
    "The string that is being written is not in it until its closing quote.",
)
_CHAT_CREATE = Route(
    "openai chat.completions.create",
    CHAT,
    "openai",
    sdk_streams.chat_create,
    sdk_streams.from_chat_create,
    "With `stream=True`: one object for each chunk of the provider, and nothing else.",
)
_CHAT_STREAM = Route(
    "openai chat.completions.stream",
    CHAT,
    "openai",
    sdk_streams.chat_stream,
    sdk_streams.from_chat_stream,
    "Iterated over. What `create` gives, a second event for each piece, and a snapshot of the "
    "completion. No tools are named in the request, so it joins the arguments but does not parse "
    "them. With tools it would, all of them again with each piece; tried at 100 kB, that added "
    "about a fifth.",
)
_RESPONSES_CREATE = Route(
    "openai responses.create",
    RESPONSES,
    "openai",
    sdk_streams.responses_create,
    sdk_streams.from_responses_create,
    "With `stream=True`: one object for each event of the provider, and nothing else.",
)

SDK_ROUTES = [
    _MESSAGES_STREAM,
    _MESSAGES_CREATE,
    _CHAT_STREAM,
    _CHAT_CREATE,
    _RESPONSES_CREATE,
    _on_top(_MESSAGES_STREAM),
    _on_top(_MESSAGES_CREATE),
    _on_top(_CHAT_CREATE),
    _on_top(_RESPONSES_CREATE),
]
