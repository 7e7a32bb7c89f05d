"""Bodies of requests: no longer, slower or deeper than allowed, and wrong ones say where."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest
from starlette.requests import Request
from starlette.types import Message

from argstream.server.bodies import read_json
from argstream.server.limits import Limits
from tests.server.stand_in import Answer, StandIn, call, connect, read_answer, serving

HEAD = b"POST /decisions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
LIMITS = Limits(max_body_bytes=100_000, body_seconds=0.3, max_values=20_000)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[StandIn, int]]:
    with serving(limits=LIMITS) as server:
        yield server


def post(served: tuple[StandIn, int], body: bytes) -> Answer:
    app, port = served
    app.decided.clear()
    answer = call(port, "POST", "/decisions", body)
    assert bool(app.decided) == (answer.status == 200)
    return answer


def test_what_is_asked_for_is_read(served: tuple[StandIn, int]) -> None:
    assert post(served, b'{"approve": true, "note": "\\u00e9"}').status == 200
    assert served[0].decided[0].note == "é"


def test_in_pieces_too(served: tuple[StandIn, int]) -> None:
    with connect(served[1]) as connection:
        connection.sendall(HEAD + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in (b'{"app', b'rove":', b"true}"):
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\nx-late: trailer\r\n\r\n")
        assert read_answer(connection).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"approve=true",
        b'{"data":[1,]}',
        b"nul",
        b'{"note":"\xff"}',
        b"NaN",
    ],
)
def test_what_is_no_json_is_refused(served: tuple[StandIn, int], body: bytes) -> None:
    refused = post(served, body)
    assert (refused.status, refused.problem) in ((400, "no-json"), (400, "no-body"))


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "missing required field `approve`"),
        (b'{"approve": 1}', "`$.approve`"),
        (b'{"approve": true, "note": {}}', "`$.note`"),
    ],
)
def test_json_of_another_shape_is_told_where(
    served: tuple[StandIn, int], body: bytes, where: str
) -> None:
    refused = post(served, body)
    assert (refused.status, refused.problem) == (422, "wrong-body")
    assert where in refused.detail


@pytest.mark.parametrize(
    "body",
    [
        b'{"approve": true, "approve": false}',
        b'{"approve": true, "appro\\u0076e": false}',
        b'{"approve": true, "data": [{"a": {"b": 1, "c": 2, "b": 3}}]}',
        b'{"approve": true, "ignored": {"a": 1, "a": %s}}' % (b"9" * 5_000),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(
    served: tuple[StandIn, int], body: bytes
) -> None:
    refused = post(served, body)
    assert (refused.status, refused.problem) == (400, "doubled-key")
    assert "twice" in refused.detail


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"a\ud800b", "a\ufffdb"),
        (r"\uDFFF", "\ufffd"),
        (r"\ud800\ud83d\ude00\ude00", "\ufffd\U0001f600\ufffd"),
        (r"\\\ud800", "\\\ufffd"),
        (r"\\ud800", r"\ud800"),
        (r"\\ud83d\ude00", "\\ud83d\ufffd"),
        (r"\n\"\ud800\"", '\n"\ufffd"'),
    ],
)
def test_half_of_a_pair_is_replaced(served: tuple[StandIn, int], written: str, read: str) -> None:
    assert post(served, b'{"approve": true, "note": "%s"}' % written.encode()).status == 200
    assert served[0].decided[0].note == read


@pytest.mark.parametrize("number", [b"9" * 4_301, b"9" * 90_000, b"1e999", b"-" + b"1" * 5_000])
def test_giant_numbers_are_refused(served: tuple[StandIn, int], number: bytes) -> None:
    assert post(served, b'{"approve": true, "data": %s}' % number).status == 422


@pytest.mark.parametrize(
    ("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"\\"":', b"}]")]
)
def test_deep_nesting_is_refused(
    served: tuple[StandIn, int], opening: bytes, closing: bytes
) -> None:
    each = opening.count(b"[") + opening.count(b"{")

    def nested(depth: int) -> Answer:
        times = (depth - 1) // each  # one level is the object itself
        return post(served, b'{"approve":true,"data":%s1%s}' % (opening * times, closing * times))

    assert nested(LIMITS.max_depth).status == 200
    for depth in (LIMITS.max_depth + each, 15_000):
        refused = nested(depth)
        assert (refused.status, refused.problem) == (400, "body-too-deep")
        assert "max_depth" in refused.detail


def test_brackets_in_strings_are_not_nesting(served: tuple[StandIn, int]) -> None:
    note = json.dumps('[{"\\' * 5_000).encode()
    assert post(served, b'{"approve": true, "note": %s}' % note).status == 200


@pytest.mark.parametrize("value", [b"1,", b"{},", b"[]\n,"])
def test_more_values_than_allowed_are_refused(served: tuple[StandIn, int], value: bytes) -> None:
    refused = post(served, b'{"approve": true, "data": [%s1]}' % (value * 20_000))
    assert (refused.status, refused.problem) == (413, "body-too-large")
    assert "max_values" in refused.detail


def test_commas_in_strings_are_no_values(served: tuple[StandIn, int]) -> None:
    note = json.dumps(',"\\' * 15_000).encode()
    assert post(served, b'{"approve": true, "note": %s}' % note).status == 200


def test_a_hostile_body_costs_no_more_than_its_length(served: tuple[StandIn, int]) -> None:
    began = time.monotonic()
    for body in (b'["' + b'\\"[' * 30_000, b'[{"' * 30_000, b'"\\' * 45_000 + b"[" * 300):
        assert post(served, body).status in (400, 413, 422)
    assert time.monotonic() - began < 2


def test_a_length_over_the_limit_is_refused_before_anything_of_it_comes(
    served: tuple[StandIn, int],
) -> None:
    for length in (b"100001", b"9" * 17):
        with connect(served[1]) as connection:
            connection.sendall(HEAD + b"content-length: %s\r\n\r\n" % length)
            refused = read_answer(connection)  # until the server hangs up
        assert (refused.status, refused.problem) == (413, "body-too-long")
        assert "max_body_bytes=100000" in refused.detail


def test_a_body_that_does_not_tell_its_length_is_cut_off_at_the_limit(
    served: tuple[StandIn, int],
) -> None:
    piece = b"2000\r\n" + b" " * 0x2000 + b"\r\n"
    sent = 0
    with connect(served[1]) as connection:
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        try:
            while sent < 500 * len(piece):
                connection.sendall(piece)
                sent += len(piece)
        except ConnectionError:  # it has hung up
            pass
        assert sent < 500 * len(piece)
        assert b"413" in connection.recv(100)


def test_a_body_that_does_not_come_is_not_waited_for(served: tuple[StandIn, int]) -> None:
    with connect(served[1]) as connection:
        connection.sendall(HEAD + b'content-length: 50\r\n\r\n{"approve":')
        refused = read_answer(connection)
    assert (refused.status, refused.problem) == (408, "body-too-slow")
    assert "0.3 s (body_seconds)" in refused.detail


def test_what_a_problem_quotes_is_cut(served: tuple[StandIn, int]) -> None:
    refused = post(served, b'{"approve": "%s"}' % (b"x" * 90_000))
    assert len(refused.body) < 1_000


def test_of_too_many_values_nobody_waits_long_for_the_refusal() -> None:
    body = b'{"approve": true, "data": [%s]}' % b",".join([b"{}"] * 1_300_000)
    with serving() as (_, port):
        began = time.monotonic()
        assert call(port, "POST", "/decisions", body).status == 413
        assert time.monotonic() - began < 1


@pytest.mark.parametrize(("length", "is_elsewhere"), [(100, False), (100_000, True)])
def test_large_ones_are_decoded_where_nobody_else_waits(length: int, *, is_elsewhere: bool) -> None:
    threads: list[threading.Thread] = []

    class Noted(msgspec.Struct):
        text: str

        def __post_init__(self) -> None:
            threads.append(threading.current_thread())

    async def receive() -> Message:
        return {"type": "http.request", "body": msgspec.json.encode({"text": "x" * length})}

    request = Request({"type": "http", "headers": []}, receive)
    assert len(asyncio.run(read_json(request, Noted, Limits())).text) == length
    assert (threads != [threading.current_thread()]) == is_elsewhere


class TestOnTheirWay:
    HEAD = HEAD + b"content-length: 90000\r\n\r\n"

    @pytest.mark.parametrize(
        ("in_all", "per_client", "status", "limit"),
        [
            (1_000_000, 150_000, 429, "max_incoming_bytes_per_client=150000"),
            (150_000, 1_000_000, 503, "max_incoming_bytes=150000"),
        ],
    )
    def test_are_bounded_together(
        self, in_all: int, per_client: int, status: int, limit: str
    ) -> None:
        limits = Limits(max_incoming_bytes=in_all, max_incoming_bytes_per_client=per_client)
        with serving(limits=limits) as (app, port), ExitStack() as slow_ones:
            for _ in range(2):
                slow = slow_ones.enter_context(connect(port))
                slow.sendall(self.HEAD + b" " * 70_000)
            while len(app.rates.incoming) < 140_000:
                time.sleep(0.01)
            refused = call(port, "POST", "/decisions", b" " * 20_000)
            slow_ones.close()
            while len(app.rates.incoming):  # who goes away gives back what he had
                time.sleep(0.01)
            assert call(port, "POST", "/decisions", {"approve": True}).status == 200
        assert (refused.status, refused.problem) == (status, "too-many-bytes-of-bodies")
        assert limit in refused.detail
        assert refused.headers["connection"] == "close"
