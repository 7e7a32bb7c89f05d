"""recordings/: whatever real providers sent gives the calls of INDEX.tsv, however it is cut."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from argstream import stream
from argstream.events import (
    Event,
    RunCompleted,
    StreamFailed,
    ToolCallCompleted,
    TurnCompleted,
    from_json,
    to_json,
)
from argstream.streaming import EventStream
from argstream.testing import cut
from tests.outside.recordings import (
    PROTOCOLS,
    UNLISTED,
    Recording,
    expected,
    in_order_of,
    recordings,
    shown,
    split_unlisted,
)
from tests.provider_streams import joined

IS_SOAK = os.environ.get("ARGSTREAM_HYPOTHESIS") == "soak"
RANDOM_CUTS = 12 if IS_SOAK else 2
MOST_PLACES, OTHER_PLACES = (4_000, 800) if IS_SOAK else (800, 100)

pytestmark = pytest.mark.hypothesis  # so that `make soak-properties` cuts at more places


@pytest.fixture(scope="module")
def all_recordings(outside_data: Path) -> list[Recording]:
    return list(recordings(outside_data))


def ways(recording: Recording) -> Iterator[tuple[str, Sequence[bytes]]]:
    data = recording.data
    yield "whole", [data]
    yield "byte by byte", cut(data, [1])
    for seed in range(RANDOM_CUTS):
        random = Random(f"{recording.name} {seed}")
        sizes = [random.randint(0, 200) for _ in range(len(data) // 50 + 1)]
        yield f"random cut {seed}", list(cut(data, sizes))


PARTS = 6  # so that several processes can share what takes longest


def read(chunks: Sequence[bytes]) -> tuple[EventStream, list[Event]]:
    events = stream(chunks)
    return events, list(events)


def test_there_are_recordings_of_every_protocol(all_recordings: list[Recording]) -> None:
    assert {recording.protocol for recording in all_recordings} == set(PROTOCOLS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_recording_gives_its_calls_however_it_is_cut(
    all_recordings: list[Recording], part: int
) -> None:
    for recording in all_recordings[part::PARTS]:
        whole: list[Event] = []
        for way, chunks in ways(recording):
            events, found = read(chunks)
            place = (recording.name, way)
            assert events.protocol in PROTOCOLS[recording.protocol], place
            listed, unlisted = split_unlisted(events.calls, recording)
            meant = in_order_of(listed, recording)
            assert [shown(call) for call in listed] == [
                expected(call, ours) for call, ours in zip(meant, listed, strict=True)
            ], place
            assert [call.name for call in unlisted] == UNLISTED.get(recording.name, []), place
            assert {call.verdict for call in unlisted} <= {"complete"}, place
            assert [call.reinterpreted for call in events.calls] == [None] * len(events.calls)
            whole = whole or joined(found)
            assert joined(found) == whole, place


def test_every_event_of_every_recording_survives_json(all_recordings: list[Recording]) -> None:
    for recording in all_recordings:
        for event in read([recording.data])[1]:
            assert from_json(to_json(event)) == event, recording.name


def test_a_recording_with_a_stop_reason_ends_with_a_turn_and_its_reason(
    all_recordings: list[Recording],
) -> None:
    for recording in all_recordings:
        _, events = read([recording.data])
        reasons = [event.stop_reason for event in events if isinstance(event, TurnCompleted)]
        failed = any(isinstance(event, StreamFailed) for event in events)
        told = [stop.partition(":")[2] or stop for stop in recording.stops if stop]
        if recording.protocol == "xai_grpc":
            told = told[-1:]  # those before it are of steps inside the turn
        assert failed or set(filter(None, reasons)) == set(told), recording.name


def test_lines_without_their_ends_give_the_same(all_recordings: list[Recording]) -> None:
    for recording in all_recordings:
        if recording.name.endswith((".sse", ".jsonl")):
            lines = recording.data.decode().split("\n")
            events, found = read([recording.data])
            again = stream(line.removesuffix("\r") for line in lines)
            assert joined(again) == joined(found), recording.name
            assert again.protocol == events.protocol


def test_payloads_as_dicts_give_the_same(all_recordings: list[Recording]) -> None:
    for recording in all_recordings:
        if recording.name.endswith(".jsonl"):
            payloads = [json.loads(line) for line in recording.data.split(b"\n") if line.strip()]
            assert joined(stream(payloads)) == joined(stream([recording.data])), recording.name


@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_cut_at_any_byte_leaves_no_call_without_a_true_verdict(
    all_recordings: list[Recording], protocol: str
) -> None:
    """Invariants 8 and 10: the shortest recording of each protocol is cut at many bytes.

    Three more are cut at fewer places.
    """
    by_size = sorted(all_recordings, key=lambda recording: len(recording.data))
    small = [one for one in by_size if one.protocol == protocol and one.calls][:4]
    for number, recording in enumerate(small):
        places = MOST_PLACES if number == 0 else OTHER_PLACES
        whole = {call.id: call for call in read([recording.data])[0].calls}
        closed = False
        length = len(recording.data)
        for end in [*range(0, length, 1 + length // places), length]:
            place = (recording.name, end)
            events, found = read([recording.data[:end]])
            for call in events.calls:
                assert call.verdict in ("complete", "truncated"), place
                if call.verdict == "complete":
                    # What is complete is what the provider closed: it stays as it is.
                    closed = True
                    assert call.arguments == whole[call.id].arguments, place
                    assert call.raw == whole[call.id].raw, place
            complete = sum(call.verdict == "complete" for call in events.calls)
            assert complete <= _closed_before(recording, end), place
            last = found[-1]
            assert isinstance(last, StreamFailed | TurnCompleted | RunCompleted | ToolCallCompleted)
        assert closed, recording.name


# What a provider writes when it closes a call, each at most once per call and place.
_CLOSERS = {
    "anthropic_messages": (b'"content_block_stop"',),
    "bedrock_converse": (b"contentBlockStop",),
    "claude_agent_sdk": (b'"content_block_stop"', b'"assistant"'),
    "cohere_v2": (b'"tool-call-end"',),
    "gemini": (b'"functionCall"',),
    "gemini_interactions": (b'"step.stop"',),
    "gemini_live": (b'"args"', b'"functionCalls"'),
    "ollama_chat": (b'"arguments"',),
    "openai_chat": (),
    "openai_realtime": (b'done"',),
    "openai_responses": (b'done"',),
    "xai_grpc": (b'"tool_calls"',),
}
# What ends a turn, and closes with it every call that is open.
_ENDERS = {
    "anthropic_messages": (b'"stop_reason":"',),
    "bedrock_converse": (b"messageStop",),
    "openai_chat": (b'"finish_reason":"', b"[DONE]"),
    "openai_responses": (b'"response.completed"',),
}


def _closed_before(recording: Recording, end: int) -> int:
    """Count, by the bytes alone, the calls that a provider can have closed before this place."""
    text = recording.data[:end].replace(b" ", b"")
    is_base64 = recording.protocol == "anthropic_messages" and recording.name.endswith("stream")
    if is_base64 or any(ender in text for ender in _ENDERS.get(recording.protocol, ())):
        return len(recording.calls)
    return sum(text.count(closer) for closer in _CLOSERS[recording.protocol])
