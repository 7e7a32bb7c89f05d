"""as_model: functions and iterators as models."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from argstream import UsageError, stream
from argstream.errors import ProviderError
from argstream.models import HttpModel, Model, ModelRequest, ScriptedModel, as_model
from tests.models.over_http import REQUEST
from tests.provider_streams import anthropic_call, sse

PAYLOADS = anthropic_call('{"a":', "1}")
BODY = sse(PAYLOADS)


async def answer(model: Model) -> list[str]:
    async with stream(model.stream(REQUEST), model.protocol) as events:
        return [event.type async for event in events]


def payloads() -> Iterator[object]:
    yield from PAYLOADS


async def payloads_async() -> AsyncIterator[object]:
    for payload in PAYLOADS:
        yield payload


async def payloads_of(request: ModelRequest) -> AsyncIterator[object]:
    assert request is REQUEST
    for payload in PAYLOADS:
        yield payload


async def later(value: object) -> object:
    await asyncio.sleep(0)
    return value


@pytest.mark.parametrize(
    "make",
    [
        lambda _: payloads_async(),
        lambda _: payloads(),
        lambda _: PAYLOADS,
        lambda _: BODY,
        lambda _: [BODY[:50], BODY[50:]],
        lambda _: later(PAYLOADS),
        lambda _: later(payloads_async()),
        payloads_of,
    ],
)
async def test_function_may_return_any_source(make: Callable[[ModelRequest], object]) -> None:
    model = as_model(make)
    for _ in range(2):
        assert (await answer(model))[-1] == "turn_completed"


@pytest.mark.parametrize("make", [payloads_async, payloads, lambda: PAYLOADS])
async def test_iterator_serves_one_turn(make: Callable[[], object]) -> None:
    model = as_model(make())
    assert (await answer(model))[-1] == "turn_completed"
    with pytest.raises(ProviderError, match="a function that returns an iterator") as caught:
        await answer(model)
    assert caught.value.code == "iterator_over"


def test_model_may_be_given_as_a_name_or_with_a_protocol() -> None:
    scripted = ScriptedModel("a")
    assert as_model(scripted) is scripted
    assert isinstance(as_model("anthropic:claude-opus-4-7"), HttpModel)
    model = as_model(payloads_of, protocol="anthropic", name="mine")
    assert (model.protocol, model.name) == ("anthropic", "mine")
    assert (as_model(payloads_of).protocol, as_model(payloads_of).name) == ("auto", "payloads_of")
    for invalid in (None, 7, object(), ""):
        with pytest.raises(UsageError):
            as_model(invalid)


async def test_leaving_early_closes_the_source() -> None:
    closed: list[str] = []

    def sync() -> Iterator[object]:
        try:
            yield from PAYLOADS
        finally:
            closed.append("sync")

    async def not_sync() -> AsyncIterator[object]:
        try:
            for payload in PAYLOADS:
                yield payload
        finally:
            closed.append("async")

    sources = [sync(), not_sync()]  # referenced, so that garbage collection does not close them

    for source in sources:
        items = as_model(source).stream(REQUEST)
        await anext(items)
        await items.aclose()  # type: ignore[attr-defined] # it is a generator
    assert closed == ["sync", "async"]  # before the end of the loop, which closes all


async def test_cancelling_does_not_wait_for_a_sync_source_and_closes_it_later() -> None:
    waits, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def stuck() -> Iterator[object]:
        try:
            yield PAYLOADS[0]
            waits.set()
            go_on.wait(10)
            yield PAYLOADS[1]
        finally:
            closed.set()

    source = stuck()  # referenced, so that garbage collection does not close it

    task = asyncio.create_task(answer(as_model(source)))
    await asyncio.to_thread(waits.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not closed.is_set()
    assert not go_on.is_set()
    go_on.set()
    assert await asyncio.to_thread(closed.wait, 5)
