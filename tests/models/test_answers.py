"""Responses that no provider documents, but that proxies, gateways and small servers send."""

import gzip
import json
import socket
import time
from typing import Any

import httpx2
import pytest

from argstream.events import StreamFailed
from argstream.models import Timeouts
from argstream.testing import Reply
from tests.models import over_http
from tests.models.over_http import KEY, Talk, ask, hang, model_of, respond, say, serving
from tests.provider_streams import anthropic_call, chat_call, sse
from tests.support.provider_rules import strict_provider

ANTHROPIC = sse(anthropic_call('{"a":', "1}"))
CHAT = sse(chat_call('{"a":', "1}")) + b"data: [DONE]\n\n"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def chunked(*pieces: bytes) -> bytes:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunks


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<html><head><title>502 Bad\n Gateway</title></head></html>", "'502 Bad Gateway'"),
        (b"<!DOCTYPE html><style>a{}</style><h1>Out &amp; about</h1>", "'Out & about'"),
        (b"<p>a</p><!-- <b>no</b> --> b<SCRIPT>no</Script > c <br", "'a b c'"),
        (b"<title>never ends", "'never ends'"),
        (b"upstream connect error", "upstream connect error"),
        (b"", "without a reason"),
        (b'{"error": "model is loading"}', "model is loading"),
        (b'{"detail": [{"loc": ["body", "n"], "msg": "too big"}]}', "body.n: too big"),
        (b'{"object": "error", "message": "no memory", "code": 500}', "no memory"),
        (b'[{"error": {"message": "in a list"}}]', "in a list"),
        (b'{"error": {"message": "Up", "metadata": {"raw": "it fell"}}}', "Up: it fell"),
        (b'{"unknown": [1]}', '{"unknown": [1]}'),
        (b'{"error": {"status": 7}}', '{"status": 7}'),
        (b'{"detail": "Not here"}', "Not here"),
        (b'{"detail": [7]}', "[7]"),
        (b'{"message": {"detail": [{"loc": ["a"], "msg": "wrapped"}]}}', "a: wrapped"),
        (b'"a text"', "a text"),
        (b"7", "7"),
        (b'{"error": "half \\ud800 a pair"}', "half \ufffd"),
        (b"\xff\xfe\x00", "\ufffd"),
        (b"[" * 100_000, "[[["),
        (b"x" * 10_000_000, "xxx …"),
    ],
)
def test_error_body_of_any_form_is_summarised(body: bytes, expected: str) -> None:
    found = ask(respond("502 Bad Gateway", body), retries=0)
    assert (found.error.status, found.error.retryable, len(found.requests)) == (502, True, 1)
    assert expected in found.error.message
    assert len(found.error.message) < 1200


@pytest.mark.timing
@pytest.mark.parametrize(
    "unit", ["<script ", "<style>", "<!--", "<", "<title", "</title", "a", "a-", "a*", ".."]
)
def test_hostile_error_body_is_summarised_quickly(unit: str) -> None:
    body = "<" + unit * (60_000 // len(unit))
    started = time.process_time()
    assert ask(respond("502 Bad Gateway", body.encode()), retries=0).failure
    assert time.process_time() - started < 0.5


def test_error_with_an_incomplete_body_has_its_status_and_the_text_so_far() -> None:
    head = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 100\r\n\r\n"
    error = ask(say(head + b"you cannot")).error
    assert error.status == 400
    assert error.message.endswith(": you cannot")
    found = ask(hang(b"HTTP/1.1 401 No\r\ncontent-length: 9\r\n\r\n"), timeout=0.2)
    assert (found.error.status, found.error.code) == (401, "unauthorized")
    assert len(found.requests) == 1


def test_redirect_is_not_followed() -> None:
    """The key would be sent along."""
    with serving(respond("200 OK")) as elsewhere:
        target = f"{elsewhere.url}/v1/messages?token=abc"
        error = ask(respond("307 Temporary Redirect", location=target)).error
        assert elsewhere.requests == []
    assert (error.code, error.status, error.retryable) == ("redirect", 307, False)
    assert elsewhere.url in error.message
    assert "token=abc" not in error.message


def test_unreachable_server_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    waits = over_http.Waits()
    failure = over_http.failure_of(model_of(f"http://127.0.0.1:{port}", retries=waits.retries()))
    assert (failure.code, failure.retryable) == ("connection_failed", True)
    assert f"cannot connect to http://127.0.0.1:{port}" in failure.message
    assert waits.seconds == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    "talk", [over_http.reset, say(b""), say(b"HTTP/1.1 200"), say(b"nonsense\r\n\r\n")]
)
def test_connection_that_ends_without_a_response_is_retried(talk: Talk) -> None:
    found = ask(talk, respond("200 OK", ANTHROPIC))
    assert found.is_complete
    assert len(found.requests) == 2


def test_error_event_after_a_ping_is_retried() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    failed = respond("200 OK", PING + sse([error]))
    assert ask(failed, respond("200 OK", ANTHROPIC)).is_complete


@pytest.mark.parametrize("indent", [None, 2])
def test_error_with_status_200_is_an_error(indent: int | None) -> None:
    body = {"error": {"message": "The model is gone", "code": "model_gone"}}
    data = json.dumps(body, indent=indent).encode()
    error = ask(respond("200 OK", data, content_type="application/json"), prefix="openai").error
    assert (error.code, error.status) == ("model_gone", 200)
    assert "The model is gone" in error.message


@pytest.mark.parametrize(
    ("talk", "code", "message", "requests"),
    [
        (respond("200 OK"), "empty_response", "", 4),
        (
            respond("200 OK", b"<html><title>Sign in</title></html>", content_type="text/html"),
            *("not_a_stream", "'Sign in'", 1),
        ),
        (hang(HEAD + b"\r\n" + b"\n" * 20_000), "not_a_stream", "is nothing but white space", 1),
    ],
)
def test_missing_stream_is_an_error(talk: Talk, code: str, message: str, requests: int) -> None:
    found = ask(talk, prefix="openai")
    assert (found.error.code, found.error.retryable) == (code, requests > 1)
    assert message in found.error.message
    assert (found.events, len(found.requests)) == ([], requests)


def test_key_in_an_event_is_removed_however_the_event_is_cut() -> None:
    message = f"bad {KEY}{KEY[:5]} b {KEY[:9]}{KEY}"
    error: Any = {"type": "error", "error": {"type": "x", "message": message}}
    body = sse([*anthropic_call("{}")[:2], error])
    middle = body.index(KEY.encode()) + 9
    for pieces in ([body], [body[:middle], body[middle:]], [bytes([byte]) for byte in body]):
        last = ask(say(chunked(*pieces) + b"0\r\n\r\n")).events[-1]
        assert isinstance(last, StreamFailed)
        assert last.message == f"bad [removed]{KEY[:5]} b {KEY[:9]}[removed]"


@pytest.mark.parametrize("pieces", [b"", b"event: message_st"])
def test_headers_or_half_an_event_do_not_prolong_the_timeout(pieces: bytes) -> None:
    timeout = Timeouts(first_byte=15, idle=0.1) if pieces else 0.1
    error = ask(hang(HEAD + b"\r\n" + pieces), timeout=timeout, retries=0).error
    assert error.code == "timeout"
    if pieces:
        assert error.message == "anthropic:some-model sent nothing for 0.1 s"


def test_comments_and_pings_prolong_the_timeout() -> None:
    def slowly(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"connection: close\r\n\r\n")
        for sign in (b": processing\n\n", PING) * 4:
            connection.sendall(sign)
            time.sleep(0.15)
        connection.sendall(ANTHROPIC)

    assert ask(slowly, timeout=1, retries=0).is_complete


def test_long_first_event_is_passed_on() -> None:
    long = b'data: {"type": "ping", "padding": "' + b"x" * 3_000_000
    found = ask(hang(chunked(long)), timeout=Timeouts(idle=0.2))
    assert found.error.code == "timeout"
    assert len(found.requests) == 1


async def test_first_event_is_passed_on_before_the_second_arrives() -> None:
    first = sse(anthropic_call("{}")[:1])
    with serving(hang(chunked(first))) as served:
        source = model_of(served.url, timeout=5).stream(over_http.REQUEST)
        assert await anext(source) == first
        await source.aclose()


def test_response_that_is_not_streamed_is_read() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with strict_provider(Reply("Hello")) as provider:
        url = f"{provider.openai_url}/chat/completions"
        content = httpx2.post(url, json=body, headers={"authorization": "Bearer any"}).content
    found = ask(respond("200 OK", content, content_type="application/json"), prefix="openai")
    assert (found.types, found.failure) == (["text_delta", "turn_completed"], None)


def test_compressed_response_is_read_though_it_was_not_requested() -> None:
    found = ask(respond("200 OK", gzip.compress(ANTHROPIC), content_encoding="gzip"))
    assert found.is_complete
    assert b"accept-encoding: identity" in found.requests[0].lower()


async def test_start_of_a_key_at_the_end_is_not_lost() -> None:
    body = ANTHROPIC + b'event: ping\ndata: {"a": "' + KEY[:7].encode()
    with serving(respond("200 OK", body)) as served:
        chunks = [chunk async for chunk in model_of(served.url).stream(over_http.REQUEST)]
    assert b"".join(chunks) == body


@pytest.mark.parametrize(("prefix", "body"), [("anthropic", ANTHROPIC), ("openai", CHAT)])
def test_connection_may_break_after_the_last_event(prefix: str, body: bytes) -> None:
    for cut in range(len(body) - 20, len(body), 5):
        assert ask(say(chunked(body[:cut], body[cut:])), prefix=prefix).is_complete


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("pings", [False, True])
def test_open_connection_after_the_last_event_is_closed(
    line_end: bytes, pings: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("argstream.models._http._CLOSE_TIMEOUT", 0.1)

    def talk(connection: socket.socket) -> None:
        answer = chunked(CHAT.replace(b"\n", line_end))
        if not pings:
            return hang(answer)(connection)
        connection.sendall(answer)
        while True:  # until the client closes the connection
            connection.sendall(b"8\r\n: ping\n\n\r\n")
            time.sleep(0.05)

    assert ask(talk, prefix="openai", timeout=60).is_complete  # run() has a shorter limit


def test_end_marker_within_a_line_does_not_end_the_response() -> None:
    """A model may write it, and a chunk may end inside it."""
    text = "say data: [DONE] and then go on with more than what is remembered of a chunk"
    event = sse([{"choices": [{"index": 0, "delta": {"content": text}}]}])
    end = event.index(b"data: [DONE]") + 40
    first, _, _ = CHAT.partition(b"\n\n")
    pieces = (first + b"\n\n", event[:end], event[end:])
    assert ask(say(chunked(*pieces)), prefix="openai").error.code == "connection_lost"
