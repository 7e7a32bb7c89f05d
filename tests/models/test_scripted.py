"""A model that says what a script says."""

import asyncio
import time
from typing import Any

import pytest

from argstream import UsageError, stream
from argstream.errors import ProviderFailure
from argstream.events import Event, TextDelta, ToolCallStarted, TurnCompleted
from argstream.history import CallPart, ThinkingPart
from argstream.models import CallTool, ModelRequest, Reply, Say, ScriptedModel, Think
from argstream.testing import Cut
from argstream.testing import Reply as ReplyWithFaults
from tests.models.over_http import REQUEST, ask_for


def answer(model: ScriptedModel, request: ModelRequest = REQUEST) -> list[Event]:
    async def read() -> list[Event]:
        return [event async for event in stream(model.stream(request), model.protocol)]

    return asyncio.run(read())


def text(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def turn(events: list[Event]) -> TurnCompleted:
    assert isinstance(events[-1], TurnCompleted)
    return events[-1]


def test_it_says_what_the_script_says() -> None:
    arguments = {"path": "a.txt", "content": "é😀" * 20}
    model = ScriptedModel(Reply(Think("Hm."), Say("I write."), CallTool("write", arguments)))
    completed = turn(answer(model))
    thought, said, call = completed.message.parts
    assert isinstance(thought, ThinkingPart)
    assert isinstance(call, CallPart)
    assert (thought.text, said.text) == ("Hm.", "I write.")  # type: ignore[union-attr] # it is text
    assert thought.item is not None
    assert thought.item["signature"]
    assert (call.name, call.arguments, call.verdict) == ("write", arguments, "complete")
    assert completed.stop_reason == "tool_use"


def test_a_script_that_is_over_says_so() -> None:
    model = ScriptedModel("a")
    answer(model)
    with pytest.raises(ProviderFailure, match="the script is over after 1 replies") as caught:
        answer(model)
    assert (caught.value.code, caught.value.retryable) == ("script_over", False)


def test_a_script_can_be_repeated() -> None:
    model = ScriptedModel(Say("a"), lambda request: f"{len(request.tools)} tools", repeat=True)
    requests = [ask_for(str(number)) for number in range(3)]
    assert [text(answer(model, request)) for request in requests] == ["a", "0 tools", "a"]
    assert model.requests == requests


def test_an_exception_is_raised_instead_of_an_answer() -> None:
    model = ScriptedModel(ProviderFailure("overloaded", "No.", retryable=True), "Yes.")
    with pytest.raises(ProviderFailure, match="No"):
        answer(model)
    assert text(answer(model)) == "Yes."


def test_ids_of_calls_are_their_own_over_all_turns() -> None:
    two = Reply(CallTool("a"), CallTool("b"))
    model = ScriptedModel(two, repeat=True)
    started = [
        event.call_id
        for _ in range(3)
        for event in answer(model)
        if isinstance(event, ToolCallStarted)
    ]
    assert len(set(started)) == 6
    events = answer(ScriptedModel(CallTool("a", call_id="mine")))
    assert [one.call_id for one in events if isinstance(one, ToolCallStarted)] == ["mine"]


def test_pieces_are_as_long_as_is_asked_for() -> None:
    def pieces(model: ScriptedModel) -> list[str]:
        return [event.text for event in answer(model) if isinstance(event, TextDelta)]

    assert pieces(ScriptedModel("abcdefg")) == ["abcd", "efg"]
    assert pieces(ScriptedModel(Reply("abcdefg", piece_size=5))) == ["abcde", "fg"]
    assert pieces(ScriptedModel(Reply("abcdefg", piece_size=5), piece_size=3)) == [
        "abc",
        "def",
        "g",
    ]


def test_a_call_that_was_cut_is_truncated() -> None:
    completed = turn(answer(ScriptedModel(Reply(CallTool("a", '{"b": '), stop="max_tokens"))))
    (call,) = completed.message.parts
    assert isinstance(call, CallPart)
    assert call.verdict == "truncated"
    assert completed.stop_reason == "max_tokens"


def test_it_can_take_its_time_and_be_cancelled() -> None:
    async def read() -> None:
        async for _ in ScriptedModel("a" * 400, delay=0.02).stream(REQUEST):
            pass

    started = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(read(), 0.1))
    assert 0.09 < time.monotonic() - started < 1


def test_others_get_their_turn_though_nothing_waits() -> None:
    async def count() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        async for _ in ScriptedModel(Reply("a", "b", "c")).stream(REQUEST):
            pass
        task.cancel()
        return turns

    assert asyncio.run(count()) >= 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: ScriptedModel(7),  # type: ignore[arg-type] # that is the point
        lambda: ScriptedModel("a", piece_size=0),
        lambda: ScriptedModel("a", delay=-1),
        lambda: ScriptedModel(ReplyWithFaults("a", faults=[Cut()])),
        lambda: answer(ScriptedModel(lambda _: None)),  # type: ignore[arg-type, return-value]
    ],
)
def test_a_script_that_cannot_work_is_refused(make: Any) -> None:
    with pytest.raises(UsageError):
        make()
