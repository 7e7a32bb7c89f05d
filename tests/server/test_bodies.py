"""Bodies of requests: no longer, slower or deeper than allowed, and wrong ones say where."""

import json
import time
from collections.abc import Iterator

import pytest

from argstream.server.limits import Limits
from tests.server.stand_in import Answer, StandIn, call, connect, read_answer, serving

HEAD = b"POST /decisions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
LIMITS = Limits(max_body_bytes=100_000, body_seconds=0.3)


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


def detail(answer: Answer) -> str:
    return str(json.loads(answer.body)["detail"])


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
        b'{"note":"\\ud800"}',
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
    assert where in detail(refused)


def test_of_two_equal_keys_the_last_counts(served: tuple[StandIn, int]) -> None:
    assert post(served, b'{"approve": true, "approve": false}').status == 200
    assert served[0].decided[0].approve is False


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


def test_brackets_in_strings_are_not_nesting(served: tuple[StandIn, int]) -> None:
    note = json.dumps('[{"\\' * 5_000).encode()
    assert post(served, b'{"approve": true, "note": %s}' % note).status == 200


def test_a_hostile_body_costs_no_more_than_its_length(served: tuple[StandIn, int]) -> None:
    began = time.monotonic()
    for body in (b'["' + b'\\"[' * 30_000, b'[{"' * 30_000, b'"\\' * 45_000 + b"[" * 300):
        assert post(served, body).status in (400, 422)
    assert time.monotonic() - began < 2


def test_a_length_over_the_limit_is_refused_before_anything_of_it_comes(
    served: tuple[StandIn, int],
) -> None:
    for length in (b"100001", b"9" * 17):
        with connect(served[1]) as connection:
            connection.sendall(HEAD + b"content-length: %s\r\n\r\n" % length)
            refused = read_answer(connection)  # until the server hangs up
        assert (refused.status, refused.problem) == (413, "body-too-long")


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
    assert "0.3 s" in detail(refused)


def test_what_a_problem_quotes_is_cut(served: tuple[StandIn, int]) -> None:
    refused = post(served, b'{"approve": "%s"}' % (b"x" * 90_000))
    assert len(refused.body) < 1_000
