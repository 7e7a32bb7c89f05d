"""Source 004: tool calls from Claude Code, at once, and each of them once.

Its names are these here: ``ToolStartChunk`` is ``ToolCallStarted``; ``ContentBlockChunk``, of a
tool, is ``ToolArgsCompleted``; the pill is cleared by ``ToolCallCompleted`` or ``ToolCallFailed``.
It expects the complete message after the block's stop, but that comes before it.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict

import pytest

from argstream import events as ev
from argstream import stream
from tests import provider_streams as api
from tests.claude_agent import (
    FORMS,
    assistant,
    event,
    in_form,
    init,
    read,
    run_result,
    streamed,
    text,
    thinking,
    tool_result,
    use,
    user,
)
from tests.provider_streams import Payload, block_delta, block_stop, input_json, of_type, tool_use

GLOB = {"pattern": "**/models.py"}
READ = {"file_path": "src/models.py", "limit": 100}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def glob() -> list[Payload]:
    """The call that the source shows, piece by piece. Its complete message precedes its stop."""
    pieces = ['{"patter', 'n": "**/', "models", '.py"}']
    deltas = [input_json(0, piece) for piece in pieces]
    whole = assistant(use(GLOB, "toolu_01", "Glob"))
    return [*streamed(tool_use(0, "Glob", "toolu_01"), *deltas), whole, event(block_stop(0))]


def conversation(*lines: Payload) -> list[Payload]:
    return [init(), *lines, run_result(result="done")]


def turn(*lines: Payload) -> list[Payload]:
    return conversation(*streamed(api.message_start()), *lines, *streamed(*api.message_end()))


def chunks(events: list[ev.Event]) -> list[tuple[str, str]]:
    """What the source calls chunks: of a tool, its start and its end."""
    return [
        (found.type, found.call_id)
        for found in of_type(events, ev.ToolCallStarted, ev.ToolArgsCompleted)
    ]


ONCE = [("tool_call_started", "toolu_01"), ("tool_args_completed", "toolu_01")]


# What was measured on 2026-02-22: 2 × thinking and tool_use, in two messages


def measured() -> list[Payload]:
    lines: list[Payload] = [init()]
    for number, (name, value) in enumerate([("Glob", GLOB), ("Read", READ)], 1):
        message, id_ = f"msg_{number}", f"toolu_0{number}"
        written = json.dumps(value)
        thought = [block_delta(0, "thinking_delta", thinking=piece) for piece in "I'll look."]
        pieces = [input_json(1, piece) for piece in written]
        lines += [
            *streamed(api.message_start(message), api.block_start(0, "thinking", thinking="")),
            *streamed(*thought, block_delta(0, "signature_delta", signature="c2ln")),
            assistant(thinking("I'll look."), id_=message),
            *streamed(block_stop(0), tool_use(1, name, id_), *pieces),
            assistant(use(value, id_, name), id_=message),
            *streamed(block_stop(1), *api.message_end()),
            user([tool_result("found", id_)]),
        ]
    return [*lines, assistant(text("It is there."), id_="msg_3"), run_result(result="done")]


def test_the_measured_stream_gives_two_thoughts_and_two_calls(form: str) -> None:
    calls, events = read(form, measured())
    counts = Counter(api.types(events))
    assert counts["thinking_started"] == counts["thinking_completed"] == 2
    assert counts["tool_call_started"] == counts["tool_args_completed"] == 2
    assert counts["turn_completed"] == 3
    assert [call.arguments for call in calls] == [GLOB, READ]
    assert counts["tool_args_delta"] == len(json.dumps(GLOB)) + len(json.dumps(READ))
    assert of_type(events, ev.ToolCallCompleted) == [
        ev.ToolCallCompleted("toolu_01", "Glob", GLOB, "found"),
        ev.ToolCallCompleted("toolu_02", "Read", READ, "found"),
    ]


# Messages that were filtered before they are read: the first one seen is not the SDK's init message


FILTERED: dict[str, list[Payload]] = {
    "stream events": [line for line in turn(*glob()) if line["type"] == "stream_event"],
    "whole messages": [assistant(use(GLOB, "toolu_01", "Glob"))],
    "both": [line for line in turn(*glob()) if line["type"] in ("stream_event", "assistant")],
    "from the user's message on": [
        user("Find it."),
        assistant(use(GLOB, "toolu_01", "Glob")),
        run_result(result="done"),
    ],
    "from the middle of a turn on": glob(),
}


@pytest.mark.parametrize("lines", FILTERED.values(), ids=FILTERED)
def test_filtered_messages_are_recognised(form: str, lines: list[Payload]) -> None:
    events = stream(in_form(form, lines))
    assert chunks(list(events)) == ONCE
    assert events.protocol == "claude-agent"
    assert [(call.name, call.arguments) for call in events.calls] == [("Glob", GLOB)]


def test_a_result_message_alone_is_recognised(form: str) -> None:
    events = stream(in_form(form, [run_result(result="done")]))
    assert api.types(list(events)) == ["run_completed"]
    assert events.protocol == "claude-agent"


@pytest.mark.parametrize(
    "encode", [lambda line: line, json.dumps, lambda line: json.dumps(line).encode()]
)
@pytest.mark.parametrize("lines", FILTERED.values(), ids=FILTERED)
def test_filtered_messages_that_were_dumped_to_dicts_are_read(
    lines: list[Payload], encode: Callable[[Payload], object]
) -> None:
    """Such as forwarded by another process: ``asdict`` drops the classes, which are the types."""
    dumped = [encode(asdict(message)) for message in in_form("objects", lines)]
    events = stream(line + "\n" if isinstance(line, str) else line for line in dumped)
    assert chunks(list(events)) == ONCE
    assert [(call.name, call.arguments) for call in events.calls] == [("Glob", GLOB)]


def test_stream_events_that_were_dumped_without_empty_fields_are_read() -> None:
    messages = in_form("objects", FILTERED["stream events"])
    dumped = [{"uuid": one.uuid, "session_id": "s", "event": one.event} for one in messages]
    assert chunks(list(stream(dumped))) == ONCE


def test_results_in_messages_that_were_dumped_to_dicts_complete_their_calls() -> None:
    dumped = [asdict(message) for message in in_form("objects", measured()[1:])]
    events = list(stream(dumped))
    assert events == list(stream(in_form("objects", measured()[1:])))
    assert [found.result for found in of_type(events, ev.ToolCallCompleted)] == ["found", "found"]
