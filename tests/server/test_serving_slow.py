"""Connections that are slow, idle or endless: closed, and nobody else is kept waiting."""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from argstream.events import RunCompleted, RunStarted, TextDelta
from argstream.server import Limits
from tests.server.raw import TroubledStore, ask, call, connect, eventually_is, read_answer, serving
from tests.server.watching import EVENTS, RUN, Feeding, waiting

GET = b"GET /api/runs HTTP/1.1\r\nhost: localhost\r\n\r\n"
SIZE = 32 * 1024 * 1024
"""More than the system takes for one who does not read."""
LARGE = GET.replace(b"/api/runs", b"/api/chat/conversation")


def seconds_until_closed(connection: socket.socket, trickle: bytes, every: float = 0.05) -> float:
    """Send a byte now and then until the server hangs up."""
    connection.settimeout(every)
    began = time.monotonic()
    while time.monotonic() - began < 5:
        try:
            connection.send(trickle)
            if not connection.recv(4096):
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return time.monotonic() - began


def watches(connection: socket.socket) -> bool:
    """Ask to watch the run, and say whether that is let."""
    connection.sendall(EVENTS)
    return b"200 OK" in connection.recv(4096)


def is_open(connection: socket.socket) -> bool:
    """Say whether a connection is kept; what has come by now is let be."""
    connection.settimeout(0.1)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return True
    return False


def read_all(connection: socket.socket) -> int:
    """Read until the server hangs up, and count the bytes."""
    received = 0
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(1 << 20):
            received += len(piece)
    return received


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server that waits for little, and not for long, with a run that can be watched."""
    limits = Limits(
        head_seconds=0.3, keep_alive_seconds=5, max_head_bytes=10_000, max_viewers_per_client=1
    )
    with waiting(limits=limits) as port:
        yield port


class TestSlowHeads:
    @pytest.mark.parametrize(
        ("begun", "trickle"),
        [
            (b"", b""),
            (b"", b"\r\n"),  # which may come before a request
            (b"GET /", b"a"),
            (b"GET /api/runs HTTP/1.1\r\nhost: loc", b"a"),
            (GET + b"GET /", b"a"),  # after a whole request
            (GET[:-2] + b"content-length: 1000000\r\n\r\n", b" "),  # a body that nobody wants
        ],
    )
    def test_end_the_connection_however_they_trickle(
        self, port: int, begun: bytes, trickle: bytes
    ) -> None:
        with connect(port) as slow:
            slow.sendall(begun)
            assert 0.2 < seconds_until_closed(slow, trickle) < 2

    def test_do_not_end_a_stream_that_is_longer(self, port: int) -> None:
        with connect(port) as viewer:
            viewer.sendall(EVENTS)
            time.sleep(0.6)
            assert is_open(viewer)

    def test_do_not_end_a_connection_that_is_used_again(self, port: int) -> None:
        with connect(port) as connection:
            for _ in range(4):
                connection.sendall(GET)
                heard = b""
                while not heard.endswith(b"}"):
                    heard += connection.recv(4096)
                time.sleep(0.15)


class TestEndlessHeads:
    @pytest.mark.parametrize("line", [b"x: " + b"a" * 1_000 + b"\r\n", b"a" * 1_000])
    def test_are_refused(self, port: int, line: bytes) -> None:
        with connect(port) as connection:
            connection.sendall(b"GET /api/runs HTTP/1.1\r\nhost: localhost\r\nx: ")
            connection.sendall(line * 11)
            refused = read_answer(connection)
        assert refused.refusal == (431, "head-too-long")
        assert "max_head_bytes=10000" in refused.detail

    def test_of_a_usual_length_are_read(self, port: int) -> None:
        assert call(port, x="a" * 9_000).status == 200

    def test_after_a_body_end_the_connection(self, port: int) -> None:
        with connect(port) as connection:
            connection.sendall(EVENTS[:-2] + b"transfer-encoding: chunked\r\n\r\n0\r\nx: ")
            assert seconds_until_closed(connection, b"a" * 1_000, 0.01) < 2

    def test_after_a_body_are_no_part_of_the_head(self, port: int) -> None:
        late = b"0\r\norigin: https://evil.example\r\n\r\n"
        with connect(port) as connection:
            chunked = b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
            connection.sendall(GET[:-2] + chunked + late)
            assert read_answer(connection).status == 200

    def test_cannot_be_queued_without_end(self, port: int) -> None:
        with connect(port) as connection:
            connection.sendall(EVENTS)
            assert b"200 OK" in connection.recv(4096)
            connection.sendall(GET * 100)
            heard = b""
            with contextlib.suppress(ConnectionError):
                while piece := connection.recv(65536):
                    heard += piece
            assert b"HTTP/1.1" not in heard  # in the midst of what is sent
        # Nor may the one that was answered go on for nobody: only one may watch.
        with connect(port) as viewer:
            eventually_is(lambda: watches(viewer), True)


def test_what_is_no_http_is_refused_in_words(port: int) -> None:
    refused = ask(port, b"HELO there\r\n\r\n")
    assert refused.refusal == (400, "no-http")


@pytest.fixture(scope="module")
def store() -> TroubledStore:
    store = TroubledStore()
    events = (RunStarted(RUN, "Go"), TextDelta("x" * SIZE, 0), RunCompleted("Done."))
    asyncio.run(Feeding(store).write(*events))
    return store


class TestWhoDoesNotRead:
    """Each of them asks for more than the system takes, and reads nothing for a while."""

    @pytest.mark.parametrize(
        ("limits", "request_", "seconds"),
        [
            (Limits(keep_alive_seconds=0.2), LARGE, 0.7),
            (Limits(keep_alive_seconds=0.2), LARGE[:-2] + b"connection: close\r\n\r\n", 0.7),
            (Limits(stalled_seconds=0.3), LARGE * 3, 0.8),
        ],
    )
    def test_is_not_waited_for(
        self, store: TroubledStore, limits: Limits, request_: bytes, seconds: float
    ) -> None:
        with serving(store=store, limits=limits) as (_, port), connect(port) as stalled:
            stalled.sendall(request_)
            stalled.recv(1)  # now it is being answered
            time.sleep(seconds)
            assert 0 < read_all(stalled) < SIZE

    def test_keeps_nobody_out(self, store: TroubledStore) -> None:
        limits = Limits(stalled_seconds=0.3, max_connections=3)
        with serving(store=store, limits=limits) as (_, port), ExitStack() as open_ones:
            for _ in range(3):
                open_ones.enter_context(connect(port)).sendall(LARGE * 2)
            eventually_is(lambda: call(port).status, 200)

    def test_and_then_does_is_kept(self, store: TroubledStore) -> None:
        limits = Limits(stalled_seconds=2)
        with serving(store=store, limits=limits) as (_, port), connect(port) as slow:
            slow.sendall(LARGE[:-2] + b"connection: close\r\n\r\n")
            time.sleep(0.1)
            assert read_all(slow) > SIZE


class TestIdleConnections:
    def test_do_not_keep_others_out(self) -> None:
        with serving() as (_, port), ExitStack() as idle:
            for _ in range(1_000):
                idle.enter_context(connect(port))
            began = time.monotonic()
            assert call(port).status == 200
            assert time.monotonic() - began < 1

    def test_make_room_when_there_are_too_many(self) -> None:
        with serving(limits=Limits(max_connections=20)) as (_, port), ExitStack() as idle:
            connections = [idle.enter_context(connect(port)) for _ in range(60)]
            assert [call(port).status for _ in range(5)] == [200] * 5
            connections[-1].sendall(GET)
            assert b"200 OK" in connections[-1].recv(4096)

    def test_go_before_those_that_are_busy(self) -> None:
        with waiting(limits=Limits(max_connections=5)) as port, ExitStack() as open_ones:
            viewers = [open_ones.enter_context(connect(port)) for _ in range(4)]
            for viewer in viewers:
                viewer.sendall(EVENTS)
                assert b"200 OK" in viewer.recv(4096)
            for _ in range(20):
                open_ones.enter_context(connect(port))
            assert call(port).status == 200
            assert all(map(is_open, viewers))

    def test_where_all_are_busy_one_more_is_told_so(self) -> None:
        with waiting(limits=Limits(max_connections=3)) as port, ExitStack() as open_ones:
            viewers = []
            for _ in range(3):
                viewers.append(open_ones.enter_context(connect(port)))
                viewers[-1].sendall(EVENTS)
                assert b"200 OK" in viewers[-1].recv(4096)
            assert call(port).refusal == (503, "too-many-connections")
            assert all(map(is_open, viewers))


def test_timers_do_nothing_after_the_client_reset_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving(limits=Limits(keep_alive_seconds=0.1)) as (_, port):
        with connect(port) as client:
            client.sendall(GET)
            client.recv(4096)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # The timers of the lost connection would end one and two keep-alive times after its answer.
        # The server closes each of these after one such time, so both are over then.
        for _ in range(3):
            with connect(port) as idle:
                idle.sendall(GET)
                read_answer(idle)
    assert [record.getMessage() for record in caplog.records] == []
