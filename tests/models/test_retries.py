"""When a request is retried, and after how many seconds."""

import asyncio
import ssl
from typing import Any

import httpx2
import pytest

from argstream.models import Retries
from argstream.testing import Reply, Status
from tests.models.over_http import REQUEST, Waits, ask, failure_of, model_of, respond, run
from tests.support.provider_rules import strict_provider


def waits(retries: Retries, told: float | None = None) -> list[float]:
    """Return the waits of a request that always fails."""
    found: list[float] = []
    while (wait := retries.wait(len(found) + 1, sum(found), told)) is not None:
        found.append(wait)
    return found


@pytest.mark.parametrize(
    ("options", "chance", "told", "expected"),
    [
        ({"most": 7, "longest_wait": 8}, 0.0, None, [0.5, 1, 2, 4, 8, 8, 8]),
        ({"most": 2, "first_wait": 1}, 1.0, None, [0.75, 1.5]),  # at most a quarter less
        ({"most": 0}, 0.0, None, []),
        ({"most": 9, "longest_in_all": 2}, 0.0, None, [0.5, 1]),
        ({"most": 2, "first_wait": 1}, 0.0, 3, [3, 3]),  # not less than the provider asks for
        ({"most": 2, "first_wait": 1}, 1.0, 3, [3.5, 3.5]),
        ({"longest_told_wait": 60}, 0.0, 61, []),
        ({"most": 1000, "longest_in_all": 100}, 0.0, 40, [40, 40]),
    ],
)
def test_waits_double_up_to_a_limit(
    options: dict[str, Any], chance: float, told: float | None, expected: list[float]
) -> None:
    assert waits(Retries(random=lambda: chance, **options), told) == expected


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after_ms": "250", "retry_after": "7"}, 0.25),
        ({"retry_after_ms": "x", "retry_after": "7"}, 7.0),
        ({"retry_after": "Thu, 01 Jan 1970 00:16:50 GMT"}, 10.0),
        ({"retry_after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        *(({"retry_after": value}, None) for value in ("soon", "nan", "inf", "-1", "")),
    ],
)
def test_wait_requested_by_a_header_is_used(headers: dict[str, Any], seconds: float | None) -> None:
    waited = Waits()
    retries = waited.retries(now=lambda: 1000.0)
    assert ask(respond("429 No", **headers), respond("400 No"), retries=retries).failure
    assert waited.seconds == [seconds or 0.5]  # 0.5 is the default


def test_requested_wait_that_is_too_long_fails_at_once() -> None:
    with strict_provider(Reply("a"), faults=[Status(429, retry_after=3600)]) as provider:
        failure = failure_of(model_of(provider))
        assert len(provider.requests) == 1
    assert failure.retryable
    assert "retry after 3600 s" in failure.message


def test_x_should_retry_overrides_the_status() -> None:
    found = ask(respond("400 No", x_should_retry="true"), respond("401 No"))
    assert found.error.status == 401
    found = ask(respond("500 No", x_should_retry="false"))
    assert not found.error.retryable
    assert len(found.requests) == 1


def untrusted() -> httpx2.ConnectError:
    error = httpx2.ConnectError("certificate verify failed")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed")
    return error


@pytest.mark.parametrize(
    ("error", "code", "requests"),
    [
        (untrusted(), "connection_failed", 1),
        (httpx2.ConnectError("refused"), "connection_failed", 4),
        (httpx2.ConnectTimeout(""), "timeout", 4),
        (httpx2.LocalProtocolError("Illegal header value b'secret'"), "bad_request", 1),
    ],
)
def test_temporary_connection_error_is_retried(error: Exception, code: str, requests: int) -> None:
    made: list[httpx2.Request] = []

    def fail(request: httpx2.Request) -> httpx2.Response:
        made.append(request)
        raise error

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(fail))
    failure = failure_of(model_of("https://a", http_client=client))
    assert (failure.code, failure.retryable, len(made)) == (code, requests > 1, requests)
    assert "secret" not in str(failure)
    if code == "timeout":
        assert "no connection to https://a within 5 s" in failure.message


def test_waiting_for_a_retry_can_be_cancelled() -> None:
    sleeping = asyncio.Event()

    async def sleep(_: float) -> None:
        sleeping.set()
        await asyncio.Event().wait()

    async def cancel() -> None:
        retries = Retries(sleep=sleep)
        task = asyncio.ensure_future(anext(model_of(provider, retries=retries).stream(REQUEST)))
        await sleeping.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with strict_provider(Reply("a"), faults=[Status(429, retry_after=30)]) as provider:
        run(cancel())
        assert len(provider.requests) == 1
