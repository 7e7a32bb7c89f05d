"""stream() reads the responses of HTTP libraries and SDKs from a real server."""

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import Any
from urllib.request import Request, urlopen

import aiohttp
import httpx
import httpx2
import httpx_sse
import pytest
import requests

from argstream import stream
from argstream.events import StreamFailed
from argstream.testing import CallTool, MockProvider, Reply, Split, Status
from tests.models.over_http import serving
from tests.provider_streams import anthropic_call, outcomes, sse
from tests.streaming.faces import collect

ARGUMENTS = {"path": "a.py", "content": 'print("é😀")\n' * 20}
HEADERS = {
    "content-type": "application/json",
    "x-api-key": "any",
    "anthropic-version": "2023-06-01",
    "authorization": "Bearer any",
}
MESSAGES: Any = [{"role": "user", "content": "hi"}]
BODY: Any = {"model": "any", "max_tokens": 100, "stream": True, "messages": MESSAGES}
REQUEST: Any = {"json": BODY, "headers": HEADERS}


@pytest.fixture(params=["messages", "chat/completions"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    reply = Reply(CallTool("write", ARGUMENTS))
    with MockProvider(reply, faults=[Split((3, 500, 40))]) as provider:
        yield f"{provider.url}/v1/{request.param}"


def arguments(source: Any) -> object:
    events = stream(source)
    assert list(events)[-1].type == "turn_completed"
    return outcomes(events.calls)[0]


def by_httpx(url: str) -> AbstractContextManager[httpx.Response]:
    return httpx.stream("POST", url, verify=False, **REQUEST)


def by_requests(url: str) -> requests.Response:
    return requests.post(url, stream=True, timeout=20, **REQUEST)


def by_urllib(url: str) -> Any:
    return urlopen(Request(url, json.dumps(BODY).encode(), HEADERS), timeout=20)


@contextmanager
def by_httpx_sse(url: str) -> Iterator[Any]:
    with ExitStack() as stack:
        client = stack.enter_context(httpx.Client(verify=False))
        yield stack.enter_context(httpx_sse.connect_sse(client, "POST", url, **REQUEST)).iter_sse()


@contextmanager
def by_httpx2(url: str) -> Iterator[Any]:
    with httpx2.Client(verify=False) as client, client.stream("POST", url, **REQUEST) as response:
        yield response


@contextmanager
def by_http_client(url: str) -> Iterator[Any]:
    host, _, path = url.removeprefix("http://").partition("/")
    with closing(http.client.HTTPConnection(host, timeout=20)) as connection:
        connection.request("POST", f"/{path}", json.dumps(BODY), HEADERS)
        yield connection.getresponse()


@pytest.mark.parametrize(
    ("fetch", "method"),
    [
        (by_httpx, ""),
        (by_httpx, "iter_lines"),
        (by_httpx, "iter_text"),
        (by_httpx_sse, ""),
        (by_httpx2, ""),
        (by_requests, ""),
        (by_requests, "iter_lines"),
        (by_urllib, ""),
        (by_http_client, ""),
    ],
)
def test_sync_response_is_read(fetch: Callable[[str], Any], method: str, url: str) -> None:
    with fetch(url) as response:
        assert arguments(getattr(response, method)() if method else response) == ARGUMENTS


async def test_async_responses_are_read(url: str) -> None:
    async def arguments(source: Any) -> object:
        events = stream(source)
        assert (await collect(events))[-1].type == "turn_completed"
        return outcomes(events.calls)[0]

    async with httpx.AsyncClient(verify=False) as client, aiohttp.ClientSession() as session:
        for method in ("", "aiter_bytes", "aiter_lines"):
            async with client.stream("POST", url, **REQUEST) as response:
                source = getattr(response, method)() if method else response
                assert await arguments(source) == ARGUMENTS
        async with session.post(url, **REQUEST) as answer:
            assert await arguments(answer) == ARGUMENTS
        async with session.post(url, **REQUEST) as answer:
            assert await arguments(answer.content) == ARGUMENTS
        for request in (client.stream("POST", url, **REQUEST), session.post(url, **REQUEST)):
            assert await arguments(request) == ARGUMENTS


@pytest.mark.parametrize("chunked", [True, False])
def test_response_of_requests_is_live(chunked: bool) -> None:
    """If the server sends the body in chunks, and if it sends its length before."""
    go_on = threading.Event()
    body = sse(anthropic_call('{"a":', "1}"))
    first = body.index(b"event: content_block_stop")
    pieces, head, end = [body[:first], body[first:]], f"content-length: {len(body)}", b""
    if chunked:
        pieces = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
        head, end = "transfer-encoding: chunked", b"0\r\n\r\n"

    def talk(connection: socket.socket) -> None:
        connection.sendall(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode() + pieces[0])
        assert go_on.wait(30)
        connection.sendall(pieces[1] + end)

    with serving(talk) as served, requests.get(served.url, stream=True, timeout=30) as response:
        events = stream(response)
        seen = [next(events).type, next(events).type]
        assert seen == ["tool_call_started", "tool_args_delta"]
        go_on.set()
        assert list(events)[-1].type == "turn_completed"


def test_raw_responses_of_the_sdks_are_read(url: str) -> None:
    import anthropic
    import openai

    base = url.partition("/v1/")[0]
    asked: Any = {"model": "m", "messages": MESSAGES, "stream": True}
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
def test_error_response_is_a_retryable_failure(path: str) -> None:
    with (
        MockProvider(Reply(), faults=[Status(429)]) as provider,
        by_httpx(f"{provider.url}/v1/{path}") as response,
    ):
        (event,) = list(stream(response))
    assert isinstance(event, StreamFailed)
    assert event.retryable
