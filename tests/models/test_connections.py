"""Connections of a model: reused, closed as soon as reading stops, and never leaked."""

import asyncio
import gc
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest

from argstream import UsageError
from argstream.errors import ProviderError
from argstream.models import HttpModel, Timeouts
from argstream.testing import CallTool, MockProvider, ReceivedRequest, Reply, Slow
from tests.models import over_http
from tests.models.over_http import (
    REQUEST,
    failure_of,
    hang,
    model_of,
    outcome_async,
    respond,
    run,
    serving,
)
from tests.support.provider_rules import strict_provider

HEAD = b"HTTP/1.1 200 OK\r\n"
ANSWER = Reply("Hello", CallTool("add", {"a": 1}))


async def ask(model: HttpModel) -> None:
    assert (await outcome_async(model)).is_complete


async def test_connection_is_reused_until_the_model_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[object] = []
    loop = asyncio.get_running_loop()
    connect = loop.sock_connect

    async def count(connection: socket.socket, address: Any) -> None:
        opened.append(address)
        await connect(connection, address)

    monkeypatch.setattr(loop, "sock_connect", count)
    with strict_provider(ANSWER) as provider:
        model = model_of(provider)
        await model.aclose()
        for connections in (1, 2):
            for _ in range(3):
                await ask(model)
            assert len(opened) == connections
            await model.aclose()
            await model.aclose()


def sessions() -> list[aiohttp.ClientSession]:
    return [one for one in gc.get_objects() if type(one) is aiohttp.ClientSession]


@pytest.mark.parametrize("ends_in_order", [True, False])
def test_client_of_a_finished_event_loop_is_dropped(ends_in_order: bool) -> None:
    with serving(respond("400 Bad Request")) as served:
        model = model_of(served.url)
        for _ in range(5):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(outcome_async(model))
            if ends_in_order:
                loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
        gc.collect()
        assert len(sessions()) == (0 if ends_in_order else 1)
        assert model.name


async def test_unreferenced_model_closes_its_connections() -> None:
    with strict_provider(ANSWER) as provider:
        for _ in range(3):
            await ask(model_of(provider))
        gc.collect()
        while not all(session.closed for session in sessions()):
            await asyncio.sleep(0.01)


async def test_more_than_a_hundred_responses_are_read_at_once() -> None:
    """No response begins before all are requested. The default of aiohttp is 100 connections."""
    all_there = threading.Barrier(101, timeout=50)

    def wait_for_all(_: ReceivedRequest) -> None:
        all_there.wait()

    with strict_provider(ANSWER, on_request=wait_for_all) as provider:
        model = model_of(provider, timeout=50)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(101):
                tasks.create_task(ask(model))
        await model.aclose()
        assert len(provider.requests) == 101
    assert not all_there.broken


# Leaving early. The provider notices at once: its reply takes longer than the test may.


async def close_while_reading(provider: MockProvider) -> None:
    source = model_of(provider).stream(REQUEST)
    await anext(source)
    await source.aclose()


async def cancel_while_reading(provider: MockProvider) -> None:
    source = model_of(provider).stream(REQUEST)
    begun = asyncio.Event()

    async def read() -> None:
        async for _ in source:
            begun.set()

    task = asyncio.create_task(read())
    await begun.wait()
    await cancel(task)


async def cancel(task: "asyncio.Task[object]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("leave", [close_while_reading, cancel_while_reading])
async def test_leaving_closes_the_connection(
    leave: Callable[[MockProvider], Awaitable[None]],
) -> None:
    with strict_provider(Reply("a" * 4000), faults=[Slow(between=0.1)]) as provider:
        await leave(provider)
        while not provider.hang_ups:
            await asyncio.sleep(0.005)


@contextmanager
def hanging_server(*pieces: bytes) -> Iterator[tuple[over_http.Served, threading.Event]]:
    """Serve a response that does not end. The event is set when the client has left."""
    is_left = threading.Event()

    def talk(connection: socket.socket) -> None:
        hang(*pieces)(connection)
        is_left.set()

    with serving(talk) as served:
        yield served, is_left


async def test_cancelling_before_the_response_closes_the_connection() -> None:
    with hanging_server() as (served, is_left):
        task = asyncio.ensure_future(anext(model_of(served.url).stream(REQUEST)))
        while not served.requests:
            await asyncio.sleep(0.005)
        await cancel(task)
        assert await asyncio.to_thread(is_left.wait, 5)


@pytest.mark.parametrize(
    "piece",
    [
        b"HTTP/1.1 500 No\r\ncontent-length: 9999999\r\n\r\n" + b"x" * 70_000,
        b'HTTP/1.1 200 OK\r\n\r\ndata: {"type": "error", "error": {"message": "No"}}\n\n',
    ],
)
async def test_error_that_does_not_end_is_not_read_to_its_end(piece: bytes) -> None:
    with hanging_server(piece) as (served, is_left):
        assert (await outcome_async(model_of(served.url, retries=0))).failure
        assert await asyncio.to_thread(is_left.wait, 5)  # before the loop and its client end


async def test_given_session_is_used_and_stays_open() -> None:
    seen: list[str] = []

    async def note(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> Any:
        seen.append(request.headers["x-mine"])
        return await send(request)

    with strict_provider(ANSWER) as provider:
        async with aiohttp.ClientSession(headers={"x-mine": "yes"}, middlewares=[note]) as session:
            model = model_of(provider, session=session)
            await ask(model)
            await model.aclose()
            assert not session.closed
            await ask(model)
        with pytest.raises(UsageError, match="the session is closed"):
            await ask(model)
    assert seen == ["yes", "yes"]


def test_given_session_belongs_to_one_event_loop() -> None:
    async def new_session() -> aiohttp.ClientSession:
        return aiohttp.ClientSession()

    with serving(respond("400 Bad Request")) as served, asyncio.Runner() as runner:
        session = runner.run(new_session())
        model = model_of(served.url, session=session)
        runner.run(outcome_async(model))
        with pytest.raises(UsageError, match="another event loop"):
            run(outcome_async(model))
        runner.run(session.close())


# Proxies of the environment


@pytest.fixture
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(variable)


@pytest.mark.usefixtures("_no_proxies")
@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://[::1]:1"])
@pytest.mark.parametrize(
    ("variable", "exceptions", "is_used"),
    [
        *(("HTTP_PROXY", hosts, True) for hosts in ("", "127.0.0.1:2", "10.0.0.0/8, a.b")),
        *(("ALL_PROXY", "", True), ("all_proxy", "fe80::/10", True), ("HTTPS_PROXY", "", False)),
        *(("HTTP_PROXY", hosts, False) for hosts in ("*", "a, 127.0.0.1,::1", "127.0.0.1:1,[::1]")),
        ("ALL_PROXY", "a.b,127.0.0.0/8,::/120", False),
    ],
)
def test_proxy_is_used_except_for_some_hosts(
    url: str, variable: str, exceptions: str, is_used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(respond("400 By the proxy")) as proxy:
        monkeypatch.setenv(variable, proxy.url.removeprefix("http://" if exceptions else ""))
        monkeypatch.setenv("NO_PROXY", exceptions)
        failure = failure_of(model_of(url, retries=0))
    assert (failure.status, len(proxy.requests)) == ((400, 1) if is_used else (None, 0))
    if is_used:
        assert proxy.requests[0].startswith(f"POST {url}/v1/messages HTTP/1.1".encode())


# Time-outs and errors when the reader is slow


async def test_slow_reader_and_blocked_loop_do_not_time_out() -> None:
    is_wanted, is_read = threading.Event(), threading.Event()

    def talk(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"\r\ndata: 1\n\n")
        is_wanted.wait(5)
        time.sleep(0.05)
        connection.sendall(b"data: 2\n\n")
        is_read.wait(5)
        hang(b"data: 3\n\n")(connection)

    with serving(talk) as served:
        source = model_of(served.url, timeout=Timeouts(idle=0.2)).stream(REQUEST)
        assert await anext(source) == b"data: 1\n\n"
        await asyncio.sleep(0.5)
        reading = asyncio.ensure_future(anext(source))
        await asyncio.sleep(0.05)  # so that it waits
        is_wanted.set()
        asyncio.get_running_loop().call_soon(time.sleep, 0.5)
        assert await reading == b"data: 2\n\n"
        is_read.set()
        assert await anext(source) == b"data: 3\n\n"
        with pytest.raises(ProviderError, match=r"sent nothing for 0\.2 s"):
            await anext(source)


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("header", ["content-length: 99", "transfer-encoding: chunked", "x: y"])
async def test_bytes_before_a_lost_connection_are_read_first(header: str, resets: bool) -> None:
    is_sent = threading.Event()
    is_chunked = "chunked" in header

    def talk(connection: socket.socket) -> None:
        connection.sendall(HEAD + header.encode() + b"\r\n\r\n")
        for number in (b"1", b"2"):
            event = b"data: %b\n\n" % number
            connection.sendall(b"9\r\n%b\r\n" % event if is_chunked else event)
            time.sleep(0.1)
        if resets:
            over_http.reset(connection)
        connection.close()
        is_sent.set()

    with serving(talk) as served:
        source = model_of(served.url).stream(REQUEST)
        assert await anext(source) == b"data: 1\n\n"
        await asyncio.to_thread(is_sent.wait)
        await asyncio.sleep(0.1)
        assert await anext(source) == b"data: 2\n\n"
        if resets or header != "x: y":
            with pytest.raises(ProviderError) as caught:
                await anext(source)
            assert caught.value.code == "connection_lost"


def test_large_request_is_sent() -> None:
    text = "x" * 3_000_000
    found = over_http.ask(respond("400 No"), request=over_http.request_for(text))
    assert text.encode() in found.requests[0]
