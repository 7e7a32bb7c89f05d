"""The turns of one conversation come in several streams, and are numbered as one."""

import pytest

from argstream import stream
from argstream.assembly import Numbering
from argstream.events import Event, TextDelta, ToolCallCompleted, ToolCallStarted, TurnCompleted
from argstream.history import CallPart
from tests.provider_streams import block_delta, block_start, block_stop, message_end, message_start
from tests.provider_streams import tool_use as call_start


def turn(after: Numbering) -> tuple[list[Event], Numbering]:
    """A turn that says something and makes a call, with the same id each time."""
    events = stream(
        [
            message_start(),
            block_start(0, "text", text=""),
            block_delta(0, "text_delta", text="Hello"),
            block_stop(0),
            call_start(1, "add", "functions.add:0"),
            block_stop(1),
            *message_end(),
        ],
        after=after,
    )
    return list(events), events.numbering


def test_blocks_and_calls_are_numbered_on() -> None:
    first, numbering = turn(Numbering())
    second, last = turn(numbering)
    assert [event.block for event in (*first, *second) if isinstance(event, TextDelta)] == [0, 1]
    calls = [event for event in (*first, *second) if isinstance(event, ToolCallStarted)]
    assert [call.index for call in calls] == [0, 1]
    assert (last.turns, last.blocks, last.calls) == (2, 2, 2)


def test_an_id_that_comes_again_in_a_later_turn_becomes_another_and_the_providers_is_kept() -> None:
    first, numbering = turn(Numbering())
    second, last = turn(numbering)
    ids = [event.call_id for event in (*first, *second) if isinstance(event, ToolCallStarted)]
    assert ids[0] == "functions.add:0"
    assert len(set(ids)) == 2
    assert last.call_ids == set(ids)
    (ended,) = (event for event in second if isinstance(event, TurnCompleted))
    (call,) = (part for part in ended.message.parts if isinstance(part, CallPart))
    assert call.call_id == ids[1]
    assert call.item == {"id": "functions.add:0"}


def ids_of(*calls: str, after: Numbering | None = None, messages: int = 1) -> list[str]:
    """The IDs of calls that came under these IDs, in each of several messages of one stream."""
    payloads = []
    for _ in range(messages):
        starts = [call_start(index, "add", id_) for index, id_ in enumerate(calls)]
        stops = [block_stop(index) for index in range(len(calls))]
        payloads += [message_start(), *starts, *stops, *message_end()]
    events = list(stream(payloads, after=after))
    return [event.call_id for event in events if isinstance(event, ToolCallStarted)]


def test_ids_are_unique_in_a_stream_that_continues_a_conversation() -> None:
    ids = ids_of("a", "b", after=Numbering(), messages=2)
    assert ids[:2] == ["a", "b"]
    assert len(set(ids)) == 4


def test_stream_that_stands_alone_keeps_ids_that_come_again_in_a_later_message() -> None:
    assert ids_of("a", "b", messages=2) == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    "after", [None, Numbering(), Numbering(call_ids=frozenset({"call_a_0_1"}))]
)
@pytest.mark.parametrize(
    "given",
    [("a", "call_a_0_2", "a"), ("a", "a", "call_a_0_1"), ("", "call_msg_1_0_0", "call_msg_1_1_0")],
)
def test_made_up_id_is_never_one_that_was_given(
    given: tuple[str, ...], after: Numbering | None
) -> None:
    ids = ids_of(*given, after=after)
    assert len(set(ids)) == 3
    again = ids_of(*given, after=after, messages=2)[3:]
    made_up = [id_ for id_, by_provider in zip(again, given, strict=True) if id_ != by_provider]
    assert not set(made_up) & set(ids)


def test_making_up_ids_takes_linear_time_also_if_the_provider_guesses_them() -> None:
    guesses = [f"call_a_0_{number}" for number in range(1001, 2001)]
    ids = ids_of(*guesses, *["a"] * 1001)
    assert ids[:1001] == [*guesses, "a"]
    assert ids[1001:] == [f"call_a_0_{number}" for number in range(2001, 3001)]


def test_result_under_an_id_that_two_calls_have_goes_to_the_one_that_the_provider_runs() -> None:
    search = {"id": "a", "name": "web_search", "input": {}}
    result = {"tool_use_id": "a", "content": []}
    events = list(
        stream(
            [
                message_start(),
                block_start(0, "server_tool_use", **search),
                block_stop(0),
                call_start(1, "add", "a"),
                block_stop(1),
                block_start(2, "web_search_tool_result", **result),
                block_stop(2),
                *message_end(),
            ],
            after=Numbering(),
        )
    )
    (completed,) = (event for event in events if isinstance(event, ToolCallCompleted))
    assert (completed.call_id, completed.name) == ("a", "web_search")
