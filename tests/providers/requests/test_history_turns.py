"""Conversations of several turns with thinking and tools, for each API."""

import json
from functools import reduce
from operator import getitem
from typing import Any

import httpx2
import pytest

from argstream.events import TurnCompleted
from argstream.history import CallPart, Message, ResultPart, ThinkingPart
from argstream.testing import CallTool, Cut, Reply, Say, Split, Think
from tests.providers.requests.asking import APIS, Api, Refused, ask, body, call, post, result, user
from tests.support.provider_rules import strict_provider

THOUGHT = 'They want "a sum" – é😀\n\\u00e9.'
LOOP = [
    Reply(Think(THOUGHT), Say("I add."), CallTool("add", {"a": 1}), CallTool("add", '{ "a":2.0 }')),
    Reply(Think("One more."), CallTool("add", {"a": 3})),
    Reply(Think("Done."), Say("Six.")),
    Reply("Good bye."),
]


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Api:
    return APIS[request.param]


def results(turn: TurnCompleted) -> Message:
    calls = [part for part in turn.message.parts if isinstance(part, CallPart)]
    return user(*(ResultPart(call_id=part.call_id, result={"sum": 6}) for part in calls))


def test_provider_accepts_its_own_thoughts_and_calls(api: Api) -> None:
    with strict_provider(LOOP, faults=[Split((7, 300))]) as provider:
        history = [user("Add 1, 2 and 3.")]
        for _ in range(2):
            turn = ask(provider, api, *history, thinking=2048)
            assert any(isinstance(part, ThinkingPart) for part in turn.message.parts)
            history += [turn.message, results(turn)]
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
        sent = json.loads(json.dumps(body(api, user("Add."), turn.message, results(turn))))
        parent: Any = reduce(getitem, path[:-1], sent)
        value = parent.pop(path[-1])
        if not is_removed:
            parent[path[-1]] = value[:-1] + chr(ord(value[-1]) + 1)
        with pytest.raises(Refused, match=r"unchanged|without|passed back"):
            post(provider, api, sent)


def test_two_conversations_are_separate(api: Api) -> None:
    script = [
        Reply(Think(f"Thought {n}."), CallTool("add", {"a": n}, call_id="same")) for n in range(2)
    ]
    with strict_provider([*script, Reply("One."), Reply("Two.")]) as provider:
        turns = [ask(provider, api, user("Add.")) for _ in range(2)]
        for turn in reversed(turns):
            ask(provider, api, user("Add."), turn.message, results(turn))
        provider.check()


def test_turn_that_was_cut_may_go_back() -> None:
    api = APIS["openai-chat"]
    broken = Reply(Think("Hm."), CallTool("add", {"a": 1}, call_id="c1"), faults=[Cut("call")])
    with strict_provider([broken, Reply("Well.")]) as provider:
        with pytest.raises(httpx2.RemoteProtocolError):
            post(provider, api, body(api, user("Add.")))
        answer = Message(role="assistant", parts=(call('{"a"', verdict="truncated"),))
        ask(provider, api, user("Add."), answer, user(result("cut off", failed=True)))


def test_conversation_moves_between_apis(api: Api) -> None:
    for other in APIS.values():
        with strict_provider(LOOP) as provider:
            history = [user("Add.")]
            for one, thinking in ((other, None), (api, 2048)):
                turn = ask(provider, one, *history, thinking=thinking)
                history += [turn.message, results(turn)]
            ask(provider, other, *history)
            provider.check()


def test_paused_turn_continues() -> None:
    api = APIS["anthropic"]
    paused = Reply(Think("It takes long."), Say("I search. "), stop="pause_turn")
    with strict_provider([paused, Reply("Found."), Reply("Yes.")]) as provider:
        first = ask(provider, api, user("Search."))
        assert first.stop_reason == "pause_turn"
        second = ask(provider, api, user("Search."), first.message)
        ask(provider, api, user("Search."), first.message, second.message, user("Sure?"))
        provider.check()
        sent: Any = provider.requests[-1].body
    assert [one["role"] for one in sent["messages"]] == ["user", "assistant", "user"]
