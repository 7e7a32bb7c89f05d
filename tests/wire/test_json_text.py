"""JSON lines, or one document spread over lines."""

from hypothesis import given
from hypothesis import strategies as st

from argstream.testing import chunkings, cut
from argstream.wire import Broken, Frame, JsonTextDecoder, NdjsonDecoder
from tests.strategies import cuts


def decode(chunks: list[bytes], decoder: JsonTextDecoder | None = None) -> list[Frame | Broken]:
    decoder = decoder or JsonTextDecoder()
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return frames + decoder.close()


def test_lines_are_frames_if_the_first_one_is_whole() -> None:
    stream = b'\n \n{"a": 1}\n{"b"\n'
    for name, chunks in chunkings(stream):
        lines = NdjsonDecoder()
        expected = [frame for chunk in chunks for frame in lines.feed(chunk)] + lines.close()
        assert decode(chunks) == expected, name


def test_lines_are_given_as_soon_as_they_are_whole() -> None:
    decoder = JsonTextDecoder()
    assert decoder.feed(b'{"a": 1}') == []
    assert decoder.feed(b'\n{"b"') == [Frame(b'{"a": 1}')]
    assert decoder.feed(b": 2}\n") == [Frame(b'{"b": 2}')]


def test_anything_else_is_one_document() -> None:
    for stream in (b'{\n  "a": 1\n}\n', b'{"a": 1}', b'{"a": [\n1]}\n{"b": 2}'):
        for name, chunks in chunkings(stream):
            assert decode(chunks) == [Frame(stream)], name


def test_nothing_is_no_frame() -> None:
    for chunks in ([], [b""], [b"\n", b" \r\n"]):
        assert decode(chunks) == []


def test_a_document_that_is_too_long_ends_the_stream_in_every_chunking() -> None:
    for name, chunks in chunkings(b'{\n"a": 123456789}'):
        decoder = JsonTextDecoder(max_frame_bytes=10)
        assert decode(chunks, decoder) == [Broken("too_long")], name
        assert decoder.feed(b"1") == decoder.close() == []


@given(st.text('{}[]"a1,:\n\r ').map(str.encode), cuts)
def test_chunking_never_matters_and_nothing_raises(stream: bytes, sizes: list[int]) -> None:
    assert decode(cut(stream, sizes)) == decode([stream])
