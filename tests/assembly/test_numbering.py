"""The turns of one conversation come in several streams, and are numbered as one."""

from argstream import stream
from argstream.assembly import Numbering
from argstream.events import Event, TextDelta, ToolCallStarted, TurnCompleted
from argstream.history import CallPart
from tests.providers import block_delta, block_start, block_stop, message_end, message_start
from tests.providers import tool_use as call_start


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
