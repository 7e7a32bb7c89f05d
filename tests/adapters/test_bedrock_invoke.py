"""Claude on Bedrock Invoke: Anthropic's payloads in another wrapping."""

import base64
import json
from typing import Any

import pytest

from argstream.assembly import Assembler
from argstream.events import StreamFailed
from tests.providers import anthropic_call, assemble, only_call


def wrapped(payload: Any) -> bytes:
    inner = base64.b64encode(json.dumps(payload).encode()).decode()
    return json.dumps({"bytes": inner, "p": "abcd"}).encode()


def test_payloads_of_the_event_stream_are_unwrapped() -> None:
    call = only_call([wrapped(payload) for payload in anthropic_call('{"a":1}')])
    assert call.arguments == {"a": 1}


def test_events_of_boto3_are_unwrapped() -> None:
    events = [{"chunk": {"bytes": json.dumps(p).encode()}} for p in anthropic_call('{"a":1}')]
    assert only_call(events).arguments == {"a": 1}


@pytest.mark.parametrize(
    ("name", "retryable"), [("throttlingException", True), ("validationException", False)]
)
def test_an_exception_of_the_event_stream_is_a_failure(name: str, retryable: bool) -> None:
    assembler = Assembler()
    assert assembler.feed(b'{"message": "too much"}', name) == [
        StreamFailed(name, "too much", retryable)
    ]


def test_an_error_of_the_connection_has_no_payload() -> None:
    assert Assembler().feed(b"", "InternalServerError") == [
        StreamFailed("InternalServerError", "InternalServerError", retryable=True)
    ]


def test_what_is_no_base64_cannot_be_read() -> None:
    (event,) = assemble([b'{"bytes": "?"}'])[1]
    assert isinstance(event, StreamFailed)
    assert event.code == "bad_payload"


def test_what_has_no_bytes_is_ignored() -> None:
    calls, _ = assemble([wrapped(anthropic_call()[0]), b"{}"], protocol="bedrock-invoke")
    assert calls == []
