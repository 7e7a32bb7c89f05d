"""The turns of one conversation come in several streams, and are numbered as one."""

import pytest

from argstream import stream
from argstream.assembly import Numbering
from argstream.events import TextDelta, ToolCallCompleted, ToolCallStarted, TurnCompleted
from argstream.history import CallPart
from tests import provider_streams as api
from tests.provider_streams import of_type


def test_second_stream_continues_numbers_and_renames_repeated_ids() -> None:
    call = api.call_block(1, id_="functions.add:0")
    payloads = [api.message_start(), *api.text_block(0, "Hello"), *call, *api.message_end()]
    first = stream(payloads, after=Numbering())
    events = list(first)
    second = stream(payloads, after=first.numbering)
    events += second
    last = second.numbering
    assert [event.block for event in of_type(events, TextDelta)] == [0, 1]
    calls = of_type(events, ToolCallStarted)
    assert [call.index for call in calls] == [0, 1]
    assert (last.turns, last.blocks, last.calls) == (2, 2, 2)
    ids = [call.call_id for call in calls]
    assert ids[0] == "functions.add:0" != ids[1]
    assert last.call_ids == set(ids)
    # The ID of the provider is kept.
    parts = of_type(of_type(events, TurnCompleted)[1].message.parts, CallPart)
    assert [(part.call_id, part.item) for part in parts] == [(ids[1], {"id": "functions.add:0"})]


def ids_of(*calls: str, after: Numbering | None = None, messages: int = 1) -> list[str]:
    """Return the IDs of calls that came under these IDs, in each of several messages."""
    payloads = []
    for _ in range(messages):
        starts = [api.tool_use(index, "add", id_) for index, id_ in enumerate(calls)]
        stops = [api.block_stop(index) for index in range(len(calls))]
        payloads += [api.message_start(), *starts, *stops, *api.message_end()]
    return [event.call_id for event in of_type(stream(payloads, after=after), ToolCallStarted)]


def test_repeated_ids_are_renamed_only_in_a_conversation() -> None:
    ids = ids_of("a", "b", after=Numbering(), messages=2)
    assert ids[:2] == ["a", "b"]
    assert len(set(ids)) == 4
    assert ids_of("a", "b", messages=2) == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    "after", [None, Numbering(), Numbering(call_ids=frozenset({"call_a_0_1"}))]
)
@pytest.mark.parametrize(
    "given",
    [("a", "call_a_0_2", "a"), ("a", "a", "call_a_0_1"), ("", "call_msg_1_0_0", "call_msg_1_1_0")],
)
def test_generated_id_is_never_a_given_one(given: tuple[str, ...], after: Numbering | None) -> None:
    ids = ids_of(*given, after=after)
    assert len(set(ids)) == 3
    again = ids_of(*given, after=after, messages=2)[3:]
    generated = {id_ for id_, by_provider in zip(again, given, strict=True) if id_ != by_provider}
    assert not generated & set(ids)


def test_generating_ids_takes_linear_time_if_the_provider_guesses_them() -> None:
    guesses = [f"call_a_0_{number}" for number in range(1001, 2001)]
    ids = ids_of(*guesses, *["a"] * 1001)
    assert ids[:1001] == [*guesses, "a"]
    assert ids[1001:] == [f"call_a_0_{number}" for number in range(2001, 3001)]


def test_result_under_a_shared_id_goes_to_the_call_that_the_provider_runs() -> None:
    payloads = [
        api.message_start(),
        api.block_start(0, "server_tool_use", id="a", name="web_search", input={}),
        api.block_stop(0),
        api.tool_use(1, "add", "a"),
        api.block_stop(1),
        api.block_start(2, "web_search_tool_result", tool_use_id="a", content=[]),
        api.block_stop(2),
        *api.message_end(),
    ]
    (completed,) = of_type(stream(payloads, after=Numbering()), ToolCallCompleted)
    assert (completed.call_id, completed.name) == ("a", "web_search")
