"""ScriptedModel replays a script."""

import asyncio
from typing import Any

import pytest

from argstream import UsageError, stream
from argstream.errors import ProviderError
from argstream.events import Event, TextDelta, ToolCallStarted, TurnCompleted
from argstream.history import CallPart, TextPart, ThinkingPart
from argstream.models import CallTool, ModelRequest, Reply, Say, ScriptedModel, Think
from argstream.testing import Cut
from tests.models.over_http import REQUEST, request_for


def answer(model: ScriptedModel, request: ModelRequest = REQUEST) -> list[Event]:
    async def read() -> list[Event]:
        return [event async for event in stream(model.stream(request), model.protocol)]

    return asyncio.run(read())


def pieces(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, TextDelta)]


def call_ids(events: list[Event]) -> list[str]:
    return [event.call_id for event in events if isinstance(event, ToolCallStarted)]


def turn(events: list[Event]) -> TurnCompleted:
    assert isinstance(events[-1], TurnCompleted)
    return events[-1]


def test_reply_is_streamed_with_thinking_text_and_call() -> None:
    arguments = {"path": "a.txt", "content": "é😀" * 20}
    model = ScriptedModel(Reply(Think("Hm."), Say("I write."), CallTool("write", arguments)))
    completed = turn(answer(model))
    thinking, text, call = completed.message.parts
    assert isinstance(thinking, ThinkingPart)
    assert isinstance(text, TextPart)
    assert isinstance(call, CallPart)
    assert (thinking.text, text.text) == ("Hm.", "I write.")
    assert thinking.item is not None
    assert thinking.item["signature"]
    assert (call.name, call.arguments, call.verdict) == ("write", arguments, "complete")
    assert completed.stop_reason == "tool_use"


def test_finished_script_raises() -> None:
    model = ScriptedModel("a")
    answer(model)
    with pytest.raises(ProviderError, match="the script has no more repl") as caught:
        answer(model)
    assert (caught.value.code, caught.value.retryable) == ("script_over", False)


def test_script_can_repeat_and_compute_replies() -> None:
    model = ScriptedModel(Say("a"), lambda request: f"{len(request.tools)} tools", repeat=True)
    requests = [request_for(str(number)) for number in range(3)]
    texts = ["".join(pieces(answer(model, request))) for request in requests]
    assert texts == ["a", "0 tools", "a"]
    assert model.requests == requests


def test_call_ids_are_unique_over_all_turns() -> None:
    model = ScriptedModel(Reply(CallTool("a"), CallTool("b")), repeat=True)
    assert len({call_id for _ in range(3) for call_id in call_ids(answer(model))}) == 6
    assert call_ids(answer(ScriptedModel(CallTool("a", call_id="mine")))) == ["mine"]


def test_piece_size_of_the_model_overrides_that_of_a_reply() -> None:
    reply = Reply("abcdefg", piece_size=5)
    assert pieces(answer(ScriptedModel("abcdefg"))) == ["abcd", "efg"]
    assert pieces(answer(ScriptedModel(reply))) == ["abcde", "fg"]
    assert pieces(answer(ScriptedModel(reply, piece_size=3))) == ["abc", "def", "g"]


async def test_other_tasks_run_between_pieces_without_delay() -> None:
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
    assert turns >= 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: ScriptedModel(7),  # type: ignore[arg-type]
        lambda: ScriptedModel("a", piece_size=0),
        lambda: ScriptedModel("a", delay=-1),
        lambda: ScriptedModel(Reply("a", faults=[Cut()])),
        lambda: answer(ScriptedModel(lambda _: None)),  # type: ignore[arg-type, return-value]
    ],
)
def test_invalid_script_raises(make: Any) -> None:
    with pytest.raises(UsageError):
        make()
