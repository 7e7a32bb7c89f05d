"""stream() reads the response of every HTTP library that people use, from a real server."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen

import aiohttp
import anthropic
import httpx
import httpx2
import httpx_sse
import openai
import pytest
import requests

from argstream import stream
from argstream.events import StreamFailed
from argstream.testing import CallTool, MockProvider, Reply, Split, Status
from tests.provider_streams import anthropic_call, sse
from tests.streaming.faces import collect

ARGUMENTS = {"path": "a.py", "content": 'print("é😀")\n' * 20}
HEADERS = {
    "content-type": "application/json",
    "x-api-key": "any",
    "anthropic-version": "2023-06-01",
    "authorization": "Bearer any",
}
BODY: Any = {
    "model": "any",
    "max_tokens": 100,
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
}


@pytest.fixture(params=["messages", "chat/completions"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with MockProvider(
        Reply(CallTool("write", ARGUMENTS)), faults=[Split((3, 500, 40))]
    ) as provider:
        yield f"{provider.url}/v1/{request.param}"


def arguments(source: Any) -> object:
    events = stream(source)
    assert list(events)[-1].type == "turn_completed"
    (call,) = events.calls
    return call.arguments


def by_httpx(url: str) -> AbstractContextManager[httpx.Response]:
    return httpx.stream("POST", url, json=BODY, headers=HEADERS)


def by_requests(url: str) -> requests.Response:
    return requests.post(url, json=BODY, headers=HEADERS, stream=True, timeout=20)


@contextmanager
def by_httpx_sse(url: str) -> Iterator[Any]:
    with (
        httpx.Client() as client,
        httpx_sse.connect_sse(client, "POST", url, json=BODY, headers=HEADERS) as source,
    ):
        yield source.iter_sse()


@contextmanager
def by_httpx2(url: str) -> Iterator[Any]:
    with (
        httpx2.Client() as client,
        client.stream("POST", url, json=BODY, headers=HEADERS) as response,
    ):
        yield response


@contextmanager
def by_http_client(url: str) -> Iterator[Any]:
    host, _, path = url.removeprefix("http://").partition("/")
    with closing(http.client.HTTPConnection(host, timeout=20)) as connection:
        connection.request("POST", f"/{path}", json.dumps(BODY), HEADERS)
        yield connection.getresponse()


RESPONSES: dict[str, tuple[Callable[[str], Any], Callable[[Any], Any]]] = {
    "httpx": (by_httpx, lambda response: response),
    "httpx, lines": (by_httpx, lambda response: response.iter_lines()),
    "httpx, text": (by_httpx, lambda response: response.iter_text()),
    "httpx-sse": (by_httpx_sse, lambda source: source),
    "httpx2": (by_httpx2, lambda response: response),
    "requests": (by_requests, lambda response: response),
    "requests, lines": (by_requests, lambda response: response.iter_lines()),
    "urllib": (
        lambda url: urlopen(Request(url, json.dumps(BODY).encode(), HEADERS), timeout=20),
        lambda response: response,
    ),
    "http.client": (by_http_client, lambda response: response),
}


@pytest.mark.parametrize(("fetch", "read"), RESPONSES.values(), ids=RESPONSES)
def test_sync_responses_are_read(
    fetch: Callable[[str], Any], read: Callable[[Any], Any], url: str
) -> None:
    with fetch(url) as response:
        assert arguments(read(response)) == ARGUMENTS


def test_a_response_that_was_not_entered_is_read(url: str) -> None:
    assert arguments(by_httpx(url)) == ARGUMENTS


async def test_async_responses_are_read(url: str) -> None:
    async def arguments(source: Any) -> object:
        events = stream(source)
        assert (await collect(events))[-1].type == "turn_completed"
        return events.calls[0].arguments

    request: Any = {"json": BODY, "headers": HEADERS}
    async with httpx.AsyncClient() as client, aiohttp.ClientSession() as session:
        for read in ("__self__", "aiter_bytes", "aiter_lines"):
            async with client.stream("POST", url, **request) as response:
                source = response if read == "__self__" else getattr(response, read)()
                assert await arguments(source) == ARGUMENTS
        assert await arguments(client.stream("POST", url, **request)) == ARGUMENTS
        async with session.post(url, **request) as answer:
            assert await arguments(answer) == ARGUMENTS
        async with session.post(url, **request) as answer:
            assert await arguments(answer.content) == ARGUMENTS
        assert await arguments(session.post(url, **request)) == ARGUMENTS


@pytest.mark.parametrize("chunked", [True, False])
def test_a_response_of_requests_is_live(chunked: bool) -> None:
    """Whether the server says how long the body is, or sends it in chunks."""
    go_on = threading.Event()
    body = sse(anthropic_call('{"a":', "1}"))
    first = body.index(b"event: content_block_stop")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            if chunked:
                self.send_header("transfer-encoding", "chunked")
            else:
                self.send_header("content-length", str(len(body)))
            self.end_headers()
            for part in (body[:first], body[first:]):
                head, tail = (f"{len(part):x}\r\n".encode(), b"\r\n") if chunked else (b"", b"")
                self.wfile.write(head + part + tail)
                go_on.wait(10)
            if chunked:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            with requests.get(address, stream=True, timeout=10) as response:
                events = stream(response)
                seen = [next(events).type, next(events).type]
                assert seen == ["tool_call_started", "tool_args_delta"]
                go_on.set()
                assert list(events)[-1].type == "turn_completed"
        finally:
            go_on.set()
            server.shutdown()
            thread.join()


def test_leaving_early_closes_the_connection(url: str) -> None:
    with by_httpx(url) as response:
        with stream(response) as events:
            next(event for event in events if event.type == "tool_call_started")
        assert response.is_closed
    assert [call.verdict for call in events.calls] == ["aborted"]


def test_raw_responses_of_the_sdks_are_read(url: str) -> None:
    base = url.partition("/v1/")[0]
    asked: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    with (
        anthropic.Anthropic(base_url=base, api_key="any") as claude,
        openai.OpenAI(base_url=f"{base}/v1", api_key="any") as gpt,
    ):
        for source in (
            claude.messages.with_raw_response.create(max_tokens=9, **asked),
            claude.messages.with_streaming_response.create(max_tokens=9, **asked),
            gpt.chat.completions.with_raw_response.create(**asked),
            gpt.chat.completions.with_streaming_response.create(**asked),
            gpt.responses.with_raw_response.create(model="m", input="hi", stream=True),
        ):
            assert arguments(source) == ARGUMENTS


@pytest.mark.parametrize("path", ["messages", "chat/completions"])
def test_an_error_of_the_provider_is_read_from_its_body(path: str) -> None:
    with (
        MockProvider(Reply(), faults=[Status(429)]) as provider,
        by_httpx(f"{provider.url}/v1/{path}") as response,
    ):
        (event,) = list(stream(response))
        assert isinstance(event, StreamFailed)
        assert event.retryable
