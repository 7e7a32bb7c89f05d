"""stream() over a recording yields the events of the recorded bytes, and how they ended."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pytest

from argstream import stream
from argstream.events import StreamFailed, ToolArgsInvalid, TurnCompleted
from argstream.recording import Recorder, parse_recording
from argstream.testing import chunkings
from tests.provider_streams import anthropic_call, chat_call, joined, of_type, responses_call, sse

TURNS = {
    "anthropic": sse(anthropic_call('{"path": "é', '.txt", "n": 1}')),
    "openai-chat": sse(chat_call('{"path": "é', '.txt"}'), done=True),
    "openai-responses": sse(responses_call('{"a": ', "[1, 2]}")),
}


def recorded(chunks: Iterable[bytes], ending: Any = "orderly", reason: str = "") -> bytes:
    file = io.BytesIO()
    recorder = Recorder(file)
    for chunk in chunks:
        recorder.write(chunk)
    recorder.close(ending, reason)
    return file.getvalue()


@pytest.mark.parametrize("protocol", TURNS)
def test_recording_has_the_events_of_its_bytes_however_it_is_cut(protocol: str) -> None:
    body = TURNS[protocol]
    expected = joined(stream([body]))
    for name, chunks in chunkings(body):
        events = stream([recorded(chunks)])
        assert joined(events) == expected, name
        assert events.protocol == protocol
    for name, chunks in chunkings(recorded([body[:50], body[50:]])):
        assert joined(stream(chunks)) == expected, name
    events = stream([recorded([body])], "argstream")
    assert (joined(events), events.protocol) == (expected, protocol)
    # A second recording after the end is an error.
    *first, last = stream([recorded([body]) * 2])
    assert joined(first) == expected
    assert isinstance(last, StreamFailed)
    assert last.code == "unreadable"
    assert "Read one recording at a time" in last.message


def test_recording_is_read_from_files_lines_and_text(tmp_path: Path) -> None:
    body = TURNS["anthropic"]
    file = tmp_path / "turn.rec"
    file.write_bytes(recorded([body[:99], body[99:]]))
    expected = joined(stream([body]))
    with file.open("rb") as binary, file.open(encoding="ascii") as text:
        assert joined(stream(binary)) == expected
        assert joined(stream(text)) == expected
    assert joined(stream(file.read_text().splitlines())) == expected
    assert joined(stream(parse_recording(file.read_bytes()).play())) == expected


def test_events_are_yielded_with_their_line() -> None:
    body = TURNS["anthropic"]
    lines = recorded([body[:-100], body[-100:]]).splitlines(keepends=True)
    pulled: list[bytes] = []

    def source() -> Iterable[bytes]:
        for line in lines:
            pulled.append(line)
            yield line

    next(event for event in stream(source()) if event.type == "tool_call_started")
    assert len(pulled) == 2


def test_errors_json_lines_and_marked_streams_are_read_too() -> None:
    payload = b'{"error": {"message": "no", "type": "x"}}'
    assert list(stream([recorded([payload])])) == list(stream([payload]))
    lines = b'{"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n' * 2
    assert joined(stream([recorded([lines[:30], lines[30:]])])) == joined(stream([lines]))
    marked = b"\xef\xbb\xbf" + TURNS["anthropic"]
    assert joined(stream([recorded([marked[:2], marked[2:]])])) == joined(stream([marked]))


# The JSON is complete, but the call is not.
BODY = sse(chat_call('{"a": 1}')[:-1])


@pytest.mark.parametrize(
    ("ending", "reason", "verdict"),
    [("cut", "the provider broke off", "truncated"), ("aborted", "the client hung up", "aborted")],
)
def test_ending_of_the_recording_decides_the_verdict(
    ending: str, reason: str, verdict: Literal["truncated", "aborted"]
) -> None:
    recording = recorded([BODY], ending, reason)
    events = list(stream([recording]))
    (invalid,) = of_type(events, ToolArgsInvalid)
    assert invalid.verdict == verdict
    assert not of_type(events, TurnCompleted)
    message = f"the recording ends here: {reason}"
    assert events[-1] == StreamFailed(verdict, message, retryable=verdict == "truncated")
    # What follows a recording that was cut is not read.
    assert list(stream([recording + recorded([TURNS["anthropic"]])])) == events


@pytest.mark.parametrize("lost", [1, 10, 40])
def test_truncated_recording_is_a_cut_stream(lost: int) -> None:
    whole = recorded([BODY, b": still here\n\n"])
    events = list(stream([whole[: -1 - lost]]))
    assert of_type(events, ToolArgsInvalid)[0].verdict == "truncated"
    assert isinstance(events[-1], StreamFailed)
    assert "the recording itself was cut off" in events[-1].message


def test_empty_recording_is_an_empty_stream() -> None:
    assert list(stream([recorded([])])) == list(stream([]))
    header = recorded([]).splitlines(keepends=True)[0]
    later = recorded([BODY]).replace(b'"version":1', b'"version":9')
    for data, problems in (
        (header, ["the recording itself was cut off"]),
        (header[:-1], ["the recording itself was cut off"]),
        (recorded([b"hello"]), ["It starts with 'hello'"]),
        (later, ["version 9", "Install a newer argstream"]),
    ):
        (event,) = stream([data])
        assert isinstance(event, StreamFailed)
        assert all(problem in event.message for problem in problems)
