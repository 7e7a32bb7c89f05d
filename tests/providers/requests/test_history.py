"""Every history gives a request that each API accepts, or an error that names the problem."""

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream import ModelRequest, UsageError
from argstream.events import TurnCompleted
from argstream.history import CallPart, Message, OpaquePart, Part, TextPart, ThinkingPart
from argstream.models import ModelSettings
from argstream.providers.openai_requests import CHAT_COMPATIBILITY, ChatApi
from argstream.testing import CallTool, MockProvider, Reply, Say, Split, Think
from tests.providers.requests import asking
from tests.providers.requests.asking import ADD, APIS, Api, ask, assistant, body, call, result, user
from tests.support.provider_rules import signature, strict_provider


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Api:
    return APIS[request.param]


ONE, TWO = assistant(call()), assistant(call(), call(call_id="c2"))
NO_RESULT = "call 'c1' of 'add' has no result"


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        *(([ONE], NO_RESULT), ([ONE, user("And?")], NO_RESULT)),
        ([ONE, user("And?"), user("Well?")], NO_RESULT),
        ([TWO, user(result())], "'c2'"),
        ([ONE, user("wait"), assistant("ok"), user(result())], "'c1'"),
        ([assistant("A"), user(result(call_id="c9"))], "no call for the result with call_id 'c9'"),
        ([ONE, user(result(1), result(2))], "'c1' has two results"),
        ([assistant(call(), call()), user(result())], "two calls of one turn have the ID 'c1'"),
        ([ONE, user(result(object()))], "the result of call 'c1' cannot be encoded as JSON"),
    ],
)
def test_invalid_history_raises(api: Api, history: list[Message], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        body(api, user("hi"), *history)


@pytest.mark.parametrize("history", [[], [user("")], [user(), assistant(ThinkingPart(text=""))]])
def test_history_without_content_raises(api: Api, history: list[Message]) -> None:
    with pytest.raises(UsageError, match="request has no content"):
        body(api, *history)


def test_chosen_tool_must_exist(api: Api) -> None:
    """OpenAI's ``required`` is ``any``."""
    with pytest.raises(UsageError, match="tool_choice names an unknown tool: 'required'"):
        body(api, user("hi"), tool_choice="required")
    extra = {"tools": [{"type": "web_search", "name": "web_search"}]}
    assert body(api, user("hi"), tool_choice="web_search", extra=extra)["tool_choice"]
    assert "tool_choice" not in body(api, user("hi"), tools=(), tool_choice="add")


def test_tools_of_the_provider_are_sent_too(api: Api) -> None:
    search = {"type": "tool_search", "name": "search"}
    for tools in ([ADD], []):
        sent = body(api, user("hi"), tools=tools, provider_tools=(search,), tool_choice="search")
        assert sent["tools"][-1] == search
        assert len(sent["tools"]) == len(tools) + 1
        assert sent["tool_choice"]


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


def parts_of(kind: Any, texts: st.SearchStrategy[str], *items: Any) -> st.SearchStrategy[Any]:
    """Parts whose item is made from their text."""
    return st.builds(
        lambda text, make: kind(text=text, item=make(text)), texts, st.sampled_from(items)
    )


thoughts = parts_of(
    ThinkingPart,
    st.text(max_size=8),
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
)
said = parts_of(
    TextPart,
    texts,
    lambda _: None,
    lambda text: spoken(text.replace("\udc80", "")),
    lambda text: {"type": "text", "text": text or ".", "citations": [{"type": "x"}]},
    lambda _: {"thoughtSignature": "of Gemini"},
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
verdicts = st.sampled_from(["complete", "truncated", "malformed", "rejected", "aborted"])
kinds = st.sampled_from(["function", "function", "patch", "custom", "client"])
raws = st.sampled_from(['{"a": 1}', "", '{"a', "null", '"{\\"a\\": 1}"', "no JSON"])
outputs = st.sampled_from(["", "\udc80", "A", {"b": 1}, None, [1.5]])


@st.composite
def calls(draw: st.DrawFn) -> CallPart:
    """A call that the client runs, complete or not, of any provider."""
    call_id, name, raw = draw(ids), draw(names), draw(raws)
    verdict, kind = draw(verdicts), draw(kinds)
    items: list[Any] = [
        *(None, {"id": "own-id"}, {"toolUse": {"toolUseId": call_id}}),
        {"type": "tool_use", "id": call_id, "name": name, "input": {}, "caller": {}},
        {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name},
        {"extra_content": {"google": {"thought_signature": "s"}}},
    ]
    item = draw(st.sampled_from(items)) if kind == "function" else None
    fields: Any = {"call_id": call_id, "name": name, "kind": kind, "item": item}
    arguments = {"a": 1} if verdict == "complete" else {"INVALID_JSON": raw}
    fields["arguments"] = raw if kind == "custom" else arguments
    return call(raw, verdict=verdict, **fields)


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
        [search, result([], id_, item=told)],
        [search],
        [mcp, result("1", mcp.call_id)],
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
            result(
                *(draw(outputs), part.call_id),
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
    with httpx2.Client(verify=False) as client:
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
    protocol: str, provider: MockProvider, client: httpx2.Client, history: Any, thinking: Any
) -> None:
    # The mock is as strict as OpenAI, which accepts less than other servers.
    api = ChatApi(CHAT_COMPATIBILITY["openai"]) if protocol == "openai-chat" else APIS[protocol]
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


@given(history=histories(), name=st.sampled_from(sorted(CHAT_COMPATIBILITY)))
def test_every_history_suits_every_chat_server(history: list[Message], name: str) -> None:
    server = CHAT_COMPATIBILITY[name]
    request = ModelRequest(messages=tuple(history), tools=(ADD,))
    messages = ChatApi(server).body("some-model", request)["messages"]
    roles = [message["role"] for message in messages]
    standard = {"role", "content", "tool_calls"}
    for before, message in zip(["", *roles], messages, strict=False):
        assert not (before == message["role"] != "tool"), "neighbours differ"
        assert not (before == "tool" and message["role"] == "user" and server.bridge)
        if message["role"] == "assistant":
            assert message["content"] or message.get("tool_calls")
            assert message.keys() - standard <= server.returned_fields


THOUGHT = 'They want "a sum" – é😀\n\\u00e9.'
LOOP = [
    Reply(Think(THOUGHT), Say("I add."), CallTool("add", {"a": 1}), CallTool("add", '{ "a":2.0 }')),
    Reply(Think("One more."), CallTool("add", {"a": 3})),
    Reply(Think("Done."), Say("Six.")),
    Reply("Good bye."),
]


def results_of(turn: TurnCompleted) -> Message:
    calls = [part for part in turn.message.parts if isinstance(part, CallPart)]
    return user(*(result({"sum": 6}, part.call_id) for part in calls))


def test_provider_accepts_its_own_thoughts_and_calls(api: Api) -> None:
    with strict_provider(LOOP, faults=[Split((7, 300))]) as provider:
        history = [user("Add 1, 2 and 3.")]
        for _ in range(2):
            turn = ask(provider, api, *history, thinking=2048)
            assert any(isinstance(part, ThinkingPart) for part in turn.message.parts)
            history += [turn.message, results_of(turn)]
        turn = ask(provider, api, *history)
        history += [turn.message, user("Thank you.")]
        ask(provider, api, *history)
        provider.check()
        sent = provider.requests[-1].body
    # Calls go back exactly as the model wrote them, and thoughts as they were signed.
    text = json.dumps(sent, ensure_ascii=False)
    assert json.dumps(THOUGHT, ensure_ascii=False) in text
    assert json.dumps('{ "a":2.0 }') in text or api.protocol == "anthropic"


BLOCK, ITEM = ["messages", 1, "content", 0], ["input", 1]
REASONING = ["messages", 1, "reasoning_content"]


@pytest.mark.parametrize(
    ("protocol", "path", "is_removed"),
    [
        *(("anthropic", [*BLOCK, field], False) for field in ("thinking", "signature")),
        *(("openai-responses", [*ITEM, field], False) for field in ("encrypted_content", "id")),
        ("openai-responses", [*ITEM, "summary", 0, "text"], False),
        *(("openai-chat", REASONING, False), ("openai-chat", REASONING, True)),
        *(("anthropic", BLOCK, True), ("openai-responses", ITEM, True)),
    ],
)
def test_strict_provider_refuses_a_changed_or_missing_thought(
    protocol: str, path: list[Any], is_removed: bool
) -> None:
    api = APIS[protocol]
    with strict_provider(LOOP) as provider:
        turn = ask(provider, api, user("Add."))
        sent = json.loads(json.dumps(body(api, user("Add."), turn.message, results_of(turn))))
        parent: Any = reduce(getitem, path[:-1], sent)
        value = parent.pop(path[-1])
        if not is_removed:
            parent[path[-1]] = value[:-1] + chr(ord(value[-1]) + 1)
        with pytest.raises(asking.Refused, match=r"unchanged|without|passed back"):
            asking.post(provider, api, sent)


def test_conversation_moves_between_apis(api: Api) -> None:
    for other in APIS.values():
        with strict_provider(LOOP) as provider:
            history = [user("Add.")]
            for one, thinking in ((other, None), (api, 2048)):
                turn = ask(provider, one, *history, thinking=thinking)
                history += [turn.message, results_of(turn)]
            ask(provider, other, *history)
            provider.check()


def test_paused_turn_continues() -> None:
    api = APIS["anthropic"]
    paused = Reply(Think("It takes long."), Say("I search. "), stop="paused")
    with strict_provider([paused, Reply("Found."), Reply("Yes.")]) as provider:
        first = ask(provider, api, user("Search."))
        assert first.stop_reason == "pause_turn"
        second = ask(provider, api, user("Search."), first.message)
        ask(provider, api, user("Search."), first.message, second.message, user("Sure?"))
        provider.check()
        sent: Any = provider.requests[-1].body
    assert [one["role"] for one in sent["messages"]] == ["user", "assistant", "user"]
