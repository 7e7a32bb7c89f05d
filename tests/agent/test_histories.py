"""What a run leaves behind goes on at a real provider, over HTTP: each API takes it.

By chance the same is tested in ``test_machine``, without a provider.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from argstream.agent import Agent, Approve, Conversation, Deny, tool
from argstream.events import ApprovalRequested, Event, RunStopped, ToolExecutionStarted
from argstream.policy import Policy
from argstream.testing import CallTool, MockProvider, Reply, Think
from tests.agent.following import follow, only, served, stopped_at
from tests.agent.histories import check_history
from tests.agent.ordering import check_order

APIS = ["anthropic", "openai", "openai-responses", "deepseek", "mistral"]
DONE = Reply(Think("That was all."), "Done.")
POLICY = Policy.from_toml(
    'default = "allow"\n'
    '[[rules]]\ntool = "write"\naction = "deny"\nargument = "path"\nprefix = "/etc"\n'
)


def write(path: str, content: str = "") -> str:
    return path + content


@tool(requires_confirmation=True)
def send(to: str) -> dict[str, str]:
    return {"to": to}


def broken() -> None:
    raise OSError("no space left")


@contextmanager
def provided(api: str, *replies: Reply) -> Iterator[Agent]:
    """An agent whose requests are all well-formed, or the test fails."""
    with MockProvider(list(replies)) as provider:
        model = served(f"{api}:some-model", provider)
        yield Agent(model, [write, send, broken], policy=POLICY)
        provider.check()


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def check_it_goes_on(agent: Agent, conversation: Conversation) -> None:
    check_history(conversation.messages, is_over=True)
    assert agent.run("And now?", conversation).text == "Done."


@pytest.mark.parametrize(
    "reply",
    [
        Reply(Think("Hm."), CallTool("write", '{"path": "a.txt", "con'), stop="max_tokens"),
        Reply(Think("Hm."), "I try.", CallTool("write", '{"path": a.txt}')),
        Reply(CallTool("write", {"path": 7})),
        Reply(CallTool("write", {"path": "/etc/passwd"})),
        Reply(CallTool("unheard_of", {"a": 1})),
        Reply(CallTool("broken"), CallTool("write", {"path": "a"}), CallTool("broken")),
        Reply(CallTool("write", {"path": "a"}, call_id="functions.write:0")),
    ],
    ids=["cut", "malformed", "rejected", "denied by rule", "unknown", "parallel", "odd id"],
)
def test_after_a_call_whatever_became_of_it(api: str, reply: Reply) -> None:
    conversation = Conversation()
    with provided(api, reply, reply, DONE, DONE) as agent:
        assert agent.run("Go", conversation).text == "Done."
        check_it_goes_on(agent, conversation)


def test_after_decisions_of_all_kinds(api: str) -> None:
    conversation = Conversation()
    calls = [CallTool("send", {"to": name}) for name in ("ada", "bob", "eve")]
    with provided(api, Reply(Think("Hm."), *calls), DONE, DONE) as agent:
        paused = agent.run("Go", conversation)
        first, second, third = (request.call_id for request in paused.pending)
        edited = Approve(arguments={"to": "bill"})
        again = agent.resume(paused, {second: edited, third: Deny("not her")}).wait()
        assert agent.resume(again, {first: Approve()}).wait().text == "Done."
        check_it_goes_on(agent, conversation)


def test_after_a_refusal_in_a_later_turn(api: str) -> None:
    conversation = Conversation()
    call = CallTool("write", {"path": "a"})
    refusal = Reply("No.", call, stop="refusal")
    with provided(api, Reply(Think("Hm."), call), refusal, DONE) as agent:
        agent.run("Go", conversation)
        check_it_goes_on(agent, conversation)


@pytest.mark.parametrize("at", [ToolExecutionStarted, ApprovalRequested])
def test_after_a_stop(api: str, at: type[Event]) -> None:
    conversation = Conversation()
    calls = [CallTool("write", {"path": "a"}), CallTool("send", {"to": "ada"})]
    with provided(api, Reply(Think("Hm."), *calls), DONE) as agent:
        events = stopped_at(agent.run_stream("Go", conversation), at)
        check_order(events)
        assert only(events, RunStopped)
        check_it_goes_on(agent, conversation)


def test_after_a_paused_run_was_given_up(api: str) -> None:
    conversation = Conversation()
    with provided(api, Reply(Think("Hm."), CallTool("send", {"to": "ada"})), DONE) as agent:
        run = agent.run_stream("Go", conversation)
        events = follow(run)
        events += agent.stop(run, "never mind")
        check_order(events)
        check_it_goes_on(agent, conversation)
