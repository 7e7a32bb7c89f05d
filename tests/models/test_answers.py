"""Answers that no provider documents, but proxies, gateways and small servers give."""

import gzip
import json
import socket
import time
from typing import Any

import httpx2
import pytest

from argstream.events import StreamFailed
from argstream.models import HttpModel, Timeouts
from argstream.testing import MockProvider, Reply
from tests.models.over_http import (
    KEY,
    REQUEST,
    Served,
    Talk,
    Waits,
    failure_of,
    hang,
    http,
    model_of,
    outcome,
    outcome_async,
    reset,
    run,
    say,
    serving,
)
from tests.provider_streams import anthropic_call, chat_call, sse
from tests.support.provider_rules import strict_provider

ANTHROPIC = sse(anthropic_call('{"a":', "1}"))
CHAT = sse(chat_call('{"a":', "1}")) + b"data: [DONE]\n\n"
BODY_WITHOUT_END = ANTHROPIC + b'event: ping\ndata: {"a": "'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


def chunked(*pieces: bytes) -> bytes:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunks


def answer_to(served: Served, prefix: str = "anthropic", **options: Any) -> list[str]:
    found = outcome(model_of(served.url, prefix, **options))
    assert found.failure is None
    return found.types


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html><head><title>502 Bad\n Gateway</title></head></html>", "'502 Bad Gateway'"),
        (b"<!DOCTYPE html><style>a{}</style><h1>Out &amp; about</h1>", "'Out & about'"),
        (b"<p>a</p><!-- <b>no</b> --> b<SCRIPT>no</Script > c <br", "'a b c'"),
        (b"<title>never ends", "'never ends'"),
        (b"upstream connect error", "upstream connect error"),
        (b"", "does not say why"),
        (b'{"error": "model is loading"}', "model is loading"),
        (b'{"detail": [{"loc": ["body", "n"], "msg": "too big"}]}', "body.n: too big"),
        (b'{"object": "error", "message": "no memory", "code": 500}', "no memory"),
        (b'[{"error": {"message": "in a list"}}]', "in a list"),
        (
            b'{"error": {"message": "Upstream", "metadata": {"raw": "it fell"}}}',
            "Upstream: it fell",
        ),
        (b'{"unknown": [1]}', '{"unknown": [1]}'),
        (b'{"error": {"status": 7}}', '{"status": 7}'),
        (b'{"detail": "Not here"}', "Not here"),
        (b'{"detail": [7]}', "[7]"),
        (b'{"message": {"detail": [{"loc": ["a"], "msg": "wrapped"}]}}', "a: wrapped"),
        (b'"a text"', "a text"),
        (b"7", "7"),
        (b"\xff\xfe\x00", "\ufffd"),
        (b"[" * 100_000, "[[["),
        (b"x" * 10_000_000, "xxx …"),
    ],
)
def test_whatever_a_proxy_says_is_told_in_short(body: bytes, said: str) -> None:
    with serving(say(http("502 Bad Gateway", body))) as served:
        failure = failure_of(model_of(served.url, retries=0))
    assert (failure.status, failure.retryable) == (502, True)
    assert said in failure.message
    assert len(failure.message) < 1200


def test_an_error_whose_body_breaks_off_is_told_by_what_came() -> None:
    head = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 100\r\n\r\n"
    with serving(say(head + b"you cannot")) as served:
        failure = failure_of(model_of(served.url))
    assert failure.status == 400
    assert failure.message.endswith(": you cannot")


def test_an_error_whose_body_does_not_come_is_told_by_its_status() -> None:
    with serving(hang(b"HTTP/1.1 401 No\r\ncontent-length: 9\r\n\r\n")) as served:
        failure = failure_of(model_of(served.url, timeout=0.2))
        assert len(served.requests) == 1
    assert (failure.status, failure.code) == (401, "unauthorized")


def test_a_redirect_is_not_followed_since_the_key_would_go_along() -> None:
    with serving(say(http("200 OK"))) as elsewhere:
        target = f"{elsewhere.url}/v1/messages?token=abc"
        with serving(say(http("307 Temporary Redirect", location=target))) as served:
            failure = failure_of(model_of(served.url))
        assert elsewhere.requests == []
    assert (failure.code, failure.status, failure.retryable) == ("redirect", 307, False)
    assert elsewhere.url in failure.message
    assert "token=abc" not in failure.message


def test_headers_alone_are_no_sign_of_life() -> None:
    with serving(hang(HEAD + b"\r\n")) as served:
        failure = failure_of(model_of(served.url, timeout=0.1, retries=0))
    assert failure.code == "timeout"


def test_half_an_event_is_not_waited_for_longer_than_between_two_pieces() -> None:
    with serving(hang(HEAD + b"\r\nevent: message_st")) as served:
        timeout = Timeouts(first_byte=15, idle=0.1)
        failure = failure_of(model_of(served.url, timeout=timeout, retries=0))
    assert failure.message == "anthropic:some-model sent nothing for 0.1 s"


def test_comments_and_pings_are_signs_of_life() -> None:
    """They come in time, though the first event does not."""

    def slowly(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"connection: close\r\n\r\n")
        for sign in (b": processing\n\n", b'event: ping\ndata: {"type": "ping"}\n\n') * 3:
            connection.sendall(sign)
            time.sleep(0.1)
        connection.sendall(ANTHROPIC)

    with serving(slowly) as served:
        assert answer_to(served, timeout=0.4, retries=0)[-1] == "turn_completed"


def test_an_error_after_a_ping_is_in_front_of_the_answer() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    failed = b'event: ping\ndata: {"type": "ping"}\n\n' + sse([error])
    with serving(say(http("200 OK", failed)), say(http("200 OK", ANTHROPIC))) as served:
        assert answer_to(served)[-1] == "turn_completed"


@pytest.mark.parametrize("talk", [reset, say(b""), say(b"HTTP/1.1 200"), say(b"nonsense\r\n\r\n")])
def test_a_connection_that_ends_without_an_answer_is_tried_again(talk: Talk) -> None:
    with serving(talk, say(http("200 OK", ANTHROPIC))) as served:
        assert answer_to(served)[-1] == "turn_completed"
        assert len(served.requests) == 2


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    waits = Waits()
    failure = failure_of(model_of(f"http://127.0.0.1:{port}", retries=waits.retries()))
    assert (failure.code, failure.retryable) == ("connection_failed", True)
    assert f"cannot connect to http://127.0.0.1:{port}" in failure.message
    assert waits.seconds == [0.5, 1.0, 2.0]


def test_an_empty_answer_is_tried_again() -> None:
    with serving(say(http("200 OK"))) as served:
        failure = failure_of(model_of(served.url))
        assert len(served.requests) == 4
    assert (failure.code, failure.retryable) == ("empty_answer", True)


def test_a_page_instead_of_a_stream_is_told() -> None:
    page = b"<html><title>Sign in</title></html>"
    with serving(say(http("200 OK", page, content_type="text/html"))) as served:
        failure = failure_of(model_of(served.url))
        assert len(served.requests) == 1
    assert failure.code == "not_a_stream"
    assert "'Sign in'" in failure.message


@pytest.mark.parametrize("layout", [None, 2])
def test_an_error_with_the_status_of_a_success_is_an_error(layout: int | None) -> None:
    error = {"error": {"message": "The model is gone", "code": "model_gone"}}
    body = json.dumps(error, indent=layout).encode()
    with serving(say(http("200 OK", body, content_type="application/json"))) as served:
        failure = failure_of(model_of(served.url, "openai"))
    assert (failure.code, failure.status) == ("model_gone", 200)
    assert "The model is gone" in failure.message


def test_an_answer_that_is_not_streamed_is_read() -> None:
    with strict_provider(Reply("Hello")) as provider:
        body = whole_answer(provider)
    with serving(say(http("200 OK", body, content_type="application/json"))) as served:
        assert answer_to(served, "openai") == ["text_delta", "turn_completed"]


def whole_answer(provider: MockProvider) -> bytes:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    headers = {"authorization": "Bearer any"}
    url = f"{provider.openai_url}/chat/completions"
    return httpx2.post(url, json=body, headers=headers).content


def test_an_answer_that_is_compressed_is_read_and_not_asked_for() -> None:
    body = gzip.compress(ANTHROPIC)
    with serving(say(http("200 OK", body, content_encoding="gzip"))) as served:
        assert answer_to(served)[-1] == "turn_completed"
        assert b"accept-encoding: identity" in served.requests[0].lower()


@pytest.mark.parametrize(("prefix", "body"), [("anthropic", ANTHROPIC), ("openai", CHAT)])
def test_an_answer_is_over_with_its_last_word(prefix: str, body: bytes) -> None:
    """Even if the connection then breaks off, wherever the last word was cut."""
    for cut in range(len(body) - 20, len(body), 5):
        with serving(say(chunked(body[:cut], body[cut:]))) as served:
            assert answer_to(served, prefix)[-1] == "turn_completed"


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("pings", [False, True])
def test_a_connection_that_stays_open_after_the_last_word_is_not_waited_for(
    line_end: bytes, pings: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("argstream.models._http._PATIENCE_AFTER", 0.1)

    def talk(connection: socket.socket) -> None:
        answer = chunked(CHAT.replace(b"\n", line_end))
        if not pings:
            return hang(answer)(connection)
        connection.sendall(answer)
        while True:  # until the client goes away
            connection.sendall(b"8\r\n: ping\n\n\r\n")
            time.sleep(0.05)

    with serving(talk) as served:
        started = time.monotonic()
        assert answer_to(served, "openai")[-1] == "turn_completed"
        assert time.monotonic() - started < 5


def test_a_last_word_in_the_middle_of_a_line_is_none() -> None:
    """A model may well write it, and a chunk may end just where only it is remembered."""
    text = "say data: [DONE] and then go on with more than what is remembered of a chunk"
    event = sse([{"choices": [{"index": 0, "delta": {"content": text}}]}])
    end = event.index(b"data: [DONE]") + 40
    first, _, _ = CHAT.partition(b"\n\n")
    with serving(say(chunked(first + b"\n\n", event[:end], event[end:]))) as served:
        failure = outcome(model_of(served.url, "openai")).failure
    assert failure is not None
    assert failure.code == "connection_lost"


def test_an_answer_of_nothing_but_white_space_is_none() -> None:
    with serving(hang(HEAD + b"\r\n" + b"\n" * 20_000)) as served:
        failure = failure_of(model_of(served.url, "openai"))
        assert len(served.requests) == 1
    assert failure.code == "not_a_stream"
    assert "It is nothing but white space" in failure.message


@pytest.mark.timing
@pytest.mark.parametrize(
    "unit", ["<script ", "<style>", "<!--", "<", "<title", "</title", "a", "a-", "a*", ".."]
)
def test_a_hostile_text_is_read_in_no_time(unit: str) -> None:
    body = "<" + unit * (60_000 // len(unit))
    with serving(say(http("502 Bad Gateway", body.encode()))) as served:
        started = time.process_time()
        failure_of(model_of(served.url, retries=0))
        assert time.process_time() - started < 0.5


def test_a_first_event_is_not_held_back_until_the_second() -> None:
    async def read() -> bytes:
        source = model_of(served.url, timeout=5).stream(REQUEST)
        first = await anext(source)
        await source.aclose()
        return first

    first = sse(anthropic_call("{}")[:1])
    with serving(hang(chunked(first))) as served:
        assert run(read()) == first


def test_what_looks_like_the_beginning_of_a_key_is_not_lost() -> None:
    body = BODY_WITHOUT_END + KEY[:7].encode()
    with serving(say(http("200 OK", body))) as served:
        received = run(bytes_of(model_of(served.url)))
    assert received == body


async def bytes_of(model: HttpModel) -> bytes:
    return b"".join([chunk async for chunk in model.stream(REQUEST)])


def test_a_long_first_event_is_let_through() -> None:
    long = b'data: {"type": "ping", "padding": "' + b"x" * 3_000_000
    with serving(hang(chunked(long))) as served:
        found = run(outcome_async(model_of(served.url, timeout=Timeouts(idle=0.2))))
    assert found.failure is not None
    assert found.failure.code == "timeout"
    assert len(served.requests) == 1


def test_an_event_that_repeats_the_key_is_told_without_it() -> None:
    message = f"bad {KEY}{KEY[:5]} b {KEY[:9]}{KEY}"
    error: Any = {"type": "error", "error": {"type": "x", "message": message}}
    body = sse([*anthropic_call("{}")[:2], error])
    middle = body.index(KEY.encode()) + 9
    for pieces in ([body], [body[:middle], body[middle:]], [bytes([byte]) for byte in body]):
        with serving(say(chunked(*pieces) + b"0\r\n\r\n")) as served:
            found = outcome(model_of(served.url))
        assert isinstance(found.events[-1], StreamFailed)
        assert found.events[-1].message == f"bad [removed]{KEY[:5]} b {KEY[:9]}[removed]"
