"""What the tests of requests share: each API, a way to ask through it, and small histories."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import httpx2

from argstream import ModelRequest, stream
from argstream.events import Event, TurnCompleted
from argstream.history import CallPart, Message, Part, ResultPart, TextPart
from argstream.models import ModelSettings, OfferedTool
from argstream.providers.anthropic_requests import AnthropicApi
from argstream.providers.openai_requests import ChatApi, ResponsesApi
from argstream.testing import MockProvider

Api: TypeAlias = AnthropicApi | ChatApi | ResponsesApi

APIS: dict[str, Api] = {
    "anthropic": AnthropicApi(),
    "openai-chat": ChatApi(),
    "openai-responses": ResponsesApi(),
}
ADD = OfferedTool(
    name="add",
    description="Adds two numbers.",
    schema={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
)


class Refused(Exception):
    """The provider did not take a request."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


def user(*parts: Part | str) -> Message:
    said = (TextPart(text=part) if isinstance(part, str) else part for part in parts)
    return Message(role="user", parts=tuple(said))


def assistant(*parts: Part | str, id_: str = "") -> Message:
    said = (TextPart(text=part) if isinstance(part, str) else part for part in parts)
    return Message(role="assistant", parts=tuple(said), id=id_)


def call(raw: str = '{"a": 1}', /, **fields: Any) -> CallPart:
    """A call of ``add``, complete unless something else is said."""
    meant = {"INVALID_JSON": raw} if "verdict" in fields else {"a": 1}
    known = {"call_id": "c1", "name": "add", "kind": "function", "verdict": "complete"}
    given: dict[str, Any] = {**known, "raw": raw, "arguments": meant}
    return CallPart(**{**given, **fields})


def result(value: Any = 2, call_id: str = "c1", **fields: Any) -> ResultPart:
    return ResultPart(call_id=call_id, result=value, **fields)


def body(api: Api, *messages: Message, tools: Iterable[OfferedTool] = (ADD,), **more: Any) -> Any:
    """The body of a request, with the settings among what is given."""
    known = set(ModelSettings.__struct_fields__)
    settings = ModelSettings(**{name: more[name] for name in more.keys() & known})
    others = {name: value for name, value in more.items() if name not in known | {"model"}}
    request = ModelRequest(messages=messages, tools=tuple(tools), settings=settings, **others)
    return api.body(more.get("model", "some-model"), request)


def post(provider: MockProvider, api: Api, sent: Any) -> list[Event]:
    """Send a body and read all that comes back."""
    base = provider.anthropic_url if api.protocol == "anthropic" else provider.openai_url
    with (
        httpx2.Client() as client,
        client.stream("POST", base + api.path, json=sent, headers=api.headers("any")) as response,
    ):
        if response.status_code != 200:
            raise Refused(response.status_code, response.read().decode())
        return list(stream(response))


def ask(provider: MockProvider, api: Api, *messages: Message, **more: Any) -> TurnCompleted:
    """Ask for a turn."""
    events = post(provider, api, body(api, *messages, **more))
    assert isinstance(events[-1], TurnCompleted)
    return events[-1]
