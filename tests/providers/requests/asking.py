"""The APIs that requests are built for, short histories, and requests to a mock provider."""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

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
    """The provider refused a request."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


def message(role: Literal["user", "assistant"], *parts: Part | str, id_: str = "") -> Message:
    given = (TextPart(text=part) if isinstance(part, str) else part for part in parts)
    return Message(role=role, parts=tuple(given), id=id_)


def user(*parts: Part | str) -> Message:
    return message("user", *parts)


def assistant(*parts: Part | str, id_: str = "") -> Message:
    return message("assistant", *parts, id_=id_)


def call(raw: str = '{"a": 1}', /, **fields: Any) -> CallPart:
    """A call of ``add``. It is complete unless a verdict is given."""
    arguments = {"INVALID_JSON": raw} if "verdict" in fields else {"a": 1}
    known = {"call_id": "c1", "name": "add", "kind": "function", "verdict": "complete"}
    given: dict[str, Any] = {**known, "raw": raw, "arguments": arguments}
    return CallPart(**{**given, **fields})


def result(value: Any = 2, call_id: str = "c1", **fields: Any) -> ResultPart:
    return ResultPart(call_id=call_id, result=value, **fields)


def exchange(*parts: Part | str, id_: str = "") -> list[Message]:
    """A question, an answer with these parts, and a result of each call that the client runs."""
    answer = assistant(*parts, id_=id_)
    calls = [part for part in answer.parts if isinstance(part, CallPart)]
    own = [part for part in calls if part.kind not in ("server", "mcp", "code")]
    return [user("hi"), answer, user("so?", *(result(call_id=part.call_id) for part in own))]


def body(api: Api, *messages: Message, tools: Iterable[OfferedTool] = (ADD,), **more: Any) -> Any:
    """Build the body of a request. Settings of the model are among the keyword arguments."""
    known = set(ModelSettings.__struct_fields__)
    settings = ModelSettings(**{name: more[name] for name in more.keys() & known})
    others = {name: value for name, value in more.items() if name not in known | {"model"}}
    request = ModelRequest(messages=messages, tools=tuple(tools), settings=settings, **others)
    return api.body(more.get("model", "some-model"), request)


def post(provider: MockProvider, api: Api, sent: Any) -> list[Event]:
    """Send a body and return all events of the response."""
    base = provider.anthropic_url if api.protocol == "anthropic" else provider.openai_url
    with (
        httpx2.Client(verify=False) as client,
        client.stream("POST", base + api.path, json=sent, headers=api.headers("any")) as response,
    ):
        if response.status_code != 200:
            raise Refused(response.status_code, response.read().decode())
        return list(stream(response))


def ask(provider: MockProvider, api: Api, *messages: Message, **more: Any) -> TurnCompleted:
    """Send a request and return the completed turn."""
    events = post(provider, api, body(api, *messages, **more))
    assert isinstance(events[-1], TurnCompleted)
    return events[-1]
