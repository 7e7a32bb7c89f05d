"""Checks that the messages of a conversation are valid for each API."""

from collections.abc import Iterable, Sequence
from typing import Final

from argstream.agent import Conversation
from argstream.events import Event, ToolCallCompleted, ToolCallFailed
from argstream.history import CallPart, Message, ResultPart, TextPart
from argstream.models import ModelRequest, OfferedTool
from argstream.providers.anthropic_requests import AnthropicApi
from argstream.providers.openai_requests import ChatApi, ResponsesApi
from tests.agent.ordering import RUN_BY_THE_PROVIDER
from tests.support.provider_rules import request_problems

PROMPT: Final = Message(role="user", parts=(TextPart(text="Go on"),))

APIS: Final = (AnthropicApi(), ChatApi(), ResponsesApi())


def check_history(
    messages: Sequence[Message], tools: Iterable[OfferedTool] = (), *, is_over: bool = False
) -> None:
    """Check that the first message is the user's, calls have results, and all APIs accept it.

    If the run is over, the next prompt is added.
    """
    assert messages[0].role == "user", "the first message is the user's"
    check_results(messages)
    if is_over:
        Conversation.from_json(Conversation(messages).to_json())  # it can be serialized
        messages = [*messages, PROMPT]
    request = ModelRequest(messages=tuple(messages), tools=tuple(tools))
    for api in APIS:
        body = api.body("some-model", request)
        found = request_problems(api.protocol, api.headers("any"), body)
        assert not found, f"{api.protocol} would reject it: {found}"


def check_results(messages: Sequence[Message]) -> None:
    """Check that the calls of a message have their results in the next one, in order."""
    following: Iterable[Message | None] = [*messages[1:], None]
    for message, next_ in zip(messages, following, strict=True):
        is_answer = next_ is not None and next_.role == "user"
        results = [one.call_id for one in results_of(next_)] if next_ and is_answer else []
        if message.role == "assistant":
            asked = [part.call_id for part in calls_of(message)]
            assert results == asked, "each call has its result right after it, in order"
        else:
            assert not calls_of(message)


def check_told(messages: Iterable[Message], events: Iterable[Event]) -> None:
    ended = {
        event.call_id: event
        for event in events
        if isinstance(event, ToolCallCompleted | ToolCallFailed)
    }
    for message in messages:
        for result in results_of(message) if message.role == "user" else ():
            event = ended[result.call_id]
            failed = isinstance(event, ToolCallFailed)
            expected = event.error if isinstance(event, ToolCallFailed) else event.result
            assert (result.result, result.failed) == (expected, failed)


def calls_of(message: Message) -> list[CallPart]:
    calls = [part for part in message.parts if isinstance(part, CallPart)]
    return [call for call in calls if call.kind not in RUN_BY_THE_PROVIDER]


def results_of(message: Message) -> list[ResultPart]:
    return [part for part in message.parts if isinstance(part, ResultPart)]
