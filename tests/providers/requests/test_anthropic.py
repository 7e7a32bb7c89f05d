"""Requests to Anthropic's Messages API: every kind of part, and every setting."""

from typing import Any

import pytest

from argstream import UsageError
from argstream.history import OpaquePart, ResultPart, TextPart, ThinkingPart
from argstream.models import OfferedTool
from tests.providers.requests.asking import ADD, APIS, assistant, body, call, exchange, result, user

API = APIS["anthropic"]
HI = user("hi")


def messages(*history: Any, **more: Any) -> Any:
    return body(API, *history, **more)["messages"]


def test_minimal_request() -> None:
    assert body(API, HI, tools=()) == {
        "model": "some-model",
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
    }


def test_settings_have_the_names_of_the_api() -> None:
    settings: Any = {"max_tokens": 5, "temperature": 0.5, "top_p": 0.9}
    sent = body(API, HI, instructions="Be brief.", stop_sequences=("END",), **settings)
    assert (sent["system"], sent["stop_sequences"]) == ("Be brief.", ["END"])
    assert sent.items() >= settings.items()


def test_tool_has_its_schema_and_options() -> None:
    eager = OfferedTool(name="write", schema={}, eager_input_streaming=True)
    schema = {"type": "object", "properties": {}}
    assert body(API, HI, tools=[ADD, eager])["tools"] == [
        {"name": "add", "description": "Adds two numbers.", "input_schema": ADD.schema},
        {"name": "write", "input_schema": schema, "eager_input_streaming": True},
    ]
    with pytest.raises(UsageError, match='\'now\' must have "type": "object"'):
        body(API, HI, tools=[OfferedTool(name="now", schema={"type": "string"})])


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"strict": True}, {"strict": True}),
        ({"strict": False}, {"strict": False}),
        ({"defer_loading": True}, {"defer_loading": True}),
        ({"input_examples": ({"a": 1},)}, {"input_examples": [{"a": 1}]}),
        (
            {"allowed_callers": ("direct", "programmatic", "code_execution_20260120")},
            {"allowed_callers": ["direct", "code_execution_20260120"]},
        ),
        ({"allowed_callers": ("programmatic",)}, {}),
    ],
)
def test_tool_options_have_the_names_of_the_api(options: Any, sent: Any) -> None:
    tool = OfferedTool(name="f", schema={}, **options)
    form = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
    assert body(API, HI, tools=[tool])["tools"] == [form | sent]


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        (None, None, None),
        ("auto", None, {"type": "auto"}),
        ("any", None, {"type": "any"}),
        ("none", False, {"type": "none"}),
        ("add", None, {"type": "tool", "name": "add"}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("add", True, {"type": "tool", "name": "add", "disable_parallel_tool_use": False}),
    ],
)
def test_tool_choice(choice: Any, parallel: bool | None, sent: object) -> None:
    settings: Any = {"tool_choice": choice, "parallel_tool_calls": parallel}
    assert body(API, HI, **settings).get("tool_choice") == sent


def test_without_tools_those_of_the_history_are_declared_and_disabled() -> None:
    sent = body(API, HI, assistant(call()), user(result()), tools=())
    schema = {"type": "object", "properties": {}}
    assert sent["tools"] == [{"name": "add", "input_schema": schema}]
    assert sent["tool_choice"] == {"type": "none"}


def budget(tokens: int) -> dict[str, object]:
    return {"type": "enabled", "budget_tokens": tokens}


ADAPTIVE = {"type": "adaptive", "display": "summarized"}
DISABLED = {"type": "disabled"}


@pytest.mark.parametrize(
    ("model", "thinking", "sent"),
    [
        ("claude-sonnet-4-5", 4096, budget(4096)),
        ("claude-sonnet-4-5", "low", budget(2048)),
        ("claude-opus-4-20250514", "high", budget(16384)),
        ("claude-opus-4-6", 4096, budget(4096)),
        *(("claude-opus-4-6", "high", ADAPTIVE), ("claude-opus-4-7", 4096, ADAPTIVE)),
        *(("claude-sonnet-5", 4096, ADAPTIVE), ("deepseek-v4", 4096, budget(4096))),
        ("deepseek-v4", "low", {"type": "adaptive"}),
        *((name, 0, DISABLED) for name in ("claude-opus-4-7", "claude-opus-5", "claude-haiku-5-5")),
        ("claude-sonnet-5-5", 0, {"type": "between_tools"}),
        *((f"claude-{name}", 0, None) for name in ("opus-5-5", "fable-5", "mythos-5-2")),
    ],
)
def test_thinking_is_set_as_the_model_supports_it(model: str, thinking: Any, sent: Any) -> None:
    request = body(API, HI, model=model, thinking=thinking)
    assert request.get("thinking") == sent
    if sent is None:  # models that always think
        assert request["output_config"] == {"effort": "low"}


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [("low", "low"), (2048, "low"), (4096, "medium"), (30000, "high"), ("max", "max")],
)
def test_adaptive_model_gets_an_effort(thinking: Any, effort: str) -> None:
    sent = body(API, HI, model="claude-opus-4-8", thinking=thinking)
    assert sent["output_config"] == {"effort": effort}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"tool_choice": "any"},
            "tool_choice must be 'auto' or 'none' for Claude with thinking, not 'any'",
        ),
        (
            {"tool_choice": "add"},
            "tool_choice must be 'auto' or 'none' for Claude with thinking, not 'add'",
        ),
        ({"temperature": 0.2}, "temperature must be 1 for Claude with thinking, not 0.2"),
        ({"top_p": 0.9}, "top_p must be at least 0.95 for Claude with thinking, not 0.9"),
    ],
)
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-7"])
def test_setting_that_excludes_thinking_raises(model: str, settings: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        body(API, HI, model=model, thinking="high", **settings)
    for thinking in (None, 0):
        assert body(API, HI, model=model, thinking=thinking, **settings)
    assert body(API, HI, model="deepseek-v4", thinking="high", **settings)


@pytest.mark.parametrize(
    ("thinking", "problem"),
    [
        *((tokens, "thinking") for tokens in (-1, 1, 1023)),
        ("max", "a number of tokens or one of low, medium, high, not 'max'"),
    ],
)
def test_invalid_budget_raises(thinking: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        body(API, HI, model="claude-sonnet-4-5", thinking=thinking)


def test_max_tokens_leaves_room_after_thinking() -> None:
    extra: Any = {"thinking": budget(9000)}
    assert body(API, HI, thinking=9000)["max_tokens"] == 9000 + 8192
    assert body(API, HI, extra=extra)["max_tokens"] == 9000 + 8192
    with pytest.raises(
        UsageError, match=r"max_tokens \(9000\) must be greater than the thinking budget"
    ):
        body(API, HI, thinking=9000, max_tokens=9000)
    # Interleaved thinking shares its budget among all responses. Extra fields are not checked.
    headers = {"Anthropic-Beta": "x,interleaved-thinking-2025-05-14"}
    for options in ({"headers": headers, "thinking": 9000}, {"extra": extra}):
        assert body(API, HI, max_tokens=5000, **options)["max_tokens"] == 5000
    assert body(API, HI, extra={"max_tokens": 5000}, thinking=9000)["thinking"]


def test_turn_that_started_without_a_thought_continues_without() -> None:
    """With a budget, the API would refuse it."""
    loop = [assistant("Well.", call()), user(result())]
    assert "thinking" not in body(API, HI, *loop, thinking=2048)
    signed = [assistant(THOUGHT, call()), user(result()), assistant(call()), user(result())]
    assert "thinking" in body(API, HI, *signed, thinking=2048)
    assert "thinking" in body(API, HI, *loop, assistant("Two."), user("so"), thinking=2048)


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def tool_use(arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "c1", "name": "add", "input": arguments, **fields}


SIGNED = {"type": "thinking", "thinking": "Hm – é", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "xyz"}
THOUGHT = ThinkingPart(text="Hm – é", item=SIGNED)
CITED = text("So.", citations=[{"type": "char_location"}])
OF_OPENAI = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "A"}]}
SEARCH = call(call_id="srvtoolu_1", name="web_search", kind="server")
SEARCH_USE = tool_use({"a": 1}, type="server_tool_use", id="srvtoolu_1", name="web_search")
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"x": 1}]}
RAN = ResultPart(call_id="srvtoolu_1", result=[{"x": 1}], item=FOUND)
MCP_USE = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "f", "server_name": "s"}
MCP_RESULT = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "content": []}
MCP = call(call_id="mcptoolu_1", name="f", kind="mcp", item={**MCP_USE, "input": {}})
MCP_RAN = ResultPart(call_id="mcptoolu_1", result=[], item=MCP_RESULT)
MCP_CALL = {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "output": "2"}
OF_OTHERS = call(call_id="mcp_1", kind="mcp", item=MCP_CALL)
WITH_CALLER = tool_use({}, id="toolu_1", caller={"x": 1})

ANSWERS: dict[str, tuple[list[Any], list[Any]]] = {
    **{
        f"thought {item}": ([ThinkingPart(text="hm", item=item), "So."], [text("So.")])
        for item in (
            None,
            {"type": "thinking", "thinking": "cut", "signature": ""},
            {"type": "thinking", "thinking": "of Cohere"},
            {**SIGNED, "index": 0},  # LangChain's copy
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            {"field": "reasoning_content"},
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "x"}}},
        )
    },
    "parts of Anthropic, without the thought at the end": (
        [THOUGHT, ThinkingPart(text="", item=REDACTED), TextPart(text="So.", item=CITED), THOUGHT],
        [SIGNED, REDACTED, CITED],
    ),
    "text of others": ([TextPart(text="A", item=OF_OPENAI)], [text("A")]),
    "white space": (["\n\n", " b"], [text(" b")]),
    "call with a caller": (
        [call(call_id="toolu_1", item=WITH_CALLER)],
        [{**WITH_CALLER, "input": {"a": 1}}],
    ),
    "call": ([call()], [tool_use({"a": 1})]),
    "truncated call": ([call('{"a', verdict="truncated")], [tool_use({"INVALID_JSON": '{"a'})]),
    "custom call": ([call("x", kind="custom", arguments="x")], [tool_use({"input": "x"})]),
    **{
        f"name {name[:5]!r}": ([call(name=name)], [tool_use({"a": 1}, name=sent)])
        for name, sent in {"a.b/c": "a_b_c", "": "unnamed", "x" * 90: "x" * 64}.items()
    },
    "search of Anthropic": ([SEARCH, RAN, "So."], [SEARCH_USE, FOUND, text("So.")]),
    "MCP call of Anthropic": (
        [MCP, MCP_RAN, "So."],
        [{**MCP_USE, "input": {"a": 1}}, MCP_RESULT, text("So.")],
    ),
    "search without a result": (["I search.", SEARCH], [text("I search.")]),
    "MCP call of others": ([OF_OTHERS, result("2", "mcp_1"), "So."], [text("So.")]),
}


@pytest.mark.parametrize(("parts", "sent"), ANSWERS.values(), ids=ANSWERS)
def test_answer_becomes_blocks(parts: list[Any], sent: list[Any]) -> None:
    assert messages(*exchange(*parts))[1] == {"role": "assistant", "content": sent}


def test_result_of_a_server_tool_may_come_a_message_later() -> None:
    """It does when code that Anthropic runs calls tools of the client."""
    later = [assistant(SEARCH, call()), user(result()), assistant(RAN, "So."), user("ok")]
    found = messages(HI, *later)
    assert (found[1]["content"][0], found[3]["content"][0]) == (SEARCH_USE, FOUND)


def test_paused_turn_ends_with_its_server_call_and_without_white_space() -> None:
    assert messages(HI, assistant("I search.", SEARCH))[-1]["content"][1] == SEARCH_USE
    assert messages(HI, assistant("I search. \n"))[-1]["content"] == [text("I search.")]


def test_unknown_blocks_go_back_only_to_anthropic() -> None:
    compaction = {"type": "compaction", "content": "so far"}
    new = {"type": "block_of_next_year", "x": 1}
    search = {"type": "web_search_call", "id": "ws_1"}
    parts = [OpaquePart(item=item) for item in (compaction, new, search)]
    assert messages(*exchange(*parts, "A", id_="msg_1"))[1]["content"][:-1] == [compaction, new]
    assert messages(*exchange(*parts, "A"))[1]["content"][:-1] == [compaction]
    containers = [OpaquePart(item={"container": {"id": id_, "expires_at": "x"}}) for id_ in "ab"]
    assert body(API, *exchange("A", *containers))["container"] == "b"


def tool_result(content: str, id_: str = "c1") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": content}


@pytest.mark.parametrize(
    ("part", "content"),
    [
        *((result("as it is"), "as it is"), (result({"é": [1, None]}), '{"é":[1,null]}')),
        *((result(""), "(no output)"), (result(None), "null")),
        (result(2, note="A person changed a."), "A person changed a.\n\n2"),
        *((result("", note="Well."), "Well."), (result("half \udc80 name"), "half \ufffd name")),
    ],
)
def test_result_is_sent_as_text(part: ResultPart, content: str) -> None:
    assert messages(HI, assistant(call()), user(part))[-1]["content"] == [tool_result(content)]


def test_failed_result_is_marked_and_has_a_reason() -> None:
    (block,) = messages(HI, assistant(call()), user(result("", failed=True)))[-1]["content"]
    assert block["is_error"]
    assert block["content"]


def test_result_has_the_id_of_the_provider() -> None:
    item = {"id": "toolu_x", "type": "tool_use", "toolset_name": "t"}
    history = messages(HI, assistant(call(item=item)), user(result()))
    assert history[1]["content"][0]["id"] == "toolu_x"
    sent = history[2]["content"][0]
    assert (sent["tool_use_id"], sent["toolset_name"]) == ("toolu_x", "t")


def test_ids_that_the_api_refuses_are_replaced() -> None:
    """IDs with other characters, or that repeat in each turn."""
    odd = [assistant(call(call_id="functions.add:0")), user(result(call_id="functions.add:0"))]
    found = messages(HI, *odd, *odd)
    ids = [found[n]["content"][0]["id"] for n in (1, 3)]
    assert [found[n]["content"][0]["tool_use_id"] for n in (2, 4)] == ids
    assert len(set(ids)) == 2
    assert all(id_.isalnum() for id_ in ids)
    assert messages(HI, *odd)[1] == found[1], "they stay when the history grows"


def test_roles_alternate_and_no_message_is_empty() -> None:
    foreign = assistant(ThinkingPart(text="hm"))
    history = [user("a"), user("b"), foreign, user("b", ""), assistant("c"), assistant("d")]
    assert [one["role"] for one in messages(*history, user(" "))] == ["user", "assistant"]
    found = messages(assistant("Hello!"), HI)
    assert [one["role"] for one in found] == ["user", "assistant", "user"]


def test_picture_of_the_user_is_sent() -> None:
    picture = {"type": "image", "source": {"type": "url", "url": "x"}}
    assert messages(user("See:", OpaquePart(item=picture)))[0]["content"][1] == picture
