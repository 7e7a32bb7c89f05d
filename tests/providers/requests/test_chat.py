"""A request to a server of Chat Completions: every kind of part, every setting, and habits."""

import json
import re
from typing import Any

import pytest

from argstream import UsageError
from argstream.history import CallPart, OpaquePart, ResultPart, ThinkingPart
from argstream.models import OfferedTool
from argstream.providers.openai_requests import CHAT_HABITS, ChatApi
from tests.providers.requests.asking import ADD, APIS, Api, assistant, body, call, result, user

API = APIS["openai-chat"]


def messages(*history: Any, api: Api = API, **more: Any) -> Any:
    return body(api, *history, **more)["messages"]


def answer(*parts: Any, api: Api = API) -> Any:
    """What becomes of an answer, with a result for each of its calls."""
    said = assistant(*parts)
    calls = [part for part in said.parts if isinstance(part, CallPart)]
    results = [result(call_id=part.call_id) for part in calls]
    found = messages(user("hi"), said, user("so?", *results), api=api)
    return next((one for one in found if one["role"] == "assistant"), None)


def arguments(part: CallPart) -> str:
    sent: str = answer(part)["tool_calls"][0]["function"]["arguments"]
    return sent


def test_the_least_request_has_what_the_api_wants() -> None:
    assert body(API, user("hi"), tools=()) == {
        "model": "some-model",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_settings_are_called_what_the_api_calls_them() -> None:
    settings: dict[str, Any] = {"max_tokens": 5, "temperature": 0.5, "stop_sequences": ("END",)}
    sent = body(API, user("hi"), instructions="Be brief.", thinking="low", **settings)
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    known = ("max_tokens", "temperature", "stop", "reasoning_effort")
    assert [sent[name] for name in known] == [5, 0.5, ["END"], "low"]


class TestTools:
    def test_a_tool_is_a_function(self) -> None:
        bare = OfferedTool(name="now", schema={})
        assert body(API, user("hi"), tools=[ADD, bare])["tools"] == [
            {
                "type": "function",
                "function": {
                    "name": "add",
                    "description": "Adds two numbers.",
                    "parameters": ADD.schema,
                },
            },
            {
                "type": "function",
                "function": {"name": "now", "parameters": {"type": "object", "properties": {}}},
            },
        ]

    @pytest.mark.parametrize(
        ("given", "choice"),
        [
            (None, None),
            ("auto", "auto"),
            ("none", "none"),
            ("any", "required"),
            ("add", {"type": "function", "function": {"name": "add"}}),
        ],
    )
    def test_whether_tools_are_called_is_told(self, given: Any, choice: object) -> None:
        settings: Any = {"tool_choice": given, "parallel_tool_calls": False}
        sent = body(API, user("hi"), **settings)
        assert (sent.get("tool_choice"), sent["parallel_tool_calls"]) == (choice, False)
        assert not body(API, user("hi"), tools=(), **settings).keys() & settings.keys()


class TestThinking:
    @pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
    def test_a_thought_goes_back_in_the_field_that_it_came_in(self, field: str) -> None:
        thoughts = [ThinkingPart(text=text, item={"field": field}) for text in ("Hm. ", "So – é.")]
        found = answer(thoughts[0], "A", thoughts[1], call())
        assert found[field] == "Hm. So – é."
        assert found["content"] == "A"

    def test_details_go_back_as_they_came(self) -> None:
        details = [{"type": "reasoning.encrypted", "data": "x", "index": 0}]
        kept = {"reasoning_details": details}
        assert answer(ThinkingPart(text="hm", item=kept), "A")["reasoning_details"] == details
        assert answer(OpaquePart(item=kept), "A")["reasoning_details"] == details
        assert "reasoning" not in answer(ThinkingPart(text="hm", item=kept), "A")

    @pytest.mark.parametrize(
        "item",
        [
            None,
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        ],
    )
    def test_thoughts_of_others_are_left_out(self, item: Any) -> None:
        found = answer(ThinkingPart(text="hm", item=item), "A")
        assert found == {"role": "assistant", "content": "A"}

    def test_a_message_that_has_only_a_thought_is_left_out(self) -> None:
        assert answer(ThinkingPart(text="hm", item={"field": "reasoning_content"})) is None


class TestCalls:
    def test_a_call_has_exactly_the_text_that_came(self) -> None:
        assert answer("I add.", call(' {"a":1} ')) == {
            "role": "assistant",
            "content": "I add.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "add", "arguments": ' {"a":1} '},
                }
            ],
        }
        assert answer(call())["content"] is None

    @pytest.mark.parametrize(
        "raw", ["", "null", '"{\\"a\\": 1}"', '{}{"a": 1}', '{"a"{"a":1}', '{"a": 2}']
    )
    def test_a_text_that_was_meant_in_another_way_is_written_as_it_was_meant(
        self, raw: str
    ) -> None:
        assert arguments(call(raw)) == '{"a":1}'

    @pytest.mark.parametrize("raw", ["", '{"a', "no JSON", '{"a": 1}'])
    def test_a_call_that_is_not_complete_is_told_in_json(self, raw: str) -> None:
        assert json.loads(arguments(call(raw, verdict="rejected"))) == {"INVALID_JSON": raw}

    def test_what_must_go_back_with_a_call_does(self) -> None:
        kept = {"extra_content": {"google": {"thought_signature": "s"}}, "id": "late"}
        (sent,) = answer(call(item=kept))["tool_calls"]
        assert sent["extra_content"] == kept["extra_content"]
        assert sent["id"] == "late"

    def test_a_custom_tool_has_its_text(self) -> None:
        custom = call("x = 1", kind="custom", arguments="x = 1")
        (sent,) = answer(custom)["tool_calls"]
        assert sent == {"id": "c1", "type": "custom", "custom": {"name": "add", "input": "x = 1"}}
        item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "add"}
        other = call("x = 1", kind="custom", arguments="x = 1", item=item)  # of another API
        assert arguments(other) == '{"input":"x = 1"}'

    def test_what_a_provider_ran_is_left_out(self) -> None:
        ran = call(call_id="srvtoolu_1", kind="server")
        found = messages(
            user("hi"), assistant(ran, ResultPart(call_id="srvtoolu_1", result=1), "A")
        )
        assert found[1] == {"role": "assistant", "content": "A"}


class TestResults:
    def test_each_result_is_a_message_before_what_the_user_says(self) -> None:
        calls = assistant(call(), call(call_id="c2"))
        results = [result({"b": 2}, "c2"), result("", "c1")]
        assert messages(user("hi"), calls, user("And?", *results))[2:] == [
            {"role": "tool", "tool_call_id": "c2", "content": '{"b":2}'},
            {"role": "tool", "tool_call_id": "c1", "content": "(no output)"},
            {"role": "user", "content": "And?"},
        ]

    def test_a_failure_is_told_in_words(self) -> None:
        failed = user(result("no such file", failed=True, note="It was tried twice."))
        found = messages(user("hi"), assistant(call()), failed)[-1]["content"]
        assert found == "Error: It was tried twice.\n\nno such file"

    def test_a_result_goes_back_under_the_id_that_the_provider_gave(self) -> None:
        odd = [assistant(call(item={"id": "functions.add:0"})), user(result())]
        found = messages(user("hi"), *odd, *odd)
        assert [one["tool_call_id"] for one in found if one["role"] == "tool"] == (
            ["functions.add:0"] * 2
        )

    def test_two_calls_of_one_turn_have_two_ids(self) -> None:
        twice = [call(call_id=id_, item={"id": "same"}) for id_ in ("c1", "c2")]
        results = [result(n, id_) for n, id_ in enumerate(("c1", "c2"))]
        found = messages(user("hi"), assistant(*twice), user(*results))
        ids = [one["id"] for one in found[1]["tool_calls"]]
        assert ids[0] == "same"
        assert len(set(ids)) == 2
        assert [one["tool_call_id"] for one in found[2:]] == ids


class TestAlternation:
    def test_neighbours_of_one_role_are_one_message(self) -> None:
        told = messages(user("a", "b"), user("c"), assistant("d", "e"), assistant("f"), user("g"))
        assert [(one["role"], one["content"]) for one in told] == [
            ("user", "a\n\nb\n\nc"),
            ("assistant", "de\n\nf"),
            ("user", "g"),
        ]

    def test_what_cannot_be_sent_leaves_no_gap(self) -> None:
        foreign = assistant(ThinkingPart(text="hm"))
        assert messages(user("a"), foreign, user("b")) == [{"role": "user", "content": "a\n\nb"}]
        thought = ThinkingPart(text="hm", item={"field": "reasoning"})
        said = messages(
            user("a"), assistant("b"), user(""), assistant(thought, "c", call()), user(result())
        )
        assert said[1]["content"] == "b\n\nc"
        assert said[1]["reasoning"] == "hm"
        assert len(said[1]["tool_calls"]) == 1

    def test_a_picture_of_a_user_is_sent(self) -> None:
        picture = {"type": "image_url", "image_url": {"url": "x"}}
        told = messages(user("See:", OpaquePart(item=picture)), assistant(""), user("Well?"))
        assert told == [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "See:"},
                    picture,
                    {"type": "text", "text": "Well?"},
                ],
            }
        ]


class TestHabits:
    def test_openai_has_new_names_and_short_ids(self) -> None:
        api = ChatApi(CHAT_HABITS["openai"])
        sent = body(api, user("hi"), instructions="Be brief.", max_tokens=5)
        assert sent["max_completion_tokens"] == 5
        assert sent["messages"][0]["role"] == "developer"
        long = answer(call(call_id="x" * 41), api=api)
        assert len(long["tool_calls"][0]["id"]) <= 40

    @pytest.mark.parametrize("name", ["openai", "groq", "mistral"])
    def test_who_refuses_fields_gets_none(self, name: str) -> None:
        api = ChatApi(CHAT_HABITS[name])
        parts = [ThinkingPart(text="hm", item={"field": "reasoning_content"}), "A"]
        extra = call(item={"extra_content": {"x": 1}})
        found = answer(*parts, extra, api=api)
        assert found.keys() == {"role", "content", "tool_calls"}
        assert "extra_content" not in found["tool_calls"][0]

    def test_deepseek_gets_a_thought_with_every_message(self) -> None:
        api = ChatApi(CHAT_HABITS["deepseek"])
        assert answer("A", api=api)["reasoning_content"] == " "
        own = ThinkingPart(text="hm", item={"field": "reasoning_content"})
        assert answer(own, "A", api=api)["reasoning_content"] == "hm"

    def test_mistral_gets_its_own_kind_of_ids_and_order(self) -> None:
        api = ChatApi(CHAT_HABITS["mistral"])
        found = messages(user("hi"), assistant(call()), user(result(), "And?"), api=api)
        assert [one["role"] for one in found] == ["user", "assistant", "tool", "assistant", "user"]
        id_ = found[1]["tool_calls"][0]["id"]
        assert len(id_) == 9
        assert id_.isalnum()
        assert found[2]["tool_call_id"] == id_
        assert "stream_options" not in body(api, user("hi"))

    @pytest.mark.parametrize(
        ("thinking", "sent"),
        [("low", {"effort": "low"}), (3000, {"max_tokens": 3000}), (0, {"effort": "none"})],
    )
    def test_openrouter_is_told_in_an_object_how_much_to_think(
        self, thinking: Any, sent: object
    ) -> None:
        api = ChatApi(CHAT_HABITS["openrouter"])
        assert body(api, user("hi"), thinking=thinking)["reasoning"] == sent

    def test_deepseek_has_a_switch_for_thinking(self) -> None:
        api = ChatApi(CHAT_HABITS["deepseek"])
        sent = body(api, user("hi"), thinking=0)
        assert sent["thinking"] == {"type": "disabled"}
        assert "reasoning_effort" not in sent
        assert body(api, user("hi"), thinking="high")["reasoning_effort"] == "high"


class TestWhoCannotBeToldToThink:
    OPENAI = ChatApi(CHAT_HABITS["openai"])
    XAI = ChatApi(CHAT_HABITS["xai"])

    @pytest.mark.parametrize(
        "model",
        ["gpt-5.2", "gpt-5.4-mini", "gpt-5.6-sol", "gpt-5.10", "gpt-6-astra", "gpt-6.1-sol"],
    )
    def test_newer_models_of_openai_do_not_think_with_tools(self, model: str) -> None:
        assert body(self.OPENAI, user("hi"), model=model)["reasoning_effort"] == "none"
        assert body(self.OPENAI, user("hi"), model=model, thinking=0)["reasoning_effort"] == "none"
        with pytest.raises(UsageError, match=f"ask 'openai-responses:{re.escape(model)}'"):
            body(self.OPENAI, user("hi"), model=model, thinking="low")
        sent = body(self.OPENAI, user("hi"), model=model, tools=(), thinking="low")
        assert sent["reasoning_effort"] == "low"
        assert "reasoning_effort" not in body(API, user("hi"), model=model)  # which is not OpenAI's

    @pytest.mark.parametrize(
        "model",
        ["gpt-5", "gpt-5.1", "gpt-5-mini", "gpt-5.3-chat-latest", "o4-mini", "gpt-35-turbo"],
    )
    def test_others_are_told_what_was_asked_for(self, model: str) -> None:
        assert "reasoning_effort" not in body(self.OPENAI, user("hi"), model=model)
        sent = body(self.OPENAI, user("hi"), model=model, thinking="low")
        assert sent["reasoning_effort"] == "low"

    @pytest.mark.parametrize(
        ("model", "effort"),
        [
            ("gpt-5", "minimal"),
            ("gpt-5-mini-2025-08-07", "minimal"),
            ("gpt-5-codex", "low"),
            ("o4-mini", "low"),
            ("ft:o4-mini-2025-04-16:acme::abc", "low"),
            ("gpt-5.1", "none"),
            ("gpt-4.1", None),
            ("gpt-5-chat-latest", None),
        ],
    )
    def test_who_cannot_be_kept_from_thinking_is_asked_for_as_little_as_it_takes(
        self, model: str, effort: str | None
    ) -> None:
        sent = body(self.OPENAI, user("hi"), model=model, thinking=0)
        assert sent.get("reasoning_effort") == effort
        reasoning = body(APIS["openai-responses"], user("hi"), model=model, thinking=0)
        assert reasoning.get("reasoning") == (None if effort is None else {"effort": effort})

    @pytest.mark.parametrize(
        "model",
        [
            "grok-3",
            "grok-3-latest",
            "grok-4",
            "grok-4-0709",
            "grok-4-1-fast-reasoning",
            "grok-4.20-reasoning",
            "grok-code-fast-1",
        ],
    )
    def test_others_of_xai_would_refuse_it(self, model: str) -> None:
        assert "reasoning_effort" not in body(self.XAI, user("hi"), model=model)
        with pytest.raises(UsageError, match=f"{re.escape(model)} cannot be told how much to"):
            body(self.XAI, user("hi"), model=model, thinking="high")
        extra = {"reasoning_effort": "high"}
        assert body(self.XAI, user("hi"), model=model, extra=extra).items() >= extra.items()
        for other in ("grok-3-mini", "grok-4.20-multi-agent-0309", "grok-4.3", "grok-5"):
            assert body(self.XAI, user("hi"), model=other, thinking="high").items() >= extra.items()


def test_mistral_gets_no_text_beside_calls() -> None:
    api = ChatApi(CHAT_HABITS["mistral"])
    history = [user("hi"), assistant("I add.", call()), user(result()), assistant("It is 2.")]
    said = [one for one in body(api, *history)["messages"] if one["role"] == "assistant"]
    assert [one["content"] for one in said] == [None, "It is 2."]
    # Nor if what was between a text and calls could not be sent.
    history = [user("hi"), assistant("I add."), user(""), assistant(call()), user(result())]
    said = [one for one in body(api, *history)["messages"] if one["role"] == "assistant"]
    assert [one["content"] for one in said] == [None]
