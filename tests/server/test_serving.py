"""Serving: where a server may listen, how it ends, and slow, idle or endless connections."""

import asyncio
import contextlib
import inspect
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Self

import pytest
import uvicorn
from starlette.requests import Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from argstream.errors import UsageError
from argstream.events import RunCompleted, RunStarted, TextDelta
from argstream.server import AgentServer, Limits, Serving, serve
from tests.server.raw import Asked, TroubledStore, ask, call, connect, read_answer, serving
from tests.server.talking import eventually
from tests.server.watching import EVENTS, RUN, Feeding, waiting

Logs = pytest.LogCaptureFixture
TOKEN = "a-token-nobody-guesses"
REACHABLE = "is reachable from other machines"
GET = b"GET /api/runs HTTP/1.1\r\nhost: localhost\r\n\r\n"
CLOSE = b"connection: close\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"


def app(kind: type[AgentServer] = AgentServer, **options: Any) -> AgentServer:
    return Asked(kind, **options).app


OWN = "_await_head _cancel_stalled_timer _close_later _cut_off _head_received _let_connections_end"
OWN += " _refuse hang_up make_room run_until_stopped __init__"


def test_uvicorn_still_has_what_is_subclassed() -> None:
    """If this fails, read what changed in uvicorn, and adapt _serve.py or the version range."""
    with Serving(app()) as serving, connect(serving.port) as connection:
        connection.sendall(GET)
        connection.recv(65536)
        server, state = serving._server, serving._server.server_state
        [client] = state.connections
        assert isinstance(client, HttpToolsProtocol)
        for one in (server, state, client):
            for name, method in vars(type(one)).items():
                above = getattr(type(one).__mro__[1], name, None)
                if not inspect.isfunction(method) or name in OWN.split():
                    continue
                assert above is not None, f"{name} overrides nothing"
                if above.__module__.startswith("uvicorn."):  # sse-starlette replaces one
                    parameters = inspect.signature(above).parameters
                    assert list(parameters) == list(inspect.signature(method).parameters), name
        plain = uvicorn.Server(uvicorn.Config(server.config.app))
        bare = HttpToolsProtocol(plain.config, plain.server_state, {}, client.loop)
        for of_uvicorn, used in (
            (plain, "should_exit server_state config"),
            (plain.server_state, "connections tasks default_headers"),
            (bare, "access_log app cycle flow loop pipeline scope timeout_keep_alive_task"),
            (client.cycle, "disconnected message_event response_complete keep_alive"),
        ):
            assert set(used.split()) <= vars(of_uvicorn).keys()


@pytest.mark.parametrize(
    ("options", "where", "error"),
    [
        *(({}, {"host": host}, f"{REACHABLE}. Set a token") for host in ("0.0.0.0", "::", "")),
        ({"token": TOKEN}, {"host": "0.0.0.0", "loopback_only": True}, REACHABLE),
        ({"hosts": None}, {}, "any website could send requests"),
        ({}, {"port": 65_536}, "not 65536"),
        ({}, {"port": -1}, "not -1"),
        ({}, {"host": "no-such-host.invalid"}, "cannot resolve host"),
        ({}, {"host": "a" * 300}, "cannot resolve host"),
        ({"token": TOKEN}, {"host": "192.0.2.1"}, r"no address '192\.0\.2\.1'"),
    ],
)
def test_address_that_cannot_be_used_raises(
    options: dict[str, Any], where: dict[str, Any], error: str
) -> None:
    with pytest.raises(UsageError, match=error):
        Serving(app(**options), **where)


def test_all_addresses_of_a_host_name_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with Asked(token=TOKEN).serving(host="0.0.0.0") as port:
        assert call(port).status == 401
        assert call(port, authorization=f"Bearer {TOKEN}").status == 200
    with Serving(app(), host="localhost") as server:
        assert server.url == f"http://localhost:{server.port}"
        assert call(server.port, host="localhost").status == 200
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))
        for address in ("127.0.0.1", "192.0.2.1")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(UsageError, match=rf"'half\.example' {REACHABLE}"):
        Serving(app(), host="half.example")


def test_port_is_taken_while_it_is_used_and_released_after_a_failed_start() -> None:
    def fail() -> None:
        with pytest.raises(UsageError, match=f"port {free} of '127.0.0.1' is already in use"):
            Serving(app(), port=free)
        raise UsageError("the store cannot be used")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    with pytest.raises(UsageError, match="the store cannot be used"):
        serve(app(), port=free, before_start=fail)
    Serving(app(), port=free).close()


@pytest.mark.parametrize("wrong", ["module:app", None, object()])
def test_serving_something_else_raises(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"needs an AgentServer, not a \w+: serve\(Agent"):
        Serving(wrong)


@pytest.mark.parametrize(
    ("trusted", "expected"),
    [([], ("127.0.0.1", "http")), (["127.0.0.1"], ("203.0.113.9", "https"))],
)
def test_only_named_proxies_are_trusted(trusted: list[str], expected: tuple[str, str]) -> None:
    seen: list[tuple[str, str]] = []

    def user(request: Request) -> str:
        assert request.client is not None
        seen.append((request.client.host, request.url.scheme))
        return "ada"

    with Asked(user=user).serving(forwarded_from=trusted) as port:
        call(port, x_forwarded_for="203.0.113.9", x_forwarded_proto="https")
    assert seen == [expected]


def test_server_ends_after_the_grace_period() -> None:
    head = b"content-type: application/json\r\ncontent-length: 50\r\n\r\n"
    with serving(limits=Limits(grace_seconds=0.2)) as (_, port):
        slow = connect(port)
        slow.sendall(GET.replace(b"GET", b"POST")[:-2] + head)
        time.sleep(0.1)  # the server waits for the body
        began = time.monotonic()
    assert time.monotonic() - began < 4.5  # the default is 5
    slow.close()


def test_failures_of_the_app_at_its_start_and_end(caplog: Logs) -> None:
    closed: list[bool] = []

    class Broken(AgentServer):
        async def __aenter__(self) -> Self:
            raise ConnectionError("no store")

    class Stuck(AgentServer):
        async def drain(self) -> None:
            raise ConnectionError("no store")

        async def aclose(self) -> None:
            closed.append(True)
            await super().aclose()

    with pytest.raises(ConnectionError, match="no store"), Serving(app(Broken)):
        pass
    with Serving(app(Stuck)):
        pass
    assert closed == [True]
    assert "could be asked to reconnect" in caplog.text


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server with a short time limit for heads, and a run that can be watched by one client."""
    limits = Limits(
        head_seconds=0.3, keep_alive_seconds=30, max_head_bytes=10_000, max_viewers_per_client=1
    )
    with waiting(limits=limits) as port:
        yield port


def trickle_until_closed(connection: socket.socket, data: bytes, every: float = 0.05) -> float:
    """Send data again and again until the server closes the connection; return the seconds."""
    connection.settimeout(every)
    began = time.monotonic()
    while True:
        try:
            connection.send(data)
            if not connection.recv(4096):
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return time.monotonic() - began


def read_all(connection: socket.socket) -> bytes:
    pieces: list[bytes] = []
    with contextlib.suppress(ConnectionError):
        pieces += iter(lambda: connection.recv(1 << 20), b"")
    return b"".join(pieces)


def watches(connection: socket.socket) -> bool:
    connection.sendall(EVENTS)
    return b"200 OK" in connection.recv(4096)


def is_open(connection: socket.socket) -> bool:
    connection.settimeout(0.1)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return True
    return False


@pytest.mark.parametrize(
    ("begun", "trickle"),
    [
        (b"", b""),
        (b"", b"\r\n"),  # allowed before a request
        (b"GET /", b"a"),
        (b"GET /api/runs HTTP/1.1\r\nhost: loc", b"a"),
        (GET + b"GET /", b"a"),  # after a whole request
        (GET[:-2] + b"content-length: 1000000\r\n\r\n", b" "),  # a body that is not read
    ],
)
def test_slow_head_ends_the_connection(port: int, begun: bytes, trickle: bytes) -> None:
    with connect(port) as slow:
        slow.sendall(begun)
        assert 0.2 < trickle_until_closed(slow, trickle) < 15  # the keep-alive time is 30


def test_time_limit_for_heads_spares_streams_and_reused_connections(port: int) -> None:
    with connect(port) as viewer, connect(port) as connection:
        viewer.sendall(EVENTS)
        for _ in range(4):
            connection.sendall(GET)
            received = b""
            while not received.endswith(b"}"):
                received += connection.recv(4096)
            time.sleep(0.15)
        assert is_open(viewer)


@pytest.mark.parametrize("line", [b"x: " + b"a" * 1_000 + b"\r\n", b"a" * 1_000])
def test_endless_head_is_431(port: int, line: bytes) -> None:
    assert ask(port, b"HELO there\r\n\r\n").refusal == (400, "no-http")
    assert call(port, x="a" * 9_000).status == 200
    with connect(port) as connection:
        connection.sendall(b"GET /api/runs HTTP/1.1\r\nhost: localhost\r\nx: ")
        connection.sendall(line * 11)
        refused = read_answer(connection)
    assert refused.refusal == (431, "head-too-long")
    assert "max_head_bytes=10000" in refused.detail


def test_trailers_are_bounded_and_are_no_headers(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(EVENTS[:-2] + CHUNKED + b"0\r\nx: ")
        assert trickle_until_closed(connection, b"a" * 1_000, 0.01) < 15
    with connect(port) as connection:
        trailer = b"0\r\norigin: https://evil.example\r\n\r\n"
        connection.sendall(GET[:-2] + CLOSE + CHUNKED + trailer)
        assert read_answer(connection).status == 200


def test_pipelined_requests_are_bounded(port: int) -> None:
    with connect(port) as connection:
        eventually(lambda: watches(connection))
        connection.sendall(GET * 100)
        assert b"HTTP/1.1" not in read_all(connection)  # within the stream
    with connect(port) as viewer:  # the first stream has ended: only one viewer is allowed
        eventually(lambda: watches(viewer))


SIZE = 32 * 1024 * 1024  # more than the system buffers for a connection
LARGE = GET.replace(b"/api/runs", b"/api/chat/conversation")


@pytest.fixture(scope="module")
def store() -> TroubledStore:
    store = TroubledStore()
    events = (RunStarted(RUN, "Go"), TextDelta("x" * SIZE, 0), RunCompleted("Done."))
    asyncio.run(Feeding(store).write(*events))
    return store


@pytest.mark.parametrize(
    ("limits", "request_", "seconds"),
    [
        (Limits(keep_alive_seconds=0.2), LARGE, 0.7),
        (Limits(keep_alive_seconds=0.2), LARGE[:-2] + CLOSE + b"\r\n", 0.7),
        (Limits(stalled_seconds=0.3), LARGE * 3, 0.8),
    ],
)
def test_connection_that_is_not_read_is_closed(
    store: TroubledStore, limits: Limits, request_: bytes, seconds: float
) -> None:
    with serving(store=store, limits=limits) as (_, port), connect(port) as stalled:
        stalled.sendall(request_)
        stalled.recv(1)  # now it is being answered
        time.sleep(seconds)
        assert 0 < len(read_all(stalled)) < SIZE


def test_connection_read_late_is_kept_and_unread_ones_make_room(store: TroubledStore) -> None:
    with serving(store=store) as (_, port), connect(port) as slow:
        slow.sendall(LARGE[:-2] + CLOSE + b"\r\n")
        time.sleep(0.1)
        assert len(read_all(slow)) > SIZE
    limits = Limits(stalled_seconds=0.3, max_connections=3)
    with serving(store=store, limits=limits) as (_, port), ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connect(port)).sendall(LARGE * 2)
        eventually(lambda: call(port).status == 200)


@pytest.mark.parametrize("limit", [5, 4])
def test_busy_connections_are_kept_and_one_too_many_is_503(limit: int) -> None:
    with waiting(limits=Limits(max_connections=limit)) as port, ExitStack() as stack:
        viewers = [stack.enter_context(connect(port)) for _ in range(4)]
        assert all(map(watches, viewers))
        if limit == 5:
            for _ in range(20):
                stack.enter_context(connect(port))
            assert call(port).status == 200
        else:
            assert call(port).refusal == (503, "too-many-connections")
        assert all(map(is_open, viewers))


def test_timers_end_with_a_connection_that_was_reset(caplog: Logs) -> None:
    with serving(limits=Limits(keep_alive_seconds=0.1)) as (_, port):
        with connect(port) as client:
            client.sendall(GET)
            client.recv(4096)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # The timers of the lost connection end one and two keep-alive times after its answer.
        # The server closes each of these after one such time, so both have ended by then.
        for _ in range(3):
            with connect(port) as idle:
                idle.sendall(GET)
                read_answer(idle)
    assert [record.getMessage() for record in caplog.records] == []
