"""AWS event streams: every kind of header, every checksum, every cut."""

from struct import pack
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.testing import at_every_place, chunkings, cut
from argstream.wire import AwsEventStreamDecoder, Broken, Frame
from tests.strategies import cuts
from tests.turns import aws_event as event
from tests.turns import aws_header as header
from tests.turns import aws_message as message


def decode(chunks: list[bytes]) -> list[Frame | Broken]:
    decoder = AwsEventStreamDecoder()
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return frames + decoder.close()


def test_events_and_exceptions_in_every_chunking() -> None:
    exception = header(":message-type", "exception") + header(":exception-type", "throttling")
    error = header(":message-type", "error") + header(":error-code", "InternalError")
    stream = event("chunk", b'{"a": 1}') + event("chunk", b"") + message(exception, b"{}")
    stream += message(error, b"")
    for name, chunks in chunkings(stream):
        assert decode(chunks) == [
            Frame(b'{"a": 1}', "chunk"),
            Frame(b"", "chunk"),
            Frame(b"{}", "throttling", failed=True),
            Frame(b"", "InternalError", failed=True),
        ], name


def test_headers_of_every_type_are_stepped_over() -> None:
    values = [
        (0, b""), (1, b""), (2, b"\1"), (3, b"\0\1"), (4, b"\0\0\0\1"), (5, b"\0" * 8),
        (6, b"\0\3abc"), (8, b"\0" * 8), (9, b"\0" * 16),
    ]  # fmt: skip
    headers = b"".join(b"\1h" + pack(">B", kind) + value for kind, value in values)
    assert decode([message(headers + header(":event-type", "x"), b"p")]) == [Frame(b"p", "x")]


@pytest.mark.parametrize(
    "headers", [b"\1h\x0a", b"\1h", b"\5h", b"\1h\7\0", b"\1h\7\0\5abc", b"\1h\4\0"]
)
def test_headers_that_make_no_sense_break_the_stream(headers: bytes) -> None:
    good = event("x", b"")
    assert decode([good + message(headers, b"p")])[-1] == Broken("bad_header")


def test_any_changed_byte_is_found() -> None:
    good, stream = event("x", b"1"), event("chunk", b'{"a": 1}')
    for position in range(len(stream)):
        changed = bytearray(stream)
        changed[position] ^= 0x20
        frames = decode([good, bytes(changed)])
        assert frames[0] == Frame(b"1", "x")
        assert isinstance(frames[1], Broken), position
        assert len(frames) == 2


def test_a_cut_stream_is_told() -> None:
    stream = event("x", b"1") + event("y", b"2")
    for first, _ in at_every_place(stream):
        frames = decode([first])
        if len(first) == len(event("x", b"1")):
            assert frames == [Frame(b"1", "x")]
        else:
            assert isinstance(frames[-1], Broken)
            assert frames[-1].reason == "truncated"


def test_lengths_that_cannot_be() -> None:
    for length, reason in ((10, "bad_length"), (2**31, "too_long")):
        prelude = pack(">II", length, 0)
        stream = prelude + pack(">I", crc32(prelude))
        decoder = AwsEventStreamDecoder()
        assert decoder.feed(stream) == [Broken(reason)]  # type: ignore[arg-type]
        assert decoder.feed(event("x", b"")) == []
        assert decoder.close() == []


@given(st.binary(), cuts)
def test_chunking_never_matters_and_nothing_raises(stream: bytes, sizes: list[int]) -> None:
    data = event("x", b"1") + stream
    assert decode(cut(data, sizes)) == decode([data])
