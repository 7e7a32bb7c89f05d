"""Requests to OpenAI's Responses API: every kind of part, and every setting."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from argstream import UsageError
from argstream.history import OpaquePart, TextPart, ThinkingPart
from argstream.models import OfferedTool
from argstream.testing import MockProvider, Reply
from tests.providers.requests import asking
from tests.providers.requests.asking import ADD, APIS, assistant, body, call, post, result, user
from tests.support.provider_rules import strict_provider

API = APIS["openai-responses"]
HI = user("hi")


def items(*history: Any, **more: Any) -> Any:
    return body(API, *history, **more)["input"]


def answer(*parts: Any, id_: str = "") -> Any:
    """Return the items that an answer becomes."""
    *history, last = asking.exchange(*parts, id_=id_)
    return items(*history, last)[1 : -len(last.parts)]


def message(text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content}


def test_minimal_request_stores_nothing_and_includes_encrypted_reasoning() -> None:
    assert body(API, HI, tools=()) == {
        "model": "some-model",
        "input": [message("hi")],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    assert "include" in body(API, HI, model="ft:o4-mini-2025-04-16:acme::abc")


@pytest.mark.parametrize(
    "model",
    [
        *("gpt-4o", "gpt-4.1-mini", "chatgpt-4o-latest", "ft:gpt-4.1-2025-04-14:acme::abc"),
        *("gpt-5-chat-latest", "openai/gpt-4o"),
    ],
)
def test_model_that_does_not_reason_has_no_encrypted_reasoning(model: str) -> None:
    assert "include" not in body(API, HI, model=model)


def test_settings_have_the_names_of_the_api() -> None:
    sent = body(API, HI, instructions="Be brief.", max_tokens=5, top_p=0.5, thinking="high")
    known = ("instructions", "max_output_tokens", "top_p", "reasoning")
    assert [sent[name] for name in known] == ["Be brief.", 5, 0.5, {"effort": "high"}]
    with pytest.raises(UsageError, match="stop_sequences"):
        body(API, HI, stop_sequences=("END",))


def test_tool_is_flat() -> None:
    tool = {"type": "function", "name": "add", "description": "Adds two numbers."}
    expected = {**tool, "parameters": ADD.schema, "strict": False}
    assert body(API, HI)["tools"] == [expected]


@pytest.fixture(scope="module")
def provider() -> Iterator[MockProvider]:
    """A provider that checks schemas with rules of its own."""
    with strict_provider(Reply("Hi.")) as provider:
        yield provider


CLOSED = {"additionalProperties": False, "properties": {}}
STRING = {"type": "string"}


def with_value(value: Any, *required: str) -> dict[str, Any]:
    common = {"type": "object", "$defs": {"A": {"type": "integer"}}}
    return {**common, **CLOSED, "properties": {"v": value}, "required": list(required)}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        *((CLOSED, True), ({"properties": {}}, False), ({**CLOSED, "anyOf": [{}]}, False)),
        *((with_value(STRING), False), (with_value({**STRING, "format": "email"}, "v"), False)),
    ],
)
def test_only_a_closed_schema_is_strict(schema: Any, strict: bool) -> None:
    tool = OfferedTool(name="f", schema=schema)
    assert body(API, HI, tools=[tool])["tools"][0]["strict"] is strict


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"strict": True}, {"strict": True}),
        ({"defer_loading": True}, {"defer_loading": True}),
        (
            {"allowed_callers": ("direct", "programmatic", "code_execution_20260120")},
            {"allowed_callers": ["direct", "programmatic"]},
        ),
        ({"input_examples": ({},), "eager_input_streaming": True}, {}),
    ],
)
def test_tool_options_have_the_names_of_the_api(options: Any, sent: Any) -> None:
    tool = OfferedTool(name="f", schema={"properties": {}}, **options)
    [found] = body(API, HI, tools=[tool])["tools"]
    assert found == {
        "type": "function",
        "name": "f",
        "description": "",
        "strict": False,
        "parameters": {"type": "object", "properties": {}},
        **sent,
    }
    closed = OfferedTool(name="f", schema=CLOSED, strict=False)
    assert body(API, HI, tools=[closed])["tools"][0]["strict"] is False


@pytest.mark.parametrize(
    ("value", "strict"),
    [
        *(
            ({"type": "string", "description": "Where."}, True),
            ({"type": ["string", "null"]}, True),
        ),
        *(({"anyOf": [STRING, {"type": "null"}]}, True), ({"$ref": "#/$defs/A"}, True)),
        *(({"type": "string", "enum": ["a"]}, True), ({"type": "array", "items": STRING}, True)),
        ({"type": "object", "properties": {}}, False),
        ({"anyOf": [{"type": "null"}, {"type": "array"}]}, False),
        *(({}, False), ({"title": "V"}, False), ({"enum": ["a"]}, False), ({"const": 1}, False)),
        ({"$ref": "#/$defs/A", "description": "Where."}, False),
        *(({"anyOf": [STRING, {}]}, False), ({"type": "array", "items": {}}, False)),
        *(({"type": ["array", "null"]}, False), ({"type": ["object", "null"]}, False)),
    ],
)
def test_strict_schema_needs_types(provider: MockProvider, value: Any, strict: bool) -> None:
    sent = body(API, HI, tools=[OfferedTool(name="f", schema=with_value(value, "v"))])
    assert sent["tools"][0]["strict"] is strict
    sent["tools"][0]["strict"] = True
    if strict:
        assert post(provider, API, sent)
    else:
        with pytest.raises(asking.Refused, match="strict"):
            post(provider, API, sent)


SUMMARY = [{"type": "summary_text", "text": "Hm – é"}]
REASONING = {"id": "rs_1", "type": "reasoning", "summary": SUMMARY, "encrypted_content": "gAAA"}
PLAIN = {"id": "rs", "type": "reasoning", "summary": [], "content": [{"text": "hm"}]}
CONTENT = [{"type": "output_text", "annotations": [], "logprobs": [], "text": "So."}]
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "phase": "commentary",
    "content": CONTENT,
}
FUNCTION = {"type": "function_call", "status": "completed", "call_id": "call_1", "name": "add"}
WITH_ID = {"id": "fc_1", **FUNCTION}
SENT = {**FUNCTION, "arguments": '{"a": 1}'}
THOUGHT = ThinkingPart(text="Hm – é", item=REASONING)
LOST = ThinkingPart(text="Hm", item={**REASONING, "encrypted_content": None})
SAID = TextPart(text="So.", item=MESSAGE)
CALL = call(call_id="call_1", item=WITH_ID)
TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}, "caller": {}}
OTHER_CALL = {"type": "function_call", "call_id": "toolu_1", "name": "add", "arguments": '{"a": 1}'}
MCP = {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "output": "2"}
CODE = {"type": "code_interpreter_call", "id": "ci_1", "outputs": None}


def plain(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text}


ANSWERS: dict[str, tuple[list[Any], list[Any]]] = {
    "items of OpenAI": ([THOUGHT, SAID, CALL], [REASONING, MESSAGE, {"id": "fc_1", **SENT}]),
    "reasoning without encryption": ([ThinkingPart(text="hm", item=PLAIN), SAID], [PLAIN, MESSAGE]),
    # The API refuses a thought that nothing follows.
    "thought at the end": ([SAID, THOUGHT], [MESSAGE]),
    "thought alone": ([THOUGHT], []),
    # The API would look for the thought by the ID of the item after it.
    "items after a lost thought": ([LOST, SAID, CALL], [plain("So."), SENT]),
    **{
        f"thought {item}": ([ThinkingPart(text="hm", item=item), SAID], [MESSAGE])
        for item in (
            None,
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"field": "reasoning_content"},
            {**REASONING, "index": 0},  # LangChain's copy
        )
    },
    **{
        f"text {item}": ([TextPart(text="A", item=item)], [plain("A")])
        for item in (
            None,
            {"type": "text", "text": "A", "citations": [{}]},
            {"type": "message", "object": "realtime.item", "content": []},
            {"type": "message", "content": [{"type": "output_audio"}]},
        )
    },
    "call of another API": ([call(item=TOOL_USE)], [OTHER_CALL]),
    "MCP call": (
        [call(call_id="mcp_1", kind="mcp", item=MCP), result("2", "mcp_1"), SAID],
        [{**MCP, "arguments": '{"a": 1}'}, MESSAGE],
    ),
    "code": (
        [
            call("x = 1", call_id="ci_1", kind="code", arguments="x = 1", item=CODE),
            *(result("2", "ci_1"), SAID),
        ],
        [{**CODE, "code": "x = 1"}, MESSAGE],
    ),
    "server call of another API": (
        [call(call_id="srvtoolu_1", kind="server"), result(1, "srvtoolu_1"), SAID],
        [MESSAGE],
    ),
}


@pytest.mark.parametrize(("parts", "sent"), ANSWERS.values(), ids=ANSWERS)
def test_answer_becomes_items(parts: list[Any], sent: list[Any]) -> None:
    assert answer(*parts) == sent


def test_incomplete_call_is_sent_as_json() -> None:
    (sent,) = answer(call('{"a', verdict="truncated"))
    assert json.loads(sent["arguments"]) == {"INVALID_JSON": '{"a'}


def test_unknown_items_go_back_only_to_openai() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    new = {"type": "item_of_next_year", "id": "x"}
    other = {"type": "compaction", "content": "of Anthropic"}
    parts = [OpaquePart(item=item) for item in (search, new, other)]
    assert answer(*parts, SAID, id_="resp_1") == [search, new, MESSAGE]
    assert answer(*parts, SAID) == [search, MESSAGE]


def test_results_come_before_the_text() -> None:
    output = {"type": "function_call_output", "call_id": "call_1", "output": "(no output)"}
    found = items(HI, assistant(CALL), user("And?", result("", "call_1")))
    assert found[2:] == [output, message("And?")]
    failed = result({"why": "no"}, "call_1", failed=True)
    assert items(HI, assistant(CALL), user(failed))[-1]["output"] == 'Error: {"why":"no"}'


def sent_and_output(part: Any, **fields: Any) -> Any:
    return items(HI, assistant(part), user(result(2, "call_1", **fields)))[1:]


def test_result_of_a_program_has_its_caller() -> None:
    caller = {"type": "program", "caller_id": "p1"}
    part = call(call_id="call_1", item={**WITH_ID, "caller": caller})
    assert sent_and_output(part)[1]["caller"] == caller


def test_custom_tool_has_its_text_and_its_own_kind_of_result() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "add"}
    for kept in (item, None):
        part = call("x = 1", call_id="call_1", kind="custom", arguments="x = 1", item=kept)
        sent, output = sent_and_output(part)
        assert (sent["type"], sent["input"]) == ("custom_tool_call", "x = 1")
        assert output["type"] == "custom_tool_call_output"


@pytest.mark.parametrize(("failed", "status"), [(False, "completed"), (True, "failed")])
def test_result_of_a_patch_has_a_status(failed: bool, status: str) -> None:
    operation = {"type": "delete_file", "path": "a"}
    item = {"type": "apply_patch_call", "id": "p", "call_id": "call_1", "status": "completed"}
    part = call(call_id="call_1", kind="patch", name="apply_patch", arguments=operation, item=item)
    sent, output = sent_and_output(part, failed=failed)
    assert sent == {**item, "operation": operation}
    assert (output["type"], output["status"]) == ("apply_patch_call_output", status)


@pytest.mark.parametrize(("type_", "keeps_id"), [("shell_call", False), ("local_shell_call", True)])
def test_item_after_a_lost_thought_keeps_a_required_id(type_: str, keeps_id: bool) -> None:
    item = {"type": type_, "id": "i", "call_id": "call_1", "action": {}}
    part = call(call_id="call_1", kind="client", name="shell", arguments={}, item=item)
    assert ("id" in answer(LOST, part)[0]) is keeps_id


def test_pictures_and_outputs_of_the_user_are_sent() -> None:
    picture = {"type": "input_image", "image_url": "x"}
    screen = {"type": "computer_call_output", "call_id": "c", "output": {}}
    found = items(user("See:", OpaquePart(item=picture), OpaquePart(item=screen)))
    assert found[0] == screen
    assert found[1]["content"] == [{"type": "input_text", "text": "See:"}, picture]
