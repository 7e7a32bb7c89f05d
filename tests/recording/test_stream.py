"""stream() over a recording says what it said then, also of how that ended."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from argstream import stream
from argstream.events import StreamFailed, ToolArgsInvalid, TurnCompleted
from argstream.recording import Recorder, parse_recording
from argstream.testing import chunkings
from tests.provider_streams import (
    anthropic_call,
    chat_call,
    joined,
    of_type,
    responses_call,
    sse,
)

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
def test_the_events_are_those_of_the_bytes(protocol: str) -> None:
    body = TURNS[protocol]
    for name, chunks in chunkings(body):
        events = stream([recorded(chunks)])
        assert joined(events) == joined(stream([body])), name
        assert events.protocol == protocol


@pytest.mark.parametrize("protocol", TURNS)
def test_a_recording_may_come_in_any_pieces(protocol: str) -> None:
    body = TURNS[protocol]
    recording = recorded([body[:50], body[50:]])
    for name, chunks in chunkings(recording):
        assert joined(stream(chunks)) == joined(stream([body])), name


def test_files_lines_and_texts_are_all_understood(tmp_path: Path) -> None:
    body = TURNS["anthropic"]
    file = tmp_path / "turn.rec"
    file.write_bytes(recorded([body[:99], body[99:]]))
    expected = joined(stream([body]))
    with file.open("rb") as binary, file.open(encoding="ascii") as text:
        assert joined(stream(binary)) == expected
        assert joined(stream(text)) == expected
    assert joined(stream(file.read_text().splitlines())) == expected
    assert joined(stream(parse_recording(file.read_bytes()).play())) == expected


def test_events_come_with_their_line() -> None:
    """So that a recording can be watched while it is written."""
    body = TURNS["anthropic"]
    lines = recorded([body[:-100], body[-100:]]).splitlines(keepends=True)
    pulled: list[bytes] = []

    def source() -> Iterable[bytes]:
        for line in lines:
            pulled.append(line)
            yield line

    next(event for event in stream(source()) if event.type == "tool_call_started")
    assert len(pulled) == 2


def test_json_lines_and_event_streams_are_recorded_too() -> None:
    payload = b'{"error": {"message": "no", "type": "x"}}'
    assert list(stream([recorded([payload])])) == list(stream([payload]))
    lines = b'{"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n' * 2
    assert joined(stream([recorded([lines[:30], lines[30:]])])) == joined(stream([lines]))
    marked = b"\xef\xbb\xbf" + TURNS["anthropic"]
    assert joined(stream([recorded([marked[:2], marked[2:]])])) == joined(stream([marked]))


class TestEndings:
    # The JSON is whole, and nobody has said that the call is.
    BODY = sse(chat_call('{"a": 1}')[:-1])

    def test_a_cut_is_never_a_clean_end(self) -> None:
        events = list(stream([recorded([self.BODY], "cut", "the provider broke off")]))
        (invalid,) = of_type(events, ToolArgsInvalid)
        assert invalid.verdict == "truncated"
        assert not of_type(events, TurnCompleted)
        message = "the recording ends here: the provider broke off"
        assert events[-1] == StreamFailed("cut", message, retryable=True)

    def test_what_nobody_wanted_to_read_was_aborted(self) -> None:
        events = list(stream([recorded([self.BODY], "aborted", "the client hung up")]))
        assert of_type(events, ToolArgsInvalid)[0].verdict == "aborted"
        assert events[-1] == StreamFailed("aborted", "the recording ends here: the client hung up")

    @pytest.mark.parametrize("lost", [1, 10, 40])
    def test_a_recording_that_was_cut_off_itself_is_cut(self, lost: int) -> None:
        whole = recorded([self.BODY, b": still here\n\n"])
        events = list(stream([whole[: -1 - lost]]))
        assert of_type(events, ToolArgsInvalid)[0].verdict == "truncated"
        assert isinstance(events[-1], StreamFailed)
        assert "the recording itself was cut off" in events[-1].message

    def test_one_without_anything_in_it_is_an_empty_stream(self) -> None:
        assert list(stream([recorded([])])) == list(stream([]))
        header = recorded([]).splitlines(keepends=True)[0]
        for beginning in (header, header[:-1]):
            (event,) = stream([beginning])
            assert isinstance(event, StreamFailed)
            assert "the recording itself was cut off" in event.message

    def test_what_is_recorded_may_be_no_stream(self) -> None:
        (event,) = stream([recorded([b"hello"])])
        assert isinstance(event, StreamFailed)
        assert event.message.endswith("it begins with 'hello'")

    def test_one_of_a_later_version_says_what_to_do(self) -> None:
        (event,) = stream([recorded([self.BODY]).replace(b'"version":1', b'"version":9')])
        assert isinstance(event, StreamFailed)
        assert event.code == "unreadable"
        assert "version 9" in event.message
        assert "install a newer one" in event.message

    @pytest.mark.parametrize("protocol", TURNS)
    def test_what_follows_its_end_is_told(self, protocol: str) -> None:
        body = TURNS[protocol]
        *events, last = stream([recorded([body]) * 2])
        assert joined(events) == joined(stream([body]))
        assert isinstance(last, StreamFailed)
        assert last.code == "unreadable"
        assert "of several recordings, read one at a time" in last.message

    def test_one_after_one_that_was_cut_is_not_read(self) -> None:
        cut = recorded([self.BODY], "cut", "it broke")
        events = list(stream([cut + recorded([TURNS["anthropic"]])]))
        assert len(of_type(events, StreamFailed)) == 1
        assert events == list(stream([cut]))


def test_a_recording_can_be_asked_for_by_its_name() -> None:
    for protocol, body in TURNS.items():
        events = stream([recorded([body])], "argstream")
        assert joined(events) == joined(stream([body]))
        assert events.protocol == protocol
