"""request_body: requests that the SDK clients of users send."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from argstream import UsageError, stream
from argstream.events import TurnCompleted
from argstream.history import CallPart, Message, ResultPart, TextPart
from argstream.models import ModelRequest, ModelSettings, OfferedTool, request_body
from argstream.testing import CallTool, MockProvider, Reply, Say, Think
from tests.support.provider_rules import strict_provider

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ADD = OfferedTool(name="add", description="Adds.", schema={**SCHEMA, "additionalProperties": False})
QUESTION = Message(role="user", parts=(TextPart(text="What is 1 + 1?"),))
SCRIPT = [Reply(Think("Hm – é."), Say("I add."), CallTool("add", {"a": 1})), Reply("It is 2.")]


def request(*messages: Message, **settings: Any) -> ModelRequest:
    return ModelRequest(
        messages=messages or (QUESTION,),
        instructions="Be brief.",
        tools=(ADD,),
        settings=ModelSettings(**settings),
    )


Send = Callable[[MockProvider, ModelRequest], Iterator[Any]]


def with_anthropic(provider: MockProvider, asked: ModelRequest) -> Iterator[Any]:
    import anthropic

    with anthropic.Anthropic(base_url=provider.anthropic_url, api_key="any") as client:
        body = request_body(asked, "anthropic", model="claude-opus-4-7")
        yield from client.messages.create(**body)


def with_chat(provider: MockProvider, asked: ModelRequest) -> Iterator[Any]:
    import openai

    with openai.OpenAI(base_url=provider.openai_url, api_key="any") as client:
        body = request_body(asked, "openai-chat", model="deepseek-chat", server="deepseek")
        yield from client.chat.completions.create(**body)


def with_responses(provider: MockProvider, asked: ModelRequest) -> Iterator[Any]:
    import openai

    with openai.OpenAI(base_url=provider.openai_url, api_key="any") as client:
        yield from client.responses.create(**request_body(asked, "openai-responses", model="gpt-5"))


@pytest.mark.parametrize("send", [with_anthropic, with_chat, with_responses])
def test_conversation_works_with_the_client_of_an_sdk(send: Send) -> None:
    history = [QUESTION]
    with strict_provider(SCRIPT) as provider:
        for _ in SCRIPT:
            asked = request(*history, max_tokens=5000, tool_choice="auto", thinking="low")
            last = list(stream(send(provider, asked)))[-1]
            assert isinstance(last, TurnCompleted)
            history.append(last.message)
            calls = [part for part in last.message.parts if isinstance(part, CallPart)]
            results = [ResultPart(call_id=call.call_id, result=2) for call in calls]
            history += [Message(role="user", parts=tuple(results))] if results else []
        provider.check()  # thinking was sent back, too
    assert [getattr(part, "text", "") for part in history[-1].parts] == ["It is 2."]


@pytest.mark.parametrize(
    ("model", "options", "limit", "role"),
    [
        ("gpt-5", {}, "max_completion_tokens", "developer"),
        ("qwen3", {"server": "vllm"}, "max_tokens", "system"),
    ],
)
def test_body_fits_the_server(model: str, options: dict[str, Any], limit: str, role: str) -> None:
    body = request_body(request(max_tokens=7), "openai-chat", model=model, **options)
    assert (body["stream"], body[limit], body["messages"][0]["role"]) == (True, 7, role)


def test_unknown_api_or_server_raises() -> None:
    api: Any = "gemini"
    with pytest.raises(UsageError, match=r"unknown API 'gemini'\. Known APIs: anthropic, openai-"):
        request_body(request(), api, model="m")
    with pytest.raises(UsageError, match="server can be used only with openai-chat"):
        request_body(request(), "anthropic", model="m", server="deepseek")
