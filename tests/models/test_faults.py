"""All that can go wrong on the way, for each API: asking always comes to an end."""

from collections.abc import Sequence

import pytest

from argstream.events import StreamFailed
from argstream.models import Timeouts
from argstream.testing import (
    CallTool,
    Cut,
    ErrorEvent,
    Fault,
    Malformed,
    Reply,
    Say,
    Slow,
    Split,
    Status,
)
from tests.models.over_http import (
    PREFIXES,
    Outcome,
    Waits,
    model_of,
    outcome,
    outcome_async,
    run,
)
from tests.support.provider_rules import strict_provider

ANSWER = (Say("I add."), CallTool("add", {"a": 1, "b": 2}))

pytestmark = pytest.mark.parametrize("prefix", PREFIXES)


def ask(prefix: str, *faults: Fault, good_after: int | None = None) -> tuple[Outcome, int]:
    """Give what comes of a request, and how many were made."""
    bad: Sequence[Reply] = [Reply(*ANSWER, faults=faults)] * (good_after or 1)
    good = [Reply(*ANSWER)] if good_after is not None else []
    with strict_provider([*bad, *good], repeat=good_after is None) as provider:
        found = outcome(model_of(provider, prefix))
        provider.check()
        return found, len(provider.requests)


@pytest.mark.parametrize(
    "faults", [(), (Split(),), (Split((7, 200), seed=3),), (Slow(between=0.001, before=0.05),)]
)
def test_an_answer_is_whole_however_it_is_cut(prefix: str, faults: tuple[Fault, ...]) -> None:
    found, requests = ask(prefix, *faults)
    assert found.failure is None
    assert found.types[-1] == "turn_completed"
    assert "tool_args_completed" in found.types
    assert requests == 1


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again(prefix: str, status: int) -> None:
    found, requests = ask(prefix, Status(status), good_after=2)
    assert found.failure is None
    assert found.types[-1] == "turn_completed"
    assert requests == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 501])
def test_what_will_not_pass_is_not_tried_again(prefix: str, status: int) -> None:
    found, requests = ask(prefix, Status(status, message="No."))
    assert found.failure is not None
    assert (found.failure.status, found.failure.retryable) == (status, False)
    assert "No." in found.failure.message
    assert found.failure.request_id == "req_mock_1"
    assert (found.events, requests) == ([], 1)


def test_tries_come_to_an_end(prefix: str) -> None:
    found, requests = ask(prefix, Status(529))
    assert found.failure is not None
    assert found.failure.retryable
    assert "tried 4 times" in found.failure.message
    assert (found.events, requests) == ([], 4)


def test_an_error_event_in_front_of_the_answer_is_tried_again(prefix: str) -> None:
    found, requests = ask(prefix, ErrorEvent(at=0), good_after=1)
    assert found.failure is None
    assert found.types[-1] == "turn_completed"
    assert requests == 2


def test_an_error_event_that_will_not_pass_is_raised_at_once(prefix: str) -> None:
    found, requests = ask(prefix, ErrorEvent(at=0, status=400, message="Too many tools"))
    assert found.failure is not None
    assert "Too many tools" in found.failure.message
    assert (found.events, requests) == ([], 1)


def test_an_error_event_in_the_answer_is_an_event(prefix: str) -> None:
    found, requests = ask(prefix, ErrorEvent(at="call"))
    assert found.failure is None
    assert isinstance(found.events[-1], StreamFailed)
    assert requests == 1


def test_a_connection_that_breaks_off_before_the_first_event_is_tried_again(prefix: str) -> None:
    for faults in ([Cut(at=0)], [Cut(at=20)]):
        found, requests = ask(prefix, *faults, good_after=2)
        assert found.failure is None
        assert requests == 3


def test_a_connection_that_breaks_off_later_is_not(prefix: str) -> None:
    found, requests = ask(prefix, Cut(at="call"))
    assert found.failure is not None
    assert (found.failure.code, found.failure.retryable) == ("connection_lost", True)
    assert found.types[-1] == "tool_args_invalid"
    assert requests == 1


def test_a_payload_that_is_no_json_is_an_event(prefix: str) -> None:
    for fault in (Malformed(at=0), Malformed(at="call")):
        found, requests = ask(prefix, fault)
        assert found.failure is None
        assert "stream_failed" in found.types
        assert requests == 1


def test_a_silent_server_is_not_waited_for(prefix: str) -> None:
    timeouts = Timeouts(first_byte=0.1)
    with strict_provider(Reply("a"), faults=[Slow(before=5)]) as provider:
        model = model_of(provider, prefix, timeout=timeouts, retries=Waits().retries(most=1))
        found = outcome(model)
        assert len(provider.requests) == 2
    assert found.failure is not None
    assert (found.failure.code, found.failure.retryable) == ("timeout", True)
    assert "0.1 s" in found.failure.message


def test_an_answer_that_stops_is_not_waited_for(prefix: str) -> None:
    async def ask_once() -> Outcome:
        model = model_of(provider, prefix, timeout=Timeouts(first_byte=5, idle=0.1))
        found = await outcome_async(model)
        await model.aclose()
        return found

    with strict_provider(Reply("a" * 9), faults=[Slow(between=5)]) as provider:
        found = run(ask_once())
        assert len(provider.requests) == 1
    assert found.failure is not None
    assert (found.failure.code, found.failure.retryable) == ("timeout", True)
