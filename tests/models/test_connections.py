"""Connections of a model: reused, closed as soon as reading stops, and never leaked."""

import asyncio
import gc
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from argstream import UsageError
from argstream.models import HttpModel
from argstream.testing import CallTool, MockProvider, ReceivedRequest, Reply, Slow
from tests.models import over_http
from tests.models.over_http import REQUEST, hang, model_of, outcome_async, respond, run, serving
from tests.support.provider_rules import strict_provider

ANSWER = Reply("Hello", CallTool("add", {"a": 1}))


async def ask(model: HttpModel) -> None:
    assert (await outcome_async(model)).is_complete


async def test_connection_is_reused_until_the_model_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "httpcore2.connection")

    def opened() -> int:
        messages = [record.getMessage() for record in caplog.records]
        return sum(message.startswith("connect_tcp.complete") for message in messages)

    with strict_provider(ANSWER) as provider:
        model = model_of(provider)
        await model.aclose()
        for connections in (1, 2):
            for _ in range(3):
                await ask(model)
            assert opened() == connections
            await model.aclose()
            await model.aclose()


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
        clients = [one for one in gc.get_objects() if type(one) is httpx2.AsyncClient]
        assert len(clients) == (0 if ends_in_order else 1)
        assert model.name


async def test_unreferenced_model_closes_its_connections() -> None:
    def open_clients() -> list[object]:
        clients = [one for one in gc.get_objects() if type(one) is httpx2.AsyncClient]
        return [client for client in clients if not client.is_closed]

    with strict_provider(ANSWER) as provider:
        for _ in range(3):
            await ask(model_of(provider))
        gc.collect()
        while open_clients():
            await asyncio.sleep(0.01)


async def test_more_than_a_hundred_responses_are_read_at_once() -> None:
    """No response begins before all are requested. The default of httpx is 100 connections."""
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


def given_client(**options: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(verify=False, **options)  # loading certificates takes long


async def test_given_client_is_used_and_stays_open() -> None:
    seen: list[str] = []

    async def note(request: httpx2.Request) -> None:
        seen.append(request.headers["x-mine"])

    with strict_provider(ANSWER) as provider:
        hooks = {"request": [note]}
        async with given_client(headers={"x-mine": "yes"}, event_hooks=hooks) as client:
            model = model_of(provider, http_client=client)
            await ask(model)
            await model.aclose()
            assert not client.is_closed
            await ask(model)
        with pytest.raises(UsageError, match="http_client is closed"):
            await ask(model)
    assert seen == ["yes", "yes"]


async def test_given_client_does_not_follow_redirects_with_the_key() -> None:
    with serving(respond("307 Elsewhere", location="/other")) as served:
        async with given_client(follow_redirects=True) as client:
            found = await outcome_async(model_of(served.url, http_client=client))
        assert found.error.code == "redirect"
        assert len(served.requests) == 1


def test_given_client_belongs_to_one_event_loop() -> None:
    with serving(respond("400 Bad Request")) as served:
        model = model_of(served.url, http_client=given_client())
        run(outcome_async(model))
        with pytest.raises(UsageError, match="another event loop"):
            run(outcome_async(model))
