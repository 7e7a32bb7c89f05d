"""Functions and iterators as models."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from argstream import UsageError, stream
from argstream.errors import ProviderFailure
from argstream.models import HttpModel, Model, ModelRequest, ScriptedModel, as_model
from argstream.testing import CallTool, Reply
from tests.models.over_http import REQUEST, run
from tests.provider_streams import anthropic_call, sse
from tests.support.provider_rules import strict_provider

PAYLOADS = anthropic_call('{"a":', "1}")
BODY = sse(PAYLOADS)


async def answer(model: Model) -> list[str]:
    async with stream(model.stream(REQUEST), model.protocol) as events:
        return [event.type async for event in events]


async def payloads_async() -> AsyncIterator[object]:
    for payload in PAYLOADS:
        yield payload


def payloads() -> Iterator[object]:
    yield from PAYLOADS


async def later() -> object:
    await asyncio.sleep(0)
    return PAYLOADS


async def later_async() -> object:
    await asyncio.sleep(0)
    return payloads_async()


async def payloads_of(request: ModelRequest) -> AsyncIterator[object]:
    assert request is REQUEST
    for payload in PAYLOADS:
        yield payload


@pytest.mark.parametrize(
    "make",
    [
        lambda _: payloads_async(),
        lambda _: payloads(),
        lambda _: PAYLOADS,
        lambda _: BODY,
        lambda _: [BODY[:50], BODY[50:]],
        lambda _: later(),
        lambda _: later_async(),
        payloads_of,
    ],
)
def test_a_function_gives_whatever_can_be_read(make: Callable[[ModelRequest], object]) -> None:
    model = as_model(make)
    for _ in range(2):
        assert run(answer(model))[-1] == "turn_completed"


def test_an_sdk_is_asked_by_a_function() -> None:
    message: Any = {"role": "user", "content": "hi"}
    key = "any"
    with strict_provider(Reply("Hello", CallTool("add", {"a": 1}))) as provider:

        async def ask_all() -> list[list[str]]:
            claude = anthropic.AsyncAnthropic(base_url=provider.anthropic_url, api_key=key)
            gpt = openai.AsyncOpenAI(base_url=provider.openai_url, api_key=key)
            sync = anthropic.Anthropic(base_url=provider.anthropic_url, api_key=key)
            asks: list[Callable[[ModelRequest], object]] = [
                lambda _: claude.messages.create(
                    model="m", max_tokens=9, messages=[message], stream=True
                ),
                lambda _: claude.messages.stream(model="m", max_tokens=9, messages=[message]),
                lambda _: gpt.chat.completions.create(model="m", messages=[message], stream=True),
                lambda _: gpt.responses.create(model="m", input="hi", stream=True),
                lambda _: sync.messages.create(
                    model="m", max_tokens=9, messages=[message], stream=True
                ),
                lambda _: sync.messages.stream(model="m", max_tokens=9, messages=[message]),
                lambda _: sync.messages.create(model="m", max_tokens=9, messages=[message]),
            ]
            async with claude, gpt:
                with sync:
                    return [await answer(as_model(ask)) for ask in asks]

        found = run(ask_all())
    assert all(types[-1] == "turn_completed" for types in found)
    assert all("tool_args_completed" in types for types in found)


@pytest.mark.parametrize("make", [payloads_async, payloads, lambda: PAYLOADS])
def test_an_iterator_is_good_for_one_turn(make: Callable[[], object]) -> None:
    async def ask_twice() -> None:
        model = as_model(make())
        assert (await answer(model))[-1] == "turn_completed"
        with pytest.raises(ProviderFailure, match="a function that makes one") as caught:
            await answer(model)
        assert caught.value.code == "iterator_over"

    run(ask_twice())


def test_a_name_or_a_model_is_a_model() -> None:
    scripted = ScriptedModel("a")
    assert as_model(scripted) is scripted
    assert isinstance(as_model("anthropic:claude-opus-4-7"), HttpModel)


@pytest.mark.parametrize("given", [None, 7, object(), ""])
def test_anything_else_is_none(given: object) -> None:
    with pytest.raises(UsageError):
        as_model(given)


def test_a_protocol_and_a_name_can_be_told() -> None:
    model = as_model(payloads_of, protocol="anthropic", name="mine")
    assert (model.protocol, model.name) == ("anthropic", "mine")
    assert (as_model(payloads_of).protocol, as_model(payloads_of).name) == ("auto", "payloads_of")


def test_leaving_early_closes_the_source() -> None:
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

    sources = [sync(), not_sync()]  # kept, so that they are not closed for being forgotten

    async def leave() -> None:
        for source in sources:
            items = as_model(source).stream(REQUEST)
            await anext(items)
            await items.aclose()  # type: ignore[attr-defined] # it is a generator
        assert closed == ["sync", "async"]  # before the loop ends, which closes all

    run(leave())


def test_a_sync_source_does_not_hold_up_the_loop() -> None:
    def slow(_: ModelRequest) -> Iterator[object]:
        time.sleep(0.1)
        for payload in PAYLOADS:
            time.sleep(0.02)
            yield payload

    async def ask() -> float:
        longest = 0.0

        async def watch() -> None:
            nonlocal longest
            while True:
                before = time.monotonic()
                await asyncio.sleep(0.001)
                longest = max(longest, time.monotonic() - before)

        task = asyncio.create_task(watch())
        assert (await answer(as_model(slow)))[-1] == "turn_completed"
        task.cancel()
        return longest

    assert run(ask()) < 0.08


def test_cancelling_does_not_wait_for_a_sync_source_and_closes_it_later() -> None:
    go_on, closed = threading.Event(), threading.Event()

    def stuck() -> Iterator[object]:
        try:
            yield PAYLOADS[0]
            go_on.wait(10)
            yield PAYLOADS[1]
        finally:
            closed.set()

    source = stuck()  # kept, so that it is not closed for being forgotten

    async def cancel() -> float:
        task = asyncio.create_task(answer(as_model(source)))
        await asyncio.sleep(0.05)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        waited = time.monotonic() - started
        assert not closed.is_set()
        go_on.set()
        return waited

    try:
        assert run(cancel()) < 1
        assert closed.wait(5)
    finally:
        go_on.set()
