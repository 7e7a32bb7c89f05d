"""Faults of a provider, for each API: what is retried, what is raised, what is an event."""

from itertools import product
from typing import Any

import pytest

from argstream.events import StreamFailed
from argstream.models import CallTool, Say, Timeouts
from argstream.testing import Cut, ErrorEvent, Fault, Malformed, Reply, Slow, Split, Status
from tests.models.over_http import PREFIXES, Outcome, Waits, model_of, outcome
from tests.support.provider_rules import strict_provider

ANSWER = (Say("I add."), CallTool("add", {"a": 1, "b": 2}))

for_each_api = pytest.mark.parametrize("prefix", PREFIXES)


def ask(
    prefix: str, *faults: Fault, good_after: int | None = None, **options: Any
) -> tuple[Outcome, int]:
    """Return the outcome of a request, and the number of attempts."""
    bad = [Reply(*ANSWER, faults=faults)] * (good_after or 1)
    good = [Reply(*ANSWER)] if good_after is not None else []
    with strict_provider([*bad, *good], repeat=good_after is None) as provider:
        found = outcome(model_of(provider, prefix, **options))
        provider.check()
        return found, len(provider.requests)


@for_each_api
@pytest.mark.parametrize(
    "faults", [(), (Split((7, 200), seed=3),), (Slow(between=0.001, before=0.05),)]
)
def test_response_is_complete_however_it_is_cut(prefix: str, faults: tuple[Fault, ...]) -> None:
    found, requests = ask(prefix, *faults)
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
    found, requests = ask(prefix, fault, good_after=2)
    assert found.is_complete
    assert requests == 3


@pytest.mark.parametrize(
    ("prefix", "status"),
    [*product(["anthropic"], (400, 403, 404, 413, 422, 501)), *product(PREFIXES, (401,))],
)
def test_permanent_failure_is_not_retried(prefix: str, status: int) -> None:
    found, requests = ask(prefix, Status(status, message="No."))
    assert (found.error.status, found.error.retryable) == (status, False)
    assert "No." in found.error.message
    assert found.error.request_id == "req_mock_1"
    assert (found.events, requests) == ([], 1)


@for_each_api
def test_invalid_request_in_an_event_is_not_retried(prefix: str) -> None:
    found, requests = ask(prefix, ErrorEvent(at=0, status=400, message="Too many tools"))
    assert "Too many tools" in found.error.message
    assert (found.events, requests) == ([], 1)


def test_number_of_retries_is_limited() -> None:
    found, requests = ask("anthropic", Status(529))
    assert found.error.retryable
    assert "tried 4 times" in found.error.message
    assert (found.events, requests) == ([], 4)


@for_each_api
def test_failure_after_the_first_event_is_not_retried(prefix: str) -> None:
    found, requests = ask(prefix, ErrorEvent(at="call"))
    assert (found.failure, requests) == (None, 1)
    assert isinstance(found.events[-1], StreamFailed)
    found, requests = ask(prefix, Cut(at="call"))
    assert (found.error.code, found.error.retryable) == ("connection_lost", True)
    assert (found.types[-1], requests) == ("tool_args_invalid", 1)


@for_each_api
def test_payload_that_is_no_json_is_an_event(prefix: str) -> None:
    for fault in (Malformed(at=0), Malformed(at="call")):
        found, requests = ask(prefix, fault)
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
    found, made = ask(prefix, slow, timeout=timeout, retries=retries)
    assert (found.error.code, found.error.retryable, made) == ("timeout", True, requests)
    assert "0.1 s" in found.error.message
