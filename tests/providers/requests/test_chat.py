"""Requests to servers of Chat Completions: parts, settings, and differences of servers."""

import json
import re
from typing import Any

import pytest

from argstream import UsageError
from argstream.history import CallPart, OpaquePart, ResultPart, ThinkingPart
from argstream.models import OfferedTool
from argstream.providers.openai_requests import CHAT_COMPATIBILITY, ChatApi
from tests.providers.requests import asking
from tests.providers.requests.asking import ADD, APIS, Api, assistant, body, call, result, user

API = APIS["openai-chat"]
OPENAI, XAI, MISTRAL, DEEPSEEK, OPENROUTER = (
    ChatApi(CHAT_COMPATIBILITY[name])
    for name in ("openai", "xai", "mistral", "deepseek", "openrouter")
)
HI = user("hi")


def messages(*history: Any, api: Api = API, **more: Any) -> Any:
    return body(api, *history, **more)["messages"]


def answer(*parts: Any, api: Api = API) -> Any:
    """Return the message that an answer becomes."""
    found = messages(*asking.exchange(*parts), api=api)
    return next((one for one in found if one["role"] == "assistant"), None)


def arguments(part: CallPart) -> str:
    sent: str = answer(part)["tool_calls"][0]["function"]["arguments"]
    return sent


def test_minimal_request() -> None:
    assert body(API, HI, tools=()) == {
        "model": "some-model",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_settings_have_the_names_of_the_api() -> None:
    settings: dict[str, Any] = {"max_tokens": 5, "temperature": 0.5, "stop_sequences": ("END",)}
    sent = body(API, HI, instructions="Be brief.", thinking="low", **settings)
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    known = ("max_tokens", "temperature", "stop", "reasoning_effort")
    assert [sent[name] for name in known] == [5, 0.5, ["END"], "low"]


def test_tool_is_a_function() -> None:
    bare = OfferedTool(name="now", schema={})
    empty = {"type": "object", "properties": {}}
    assert [
        (one["type"], one["function"]) for one in body(API, HI, tools=[ADD, bare])["tools"]
    ] == [
        ("function", {"name": "add", "description": "Adds two numbers.", "parameters": ADD.schema}),
        ("function", {"name": "now", "parameters": empty}),
    ]


def test_only_strict_is_sent_of_the_options_of_a_tool() -> None:
    others: dict[str, Any] = {"defer_loading": True, "allowed_callers": ("direct",)}
    others |= {"input_examples": ({},), "eager_input_streaming": True}
    for strict in (None, True, False):
        tool = OfferedTool(name="now", schema={}, strict=strict, **others)
        [sent] = body(API, HI, tools=[tool])["tools"]
        assert sent["function"].keys() - {"strict"} == {"name", "parameters"}
        assert sent["function"].get("strict") is strict


FUNCTION = {"type": "function", "function": {"name": "add"}}


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize(
    ("given", "choice"),
    [(None, None), ("auto", "auto"), ("none", "none"), ("any", "required"), ("add", FUNCTION)],
)
def test_tool_choice_has_the_names_of_openai(protocol: str, given: Any, choice: Any) -> None:
    settings: Any = {"tool_choice": given, "parallel_tool_calls": False}
    sent = body(APIS[protocol], HI, **settings)
    if choice is FUNCTION and protocol == "openai-responses":
        choice = {"type": "function", "name": "add"}
    assert (sent.get("tool_choice"), sent["parallel_tool_calls"]) == (choice, False)
    assert not body(API, HI, tools=(), **settings).keys() & settings.keys()


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thought_goes_back_in_its_field(field: str) -> None:
    thoughts = [ThinkingPart(text=text, item={"field": field}) for text in ("Hm. ", "So – é.")]
    found = answer(thoughts[0], "A", thoughts[1], call())
    assert (found[field], found["content"]) == ("Hm. So – é.", "A")
    assert answer(thoughts[0]) is None


def test_reasoning_details_go_back_unchanged() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x", "index": 0}]
    kept = {"reasoning_details": details}
    for part in (ThinkingPart(text="hm", item=kept), OpaquePart(item=kept)):
        assert answer(part, "A") == {"role": "assistant", "content": "A", **kept}


@pytest.mark.parametrize(
    "part",
    [
        ThinkingPart(text="hm"),
        ThinkingPart(text="hm", item={"type": "thinking", "thinking": "hm", "signature": "x"}),
        ThinkingPart(text="hm", item={"type": "reasoning", "id": "rs", "encrypted_content": "x"}),
    ],
)
def test_thought_of_another_api_is_not_sent(part: ThinkingPart) -> None:
    assert answer(part, "A") == {"role": "assistant", "content": "A"}


def test_call_has_exactly_the_text_of_the_model() -> None:
    function = {"name": "add", "arguments": ' {"a":1} '}
    tool_calls = [{"id": "c1", "type": "function", "function": function}]
    sent = {"role": "assistant", "content": "I add.", "tool_calls": tool_calls}
    assert answer("I add.", call(' {"a":1} ')) == sent
    assert answer(call())["content"] is None


@pytest.mark.parametrize(
    "raw", ["", "null", '"{\\"a\\": 1}"', '{}{"a": 1}', '{"a"{"a":1}', '{"a": 2}']
)
def test_reinterpreted_text_is_sent_as_its_arguments(raw: str) -> None:
    assert arguments(call(raw)) == '{"a":1}'


@pytest.mark.parametrize("raw", ["", '{"a', "no JSON", '{"a": 1}'])
def test_incomplete_call_is_sent_as_json(raw: str) -> None:
    assert json.loads(arguments(call(raw, verdict="rejected"))) == {"INVALID_JSON": raw}


def test_extra_fields_of_a_call_go_back() -> None:
    kept = {"extra_content": {"google": {"thought_signature": "s"}}, "id": "late"}
    (sent,) = answer(call(item=kept))["tool_calls"]
    assert sent.items() >= kept.items()


def test_custom_call_has_its_text() -> None:
    (sent,) = answer(call("x = 1", kind="custom", arguments="x = 1"))["tool_calls"]
    assert sent == {"id": "c1", "type": "custom", "custom": {"name": "add", "input": "x = 1"}}
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "add"}
    other = call("x = 1", kind="custom", arguments="x = 1", item=item)  # of another API
    assert arguments(other) == '{"input":"x = 1"}'


def test_call_that_a_provider_ran_is_not_sent() -> None:
    ran = call(call_id="srvtoolu_1", kind="server")
    sent = answer(ran, ResultPart(call_id="srvtoolu_1", result=1), "A")
    assert sent == {"role": "assistant", "content": "A"}


def test_each_result_is_a_message_before_the_text() -> None:
    calls = assistant(call(), call(call_id="c2"))
    assert messages(HI, calls, user("And?", result({"b": 2}, "c2"), result("", "c1")))[2:] == [
        {"role": "tool", "tool_call_id": "c2", "content": '{"b":2}'},
        {"role": "tool", "tool_call_id": "c1", "content": "(no output)"},
        {"role": "user", "content": "And?"},
    ]
    failed = user(result("no such file", failed=True, note="It was tried twice."))
    found = messages(HI, assistant(call()), failed)[-1]["content"]
    assert found == "Error: It was tried twice.\n\nno such file"


def test_result_has_the_id_of_the_provider() -> None:
    odd = [assistant(call(item={"id": "functions.add:0"})), user(result())]
    found = [one for one in messages(HI, *odd, *odd) if one["role"] == "tool"]
    assert [one["tool_call_id"] for one in found] == ["functions.add:0"] * 2


def test_two_calls_of_one_turn_have_two_ids() -> None:
    twice = [call(call_id=id_, item={"id": "same"}) for id_ in ("c1", "c2")]
    found = messages(HI, assistant(*twice), user(result(0, "c1"), result(1, "c2")))
    ids = [one["id"] for one in found[1]["tool_calls"]]
    assert (ids[0], len(set(ids))) == ("same", 2)
    assert [one["tool_call_id"] for one in found[2:]] == ids


def test_neighbouring_messages_of_one_role_are_joined() -> None:
    sent = messages(user("a", "b"), user("c"), assistant("d", "e"), assistant("f"), user("g"))
    found = [(one["role"], one["content"]) for one in sent]
    assert found == [("user", "a\n\nb\n\nc"), ("assistant", "de\n\nf"), ("user", "g")]
    foreign = assistant(ThinkingPart(text="hm"))
    assert messages(user("a"), foreign, user("b")) == [{"role": "user", "content": "a\n\nb"}]
    thought = ThinkingPart(text="hm", item={"field": "reasoning"})
    last = [assistant(thought, "c", call()), user(result())]
    sent = messages(user("a"), assistant("b"), user(""), *last)[1]
    assert (sent["content"], sent["reasoning"], len(sent["tool_calls"])) == ("b\n\nc", "hm", 1)


def test_picture_of_the_user_is_sent() -> None:
    picture = {"type": "image_url", "image_url": {"url": "x"}}
    told = messages(user("See:", OpaquePart(item=picture)), assistant(""), user("Well?"))
    content = [{"type": "text", "text": "See:"}, picture, {"type": "text", "text": "Well?"}]
    assert told == [{"role": "user", "content": content}]


def test_openai_has_new_names_and_short_ids() -> None:
    sent = body(OPENAI, HI, instructions="Be brief.", max_tokens=5)
    assert sent["max_completion_tokens"] == 5
    assert sent["messages"][0]["role"] == "developer"
    long = answer(call(call_id="x" * 41), api=OPENAI)
    assert len(long["tool_calls"][0]["id"]) <= 40


@pytest.mark.parametrize("name", ["openai", "groq", "mistral"])
def test_server_that_refuses_extra_fields_gets_none(name: str) -> None:
    thought = ThinkingPart(text="hm", item={"field": "reasoning_content"})
    extra = call(item={"extra_content": {"x": 1}})
    found = answer(thought, "A", extra, api=ChatApi(CHAT_COMPATIBILITY[name]))
    assert found.keys() == {"role", "content", "tool_calls"}
    assert "extra_content" not in found["tool_calls"][0]


def test_deepseek_gets_a_thought_with_every_message_and_a_switch() -> None:
    assert answer("A", api=DEEPSEEK)["reasoning_content"] == " "
    own = ThinkingPart(text="hm", item={"field": "reasoning_content"})
    assert answer(own, "A", api=DEEPSEEK)["reasoning_content"] == "hm"
    sent = body(DEEPSEEK, HI, thinking=0)
    assert sent["thinking"] == {"type": "disabled"}
    assert "reasoning_effort" not in sent
    assert body(DEEPSEEK, HI, thinking="high")["reasoning_effort"] == "high"


def test_mistral_gets_its_own_ids_and_order() -> None:
    found = messages(HI, assistant(call()), user(result(), "And?"), api=MISTRAL)
    assert [one["role"] for one in found] == ["user", "assistant", "tool", "assistant", "user"]
    id_ = found[1]["tool_calls"][0]["id"]
    assert (len(id_), id_.isalnum(), found[2]["tool_call_id"]) == (9, True, id_)
    assert "stream_options" not in body(MISTRAL, HI)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([assistant("I add.", call()), user(result()), assistant("It is 2.")], [None, "It is 2."]),
        # The message between the text and the call cannot be sent.
        ([assistant("I add."), user(""), assistant(call()), user(result())], [None]),
    ],
)
def test_mistral_gets_no_text_beside_calls(history: Any, expected: list[Any]) -> None:
    found = [one for one in messages(HI, *history, api=MISTRAL) if one["role"] == "assistant"]
    assert [one["content"] for one in found] == expected


@pytest.mark.parametrize(
    ("thinking", "sent"),
    [("low", {"effort": "low"}), (3000, {"max_tokens": 3000}), (0, {"effort": "none"})],
)
def test_openrouter_gets_an_object_for_thinking(thinking: Any, sent: object) -> None:
    assert body(OPENROUTER, HI, thinking=thinking)["reasoning"] == sent


@pytest.mark.parametrize(
    "model", ["gpt-5.2", "gpt-5.4-mini", "gpt-5.6-sol", "gpt-5.10", "gpt-6-astra", "gpt-6.1-sol"]
)
def test_newer_model_of_openai_does_not_think_with_tools(model: str) -> None:
    assert body(OPENAI, HI, model=model)["reasoning_effort"] == "none"
    assert body(OPENAI, HI, model=model, thinking=0)["reasoning_effort"] == "none"
    with pytest.raises(UsageError, match=f"Use 'openai-responses:{re.escape(model)}'"):
        body(OPENAI, HI, model=model, thinking="low")
    assert body(OPENAI, HI, model=model, tools=(), thinking="low")["reasoning_effort"] == "low"
    assert "reasoning_effort" not in body(API, HI, model=model)  # a server of others


@pytest.mark.parametrize(
    "model", ["gpt-5", "gpt-5.1", "gpt-5-mini", "gpt-5.3-chat-latest", "o4-mini", "gpt-35-turbo"]
)
def test_other_model_of_openai_gets_the_requested_effort(model: str) -> None:
    assert "reasoning_effort" not in body(OPENAI, HI, model=model)
    assert body(OPENAI, HI, model=model, thinking="low")["reasoning_effort"] == "low"


@pytest.mark.parametrize(
    ("model", "effort"),
    [
        *(("gpt-5", "minimal"), ("gpt-5-mini-2025-08-07", "minimal"), ("gpt-5-codex", "low")),
        *(("o4-mini", "low"), ("ft:o4-mini-2025-04-16:acme::abc", "low"), ("gpt-5.1", "none")),
        *(("gpt-4.1", None), ("gpt-5-chat-latest", None)),
    ],
)
def test_thinking_0_is_the_lowest_effort_of_the_model(model: str, effort: str | None) -> None:
    assert body(OPENAI, HI, model=model, thinking=0).get("reasoning_effort") == effort
    reasoning = body(APIS["openai-responses"], HI, model=model, thinking=0).get("reasoning")
    assert reasoning == (None if effort is None else {"effort": effort})


@pytest.mark.parametrize(
    "model",
    [
        *("grok-3", "grok-3-latest", "grok-4", "grok-4-0709", "grok-4-1-fast-reasoning"),
        *("grok-4.20-reasoning", "grok-code-fast-1"),
    ],
)
def test_model_of_xai_without_an_effort_raises(model: str) -> None:
    assert "reasoning_effort" not in body(XAI, HI, model=model)
    with pytest.raises(UsageError, match=f"{re.escape(model)} does not accept a thinking effort"):
        body(XAI, HI, model=model, thinking="high")
    extra = {"reasoning_effort": "high"}
    assert body(XAI, HI, model=model, extra=extra).items() >= extra.items()
    for other in ("grok-3-mini", "grok-4.20-multi-agent-0309", "grok-4.3", "grok-5"):
        assert body(XAI, HI, model=other, thinking="high").items() >= extra.items()
