"""Every history gives a request that each API accepts, or an error that names the problem."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream import ModelRequest, UsageError
from argstream.history import (
    CallKind,
    CallPart,
    Message,
    OpaquePart,
    Part,
    ResultPart,
    TextPart,
    ThinkingPart,
    Verdict,
)
from argstream.models import ModelSettings
from argstream.providers.openai_requests import CHAT_HABITS, ChatApi
from argstream.testing import MockProvider, Reply
from tests.providers.requests.asking import ADD, APIS, Api, assistant, body, call, result, user
from tests.support.provider_rules import signature, strict_provider


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Api:
    return APIS[request.param]


THOUGHT = ThinkingPart(text="")
ONE, TWO = assistant(call()), assistant(call(), call(call_id="c2"))
NO_RESULT = "the call 'c1' of 'add' has no result"


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        *(([ONE], NO_RESULT), ([ONE, user("And?")], NO_RESULT)),
        ([ONE, user("And?"), user("Well?")], NO_RESULT),
        ([TWO, user(result())], "'c2'"),
        ([ONE, user("wait"), assistant("ok"), user(result())], "'c1'"),
        ([assistant("A"), user(result(call_id="c9"))], "result of the call 'c9', but no such call"),
        ([ONE, user(result(1), result(2))], "'c1' has two results"),
        ([assistant(call(), call()), user(result())], "two calls of one turn have the id 'c1'"),
        ([ONE, user(result(object()))], "result of the call c1 cannot be written as JSON"),
    ],
)
def test_invalid_history_raises(api: Api, history: list[Message], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        body(api, user("hi"), *history)


@pytest.mark.parametrize("history", [[], [user("")], [user(), assistant(THOUGHT)]])
def test_history_without_content_raises(api: Api, history: list[Message]) -> None:
    with pytest.raises(UsageError, match="nothing to ask"):
        body(api, *history)


def test_chosen_tool_must_exist(api: Api) -> None:
    """OpenAI's ``required`` is ``any``."""
    with pytest.raises(UsageError, match="no tool is called 'required': say auto, any, none"):
        body(api, user("hi"), tool_choice="required")
    extra = {"tools": [{"type": "web_search", "name": "web_search"}]}
    assert body(api, user("hi"), tool_choice="web_search", extra=extra)["tool_choice"]
    assert "tool_choice" not in body(api, user("hi"), tools=(), tool_choice="add")


def test_extra_fields_replace_all_others(api: Api) -> None:
    extra = {"stream": False, "max_tokens": 7, "metadata": {"user_id": "u"}}
    assert extra.items() <= body(api, user("hi"), max_tokens=5, extra=extra).items()


# Random histories

texts = st.one_of(st.sampled_from(["", " \n", "\udc80 half", "So."]), st.text(max_size=8))
odd_ids = ["call_1", "toolu_2", "functions.add:0", "x" * 70, "srvtoolu_3", "é", "123456789"]
ids = st.sampled_from(odd_ids)
names = st.sampled_from(["add", "", "a.b c", "n" * 80])


def signed(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature(text)}


def reasoning(text: str, encrypted: str | None) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}]
    item = {"id": "rs_1", "type": "reasoning", "summary": summary}
    return {**item, "encrypted_content": encrypted}


def spoken(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content}


thoughts = st.builds(
    lambda text, make: ThinkingPart(text=text, item=make(text)),
    st.text(max_size=8),
    st.sampled_from(
        [
            lambda _: None,
            signed,
            lambda text: {**signed(text), "signature": ""},
            lambda text: {**signed(text), "index": 3},
            lambda _: {"type": "redacted_thinking", "data": "x"},
            lambda text: reasoning(text, signature(text)),
            lambda text: reasoning(text, None),
            lambda _: {"field": "reasoning_content"},
            lambda text: {"reasoning_details": [{"type": "reasoning.text", "text": text}]},
            lambda _: {"thoughtSignature": "of Gemini"},
            lambda text: {"type": "thinking", "thinking": text},
        ]
    ),
)
said = st.builds(
    lambda text, make: TextPart(text=text, item=make(text)),
    texts,
    st.sampled_from(
        [
            lambda _: None,
            lambda text: spoken(text.replace("\udc80", "")),
            lambda text: {"type": "text", "text": text or ".", "citations": [{"type": "x"}]},
            lambda _: {"thoughtSignature": "of Gemini"},
        ]
    ).filter(bool),
).filter(lambda part: "\udc80" not in part.text or part.item is None)
opaque_items: list[dict[str, Any]] = [
    {"container": {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"}},
    {"type": "compaction", "content": "so far"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {"type": "image", "of": "Gemini"},
    {"citations": []},
    {"reasoning_details": []},
]
opaque = st.sampled_from(opaque_items).map(lambda item: OpaquePart(item=item))
verdicts: list[Verdict] = ["complete", "truncated", "malformed", "rejected", "aborted"]
kinds: list[CallKind] = ["function", "function", "patch", "custom", "client"]


@st.composite
def calls(draw: st.DrawFn) -> CallPart:
    """A call that the client runs, complete or not, of any provider."""
    call_id, name = draw(ids), draw(names)
    raw = draw(st.sampled_from(['{"a": 1}', "", '{"a', "null", '"{\\"a\\": 1}"', "no JSON"]))
    verdict = draw(st.sampled_from(verdicts))
    item = draw(
        st.sampled_from(
            [
                None,
                {"id": "own-id"},
                {"type": "tool_use", "id": call_id, "name": name, "input": {}, "caller": {}},
                {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name},
                {"extra_content": {"google": {"thought_signature": "s"}}},
                {"toolUse": {"toolUseId": call_id}},
            ]
        )
    )
    kind = draw(st.sampled_from(kinds))
    arguments: Any = {"a": 1} if verdict == "complete" else {"INVALID_JSON": raw}
    return CallPart(
        call_id=call_id,
        name=name,
        kind=kind,
        arguments=raw if kind == "custom" else arguments,
        raw=raw,
        verdict=verdict,
        item=item if kind == "function" else None,
    )


@st.composite
def runs_by_providers(draw: st.DrawFn) -> list[Part]:
    """A call that its provider ran, usually with its result."""
    number = draw(st.integers(0, 10**6))
    id_ = f"srvtoolu_{number}"
    told = {"type": "web_search_tool_result", "tool_use_id": id_, "content": []}
    remote = {"type": "mcp_call", "id": f"mcp_{number}", "server_label": "s", "output": "1"}
    search = call(call_id=id_, name="web_search", kind="server")
    mcp = call(call_id=f"mcp_{number}", kind="mcp", item=remote)
    found: list[list[Part]] = [
        [search, ResultPart(call_id=id_, result=[], item=told)],
        [search],
        [mcp, ResultPart(call_id=mcp.call_id, result="1")],
        [call("", call_id=id_, kind="server", verdict="truncated")],
        [call("x = 1", call_id=f"ci_{number}", kind="code", arguments="x = 1")],
    ]
    return draw(st.sampled_from(found))


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    messages = [user(*draw(st.lists(said, max_size=2)))]
    for _ in range(draw(st.integers(0, 3))):
        own = draw(st.lists(calls(), max_size=3, unique_by=lambda part: part.call_id))
        others = draw(st.lists(st.one_of(thoughts, said, opaque), max_size=4))
        parts: list[Part] = draw(st.permutations([*own, *others]))
        parts += draw(st.one_of(st.just([]), runs_by_providers()))
        place = draw(st.integers(0, len(parts)))
        id_ = draw(st.sampled_from(["", "msg_1", "resp_1"]))
        messages += [assistant(*some, id_=id_) for some in (parts[:place], parts[place:])]
        told: list[Part] = [
            ResultPart(
                call_id=part.call_id,
                result=draw(st.sampled_from(["", "\udc80", "A", {"b": 1}, None, [1.5]])),
                failed=draw(st.booleans()),
                note=draw(st.sampled_from(["", "Edited."])),
            )
            for part in own
        ]
        told += draw(st.lists(said, max_size=2))
        messages.append(user(*draw(st.permutations(told))))
    return [*messages, user("Go on.")]


@pytest.fixture(scope="module")
def provider() -> Iterator[MockProvider]:
    with strict_provider(Reply("ok")) as provider:
        yield provider


@pytest.fixture(scope="module")
def client() -> Iterator[httpx2.Client]:
    with httpx2.Client() as client:
        yield client


def arguments_in(sent: Any) -> Iterator[str]:
    for message in sent.get("messages", ()):
        for one in message.get("tool_calls") or ():
            if one["type"] == "function":
                yield one["function"]["arguments"]
    for item in sent.get("input", ()):
        if item["type"] in ("function_call", "mcp_call"):
            yield item["arguments"]


@pytest.mark.parametrize("protocol", APIS)
@given(history=histories(), thinking=st.sampled_from([None, "low", 2048]))
def test_request_of_every_history_is_accepted(
    protocol: str,
    provider: MockProvider,
    client: httpx2.Client,
    history: list[Message],
    thinking: Any,
) -> None:
    # The mock is as strict as OpenAI, which accepts less than other servers.
    api = ChatApi(CHAT_HABITS["openai"]) if protocol == "openai-chat" else APIS[protocol]
    settings = ModelSettings(thinking=thinking)
    request = ModelRequest(messages=tuple(history), tools=(ADD,), settings=settings)
    before = deepcopy(request)
    sent = api.body("some-model", request)
    base = provider.anthropic_url if api.protocol == "anthropic" else provider.openai_url
    answer = client.post(base + api.path, json=sent, headers=api.headers("any"))
    assert answer.status_code == 200, (answer.text, sent)
    for text in arguments_in(sent):
        assert isinstance(json.loads(text), dict)
    if api.protocol == "anthropic":
        roles = [message["role"] for message in sent["messages"]]
        assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
    assert request == before, "the history is not changed"
    assert api.body("some-model", request) == sent, "the same request gives the same body"


@given(history=histories(), name=st.sampled_from(sorted(CHAT_HABITS)))
def test_every_history_suits_the_chat_habits_of_every_server(
    history: list[Message], name: str
) -> None:
    habits = CHAT_HABITS[name]
    request = ModelRequest(messages=tuple(history), tools=(ADD,))
    messages = ChatApi(habits).body("some-model", request)["messages"]
    roles = [message["role"] for message in messages]
    standard = {"role", "content", "tool_calls"}
    for before, message in zip(["", *roles], messages, strict=False):
        assert not (before == message["role"] != "tool"), "neighbours differ"
        assert not (before == "tool" and message["role"] == "user" and habits.bridge)
        if message["role"] == "assistant":
            assert message["content"] or message.get("tool_calls")
            assert message.keys() - standard <= habits.takes_back
