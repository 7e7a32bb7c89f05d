"""OpenAI Responses over a WebSocket: several responses at the same time, each in its own lane."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from openai.types.responses import ResponsesServerEvent
from pydantic import TypeAdapter

from argstream import stream
from argstream.assembly import Call
from argstream.events import Event, StreamFailed, TextDelta, TurnCompleted
from tests.provider_streams import Payload, of_type

RESPONSE: Payload = {
    "object": "response",
    "created_at": 1.0,
    "model": "gpt",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
_to_sdk: TypeAdapter[Any] = TypeAdapter(ResponsesServerEvent)


class Lane:
    """The events of one lane. Items have the same index and the same item ID in all lanes."""

    def __init__(self, name: str | None, response_id: str | None = None) -> None:
        self.name = name
        self.response_id = response_id or f"resp_{name}"

    def event(self, type_: str, **fields: Any) -> Payload:
        lane = {} if self.name is None else {"stream_id": self.name}
        return {"type": type_, "sequence_number": 1, **fields, **lane}

    def created(self) -> Payload:
        return self.event("response.created", response={"id": self.response_id, **RESPONSE})

    def added(self) -> Payload:
        item = {**self.item(""), "status": "in_progress"}
        return self.event("response.output_item.added", output_index=0, item=item)

    def delta(self, text: str) -> Payload:
        type_ = "response.function_call_arguments.delta"
        return self.event(type_, item_id="fc_1", output_index=0, delta=text)

    def done(self, text: str) -> Payload:
        item = {**self.item(text), "status": "completed"}
        return self.event("response.output_item.done", output_index=0, item=item)

    def completed(self) -> Payload:
        response = {"id": self.response_id, **RESPONSE, "status": "completed"}
        return self.event("response.completed", response=response)

    def error(self, message: str) -> Payload:
        error = {"code": "server_error", "message": message, "type": "server_error"}
        return self.event("error", error=error, status=500)

    def item(self, text: str) -> Payload:
        call_id, name = f"call_{self.name}", f"tool_{self.name}"
        return {
            "type": "function_call",
            "id": "fc_1",
            "call_id": call_id,
            "name": name,
            "arguments": text,
        }


A, B = Lane("a"), Lane("b")
INTERLEAVED = [
    A.created(),
    B.created(),
    A.added(),
    B.added(),
    A.delta('{"x"'),
    B.delta('{"y"'),
    B.delta(": 2"),
    A.delta(": 1"),
    A.delta("}"),
    B.delta("}"),
    A.done('{"x": 1}'),
    B.done('{"y": 2}'),
    B.completed(),
    A.completed(),
]


def as_dicts(payloads: list[Payload]) -> list[Any]:
    return payloads


def as_objects(payloads: list[Payload]) -> list[Any]:
    return [_to_sdk.validate_python(payload) for payload in payloads]


def as_text(payloads: list[Payload]) -> list[Any]:
    return [json.dumps(payload) for payload in payloads]


FORMS = pytest.mark.parametrize("form", [as_dicts, as_objects, as_text])


def read(payloads: list[Any]) -> tuple[list[Call], list[Event]]:
    events = stream(payloads)
    found = list(events)
    return events.calls, found


@FORMS
def test_two_interleaved_lanes_are_two_turns(form: Callable[[list[Payload]], list[Any]]) -> None:
    calls, events = read(form(INTERLEAVED))
    assert [(call.id, call.arguments) for call in calls] == [
        ("call_a", {"x": 1}),
        ("call_b", {"y": 2}),
    ]
    assert {call.reinterpreted for call in calls} == {None}
    turns = of_type(events, TurnCompleted)
    assert [turn.message.id for turn in turns] == ["resp_b", "resp_a"]
    assert [[part.call_id for part in turn.message.parts] for turn in turns] == [
        ["call_b"],
        ["call_a"],
    ]
    assert not of_type(events, StreamFailed)


@FORMS
def test_lane_may_begin_and_end_while_another_one_is_written(
    form: Callable[[list[Payload]], list[Any]],
) -> None:
    again = Lane("b", "resp_b2")
    payloads = [
        A.created(),
        A.added(),
        A.delta('{"x"'),
        *(B.created(), B.added(), B.delta('{"y": 2}'), B.done('{"y": 2}'), B.completed()),
        A.delta(": 1"),
        *(again.created(), again.event("response.output_text.delta", **text("Hello."))),
        A.delta("}"),
        again.completed(),
        A.done('{"x": 1}'),
        A.completed(),
    ]
    calls, events = read(form(payloads))
    assert [(call.id, call.arguments) for call in calls] == [
        ("call_a", {"x": 1}),
        ("call_b", {"y": 2}),
    ]
    turns = of_type(events, TurnCompleted)
    assert [turn.message.id for turn in turns] == ["resp_b", "resp_b2", "resp_a"]
    assert [event.text for event in of_type(events, TextDelta)] == ["Hello."]
    assert not of_type(events, StreamFailed)


def text(delta: str) -> Payload:
    return {
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
        "delta": delta,
        "logprobs": [],
    }


@FORMS
def test_error_of_one_lane_cuts_only_the_calls_of_that_lane(
    form: Callable[[list[Payload]], list[Any]],
) -> None:
    payloads = [*INTERLEAVED[:6], A.error("overloaded"), *INTERLEAVED[6:7], *INTERLEAVED[9:10]]
    payloads += [B.done('{"y": 2}'), B.completed()]
    calls, events = read(form(payloads))
    assert [(call.id, call.verdict) for call in calls] == [
        ("call_a", "truncated"),
        ("call_b", "complete"),
    ]
    assert [event.message for event in of_type(events, StreamFailed)] == ["overloaded"]
    assert [turn.message.id for turn in of_type(events, TurnCompleted)] == ["resp_b"]


def test_error_without_a_lane_cuts_no_call() -> None:
    payloads = [*INTERLEAVED[:6], Lane(None).error("connection limit"), *INTERLEAVED[6:]]
    calls, events = read(payloads)
    assert [call.verdict for call in calls] == ["complete", "complete"]
    assert [event.message for event in of_type(events, StreamFailed)] == ["connection limit"]
