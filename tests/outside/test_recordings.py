"""recordings/: recorded streams give the calls of INDEX.tsv, however they are cut."""

import json
import os
from collections.abc import Iterator, Sequence
from random import Random

import pytest
from fuzz.fuzz_recordings import Cases

from argstream import events as ev
from argstream import stream
from argstream.streaming import EventStream
from argstream.testing import cut
from tests.outside.recordings import PROTOCOLS, UNLISTED, Recording, actual, expected
from tests.provider_streams import joined

IS_SOAK = os.environ.get("ARGSTREAM_HYPOTHESIS") == "soak"
RANDOM_CUTS = 12 if IS_SOAK else 1
MOST_PLACES, OTHER_PLACES = (4_000, 800) if IS_SOAK else (200, 50)
LONG = 5_000  # bytes; a longer recording is read byte by byte in soak runs only
PARTS = 2  # several processes can share the longest test

pytestmark = pytest.mark.hypothesis  # `make soak-properties` cuts at more places


def ways(recording: Recording) -> Iterator[tuple[str, Sequence[bytes]]]:
    data = recording.data
    yield "whole", [data]
    if IS_SOAK or len(data) < LONG:
        yield "byte by byte", cut(data, [1])
    for seed in range(RANDOM_CUTS):
        random = Random(f"{recording.name} {seed}")
        sizes = [random.randint(0, 200) for _ in range(len(data) // 50 + 1)]
        yield f"random cut {seed}", list(cut(data, sizes))


def read(chunks: Sequence[bytes]) -> tuple[EventStream, list[ev.Event]]:
    events = stream(chunks)
    return events, list(events)


def test_every_protocol_has_a_recording(all_recordings: list[Recording]) -> None:
    assert {recording.protocol for recording in all_recordings} == set(PROTOCOLS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(PARTS))
def test_calls_are_the_same_however_it_is_cut(all_recordings: list[Recording], part: int) -> None:
    for recording in all_recordings[part::PARTS]:
        unlisted = UNLISTED.get(recording.name, [])
        whole: list[ev.Event] = []
        for way, chunks in ways(recording):
            events, found = read(chunks)
            place = (recording.name, way)
            assert events.protocol in PROTOCOLS[recording.protocol], place
            listed = [call for call in events.calls if call.name not in unlisted]
            assert list(map(actual, listed)) == expected(recording, listed), place
            others = [call for call in events.calls if call.name in unlisted]
            assert [call.name for call in others] == unlisted, place
            assert {call.verdict for call in others} <= {"complete"}, place
            assert [call.reinterpreted for call in events.calls] == [None] * len(events.calls)
            whole = whole or joined(found)
            assert joined(found) == whole, place


def test_events_survive_json_and_turns_end_with_the_recorded_stop_reason(
    all_recordings: list[Recording],
) -> None:
    for recording in all_recordings:
        _, events = read([recording.data])
        for event in events:
            assert ev.from_json(ev.to_json(event)) == event, recording.name
        reasons = [event.stop_reason for event in events if isinstance(event, ev.TurnCompleted)]
        failed = any(isinstance(event, ev.StreamFailed) for event in events)
        recorded = [stop.partition(":")[2] or stop for stop in recording.stops if stop]
        if recording.protocol == "xai_grpc":
            recorded = recorded[-1:]  # the others are of steps inside the turn
        assert failed or set(filter(None, reasons)) == set(recorded), recording.name


def test_lines_and_dicts_give_the_same_events_as_bytes(all_recordings: list[Recording]) -> None:
    for recording in all_recordings:
        if not recording.name.endswith((".sse", ".jsonl")):
            continue
        events, found = read([recording.data])
        lines = stream(line.removesuffix("\r") for line in recording.data.decode().split("\n"))
        assert joined(lines) == joined(found), recording.name
        assert lines.protocol == events.protocol
        if recording.name.endswith(".jsonl"):
            payloads = [json.loads(line) for line in recording.data.split(b"\n") if line.strip()]
            assert joined(stream(payloads)) == joined(found), recording.name


@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_stream_cut_at_any_byte_gives_each_call_a_correct_verdict(
    all_recordings: list[Recording], protocol: str
) -> None:
    """Invariants 8 and 10. Of each protocol, the shortest recording is cut at the most places."""
    by_size = sorted(all_recordings, key=lambda recording: len(recording.data))
    small = [one for one in by_size if one.protocol == protocol and one.calls][:3]
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
                    closed = True
                    assert call.arguments == whole[call.id].arguments, place
                    assert call.raw == whole[call.id].raw, place
            complete = sum(call.verdict == "complete" for call in events.calls)
            assert complete <= _closed_before(recording, end), place
            last = found[-1]
            assert isinstance(
                last, ev.StreamFailed | ev.TurnCompleted | ev.RunCompleted | ev.ToolCallCompleted
            )
        assert closed, recording.name


def test_damaged_recordings_give_each_call_one_verdict(all_recordings: list[Recording]) -> None:
    """Invariants 9 and 10. `make soak-recordings` reads 100,000 of them."""
    cases = Cases(all_recordings)
    for number in range(600):
        cases.play(number)


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
# What ends a turn, and closes with it every open call.
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
