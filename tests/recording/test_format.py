"""Recordings: bytes and times are read as they were written, whatever happens in between."""

import asyncio
import io
import json
import math
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream import UsageError
from argstream.recording import (
    Chunk,
    End,
    Header,
    Recorder,
    Recording,
    Request,
    Response,
    parse_recording,
    read_recording,
    record,
    record_async,
    without_times,
)
from tests.cli.processes import Clock
from tests.recording.test_stream import recorded

CHUNKS = st.one_of(
    st.binary(min_size=1, max_size=30),
    st.text(min_size=1, max_size=20).map(lambda text: text.encode("utf-8", "replace")),
)
CUT_OFF = "the recording itself was cut off"


@given(st.lists(st.tuples(st.integers(0, 10**9), CHUNKS)))
def test_chunks_and_times_are_read_as_written(pieces: list[tuple[int, bytes]]) -> None:
    file, clock, written, microseconds = io.BytesIO(), Clock(), [], 0
    with Recorder(file, clock=clock) as recorder:
        for gap, data in pieces:
            microseconds += gap
            clock.now = microseconds / 10**6
            recorder.write(data)
            written.append(Chunk(clock.now, data))
    recording = parse_recording(file.getvalue())
    assert recording.chunks == tuple(written)
    assert recording.end == End(clock.now, "orderly")
    assert list(recording.play(math.inf)) == [data for _, data in pieces]
    assert recording.data == b"".join(data for _, data in pieces)
    assert parse_recording(b"".join(line for _, line in recording.lines())) == recording


def test_recording_is_ascii_json_lines() -> None:
    clock, file = Clock(), io.BytesIO()
    request = Request("POST", "https://x.example/v1", {"accept": "*/*"}, body="{}")
    response = Response(200, {"content-type": "x"})
    recorder = Recorder(file, clock=clock, request=request, response=response)
    clock.now += 0.25
    recorder.write("é\n".encode())
    clock.now += 1
    recorder.write(b"\xc3")
    recorder.write(b"")
    recorder.close("cut", "it broke")
    assert file.getvalue().isascii()
    header = parse_recording(file.getvalue()).header
    assert (header.request, header.response) == (request, response)
    first, *lines = map(json.loads, file.getvalue().splitlines())
    assert first.pop("request")["url"] == "https://x.example/v1"
    assert first.pop("recorded").endswith("Z")
    assert first.pop("response") == {"status": 200, "headers": {"content-type": "x"}}
    assert first == {"argstream": "recording", "version": 1}
    assert lines == [
        {"at": 0.25, "text": "é\n"},
        {"at": 1.25, "base64": "ww=="},
        {"at": 1.25, "end": "cut", "reason": "it broke"},
    ]


def test_truncated_recording_is_read_up_to_there() -> None:
    data = recorded([b"one", b"two"])
    first, *lines = data.splitlines(keepends=True)
    ends = [len(first)]
    for line in lines:
        ends.append(ends[-1] + len(line))
    for length in range(len(first), len(data)):
        recording = parse_recording(data[:length])
        whole = sum(end - 1 <= length for end in ends[1:])  # a line needs no newline
        assert [chunk.data for chunk in recording.chunks] == [b"one", b"two"][:whole]
        assert recording.ending == ("orderly" if whole == 3 else "cut")
        assert (CUT_OFF in recording.end.reason) == (whole < 3)
    for length in (30, 45):  # inside of the first line
        recording = parse_recording(data[:length])
        assert recording.chunks == ()
        assert recording.end[1:3] == ("cut", CUT_OFF)


def test_additions_of_later_versions_and_of_editors_are_skipped() -> None:
    first, *lines = recorded([b"x"]).splitlines(keepends=True)
    later = first.replace(b'"version":1', b'"version":1,"new":[1]')
    assert parse_recording(b"".join([later, b'{"note":"hello"}\n', *lines])).data == b"x"
    for before in (b"\xef\xbb\xbf", b"\n\n", b"\xef\xbb\xbf \r\n"):
        assert parse_recording(before + recorded([b"x"])).data == b"x"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a recording of argstream. To read the plain stream"),
        (b"data: {}\n\n", "not a recording of argstream. To read the plain stream"),
        (b'{"argstream": "recordings"}', "not a recording of argstream. To read the plain stream"),
        (b'{"argstream": "recording", "version": 2}', r"version 2.*up to version 1. Install a"),
        (b'{"argstream":"recording"}\n', "no version"),
        (b'{"argstream":"recording","version":"1"}\n', "no version"),
        (b'{"argstream":"recording","version":0}\n', "no version"),
        (b'{"argstream":"recording","version":1,"request":3}\n', "is damaged"),
        (b'{"argstream":"recording","version":\n', "is damaged"),
        (recorded([b"x"]) + recorded([b"y"]), r"data after the end.*at a time \(line 4\)"),
    ],
)
def test_invalid_recording_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_recording(data)


@pytest.mark.parametrize(
    "line",
    [
        *(b"[1]", b'{"at":"x"}', b'{"at":1e30,"text":"x"}', b'{"at":-1,"text":"x"}'),
        *(b'{"at":0,"base64":"?"}', b'{"end":"other"}', b"\xff"),
    ],
)
def test_invalid_line_ends_the_recording(line: bytes) -> None:
    first, *rest = recorded([b"x"]).splitlines(keepends=True)
    recording = parse_recording(b"".join([first, rest[0], line + b"\n", *rest]))
    assert recording.data == b"x"
    assert recording.end.reason == f"{CUT_OFF} in line 3"


def test_each_line_is_written_at_once(tmp_path: Path) -> None:
    file = tmp_path / "a.rec"
    recorder = Recorder(file)
    assert read_recording(file).ending == "cut"
    recorder.write(b"one")
    assert read_recording(file).data == b"one"
    recorder.close()
    recorder.close("cut")
    assert read_recording(file).ending == "orderly"
    with pytest.raises(UsageError, match="closed"):
        recorder.write(b"two")


def test_existing_file_is_overwritten_only_on_request(tmp_path: Path) -> None:
    file = tmp_path / "a.rec"
    file.write_bytes(b"precious and long" * 99)
    with pytest.raises(FileExistsError):
        Recorder(file)
    assert file.read_bytes().startswith(b"precious")
    with Recorder(file, overwrite=True) as recorder:
        recorder.write(b"x")
    assert read_recording(file).data == b"x"
    Recorder(tmp_path / "new.rec").close()
    for one in (file, tmp_path / "new.rec"):
        assert one.stat().st_mode & 0o077 == 0, "readable for its owner only"


def test_errors_of_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        Recorder("/dev/full")
    with pytest.raises(UsageError, match=r"none\.rec: No such file"):
        read_recording(tmp_path / "none.rec")


def test_stream_is_passed_on_and_recorded_without_secrets(tmp_path: Path) -> None:
    secret = "sk-0123456789abcdefgh"
    passed = record(iter([b"a", secret.encode()]), tmp_path / "a.rec", secrets=[secret])
    assert list(passed) == [b"a", secret.encode()]
    recording = read_recording(tmp_path / "a.rec")
    assert (recording.data, recording.ending) == (b"a[removed]", "orderly")

    async def main() -> list[bytes]:
        passing = record_async(recording.play_async(math.inf), tmp_path / "b.rec")
        return [chunk async for chunk in passing]

    assert asyncio.run(main()) == [b"a", b"[removed]"]
    assert read_recording(tmp_path / "b.rec").data == b"a[removed]"


def test_failure_of_the_source_cuts_the_recording(tmp_path: Path) -> None:
    def source() -> Iterator[bytes]:
        yield b"a"
        raise TimeoutError("with a secret in it")

    with pytest.raises(TimeoutError):
        list(record(source(), tmp_path / "a.rec"))
    end = read_recording(tmp_path / "a.rec").end
    assert end[1:3] == ("cut", "the source failed with TimeoutError")


def test_reader_that_stops_aborts_the_recording_and_closes_the_source(tmp_path: Path) -> None:
    closed: list[str] = []

    def source() -> Iterator[bytes]:
        try:
            yield from (b"a", b"b")
        finally:
            closed.append("source")

    async def async_source() -> AsyncIterator[bytes]:
        try:
            yield b"a"
            yield b"b"
        finally:
            closed.append("async source")

    async def main() -> None:
        passing = record_async(inner, tmp_path / "b.rec")
        assert await anext(passing) == b"a"
        await passing.aclose()
        assert closed == ["source", "async source"]

    outer = source()  # referenced here, so that garbage collection does not close it
    passing = record(outer, tmp_path / "a.rec")
    assert next(passing) == b"a"
    passing.close()
    assert closed == ["source"]
    inner = async_source()
    asyncio.run(main())
    for name in ("a.rec", "b.rec"):
        recording = read_recording(tmp_path / name)
        assert recording.end[1:3] == ("aborted", "reading was stopped")
        assert recording.data == b"a"


@pytest.mark.parametrize(
    "items",
    [
        ["data: {}"],
        [{"type": "ping"}],
        [b'data: {"a": 1}', b"", b"data: [DONE]", b""],
        [b"event: a", b'data: {"a": 1}'],
        [b'{"a": 1}', b'{"a": 2}'],
        [b": comment", b"", b"data: {}"],
    ],
)
def test_lines_and_objects_are_refused_and_leave_no_file(tmp_path: Path, items: list[Any]) -> None:
    with pytest.raises(UsageError, match=r"a recording needs bytes.*iter_bytes\(\)"):
        list(record(iter(items), tmp_path / "a.rec"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "chunks",
    [
        [b'data: {"a"', b": 1}\n\n"],
        [b"event: a", b"\ndata: {}\n\n"],
        [b"data: {}\n", b"\n"],
        [b'{"a":', b'{"b": 1}}'],
    ],
)
def test_bytes_cut_anywhere_are_not_taken_for_lines(tmp_path: Path, chunks: list[bytes]) -> None:
    assert list(record(iter(chunks), tmp_path / "a.rec")) == chunks


PLAYED = (Chunk(0.1, b"a"), Chunk(0.3, b"b"))
RECORDING = Recording(Header(), PLAYED, End(0.4, "orderly"), has_times=True)


@pytest.mark.parametrize("speed", [1.0, 2.0, 1e-300, math.inf])
def test_pauses_are_those_of_the_recording_divided_by_the_speed(speed: float) -> None:
    pauses: list[float] = []
    assert list(RECORDING.play(speed, sleep=pauses.append)) == [b"a", b"b"]
    due = [min(at / speed, 1e9) for at in (0.1, 0.3, 0.4)] if speed < math.inf else []
    assert len(pauses) == len(due)
    assert all(0 < pause <= most for pause, most in zip(pauses, due, strict=True))


def test_playing_takes_its_time() -> None:
    async def main() -> list[bytes]:
        return [chunk async for chunk in RECORDING.play_async(4)]

    start = time.monotonic()
    assert list(RECORDING.play(4)) == [b"a", b"b"]
    middle = time.monotonic()
    assert asyncio.run(main()) == [b"a", b"b"]
    assert middle - start >= 0.1
    assert time.monotonic() - middle >= 0.1


def test_speed_must_be_greater_than_0() -> None:
    for speed in (0, -1, math.nan):
        with pytest.raises(UsageError, match="speed"):
            list(RECORDING.play(speed))


def test_cut_recording_raises_where_the_connection_broke() -> None:
    recording = Recording(Header(), (Chunk(0, b"a"),), End(0, "cut", "it broke"))
    playing = recording.play()
    assert next(playing) == b"a"
    with pytest.raises(ConnectionError, match="it broke"):
        next(playing)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"event: a\ndata: {}\n\ndata: [DONE]\n\n", 2),
        (b"data: 1\r\n\r\ndata: 2\r\n\r\ndata: cut", 3),
        (b'{"a": 1}\n{"b": 2}\n', 2),
        (b"\0\0\0\x10abcdefghijkl\0\0\0\x05x\0\0", 3),
        (b"", 0),
    ],
)
def test_plain_stream_is_cut_into_events(data: bytes, count: int) -> None:
    recording = without_times(data, 0.5)
    assert recording.data == data
    assert [chunk.at for chunk in recording.chunks] == [0.5 * index for index in range(count)]
    assert not recording.has_times
