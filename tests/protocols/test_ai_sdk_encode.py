"""``ai_sdk.encode``: the events of ``stream()`` for AI SDK clients, without a server."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import pytest

from argstream import events as ev
from argstream import stream
from argstream.protocols import ai_sdk
from tests.protocols.ai_sdk_client import Client, Part
from tests.provider_streams import (
    Payload,
    block_delta,
    block_start,
    block_stop,
    input_json,
    message_end,
    message_start,
    tool_use,
)
from tests.server.nodes import run_node_on

SPEC = {
    "name": "write",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "additionalProperties": False,
    },
}
TEXT = [
    message_start(),
    block_start(0, "text", text=""),
    *(block_delta(0, "text_delta", text=text) for text in ("I wri", "te.")),
    block_stop(0),
]


def call(index: int, *pieces: str) -> list[Payload]:
    deltas = [input_json(index, piece) for piece in pieces]
    return [tool_use(index, id_=f"c{index}"), *deltas, block_stop(index)]


WRITTEN = [*TEXT, *call(1, '{"path": ', '"a"}')]
ANSWERS = {
    "text": [*TEXT, *message_end("end_turn")],
    "call": [*WRITTEN, *message_end()],
    "rejected": [*WRITTEN, *call(2, '{"file": ', '"b"}'), *message_end()],
    "truncated": [*WRITTEN, *call(2, '{"path": ')[:-1]],
}


def encode_sync(payloads: Iterable[Payload]) -> bytes:
    return b"".join(ai_sdk.encode(stream(payloads, tools=[SPEC])))


def encode_async(payloads: Iterable[Payload]) -> bytes:
    async def source() -> AsyncIterator[Payload]:
        for payload in payloads:
            yield payload

    async def collect() -> bytes:
        events = stream(source(), tools=[SPEC])
        return b"".join([piece async for piece in ai_sdk.encode(events)])

    return asyncio.run(collect())


def calls(parts: Iterable[Part]) -> dict[str, Any]:
    return {part["toolCallId"]: part for part in parts if part["type"] == "dynamic-tool"}


def test_published_clients_read_the_answers_of_a_model() -> None:
    streams = [
        [encode(payloads).decode()]
        for payloads in ANSWERS.values()
        for encode in (encode_sync, encode_async)
    ]
    for messages in run_node_on("ai_sdk_fold.mjs", streams):  # one line for each version
        assert [message["parts"] for message in messages[::2]] == [
            message["parts"] for message in messages[1::2]
        ]
        text, written, rejected, truncated = messages[::2]
        for message in messages:
            step, said, *_ = message["parts"]
            assert step == {"type": "step-start"}
            assert (said["text"], said["state"]) == ("I write.", "done")
        assert text["metadata"]["stopReason"] == "end_turn"
        assert text["metadata"]["usage"]["outputTokens"] > 0
        assert "runId" not in text["metadata"]
        for message in (written, rejected, truncated):
            # The application or the client runs it, and adds its output to this part.
            first = calls(message["parts"])["c1"]
            assert (first["state"], first["input"]) == ("input-available", {"path": "a"})
        second = calls(rejected["parts"])["c2"]
        assert second["state"] == "output-error"
        assert second["errorText"].startswith("rejected: ")
        second = calls(truncated["parts"])["c2"]
        assert second["errorText"].startswith("truncated: ")


@pytest.mark.parametrize(
    ("answer", "end"),
    [("text", "stop"), ("call", "tool-calls"), ("rejected", "tool-calls"), ("truncated", None)],
)
def test_stream_ends_with_the_reason_of_the_model_or_an_error(answer: str, end: str | None) -> None:
    data = encode_sync(ANSWERS[answer])
    assert data.endswith(b"data: [DONE]\n\n")
    [last] = Client(may_stay_open=True).read(data).ends
    if end is None:
        assert last["type"] == "error"
        assert last["errorText"].endswith(" (truncated)")
    else:
        assert (last["type"], last["finishReason"]) == ("finish", end)


def test_results_that_the_application_adds_are_shown() -> None:
    def answered() -> Iterator[ev.Event]:
        for event in stream(ANSWERS["call"]):
            yield event
            if isinstance(event, ev.ToolArgsCompleted):
                arguments = event.arguments
                yield ev.ToolCallCompleted(event.call_id, event.name, arguments, "written")

    client = Client().read(b"".join(ai_sdk.encode(answered())))
    assert calls(client.parts)["c1"]["output"] == "written"


def test_message_has_the_given_id_or_that_of_its_run() -> None:
    events: list[ev.Event] = [ev.RunStarted("run_7", "Go"), ev.RunCompleted("")]
    given: list[tuple[dict[str, str], Iterable[ev.Event], str]] = [
        ({}, stream(ANSWERS["text"]), ""),
        ({"message_id": "m1"}, stream(ANSWERS["text"]), "m1"),
        ({}, events, "run_7"),
        ({"message_id": "m1"}, events, "m1"),
    ]
    for options, source, expected in given:
        client = Client().read(b"".join(ai_sdk.encode(source, **options)))
        assert client.id == expected
        assert client.metadata.get("runId", "run_7") == "run_7"


def test_calls_of_a_run_that_ended_without_them_are_errors() -> None:
    started = (ev.RunStarted("run_7", "Go"), ev.TurnStarted(1), ev.ToolCallStarted("c1", 0, "f"))
    events: list[ev.Event] = [
        *started,
        ev.ToolArgsCompleted("c1", "f", {}),
        ev.RunStopped("enough"),
    ]
    client = Client().read(b"".join(ai_sdk.encode(events)))
    assert calls(client.parts)["c1"]["state"] == "output-error"


def test_source_that_raises_ends_the_stream_with_an_error() -> None:
    def source() -> Iterator[Payload]:
        yield from TEXT
        raise ConnectionError("a secret")

    pieces: list[bytes] = []
    with pytest.raises(ConnectionError, match="a secret"):
        pieces.extend(ai_sdk.encode(stream(source())))
    [last] = Client().read(b"".join(pieces)).ends
    error = "the model failed with ConnectionError (model_failed)"
    assert last == {"type": "error", "errorText": error}


def test_closed_encoding_closes_its_source() -> None:
    closed: list[str] = []

    def source() -> Iterator[Payload]:
        try:
            yield from ANSWERS["call"]
        finally:
            closed.append("sync")

    async def async_source() -> AsyncIterator[Payload]:
        try:
            for payload in ANSWERS["call"]:
                yield payload
        finally:
            closed.append("async")

    async def close_early() -> None:
        encoding = ai_sdk.encode(stream(async_source()))
        await anext(encoding)
        await encoding.aclose()
        assert closed == ["sync", "async"]  # the event loop would close it at its end

    encoding = ai_sdk.encode(stream(source()))
    next(encoding)
    encoding.close()
    assert closed == ["sync"]
    asyncio.run(close_early())
