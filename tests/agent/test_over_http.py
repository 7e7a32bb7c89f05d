"""Agents over HTTP: conversations with each API, and calls of tools that OpenAI Responses defines.

``tests/models/test_faults.py`` has the faults of providers, and ``tests/providers`` tests what the
outputs of the calls look like.
"""

import asyncio
import json
import time
from typing import Any

import pytest

from argstream import events as ev
from argstream.agent import Agent, Approve, Conversation, RunResult, Streamed, tool
from argstream.errors import TextInterruptedError
from argstream.models import CallTool, Retries, Think, Timeouts, make_model
from argstream.policy import Policy, Rule, Search
from argstream.testing import Cut, ErrorEvent, Fault, Malformed, MockProvider, Reply, Slow
from tests.agent.following import Effects, events_of, one, served, stopped_at
from tests.agent.ordering import check_order
from tests.models.over_http import respond, serving
from tests.provider_streams import Payload, item_added, item_done, sse
from tests.providers import test_openai_client_calls as calls
from tests.support.provider_rules import strict_provider

APIS = ["anthropic", "openai", "openai-responses"]
CALLS = Reply(
    Think("I should write, and tell Ada."),
    "I do it.",
    CallTool("write", {"path": "a.txt", "content": "line\n" * 20}),
    CallTool("send", {"to": "ada"}),
)


def agent_of(api: str, provider: MockProvider, tools: list[object]) -> Agent:
    return Agent(served(f"{api}:any", provider), tools)


@pytest.mark.parametrize("api", APIS)
def test_conversation_with_thinking_and_tools_completes(api: str) -> None:
    effects, conversation = Effects(), Conversation()
    with strict_provider(
        [CALLS, Reply("Done."), Reply(Think("Hm."), "You are welcome.")]
    ) as provider:
        agent = agent_of(api, provider, [effects.write, effects.send])
        events = events_of(agent, "Go", conversation)
        again = events_of(agent, "Thanks", conversation)
        provider.check()
    check_order(events)
    assert [name for name, _ in effects.seen] == ["write", "send"]
    assert one(events, ev.RunCompleted).result == "Done."
    assert one(again, ev.RunCompleted).result == "You are welcome."


@pytest.mark.parametrize("api", [*APIS, "deepseek"])
def test_paused_run_continues_after_the_approval(api: str) -> None:
    effects = Effects()
    with strict_provider([Reply(CallTool("send", {"to": "ada"})), Reply("Sent.")]) as provider:
        agent = agent_of(api, provider, [tool(requires_confirmation=True)(effects.send)])
        events = list(agent.run("Go", stream=True))
        paused = events[-1]
        assert isinstance(paused, ev.RunPaused)
        (request,) = paused.pending
        assert request.arguments == one(events, ev.ToolArgsCompleted).arguments == {"to": "ada"}
        assert effects.seen == []
        events += agent.resume(paused, {request.call_id: Approve()})
        provider.check()
    check_order(events)
    assert one(events, ev.ToolCallCompleted).result == "sent to ada"


@pytest.mark.parametrize("api", APIS)
def test_stop_closes_the_connection(api: str) -> None:
    reply = Reply("word " * 200, faults=[Slow(between=0.01)])
    with strict_provider(reply) as provider:
        events = stopped_at(agent_of(api, provider, []).run_stream("Go"), ev.TextDelta)
        while not provider.hang_ups:
            time.sleep(0.01)
        assert len(provider.hang_ups) == 1
    assert isinstance(events[-1], ev.RunStopped)


@pytest.mark.parametrize("fault", [Cut(), ErrorEvent(), Malformed(), Slow(between=0.5)], ids=str)
def test_fault_interrupts_a_tool_that_reads_its_text(fault: Fault) -> None:
    ends: list[object] = []

    async def note(title: str, text: Streamed[str]) -> str:
        try:
            ends.append(await text.read())
        except TextInterruptedError as interruption:
            ends.append(interruption)
            raise
        return title

    reply = Reply(CallTool("note", {"title": "t", "text": "long " * 50}))
    with strict_provider(reply, faults=[fault]) as provider:
        options = {"timeout": Timeouts(idle=0.1), "retries": Retries(most=0)}
        model = served("anthropic:any", provider, **options)
        events = events_of(Agent(model, [note]))
    check_order(events, streamed=("note",))
    assert isinstance(events[-1], ev.RunFailed)
    assert all(isinstance(end, TextInterruptedError) for end in ends)


MISSING = "Error: the call was not run: this agent has no tool '{}'"
DONE = {"type": "output_text", "text": "Done.", "annotations": []}
SAYS_DONE = calls.turn(item_done(0, type="message", id="msg_1", role="assistant", content=[DONE]))


def played(item: Payload, *tools: Any, **options: Any) -> tuple[RunResult, list[Payload]]:
    turns = [calls.turn(item_added(0, **item), item_done(0, **item)), SAYS_DONE]
    with serving(*(respond("200 OK", sse(turn)) for turn in turns)) as server:
        model = make_model("openai-responses:gpt-5", base_url=server.url, api_key="any")
        result = asyncio.run(Agent(model, tools, **options).run_async("Go"))
    _, _, body = server.requests[1].partition(b"\r\n\r\n")
    assert (result.outcome, result.text) == ("completed", "Done.")
    return result, json.loads(body)["input"]


class Shell:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def shell(
        self, commands: list[str], timeout_ms: int = 0, max_output_length: int | None = None
    ) -> str:
        """Run commands."""
        self.seen.append((commands, timeout_ms, max_output_length))
        return "a.txt"


@pytest.mark.parametrize(
    ("item", "name"),
    [
        (calls.SHELL, "shell"),
        (calls.LOCAL_SHELL, "local_shell"),
        (calls.COMPUTER, "computer"),
        (calls.OLD_COMPUTER, "computer"),
        (calls.SEARCH, "tool_search"),
        (calls.APPROVAL, "mcp__github__delete_repo"),
    ],
    ids=["shell", "local_shell", "computer", "computer, one action", "search", "approval"],
)
@pytest.mark.parametrize("policy", [None, Policy(default="ask")], ids=["free", "asks"])
def test_call_without_a_tool_fails_without_an_approval_request(
    item: Payload, name: str, policy: Policy | None
) -> None:
    _, (_, sent, *outputs) = played(item, policy=policy)
    assert sent == {field: value for field, value in item.items() if value is not None}
    assert MISSING.format(name) in json.dumps(outputs)


def test_tool_with_the_name_of_the_call_runs_it() -> None:
    action = {**calls.SHELL["action"], "max_output_length": 100}
    tools = Shell()
    _, (_, _, output) = played({**calls.SHELL, "action": action}, tools.shell)
    assert tools.seen == [(action["commands"], 1000, 100)]
    assert (output["type"], output["call_id"]) == ("shell_call_output", "call_1")
    assert output["output"][0]["stdout"] == "a.txt"


@pytest.mark.parametrize("answer", [True, False, "yes"])
def test_mcp_call_is_approved_only_by_a_tool_that_returns_true(answer: object) -> None:
    @tool(name="mcp__github__delete_repo")
    def approve(repo: str) -> object:
        return answer if repo == "argstream" else None

    _, (_, _, output) = played(calls.APPROVAL, approve)
    assert output["approve"] is (answer is True)


def test_denied_client_call_does_not_end_the_run() -> None:
    rule = Rule("deny", tool="shell", argument=["commands", "*"], when=Search("rm -rf"))
    tools = Shell()
    _, (_, sent, output) = played(calls.SHELL, tools.shell, policy=Policy([rule], default="allow"))
    assert tools.seen == []
    assert (sent["type"], output["type"]) == ("function_call", "function_call_output")
    assert "rejected" in output["output"]
