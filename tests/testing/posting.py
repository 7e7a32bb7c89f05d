"""Requests to a mock provider, sent without a client library."""

import http.client
import json
from typing import Any

from argstream.testing import CallTool, MockProvider, Reply, Say, Think

KEY = "sk-very-secret"
USER = {"role": "user", "content": "hi"}
HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": KEY, "authorization": f"Bearer {KEY}"}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/messages": {"model": "m", "max_tokens": 9, "messages": [USER]},
    "/v1/chat/completions": {"model": "m", "messages": [USER]},
    "/v1/responses": {"model": "m", "input": [USER]},
}
ROUTES = list(BODIES)
SCRIPT = Reply(Think("Hm – é."), Say("Hello 😀."), CallTool("add", {"a": 1, "é": [2, "😀"]}))


def post(
    provider: MockProvider,
    path: str,
    body: object = None,
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
    streamed: bool = False,
) -> tuple[int, dict[str, str], bytes]:
    host, port = provider.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    if body is None:
        body = {**BODIES.get(path, {}), "stream": streamed}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request(method, path, data, HEADERS if headers is None else headers)
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    finally:
        connection.close()
