"""Bodies of requests: no longer, slower or deeper than allowed, and wrong ones say where."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from argstream.server import Limits
from tests.server.raw import Answer, Asked, call, connect, eventually_is, read_answer, serving

PATH = "/api/chat"
HEAD = b"POST /api/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
LIMITS = Limits(max_body_bytes=100_000, body_seconds=0.3, max_values=20_000)
READ = (422, "unusable")
"""The refusal of a body that was read: there is no message in it."""


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Asked, int]]:
    with serving(limits=LIMITS) as server:
        yield server


@pytest.fixture
def port(served: tuple[Asked, int]) -> int:
    return served[1]


def post(port: int, body: bytes) -> Answer:
    return call(port, "POST", PATH, body)


def with_value(value: bytes) -> bytes:
    """A body in which any value may stand."""
    return b'{"id": "x", "edits": {"e": {"value": %s}}}' % value


def test_what_comes_in_pieces_is_read(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(HEAD + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in (b'{"i', b'd":', b'"x"}'):
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\nx-late: trailer\r\n\r\n")
        assert read_answer(connection).refusal == READ


@pytest.mark.parametrize(
    ("body", "status", "code", "detail"),
    [
        (b"", 400, "no-body", "send a JSON object"),
        *(
            (body, 400, "no-json", "the body is no JSON")
            for body in (
                *(b"{", b"id=x", b'{"data":[1,]}', b"nul", b'{"id":"\xff"}', b"NaN"),
                with_value(b"[1,]"),
            )
        ),
        (b"[]", 422, "wrong-body", "Expected `object`, got `array`"),
        (b"{}", 422, "wrong-body", "missing required field `id`"),
        (b'{"id": 1}', 422, "wrong-body", "`$.id`"),
        (b'{"id": "x", "edits": {"e": 1}}', 422, "wrong-body", "`$.edits[...]`"),
        # What could be read in two ways:
        (b'{"id": "x", "id": "y"}', 400, "doubled-key", "twice"),
        (b'{"id": "x", "\\u0069d": "y"}', 400, "doubled-key", "twice"),
        (with_value(b'[{"a": {"b": 1, "c": 2, "b": 3}}]'), 400, "doubled-key", "twice"),
        (b'{"id": "x", "ignored": {"a": 1, "a": %s}}' % (b"9" * 5_000), 400, "doubled-key", "a"),
        *(
            (with_value(number), 422, "wrong-body", "")
            for number in (b"9" * 4_301, b"9" * 90_000, b"1e999", b"-" + b"1" * 5_000)
        ),
        *(
            (with_value(b"[%s1]" % (value * 20_000)), 413, "body-too-large", "max_values")
            for value in (b"1,", b"{},", b"[]\n,")
        ),
        (b" " * 100_001, 413, "body-too-long", "max_body_bytes=100000"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_not_asked_for_is_refused_in_words(
    port: int, body: bytes, status: int, code: str, detail: str
) -> None:
    refused = post(port, body)
    assert refused.refusal == (status, code)
    assert detail in refused.detail
    assert len(refused.body) < 1_000


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"\u00e9", "é"),
        (r"a\ud800b", "a\ufffdb"),
        (r"\uDFFF", "\ufffd"),
        (r"\ud800\ud83d\ude00\ude00", "\ufffd\U0001f600\ufffd"),
        (r"\\\ud800", "\\\ufffd"),
        (r"\\ud800", r"\ud800"),
        (r"\\ud83d\ude00", "\\ud83d\ufffd"),
        (r"\n\"\ud800\"", '\n"\ufffd"'),
    ],
)
def test_half_of_a_pair_is_replaced(served: tuple[Asked, int], written: str, read: str) -> None:
    asked, port = served
    body = b'{"message": "%s"}' % written.encode()
    assert call(port, "POST", "/api/converse", body).status == 200
    assert asked.prompts[-1] == read


@pytest.mark.parametrize(
    ("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"\\"":', b"}]")]
)
def test_deep_nesting_is_refused(port: int, opening: bytes, closing: bytes) -> None:
    each = opening.count(b"[") + opening.count(b"{")

    def nested(depth: int) -> Answer:
        times = (depth - 3) // each  # three levels are around it
        return post(port, with_value(b"%s1%s" % (opening * times, closing * times)))

    assert nested(LIMITS.max_depth).refusal == READ
    for depth in (LIMITS.max_depth + each, 15_000):
        refused = nested(depth)
        assert refused.refusal == (400, "body-too-deep")
        assert "max_depth" in refused.detail


@pytest.mark.parametrize("text", ['[{"\\' * 5_000, ',"\\' * 15_000])
def test_what_is_in_a_string_is_no_nesting_and_no_value(port: int, text: str) -> None:
    assert post(port, with_value(json.dumps(text).encode())).refusal == READ


def test_a_hostile_body_costs_no_more_than_its_length(port: int) -> None:
    began = time.process_time()
    for body in (b'["' + b'\\"[' * 30_000, b'[{"' * 30_000, b'"\\' * 45_000 + b"[" * 300):
        assert post(port, body).status in (400, 413, 422)
    assert time.process_time() - began < 2


def test_a_length_over_the_limit_is_refused_before_anything_of_it_comes(port: int) -> None:
    for length in (b"100001", b"9" * 17):
        with connect(port) as connection:
            connection.sendall(HEAD + b"content-length: %s\r\n\r\n" % length)
            assert read_answer(connection).refusal == (413, "body-too-long")  # and it hangs up


def test_a_body_that_does_not_tell_its_length_is_cut_off_at_the_limit(port: int) -> None:
    piece = b"2000\r\n" + b" " * 0x2000 + b"\r\n"
    sent = 0
    with connect(port) as connection:
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        try:
            while sent < 500 * len(piece):
                connection.sendall(piece)
                sent += len(piece)
        except ConnectionError:  # it has hung up
            pass
        assert sent < 500 * len(piece)
        assert b"413" in connection.recv(100)


def test_a_body_that_does_not_come_is_not_waited_for(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(HEAD + b'content-length: 50\r\n\r\n{"id":')
        refused = read_answer(connection)
    assert refused.refusal == (408, "body-too-slow")
    assert "0.3 s (body_seconds)" in refused.detail


def test_of_too_many_values_nobody_waits_long_for_the_refusal() -> None:
    body = with_value(b"[%s]" % b",".join([b"{}"] * 1_300_000))
    with serving() as (_, port):
        began = time.process_time()
        assert post(port, body).status == 413
        assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("in_all", "per_client", "status", "limit"),
    [
        (1_000_000, 150_000, 429, "max_incoming_bytes_per_client=150000"),
        (150_000, 1_000_000, 503, "max_incoming_bytes=150000"),
    ],
)
def test_those_on_their_way_are_bounded_together(
    in_all: int, per_client: int, status: int, limit: str
) -> None:
    limits = Limits(max_incoming_bytes=in_all, max_incoming_bytes_per_client=per_client)
    with serving(limits=limits) as (_, port), ExitStack() as slow_ones:
        for _ in range(2):
            slow = slow_ones.enter_context(connect(port))
            slow.sendall(HEAD + b"content-length: 90000\r\n\r\n" + b" " * 70_000)
        eventually_is(lambda: post(port, b" " * 20_000).status, status)
        refused = post(port, b" " * 20_000)
        slow_ones.close()  # who goes away gives back what he had
        eventually_is(lambda: post(port, b" " * 100_000).problem, "no-json")
    assert refused.refusal == (status, "too-many-bytes-of-bodies")
    assert limit in refused.detail
    assert refused.headers["connection"] == "close"
