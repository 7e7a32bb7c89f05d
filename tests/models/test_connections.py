"""Connections of a model: used again, closed at once when nobody reads, and never left behind."""

import asyncio
import gc
import socket
import threading
import time

import httpx2
import pytest

from argstream import UsageError
from argstream.models import HttpModel
from argstream.testing import CallTool, MockProvider, ReceivedRequest, Reply, Slow
from tests.models.over_http import (
    REQUEST,
    hang,
    http,
    model_of,
    outcome_async,
    run,
    say,
    serving,
)
from tests.support.provider_rules import strict_provider

ANSWER = Reply("Hello", CallTool("add", {"a": 1}))


def connections(caplog: pytest.LogCaptureFixture) -> int:
    """How many were opened, by what the HTTP library logs."""
    return sum(record.getMessage().startswith("connect_tcp.complete") for record in caplog.records)


async def ask(model: HttpModel) -> None:
    found = await outcome_async(model)
    assert found.failure is None
    assert found.types[-1] == "turn_completed"


def test_a_connection_is_used_for_one_turn_after_the_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "httpcore2.connection")

    async def turns() -> None:
        model = model_of(provider)
        for _ in range(3):
            await ask(model)
        await model.aclose()

    with strict_provider(ANSWER) as provider:
        run(turns())
    assert connections(caplog) == 1


def test_a_model_can_be_used_again_after_it_was_closed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "httpcore2.connection")

    async def turns() -> None:
        model = model_of(provider)
        await model.aclose()
        await ask(model)
        await model.aclose()
        await model.aclose()
        await ask(model)

    with strict_provider(ANSWER) as provider:
        run(turns())
    assert connections(caplog) == 2


@pytest.mark.parametrize("ends_in_order", [True, False])
def test_nothing_is_kept_of_a_loop_that_is_over(ends_in_order: bool) -> None:
    with serving(say(http("400 Bad Request"))) as served:
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


def test_a_model_that_is_forgotten_closes_its_connections() -> None:
    async def forget() -> None:
        for _ in range(3):
            await ask(model_of(provider))
        gc.collect()
        await asyncio.sleep(0.01)
        assert not [one for one in gc.get_objects() if _is_open_client(one)]

    with strict_provider(ANSWER) as provider:
        run(forget())


def _is_open_client(candidate: object) -> bool:
    return type(candidate) is httpx2.AsyncClient and not candidate.is_closed


def test_two_hundred_answers_at_once_are_read() -> None:
    """No answer begins before all are asked for."""
    all_there = threading.Barrier(200, timeout=15)

    async def all_at_once() -> None:
        model = model_of(provider)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(200):
                tasks.create_task(ask(model))
        await model.aclose()

    def wait_for_all(_: ReceivedRequest) -> None:
        all_there.wait()

    with strict_provider(ANSWER, on_request=wait_for_all) as provider:
        run(all_at_once())
        assert len(provider.requests) == 200
    assert not all_there.broken


async def hung_up(provider: MockProvider) -> float:
    """The seconds until a provider notices that nobody reads."""
    started = time.monotonic()
    while not provider.hang_ups:
        await asyncio.sleep(0.005)
    return time.monotonic() - started


def test_closing_the_answer_closes_the_connection_at_once() -> None:
    async def leave() -> float:
        source = model_of(provider).stream(REQUEST)
        await anext(source)
        await source.aclose()
        return await hung_up(provider)

    with strict_provider(Reply("a" * 4000), faults=[Slow(between=0.01)]) as provider:
        assert run(leave()) < 1


def test_cancelling_who_reads_closes_the_connection_at_once() -> None:
    async def cancel() -> float:
        source = model_of(provider).stream(REQUEST)

        async def read() -> None:
            async for _ in source:
                begun.set()

        begun = asyncio.Event()
        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await hung_up(provider)

    with strict_provider(Reply("a" * 4000), faults=[Slow(between=0.01)]) as provider:
        assert run(cancel()) < 1


@pytest.mark.parametrize(
    "piece",
    [
        b"HTTP/1.1 500 No\r\ncontent-length: 9999999\r\n\r\n" + b"x" * 70_000,
        b'HTTP/1.1 200 OK\r\n\r\ndata: {"type": "error", "error": {"message": "No"}}\n\n',
    ],
)
def test_an_error_that_does_not_end_is_not_listened_to(piece: bytes) -> None:
    is_left = threading.Event()

    def talk(connection: socket.socket) -> None:
        hang(piece)(connection)
        is_left.set()

    async def refused() -> None:
        found = await outcome_async(model_of(served.url, retries=0))
        assert found.failure is not None
        assert await asyncio.to_thread(is_left.wait, 5)  # before the loop and its client end

    with serving(talk) as served:
        run(refused())


def test_cancelling_who_waits_for_an_answer_closes_the_connection_at_once() -> None:
    async def cancel() -> None:
        task = asyncio.create_task(anext(model_of(served.url).stream(REQUEST)))
        while not served.requests:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with serving(hang()) as served:
        started = time.monotonic()
        run(cancel())
        assert time.monotonic() - started < 1


def test_a_client_of_ones_own_is_used_and_stays_open() -> None:
    async def turn() -> list[str]:
        seen: list[str] = []

        async def note(request: httpx2.Request) -> None:
            seen.append(request.headers["x-mine"])

        hooks = {"request": [note]}
        async with httpx2.AsyncClient(headers={"x-mine": "yes"}, event_hooks=hooks) as client:
            model = model_of(provider, http_client=client)
            await ask(model)
            await model.aclose()
            assert not client.is_closed
            await ask(model)
        with pytest.raises(UsageError, match="http_client that was given is closed"):
            await ask(model)
        return seen

    with strict_provider(ANSWER) as provider:
        assert run(turn()) == ["yes", "yes"]


def test_a_client_of_ones_own_does_not_follow_redirects_with_the_key() -> None:
    async def turn() -> None:
        async with httpx2.AsyncClient(follow_redirects=True) as client:
            found = await outcome_async(model_of(served.url, http_client=client))
            assert found.failure is not None
            assert found.failure.code == "redirect"

    with serving(say(http("307 Elsewhere", location="/other"))) as served:
        run(turn())
        assert len(served.requests) == 1


def test_a_client_that_was_given_is_used_in_one_event_loop() -> None:
    with serving(say(http("400 Bad Request"))) as served:
        model = model_of(served.url, http_client=httpx2.AsyncClient())
        run(outcome_async(model))
        with pytest.raises(UsageError, match="another event loop"):
            run(outcome_async(model))
