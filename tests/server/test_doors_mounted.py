"""The doors inside somebody else's app, and before what is no request."""

import asyncio
import json
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Message, Scope

from argstream.errors import UsageError
from argstream.server._tokens import token_cookie
from argstream.server.doors import Doors
from argstream.server.guarding import Guard
from argstream.server.problems import Problem

TOKEN = "a-token-nobody-guesses"


def exchange(app: ASGIApp, scope: Scope, *received: Message) -> list[Message]:
    """Have an app answer, without a server around it."""
    sent: list[Message] = []
    waiting = list(received)

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    async def answer() -> None:
        await app(scope, receive, send)

    asyncio.run(answer())
    return sent


def request(path: str, method: str = "GET", **headers: str) -> Scope:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": "",
        "query_string": b"",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "headers": [
            (b"host", b"localhost"),
            *((name.encode(), value.encode()) for name, value in headers.items()),
        ],
    }


def told(sent: list[Message]) -> tuple[int, Any]:
    return sent[0]["status"], json.loads(sent[1]["body"])


async def _health(_: Request) -> Response:
    return PlainTextResponse('"well"')


async def _read(incoming: Request) -> Response:
    return PlainTextResponse((await incoming.body()).decode())


async def _fail(_: Request) -> Response:
    raise UsageError("not like this")


ROUTES = [
    Route("/healthz", _health),
    Route("/read", _read, methods=["POST"]),
    Route("/fails", _fail),
]


def mounted(doors: Doors) -> Starlette:
    def own_words(_: Request, __: Exception) -> Response:
        return PlainTextResponse("the host app's own words", 404)

    inside = Guard(Router(ROUTES), doors)
    return Starlette(
        routes=[Mount("/agent", inside)],
        exception_handlers=dict.fromkeys((404, ValueError), own_words),
    )


def test_what_is_open_is_open_there_too() -> None:
    app = mounted(Doors(token=TOKEN))
    assert told(exchange(app, request("/agent/healthz"))) == (200, "well")
    assert told(exchange(app, request("/agent/other")))[0] == 401


def test_problems_are_told_in_our_words_inside_and_in_the_host_apps_outside() -> None:
    app = mounted(Doors())
    status, problem = told(exchange(app, request("/agent/other")))
    assert (status, problem["type"]) == (404, "urn:argstream:not-found")
    status, problem = told(exchange(app, request("/agent/fails")))
    assert (status, problem["detail"]) == (422, "not like this")
    assert exchange(app, request("/other"))[1]["body"] == b"the host app's own words"


def test_the_host_app_may_refuse_a_user_in_its_own_way() -> None:
    def user(_: Request) -> str:
        raise Problem(401, "log-in-first", "log in at /login")

    status, problem = told(exchange(mounted(Doors(user=user)), request("/agent/x")))
    assert (status, problem["detail"]) == (401, "log in at /login")


def test_cookies_may_come_in_several_headers() -> None:
    scope = request("/no/such", cookie="a=b")
    cookie = token_cookie(TOKEN).partition(";")[0]
    scope["headers"].append((b"cookie", cookie.encode()))
    assert told(exchange(Guard(Router(ROUTES), Doors(token=TOKEN)), scope))[0] == 404


def test_there_are_no_sockets() -> None:
    scope = {**request("/agent/healthz"), "type": "websocket"}
    sent = exchange(Guard(Router(ROUTES)), scope, {"type": "websocket.connect"})
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_the_begin_and_the_end_are_passed_on() -> None:
    sent = exchange(
        Guard(Router(ROUTES)),
        {"type": "lifespan"},
        {"type": "lifespan.startup"},
        {"type": "lifespan.shutdown"},
    )
    assert [message["type"] for message in sent] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]


def test_who_has_gone_is_told_nothing() -> None:
    scope = request("/read", "POST", **{"content-type": "application/json"})
    assert exchange(Guard(Router(ROUTES)), scope, {"type": "http.disconnect"}) == []


def test_a_failure_after_the_head_hangs_up() -> None:
    async def half(scope: Scope, receive: Any, send: Any) -> None:  # noqa: ARG001 - as it is called
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ClientDisconnect if scope["method"] == "HEAD" else OSError("in the middle")

    for method in ("GET", "HEAD"):
        sent = exchange(Guard(half), request("/", method))
        assert [message["type"] for message in sent] == ["http.response.start"]
