"""The rules of `tests.support.provider_rules` refuse what the real providers refuse."""

import json
import re
from typing import Any

import pytest

from argstream import UsageError
from tests.support.provider_rules import signature, strict_provider
from tests.testing.posting import BODIES, HEADERS, ROUTES, SCRIPT, USER, post


def call(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "add", "input": {}}


def result(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "3"}


def chat_call(call_id: str, arguments: object = "{}", name: str = "add") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def says(role: str, *blocks: object) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def round_of(call_id: str, name: str = "add") -> list[dict[str, Any]]:
    asked = says("assistant", call(call_id) | {"name": name})
    return [USER, asked, says("user", result(call_id))]


def response_call(call_id: str = "c1", name: str = "add") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


TEXT = {"type": "text", "text": "So."}
SAID = {"type": "message", "role": "assistant", "content": "So."}
REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": signature("Hm."),
}
SCHEMA = {"type": "object", "properties": {}}
THOUGHT = {"type": "thinking", "thinking": "changed", "signature": "mock_1"}
TOOLS: dict[str, Any] = {"tools": [{"name": "add", "input_schema": SCHEMA}]}
THINKING: dict[str, Any] = {
    **TOOLS,
    "max_tokens": 2000,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
}
STRICT: dict[str, Any] = {
    "strict": True,
    "parameters": {
        **SCHEMA,
        "properties": {"v": {}},
        "required": ["v"],
        "additionalProperties": False,
    },
}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "2"}
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "/v1/messages": [
        ({"messages": [{"role": "user"}]}, "messages.0.content: "),
        ({"messages": [says("user", {"text": "x"})]}, "messages.0.content.0: a block"),
        ({"messages": [{"role": "user", "content": ""}]}, "must not be empty"),
        ({"tools": [{"name": "add now", "input_schema": SCHEMA}]}, "tools.0.name: "),
        ({"tools": [{"name": "a", "input_schema": SCHEMA}] * 2}, "'a' is there twice"),
        ({"messages": [USER, says("assistant", call("t1"))]}, "result right after: t1"),
        (
            {
                "messages": [
                    USER,
                    says("assistant", call("t1"), call("t2")),
                    says("user", result("t1")),
                ]
            },
            "result right after: t2",
        ),
        ({"messages": [says("user", result("t9"))]}, "unexpected tool_use_id"),
        ({"messages": [says("user", {"type": "tool_result"})]}, "needs a tool_use_id"),
        (
            {"messages": [USER, says("assistant", call("t1") | {"input": "{}"})]},
            "input that is an object",
        ),
        ({"messages": [USER, says("assistant", THOUGHT)]}, "unchanged"),
        (
            {"messages": [USER, says("assistant", {"type": "thinking", "thinking": "x"})]},
            "needs its signature",
        ),
        (
            {"messages": [USER, says("assistant", {**THOUGHT, "signature": "made up"}, TEXT)]},
            "unchanged",
        ),
        (
            {
                "messages": [
                    USER,
                    says("assistant", TEXT, {"type": "redacted_thinking", "data": "x"}),
                ]
            },
            "the final block of an assistant's message cannot be a thought",
        ),
        ({"messages": [says("user", {"type": "text", "text": " \n"})]}, "white space"),
        (
            {"messages": [*round_of("t1"), *round_of("t1")]},
            "tool_use ids must be unique, and 't1' is there twice",
        ),
        ({"messages": round_of("functions.add:0")}, "messages.1.content.0.id: "),
        ({"messages": round_of("t1", name="a.b")}, "messages.1.content.0.name: "),
        ({**THINKING, "tool_choice": {"type": "any"}}, "when a tool must be called"),
        ({**THINKING, "temperature": 0.2}, "temperature: may only be 1"),
        ({**THINKING, "top_p": 0.5}, "top_p: must be 0.95 or more"),
        ({**THINKING, "top_k": 5}, "top_k: must not be set"),
        ({**THINKING, "max_tokens": 1024}, "must be less than max_tokens"),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1023}},
            "budget_tokens: must be at least 1024",
        ),
        ({"thinking": {"type": "adaptive"}, "temperature": 0.2}, "temperature: may only be 1"),
        ({**THINKING, "messages": round_of("t1")}, "it must begin with a thought"),
        (
            {"messages": [*round_of("t1")[:2], says("user", TEXT, result("t1"))]},
            "messages.2: tool_result blocks must come first",
        ),
        (
            {"messages": [*round_of("t1")[:2], says("user", result("t1"), result("t1"))]},
            "must have a single result, and 't1' has two",
        ),
        ({"messages": [says("user")]}, "messages.0.content: must have at least one"),
        ({"tool_choice": {"type": "auto"}}, "only be set together with tools"),
        ({**TOOLS, "tool_choice": {"type": "tool", "name": "sub"}}, "there is no tool 'sub'"),
        ({"messages": round_of("t1")}, "with tool_use blocks must define tools"),
        (
            {"messages": [USER, {"role": "assistant", "content": "I say "}]},
            "cannot end in white space",
        ),
    ],
    "/v1/chat/completions": [
        ({"messages": [USER, {"role": "assistant"}]}, "must not be null"),
        ({"tool_choice": "auto"}, "tool_choice: this is only allowed when"),
        ({"parallel_tool_calls": True}, "parallel_tool_calls: this is only"),
        (
            {"max_tokens": 1, "max_completion_tokens": 1},
            "cannot be set together with max_completion_tokens",
        ),
        ({"messages": [USER, chat_call("c" * 41)]}, "longer than 40"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", **STRICT}}]},
            "tools.0.function.parameters.properties.v: a strict schema must have a type",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "add", "parameters": []}}]},
            "tools.0.function.parameters: ",
        ),
        ({"messages": [USER, chat_call("c1")]}, "role tool: c1"),
        ({"messages": [chat_call("c1"), USER]}, "role tool: c1"),
        (
            {"messages": [USER, {"role": "tool", "tool_call_id": "c9", "content": ""}]},
            "'c9' belongs to no call",
        ),
        ({"messages": [USER, chat_call("c1", {})]}, "that are a text"),
        (
            {"messages": [USER, chat_call("c1", name="a.b")]},
            "messages.1.tool_calls.0.function.name: ",
        ),
    ],
    "/v1/responses": [
        (
            {"tools": [{"type": "function", "name": "f", **STRICT}]},
            "tools.0.parameters.properties.v: a strict schema must have a type",
        ),
        (
            {"input": [OUTPUT, response_call()]},
            "input.0: no function call found for the output with call_id 'c1'",
        ),
        (
            {"input": [response_call(), OUTPUT, OUTPUT]},
            "input.2: there is an output for the call 'c1' already",
        ),
        ({"input": [USER, {**REASONING, "status": None}, SAID]}, "input.1.status: "),
        (
            {"tools": [{"type": "function", "name": "add", "parameters": {}}]},
            "tools.0.parameters: ",
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "c9", "output": ""}]},
            "no function call found for the output with call_id 'c9'",
        ),
        (
            {
                "previous_response_id": "resp_mock_1",
                "input": [{"type": "function_call_output", "call_id": "c9", "output": ""}],
            },
            "no function call found for the output with call_id 'c9'",
        ),
        (
            {
                "input": [
                    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
                ]
            },
            "no output found for the function call 'c1'",
        ),
        (
            {"input": [{"type": "function_call", "call_id": "c1", "name": "add", "arguments": {}}]},
            "input.0.arguments: must be a text",
        ),
        ({"input": [response_call(call_id="c" * 65)]}, "input.0.call_id: "),
        ({"input": [response_call(name="a.b")]}, "input.0.name: "),
        (
            {"input": [USER, REASONING, USER]},
            "input.1: a reasoning item was provided without its required following item",
        ),
        (
            {"input": [USER, {**REASONING, "encrypted_content": "made up"}, SAID]},
            "input.1: the encrypted content could not be verified",
        ),
        (
            {"store": False, "input": [USER, {**REASONING, "encrypted_content": None}, SAID]},
            "input.1: this item was not found",
        ),
    ],
}


@pytest.mark.parametrize(
    ("path", "change", "problem"),
    [(path, *row) for path, rows in REFUSED.items() for row in rows],
)
def test_what_a_provider_refuses_is_refused(
    path: str, change: dict[str, Any], problem: str
) -> None:
    with strict_provider([SCRIPT]) as provider:
        status, _, body = post(provider, path, {**BODIES[path], **change})
        assert status == 400
        assert problem in json.loads(body)["error"]["message"]
        with pytest.raises(UsageError, match=re.escape(problem)):
            provider.check()
        assert post(provider, path)[0] == 200, "it used no reply"


def test_a_budget_for_thinking_between_calls_may_be_more_than_one_answer_has() -> None:
    headers = {**HEADERS, "anthropic-beta": "interleaved-thinking-2025-05-14"}
    sent = {**BODIES["/v1/messages"], **THINKING, "max_tokens": 512}
    with strict_provider(SCRIPT) as provider:
        assert post(provider, "/v1/messages", sent, headers=headers)[0] == 200


@pytest.mark.parametrize("odd", [None, 1, [], {}, [{}], {"a": []}])
def test_values_of_any_type_are_refused_or_taken_but_harm_nobody(odd: object) -> None:
    block = {"type": "tool_use", "id": odd, "name": odd, "input": odd}
    thought = {"type": "thinking", "thinking": odd, "signature": odd}
    function = {"id": odd, "type": "function", "function": odd}
    message = {"role": "assistant", "content": odd, "reasoning_content": odd}
    reasoning = {"type": "reasoning", "id": odd, "summary": odd, "encrypted_content": odd}
    called = {"type": "function_call", "call_id": "call_mock_1_2", "arguments": odd}
    bodies: dict[str, dict[str, Any]] = {
        "/v1/messages": {"messages": [USER, says("assistant", thought, block, block)]},
        "/v1/chat/completions": {"messages": [USER, message, {**message, "tool_calls": odd}]},
        "/v1/responses": {"input": [USER, reasoning, called, reasoning]},
    }
    calls = {"messages": [USER, {**message, "tool_calls": [function]}]}
    with strict_provider(SCRIPT) as provider:
        for path in ROUTES:
            assert post(provider, path)[0] == 200
            assert post(provider, path, {**BODIES[path], **bodies[path]})[0] in (200, 400)
        assert post(provider, ROUTES[1], {**BODIES[ROUTES[1]], **calls})[0] == 400
        for path in ROUTES:
            change = {"tools": odd, "tool_choice": odd, "thinking": odd, "max_tokens": 9}
            assert post(provider, path, {**BODIES[path], **change})[0] in (200, 400)
        strict = {**STRICT, "parameters": {**STRICT["parameters"], "required": odd}}
        tools = {"tools": [{"type": "function", "function": {"name": "f", **strict}}]}
        assert post(provider, ROUTES[1], {**BODIES[ROUTES[1]], **tools})[0] == 400


def test_what_is_right_is_served() -> None:
    tools = {
        "/v1/messages": [
            {"name": "add", "input_schema": SCHEMA},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "/v1/chat/completions": [
            {"type": "function", "function": {"name": "add", "parameters": SCHEMA}},
            {"type": "function", "function": {"name": "now"}},
            {"type": "custom", "custom": {"name": "free"}},
        ],
        "/v1/responses": [
            {"type": "function", "name": "add", "parameters": SCHEMA, "strict": False},
            {"type": "web_search"},
        ],
    }
    with strict_provider(SCRIPT) as provider:
        for path in ROUTES:
            assert post(provider, path, {**BODIES[path], "tools": tools[path]})[0] == 200
        assert post(provider, "/v1/responses", {"model": "m", "input": "hi"})[0] == 200
        assert post(provider, f"{ROUTES[0]}?beta=true", BODIES[ROUTES[0]])[0] == 200
        provider.check()


@pytest.mark.parametrize(
    "change",
    [
        {**THINKING, "temperature": 1, "top_p": 0.95, "tool_choice": {"type": "auto"}},
        {**TOOLS, "tool_choice": {"type": "tool", "name": "add"}, "temperature": 0.2},
        {**TOOLS, "messages": [*round_of("t1")[:2], says("user", result("t1"), TEXT)]},
        {**THINKING, "messages": [USER, says("assistant", TEXT), USER]},
        {"messages": [USER, says("assistant", {"type": "text", "text": "I say"})]},
    ],
)
def test_settings_that_go_together_are_served(change: dict[str, Any]) -> None:
    with strict_provider(SCRIPT) as provider:
        assert post(provider, ROUTES[0], {**BODIES[ROUTES[0]], **change})[0] == 200
