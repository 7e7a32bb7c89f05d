"""The doors inside somebody else's app, before what is no request, and what gets out of them."""

import asyncio
import json
import logging
import re
import time
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount
from starlette.types import Message

from argstream.errors import StoreFailure
from argstream.events import RunStarted, TextDelta
from argstream.runs import Record
from argstream.server import token_cookie
from tests.server.raw import (
    Answer,
    Asked,
    TroubledStore,
    ask,
    call,
    exchange,
    scope_of,
    serving,
    statuses,
)
from tests.server.watching import RUN, Feeding

TOKEN = "canary-token-0001"
WRONG = "canary-wrong-0002"
QUERY = "canary-query-0003"
CODED = "canary%2Dquery-%30004"


def told(sent: list[Message]) -> tuple[int, Any]:
    return sent[0]["status"], json.loads(sent[1]["body"])


def kinds(sent: list[Message]) -> list[str]:
    return [message["type"] for message in sent]


def mounted(**doors: Any) -> Starlette:
    def own_words(_: Request, __: Exception) -> Response:
        return PlainTextResponse("the host app's own words", 404)

    return Starlette(
        routes=[Mount("/agent", Asked(**doors).app)],
        exception_handlers=dict.fromkeys((404, ValueError), own_words),
    )


def test_what_is_open_is_open_where_it_is_mounted() -> None:
    app = mounted(token=TOKEN)
    assert told(exchange(app, scope_of("/agent/healthz"))) == (200, {"status": "ok"})
    assert statuses(app, scope_of("/agent/other")) == [401]


def test_problems_are_told_in_our_words_inside_and_in_the_host_apps_outside() -> None:
    app = mounted()
    status, problem = told(exchange(app, scope_of("/agent/other")))
    assert (status, problem["type"]) == (404, "urn:argstream:not-found")
    status, problem = told(exchange(app, scope_of("/agent/api/runs?status=nice")))
    assert (status, problem["type"]) == (422, "urn:argstream:unusable")
    assert exchange(app, scope_of("/other"))[1]["body"] == b"the host app's own words"


def test_cookies_may_come_in_several_headers() -> None:
    scope = scope_of("/no/such", cookie="a=b")
    scope["headers"].append((b"cookie", token_cookie(TOKEN).partition(";")[0].encode()))
    assert statuses(Asked(token=TOKEN).app, scope) == [404]


def test_there_are_no_sockets() -> None:
    scope = {**scope_of("/healthz"), "type": "websocket"}
    assert kinds(exchange(Asked().app, scope, {"type": "websocket.connect"})) == ["websocket.close"]


def test_the_begin_and_the_end_are_passed_on() -> None:
    received: list[Message] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent = exchange(Asked().app, {"type": "lifespan"}, *received)
    assert kinds(sent) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_who_has_gone_is_told_nothing() -> None:
    scope = scope_of("/api/runs", "POST", content_type="application/json")
    assert exchange(Asked().app, scope, {"type": "http.disconnect"}) == []


class BreakingStore(TroubledStore):
    """A store whose disk breaks after the first page of a log."""

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        if after:
            raise ValueError("in the middle")
        return await super().read(run_id, after, limit)


def test_a_failure_after_the_head_hangs_up() -> None:
    asked = Asked(store=BreakingStore())
    words = (TextDelta(f"{number} ", 0) for number in range(150))
    asyncio.run(Feeding(asked.store).write(RunStarted(RUN, "Go"), *words))
    *sent, last = exchange(asked.app, scope_of(f"/api/runs/{RUN}/log"))
    assert kinds(sent)[0] == "http.response.start"
    assert kinds(sent).count("http.response.start") == 1
    assert last["more_body"] is True  # so the client knows that it is not all


# What gets out: no secret into a log, no trace into an answer, no line into a head


def test_no_secret_gets_into_a_log_or_an_answer_even_if_an_error_quotes_it(
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def user(request: Request) -> str:
        if request.url.path == "/fails":
            raise ValueError(f"failed with {request.headers.raw} at {request.url}")
        return "ada"

    caplog.set_level(1)  # everything that anybody logs, also uvicorn and asyncio
    cookie = token_cookie(TOKEN).partition(";")[0]
    answers: list[Answer] = []
    with serving(token=TOKEN, user=user) as (_, port):
        monkeypatch.setattr(logging.getLogger("uvicorn.access"), "handlers", [caplog.handler])
        for path in ("/fails", "/api/runs", "/no/such"):
            path_with_query = f"{path}?access_token={QUERY}&x={QUERY}%20more&{CODED}&y={CODED}"
            answers += [
                call(port, path=path_with_query, **headers)
                for headers in (
                    {"authorization": f"Bearer {TOKEN}"},
                    {"authorization": f"Bearer {WRONG}"},
                    {"cookie": cookie},
                    {"cookie": cookie, "origin": f"http://127.0.0.1:{port}"},
                    {"host": f"{WRONG}.example"},
                )
            ]
        body = {"message": [WRONG]}
        answers.append(call(port, "POST", body=body, authorization=f"Bearer {TOKEN}"))
    assert {answer.status for answer in answers} == {200, 401, 403, 404, 422, 500}
    assert "user= raised ValueError: failed with" in caplog.text
    shown = caplog.text + "".join(capfd.readouterr()) + str(answers)
    for secret in (TOKEN, WRONG, QUERY, CODED, "canary-query-0004", cookie.partition("=")[2]):
        assert secret not in shown


def test_no_trace_gets_into_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as (asked, port):
        asked.store.error = ValueError("a fault of ours")
        failed = call(port)
    assert failed.refusal == (500, "internal-error")
    for word in (b"Traceback", b"ValueError", b"fault", b".py"):
        assert word not in failed.body
    assert "Traceback" in caplog.text
    assert {record.name for record in caplog.records} == {"argstream.server"}


def test_a_store_that_fails_is_a_line_in_the_log_and_fixed_words_for_clients(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving() as (asked, port):
        asked.store.error = StoreFailure(f"cannot write\nto /srv/canary.db at {QUERY}")
        failed = call(port, path=f"/api/runs?{QUERY}")
    assert failed.refusal == (503, "store-failure")
    assert failed.detail == "the store does not work just now: come again later"
    [line] = caplog.messages
    assert line.endswith("503 store-failure: cannot write to /srv/canary.db at [removed]")


def test_each_request_is_a_line_for_who_wants_to_see_them(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as (_, port):
        call(port, path=f"/api/runs?{QUERY}")
        assert not caplog.messages
        caplog.set_level(logging.DEBUG, "argstream.server")
        call(port, path=f"/api/runs?{QUERY}")
        call(port, path="/no%0a/such")
        while len(caplog.messages) < 2:
            time.sleep(0.01)
    one, other = caplog.messages
    assert re.fullmatch(r"GET '/api/runs': 200 in \d+ ms", one)
    assert re.fullmatch(r"GET '/no\\n/such': 404 in \d+ ms", other)


@pytest.mark.parametrize(
    "line", ["%0d%0aset-cookie:%20a=b", "%0aevil", "%00", "%e2%80%a8", "\u0085"]
)
def test_ids_cannot_add_a_header_nor_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture, line: str
) -> None:
    with serving() as (_, port):
        body = {"message": "Hi", "conversation": unquote(line)}
        answers = [call(port, path=f"{path}{line}") for path in ("/api/runs/", "/no/")]
        answers.append(call(port, "POST", "/api/converse", body))
    for answer in answers:
        assert "set-cookie" not in answer.headers
        assert answer.status in (200, 400, 404, 422)
    assert not any(text.startswith(("evil", "set-cookie")) for text in caplog.text.splitlines())


@pytest.mark.parametrize("byte", [b"\r", b"\n", b"\0", b"\r\n\r\nGET /fails HTTP/1.1\r\nx: "])
def test_a_header_ends_at_its_line(byte: bytes) -> None:
    head = b"GET /api/runs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nlast-event-id: 3"
    with serving() as (_, port):
        answer = ask(port, head + byte + b"4\r\n\r\n")
    assert answer.status in (200, 400)
    assert b"HTTP/1.1" not in answer.body
