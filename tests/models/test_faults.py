"""Faults of a provider: what is retried and when, what is raised, and what is an event."""

import asyncio
import ssl
from itertools import product
from typing import Any

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from argstream import UsageError
from argstream.events import StreamFailed
from argstream.models import CallTool, Retries, Say, Timeouts
from argstream.testing import Cut, ErrorEvent, Fault, Malformed, Reply, Slow, Split, Status
from tests.models import over_http
from tests.models.over_http import PREFIXES, REQUEST, Outcome, Waits, ask, model_of, respond
from tests.support.provider_rules import strict_provider

ANSWER = (Say("I add."), CallTool("add", {"a": 1, "b": 2}))

for_each_api = pytest.mark.parametrize("prefix", PREFIXES)


def attempted(
    prefix: str, *faults: Fault, good_after: int | None = None, **options: Any
) -> tuple[Outcome, int]:
    """Return the outcome of a request, and the number of attempts."""
    bad = [Reply(*ANSWER, faults=faults)] * (good_after or 1)
    good = [Reply(*ANSWER)] if good_after is not None else []
    with strict_provider([*bad, *good], repeat=good_after is None) as provider:
        found = over_http.outcome(model_of(provider, prefix, **options))
        provider.check()
        return found, len(provider.requests)


@for_each_api
@pytest.mark.parametrize(
    "faults", [(), (Split((7, 200), seed=3),), (Slow(between=0.001, before=0.05),)]
)
def test_response_is_complete_however_it_is_cut(prefix: str, faults: tuple[Fault, ...]) -> None:
    found, requests = attempted(prefix, *faults)
    assert found.is_complete
    assert "tool_args_completed" in found.types
    assert requests == 1


@pytest.mark.parametrize(
    ("prefix", "fault"),
    [
        *(("anthropic", Status(status)) for status in (408, 409, 429, 500, 502, 503, 504)),
        *product(PREFIXES, (Status(529), ErrorEvent(at=0), Cut(at=0), Cut(at=20))),
    ],
)
def test_temporary_failure_before_the_first_event_is_retried(prefix: str, fault: Fault) -> None:
    found, requests = attempted(prefix, fault, good_after=2)
    assert found.is_complete
    assert requests == 3


@pytest.mark.parametrize(
    ("prefix", "status"),
    [*product(["anthropic"], (400, 403, 404, 413, 422, 501)), *product(PREFIXES, (401,))],
)
def test_permanent_failure_is_not_retried(prefix: str, status: int) -> None:
    found, requests = attempted(prefix, Status(status, message="No."))
    assert (found.error.status, found.error.retryable) == (status, False)
    assert "No." in found.error.message
    assert found.error.request_id == "req_mock_1"
    assert (found.events, requests) == ([], 1)


@for_each_api
def test_invalid_request_in_an_event_is_not_retried(prefix: str) -> None:
    found, requests = attempted(prefix, ErrorEvent(at=0, status=400, message="Too many tools"))
    assert "Too many tools" in found.error.message
    assert (found.events, requests) == ([], 1)


def test_number_of_retries_is_limited() -> None:
    found, requests = attempted("anthropic", Status(529))
    assert found.error.retryable
    assert "tried 4 times" in found.error.message
    assert (found.events, requests) == ([], 4)


@for_each_api
def test_failure_after_the_first_event_is_not_retried(prefix: str) -> None:
    found, requests = attempted(prefix, ErrorEvent(at="call"))
    assert (found.failure, requests) == (None, 1)
    assert isinstance(found.events[-1], StreamFailed)
    found, requests = attempted(prefix, Cut(at="call"))
    assert (found.error.code, found.error.retryable) == ("connection_lost", True)
    assert (found.types[-1], requests) == ("tool_args_invalid", 1)


@for_each_api
def test_payload_that_is_no_json_is_an_event(prefix: str) -> None:
    for fault in (Malformed(at=0), Malformed(at="call")):
        found, requests = attempted(prefix, fault)
        assert (found.failure, requests) == (None, 1)
        assert "stream_failed" in found.types


@for_each_api
@pytest.mark.parametrize(
    ("slow", "timeout", "requests"),
    [
        (Slow(before=5), Timeouts(first_byte=0.1), 2),
        (Slow(between=5), Timeouts(first_byte=5, idle=0.1), 1),
    ],
)
def test_silence_times_out(prefix: str, slow: Fault, timeout: Timeouts, requests: int) -> None:
    retries = Waits().retries(most=1)
    found, made = attempted(prefix, slow, timeout=timeout, retries=retries)
    assert (found.error.code, found.error.retryable, made) == ("timeout", True, requests)
    assert "0.1 s" in found.error.message


# When a request is retried, and after how many seconds


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
        failure = over_http.failure_of(model_of(provider))
        assert len(provider.requests) == 1
    assert failure.retryable
    assert "retry after 3600 s" in failure.message


def test_x_should_retry_overrides_the_status() -> None:
    found = ask(respond("400 No", x_should_retry="true"), respond("401 No"))
    assert found.error.status == 401
    found = ask(respond("500 No", x_should_retry="false"))
    assert not found.error.retryable
    assert len(found.requests) == 1


CONNECTION = ConnectionKey("a", 443, True, True, None, None, None)


@pytest.mark.parametrize(
    ("error", "code", "requests"),
    [
        (
            aiohttp.ClientConnectorCertificateError(
                CONNECTION, ssl.SSLCertVerificationError("self-signed")
            ),
            *("connection_failed", 1),
        ),
        (
            aiohttp.ClientConnectorError(CONNECTION, ConnectionRefusedError("refused")),
            *("connection_failed", 4),
        ),
        (aiohttp.ConnectionTimeoutError(), "timeout", 4),
        (aiohttp.InvalidURL("https://a"), "connection_lost", 1),
    ],
)
async def test_temporary_connection_error_is_retried(
    error: Exception, code: str, requests: int
) -> None:
    made: list[aiohttp.ClientRequest] = []

    async def fail(request: aiohttp.ClientRequest, _: object) -> aiohttp.ClientResponse:
        made.append(request)
        raise error

    async with aiohttp.ClientSession(middlewares=[fail]) as session:
        found = await over_http.outcome_async(model_of("https://a", session=session))
    failure = found.error
    assert (failure.code, failure.retryable, len(made)) == (code, requests > 1, requests)
    if code == "timeout":
        assert "no connection to https://a within 5 s" in failure.message


async def test_session_whose_headers_cannot_be_sent_raises_without_showing_them() -> None:
    with over_http.serving(respond("400 No")) as served:
        async with aiohttp.ClientSession(headers={"x-mine": "secret\r\nx: y"}) as session:
            with pytest.raises(UsageError, match="is not valid HTTP") as caught:
                await over_http.outcome_async(model_of(served.url, session=session))
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None  # it may show the header


async def test_waiting_for_a_retry_can_be_cancelled() -> None:
    sleeping = asyncio.Event()

    async def sleep(_: float) -> None:
        sleeping.set()
        await asyncio.Event().wait()

    with strict_provider(Reply("a"), faults=[Status(429, retry_after=30)]) as provider:
        model = model_of(provider, retries=Retries(sleep=sleep))
        task = asyncio.ensure_future(anext(model.stream(REQUEST)))
        await sleeping.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(provider.requests) == 1
