"""``ai_sdk.encode``: the events of ``stream()`` for AI SDK clients, without a server."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from argstream import events as ev
from argstream import stream
from argstream.protocols import ai_sdk
from tests.protocols.ai_sdk_client import Client, Part
from tests.provider_streams import Payload, call_block, message_end, message_start, text_block
from tests.server.nodes import run_node_on

PROPERTIES = {"path": {"type": "string"}}
SCHEMA = {"type": "object", "properties": PROPERTIES, "additionalProperties": False}
SPEC = {"name": "write", "input_schema": SCHEMA}
TEXT = [message_start(), *text_block(0, "I wri", "te.")]
WRITTEN = [*TEXT, *call_block(1, '{"path": ', '"a"}', id_="c1")]
ANSWERS = {
    "text": [*TEXT, *message_end("end_turn")],
    "call": [*WRITTEN, *message_end()],
    "rejected": [*WRITTEN, *call_block(2, '{"file": ', '"b"}', id_="c2"), *message_end()],
    "truncated": [*WRITTEN, *call_block(2, '{"path": ', id_="c2")[:-1]],
}


def encoded(payloads: Iterable[Payload]) -> bytes:
    return b"".join(ai_sdk.encode(stream(payloads, tools=[SPEC])))


def calls(parts: Iterable[Part]) -> dict[str, Any]:
    return {part["toolCallId"]: part for part in parts if part["type"] == "dynamic-tool"}


def test_published_clients_read_the_answers_of_a_model() -> None:
    streams = [[encoded(payloads).decode()] for payloads in ANSWERS.values()]
    for messages in run_node_on("ai_sdk_fold.mjs", streams):  # one line for each version
        text, written, rejected, truncated = messages
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
    data = encoded(ANSWERS[answer])
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
    events: list[ev.Event] = [*started, ev.ToolArgsCompleted("c1", "f", {}), ev.RunStopped("stop")]
    client = Client().read(b"".join(ai_sdk.encode(events)))
    assert calls(client.parts)["c1"]["state"] == "output-error"
