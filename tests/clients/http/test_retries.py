"""When a request is made again, and after which time."""

import asyncio
import ssl
import time

import httpx2
import pytest

from argstream.clients import Retries
from argstream.clients.http._failures import Asked, unreachable
from argstream.clients.http._retries import may_succeed_later, told_wait
from argstream.clients.http._secrets import Secrets
from argstream.testing import MockProvider, Reply, Status
from tests.clients.http.over_http import (
    REQUEST,
    Waits,
    failure_of,
    http,
    model_of,
    outcome,
    say,
    serving,
)


def waits(retries: Retries, told: float | None = None) -> list[float]:
    """The waits for a request that is never answered."""
    found: list[float] = []
    while (wait := retries.wait(len(found) + 1, sum(found), told)) is not None:
        found.append(wait)
    return found


def test_each_wait_is_twice_as_long_as_the_last_up_to_a_limit() -> None:
    retries = Retries(most=7, first_wait=0.5, longest_wait=8, random=lambda: 0.0)
    assert waits(retries) == [0.5, 1, 2, 4, 8, 8, 8]


def test_chance_shortens_a_wait_by_a_quarter_at_most() -> None:
    assert waits(Retries(most=2, first_wait=1, random=lambda: 1.0)) == [0.75, 1.5]


def test_no_retries_are_no_retries() -> None:
    assert waits(Retries(most=0)) == []


def test_all_waits_together_are_bounded() -> None:
    retries = Retries(most=1000, longest_in_all=100, random=lambda: 0.0)
    assert 90 < sum(waits(retries)) <= 100
    assert sum(waits(retries, told=40)) == 80


def test_what_a_provider_asks_for_is_waited_for_and_not_less() -> None:
    assert waits(Retries(most=2, first_wait=1, random=lambda: 0.0), told=3) == [3, 3]
    assert waits(Retries(most=2, first_wait=1, random=lambda: 1.0), told=3) == [3.5, 3.5]


def test_who_asks_for_too_much_is_not_asked_again() -> None:
    assert waits(Retries(longest_told_wait=60), told=61) == []


def test_a_wait_that_is_too_long_is_told() -> None:
    with MockProvider(Reply("a"), faults=[Status(429, retry_after=3600)]) as provider:
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
    assert told_wait(headers, now=1000.0) == seconds


def test_a_server_may_say_itself_whether_to_try_again() -> None:
    assert may_succeed_later(400, {"x-should-retry": "true"})
    assert not may_succeed_later(500, {"x-should-retry": "false"})
    with serving(say(http("500 No", x_should_retry="false"))) as served:
        assert not failure_of(model_of(served.url)).retryable
        assert len(served.requests) == 1


ASKED = Asked("m", "m", "https://a/v1", "no key", Secrets([]))


def test_a_certificate_that_is_not_trusted_will_not_be_so_in_a_second() -> None:
    error = httpx2.ConnectError("certificate verify failed")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed")
    assert not unreachable(ASKED, error, "1 s").again
    assert unreachable(ASKED, httpx2.ConnectError("refused"), "1 s").again


def test_a_server_that_does_not_accept_in_time_is_tried_again() -> None:
    found = unreachable(ASKED, httpx2.ConnectTimeout(""), "10 s")
    assert (found.failure.code, found.again) == ("timeout", True)
    assert found.failure.message == "no connection to https://a within 10 s"


def test_a_request_that_is_no_http_is_not_made_again_and_not_shown() -> None:
    found = unreachable(ASKED, httpx2.LocalProtocolError("Illegal header value b'secret'"), "1 s")
    assert (found.failure.code, found.again) == ("bad_request", False)
    assert "secret" not in str(found.failure)


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

    with MockProvider(Reply("a"), faults=[Status(429, retry_after=30)]) as provider:
        assert asyncio.run(ask()) < 1
        assert len(provider.requests) == 1


def test_a_request_is_given_up_when_it_has_waited_enough() -> None:
    waited = Waits()
    with MockProvider(Reply("a"), faults=[Status(500)]) as provider:
        failure_of(model_of(provider, retries=waited.retries(most=9, longest_in_all=2)))
    assert waited.seconds == [0.5, 1.0]


def test_a_number_of_retries_is_enough_to_say() -> None:
    with MockProvider(Reply("a"), faults=[Status(500)]) as provider:
        failure_of(model_of(provider, retries=0))
        assert len(provider.requests) == 1
    waited = Waits()
    with MockProvider([Reply("a", faults=[Status(500)])] * 2 + [Reply("a")]) as provider:
        found = outcome(model_of(provider, retries=waited.retries(most=2)))
        assert len(provider.requests) == 3
    assert found.failure is None
    assert waited.seconds == [0.5, 1.0]
