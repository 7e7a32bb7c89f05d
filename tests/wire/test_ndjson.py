"""JSON lines."""

from hypothesis import given
from hypothesis import strategies as st

from argstream.testing import chunkings, cut
from argstream.wire import Broken, Frame, NdjsonDecoder
from tests.strategies import cuts


def decode(chunks: list[bytes]) -> list[Frame | Broken]:
    decoder = NdjsonDecoder()
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return frames + decoder.close()


def test_a_frame_a_line_blank_ones_left_out_the_last_one_without_an_end() -> None:
    stream = '{"a": 1}\n\n \r\n{"b": "\u2028\x85"}\r\n{"c": '.encode()
    for name, chunks in chunkings(stream):
        assert decode(chunks) == [
            Frame(b'{"a": 1}'),
            Frame('{"b": "\u2028\x85"}'.encode()),
            Frame(b'{"c": '),
        ], name


def test_a_line_that_is_too_long_ends_the_stream_in_every_chunking() -> None:
    for stream in (b"1\n" + b"x" * 11, b"1\n" + b"x" * 11 + b"\n2\n"):
        for name, chunks in chunkings(stream):
            decoder = NdjsonDecoder(max_frame_bytes=10)
            said = [frame for chunk in chunks for frame in decoder.feed(chunk)]
            assert said == [Frame(b"1"), Broken("too_long")], name
            assert decoder.feed(b"\n2\n") == []
            assert decoder.close() == []


@given(st.binary(), cuts)
def test_chunking_never_matters_and_nothing_raises(stream: bytes, sizes: list[int]) -> None:
    assert decode(cut(stream, sizes)) == decode([stream])
