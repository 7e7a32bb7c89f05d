"""Connections that are slow, idle or endless: closed, and nobody else is kept waiting."""

import socket
import time
from contextlib import ExitStack

import pytest

from argstream.server.limits import Limits
from tests.server.stand_in import call, connect, read_answer, serving

GET = b"GET /runs/one HTTP/1.1\r\nhost: localhost\r\n\r\n"


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


class TestSlowHeads:
    LIMITS = Limits(head_seconds=0.4, keep_alive_seconds=5)

    @pytest.mark.parametrize("begun", [b"", b"GET /runs/one HTTP/1.1\r\nhost: loc"])
    @pytest.mark.parametrize("trickle", [b"", b"a"])
    def test_end_the_connection_however_they_trickle(self, begun: bytes, trickle: bytes) -> None:
        with serving(limits=self.LIMITS) as (_, port), connect(port) as slow:
            slow.sendall(begun)
            assert 0.3 < seconds_until_closed(slow, trickle) < 2

    def test_end_it_after_a_whole_request_too(self) -> None:
        with serving(limits=self.LIMITS) as (_, port), connect(port) as slow:
            slow.sendall(GET)
            assert b"200 OK" in slow.recv(4096)
            assert 0.3 < seconds_until_closed(slow, b"G") < 2

    def test_so_does_a_body_that_nobody_wants(self) -> None:
        with serving(limits=self.LIMITS) as (_, port), connect(port) as slow:
            slow.sendall(GET[:-2] + b"content-length: 1000000\r\n\r\n")
            assert 0.3 < seconds_until_closed(slow, b" ") < 2

    def test_do_not_end_a_stream_that_is_longer(self) -> None:
        with serving(limits=self.LIMITS) as (app, port), connect(port) as viewer:
            viewer.sendall(GET.replace(b"/runs/one", b"/events"))
            time.sleep(0.8)
            assert app.watching == 1

    def test_do_not_end_a_connection_that_is_used_again(self) -> None:
        with serving(limits=self.LIMITS) as (_, port), connect(port) as connection:
            for _ in range(4):
                connection.sendall(GET)
                assert b"200 OK" in connection.recv(4096)
                time.sleep(0.2)


class TestEndlessHeads:
    LIMITS = Limits(max_head_bytes=10_000)

    @pytest.mark.parametrize("line", [b"x: " + b"a" * 1_000 + b"\r\n", b"a" * 1_000])
    def test_are_refused(self, line: bytes) -> None:
        with serving(limits=self.LIMITS) as (_, port), connect(port) as connection:
            connection.sendall(b"GET /runs/one HTTP/1.1\r\nhost: localhost\r\nx: ")
            connection.sendall(line * 11)
            assert read_answer(connection).status == 431

    def test_of_a_usual_length_are_read(self) -> None:
        with serving(limits=self.LIMITS) as (_, port):
            assert call(port, x="a" * 9_000).status == 200

    def test_after_a_body_end_the_connection(self) -> None:
        with serving(limits=self.LIMITS) as (_, port), connect(port) as connection:
            head = GET.replace(b"/runs/one", b"/events")[:-2]
            connection.sendall(head + b"transfer-encoding: chunked\r\n\r\n0\r\nx: ")
            assert seconds_until_closed(connection, b"a" * 1_000, 0.01) < 2

    def test_cannot_be_queued_without_end(self) -> None:
        with serving() as (app, port), connect(port) as connection:
            connection.sendall(GET.replace(b"/runs/one", b"/events") + GET * 100)
            heard = b"".join(iter(lambda: connection.recv(65536), b""))
        assert heard.count(b"HTTP/1.1 200") <= 1
        assert app.watching == 0


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
                viewer.sendall(GET.replace(b"/runs/one", b"/events"))
                assert b"200 OK" in viewer.recv(4096)
            for _ in range(20):
                open_ones.enter_context(connect(port))
            assert call(port).status == 200
            assert app.watching == 4

    def test_where_all_are_busy_one_more_is_told_so(self) -> None:
        with serving(limits=Limits(max_connections=3)) as (app, port), ExitStack() as open_ones:
            for _ in range(3):
                viewer = open_ones.enter_context(connect(port))
                viewer.sendall(GET.replace(b"/runs/one", b"/events"))
                assert b"200 OK" in viewer.recv(4096)
            assert call(port).status == 503
            assert app.watching == 3
