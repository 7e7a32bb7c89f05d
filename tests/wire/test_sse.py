"""Server-sent events: the rules of the WHATWG, one by one, and every way to cut them."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from argstream.testing import at_every_place, chunkings, cut
from argstream.wire import Broken, Frame, SseDecoder
from tests.strategies import cuts


def decode(chunks: list[bytes]) -> list[Frame | Broken]:
    decoder = SseDecoder()
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return frames + decoder.close()


def frames(*data: bytes) -> list[Frame]:
    return [Frame(item) for item in data]


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
     b'data: {}\ndata: {}\n\ndata: {"a":\ndata: 1}\n\n',
     frames(b"{}", b"{}", b'{"a":\n1}')),
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
def test_the_rules(rule: str, stream: bytes, expected: list[Frame]) -> None:
    for name, chunks in chunkings(stream):
        assert decode(chunks) == expected, (rule, name)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize(
    "separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"]
)
def test_only_lf_and_cr_end_a_line(end: bytes, separator: str) -> None:
    payload = f"a{separator}b".encode()
    stream = b"event: x" + end + b"data: " + payload + end + end
    for chunks in at_every_place(stream):
        assert decode(chunks) == [Frame(payload, "x")], chunks


def test_retry_and_last_id_are_kept_for_who_reconnects() -> None:
    decoder = SseDecoder()
    decoder.feed(b"retry: 250\nid: 41\n\nretry: soon\nid: 42\n\n")
    assert (decoder.retry, decoder.last_id) == (250, "42")
    decoder.feed(b"retry: " + b"9" * 5_000 + b"\n\n")
    assert decoder.retry == 250


def test_frames_come_as_soon_as_they_are_complete() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\n") == frames(b"a")
    # A CR may be half of a CRLF, but the line has ended all the same.
    assert decoder.feed(b"data: b\r\r") == frames(b"b")
    assert decoder.feed(b"\ndata: c\r\n\r\n") == frames(b"c")


def test_without_blank_lines_a_frame_comes_at_its_line_end_after_the_first() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b'data: {"a": 1}\n') == []  # the name of the event may still follow
    assert decoder.feed(b'data: {"a": 2}') == []
    assert decoder.feed(b"\n") == frames(b'{"a": 1}', b'{"a": 2}')
    assert decoder.feed(b'data: {"a": 3}\n') == frames(b'{"a": 3}')


def test_the_limit_is_for_each_frame_where_blank_lines_are_missing() -> None:
    for name, chunks in chunkings(b'data: {"a": 1}\n' * 100):
        decoder = SseDecoder(max_frame_bytes=100)
        said = [frame for chunk in chunks for frame in decoder.feed(chunk)] + decoder.close()
        assert said == frames(*[b'{"a": 1}'] * 100), name


@pytest.mark.parametrize(
    "stream",
    [
        b"data: a\n\ndata: " + b"x" * 200,
        b"data: a\n\ndata: " + b"x" * 200 + b"\n\ndata: b\n\n",
        b"data: a\n\n" + b"data: x\n" * 30,
        b"data: a\n\n: " + b"x" * 200 + b"\n\n",
    ],
)
def test_a_frame_that_is_too_long_ends_the_stream_in_every_chunking(stream: bytes) -> None:
    for name, chunks in chunkings(stream):
        decoder = SseDecoder(max_frame_bytes=100)
        said = [frame for chunk in chunks for frame in decoder.feed(chunk)]
        assert said == [Frame(b"a"), Broken("too_long")], name
        assert decoder.feed(b"\n\ndata: b\n\n") == []
        assert decoder.close() == []


_lines = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=8)


@given(
    st.lists(st.tuples(_lines, st.lists(_lines, min_size=1, max_size=3)), max_size=4),
    st.sampled_from(["\n", "\r\n", "\r"]),
    cuts,
)
def test_what_is_written_is_read(
    events: list[tuple[str, list[str]]], end: str, sizes: list[int]
) -> None:
    stream = ""
    expected: list[Frame] = []
    assume(not any("{}" in data for _, data in events))  # which would be a frame of its own
    for event, data in events:
        stream += f"event: {event}{end}" + "".join(f"data: {line}{end}" for line in data) + end
        expected.append(Frame("\n".join(data).encode(), event))
    assert decode(cut(stream.encode(), sizes)) == expected


@given(st.binary(), cuts)
def test_chunking_never_matters_and_nothing_raises(stream: bytes, sizes: list[int]) -> None:
    assert decode(cut(stream, sizes)) == decode([stream])
