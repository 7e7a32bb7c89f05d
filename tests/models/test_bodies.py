"""A request for an SDK of one's own: its real clients send it, and the mock takes it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import anthropic
import openai
import pytest

from argstream import UsageError, stream
from argstream.events import TurnCompleted
from argstream.history import CallPart, Message, ResultPart, TextPart
from argstream.models import ModelRequest, ModelSettings, OfferedTool, request_body
from argstream.testing import CallTool, MockProvider, Reply, Say, Think
from tests.support.provider_rules import strict_provider

ADD = OfferedTool(
    name="add",
    description="Adds.",
    schema={
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    },
)
QUESTION = Message(role="user", parts=(TextPart(text="What is 1 + 1?"),))
SCRIPT = [
    Reply(Think("Hm – é."), Say("I add."), CallTool("add", {"a": 1})),
    Reply("It is 2."),
]


@pytest.fixture
def provider() -> Iterator[MockProvider]:
    with strict_provider(SCRIPT) as provider:
        yield provider


def request(*messages: Message, **settings: Any) -> ModelRequest:
    return ModelRequest(
        messages=messages or (QUESTION,),
        instructions="Be brief.",
        tools=(ADD,),
        settings=ModelSettings(**settings),
    )


Ask = Callable[[ModelRequest], Any]


@contextmanager
def of_anthropic(provider: MockProvider) -> Iterator[Ask]:
    with anthropic.Anthropic(base_url=provider.anthropic_url, api_key="any") as client:
        yield lambda asked: client.messages.create(
            **request_body(asked, "anthropic", model="claude-opus-4-7")
        )


@contextmanager
def of_chat(provider: MockProvider) -> Iterator[Ask]:
    with openai.OpenAI(base_url=provider.openai_url, api_key="any") as client:
        yield lambda asked: client.chat.completions.create(
            **request_body(asked, "openai-chat", model="deepseek-chat", server="deepseek")
        )


@contextmanager
def of_responses(provider: MockProvider) -> Iterator[Ask]:
    with openai.OpenAI(base_url=provider.openai_url, api_key="any") as client:
        yield lambda asked: client.responses.create(
            **request_body(asked, "openai-responses", model="gpt-5")
        )


@pytest.mark.parametrize("client", [of_anthropic, of_chat, of_responses])
@pytest.mark.parametrize("thinking", [None, "low"])
def test_a_conversation_goes_through_a_client_of_ones_own(
    client: Callable[[MockProvider], AbstractContextManager[Ask]],
    thinking: Any,
    provider: MockProvider,
) -> None:
    history = [QUESTION]
    with client(provider) as ask:
        for _ in SCRIPT:
            asked = request(*history, max_tokens=5000, tool_choice="auto", thinking=thinking)
            source: Iterator[Any] = ask(asked)
            last = list(stream(source))[-1]
            assert isinstance(last, TurnCompleted)
            history.append(last.message)
            calls = [part for part in last.message.parts if isinstance(part, CallPart)]
            results = [ResultPart(call_id=call.call_id, result=2) for call in calls]
            history += [Message(role="user", parts=tuple(results))] if results else []
    provider.check()  # the thought went back, too
    assert [getattr(part, "text", "") for part in history[-1].parts] == ["It is 2."]


def test_a_body_is_what_a_model_over_http_would_send() -> None:
    body = request_body(request(max_tokens=7), "openai-chat", model="gpt-5")
    assert body["stream"] is True
    assert body["max_completion_tokens"] == 7
    assert body["messages"][0]["role"] == "developer"
    other = request_body(request(max_tokens=7), "openai-chat", model="qwen3", server="vllm")
    assert other["max_tokens"] == 7
    assert other["messages"][0]["role"] == "system"


def test_what_cannot_be_meant_is_refused() -> None:
    api: Any = "gemini"
    with pytest.raises(
        UsageError, match="no API is called 'gemini'; there are: anthropic, openai-"
    ):
        request_body(request(), api, model="m")
    with pytest.raises(UsageError, match="only openai-chat has servers that differ"):
        request_body(request(), "anthropic", model="m", server="deepseek")
