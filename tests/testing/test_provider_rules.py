"""The rules of `tests.support.provider_rules` refuse what the real providers refuse."""

import json
import re
from typing import Any

import pytest

from argstream import UsageError
from tests.support.provider_rules import reasoning_item, strict_provider
from tests.testing.posting import BODIES, ROUTES, SCRIPT, USER, post

ANTHROPIC, CHAT, RESPONSES = ROUTES


def messages(*sent: object, **settings: Any) -> dict[str, Any]:
    return {"messages": list(sent), **settings}


def items(*sent: object, **settings: Any) -> dict[str, Any]:
    return {"input": list(sent), **settings}


def says(role: str, *blocks: object) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def call(call_id: str, **changes: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "add", "input": {}, **changes}


def result(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "3"}


def asked(*blocks: object) -> list[dict[str, Any]]:
    return [USER, says("assistant", *blocks)]


def called_and_answered(call_id: str, **changes: object) -> list[dict[str, Any]]:
    return [*asked(call(call_id, **changes)), says("user", result(call_id))]


def chat_call(call_id: str, arguments: object = "{}", name: str = "add") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def chat_tool(name: str, **rest: object) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": name, **rest}}]}


def response_call(call_id: str = "c1", **changes: object) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": call_id, "name": "add", "arguments": "{}"}
    return {**call, **changes}


def output(call_id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "2"}


TEXT = {"type": "text", "text": "So."}
SAID = {"type": "message", "role": "assistant", "content": "So."}
REASONING = reasoning_item("rs_1", "Hm.")
SCHEMA = {"type": "object", "properties": {}}
THOUGHT = {"type": "thinking", "thinking": "changed", "signature": "mock_1"}
REDACTED = {"type": "redacted_thinking", "data": "x"}
TOOL = {"name": "add", "input_schema": SCHEMA}
TOOLS: dict[str, Any] = {"tools": [TOOL]}
BUDGET = {"type": "enabled", "budget_tokens": 1024}
THINKING: dict[str, Any] = {**TOOLS, "max_tokens": 2000, "thinking": BUDGET}
UNTYPED = {**SCHEMA, "properties": {"v": {}}, "required": ["v"], "additionalProperties": False}
STRICT: dict[str, Any] = {"strict": True, "parameters": UNTYPED}
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    ANTHROPIC: [
        (messages({"role": "user"}), "messages.0.content: "),
        (messages(says("user", {"text": "x"})), "messages.0.content.0: a block"),
        (messages({"role": "user", "content": ""}), "must not be empty"),
        (messages(says("user")), "messages.0.content: must have at least one"),
        (messages(says("user", {"type": "text", "text": " \n"})), "white space"),
        (messages(USER, {"role": "assistant", "content": "So "}), "cannot end in white space"),
        ({"tools": [{**TOOL, "name": "add now"}]}, "tools.0.name: "),
        ({"tools": [TOOL, TOOL]}, "'add' is there twice"),
        ({"tool_choice": {"type": "auto"}}, "only be set together with tools"),
        ({**TOOLS, "tool_choice": {"type": "tool", "name": "sub"}}, "there is no tool 'sub'"),
        (messages(*called_and_answered("t1")), "with tool_use blocks must define tools"),
        (messages(*asked(call("t1"))), "result right after: t1"),
        (messages(*asked(call("t1"), call("t2")), says("user", result("t1"))), "after: t2"),
        (messages(says("user", result("t9"))), "unexpected tool_use_id"),
        (messages(says("user", {"type": "tool_result"})), "needs a tool_use_id"),
        (messages(*asked(call("t1", input="{}"))), "input that is an object"),
        (
            messages(*called_and_answered("t1"), *called_and_answered("t1")),
            "tool_use ids must be unique, and 't1' is there twice",
        ),
        (messages(*called_and_answered("functions.add:0")), "messages.1.content.0.id: "),
        (messages(*called_and_answered("t1", name="a.b")), "messages.1.content.0.name: "),
        (
            messages(*asked(call("t1")), says("user", TEXT, result("t1"))),
            "messages.2: tool_result blocks must come first",
        ),
        (
            messages(*asked(call("t1")), says("user", result("t1"), result("t1"))),
            "must have a single result, and 't1' has two",
        ),
        (messages(*asked(THOUGHT)), "unchanged"),
        (messages(*asked({**THOUGHT, "signature": "made up"}, TEXT)), "unchanged"),
        (messages(*asked({"type": "thinking", "thinking": "x"})), "needs its signature"),
        (messages(*asked(TEXT, REDACTED)), "the final block of an assistant's message cannot be"),
        ({**THINKING, **messages(*called_and_answered("t1"))}, "it must begin with a thought"),
        ({**THINKING, "tool_choice": {"type": "any"}}, "when a tool must be called"),
        ({**THINKING, "temperature": 0.2}, "temperature: may only be 1"),
        ({"thinking": {"type": "adaptive"}, "temperature": 0.2}, "temperature: may only be 1"),
        ({**THINKING, "top_p": 0.5}, "top_p: must be 0.95 or more"),
        ({**THINKING, "top_k": 5}, "top_k: must not be set"),
        ({**THINKING, "max_tokens": 1024}, "must be less than max_tokens"),
        ({"thinking": {**BUDGET, "budget_tokens": 1023}}, "budget_tokens: must be at least 1024"),
    ],
    CHAT: [
        (messages(USER, {"role": "assistant"}), "must not be null"),
        ({"tool_choice": "auto"}, "tool_choice: this is only allowed when"),
        ({"parallel_tool_calls": True}, "parallel_tool_calls: this is only"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "together with max_completion_tokens"),
        (chat_tool("f", **STRICT), "tools.0.function.parameters.properties.v: a strict schema"),
        (chat_tool("add", parameters=[]), "tools.0.function.parameters: "),
        (messages(USER, chat_call("c" * 41)), "longer than 40"),
        (messages(USER, chat_call("c1")), "role tool: c1"),
        (messages(chat_call("c1"), USER), "role tool: c1"),
        (messages(USER, {"role": "tool", "tool_call_id": "c9", "content": ""}), "'c9' belongs to"),
        (messages(USER, chat_call("c1", {})), "that are a text"),
        (messages(USER, chat_call("c1", name="a.b")), "messages.1.tool_calls.0.function.name: "),
    ],
    RESPONSES: [
        (
            {"tools": [{"type": "function", "name": "f", **STRICT}]},
            "tools.0.parameters.properties.v: a strict schema must have a type",
        ),
        ({"tools": [{"type": "function", "name": "a", "parameters": {}}]}, "tools.0.parameters: "),
        (items(output("c1"), response_call()), "input.0: no function call found for the output"),
        (items(output("c9")), "no function call found for the output with call_id 'c9'"),
        (items(output("c9"), previous_response_id="resp_mock_1"), "output with call_id 'c9'"),
        (items(response_call(), output("c1"), output("c1")), "input.2: there is an output"),
        (items(response_call()), "no output found for the function call 'c1'"),
        (items(response_call(arguments={})), "input.0.arguments: must be a text"),
        (items(response_call("c" * 65)), "input.0.call_id: "),
        (items(response_call(name="a.b")), "input.0.name: "),
        (items(USER, {**REASONING, "status": None}, SAID), "input.1.status: "),
        (items(USER, REASONING, USER), "without its required following item"),
        (
            items(USER, {**REASONING, "encrypted_content": "made up"}, SAID),
            "input.1: the encrypted content could not be verified",
        ),
        (
            items(USER, {**REASONING, "encrypted_content": None}, SAID, store=False),
            "input.1: this item was not found",
        ),
    ],
}


@pytest.mark.parametrize("path", ROUTES)
def test_invalid_request_is_refused_and_uses_no_reply(path: str) -> None:
    with strict_provider([SCRIPT]) as provider:
        for change, problem in REFUSED[path]:
            status, _, body = post(provider, path, {**BODIES[path], **change})
            assert (status, problem) == (400, problem)
            assert problem in json.loads(body)["error"]["message"]
        with pytest.raises(UsageError, match=re.escape(REFUSED[path][0][1])):
            provider.check()
        assert post(provider, path)[0] == 200
