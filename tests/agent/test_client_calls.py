"""An agent over OpenAI Responses whose model calls a tool that the API defines.

What the outputs of such calls look like is tested in ``tests/providers``.
"""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from argstream.agent import Agent, Approve, RunResult, tool
from argstream.events import ApprovalRequested
from argstream.models import make_model
from argstream.policy import Policy, Rule, Search
from tests.provider_streams import Payload, item_added, item_done, sse
from tests.providers.test_openai_client_calls import (
    APPROVAL,
    COMPUTER,
    LOCAL_SHELL,
    OLD_COMPUTER,
    SEARCH,
    SHELL,
    turn,
)

MISSING = "Error: the call was not run: this agent has no tool '{}'"
SAYS_DONE = turn(
    item_done(
        0,
        type="message",
        id="msg_1",
        role="assistant",
        status="completed",
        content=[{"type": "output_text", "text": "Done.", "annotations": []}],
    )
)


def played(item: Payload, *tools: Any, **options: Any) -> tuple[RunResult, list[Payload]]:
    """Run an agent whose model makes this call; give its result, and the input of its next turn."""
    turns = [turn(item_added(0, **item), item_done(0, **item)), SAYS_DONE]
    inputs: list[list[Payload]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        inputs.append(json.loads(request.content)["input"])
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, content=sse(turns.pop(0)))

    async def run() -> RunResult:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
            model = make_model("openai-responses:gpt-5", api_key="any", http_client=client)
            return await Agent(model, tools, **options).run_async("Go")

    result = asyncio.run(run())
    assert (result.outcome, result.text) == ("completed", "Done.")
    return result, inputs[1]


class Shell:
    """A tool with the name of one that the API defines. It records its arguments."""

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
        pytest.param(SHELL, "shell", id="shell"),
        pytest.param(LOCAL_SHELL, "local_shell", id="local_shell"),
        pytest.param(COMPUTER, "computer", id="computer"),
        pytest.param(OLD_COMPUTER, "computer", id="computer, one action"),
        pytest.param(SEARCH, "tool_search", id="search"),
        pytest.param(APPROVAL, "mcp__github__delete_repo", id="approval"),
    ],
)
@pytest.mark.parametrize("policy", [None, Policy(default="ask")], ids=["free", "asks"])
def test_call_without_a_tool_is_answered_with_an_error_and_nobody_is_asked(
    item: Payload, name: str, policy: Policy | None
) -> None:
    _, (_, sent, *outputs) = played(item, policy=policy)
    assert sent == {field: value for field, value in item.items() if value is not None}
    assert MISSING.format(name) in json.dumps(outputs)


def test_tool_of_the_same_name_runs_the_call() -> None:
    action = {**SHELL["action"], "max_output_length": 100}
    tools = Shell()
    _, (_, _, output) = played({**SHELL, "action": action}, tools.shell)
    assert tools.seen == [(action["commands"], 1000, 100)]
    assert (output["type"], output["call_id"]) == ("shell_call_output", "call_1")
    assert output["output"][0]["stdout"] == "a.txt"


@pytest.mark.parametrize("answer", [True, False, "yes"])
def test_mcp_call_is_approved_only_by_a_tool_that_returns_true(answer: object) -> None:
    @tool(name="mcp__github__delete_repo")
    def approve(repo: str) -> object:
        return answer if repo == "argstream" else None

    _, (_, _, output) = played(APPROVAL, approve)
    assert output["approve"] is (answer is True)


def test_policy_denies_a_client_call_and_the_run_goes_on() -> None:
    rule = Rule("deny", tool="shell", argument=["commands", "*"], when=Search("rm -rf"))
    tools = Shell()
    _, (_, sent, output) = played(SHELL, tools.shell, policy=Policy([rule], default="allow"))
    assert tools.seen == []
    assert (sent["type"], output["type"]) == ("function_call", "function_call_output")
    assert "rejected" in output["output"]


def test_policy_that_asks_about_a_client_call_asks_before_its_tool_runs() -> None:
    tools = Shell()
    asked: list[tuple[str, int]] = []

    def approver(request: ApprovalRequested) -> Approve:
        asked.append((request.name, len(tools.seen)))
        return Approve()

    played(SHELL, tools.shell, policy=Policy(default="ask"), approver=approver)
    assert (asked, len(tools.seen)) == ([("shell", 0)], 1)
