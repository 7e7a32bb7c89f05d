"""The mock provider replays files of ``argstream record``: status, type, cut and times too."""

import io
import json
import time
from typing import Any

import httpx2
import pytest

from argstream import UsageError, stream
from argstream.recording import Recorder, Request, Response
from argstream.testing import Cut, MockProvider, Split
from tests.provider_streams import anthropic_call, sse
from tests.testing.posting import post

MESSAGES: Any = [{"role": "user", "content": "hi"}]
ANTHROPIC: Any = {"model": "m", "max_tokens": 99, "messages": MESSAGES}
BODY = sse(anthropic_call('{"a": "é"}'))


def recorded(
    *chunks: tuple[float, bytes],
    path: str = "/v1/messages",
    status: int = 200,
    type_: str = "text/event-stream",
    ending: Any = "orderly",
) -> bytes:
    file, now = io.BytesIO(), 0.0
    request = Request("POST", f"https://x.example{path}") if path else None
    response = Response(status, {"content-type": type_}) if path else None
    recorder = Recorder(file, clock=lambda: now, request=request, response=response)
    for now, data in chunks:  # noqa: B007, read by the clock
        recorder.write(data)
    recorder.close(ending)
    return file.getvalue()


def events_of(provider: MockProvider) -> list[object]:
    import anthropic

    url = provider.anthropic_url
    with anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client:
        return list(stream(client.messages.create(**ANTHROPIC, stream=True)))


@pytest.mark.parametrize("path", ["", "/v1/messages"])
@pytest.mark.parametrize("faults", [(), (Split((5,)),)])
def test_recording_is_served_with_its_bytes_and_type(path: str, faults: tuple[Split, ...]) -> None:
    type_ = "text/event-stream; charset=x"
    recording = recorded((0.1, BODY[:33]), (0.2, BODY[33:]), path=path, type_=type_)
    with MockProvider.replaying(recording, faults=faults) as provider:
        assert events_of(provider) == list(stream([BODY]))
        _, headers, body = post(provider, "/v1/messages", streamed=True)
    assert body == BODY
    assert headers["content-type"] == (type_ if path else "text/event-stream; charset=utf-8")


def test_recorded_error_raises_again() -> None:
    import anthropic

    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slowly"}}
    recording = recorded((0.1, json.dumps(error).encode()), status=429, type_="application/json")
    with (
        MockProvider.replaying(recording) as provider,
        pytest.raises(anthropic.RateLimitError, match=r"429.*slowly"),
    ):
        events_of(provider)


def test_recorded_cut_breaks_the_connection_again() -> None:
    import anthropic

    with (
        MockProvider.replaying(recorded((0.1, BODY[:-70]), ending="cut")) as provider,
        pytest.raises((anthropic.APIConnectionError, httpx2.RemoteProtocolError)),
    ):
        events_of(provider)


def test_times_are_kept_with_timed() -> None:
    with MockProvider.replaying(recorded((0.1, BODY[:33]), (0.5, BODY[33:])), timed=True) as slow:
        start = time.monotonic()
        assert events_of(slow) == list(stream([BODY]))
        assert time.monotonic() - start >= 0.5
    with MockProvider.replaying(recorded((600.0, BODY))) as provider:  # by default, no pauses
        assert events_of(provider) == list(stream([BODY]))
    with pytest.raises(UsageError, match="timed needs a recording of argstream"):
        MockProvider.replaying(BODY, timed=True)
    with pytest.raises(UsageError, match="timed and faults cannot be combined"):
        MockProvider.replaying(recorded((0, BODY)), timed=True, faults=[Cut()])


def test_unknown_api_is_served_for_any_request() -> None:
    lines = b'{"candidates": []}\n{"candidates": []}\n'
    path, type_ = "/v1beta/models/g:streamGenerateContent", "application/x-ndjson"
    recording = recorded((0.1, lines[:20]), (0.2, lines[20:]), path=path, type_=type_)
    with MockProvider.replaying(recording) as provider:
        _, headers, body = post(provider, "/anything?key=x", b"whatever", headers={})
        provider.check()
    assert (body, headers["content-type"]) == (lines, type_)


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("timed", [False, True])
def test_status_without_a_body_sends_none(status: int, timed: bool) -> None:
    recording = recorded((0.0, b"not sent"), path="/v1/other", status=status)
    with MockProvider.replaying(recording, timed=timed) as provider, httpx2.Client() as client:
        for _ in range(2):  # on one connection, where a body would be taken for the next answer
            response = client.post(f"{provider.url}/v1/other")
            assert (response.status_code, response.content) == (status, b"")


def test_informational_status_is_refused() -> None:
    with pytest.raises(UsageError, match="the status 103 cannot be replayed"):
        MockProvider.replaying(recorded((0.0, b""), status=103))
