"""Source 001: ids and names are kept across chunks, and deltas are what its words say.

Its examples contradict its words in places: they show cumulative deltas and empty ones. Deltas here
are incremental and never empty (invariant 2); arguments are complete when the provider closes them.
"""

import json
from typing import Any

import pytest

from argstream.events import ToolArgsCompleted, ToolArgsDelta, ToolCallStarted
from tests.providers import anthropic_call, assemble, chat_call, of_type, responses_call

PIECES = ["", "{", '"a', '": 123, ', '"b": 456', "}"]


@pytest.fixture(params=[anthropic_call, chat_call, responses_call])
def turn(request: pytest.FixtureRequest) -> list[Any]:
    built: list[Any] = request.param(*PIECES)
    return built


def test_the_first_event_is_the_tool_without_arguments(turn: list[Any]) -> None:
    _, events = assemble(turn)
    assert isinstance(events[0], ToolCallStarted)
    assert events[0].name == "write"


def test_every_delta_carries_the_id_and_the_name(turn: list[Any]) -> None:
    _, events = assemble(turn)
    started = events[0]
    assert isinstance(started, ToolCallStarted)
    for event in of_type(events, ToolArgsDelta, ToolArgsCompleted):
        assert (event.call_id, event.name) == (started.call_id, started.name)


def test_fragments_are_concatenated_to_the_complete_object(turn: list[Any]) -> None:
    _, events = assemble(turn)
    deltas = [event.delta for event in of_type(events, ToolArgsDelta)]
    assert deltas == [piece for piece in PIECES if piece]
    (completed,) = of_type(events, ToolArgsCompleted)
    assert json.loads("".join(deltas)) == completed.arguments == {"a": 123, "b": 456}


def test_the_order_is_started_deltas_completed(turn: list[Any]) -> None:
    _, events = assemble(turn)
    order = [
        event.type for event in of_type(events, ToolCallStarted, ToolArgsDelta, ToolArgsCompleted)
    ]
    assert order == ["tool_call_started", *["tool_args_delta"] * 5, "tool_args_completed"]
