"""A request to Anthropic's Messages API: every kind of part, and every setting."""

from typing import Any

import pytest

from argstream import UsageError
from argstream.history import CallPart, OpaquePart, ResultPart, TextPart, ThinkingPart
from argstream.models import OfferedTool
from tests.providers.requests.asking import ADD, APIS, assistant, body, call, result, user

API = APIS["anthropic"]
SIGNED = {"type": "thinking", "thinking": "Hm – é", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "xyz"}


def messages(*history: Any, **more: Any) -> Any:
    return body(API, *history, **more)["messages"]


def blocks(*parts: Any, **fields: Any) -> Any:
    """What becomes of an answer, with a result for its call if there is one."""
    answer = assistant(*parts, **fields)
    calls = [part for part in answer.parts if isinstance(part, CallPart)]
    own = [part for part in calls if part.kind not in ("server", "mcp", "code")]
    results = [result(call_id=part.call_id) for part in own]
    found = messages(user("hi"), answer, user("so?", *results))
    return next((one["content"] for one in found if one["role"] == "assistant"), [])


def test_the_least_request_has_what_the_api_wants() -> None:
    assert body(API, user("hi"), tools=()) == {
        "model": "some-model",
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
    }


def test_settings_are_called_what_the_api_calls_them() -> None:
    sent = body(
        API,
        user("hi"),
        instructions="Be brief.",
        max_tokens=5,
        temperature=0.5,
        top_p=0.9,
        stop_sequences=("END",),
    )
    known = ("system", "max_tokens", "temperature", "top_p", "stop_sequences")
    assert [sent[name] for name in known] == ["Be brief.", 5, 0.5, 0.9, ["END"]]


class TestTools:
    def test_a_tool_has_its_schema_and_what_it_asks_for(self) -> None:
        eager = OfferedTool(name="write", schema={}, eager_input_streaming=True)
        assert body(API, user("hi"), tools=[ADD, eager])["tools"] == [
            {"name": "add", "description": "Adds two numbers.", "input_schema": ADD.schema},
            {
                "name": "write",
                "input_schema": {"type": "object", "properties": {}},
                "eager_input_streaming": True,
            },
        ]

    def test_a_schema_that_is_no_object_is_refused(self) -> None:
        with pytest.raises(UsageError, match='\'now\' must have "type": "object"'):
            body(API, user("hi"), tools=[OfferedTool(name="now", schema={"type": "string"})])

    @pytest.mark.parametrize(
        ("settings", "choice"),
        [
            ({}, None),
            ({"tool_choice": "auto"}, {"type": "auto"}),
            ({"tool_choice": "any"}, {"type": "any"}),
            ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
            ({"tool_choice": "add"}, {"type": "tool", "name": "add"}),
            ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
            (
                {"tool_choice": "add", "parallel_tool_calls": True},
                {"type": "tool", "name": "add", "disable_parallel_tool_use": False},
            ),
        ],
    )
    def test_whether_tools_are_called_is_told(self, settings: Any, choice: object) -> None:
        assert body(API, user("hi"), **settings).get("tool_choice") == choice

    def test_without_tools_those_of_the_history_are_named_and_not_to_be_called(self) -> None:
        sent = body(API, user("hi"), assistant(call()), user(result()), tools=())
        schema = {"type": "object", "properties": {}}
        assert sent["tools"] == [{"name": "add", "input_schema": schema}]
        assert sent["tool_choice"] == {"type": "none"}


class TestThinkingSettings:
    @pytest.mark.parametrize(
        ("model", "thinking", "found"),
        [
            ("claude-sonnet-4-5", 4096, {"type": "enabled", "budget_tokens": 4096}),
            ("claude-sonnet-4-5", "low", {"type": "enabled", "budget_tokens": 2048}),
            ("claude-opus-4-20250514", "high", {"type": "enabled", "budget_tokens": 16384}),
            ("claude-opus-4-6", 4096, {"type": "enabled", "budget_tokens": 4096}),
            ("claude-opus-4-6", "high", {"type": "adaptive", "display": "summarized"}),
            ("claude-opus-4-7", 4096, {"type": "adaptive", "display": "summarized"}),
            ("claude-sonnet-5", 4096, {"type": "adaptive", "display": "summarized"}),
            ("deepseek-v4", 4096, {"type": "enabled", "budget_tokens": 4096}),
            ("deepseek-v4", "low", {"type": "adaptive"}),
            ("claude-opus-4-7", 0, {"type": "disabled"}),
            ("claude-opus-5", 0, {"type": "disabled"}),
            ("claude-haiku-5-5", 0, {"type": "disabled"}),
            ("claude-sonnet-5-5", 0, {"type": "between_tools"}),
        ],
    )
    def test_a_model_is_told_to_think_as_it_can(
        self, model: str, thinking: Any, found: object
    ) -> None:
        sent = body(API, user("hi"), model=model, thinking=thinking)
        assert sent["thinking"] == found

    @pytest.mark.parametrize(
        ("thinking", "effort"), [("low", "low"), (2048, "low"), (4096, "medium"), (30000, "high")]
    )
    def test_who_decides_by_itself_is_told_an_effort(self, thinking: Any, effort: str) -> None:
        sent = body(API, user("hi"), model="claude-opus-4-8", thinking=thinking)
        assert sent["output_config"] == {"effort": effort}

    @pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-fable-5", "claude-mythos-5-2"])
    def test_who_always_thinks_is_asked_to_think_little(self, model: str) -> None:
        sent = body(API, user("hi"), model=model, thinking=0)
        assert "thinking" not in sent
        assert sent["output_config"] == {"effort": "low"}

    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            ({"tool_choice": "any"}, "use 'auto' instead of 'any', or set thinking to 0"),
            ({"tool_choice": "add"}, "use 'auto' instead of 'add', or set thinking to 0"),
            ({"temperature": 0.2}, "temperature: a Claude that thinks takes 1 only, not 0.2"),
            ({"top_p": 0.9}, "top_p: a Claude that thinks takes 0.95 and more, not 0.9"),
        ],
    )
    @pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-7"])
    def test_what_does_not_go_with_thinking_is_refused(
        self, model: str, settings: Any, problem: str
    ) -> None:
        with pytest.raises(UsageError, match=problem):
            body(API, user("hi"), model=model, thinking="high", **settings)
        for thinking in (None, 0):
            assert body(API, user("hi"), model=model, thinking=thinking, **settings)
        assert body(API, user("hi"), model="deepseek-v4", thinking="high", **settings)

    def test_there_is_room_for_more_than_thinking(self) -> None:
        assert body(API, user("hi"), thinking=9000)["max_tokens"] == 9000 + 8192
        budget = {"thinking": {"type": "enabled", "budget_tokens": 9000}}
        assert body(API, user("hi"), extra=budget)["max_tokens"] == 9000 + 8192
        with pytest.raises(UsageError, match="max_tokens is 9000, but thinking alone"):
            body(API, user("hi"), thinking=9000, max_tokens=9000)

    def test_thinking_between_calls_has_room_in_all_answers(self) -> None:
        headers = {"Anthropic-Beta": "x,interleaved-thinking-2025-05-14"}
        sent = body(API, user("hi"), thinking=9000, max_tokens=5000, headers=headers)
        assert sent["max_tokens"] == 5000

    def test_what_is_extra_is_not_looked_at(self) -> None:
        extra = {"thinking": {"type": "enabled", "budget_tokens": 9000}}
        assert body(API, user("hi"), extra=extra, max_tokens=5000)["max_tokens"] == 5000
        assert body(API, user("hi"), extra={"max_tokens": 5000}, thinking=9000)["thinking"]

    def test_an_effort_that_has_no_budget_is_refused(self) -> None:
        """Newer models take it: how many words for it there are is theirs to say."""
        with pytest.raises(UsageError, match="a number of tokens, or low, medium, high, not 'max'"):
            body(API, user("hi"), model="claude-sonnet-4-5", thinking="max")
        sent = body(API, user("hi"), model="claude-opus-4-7", thinking="max")
        assert sent["output_config"] == {"effort": "max"}

    @pytest.mark.parametrize("tokens", [-1, 1, 1023])
    def test_too_small_a_budget_is_refused(self, tokens: int) -> None:
        with pytest.raises(UsageError, match="thinking"):
            body(API, user("hi"), thinking=tokens)

    def test_a_turn_that_began_without_a_thought_goes_on_without(self) -> None:
        """With a budget, the API would refuse it."""
        loop = [assistant("Well.", call()), user(result())]
        assert "thinking" not in body(API, user("hi"), *loop, thinking=2048)
        thought = ThinkingPart(text="Hm – é", item=SIGNED)
        signed = [assistant(thought, call()), user(result()), assistant(call()), user(result())]
        assert "thinking" in body(API, user("hi"), *signed, thinking=2048)
        assert "thinking" in body(
            API, user("hi"), *loop, assistant("Two."), user("so"), thinking=2048
        )


class TestWhatTheModelSaid:
    @pytest.mark.parametrize(
        "item",
        [
            None,
            {"type": "thinking", "thinking": "cut", "signature": ""},
            {"type": "thinking", "thinking": "of Cohere"},
            {**SIGNED, "index": 0},  # LangChain's copy
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            {"field": "reasoning_content"},
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "x"}}},
        ],
    )
    def test_thoughts_of_others_and_those_without_a_signature_are_left_out(self, item: Any) -> None:
        assert blocks(ThinkingPart(text="hm", item=item), "So.") == [
            {"type": "text", "text": "So."}
        ]

    def test_what_anthropic_said_goes_back_as_it_came(self) -> None:
        cited = {"type": "text", "text": "So.", "citations": [{"type": "char_location"}]}
        thoughts = [ThinkingPart(text="Hm – é", item=SIGNED), ThinkingPart(text="", item=REDACTED)]
        parts = [*thoughts, TextPart(text="So.", item=cited), thoughts[0]]
        assert blocks(*parts) == [SIGNED, REDACTED, cited]  # a message never ends in a thought

    def test_text_of_others_is_kept_and_white_space_alone_is_not(self) -> None:
        item = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "A"}]}
        assert blocks(TextPart(text="A", item=item), "\n\n", " b") == [
            {"type": "text", "text": "A"},
            {"type": "text", "text": " b"},
        ]

    def test_a_call_has_its_arguments_and_what_else_it_came_with(self) -> None:
        item = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}, "caller": {"x": 1}}
        assert blocks(call(call_id="toolu_1", item=item)) == [{**item, "input": {"a": 1}}]
        for part, meant in (
            (call(), {"a": 1}),
            (call('{"a', verdict="truncated"), {"INVALID_JSON": '{"a'}),
            (call("x = 1", kind="custom", arguments="x = 1"), {"input": "x = 1"}),
        ):
            assert blocks(part) == [{"type": "tool_use", "id": "c1", "name": "add", "input": meant}]

    @pytest.mark.parametrize(
        ("name", "sent"), [("a.b/c", "a_b_c"), ("", "unnamed"), ("x" * 90, "x" * 64)]
    )
    def test_a_name_that_nobody_offered_is_one_that_the_api_takes(
        self, name: str, sent: str
    ) -> None:
        assert blocks(call(name=name))[0]["name"] == sent

    def test_what_anthropic_ran_goes_back_with_its_result(self) -> None:
        found = {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{"x": 1}],
        }
        search = call(call_id="srvtoolu_1", name="web_search", kind="server", arguments={"q": "x"})
        ran = ResultPart(call_id="srvtoolu_1", result=[{"x": 1}], item=found)
        assert blocks(search, ran, "So.")[:2] == [
            {
                "type": "server_tool_use",
                "id": "srvtoolu_1",
                "name": "web_search",
                "input": {"q": "x"},
            },
            found,
        ]
        asked = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "f", "server_name": "s"}
        told = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "content": []}
        remote = call(call_id="mcptoolu_1", name="f", kind="mcp", item={**asked, "input": {}})
        answer = ResultPart(call_id="mcptoolu_1", result=[], item=told)
        assert blocks(remote, answer, "So.")[:2] == [{**asked, "input": {"a": 1}}, told]

    def test_a_result_may_come_a_message_later(self) -> None:
        """As it does when the code that Anthropic runs calls our tools."""
        code = call(call_id="srvtoolu_1", name="code_execution", kind="server")
        told = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {}}
        ran = ResultPart(call_id="srvtoolu_1", result={}, item=told)
        found = messages(
            user("hi"), assistant(code, call()), user(result()), assistant(ran, "So."), user("ok")
        )
        assert found[1]["content"][0]["type"] == "server_tool_use"
        assert found[3]["content"][0] == told

    def test_what_anthropic_was_to_run_goes_back_only_while_the_turn_is_paused(self) -> None:
        search = call(call_id="srvtoolu_1", name="web_search", kind="server")
        assert messages(user("hi"), assistant("I search.", search))[-1]["content"][1] == {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"a": 1},
        }
        assert len(blocks("I search.", search)) == 1

    def test_what_others_ran_is_left_out(self) -> None:
        item = {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "output": "2"}
        remote = call(call_id="mcp_1", kind="mcp", item=item)
        assert blocks(remote, ResultPart(call_id="mcp_1", result="2"), "So.") == [
            {"type": "text", "text": "So."}
        ]

    def test_a_container_is_named_again(self) -> None:
        kept = [OpaquePart(item={"container": {"id": f"c{n}", "expires_at": "x"}}) for n in (1, 2)]
        sent = body(API, user("hi"), assistant("A", *kept), user("so?"))
        assert sent["container"] == "c2"

    def test_what_only_anthropic_understands_goes_back_to_it_alone(self) -> None:
        compaction = {"type": "compaction", "content": "so far"}
        new = {"type": "block_of_next_year", "x": 1}
        search = {"type": "web_search_call", "id": "ws_1"}
        parts = [OpaquePart(item=item) for item in (compaction, new, search)]
        assert blocks(*parts, "So.", id_="msg_1")[:2] == [compaction, new]
        assert blocks(*parts, "So.")[:-1] == [compaction]


class TestResults:
    def test_results_come_first_and_in_order(self) -> None:
        calls = assistant(call(), call(call_id="c2"))
        results = [result("two", "c2"), result("one", "c1")]
        assert messages(user("hi"), calls, user("And?", *results))[-1]["content"] == [
            {"type": "tool_result", "tool_use_id": "c2", "content": "two"},
            {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
            {"type": "text", "text": "And?"},
        ]

    @pytest.mark.parametrize(
        ("part", "content"),
        [
            (result("as it is"), "as it is"),
            (result({"é": [1, None]}), '{"é":[1,null]}'),
            (result(""), "(no output)"),
            (result(None), "null"),
            (result(2, note="A person changed a."), "A person changed a.\n\n2"),
            (result("", note="Well."), "Well."),
            (result("half \udc80 name"), "half \ufffd name"),
        ],
    )
    def test_a_result_is_a_text(self, part: ResultPart, content: str) -> None:
        (block,) = messages(user("hi"), assistant(call()), user(part))[-1]["content"]
        assert block == {"type": "tool_result", "tool_use_id": "c1", "content": content}

    def test_a_failure_is_marked(self) -> None:
        failed = user(result("", failed=True))
        (block,) = messages(user("hi"), assistant(call()), failed)[-1]["content"]
        assert block["is_error"]
        assert block["content"]  # the API wants a reason

    def test_a_result_goes_back_under_the_id_that_the_provider_gave(self) -> None:
        item = {"id": "toolu_x", "type": "tool_use", "toolset_name": "t"}
        history = messages(user("hi"), assistant(call(item=item)), user(result()))
        assert history[1]["content"][0]["id"] == "toolu_x"
        assert history[2]["content"][0]["tool_use_id"] == "toolu_x"
        assert history[2]["content"][0]["toolset_name"] == "t"

    def test_ids_that_the_api_would_refuse_are_replaced(self) -> None:
        """Ids that have characters of their own, or come again in each turn."""
        odd = [assistant(call(call_id="functions.add:0")), user(result(call_id="functions.add:0"))]
        found = messages(user("hi"), *odd, *odd)
        ids = [found[n]["content"][0]["id"] for n in (1, 3)]
        assert [found[n]["content"][0]["tool_use_id"] for n in (2, 4)] == ids
        assert len(set(ids)) == 2
        assert all(id_.isalnum() for id_ in ids)
        assert messages(user("hi"), *odd)[1] == found[1], "they stay when the history grows"


class TestAlternation:
    def roles(self, *history: Any) -> list[str]:
        return [message["role"] for message in messages(*history)]

    def test_what_cannot_be_sent_leaves_no_empty_message(self) -> None:
        foreign = assistant(ThinkingPart(text="hm"))
        history = [user("a"), user("b"), foreign, user("b", ""), assistant("c"), assistant("d")]
        assert self.roles(*history, user(" ")) == ["user", "assistant"]

    def test_the_first_message_is_the_users(self) -> None:
        assert self.roles(assistant("Hello!"), user("hi")) == ["user", "assistant", "user"]

    def test_a_paused_turn_does_not_end_in_white_space(self) -> None:
        assert messages(user("a"), assistant("I search. \n"))[-1]["content"] == [
            {"type": "text", "text": "I search."}
        ]

    def test_a_picture_of_a_user_is_sent(self) -> None:
        picture = {"type": "image", "source": {"type": "url", "url": "x"}}
        assert messages(user("See:", OpaquePart(item=picture)))[0]["content"][1] == picture
