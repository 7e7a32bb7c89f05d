"""Recordings: what goes in comes out, byte for byte and at its time, whatever happens between."""

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

# Times as they are written: in whole microseconds.
GAPS = st.integers(0, 10**9)
CHUNKS = st.one_of(
    st.binary(min_size=1, max_size=30),
    st.text(min_size=1, max_size=20).map(lambda text: text.encode("utf-8", "replace")),
)


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def recorded(*chunks: bytes, **options: object) -> bytes:
    file = io.BytesIO()
    with Recorder(file, **options) as recorder:  # type: ignore[arg-type]
        for chunk in chunks:
            recorder.write(chunk)
    return file.getvalue()


class TestWriteAndRead:
    @given(st.lists(st.tuples(GAPS, CHUNKS)))
    def test_chunks_and_times_come_out_as_they_went_in(
        self, pieces: list[tuple[int, bytes]]
    ) -> None:
        file, clock, written, microseconds = io.BytesIO(), Clock(), [], 0
        clock.now = 0.0
        with Recorder(file, clock=clock) as recorder:
            for gap, data in pieces:
                microseconds += gap
                clock.now = microseconds / 10**6
                recorder.write(data)
                written.append(Chunk(clock.now, data))
        recording = parse_recording(file.getvalue())
        assert recording.chunks == tuple(written)
        assert recording.end == End(clock.now, "orderly")

    @given(st.lists(CHUNKS))
    def test_played_without_waiting_the_bytes_are_the_same(self, pieces: list[bytes]) -> None:
        recording = parse_recording(recorded(*pieces))
        assert list(recording.play(math.inf)) == pieces
        assert recording.data == b"".join(pieces)
        again = b"".join(line for _, line in recording.lines())
        assert parse_recording(again) == recording

    def test_a_recording_is_ascii_lines_that_say_what_they_are(self) -> None:
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
        assert first == {
            "argstream": "recording",
            "version": 1,
            "response": {"status": 200, "headers": {"content-type": "x"}},
        }
        assert lines == [
            {"at": 0.25, "text": "é\n"},
            {"at": 1.25, "base64": "ww=="},
            {"at": 1.25, "end": "cut", "reason": "it broke"},
        ]

    def test_one_that_was_cut_off_is_read_up_to_there(self) -> None:
        data = recorded(b"one", b"two")
        first, *lines = data.splitlines(keepends=True)
        ends = [len(first)]  # of lines; without its line end, a line is whole as well
        for line in lines:
            ends.append(ends[-1] + len(line))
        for length in range(len(first), len(data)):
            recording = parse_recording(data[:length])
            whole = sum(end - 1 <= length for end in ends[1:])
            assert [chunk.data for chunk in recording.chunks] == [b"one", b"two"][:whole]
            assert recording.ending == ("orderly" if whole == 3 else "cut")
            was_cut = "the recording itself was cut off" in recording.end.reason
            assert was_cut == (whole < 3)

    def test_what_a_later_version_may_add_is_skipped(self) -> None:
        first, *lines = recorded(b"x").splitlines(keepends=True)
        first = first.replace(b'"version":1', b'"version":1,"new":[1]')
        data = b"".join([first, b'{"note":"hello"}\n', *lines])
        assert parse_recording(data).data == b"x"

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"", "no recording of argstream; the plain stream"),
            (b"data: {}\n\n", "no recording of argstream; the plain stream"),
            (b'{"argstream": "recordings"}', "no recording of argstream; the plain stream"),
            (b'{"argstream": "recording", "version": 2}', r"version 2.*up to version 1: install a"),
            (b'{"argstream":"recording"}\n', "no version"),
            (b'{"argstream":"recording","version":"1"}\n', "no version"),
            (b'{"argstream":"recording","version":0}\n', "no version"),
            (b'{"argstream":"recording","version":1,"request":3}\n', "is broken"),
            (b'{"argstream":"recording","version":\n', "is broken"),
            (recorded(b"x") + recorded(b"y"), r"something follows.*one at a time \(line 4\)"),
        ],
    )
    def test_what_is_none_is_refused(self, data: bytes, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            parse_recording(data)

    @pytest.mark.parametrize(
        "line",
        [
            b"[1]",
            b'{"at":"x"}',
            b'{"at":1e30,"text":"x"}',
            b'{"at":-1,"text":"x"}',
            b'{"at":0,"base64":"?"}',
            b'{"end":"other"}',
            b"\xff",
        ],
    )
    def test_a_line_that_is_none_ends_it(self, line: bytes) -> None:
        first, *rest = recorded(b"x").splitlines(keepends=True)
        recording = parse_recording(b"".join([first, rest[0], line + b"\n", *rest]))
        assert recording.data == b"x"
        assert recording.end.reason == "the recording itself was cut off in line 3"

    @pytest.mark.parametrize("length", [30, 45])
    def test_one_that_was_cut_off_in_its_first_line_is_empty(self, length: int) -> None:
        recording = parse_recording(recorded(b"x")[:length])
        assert recording.chunks == ()
        assert recording.end[1:3] == ("cut", "the recording itself was cut off")

    @pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"\n\n", b"\xef\xbb\xbf \r\n"])
    def test_what_an_editor_puts_before_it_is_no_part_of_it(self, before: bytes) -> None:
        assert parse_recording(before + recorded(b"x")).data == b"x"


class TestFiles:
    def test_each_line_is_there_when_the_next_comes(self, tmp_path: Path) -> None:
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

    def test_what_exists_is_kept_unless_told_otherwise(self, tmp_path: Path) -> None:
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
            assert one.stat().st_mode & 0o077 == 0, "it is for its owner only"

    def test_a_full_disk_is_an_error_that_is_told_once(self) -> None:
        with pytest.raises(OSError, match="No space left"):
            Recorder("/dev/full")

    def test_a_file_that_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"none\.rec: No such file"):
            read_recording(tmp_path / "none.rec")


class TestTee:
    def test_what_comes_is_passed_on_and_written(self, tmp_path: Path) -> None:
        file = tmp_path / "a.rec"
        assert list(record(iter([b"a", b"b"]), file)) == [b"a", b"b"]
        assert read_recording(file).data == b"ab"
        assert read_recording(file).ending == "orderly"

    def test_who_stops_reading_aborts_it(self, tmp_path: Path) -> None:
        file = tmp_path / "a.rec"
        passing = record(iter([b"a", b"b"]), file)
        assert next(passing) == b"a"
        passing.close()
        assert read_recording(file).end[1:3] == ("aborted", "reading was stopped")
        assert read_recording(file).data == b"a"

    def test_a_source_that_fails_cuts_it(self, tmp_path: Path) -> None:
        def source() -> object:
            yield b"a"
            raise TimeoutError("with a secret in it")

        with pytest.raises(TimeoutError):
            list(record(source(), tmp_path / "a.rec"))  # type: ignore[arg-type]
        end = read_recording(tmp_path / "a.rec").end
        assert end[1:3] == ("cut", "the source failed with TimeoutError")

    def test_an_async_source_is_the_same(self, tmp_path: Path) -> None:
        async def main() -> list[bytes]:
            recording = parse_recording(recorded(b"a", b"b"))
            passing = record_async(recording.play_async(math.inf), tmp_path / "a.rec")
            return [chunk async for chunk in passing]

        assert asyncio.run(main()) == [b"a", b"b"]
        assert read_recording(tmp_path / "a.rec").data == b"ab"

    def test_secrets_are_taken_out_of_what_is_written_only(self, tmp_path: Path) -> None:
        secret = "sk-0123456789abcdefgh"
        passed = record(iter([secret.encode()]), tmp_path / "a.rec", secrets=[secret])
        assert list(passed) == [secret.encode()]
        assert read_recording(tmp_path / "a.rec").data == b"[removed]"

    def test_who_stops_reading_closes_the_source(self, tmp_path: Path) -> None:
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

        outer = source()  # somebody else has it as well, so it is not closed by chance
        passing = record(outer, tmp_path / "a.rec")
        assert next(passing) == b"a"
        passing.close()
        assert closed == ["source"]
        inner = async_source()
        asyncio.run(main())

    @pytest.mark.parametrize(
        "lines",
        [
            ["data: {}"],
            [{"type": "ping"}],
            [b'data: {"a": 1}', b"", b"data: [DONE]", b""],
            [b"event: a", b'data: {"a": 1}'],
            [b'{"a": 1}', b'{"a": 2}'],
            [b": comment", b"", b"data: {}"],
        ],
    )
    def test_what_could_not_be_played_again_is_refused_and_leaves_no_file(
        self, tmp_path: Path, lines: list[Any]
    ) -> None:
        with pytest.raises(UsageError, match=r"bytes as they came.*iter_bytes\(\)"):
            list(record(iter(lines), tmp_path / "a.rec"))
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
    def test_bytes_that_are_cut_anywhere_are_no_lines(
        self, tmp_path: Path, chunks: list[bytes]
    ) -> None:
        assert list(record(iter(chunks), tmp_path / "a.rec")) == chunks


class TestPlay:
    RECORDING = Recording(
        Header(), (Chunk(0.1, b"a"), Chunk(0.3, b"b")), End(0.4, "orderly"), has_times=True
    )

    @pytest.mark.parametrize(("speed", "least"), [(1.0, 0.4), (2.0, 0.2), (math.inf, 0.0)])
    def test_it_takes_the_time_that_it_took(self, speed: float, least: float) -> None:
        start = time.monotonic()
        times = [time.monotonic() - start for _ in self.RECORDING.play(speed)]
        total = time.monotonic() - start
        assert least <= total < least + 1
        assert times[1] >= least * 0.75

    def test_with_asyncio_too(self) -> None:
        async def main() -> float:
            start = time.monotonic()
            assert [chunk async for chunk in self.RECORDING.play_async(2)] == [b"a", b"b"]
            return time.monotonic() - start

        assert 0.2 <= asyncio.run(main()) < 1.2

    @pytest.mark.parametrize("speed", [0, -1, math.nan])
    def test_a_speed_is_a_number_above_0(self, speed: float) -> None:
        with pytest.raises(UsageError, match="speed"):
            list(self.RECORDING.play(speed))

    def test_a_speed_that_is_next_to_nothing_waits_for_long(self) -> None:
        pauses: list[float] = []
        list(self.RECORDING.play(1e-300, sleep=pauses.append))
        assert pauses
        assert all(0 < pause <= 1e9 for pause in pauses)

    def test_where_the_connection_broke_off_it_breaks_off(self) -> None:
        recording = Recording(Header(), (Chunk(0, b"a"),), End(0, "cut", "it broke"))
        playing = recording.play()
        assert next(playing) == b"a"
        with pytest.raises(ConnectionError, match="it broke"):
            next(playing)


class TestPlainStreams:
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
    def test_they_are_cut_into_events_and_nothing_is_lost(self, data: bytes, count: int) -> None:
        recording = without_times(data, 0.5)
        assert recording.data == data
        assert [chunk.at for chunk in recording.chunks] == [0.5 * index for index in range(count)]
        assert not recording.has_times
