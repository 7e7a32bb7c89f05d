"""Serving: where it may listen, what it says if it cannot, and how it ends."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import pytest

from argstream.errors import UsageError
from argstream.server.doors import Doors
from argstream.server.limits import Limits
from argstream.server.serving import Serving, serve
from tests.server.stand_in import StandIn, call, connect, serving

EVENTS = b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n"
TOKEN = "a-token-nobody-guesses"


class TestListening:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
    def test_where_others_can_reach_it_needs_a_token(self, host: str) -> None:
        with pytest.raises(UsageError, match="is reachable from other machines: set a token"):
            Serving(StandIn(), host=host)

    def test_with_a_token_it_may_be_anywhere(self) -> None:
        with serving(Doors(token=TOKEN), host="0.0.0.0") as (_, port):
            assert call(port).status == 401
            assert call(port, authorization=f"Bearer {TOKEN}").status == 200

    def test_loopback_only_holds_also_with_a_token(self) -> None:
        with pytest.raises(UsageError, match="is reachable from other machines"):
            Serving(StandIn(Doors(token=TOKEN)), host="0.0.0.0", loopback_only=True)

    def test_what_fails_before_the_start_releases_the_port(self) -> None:
        bound: list[int] = []

        def fail() -> None:
            with pytest.raises(UsageError, match="is taken"):
                Serving(StandIn(), port=port)
            bound.append(port)
            raise UsageError("the store cannot be used")

        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        app = StandIn()
        with pytest.raises(UsageError, match="the store cannot be used"):
            serve(app, port=port, before_start=fail)
        assert bound == [port]
        assert app.said == []
        Serving(StandIn(), port=port).close()

    def test_a_name_is_judged_by_all_its_addresses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))
            for address in ("127.0.0.1", "192.0.2.1")
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with pytest.raises(UsageError, match=r"'half\.example' is reachable from other machines"):
            Serving(StandIn(), host="half.example")

    def test_localhost_is_loopback_by_all_its_addresses(self) -> None:
        with Serving(StandIn(), host="localhost") as server:
            assert server.url == f"http://localhost:{server.port}"
            assert call(server.port, host="localhost").status == 200

    def test_any_host_needs_a_token_also_on_loopback(self) -> None:
        with pytest.raises(UsageError, match="every website could ask this server"):
            Serving(StandIn(Doors(hosts=None)))

    def test_a_port_that_is_taken_is_told(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            with pytest.raises(UsageError, match=f"port {port} of '127.0.0.1' is taken"):
                Serving(StandIn(), port=port)

    @pytest.mark.parametrize(
        ("host", "port", "told"),
        [
            ("127.0.0.1", 65_536, "65536 is no port"),
            ("127.0.0.1", -1, "-1 is no port"),
            ("no-such-host.invalid", 0, "there is no host"),
            ("a" * 300, 0, "there is no host"),
        ],
    )
    def test_what_is_no_address_is_told(self, host: str, port: int, told: str) -> None:
        with pytest.raises(UsageError, match=told):
            Serving(StandIn(), host=host, port=port)

    def test_an_address_of_another_machine_is_told(self) -> None:
        with pytest.raises(UsageError, match=r"no address '192\.0\.2\.1'"):
            Serving(StandIn(Doors(token=TOKEN)), host="192.0.2.1")

    @pytest.mark.parametrize("app", ["module:app", None, object()])
    def test_what_cannot_be_served_is_told(self, app: Any) -> None:
        with pytest.raises(UsageError, match=r"needs an AgentServer, not a \w+: serve\(Agent"):
            Serving(app)

    def test_what_the_app_raises_when_it_begins_gets_out(self) -> None:
        class Broken(StandIn):
            async def __aenter__(self) -> Self:
                raise ConnectionError("no store")

        with pytest.raises(ConnectionError, match="no store"), Serving(Broken()):
            pass


class TestProxies:
    HEADERS: ClassVar = {"x_forwarded_for": "203.0.113.9", "x_forwarded_proto": "https"}

    def test_are_not_believed(self) -> None:
        with serving() as (_, port):
            seen = json.loads(call(port, **self.HEADERS).body)
        assert (seen["client"], seen["scheme"]) == ("127.0.0.1", "http")

    def test_are_believed_if_they_are_named(self) -> None:
        with serving(forwarded_from=["127.0.0.1"]) as (_, port):
            seen = json.loads(call(port, **self.HEADERS).body)
        assert (seen["client"], seen["scheme"]) == ("203.0.113.9", "https")


class TestEnding:
    def test_tells_all_who_watch_to_come_again_before_anything_else(self) -> None:
        with serving() as (app, port):
            viewer = connect(port)
            viewer.sendall(EVENTS)
            while not app.watching:
                time.sleep(0.01)
        with viewer:
            heard = b"".join(iter(lambda: viewer.recv(65536), b""))
        assert heard.endswith(b"event: come-again\ndata:\n\n\r\n0\r\n\r\n")
        assert app.said == ["entered", "drained with 1 watching", "left"]

    def test_does_not_wait_for_ever(self) -> None:
        with serving(limits=Limits(grace_seconds=0.2)) as (app, port):
            slow = connect(port)
            slow.sendall(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
            time.sleep(0.1)
            began = time.monotonic()
        slow.close()
        assert time.monotonic() - began < 3
        assert app.said[-1] == "left"

    def test_goes_on_if_the_app_cannot_be_drained(self, caplog: pytest.LogCaptureFixture) -> None:
        class Stuck(StandIn):
            async def drain(self) -> None:
                raise ConnectionError("no store")

        app = Stuck()
        with Serving(app):
            pass
        assert app.said == ["entered", "left"]
        assert "could be told to come again" in caplog.text


class TestSignals:
    @staticmethod
    @contextmanager
    def process(grace: float) -> Iterator[tuple[subprocess.Popen[str], int]]:
        command = [sys.executable, "-m", "tests.server.stand_in", str(grace)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                port = int(process.stdout.readline().rpartition(":")[2])
                yield process, port
            finally:
                process.kill()

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_one_ends_it_in_order(self, number: signal.Signals) -> None:
        with self.process(grace=5) as (process, port), connect(port) as viewer:
            viewer.sendall(EVENTS)
            assert b"200 OK" in viewer.recv(4096)
            process.send_signal(number)
            output, _ = process.communicate(timeout=20)
            heard = b"".join(iter(lambda: viewer.recv(65536), b""))
            with pytest.raises(ConnectionError):
                connect(port)
        assert process.returncode == 0
        assert b"come-again" in heard
        assert output.strip() == "['entered', 'drained with 1 watching', 'left']"

    def test_a_second_one_ends_it_at_once(self) -> None:
        with self.process(grace=60) as (process, port), connect(port) as slow:
            slow.sendall(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
            with connect(port) as other:
                other.sendall(EVENTS)
                other.recv(4096)
                process.send_signal(signal.SIGTERM)
                while other.recv(4096):  # until it has been told to come again
                    pass
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=5) == -signal.SIGTERM
