"""The mock provider serves what argstream record has written: status, type, cut and times too."""

import io
import json
import time
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from argstream import UsageError, stream
from argstream.recording import Recorder, Request, Response
from argstream.testing import Cut, MockProvider, Split
from tests.provider_streams import anthropic_call, chat_call, sse

MESSAGES: Any = [{"role": "user", "content": "hi"}]
ANTHROPIC: Any = {"model": "m", "max_tokens": 99, "messages": MESSAGES}
BODY = sse(anthropic_call('{"a": "é"}'))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def recorded(
    *chunks: tuple[float, bytes],
    path: str = "",
    status: int = 200,
    type_: str = "text/event-stream",
    ending: Any = "orderly",
) -> bytes:
    file, clock = io.BytesIO(), Clock()
    recorder = Recorder(
        file,
        clock=clock,
        request=Request("POST", f"https://x.example{path}") if path else None,
        response=Response(status, {"content-type": type_}) if path else None,
    )
    for at, data in chunks:
        clock.now = at
        recorder.write(data)
    recorder.close(ending)
    return file.getvalue()


def events_of(provider: MockProvider) -> list[object]:
    with anthropic.Anthropic(
        base_url=provider.anthropic_url, api_key="any", max_retries=0
    ) as client:
        return list(stream(client.messages.create(**ANTHROPIC, stream=True)))


@pytest.mark.parametrize("path", ["", "/v1/messages"])
def test_a_recording_is_served_as_its_bytes_are(path: str) -> None:
    recording = recorded((0.1, BODY[:33]), (0.2, BODY[33:]), path=path)
    with MockProvider.replaying(recording) as provider:
        assert events_of(provider) == list(stream([BODY]))
    with MockProvider.replaying(recording, faults=[Split((5,))]) as provider:
        assert events_of(provider) == list(stream([BODY]))


def test_its_type_is_kept() -> None:
    type_ = "text/event-stream; charset=x"
    recording = recorded((0.1, BODY), path="/v1/messages", type_=type_)
    with MockProvider.replaying(recording) as provider:
        headers = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
        body = {**ANTHROPIC, "stream": True}
        response = httpx2.post(f"{provider.url}/v1/messages", json=body, headers=headers)
    assert response.headers["content-type"] == type_
    assert response.content == BODY


def test_an_error_is_an_error_again() -> None:
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slowly"}}
    data = json.dumps(error).encode()
    type_ = "application/json"
    recording = recorded((0.1, data), path="/v1/messages", status=429, type_=type_)
    with (
        MockProvider.replaying(recording) as provider,
        pytest.raises(anthropic.RateLimitError, match="slowly"),
    ):
        events_of(provider)


def test_what_was_cut_is_cut_again() -> None:
    recording = recorded((0.1, BODY[:-70]), path="/v1/messages", ending="cut")
    with (
        MockProvider.replaying(recording) as provider,
        pytest.raises((anthropic.APIConnectionError, httpx2.RemoteProtocolError)),
    ):
        events_of(provider)


@pytest.mark.parametrize("timed", [False, True])
def test_times_are_kept_if_that_is_wanted(timed: bool) -> None:
    recording = recorded((0.2, BODY[:33]), (1.5, BODY[33:]), path="/v1/messages")
    with MockProvider.replaying(recording, timed=timed) as provider:
        start = time.monotonic()
        assert events_of(provider) == list(stream([BODY]))
        assert (time.monotonic() - start >= 1.5) == timed


def test_timed_needs_times_and_makes_no_faults() -> None:
    with pytest.raises(UsageError, match="only a recording of argstream has times"):
        MockProvider.replaying(BODY, timed=True)
    with pytest.raises(UsageError, match="makes no faults"):
        MockProvider.replaying(recorded((0, BODY)), timed=True, faults=[Cut()])


def test_an_api_that_it_does_not_know_is_served_as_it_came() -> None:
    lines = b'{"candidates": []}\n{"candidates": []}\n'
    path, type_ = "/v1beta/models/g:streamGenerateContent", "application/x-ndjson"
    recording = recorded((0.1, lines[:20]), (0.2, lines[20:]), path=path, type_=type_)
    with MockProvider.replaying(recording) as provider:
        response = httpx2.post(f"{provider.url}/anything?key=x", content=b"whatever")
        provider.check()
    assert response.content == lines
    assert response.headers["content-type"] == type_


def test_a_recording_of_another_api_is_refused() -> None:
    recording = recorded((0, sse(chat_call("{}"))), path="/v1/chat/completions")
    with MockProvider.replaying(recording) as provider:
        with pytest.raises(anthropic.BadRequestError, match="the recording is of openai-chat"):
            events_of(provider)
        with openai.OpenAI(base_url=provider.openai_url, api_key="any") as client:
            chunks = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "tool_calls"


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("timed", [False, True])
def test_an_answer_without_a_body_has_none(status: int, timed: bool) -> None:
    recording = recorded((0.0, b"not sent"), path="/v1/other", status=status)
    with MockProvider.replaying(recording, timed=timed) as provider, httpx2.Client() as client:
        for _ in range(2):  # on one connection, where a body would be taken for the next answer
            response = client.post(f"{provider.url}/v1/other")
            assert (response.status_code, response.content) == (status, b"")


def test_what_was_not_the_answer_is_refused() -> None:
    with pytest.raises(UsageError, match="the status 103 cannot be sent again"):
        MockProvider.replaying(recorded((0.0, b""), path="/v1/messages", status=103))
