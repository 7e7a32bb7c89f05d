"""An agent over OpenAI Responses whose model calls a tool that the API defines.

``tests/providers`` tests what the outputs of such calls look like.
"""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from argstream.agent import Agent, RunResult, tool
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
DONE = {"type": "output_text", "text": "Done.", "annotations": []}
SAYS_DONE = turn(item_done(0, type="message", id="msg_1", role="assistant", content=[DONE]))


def played(item: Payload, *tools: Any, **options: Any) -> tuple[RunResult, list[Payload]]:
    """Run an agent whose model makes this call. Return the result and the next turn's input."""
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
        (SHELL, "shell"),
        (LOCAL_SHELL, "local_shell"),
        (COMPUTER, "computer"),
        (OLD_COMPUTER, "computer"),
        (SEARCH, "tool_search"),
        (APPROVAL, "mcp__github__delete_repo"),
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


def test_denied_client_call_does_not_end_the_run() -> None:
    rule = Rule("deny", tool="shell", argument=["commands", "*"], when=Search("rm -rf"))
    tools = Shell()
    _, (_, sent, output) = played(SHELL, tools.shell, policy=Policy([rule], default="allow"))
    assert tools.seen == []
    assert (sent["type"], output["type"]) == ("function_call", "function_call_output")
    assert "rejected" in output["output"]
