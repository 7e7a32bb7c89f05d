"""When a request is made again, and after which time."""

import asyncio
import ssl
import time
from typing import Any

import httpx2
import pytest

from argstream.models import Retries
from argstream.testing import Reply, Status
from tests.models.over_http import (
    REQUEST,
    Waits,
    failure_of,
    http,
    model_of,
    outcome,
    say,
    serving,
)
from tests.support.provider_rules import strict_provider


def waits(retries: Retries, told: float | None = None) -> list[float]:
    """The waits for a request that is never answered."""
    found: list[float] = []
    while (wait := retries.wait(len(found) + 1, sum(found), told)) is not None:
        found.append(wait)
    return found


@pytest.mark.parametrize(
    ("options", "chance", "told", "expected"),
    [
        ({"most": 7, "longest_wait": 8}, 0.0, None, [0.5, 1, 2, 4, 8, 8, 8]),
        ({"most": 2, "first_wait": 1}, 1.0, None, [0.75, 1.5]),  # a quarter less at most
        ({"most": 0}, 0.0, None, []),
        ({"most": 9, "longest_in_all": 2}, 0.0, None, [0.5, 1]),
        ({"most": 2, "first_wait": 1}, 0.0, 3, [3, 3]),  # what a provider asks for, and not less
        ({"most": 2, "first_wait": 1}, 1.0, 3, [3.5, 3.5]),
        ({"longest_told_wait": 60}, 0.0, 61, []),
    ],
)
def test_each_wait_is_twice_as_long_as_the_last_up_to_a_limit(
    options: dict[str, Any], chance: float, told: float | None, expected: list[float]
) -> None:
    assert waits(Retries(random=lambda: chance, **options), told) == expected


def test_all_waits_together_are_bounded() -> None:
    retries = Retries(most=1000, longest_in_all=100, random=lambda: 0.0)
    assert 90 < sum(waits(retries)) <= 100
    assert sum(waits(retries, told=40)) == 80


def test_a_wait_that_is_too_long_is_told() -> None:
    with strict_provider(Reply("a"), faults=[Status(429, retry_after=3600)]) as provider:
        failure = failure_of(model_of(provider))
        assert len(provider.requests) == 1
    assert failure.retryable
    assert "it asks to wait for 3600 s" in failure.message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "7"}, 7.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:16:50 GMT"}, 10.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_a_provider_asks_for_a_wait_in_several_ways(
    headers: dict[str, str], seconds: float | None
) -> None:
    waited = Waits()
    fields = {name.replace("-", "_"): value for name, value in headers.items()}
    with serving(say(http("429 No", b"", **fields)), say(http("400 No"))) as served:
        failure_of(model_of(served.url, retries=waited.retries(now=lambda: 1000.0)))
    assert waited.seconds == [seconds or 0.5]  # which is what is waited for unasked


def test_a_server_may_say_itself_whether_to_try_again() -> None:
    with serving(say(http("400 No", x_should_retry="true")), say(http("401 No"))) as served:
        assert failure_of(model_of(served.url)).status == 401
    with serving(say(http("500 No", x_should_retry="false"))) as served:
        assert not failure_of(model_of(served.url)).retryable
        assert len(served.requests) == 1


def untrusted() -> httpx2.ConnectError:
    error = httpx2.ConnectError("certificate verify failed")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed")
    return error


@pytest.mark.parametrize(
    ("error", "code", "requests"),
    [
        (untrusted(), "connection_failed", 1),  # it will not be trusted in a second
        (httpx2.ConnectError("refused"), "connection_failed", 4),
        (httpx2.ConnectTimeout(""), "timeout", 4),
        (httpx2.LocalProtocolError("Illegal header value b'secret'"), "bad_request", 1),
    ],
)
def test_some_errors_of_a_connection_will_not_pass(
    error: Exception, code: str, requests: int
) -> None:
    asked = 0

    def fail(_: httpx2.Request) -> httpx2.Response:
        nonlocal asked
        asked += 1
        raise error

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(fail))
    failure = failure_of(model_of("https://a", http_client=client))
    assert (failure.code, failure.retryable, asked) == (code, requests > 1, requests)
    assert "secret" not in str(failure)
    if code == "timeout":
        assert "no connection to https://a within 5 s" in failure.message


def test_waiting_for_the_next_try_can_be_cancelled() -> None:
    async def ask() -> float:
        task = asyncio.create_task(anext(model_of(provider, retries=3).stream(REQUEST)))
        while not provider.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    with strict_provider(Reply("a"), faults=[Status(429, retry_after=30)]) as provider:
        assert asyncio.run(ask()) < 1
        assert len(provider.requests) == 1


def test_a_number_of_retries_is_enough_to_say() -> None:
    with strict_provider(Reply("a"), faults=[Status(500)]) as provider:
        failure_of(model_of(provider, retries=0))
        assert len(provider.requests) == 1
    waited = Waits()
    with strict_provider([Reply("a", faults=[Status(500)])] * 2 + [Reply("a")]) as provider:
        found = outcome(model_of(provider, retries=waited.retries(most=2)))
        assert len(provider.requests) == 3
    assert found.failure is None
    assert waited.seconds == [0.5, 1.0]
