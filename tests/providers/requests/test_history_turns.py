"""Two turns with thinking and tools, for each API: the provider takes back what it said."""

import json
from collections.abc import Callable
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


def test_a_loop_of_thinking_and_tools_is_taken_turn_after_turn(api: Api) -> None:
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
    # What the model wrote goes back as it was written, its thoughts as they were signed.
    text = json.dumps(sent, ensure_ascii=False)
    assert json.dumps(THOUGHT, ensure_ascii=False) in text
    assert json.dumps('{ "a":2.0 }') in text or api.protocol == "anthropic"


def changed(value: str) -> str:
    return value[:-1] + chr(ord(value[-1]) + 1)


Change = Callable[[Any], None]


def change_block(field: str) -> Change:
    def change(sent: Any) -> None:
        block = sent["messages"][1]["content"][0]
        block[field] = changed(block[field])

    return change


def change_reasoning_content(sent: Any) -> None:
    message = sent["messages"][1]
    message["reasoning_content"] = changed(message["reasoning_content"])


def change_item(field: str) -> Change:
    def change(sent: Any) -> None:
        item = sent["input"][1]
        item[field] = changed(item[field])

    return change


def change_summary(sent: Any) -> None:
    part = sent["input"][1]["summary"][0]
    part["text"] = changed(part["text"])


@pytest.mark.parametrize(
    ("protocol", "change"),
    [
        ("anthropic", change_block("thinking")),
        ("anthropic", change_block("signature")),
        ("openai-chat", change_reasoning_content),
        ("openai-responses", change_summary),
        ("openai-responses", change_item("encrypted_content")),
        ("openai-responses", change_item("id")),
    ],
)
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_thought_that_differs_by_a_byte_is_refused(
    protocol: str, change: Change, goes_on: bool
) -> None:
    api = APIS[protocol]
    with strict_provider(LOOP) as provider:
        question = user("Add.")
        turn = ask(provider, api, question)
        more = [] if goes_on else [user("Never mind.")]
        sent = json.loads(json.dumps(body(api, question, turn.message, results(turn), *more)))
        change(sent)
        with pytest.raises(Refused, match="unchanged"):
            post(provider, api, sent)


def without_thinking(sent: Any) -> None:
    if "input" in sent:
        del sent["input"][1]
    elif "reasoning_content" in sent["messages"][1]:
        del sent["messages"][1]["reasoning_content"]
    else:
        del sent["messages"][1]["content"][0]


def test_a_call_whose_thought_is_missing_is_refused_while_its_results_are_told(api: Api) -> None:
    with strict_provider(LOOP) as provider:
        question = user("Add.")
        turn = ask(provider, api, question)
        sent = body(api, question, turn.message, results(turn))
        without_thinking(sent)
        with pytest.raises(Refused, match=r"without|passed back"):
            post(provider, api, sent)
        later = body(api, question, turn.message, results(turn), user("Well?"))
        if api.protocol != "anthropic":  # there, a user who speaks with results ends nothing
            without_thinking(later)
        post(provider, api, later)


def test_two_conversations_at_once_do_not_mix(api: Api) -> None:
    script = [
        Reply(Think(f"Thought {n}."), CallTool("add", {"a": n}, call_id="same")) for n in range(2)
    ]
    with strict_provider([*script, Reply("One."), Reply("Two.")]) as provider:
        question = user("Add.")
        turns = [ask(provider, api, question) for _ in range(2)]
        for turn in reversed(turns):
            ask(provider, api, question, turn.message, results(turn))
        provider.check()


def test_a_turn_that_was_damaged_on_its_way_is_not_asked_for() -> None:
    api = APIS["openai-chat"]
    broken = Reply(Think("Hm."), CallTool("add", {"a": 1}, call_id="c1"), faults=[Cut("call")])
    with strict_provider([broken, Reply("Well.")]) as provider:
        with pytest.raises(httpx2.RemoteProtocolError):
            post(provider, api, body(api, user("Add.")))
        cut = call('{"a"', verdict="truncated")
        answer = Message(role="assistant", parts=(cut,))
        ask(provider, api, user("Add."), answer, user(result("cut off", failed=True)))


def test_a_conversation_moves_from_any_api_to_any_other(api: Api) -> None:
    for other in APIS.values():
        with strict_provider(LOOP) as provider:
            history = [user("Add.")]
            turn = ask(provider, other, *history)
            history += [turn.message, results(turn)]
            turn = ask(provider, api, *history, thinking=2048)
            history += [turn.message, results(turn)]
            ask(provider, other, *history)
            provider.check()


def test_a_turn_that_paused_goes_on() -> None:
    api = APIS["anthropic"]
    paused = Reply(Think("It takes long."), Say("I search. "), stop="pause_turn")
    with strict_provider([paused, Reply("Found."), Reply("Yes.")]) as provider:
        history = [user("Search.")]
        turn = ask(provider, api, *history)
        assert turn.stop_reason == "pause_turn"
        history.append(turn.message)
        turn = ask(provider, api, *history)
        history += [turn.message, user("Sure?")]
        ask(provider, api, *history)
        provider.check()
        assert [m["role"] for m in provider.requests[-1].body["messages"]] == [  # type: ignore[index]  # it is JSON
            "user",
            "assistant",
            "user",
        ]
