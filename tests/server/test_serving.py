"""Serving: where it may listen, what it says if it cannot, and how it ends."""

import socket
import time
from typing import Any, Self

import pytest
from starlette.requests import Request

from argstream.errors import UsageError
from argstream.server import AgentServer, Limits, Serving, serve
from tests.server.raw import Asked, call, connect, serving
from tests.server.watching import EVENTS, waiting

TOKEN = "a-token-nobody-guesses"


def app(kind: type[AgentServer] = AgentServer, **options: Any) -> AgentServer:
    return Asked(kind, **options).app


class TestListening:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
    def test_where_others_can_reach_it_needs_a_token(self, host: str) -> None:
        with pytest.raises(UsageError, match="is reachable from other machines: set a token"):
            Serving(app(), host=host)

    def test_with_a_token_it_may_be_anywhere(self) -> None:
        with Asked(token=TOKEN).serving(host="0.0.0.0") as port:
            assert call(port).status == 401
            assert call(port, authorization=f"Bearer {TOKEN}").status == 200

    def test_loopback_only_holds_also_with_a_token(self) -> None:
        with pytest.raises(UsageError, match="is reachable from other machines"):
            Serving(app(token=TOKEN), host="0.0.0.0", loopback_only=True)

    def test_what_fails_before_the_start_releases_the_port(self) -> None:
        bound: list[int] = []

        def fail() -> None:
            with pytest.raises(UsageError, match="is taken"):
                Serving(app(), port=port)
            bound.append(port)
            raise UsageError("the store cannot be used")

        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with pytest.raises(UsageError, match="the store cannot be used"):
            serve(app(), port=port, before_start=fail)
        assert bound == [port]
        Serving(app(), port=port).close()

    def test_a_name_is_judged_by_all_its_addresses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))
            for address in ("127.0.0.1", "192.0.2.1")
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with pytest.raises(UsageError, match=r"'half\.example' is reachable from other machines"):
            Serving(app(), host="half.example")

    def test_localhost_is_loopback_by_all_its_addresses(self) -> None:
        with Serving(app(), host="localhost") as server:
            assert server.url == f"http://localhost:{server.port}"
            assert call(server.port, host="localhost").status == 200

    def test_any_host_needs_a_token_also_on_loopback(self) -> None:
        with pytest.raises(UsageError, match="every website could ask this server"):
            Serving(app(hosts=None))

    def test_a_port_that_is_taken_is_told(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            with pytest.raises(UsageError, match=f"port {port} of '127.0.0.1' is taken"):
                Serving(app(), port=port)

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
            Serving(app(), host=host, port=port)

    def test_an_address_of_another_machine_is_told(self) -> None:
        with pytest.raises(UsageError, match=r"no address '192\.0\.2\.1'"):
            Serving(app(token=TOKEN), host="192.0.2.1")

    @pytest.mark.parametrize("wrong", ["module:app", None, object()])
    def test_what_cannot_be_served_is_told(self, wrong: Any) -> None:
        with pytest.raises(UsageError, match=r"needs an AgentServer, not a \w+: serve\(Agent"):
            Serving(wrong)

    def test_what_the_app_raises_when_it_begins_gets_out(self) -> None:
        class Broken(AgentServer):
            async def __aenter__(self) -> Self:
                raise ConnectionError("no store")

        with pytest.raises(ConnectionError, match="no store"), Serving(app(Broken)):
            pass


@pytest.mark.parametrize(
    ("trusted", "seen"), [([], ("127.0.0.1", "http")), (["127.0.0.1"], ("203.0.113.9", "https"))]
)
def test_proxies_are_believed_only_if_they_are_named(
    trusted: list[str], seen: tuple[str, str]
) -> None:
    noted: list[tuple[str, str]] = []

    def user(request: Request) -> str:
        assert request.client is not None
        noted.append((request.client.host, request.url.scheme))
        return "ada"

    with Asked(user=user).serving(forwarded_from=trusted) as port:
        call(port, x_forwarded_for="203.0.113.9", x_forwarded_proto="https")
    assert noted == [seen]


class TestEnding:
    def test_tells_all_who_watch_to_come_again(self) -> None:
        with waiting() as port:
            viewer = connect(port)
            viewer.sendall(EVENTS)
            assert b"run_snapshot" in viewer.recv(65536)
        with viewer:
            heard = b"".join(iter(lambda: viewer.recv(65536), b""))
        assert heard.endswith(b": the server ends; come again\n\n\r\n0\r\n\r\n")

    def test_does_not_wait_for_ever(self) -> None:
        with serving(limits=Limits(grace_seconds=0.2)) as (_, port):
            slow = connect(port)
            slow.sendall(
                b"POST /api/runs HTTP/1.1\r\nhost: localhost\r\n"
                b"content-type: application/json\r\ncontent-length: 50\r\n\r\n"
            )
            time.sleep(0.1)
            began = time.monotonic()
        slow.close()
        assert time.monotonic() - began < 3

    def test_goes_on_if_the_app_cannot_be_drained(self, caplog: pytest.LogCaptureFixture) -> None:
        left: list[str] = []

        class Stuck(AgentServer):
            async def drain(self) -> None:
                raise ConnectionError("no store")

            async def aclose(self) -> None:
                left.append("closed")
                await super().aclose()

        with Serving(app(Stuck)):
            pass
        assert left == ["closed"]
        assert "could be told to come again" in caplog.text
