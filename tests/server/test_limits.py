"""Limits on requests, viewers, runs and bodies, per client and in total."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from argstream.errors import UsageError
from argstream.server import AgentServer, Limits
from tests.server import raw
from tests.server.raw import Answer, Asked, call, connect, read_answer, serving
from tests.server.talking import eventually, problem, talking

RUNS = "/api/runs"


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = 0.0
        frozen = float(int(time.monotonic()))  # whole, so that sums of seconds are exact
        monkeypatch.setattr(time, "monotonic", lambda: frozen + self.passed)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def limited(per_minute: int, **more: Any) -> AgentServer:
    return Asked(limits=Limits(requests_per_minute=per_minute, **more)).app


def asking(app: AgentServer, *clients: str, path: str = RUNS) -> list[int]:
    return raw.statuses(app, *(raw.scope_of(path, client=client) for client in clients))


def test_a_tenth_of_a_minute_may_come_at_once_and_then_a_steady_rate(clock: Clock) -> None:
    app = limited(60)
    assert asking(app, *["ann"] * 7) == [200] * 6 + [429]
    for seconds, expected in ((0.4, 429), (0.6, 200), (0.9, 429)):
        clock.passed += seconds
        assert asking(app, "ann") == [expected]
    clock.passed += 3_600
    assert asking(app, *["ann"] * 7) == [200] * 6 + [429], "full again, and no fuller"


def test_refusal_says_when_to_retry(clock: Clock) -> None:
    app = limited(1)
    assert asking(app, "ann") == [200], "at least one may come"
    clock.passed += 20
    head, body = raw.exchange(app, raw.scope_of(RUNS, client="ann"))
    refused = json.loads(body["body"])
    assert dict(head["headers"])[b"retry-after"] == b"40"
    assert refused["type"] == "urn:argstream:too-many-requests"
    assert "the limit is requests_per_minute=1 per client" in refused["detail"]
    assert "Retry in 40 s" in refused["detail"]


def test_health_checks_wrong_tokens_and_users_are_counted_separately() -> None:
    app = limited(10)
    assert asking(app, "ann", "ann") == [200, 429]
    assert asking(app, "ann", "ann", path="/healthz") == [200, 429], "counted separately"
    app = Asked(token="a-token-nobody-guesses", limits=Limits(requests_per_minute=30)).app
    guesses = (raw.scope_of(RUNS, authorization=f"Bearer {guess}") for guess in range(5))
    assert raw.statuses(app, *guesses) == [401, 401, 401, 429, 429]
    limits = Limits(requests_per_minute=10)
    app = Asked(user=lambda request: request.headers["x-user"], limits=limits).app
    names = ("ann", "ann", "bob", "a" * 200, "a" * 200, f"{'a' * 199}b")
    requests = (raw.scope_of("/no/such", x_user=name) for name in names)
    assert raw.statuses(app, *requests) == [404, 429, 404, 404, 429, 404]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        # A client with an IPv6 address has a network of them.
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("no:address", "no:other", False),
    ],
)
def test_clients_are_counted_by_address(one: str, other: str, *, is_same: bool) -> None:
    assert asking(limited(10), one, other) == [200, 429 if is_same else 200]


@pytest.mark.parametrize("value", [0, -1, None, "many", float("nan")])
def test_limits_must_be_positive_numbers(value: Any) -> None:
    with pytest.raises(UsageError, match="max_viewers must be a number greater than 0"):
        Limits(max_viewers=value)


def test_least_recent_client_is_forgotten() -> None:
    app = limited(10, max_clients=2)
    assert asking(app, "ann", "bob", "ann", "cem") == [200, 200, 429, 200]
    assert asking(app, "ann", "bob") == [429, 200]


@pytest.mark.parametrize(
    ("limit", "value", "status", "code", "detail"),
    [
        ("max_viewers", 1, 503, "too-many-open-streams", " at once for this server"),
        ("max_viewers_per_client", 1, 429, "too-many-open-streams", " at once for a client"),
        ("max_running", 1, 503, "too-many-runs", ""),
        ("max_running_per_client", 1, 429, "too-many-runs", ""),
        ("runs_per_minute", 10, 429, "too-many-starts", ""),
    ],
)
def test_request_over_a_limit_is_refused_and_starts_no_run(
    limit: str, value: int, status: int, code: str, detail: str
) -> None:
    limits = Limits(**{limit: value})
    with talking("word " * 500, "Done.", delay=0.01, limits=limits) as client:
        run_id = client.start()
        with client.http.stream("GET", f"/api/runs/{run_id}/events"):
            for _ in range(2):
                refused = client.post("/api/converse", {"message": "Hi"})
                assert problem(refused) == (status, code)
                assert f"the limit is {limit}={value}{detail}" in refused.json()["detail"]
                assert int(refused.headers["retry-after"]) > 0
        assert [run["run"] for run in client.listed()] == [run_id]


HEAD = b"POST /api/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
LIMITS = Limits(max_body_bytes=100_000, body_seconds=0.3, max_values=20_000)
WAS_READ = (422, "unusable")  # the body is valid, but has no message


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Asked, int]]:
    with serving(limits=LIMITS) as server:
        yield server


@pytest.fixture
def port(served: tuple[Asked, int]) -> int:
    return served[1]


def post(port: int, body: bytes) -> Answer:
    return call(port, "POST", "/api/chat", body)


def with_value(value: bytes) -> bytes:
    return b'{"id": "x", "edits": {"e": {"value": %s}}}' % value


@pytest.mark.parametrize(
    ("bodies", "status", "code", "detail"),
    [
        ([b""], 400, "no-body", "Send a JSON object"),
        (
            [
                *(b"{", b"id=x", b'{"data":[1,]}', b"nul", b'{"id":"\xff"}', b"NaN"),
                with_value(b"[1,]"),
            ],
            *(400, "no-json", "the body is not valid JSON"),
        ),
        ([b"[]"], 422, "wrong-body", "Expected `object`, got `array`"),
        ([b"{}"], 422, "wrong-body", "missing required field `id`"),
        ([b'{"id": 1}'], 422, "wrong-body", "`$.id`"),
        ([b'{"id": "x", "edits": {"e": 1}}'], 422, "wrong-body", "`$.edits[...]`"),
        # Ambiguous bodies
        (
            [
                b'{"id": "x", "id": "y"}',
                b'{"id": "x", "\\u0069d": "y"}',
                with_value(b'[{"a": {"b": 1, "c": 2, "b": 3}}]'),
            ],
            *(400, "doubled-key", "twice"),
        ),
        ([b'{"id": "x", "ignored": {"a": 1, "a": %s}}' % (b"9" * 5_000)], 400, "doubled-key", "a"),
        (
            [*map(with_value, (b"9" * 4_301, b"9" * 90_000, b"1e999", b"-" + b"1" * 5_000))],
            *(422, "wrong-body", ""),
        ),
        (
            [with_value(b"[%s1]" % (value * 20_000)) for value in (b"1,", b"{},", b"[]\n,")],
            *(413, "body-too-large", "max_values"),
        ),
        ([b" " * 100_001], 413, "body-too-long", "max_body_bytes=100000"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_invalid_body_is_refused_with_a_short_reason(
    port: int, bodies: list[bytes], status: int, code: str, detail: str
) -> None:
    for body in bodies:
        refused = post(port, body)
        assert refused.refusal == (status, code), body[:50]
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
def test_lone_surrogates_are_replaced(served: tuple[Asked, int], written: str, read: str) -> None:
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

    for text in ('[{"\\' * 5_000, ',"\\' * 15_000):  # brackets and commas in a string
        assert post(port, with_value(json.dumps(text).encode())).refusal == WAS_READ
    assert nested(LIMITS.max_depth).refusal == WAS_READ
    for depth in (LIMITS.max_depth + each, 15_000):
        refused = nested(depth)
        assert refused.refusal == (400, "body-too-deep")
        assert "max_depth" in refused.detail


def test_hostile_bodies_are_refused_in_linear_time(port: int) -> None:
    began = time.process_time()
    for body in (b'["' + b'\\"[' * 30_000, b'[{"' * 30_000, b'"\\' * 45_000 + b"[" * 300):
        assert post(port, body).status in (400, 413, 422)
    assert time.process_time() - began < 2
    body = with_value(b"[%s]" % b",".join([b"{}"] * 1_300_000))
    with serving() as (_, other):
        began = time.process_time()
        assert post(other, body).status == 413
        assert time.process_time() - began < 1


def test_body_over_the_limit_is_refused_before_it_is_read(port: int) -> None:
    for length in (b"100001", b"9" * 17):
        with connect(port) as connection:
            connection.sendall(HEAD + b"content-length: %s\r\n\r\n" % length)
            assert read_answer(connection).refusal == (413, "body-too-long")
    piece = b"2000\r\n" + b" " * 0x2000 + b"\r\n"
    sent = 0
    with connect(port) as connection:
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        try:
            while sent < 500:
                connection.sendall(piece)
                sent += 1
        except ConnectionError:  # the server closed the connection
            pass
        assert sent < 500
        assert b"413" in connection.recv(100)


def test_chunked_body_is_read_and_one_that_does_not_come_is_408(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(HEAD + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in (b'{"i', b'd":', b'"x"}'):
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\nx-late: trailer\r\n\r\n")
        assert read_answer(connection).refusal == WAS_READ
    with connect(port) as connection:
        connection.sendall(HEAD + b'content-length: 50\r\n\r\n{"id":')
        refused = read_answer(connection)
    assert refused.refusal == (408, "body-too-slow")
    assert "0.3 s (body_seconds)" in refused.detail


@pytest.mark.parametrize(
    ("limit", "other", "status"),
    [
        ("max_incoming_bytes_per_client", "max_incoming_bytes", 429),
        ("max_incoming_bytes", "max_incoming_bytes_per_client", 503),
    ],
)
def test_bodies_in_transit_are_bounded_together(limit: str, other: str, status: int) -> None:
    limits = Limits(**{limit: 150_000, other: 1_000_000})
    with serving(limits=limits) as (_, port), ExitStack() as slow_ones:
        for _ in range(2):
            slow = slow_ones.enter_context(connect(port))
            slow.sendall(HEAD + b"content-length: 90000\r\n\r\n" + b" " * 70_000)
        eventually(lambda: post(port, b" " * 20_000).status == status)
        refused = post(port, b" " * 20_000)
        slow_ones.close()  # a client that leaves frees its share
        eventually(lambda: post(port, b" " * 100_000).problem == "no-json")
    assert refused.refusal == (status, "too-many-bytes-of-bodies")
    assert f"{limit}=150000" in refused.detail
    assert refused.headers["connection"] == "close"
