"""recordings/: whatever real providers sent gives the calls of INDEX.tsv, however it is cut."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from argstream import stream
from argstream.events import Event, StreamFailed, TurnCompleted, from_json, to_json
from argstream.streaming import EventStream
from argstream.testing import cut
from tests.outside.recordings import PROTOCOLS, Recording, expected, recordings, shown
from tests.providers import joined

RANDOM_CUTS = 20

pytestmark = pytest.mark.bulk


@pytest.fixture(scope="module")
def all_recordings(outside_data: Path) -> list[Recording]:
    return list(recordings(outside_data))


def ways(recording: Recording) -> Iterator[tuple[str, Sequence[bytes]]]:
    data = recording.data
    yield "whole", [data]
    yield "byte by byte", cut(data, [1])
    for seed in range(RANDOM_CUTS):
        random = Random(f"{recording.name} {seed}")
        yield (
            f"random cut {seed}",
            list(cut(data, [random.randint(0, 200) for _ in range(len(data))])),
        )


def read(chunks: Sequence[bytes]) -> tuple[EventStream, list[Event]]:
    events = stream(chunks)
    return events, list(events)


def test_there_are_recordings_of_all_three_protocols(all_recordings: list[Recording]) -> None:
    assert {recording.protocol for recording in all_recordings} == set(PROTOCOLS)


@pytest.mark.timeout(300)
def test_every_recording_gives_its_calls_however_it_is_cut(
    all_recordings: list[Recording],
) -> None:
    for recording in all_recordings:
        whole: list[Event] = []
        for way, chunks in ways(recording):
            events, found = read(chunks)
            place = (recording.name, way)
            assert events.protocol in PROTOCOLS[recording.protocol], place
            assert [shown(call) for call in events.calls] == [
                expected(call, ours)
                for call, ours in zip(recording.calls, events.calls, strict=True)
            ], place
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
        assert failed or set(reasons) == set(told), recording.name


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
def test_a_stream_cut_at_any_byte_leaves_no_call_without_a_true_verdict(
    all_recordings: list[Recording],
) -> None:
    """Invariants 8 and 10: 30 recordings, each cut at every byte."""
    small = [recording for recording in all_recordings if recording.calls]
    small = sorted(small, key=lambda recording: len(recording.data))[:90:3]
    assert len(small) == 30
    for recording in small:
        whole = {call.id: call for call in read([recording.data])[0].calls}
        closed = False
        for end in range(len(recording.data)):
            events, found = read([recording.data[:end]])
            for call in events.calls:
                assert call.verdict in ("complete", "truncated"), (recording.name, end)
                if call.verdict == "complete":
                    # What is complete is what the provider closed: it stays as it is.
                    closed = True
                    assert call.arguments == whole[call.id].arguments, (recording.name, end)
                    assert call.raw == whole[call.id].raw, (recording.name, end)
            complete = sum(call.verdict == "complete" for call in events.calls)
            assert complete <= _closed_before(recording, end), (recording.name, end)
            assert isinstance(found[-1], StreamFailed | TurnCompleted), (recording.name, end)
        assert closed, recording.name


def _closed_before(recording: Recording, end: int) -> int:
    """Count, by the bytes alone, the calls that a provider can have closed before this place."""
    text = recording.data[:end].replace(b" ", b"")
    match recording.protocol:
        case "anthropic_messages" if recording.name.endswith(".eventstream"):
            return len(recording.calls)  # base64: nothing to see
        case "anthropic_messages":
            return text.count(b'"content_block_stop"') + text.count(b'"tool_use"') * (
                b'"stop_reason":"' in text
            )
        case "openai_responses":
            return text.count(b'done"') + text.count(b'"response.completed"')
        case _:
            ends = text.count(b'"finish_reason":"') + text.count(b"[DONE]")
            return len(recording.calls) if ends else 0
