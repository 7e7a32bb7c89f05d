"""stream() reads the response of every HTTP library that people use, from a real server."""

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator
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
from argstream.events import Event, StreamFailed
from argstream.testing import CallTool, MockProvider, Reply, Split, Status
from tests.providers import anthropic_call, sse

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


def by_httpx(url: str) -> object:
    with httpx.stream("POST", url, json=BODY, headers=HEADERS) as response:
        return arguments(response)


def by_httpx_unentered(url: str) -> object:
    return arguments(httpx.stream("POST", url, json=BODY, headers=HEADERS))


def by_httpx_lines(url: str) -> object:
    with httpx.stream("POST", url, json=BODY, headers=HEADERS) as response:
        return arguments(response.iter_lines())


def by_httpx_text(url: str) -> object:
    with httpx.stream("POST", url, json=BODY, headers=HEADERS) as response:
        return arguments(response.iter_text())


def by_httpx_sse(url: str) -> object:
    with (
        httpx.Client() as client,
        httpx_sse.connect_sse(client, "POST", url, json=BODY, headers=HEADERS) as source,
    ):
        return arguments(source.iter_sse())


def by_httpx2(url: str) -> object:
    with (
        httpx2.Client() as client,
        client.stream("POST", url, json=BODY, headers=HEADERS) as response,
    ):
        return arguments(response)


def by_requests(url: str) -> object:
    with requests.post(url, json=BODY, headers=HEADERS, stream=True, timeout=20) as response:
        return arguments(response)


def by_requests_lines(url: str) -> object:
    with requests.post(url, json=BODY, headers=HEADERS, stream=True, timeout=20) as response:
        return arguments(response.iter_lines())


def by_urllib(url: str) -> object:
    request = Request(url, json.dumps(BODY).encode(), HEADERS)
    with urlopen(request, timeout=20) as response:
        return arguments(response)


def by_http_client(url: str) -> object:
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=20)
    try:
        connection.request("POST", f"/{path}", json.dumps(BODY), HEADERS)
        return arguments(connection.getresponse())
    finally:
        connection.close()


@pytest.mark.parametrize(
    "fetch",
    [
        by_httpx,
        by_httpx_unentered,
        by_httpx_lines,
        by_httpx_text,
        by_httpx_sse,
        by_httpx2,
        by_requests,
        by_requests_lines,
        by_urllib,
        by_http_client,
    ],
)
def test_sync_responses_are_read(fetch: Callable[[str], object], url: str) -> None:
    assert fetch(url) == ARGUMENTS


def test_async_responses_are_read(url: str) -> None:
    async def arguments(source: Any) -> object:
        events = stream(source)
        found = [event async for event in events]
        assert found[-1].type == "turn_completed"
        return events.calls[0].arguments

    async def run() -> list[object]:
        results = []
        async with httpx.AsyncClient() as client:
            async with client.stream("POST", url, json=BODY, headers=HEADERS) as response:
                results.append(await arguments(response))
            async with client.stream("POST", url, json=BODY, headers=HEADERS) as response:
                results.append(await arguments(response.aiter_bytes()))
            async with client.stream("POST", url, json=BODY, headers=HEADERS) as response:
                results.append(await arguments(response.aiter_lines()))
            results.append(await arguments(client.stream("POST", url, json=BODY, headers=HEADERS)))
        async with aiohttp.ClientSession() as session:
            async with session.post(url, json=BODY, headers=HEADERS) as answer:
                results.append(await arguments(answer))
            async with session.post(url, json=BODY, headers=HEADERS) as answer:
                results.append(await arguments(answer.content))
            results.append(await arguments(session.post(url, json=BODY, headers=HEADERS)))
        return results

    assert asyncio.run(run()) == [ARGUMENTS] * 7


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
    with httpx.stream("POST", url, json=BODY, headers=HEADERS) as response:
        with stream(response) as events:
            for event in events:
                if event.type == "tool_call_started":
                    break
        assert response.is_closed
    assert [call.verdict for call in events.calls] == ["aborted"]


def test_raw_responses_of_the_sdks_are_read(url: str) -> None:
    key = "any"
    base = url.partition("/v1/")[0]
    message: Any = {"role": "user", "content": "hi"}
    claude = anthropic.Anthropic(base_url=base, api_key=key)
    gpt = openai.OpenAI(base_url=f"{base}/v1", api_key=key)
    with claude, gpt:
        sources = [
            claude.messages.with_raw_response.create(
                model="m", max_tokens=9, messages=[message], stream=True
            ),
            claude.messages.with_streaming_response.create(
                model="m", max_tokens=9, messages=[message], stream=True
            ),
            gpt.chat.completions.with_raw_response.create(
                model="m", messages=[message], stream=True
            ),
            gpt.chat.completions.with_streaming_response.create(
                model="m", messages=[message], stream=True
            ),
            gpt.responses.with_raw_response.create(model="m", input="hi", stream=True),
        ]
        assert [arguments(source) for source in sources] == [ARGUMENTS] * 5


def test_an_error_of_the_provider_is_read_from_its_body() -> None:
    with MockProvider(Reply(), faults=[Status(429)]) as provider:

        def events(path: str) -> list[Event]:
            with httpx.stream(
                "POST", f"{provider.url}/v1/{path}", json=BODY, headers=HEADERS
            ) as response:
                return list(stream(response))

        for path in ("messages", "chat/completions"):
            (event,) = events(path)
            assert isinstance(event, StreamFailed)
            assert event.retryable
