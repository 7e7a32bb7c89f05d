"""The official SDKs, reading a stream that no network brought: real clients on a mock transport.

Each function takes the chunks and gives another, which opens the stream; every call of that one is
a new request. Requests are as short as they can be: they are not what is measured.

The SDKs are imported when the first of their streams is asked for, after the parsers have been
measured: they fill the heap with objects, through which every full garbage collection then goes.
With them there, jiter needs twice the time for rows.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx2

if TYPE_CHECKING:
    from anthropic import Anthropic
    from openai import OpenAI

Opener: TypeAlias = Callable[[], AbstractContextManager[Iterable[Any]]]

_ANTHROPIC_MODEL = "claude-haiku-4-5"  # one that no warning is given about
_OPENAI_MODEL = "gpt-4o-mini"
_KEY = "none"


class _Body(httpx2.SyncByteStream):
    """The body of a response: these chunks, as they are."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)


def _http(chunks: list[bytes]) -> httpx2.Client:
    def answer(_: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=_Body(chunks))

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def _anthropic(chunks: list[bytes]) -> "Anthropic":
    from anthropic import Anthropic  # noqa: PLC0415 - see above

    return Anthropic(api_key=_KEY, http_client=_http(chunks))


def _openai(chunks: list[bytes]) -> "OpenAI":
    from openai import OpenAI  # noqa: PLC0415 - see above

    return OpenAI(api_key=_KEY, http_client=_http(chunks))


def response(chunks: list[bytes]) -> Callable[[], AbstractContextManager[httpx2.Response]]:
    """Open the bare response, without an SDK."""
    client = _http(chunks)
    return lambda: client.stream("POST", "http://localhost/")


def messages_create(chunks: list[bytes]) -> Opener:
    """Read events of anthropic as they are."""
    create = _anthropic(chunks).messages.create
    return lambda: create(
        model=_ANTHROPIC_MODEL,
        max_tokens=100,
        messages=[{"role": "user", "content": "Hello"}],
        stream=True,
    )


def messages_stream(chunks: list[bytes]) -> Opener:
    """Read events of anthropic with the message so far."""
    stream = _anthropic(chunks).messages.stream
    return lambda: stream(
        model=_ANTHROPIC_MODEL, max_tokens=100, messages=[{"role": "user", "content": "Hello"}]
    )


def chat_create(chunks: list[bytes]) -> Opener:
    """Read chunks of openai as they are."""
    create = _openai(chunks).chat.completions.create
    return lambda: create(
        model=_OPENAI_MODEL, messages=[{"role": "user", "content": "Hello"}], stream=True
    )


def chat_stream(chunks: list[bytes]) -> Opener:
    """Read events of openai with the completion so far."""
    stream = _openai(chunks).chat.completions.stream
    return lambda: stream(model=_OPENAI_MODEL, messages=[{"role": "user", "content": "Hello"}])


def responses_create(chunks: list[bytes]) -> Opener:
    """Read events of openai's Responses as they are."""
    create = _openai(chunks).responses.create
    return lambda: create(model=_OPENAI_MODEL, input="Hello", stream=True)


# What the arguments are in the end, by the events that each of them gives.


def from_messages_create(events: Iterable[Any]) -> object:
    """Join the pieces."""
    changes = [event.delta for event in events if event.type == "content_block_delta"]
    return json.loads("".join(change.partial_json for change in changes))


def from_messages_stream(events: Iterable[Any]) -> object:
    """Take what the SDK has parsed."""
    (block,) = [event.content_block for event in events if event.type == "content_block_stop"]
    return block.input


def from_chat_create(events: Iterable[Any]) -> object:
    """Join the pieces."""
    deltas = [choice.delta for event in events for choice in event.choices]
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    return json.loads("".join(call.function.arguments for call in calls))


def from_chat_stream(events: Iterable[Any]) -> object:
    """Take what the SDK has joined."""
    (done,) = [event for event in events if event.type == "tool_calls.function.arguments.done"]
    return json.loads(done.arguments)


def from_responses_create(events: Iterable[Any]) -> object:
    """Join the pieces."""
    type_ = "response.function_call_arguments.delta"
    return json.loads("".join(event.delta for event in events if event.type == type_))
