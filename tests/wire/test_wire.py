"""Decoders: each protocol's rules, every way to cut a stream, damaged input, and cost."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from struct import pack
from typing import Any
from zlib import crc32

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from argstream.testing import at_every_place, chunkings, cut
from argstream.wire import (
    AwsEventStreamDecoder,
    Broken,
    Frame,
    JsonTextDecoder,
    NdjsonDecoder,
    SseDecoder,
)
from tests.growth import BOUND, growth
from tests.strategies import cuts
from tests.turns import aws_event, aws_header, aws_message

DecoderType = Callable[..., Any]


def feed(decoder: Any, chunks: Iterable[bytes]) -> list[Frame | Broken]:
    return [frame for chunk in chunks for frame in decoder.feed(chunk)]


def decode(decoder_type: DecoderType, chunks: Iterable[bytes]) -> list[Frame | Broken]:
    decoder = decoder_type()
    return [*feed(decoder, chunks), *decoder.close()]


def frames(*data: bytes) -> list[Frame]:
    return [Frame(item) for item in data]


# Server-sent events: the rules of the WHATWG


RULES: list[tuple[str, bytes, list[Frame]]] = [
    ("LF", b"data: a\n\ndata: b\n\n", frames(b"a", b"b")),
    ("CRLF", b"data: a\r\n\r\ndata: b\r\n\r\n", frames(b"a", b"b")),
    ("CR", b"data: a\r\rdata: b\r\r", frames(b"a", b"b")),
    ("mixed line ends", b"data: a\r\n\ndata: b\n\rdata: c\r\r\n", frames(b"a", b"b", b"c")),
    ("a byte order mark at the start", b"\xef\xbb\xbfdata: a\n\n", frames(b"a")),
    ("a second byte order mark", b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", frames(b"b")),
    ("comments", b": hello\ndata: a\n:\n\n", frames(b"a")),
    ("one space after the colon", b"data:a\n\ndata: a\n\ndata:  a\n\n", frames(b"a", b"a", b" a")),
    ("lines of data", b"data: a\ndata: b\n\n", frames(b"a\nb")),
    ("empty data", b"data\n\ndata:\n\ndata\ndata\n\n", frames(b"", b"", b"\n")),
    ("no data, no event", b"event: x\n\nid: 1\n\ndata: a\n\n", [Frame(b"a", id="1")]),
    ("the event lasts for one frame", b"event: x\ndata: a\n\ndata: b\n\n",
     [Frame(b"a", "x"), Frame(b"b")]),
    ("the last event counts", b"event: x\nevent: y\ndata: a\n\n", [Frame(b"a", "y")]),
    ("the id lasts", b"id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
     [Frame(b"a", id="7"), Frame(b"b", id="7"), Frame(b"c")]),
    ("an id with NUL is ignored", b"id: 7\nid: 8\0\ndata: a\n\n", [Frame(b"a", id="7")]),
    ("unknown fields", b"Data: a\n data: a\nfoo: bar\ndata: b\n\n", frames(b"b")),
    ("a cut-off event is given at the end", b"data: a\n\ndata: b", frames(b"a", b"b")),
    ("nothing", b"", []),
    ("JSON without blank lines", b'data: {"a": 1}\ndata: {"b": "}{"}\ndata: [DONE]\n',
     frames(b'{"a": 1}', b'{"b": "}{"}', b"[DONE]")),
    ("neither blank lines nor a last line end", b"data:{}\r\ndata:{}\r\ndata:{}",
     frames(b"{}", b"{}", b"{}")),
    ("names and ids without blank lines",
     b"event: x\nid: 1\ndata: {}\nevent: y\nid: 2\ndata: {}\nid: 3\ndata: {}\n",
     [Frame(b"{}", "x", "1"), Frame(b"{}", "y", "2"), Frame(b"{}", "", "3")]),
    ("a name after its data", b"data: {}\nevent: x\nid: 1\n\n", [Frame(b"{}", "x", "1")]),
    ("a JSON document over lines", b'data: {"a":\ndata: {}\ndata: }\n\n',
     frames(b'{"a":\n{}\n}')),
    ("a document after lines without a blank one",
     b'data: {}\ndata: {}\n\ndata: {"a":\ndata: 1}\n\n', frames(b"{}", b"{}", b'{"a":\n1}')),
    ("one blank line among many that are missing", b"data: {}\ndata: {}\n\ndata: {}\ndata: {}\n",
     frames(b"{}", b"{}", b"{}", b"{}")),
    ("a broken line without blank lines", b'data: {}\ndata: {}\ndata: {"a\ndata: {}\n',
     frames(b"{}", b"{}", b'{"a', b"{}")),
    ("comments and empty data without blank lines", b":\ndata:\ndata: {}\n: hi\ndata:\ndata: {}\n",
     frames(b"{}", b"{}")),
    ("lines that are no JSON objects", b"data: [1]\ndata: 2\ndata: {}\n\n", frames(b"[1]\n2\n{}")),
    ("a JSON object that was cut in a character", b'data: {"a": "\xf0\x9f"}\ndata: {}\n',
     frames(b'{"a": "\xf0\x9f"}', b"{}")),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "stream", "expected"), RULES, ids=[rule[0] for rule in RULES])
def test_sse_rule_holds_in_every_chunking(rule: str, stream: bytes, expected: list[Frame]) -> None:
    for name, chunks in chunkings(stream):
        assert decode(SseDecoder, chunks) == expected, (rule, name)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("separator", list("\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"))
def test_only_lf_and_cr_end_an_sse_line(end: bytes, separator: str) -> None:
    payload = f"a{separator}b".encode()
    stream = b"event: x" + end + b"data: " + payload + end + end
    for chunks in at_every_place(stream):
        assert decode(SseDecoder, chunks) == [Frame(payload, "x")], chunks


def test_sse_retry_and_last_id_are_kept_for_reconnecting() -> None:
    decoder = SseDecoder()
    decoder.feed(b"retry: 250\nid: 41\n\nretry: soon\nid: 42\n\n")
    assert (decoder.retry, decoder.last_id) == (250, "42")
    decoder.feed(b"retry: " + b"9" * 5_000 + b"\n\n")
    assert decoder.retry == 250


def test_sse_frame_limit_is_per_frame_without_blank_lines() -> None:
    for name, chunks in chunkings(b'data: {"a": 1}\n' * 100):
        found = decode(lambda: SseDecoder(max_frame_bytes=100), chunks)
        assert found == frames(*[b'{"a": 1}'] * 100), name


_lines = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=8)


@given(
    st.lists(st.tuples(_lines, st.lists(_lines, min_size=1, max_size=3)), max_size=4),
    st.sampled_from(["\n", "\r\n", "\r"]),
    cuts,
)
def test_encoded_sse_events_are_decoded(
    events: list[tuple[str, list[str]]], end: str, sizes: list[int]
) -> None:
    stream = ""
    expected: list[Frame] = []
    assume(not any("{}" in data for _, data in events))  # which would be a frame of its own
    for event, data in events:
        stream += f"event: {event}{end}" + "".join(f"data: {line}{end}" for line in data) + end
        expected.append(Frame("\n".join(data).encode(), event))
    assert decode(SseDecoder, cut(stream.encode(), sizes)) == expected


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        # Lines, if the first one is complete.
        (b'\n \n{"a": 1}\n{"b"\n', frames(b'{"a": 1}', b'{"b"')),
        (b"", []),
        (b"\n \r\n", []),
        # Otherwise one document.
        *((text, frames(text)) for text in (b'{\n  "a": 1\n}\n', b'{"a": [\n1]}\n{"b": 2}')),
        (b'{"a": 1}', frames(b'{"a": 1}')),
        # An array: its items. Of a cut array also the incomplete item.
        (b'[\n{"a": 1}]\n[{"b": 2},\n{"c": 3}]\n', frames(b'{"a": 1}', b'{"b": 2}', b'{"c": 3}')),
        (b'[\n{"a": 1}, {"b', frames(b'{"a": 1}', b'{"b')),
        (b'[{"a": 1},{"b', frames(b'{"a": 1}', b'{"b')),
    ],
)
def test_json_text_is_lines_or_a_document_or_an_array(stream: bytes, expected: list[Frame]) -> None:
    for name, chunks in chunkings(stream):
        assert decode(JsonTextDecoder, chunks) == expected, name


def test_ndjson_frame_is_a_line_that_is_not_blank() -> None:
    stream = '{"a": 1}\n\n \r\n{"b": "\u2028\x85"}\r\n{"c": '.encode()
    expected = frames(b'{"a": 1}', '{"b": "\u2028\x85"}'.encode(), b'{"c": ')
    for name, chunks in chunkings(stream):
        assert decode(NdjsonDecoder, chunks) == expected, name


items = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text('a"\\[]{},: \n', max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text('"\\]}a', max_size=3), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(st.lists(items, max_size=4), cuts, st.sampled_from([None, 1]))
def test_array_items_equal_those_of_json_loads(
    meant: list[object], sizes: list[int], indent: int | None
) -> None:
    # The bracket stands on a line of its own: else a whole array on one line is one document.
    text = f"[\n{json.dumps(meant, indent=indent)[1:]}"
    found = decode(JsonTextDecoder, cut(text.encode(), sizes))
    assert [json.loads(frame.data) for frame in found if isinstance(frame, Frame)] == meant


def test_aws_events_and_exceptions_in_every_chunking() -> None:
    exception = aws_header(":message-type", "exception") + aws_header(":exception-type", "throttle")
    error = aws_header(":message-type", "error") + aws_header(":error-code", "InternalError")
    stream = aws_event("chunk", b'{"a": 1}') + aws_event("chunk", b"")
    stream += aws_message(exception, b"{}") + aws_message(error, b"")
    for name, chunks in chunkings(stream):
        assert decode(AwsEventStreamDecoder, chunks) == [
            Frame(b'{"a": 1}', "chunk"),
            Frame(b"", "chunk"),
            Frame(b"{}", "throttle", failed=True),
            Frame(b"", "InternalError", failed=True),
        ], name


def test_aws_headers_of_every_type_are_skipped() -> None:
    values = [
        (0, b""), (1, b""), (2, b"\1"), (3, b"\0\1"), (4, b"\0\0\0\1"), (5, b"\0" * 8),
        (6, b"\0\3abc"), (8, b"\0" * 8), (9, b"\0" * 16),
    ]  # fmt: skip
    headers = b"".join(b"\1h" + pack(">B", kind) + value for kind, value in values)
    stream = aws_message(headers + aws_header(":event-type", "x"), b"p")
    assert decode(AwsEventStreamDecoder, [stream]) == [Frame(b"p", "x")]


@pytest.mark.parametrize(
    "headers", [b"\1h\x0a", b"\1h", b"\5h", b"\1h\7\0", b"\1h\7\0\5abc", b"\1h\4\0"]
)
def test_invalid_aws_headers_break_the_stream(headers: bytes) -> None:
    stream = aws_event("x", b"") + aws_message(headers, b"p")
    assert decode(AwsEventStreamDecoder, [stream])[-1] == Broken("bad_header")


def test_any_changed_byte_of_an_aws_message_breaks_the_stream() -> None:
    good, stream = aws_event("x", b"1"), aws_event("chunk", b'{"a": 1}')
    for position in range(len(stream)):
        changed = bytearray(stream)
        changed[position] ^= 0x20
        first, broken = decode(AwsEventStreamDecoder, [good, bytes(changed)])
        assert first == Frame(b"1", "x")
        assert isinstance(broken, Broken), position


def test_cut_aws_stream_is_truncated() -> None:
    good = aws_event("x", b"1")
    for first, _ in at_every_place(good + aws_event("y", b"2")):
        *_, last = decode(AwsEventStreamDecoder, [first])
        if first == good:
            assert last == Frame(b"1", "x")
        else:
            assert isinstance(last, Broken)
            assert last.reason == "truncated"


@pytest.mark.parametrize(("length", "reason"), [(10, "bad_length"), (2**31, "too_long")])
def test_impossible_aws_length_breaks_the_stream(length: int, reason: Any) -> None:
    prelude = pack(">II", length, 0)
    decoder = AwsEventStreamDecoder()
    assert decoder.feed(prelude + pack(">I", crc32(prelude))) == [Broken(reason)]
    assert decoder.feed(aws_event("x", b"")) == decoder.close() == []


@pytest.mark.parametrize(
    ("decoder", "fed"),
    [
        (SseDecoder(), [
            (b"data: a\n", []), (b"\n", [b"a"]),
            # A CR may be half of a CRLF, but the line has ended all the same.
            (b"data: b\r\r", [b"b"]), (b"\ndata: c\r\n\r\n", [b"c"]),
        ]),
        (SseDecoder(), [
            (b'data: {"a": 1}\n', []),  # the name of the event may still follow
            (b'data: {"a": 2}', []), (b"\n", [b'{"a": 1}', b'{"a": 2}']),
            (b'data: {"a": 3}\n', [b'{"a": 3}']),
        ]),
        (JsonTextDecoder(), [
            (b'{"a": 1}', []), (b'\n{"b"', [b'{"a": 1}']), (b": 2}\n", [b'{"b": 2}']),
        ]),
        (JsonTextDecoder(), [
            (b'[\n{"a": "],"}', []), (b"\n,\n", [b'{"a": "],"}']), (b'{"b": "\\', []),
            (b'""}', []), (b"]", [b'{"b": "\\""}']), (b"more", []),
        ]),
        (JsonTextDecoder(), [
            (b'[{\n  "a": 1\n}', []), (b',\n{"b": 2}\n', [b'{\n  "a": 1\n}']),
            (b"]\n", [b'{"b": 2}']),
        ]),
    ],
    ids=["SSE", "SSE without blank lines", "lines", "array", "document that begins with a bracket"],
)  # fmt: skip
def test_frames_come_as_soon_as_they_are_complete(decoder: Any, fed: Any) -> None:
    for chunk, data in fed:
        assert decoder.feed(chunk) == frames(*data), chunk
    assert decoder.close() == []


@pytest.mark.parametrize(
    ("decoder_type", "limit", "stream", "before"),
    [
        (SseDecoder, 100, b"data: a\n\ndata: " + b"x" * 200, b"a"),
        (SseDecoder, 100, b"data: a\n\ndata: " + b"x" * 200 + b"\n\ndata: b\n\n", b"a"),
        (SseDecoder, 100, b"data: a\n\n" + b"data: x\n" * 30, b"a"),
        (SseDecoder, 100, b"data: a\n\n: " + b"x" * 200 + b"\n\n", b"a"),
        (SseDecoder, 100, b"data: a\n\ndata: " + b"x" * 95 + b"\n\n", b"a"),
        (NdjsonDecoder, 10, b"1\n" + b"x" * 11, b"1"),
        (NdjsonDecoder, 10, b"1\n" + b"x" * 11 + b"\n2\n", b"1"),
        (JsonTextDecoder, 10, b'{\n"a": 123456789}', None),
        (JsonTextDecoder, 10, b"12345678901\n2\n", None),
        (JsonTextDecoder, 10, b"1234567890\n" + b"x" * 11, b"1234567890"),
        (JsonTextDecoder, 12, b'[\n{"a": 1},{"b":"12345678', b'{"a": 1}'),
        (JsonTextDecoder, 12, b'[\n{"a": 1},{"b":"12345678"},{"c": 1}]\n', b'{"a": 1}'),
    ],
)
def test_frame_that_is_too_long_ends_the_stream_in_every_chunking(
    decoder_type: DecoderType, limit: int, stream: bytes, before: bytes | None
) -> None:
    expected = [*([] if before is None else frames(before)), Broken("too_long")]
    for chunks in (*at_every_place(stream), *(chunks for _, chunks in chunkings(stream))):
        decoder = decoder_type(max_frame_bytes=limit)
        assert feed(decoder, chunks) == expected, chunks
        assert decoder.feed(b"\n\ndata: b\n\n") == decoder.close() == []


@pytest.mark.parametrize(
    ("decoder_type", "start", "streams"),
    [
        (SseDecoder, b"", st.binary()),
        (NdjsonDecoder, b"", st.binary()),
        (
            partial(JsonTextDecoder, max_frame_bytes=8),
            b"",
            st.text('{}[]"a1,:\n\r ').map(str.encode),
        ),
        (JsonTextDecoder, b"", st.text('{}[]"a1,:\n\r ').map(str.encode)),
        (AwsEventStreamDecoder, aws_event("x", b"1"), st.binary()),
    ],
)
@given(data=st.data(), sizes=cuts)
def test_chunking_never_matters_and_nothing_raises(
    decoder_type: DecoderType, start: bytes, streams: Any, data: Any, sizes: list[int]
) -> None:
    stream = start + data.draw(streams)
    assert decode(decoder_type, cut(stream, sizes)) == decode(decoder_type, [stream])


@pytest.mark.timing
@pytest.mark.parametrize(
    ("decoder_type", "stream"),
    [
        (SseDecoder, lambda size: b"data: " + b"x" * size),
        (SseDecoder, lambda size: b"event: e\ndata: {}\n\n" * (size // 20)),
        (SseDecoder, lambda size: b"data: x\r" * (size // 8)),
        (SseDecoder, lambda size: b"data: {}\n" * (size // 9)),
        (SseDecoder, lambda size: b"data: {\n" * (size // 8)),
        (NdjsonDecoder, lambda size: b"x" * size),
        (NdjsonDecoder, lambda size: b"{}\r\n" * (size // 4)),
        (JsonTextDecoder, lambda size: b'[\n{"a": "' + b"x\\n[" * (size // 4) + b'"}]'),
        (AwsEventStreamDecoder, lambda size: aws_event("chunk", b"x" * size)),
        (AwsEventStreamDecoder, lambda size: aws_event("chunk", b"{}") * (size // 60)),
    ],
)
@pytest.mark.parametrize("chunk", [4, 64])
def test_cost_of_small_chunks_is_linear(
    decoder_type: DecoderType, stream: Callable[[int], bytes], chunk: int
) -> None:
    def job(size: int) -> Callable[[], object]:
        chunks = cut(stream(size), [chunk])
        return lambda: decode(decoder_type, chunks)

    assert growth(job, 2**16) <= BOUND
