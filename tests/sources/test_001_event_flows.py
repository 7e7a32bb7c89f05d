"""Source 001: both of its event flows, and how to move over.

Its names are these here: ``ToolCallStartedEvent`` is ``ToolCallStarted``, and so on, as
docs/names.md says. It shows empty and cumulative deltas and says to concatenate them: deltas here
are incremental and never empty. Of a call that must be confirmed it says both that its arguments
are completed before the pause and that they are not: they are.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest

from argstream import events as ev
from argstream.agent import Agent, Approve, tool
from argstream.models import Model, ScriptedModel
from argstream.testing import CallTool, Reply
from tests.agent.following import one, only, served
from tests.agent.ordering import check_order
from tests.support.provider_rules import strict_provider

Models = Callable[..., AbstractContextManager[Model]]


@contextmanager
def over_http(name: str, *replies: Reply) -> Iterator[Model]:
    with strict_provider(list(replies)) as provider:
        yield served(name, provider, api_key="your-api-key")
        provider.check()


def scripted(_: str, *replies: Reply) -> AbstractContextManager[Model]:
    return nullcontext(ScriptedModel(*replies))


@pytest.fixture(
    params=[
        "deepseek:deepseek-chat",
        "openai:gpt-4o",
        "openai-responses:gpt-4o",
        "anthropic:claude-opus-4-7",
        "scripted",
    ]
)
def supported(request: pytest.FixtureRequest) -> Callable[..., AbstractContextManager[Model]]:
    """The supported models: OpenAI-compatible ones and Anthropic's."""
    name: str = request.param
    made = scripted if name == "scripted" else over_http
    return lambda *replies: made(name, *replies)


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


class Mailbox:
    """What was sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    @tool(requires_confirmation=True)
    def send_email(self, to: str, subject: str) -> str:
        """Send an email."""
        self.sent.append(f"{subject} to {to}")
        return "Email sent successfully"


MULTIPLY = Reply(CallTool("multiply", '{"a": 123, "b": 456}'))
EMAIL = Reply(CallTool("send_email", {"to": "ada@example.org", "subject": "Hello"}))


WRITTEN = ["tool_call_started", "tool_args_delta", "tool_args_completed"]
RAN = ["tool_execution_started", "tool_call_completed"]
PAUSED = ["approval_requested", "run_paused"]
RESUMED = ["run_resumed", "approval_decided"]
OF_THE_CALL = ev.ToolCallStarted | ev.ToolArgsDelta | ev.ToolArgsCompleted | ev.ToolCallCompleted


def flow(events: list[ev.Event]) -> list[str]:
    """The events of a flow, deltas told once."""
    types = [event.type for event in events if event.type in (*WRITTEN, *RAN, *PAUSED, *RESUMED)]
    return [
        type_
        for type_, before in zip(types, ["", *types], strict=False)
        if type_ != before or type_ != "tool_args_delta"
    ]


# Event flow: normal tool calls (without confirmation)


def test_event_flow_normal_tool_calls(supported: Models) -> None:
    with supported(MULTIPLY, Reply("It is 56088.")) as model:
        agent = Agent(model, [multiply])
        events = list(agent.run("Calculate 123 * 456", stream=True))
    assert flow(events) == WRITTEN + RAN
    call_id = one(events, ev.ToolCallStarted).call_id
    named = [(event.call_id, event.name) for event in events if isinstance(event, OF_THE_CALL)]
    assert set(named) == {(call_id, "multiply")}
    deltas = [event.delta for event in only(events, ev.ToolArgsDelta)]
    assert len(deltas) > 1
    assert all(deltas)
    assert "".join(deltas) == '{"a": 123, "b": 456}'
    assert one(events, ev.ToolArgsCompleted).arguments == {"a": 123, "b": 456}
    assert one(events, ev.ToolCallCompleted).result == 56088
    check_order(events)


# Event flow: human-in-the-loop tool calls


def test_event_flow_human_in_the_loop(supported: Models) -> None:
    mailbox = Mailbox()
    with supported(EMAIL, Reply("Sent.")) as model:
        agent = Agent(model, [mailbox.send_email])
        events = list(agent.run("Send an email...", stream=True))
        paused = events[-1]
        assert isinstance(paused, ev.RunPaused)
        assert flow(events) == WRITTEN + PAUSED
        arguments = {"to": "ada@example.org", "subject": "Hello"}
        assert one(events, ev.ToolArgsCompleted).arguments == arguments
        assert paused.pending[0].arguments == arguments
        assert mailbox.sent == []

        # [User confirms the tool call]
        events += agent.resume(paused, {paused.pending[0].call_id: Approve()})
    assert flow(events) == WRITTEN + PAUSED + RESUMED + RAN
    assert one(events, ev.ToolCallCompleted).result == "Email sent successfully"
    assert mailbox.sent == ["Hello to ada@example.org"]
    check_order(events)
