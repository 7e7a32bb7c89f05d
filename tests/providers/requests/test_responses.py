"""A request to OpenAI's Responses API: every kind of part, and every setting."""

import json
from typing import Any

import pytest

from argstream import UsageError
from argstream.history import CallPart, OpaquePart, ResultPart, TextPart, ThinkingPart
from argstream.models import OfferedTool
from argstream.testing import Reply
from tests.providers.requests.asking import (
    ADD,
    APIS,
    Refused,
    assistant,
    body,
    call,
    post,
    result,
    user,
)
from tests.support.provider_rules import strict_provider

API = APIS["openai-responses"]
REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Hm – é"}],
    "encrypted_content": "gAAA",
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "phase": "commentary",
    "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "So."}],
}
FUNCTION = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "add",
}
THOUGHT = ThinkingPart(text="Hm – é", item=REASONING)
SAID = TextPart(text="So.", item=MESSAGE)
CALL = call(call_id="call_1", item=FUNCTION)


def items(*history: Any, **more: Any) -> Any:
    return body(API, *history, **more)["input"]


def answer(*parts: Any, id_: str = "") -> Any:
    """What becomes of an answer, with a result for each of its calls that we run."""
    said = assistant(*parts, id_=id_)
    calls = [part for part in said.parts if isinstance(part, CallPart)]
    own = [part for part in calls if part.kind not in ("server", "mcp", "code")]
    results = [result(call_id=part.call_id) for part in own]
    return items(user("hi"), said, user("so?", *results))[1 : -1 - len(results)]


def test_the_least_request_stores_nothing_and_asks_for_what_is_encrypted() -> None:
    assert body(API, user("hi"), tools=()) == {
        "model": "some-model",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
        ],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


@pytest.mark.parametrize(
    "model",
    [
        "gpt-4o",
        "gpt-4.1-mini",
        "chatgpt-4o-latest",
        "ft:gpt-4.1-2025-04-14:acme::abc",
        "gpt-5-chat-latest",
        "openai/gpt-4o",
    ],
)
def test_a_model_that_does_not_reason_is_not_asked_for_what_it_would_encrypt(model: str) -> None:
    assert "include" not in body(API, user("hi"), model=model)
    assert "include" in body(API, user("hi"), model="ft:o4-mini-2025-04-16:acme::abc")


def test_settings_are_called_what_the_api_calls_them() -> None:
    sent = body(API, user("hi"), instructions="Be brief.", max_tokens=5, top_p=0.5, thinking="high")
    known = ("instructions", "max_output_tokens", "top_p", "reasoning")
    assert [sent[name] for name in known] == ["Be brief.", 5, 0.5, {"effort": "high"}]


def test_stop_sequences_are_refused_since_there_are_none() -> None:
    with pytest.raises(UsageError, match="stop_sequences"):
        body(API, user("hi"), stop_sequences=("END",))


class TestTools:
    def test_a_tool_is_flat_and_says_whether_it_is_strict(self) -> None:
        assert body(API, user("hi"))["tools"] == [
            {
                "type": "function",
                "name": "add",
                "description": "Adds two numbers.",
                "parameters": ADD.schema,
                "strict": False,
            }
        ]

    @pytest.mark.parametrize(
        ("schema", "strict"),
        [
            ({"additionalProperties": False, "properties": {}}, True),
            ({"properties": {}}, False),
            ({"additionalProperties": False, "properties": {}, "anyOf": [{}]}, False),
            ({"additionalProperties": False, "properties": {"a": {"type": "string"}}}, False),
            (
                {
                    "additionalProperties": False,
                    "required": ["a"],
                    "properties": {"a": {"type": "string", "format": "email"}},
                },
                False,
            ),
        ],
    )
    def test_only_a_schema_that_says_all_is_strict(self, schema: Any, strict: bool) -> None:
        tool = OfferedTool(name="f", schema=schema)
        assert body(API, user("hi"), tools=[tool])["tools"][0]["strict"] is strict

    @pytest.mark.parametrize(
        ("value", "strict"),
        [
            ({"type": "string", "description": "Where."}, True),
            ({"type": ["string", "null"]}, True),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
            ({"$ref": "#/$defs/A"}, True),
            ({"type": "string", "enum": ["a"]}, True),
            ({"type": "array", "items": {"type": "string"}}, True),
            ({"type": "object", "properties": {}}, False),
            ({"anyOf": [{"type": "null"}, {"type": "array"}]}, False),
            ({}, False),
            ({"title": "V"}, False),
            ({"enum": ["a"]}, False),
            ({"const": 1}, False),
            ({"$ref": "#/$defs/A", "description": "Where."}, False),
            ({"anyOf": [{"type": "string"}, {}]}, False),
            ({"type": "array", "items": {}}, False),
            ({"type": ["array", "null"]}, False),
            ({"type": ["object", "null"]}, False),
        ],
    )
    def test_every_value_of_a_strict_schema_has_a_type(self, value: Any, strict: bool) -> None:
        schema = {
            "type": "object",
            "properties": {"v": value},
            "required": ["v"],
            "additionalProperties": False,
            "$defs": {"A": {"type": "integer"}},
        }
        sent = body(API, user("hi"), tools=[OfferedTool(name="f", schema=schema)])
        assert sent["tools"][0]["strict"] is strict
        sent["tools"][0]["strict"] = True
        with strict_provider(Reply("Hi.")) as provider:  # which has its own mind of it
            if strict:
                assert post(provider, API, sent)
            else:
                with pytest.raises(Refused, match="strict"):
                    post(provider, API, sent)

    @pytest.mark.parametrize(
        ("given", "choice"),
        [
            (None, None),
            ("auto", "auto"),
            ("none", "none"),
            ("any", "required"),
            ("add", {"type": "function", "name": "add"}),
        ],
    )
    def test_whether_tools_are_called_is_told(self, given: Any, choice: object) -> None:
        sent = body(API, user("hi"), tool_choice=given, parallel_tool_calls=False)
        assert sent.get("tool_choice") == choice
        assert sent["parallel_tool_calls"] is False


class TestWhatTheModelSaid:
    def test_items_go_back_as_they_came(self) -> None:
        sent = {**FUNCTION, "arguments": '{"a": 1}'}
        assert answer(THOUGHT, SAID, CALL) == [REASONING, MESSAGE, sent]
        plain = {"id": "rs", "type": "reasoning", "summary": [], "content": [{"text": "hm"}]}
        assert answer(ThinkingPart(text="hm", item=plain), SAID) == [plain, MESSAGE]

    def test_a_thought_that_led_to_nothing_is_left_out(self) -> None:
        """The API would refuse it: it was cut before what must follow."""
        assert answer(SAID, THOUGHT) == [MESSAGE]
        assert answer(THOUGHT) == []

    def test_what_follows_a_thought_that_cannot_go_back_has_no_id(self) -> None:
        """The API would look for the thought."""
        lost = {**REASONING, "encrypted_content": None}
        assert answer(ThinkingPart(text="Hm", item=lost), SAID, CALL) == [
            {"type": "message", "role": "assistant", "content": "So."},
            {
                "type": "function_call",
                "status": "completed",
                "call_id": "call_1",
                "name": "add",
                "arguments": '{"a": 1}',
            },
        ]

    @pytest.mark.parametrize(
        "item",
        [
            None,
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"field": "reasoning_content"},
            {**REASONING, "index": 0},  # LangChain's copy
        ],
    )
    def test_thoughts_of_others_are_left_out(self, item: Any) -> None:
        assert answer(ThinkingPart(text="hm", item=item), SAID) == [MESSAGE]

    @pytest.mark.parametrize(
        "item",
        [
            None,
            {"type": "text", "text": "A", "citations": [{}]},
            {"type": "message", "object": "realtime.item", "content": []},
            {"type": "message", "content": [{"type": "output_audio"}]},
        ],
    )
    def test_text_of_others_is_kept(self, item: Any) -> None:
        assert answer(TextPart(text="A", item=item)) == [
            {"type": "message", "role": "assistant", "content": "A"}
        ]

    def test_a_call_of_others_has_what_a_call_needs(self) -> None:
        item = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}, "caller": {}}
        assert answer(call(item=item)) == [
            {"type": "function_call", "call_id": "toolu_1", "name": "add", "arguments": '{"a": 1}'}
        ]

    def test_a_call_that_is_not_complete_is_told_in_json(self) -> None:
        (sent,) = answer(call('{"a', verdict="truncated"))
        assert json.loads(sent["arguments"]) == {"INVALID_JSON": '{"a'}

    @pytest.mark.parametrize(
        ("part", "sent"),
        [
            (
                call(
                    call_id="mcp_1",
                    kind="mcp",
                    item={"type": "mcp_call", "id": "mcp_1", "server_label": "s", "output": "2"},
                ),
                {
                    "type": "mcp_call",
                    "id": "mcp_1",
                    "server_label": "s",
                    "output": "2",
                    "arguments": '{"a": 1}',
                },
            ),
            (
                call(
                    "x = 1",
                    call_id="ci_1",
                    kind="code",
                    arguments="x = 1",
                    item={"type": "code_interpreter_call", "id": "ci_1", "outputs": None},
                ),
                {"type": "code_interpreter_call", "id": "ci_1", "outputs": None, "code": "x = 1"},
            ),
        ],
    )
    def test_what_openai_ran_goes_back_with_its_result(self, part: CallPart, sent: Any) -> None:
        told = ResultPart(call_id=part.call_id, result="2")
        assert answer(part, told, SAID) == [sent, MESSAGE]

    def test_what_others_ran_is_left_out(self) -> None:
        search = call(call_id="srvtoolu_1", kind="server")
        assert answer(search, ResultPart(call_id="srvtoolu_1", result=1), SAID) == [MESSAGE]

    def test_what_only_openai_understands_goes_back_to_it_alone(self) -> None:
        search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
        new = {"type": "item_of_next_year", "id": "x"}
        other = {"type": "compaction", "content": "of Anthropic"}
        parts = [OpaquePart(item=item) for item in (search, new, other)]
        assert answer(*parts, SAID, id_="resp_1") == [search, new, MESSAGE]
        assert answer(*parts, SAID) == [search, MESSAGE]


class TestResults:
    def test_results_come_before_what_the_user_says(self) -> None:
        found = items(user("hi"), assistant(CALL), user("And?", result("", "call_1")))
        assert found[2:] == [
            {"type": "function_call_output", "call_id": "call_1", "output": "(no output)"},
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "And?"}],
            },
        ]

    def test_a_failure_is_told_in_words(self) -> None:
        failed = result({"why": "no"}, "call_1", failed=True)
        assert items(user("hi"), assistant(CALL), user(failed))[-1]["output"] == (
            'Error: {"why":"no"}'
        )

    def test_the_result_of_a_program_says_who_called(self) -> None:
        caller = {"type": "program", "caller_id": "p1"}
        part = call(call_id="call_1", item={**FUNCTION, "caller": caller})
        assert items(user("hi"), assistant(part), user(result(2, "call_1")))[-1]["caller"] == caller

    def test_a_custom_tool_has_its_text_and_its_own_kind_of_result(self) -> None:
        item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "add"}
        for kept in (item, None):
            part = call("x = 1", call_id="call_1", kind="custom", arguments="x = 1", item=kept)
            sent, told = items(user("hi"), assistant(part), user(result(2, "call_1")))[1:]
            assert (sent["type"], sent["input"]) == ("custom_tool_call", "x = 1")
            assert told["type"] == "custom_tool_call_output"

    @pytest.mark.parametrize(("failed", "status"), [(False, "completed"), (True, "failed")])
    def test_a_patch_says_whether_it_could_be_made(self, failed: bool, status: str) -> None:
        operation = {"type": "delete_file", "path": "a"}
        item = {"type": "apply_patch_call", "id": "p", "call_id": "call_1", "status": "completed"}
        part = call(
            call_id="call_1", kind="patch", name="apply_patch", arguments=operation, item=item
        )
        told = user(result("done", "call_1", failed=failed))
        sent, output = items(user("hi"), assistant(part), told)[1:]
        assert sent == {**item, "operation": operation}
        assert (output["type"], output["status"]) == ("apply_patch_call_output", status)

    @pytest.mark.parametrize(
        ("type_", "keeps_id"), [("shell_call", False), ("local_shell_call", True)]
    )
    def test_item_keeps_an_id_that_the_api_requires_though_its_thought_is_lost(
        self, type_: str, *, keeps_id: bool
    ) -> None:
        item = {"type": type_, "id": "i", "call_id": "call_1", "action": {}}
        part = call(call_id="call_1", kind="client", name="shell", arguments={}, item=item)
        lost = ThinkingPart(text="", item={"type": "reasoning", "id": "rs_1", "summary": []})
        sent = items(user("hi"), assistant(lost, part), user(result("", "call_1")))[1]
        assert ("id" in sent) is keeps_id

    def test_a_picture_of_a_user_and_what_answers_an_item_are_sent(self) -> None:
        picture = {"type": "input_image", "image_url": "x"}
        screen = {"type": "computer_call_output", "call_id": "c", "output": {}}
        found = items(user("See:", OpaquePart(item=picture), OpaquePart(item=screen)))
        assert found[0] == screen
        assert found[1]["content"] == [{"type": "input_text", "text": "See:"}, picture]
