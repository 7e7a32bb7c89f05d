"""Connections that are slow, idle or endless: closed, and nobody else is kept waiting."""

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from argstream.server.limits import Limits
from tests.server.stand_in import LARGE, StandIn, ask, call, connect, read_answer, serving

GET = b"GET /runs/one HTTP/1.1\r\nhost: localhost\r\n\r\n"
EVENTS = GET.replace(b"/runs/one", b"/events")


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


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[StandIn, int]]:
    """A server that waits for little, and not for long."""
    limits = Limits(head_seconds=0.3, keep_alive_seconds=5, max_head_bytes=10_000)
    with serving(limits=limits) as server:
        yield server


class TestSlowHeads:
    @pytest.mark.parametrize(
        ("begun", "trickle"),
        [
            (b"", b""),
            (b"", b"\r\n"),  # which may come before a request
            (b"GET /", b"a"),
            (b"GET /runs/one HTTP/1.1\r\nhost: loc", b"a"),
            (GET + b"GET /", b"a"),  # after a whole request
            (GET[:-2] + b"content-length: 1000000\r\n\r\n", b" "),  # a body that nobody wants
        ],
    )
    def test_end_the_connection_however_they_trickle(
        self, served: tuple[StandIn, int], begun: bytes, trickle: bytes
    ) -> None:
        with connect(served[1]) as slow:
            slow.sendall(begun)
            assert 0.2 < seconds_until_closed(slow, trickle) < 2

    def test_do_not_end_a_stream_that_is_longer(self, served: tuple[StandIn, int]) -> None:
        app, port = served
        with connect(port) as viewer:
            viewer.sendall(EVENTS)
            time.sleep(0.6)
            assert app.watching == 1

    def test_do_not_end_a_connection_that_is_used_again(self, served: tuple[StandIn, int]) -> None:
        with connect(served[1]) as connection:
            for _ in range(4):
                connection.sendall(GET)
                heard = b""
                while not heard.endswith(b"}"):
                    heard += connection.recv(4096)
                time.sleep(0.15)


class TestEndlessHeads:
    @pytest.mark.parametrize("line", [b"x: " + b"a" * 1_000 + b"\r\n", b"a" * 1_000])
    def test_are_refused(self, served: tuple[StandIn, int], line: bytes) -> None:
        with connect(served[1]) as connection:
            connection.sendall(b"GET /runs/one HTTP/1.1\r\nhost: localhost\r\nx: ")
            connection.sendall(line * 11)
            refused = read_answer(connection)
        assert (refused.status, refused.problem) == (431, "head-too-long")
        assert "max_head_bytes=10000" in refused.detail

    def test_of_a_usual_length_are_read(self, served: tuple[StandIn, int]) -> None:
        assert call(served[1], x="a" * 9_000).status == 200

    def test_after_a_body_end_the_connection(self, served: tuple[StandIn, int]) -> None:
        with connect(served[1]) as connection:
            connection.sendall(EVENTS[:-2] + b"transfer-encoding: chunked\r\n\r\n0\r\nx: ")
            assert seconds_until_closed(connection, b"a" * 1_000, 0.01) < 2

    def test_after_a_body_are_no_part_of_the_head(self, served: tuple[StandIn, int]) -> None:
        late = b"0\r\nlast-event-id: 9\r\n\r\n"
        with connect(served[1]) as connection:
            chunked = b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
            connection.sendall(GET[:-2] + chunked + late)
            assert b'"after":null' in read_answer(connection).body

    def test_cannot_be_queued_without_end(self, served: tuple[StandIn, int]) -> None:
        app, port = served
        with connect(port) as connection:
            connection.sendall(EVENTS)
            assert b"200 OK" in connection.recv(4096)
            connection.sendall(GET * 100)
            heard = b""
            with contextlib.suppress(ConnectionError):
                while piece := connection.recv(65536):
                    heard += piece
            assert b"HTTP/1.1" not in heard  # in the midst of what is sent
        # Nor may the one that was answered go on for nobody; the time limit is the assertion:
        while app.watching:
            time.sleep(0.01)


@pytest.mark.parametrize("closing", [b"", b"connection: close\r\n"])
def test_an_answer_that_is_not_read_is_not_kept_for_ever(closing: bytes) -> None:
    with serving(limits=Limits(keep_alive_seconds=0.2)) as (_, port), connect(port) as stalled:
        stalled.sendall(GET.replace(b"/runs/one", b"/large")[:-2] + closing + b"\r\n")
        time.sleep(0.7)
        received = 0
        with contextlib.suppress(ConnectionError):
            while piece := stalled.recv(1 << 20):
                received += len(piece)
    assert 0 < received < LARGE


def test_what_is_no_http_is_refused_in_words(served: tuple[StandIn, int]) -> None:
    refused = ask(served[1], b"HELO there\r\n\r\n")
    assert (refused.status, refused.problem) == (400, "no-http")


class TestWhoDoesNotRead:
    LARGE = GET.replace(b"/runs/one", b"/large")

    def test_is_not_waited_for_however_much_he_asks_for(self) -> None:
        with serving(limits=Limits(stalled_seconds=0.3)) as (_, port), connect(port) as stalled:
            stalled.sendall(self.LARGE * 3)
            time.sleep(0.8)
            received = 0
            with contextlib.suppress(ConnectionError):
                while piece := stalled.recv(1 << 20):
                    received += len(piece)
        assert 0 < received < LARGE

    def test_keeps_nobody_out(self) -> None:
        limits = Limits(stalled_seconds=0.3, max_connections=3)
        with serving(limits=limits) as (_, port), ExitStack() as open_ones:
            for _ in range(3):
                open_ones.enter_context(connect(port)).sendall(self.LARGE * 2)
            while call(port).status != 200:  # the time limit is the assertion
                time.sleep(0.05)

    def test_and_then_does_is_kept(self) -> None:
        with serving(limits=Limits(stalled_seconds=0.5)) as (_, port), connect(port) as slow:
            slow.sendall(self.LARGE)
            time.sleep(0.1)
            received = 0
            while received < LARGE:
                received += len(slow.recv(1 << 20))
            time.sleep(0.6)
            slow.sendall(GET)
            assert b"200 OK" in slow.recv(1 << 20)


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
        with serving(limits=Limits(max_connections=5)) as (app, port), ExitStack() as open_ones:
            viewers = [open_ones.enter_context(connect(port)) for _ in range(4)]
            for viewer in viewers:
                viewer.sendall(EVENTS)
                assert b"200 OK" in viewer.recv(4096)
            for _ in range(20):
                open_ones.enter_context(connect(port))
            assert call(port).status == 200
            assert app.watching == 4

    def test_where_all_are_busy_one_more_is_told_so(self) -> None:
        with serving(limits=Limits(max_connections=3)) as (app, port), ExitStack() as open_ones:
            for _ in range(3):
                viewer = open_ones.enter_context(connect(port))
                viewer.sendall(EVENTS)
                assert b"200 OK" in viewer.recv(4096)
            refused = call(port)
            assert (refused.status, refused.problem) == (503, "too-many-connections")
            assert app.watching == 3


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
