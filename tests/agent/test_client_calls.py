"""An agent over OpenAI Responses whose model calls a tool that the API defines."""

import asyncio
import json
from typing import Any

import httpx2
import pytest
from openai.types.responses import ResponseInputItemParam
from openai.types.responses.response_input_item_param import (
    ComputerCallOutput,
    LocalShellCallOutput,
    McpApprovalResponse,
    ShellCallOutput,
)
from openai.types.responses.response_tool_search_output_item_param_param import (
    ResponseToolSearchOutputItemParamParam,
)
from pydantic import TypeAdapter

from argstream.agent import Agent, Approve, RunResult, tool
from argstream.clients import make_model
from argstream.events import ApprovalRequested
from argstream.policy import Policy, Rule, Search
from tests.adapters.test_openai_client_calls import (
    APPROVAL,
    COMPUTER,
    HOSTED_SHELL,
    LOCAL_SHELL,
    OLD_COMPUTER,
    PROGRAM,
    PROGRAM_OUTPUT,
    SEARCH,
    SHELL,
    SHELL_OUTPUT,
    turn,
)
from tests.providers import Payload, item_added, item_done, sse

MISSING = "Error: the call was not run: this agent has no tool '{}'"
INPUT: TypeAdapter[Any] = TypeAdapter(list[ResponseInputItemParam])
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


class Provider:
    """Answers each request with the next turn, and keeps the requests."""

    def __init__(self, *turns: list[Payload]) -> None:
        self._turns = list(turns)
        self.inputs: list[list[Payload]] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.inputs.append(json.loads(request.content)["input"])
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, content=sse(self._turns.pop(0)))

    def run(self, *tools: Any, **options: Any) -> RunResult:
        async def run() -> RunResult:
            async with httpx2.AsyncClient(transport=httpx2.MockTransport(self.answer)) as client:
                model = make_model("openai-responses:gpt-5", api_key="any", http_client=client)
                return await Agent(model, tools, **options).run_async("Go")

        return asyncio.run(run())


class Tools:
    """Tools with the names of those that the API defines. They record their arguments."""

    def __init__(self, result: Any = None) -> None:
        self._result = result
        self.seen: list[Any] = []

    def shell(
        self, commands: list[str], timeout_ms: int = 0, max_output_length: int | None = None
    ) -> Any:
        """Run commands."""
        return self._ran(commands, timeout_ms, max_output_length)

    def computer(self, actions: list[Payload]) -> Any:
        """Act."""
        return self._ran(actions)

    def tool_search(self, goal: str) -> Any:
        """Search."""
        return self._ran(goal)

    def approve(self, repo: str) -> Any:
        """Decide."""
        return self._ran(repo)

    def _ran(self, *arguments: Any) -> Any:
        self.seen.append(arguments)
        return self._result


def calls(item: Payload) -> list[Payload]:
    return turn(item_added(0, **item), item_done(0, **item))


@pytest.mark.parametrize(
    ("item", "name", "output_type"),
    [
        pytest.param(SHELL, "shell", ShellCallOutput, id="shell"),
        pytest.param(LOCAL_SHELL, "local_shell", LocalShellCallOutput, id="local_shell"),
        pytest.param(COMPUTER, "computer", ComputerCallOutput, id="computer"),
        pytest.param(OLD_COMPUTER, "computer", ComputerCallOutput, id="computer, one action"),
        pytest.param(SEARCH, "tool_search", ResponseToolSearchOutputItemParamParam, id="search"),
        pytest.param(APPROVAL, "mcp__github__delete_repo", McpApprovalResponse, id="approval"),
    ],
)
def test_call_without_a_tool_is_answered_with_an_error(
    item: Payload, name: str, output_type: Any
) -> None:
    provider = Provider(calls(item), SAYS_DONE)
    result = provider.run()
    assert (result.outcome, result.text) == ("completed", "Done.")
    _, sent, output, *notes = provider.inputs[1]
    assert sent == {field: value for field, value in item.items() if value is not None}
    TypeAdapter(output_type).validate_python(output, strict=True)
    INPUT.validate_python(provider.inputs[1], strict=True)
    assert MISSING.format(name) in json.dumps([output, notes])


def test_outputs_have_the_ids_under_which_the_api_expects_them() -> None:
    outputs = []
    for item in (SHELL, LOCAL_SHELL, COMPUTER, SEARCH, APPROVAL):
        provider = Provider(calls(item), SAYS_DONE)
        provider.run()
        outputs.append(provider.inputs[1][2])
    shell, local_shell, computer, search, approval = outputs
    assert (shell["call_id"], computer["call_id"], search["call_id"]) == ("call_1",) * 3
    assert local_shell["id"] == "call_1"  # and not the ID of the item
    assert (approval["approval_request_id"], approval["approve"]) == ("mcpr_1", False)
    assert shell["output"][0]["outcome"] == {"type": "exit", "exit_code": 1}
    assert json.loads(local_shell["output"]) == MISSING.format("local_shell")


def test_safety_checks_of_a_computer_are_acknowledged_in_its_output() -> None:
    provider = Provider(calls(OLD_COMPUTER), SAYS_DONE)
    provider.run()
    checks = OLD_COMPUTER["pending_safety_checks"]
    assert provider.inputs[1][2]["acknowledged_safety_checks"] == checks


def test_tool_of_the_same_name_runs_the_call() -> None:
    action = {**SHELL["action"], "max_output_length": 100}
    provider, tools = Provider(calls({**SHELL, "action": action}), SAYS_DONE), Tools("a.txt")
    provider.run(tools.shell)
    assert tools.seen == [(action["commands"], 1000, 100)]
    assert provider.inputs[1][2] == {
        "type": "shell_call_output",
        "call_id": "call_1",
        "output": [{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        "max_output_length": 100,
    }


@pytest.mark.parametrize("answer", [True, False, "yes"])
def test_mcp_call_is_approved_only_by_a_tool_that_returns_true(answer: object) -> None:
    provider, tools = Provider(calls(APPROVAL), SAYS_DONE), Tools(answer)
    provider.run(tool(name="mcp__github__delete_repo")(tools.approve))
    assert tools.seen == [("argstream",)]
    assert provider.inputs[1][2]["approve"] is (answer is True)


def test_screenshot_of_a_tool_is_the_output_of_its_call() -> None:
    screenshot = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA=="}
    provider = Provider(calls(COMPUTER), SAYS_DONE)
    provider.run(Tools(screenshot).computer)
    assert len(provider.inputs[1]) == 3
    assert provider.inputs[1][2]["output"] == screenshot


def test_tools_that_a_search_finds_are_its_output() -> None:
    found = [{"type": "function", "name": "mail", "parameters": {}, "strict": False}]
    provider = Provider(calls(SEARCH), SAYS_DONE)
    provider.run(Tools(found).tool_search)
    assert provider.inputs[1][2]["tools"] == found


def test_policy_denies_a_client_call_and_the_run_goes_on() -> None:
    rule = Rule("deny", tool="shell", argument=["commands", "*"], when=Search("rm -rf"))
    provider, tools = Provider(calls(SHELL), SAYS_DONE), Tools()
    result = provider.run(tools.shell, policy=Policy([rule], default="allow"))
    assert (result.outcome, tools.seen) == ("completed", [])
    _, sent, output = provider.inputs[1]
    assert (sent["type"], output["type"]) == ("function_call", "function_call_output")
    assert "rejected" in output["output"]
    INPUT.validate_python(provider.inputs[1], strict=True)


def test_policy_that_asks_about_a_client_call_asks_before_its_tool_runs() -> None:
    provider, tools = Provider(calls(SHELL), SAYS_DONE), Tools("ran")
    asked: list[tuple[str, int]] = []

    def approver(request: ApprovalRequested) -> Approve:
        asked.append((request.name, len(tools.seen)))
        return Approve()

    provider.run(tools.shell, policy=Policy(default="ask"), approver=approver)
    assert (asked, len(tools.seen)) == ([("shell", 0)], 1)
    assert provider.inputs[1][2]["output"][0]["stdout"] == "ran"


def test_nobody_is_asked_about_a_call_that_has_no_tool() -> None:
    provider = Provider(calls(SHELL), SAYS_DONE)
    assert provider.run(policy=Policy(default="ask")).outcome == "completed"
    assert provider.inputs[1][2]["output"][0]["stderr"] == MISSING.format("shell")


@pytest.mark.parametrize(
    ("item", "output"), [(HOSTED_SHELL, SHELL_OUTPUT), (PROGRAM, PROGRAM_OUTPUT)]
)
def test_call_that_the_provider_ran_goes_back_with_its_output(
    item: Payload, output: Payload
) -> None:
    provider = Provider(
        turn(item_done(0, **item), item_done(1, **output), item_done(2, **SHELL)), SAYS_DONE
    )
    provider.run()
    assert provider.inputs[1][1:3] == [item, output]
    INPUT.validate_python(provider.inputs[1], strict=True)
