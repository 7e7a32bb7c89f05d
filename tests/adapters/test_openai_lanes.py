"""OpenAI Responses over a WebSocket: several responses at the same time, each in its own lane."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from openai import AsyncOpenAI
from openai.types.responses import ResponsesServerEvent
from pydantic import TypeAdapter
from websockets.sync.server import ServerConnection, serve

from argstream import stream
from argstream.assembly import Call
from argstream.events import (
    Event,
    StreamFailed,
    TextDelta,
    ToolArgsCompleted,
    ToolArgsInvalid,
    TurnCompleted,
)
from tests.providers import Payload, of_type

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


def test_lanes_that_never_end_leave_their_calls_truncated() -> None:
    calls, events = read(INTERLEAVED[:6])
    assert [call.verdict for call in calls] == ["truncated", "truncated"]
    assert len(of_type(events, ToolArgsInvalid)) == 2
    assert not of_type(events, ToolArgsCompleted)


@contextmanager
def server(payloads: list[Payload]) -> Iterator[str]:
    """A WebSocket server that sends these events and closes the connection."""

    def send(connection: ServerConnection) -> None:
        for payload in payloads:
            connection.send(json.dumps(payload))
        connection.close()

    with serve(send, "127.0.0.1", 0) as listening:
        thread = Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{listening.socket.getsockname()[1]}"
        finally:
            listening.shutdown()
            thread.join()


def test_lanes_of_the_sdks_own_connection_are_two_turns() -> None:
    async def follow(url: str) -> list[Call]:
        client = AsyncOpenAI(api_key="x", websocket_base_url=url)
        async with client.responses.connect() as connection:
            events = stream(connection, protocol="openai-responses")
            async for _ in events:
                pass
            return events.calls

    with server(INTERLEAVED) as url:
        calls = asyncio.run(follow(url))
    assert [(call.id, call.arguments) for call in calls] == [
        ("call_a", {"x": 1}),
        ("call_b", {"y": 2}),
    ]
