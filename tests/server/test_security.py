"""Access: token, cookie, Host, Origin and user, over real sockets and inside another app."""

import asyncio
import logging
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Mount
from starlette.types import Message

from argstream.errors import StoreError, UsageError
from argstream.events import RunStarted, TextDelta
from argstream.runs import Record
from argstream.server import AgentServer, Limits, token_cookie
from tests.server import raw
from tests.server.raw import Asked, ask, call, serving
from tests.server.talking import Client, agent_for, eventually, hosted, problem, talking
from tests.server.watching import RUN, Feeding

TOKEN = "canary-token-0001"
BEARER = f"Bearer {TOKEN}"
WRONG = "canary-wrong-0002"
QUERY = "canary-query-0003"
CODED = "canary%2Dquery-%30004"
FRIEND = "http://friend.example:3000"
EVIL = "https://evil.example"
COOKIE = token_cookie(TOKEN).partition(";")[0]
NAME, _, VALUE = COOKIE.partition("=")
HEAD = b"GET /api/runs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"

Served = tuple[Asked, int]
Logs = pytest.LogCaptureFixture


@pytest.fixture(scope="module")
def closed() -> Iterator[Served]:
    limits = Limits(wrong_tokens_per_minute=1_000)
    with serving(token=TOKEN, origins=(FRIEND,), limits=limits) as served:
        yield served


@pytest.fixture
def port(closed: Served) -> int:
    closed[0].prompts.clear()
    return closed[1]


@pytest.fixture(scope="module")
def opened() -> Iterator[Served]:
    with serving() as served:
        yield served


@pytest.mark.parametrize(
    ("name", "values", "error"),
    [
        ("token", ["", "two words", "tab\t", "ünï", "a\n"], "visible ASCII"),
        ("token", ["x" * 15], "at least 16 characters"),
        ("hosts", [("http://a",), ("a:80",), ("a/b",), ("",), ("a.*",)], "is not a host name"),
        ("hosts", [("*",)], "Pass hosts=None"),
        ("hosts", ["example.com"], "must be a tuple"),
        ("origins", ["http://a"], "must be a tuple"),
        ("origins", [("*",)], "Pass token=… as well"),
        ("origins", [("a.b",), ("http://a/b",), ("ftp://a",), ("http://",)], "is not an origin"),
    ],
)
def test_invalid_options_raise(name: str, values: list[Any], error: str) -> None:
    for value in values:
        with pytest.raises(UsageError, match=error):
            Asked(**{name: value})


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ("authorization", [None, "", TOKEN, "Bearer", "Bearer ", f"Basic {TOKEN}"]),
        ("authorization", [BEARER[:-1], BEARER + "x", "Bearer é"]),
        ("cookie", [f"{NAME}={TOKEN}", f"{NAME}=", f"x{NAME}={VALUE}", f"{NAME}x={VALUE}", "; ;="]),
    ],
)
def test_request_without_the_token_is_401(port: int, header: str, values: list[Any]) -> None:
    for value in values:
        refused = call(port, **{header: value})
        assert refused.refusal == (401, "token-needed")
        assert refused.headers["www-authenticate"] == "bearer"


def test_cookie_has_its_own_name_per_token_and_hides_the_token() -> None:
    assert re.fullmatch(r"argstream_token_[0-9a-f]{8}", NAME)
    assert not token_cookie(f"{TOKEN}x").startswith(NAME)
    assert NAME.rpartition("_")[2] not in VALUE
    cookie = token_cookie(TOKEN, secure=True)
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
    assert TOKEN not in cookie


def test_token_admits_once_per_request_and_health_needs_none(closed: Served, port: int) -> None:
    assert call(port, authorization=BEARER).status == 200
    assert call(port, path="/no/such").problem == "token-needed"
    assert call(port, path="/no/such", authorization=BEARER).problem == "not-found"
    assert TOKEN not in repr(closed[0].app.access)
    twice = f"authorization: {BEARER}\r\nauthorization: Bearer other\r\n\r\n"
    assert ask(port, HEAD + twice.encode()).refusal == (400, "doubled-header")
    assert call(port, path="/healthz").status == 200
    assert call(port, path="/healthz", host="evil.example").problem == "wrong-host"
    assert call(port, "POST", path="/healthz", body={}).problem == "token-needed"


def test_cookie_admits_also_in_a_second_header(port: int) -> None:
    assert call(port, cookie=f"a=b; {COOKIE}; c=d").status == 200
    scope = raw.scope_of("/no/such", cookie="a=b")
    scope["headers"].append((b"cookie", COOKIE.encode()))
    assert raw.statuses(Asked(token=TOKEN).app, scope) == [404]


def test_cookie_allows_changes_only_from_the_servers_own_page(closed: Served, port: int) -> None:
    for origin in (None, FRIEND):
        refused = call(port, "POST", body=raw.BODY, cookie=COOKIE, origin=origin)
        assert refused.problem == "token-needed"
    assert closed[0].prompts == []
    own = f"http://127.0.0.1:{port}"
    assert call(port, "POST", body=raw.BODY, cookie=COOKIE, origin=own).status == 201


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "evil.example:80@localhost"),
        *("localhost:80:80", "localhost:", "localhost:x", "localhost/", "::1", "[::1", ""),
    ],
)
def test_other_host_is_refused_even_with_the_token(port: int, host: str) -> None:
    assert call(port, host=host, authorization=BEARER).refusal == (403, "wrong-host")


def test_wildcard_host_admits_subdomains_and_no_hosts_admit_all() -> None:
    for hosts, rows in (
        (("*.example.com",), {"a.example.com": 200, "A.B.EXAMPLE.com:80": 200, "example.com": 403}),
        (("::1",), {"[::1]:8000": 200, "::1": 403, "[0:0::1]": 403, "localhost": 403}),
        (None, {"any.example": 200, "": 200}),
    ):
        app = Asked(hosts=hosts).app
        scopes = [raw.scope_of("/healthz", host=host) for host in rows]
        assert raw.statuses(app, *scopes) == [*rows.values()]


def test_request_has_exactly_one_host_with_any_port(port: int) -> None:
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:80"):
        assert call(port, host=host, authorization=BEARER).status == 200
    assert ask(port, b"GET /healthz HTTP/1.0\r\n\r\n").problem == "wrong-host"
    twice = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n"
    assert ask(port, twice + b"connection: close\r\n\r\n").status == 400


@pytest.mark.parametrize(
    "origin",
    [
        *(EVIL, "null", "", f"{FRIEND}.evil.example", "http://friend.example"),
        *("https://127.0.0.1", "file://"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_other_origin_is_refused(closed: Served, port: int, origin: str, method: str) -> None:
    body = raw.BODY if method == "POST" else None
    refused = call(port, method, body=body, origin=origin, authorization=BEARER)
    assert refused.refusal == (403, "wrong-origin")
    assert "access-control-allow-origin" not in refused.headers
    assert closed[0].prompts == []


def test_own_origin_is_admitted_and_others_are_told_how_to_be(port: int) -> None:
    own = (f"127.0.0.1:{port}", f"http://127.0.0.1:{port}")
    for host, origin in (own, ("localhost:80", "http://localhost")):
        assert call(port, host=host, origin=origin, authorization=BEARER).status == 200
    refused = call(port, origin="http://localhost:3000", authorization=BEARER)
    assert 'origins=("http://localhost:3000",)' in refused.detail
    assert "--origin http://localhost:3000" in refused.detail
    assert call(port, origin='http://<script>"', authorization=BEARER).problem == "wrong-origin"
    assert "null" not in call(port, origin="null", authorization=BEARER).detail


def test_allowed_origin_may_read_the_answer(port: int) -> None:
    answer = call(port, origin=FRIEND, authorization=BEARER)
    assert answer.status == 200
    assert answer.headers["access-control-allow-credentials"] == "true"
    for header in ("etag", "x-vercel-ai-ui-message-stream"):
        assert header in answer.headers["access-control-expose-headers"]
    refused = call(port, origin=FRIEND)
    assert refused.problem == "token-needed"
    wanted = {"access_control_request_method": "POST"}
    private = {"access_control_request_private_network": "true"}
    preflight = call(port, "OPTIONS", origin=FRIEND, **wanted, **private)
    assert preflight.status == 200
    assert preflight.headers["access-control-allow-private-network"] == "true"
    assert preflight.headers["access-control-allow-methods"] == "get, post, patch, delete"
    for header in ("authorization", "content-type", "if-none-match", "last-event-id"):
        assert header in preflight.headers["access-control-allow-headers"]
    for one in (answer, refused, preflight):
        assert one.headers["access-control-allow-origin"] == FRIEND
    for one in (answer, call(port, authorization=BEARER)):
        assert one.headers["vary"] == "origin"
    assert "origin" in preflight.headers["vary"]


def test_preflight_for_what_is_not_allowed_says_so(port: int) -> None:
    method = call(port, "OPTIONS", origin=FRIEND, access_control_request_method="PUT")
    assert (method.status, method.body) == (400, b"Disallowed CORS method")
    wanted = {"access_control_request_method": "POST", "access_control_request_headers": "x-own"}
    header = call(port, "OPTIONS", origin=FRIEND, **wanted)
    assert (header.status, header.body) == (400, b"Disallowed CORS headers")
    refused = call(port, "OPTIONS", origin=EVIL, **wanted)
    assert f'origins=("{EVIL}",)' in refused.detail


def test_any_origin_is_admitted_without_cookies_and_a_listed_one_with_them() -> None:
    with serving(token=TOKEN, origins=("*", FRIEND)) as (_, port):
        answer = call(port, origin=EVIL, authorization=BEARER)
        listed = call(port, origin=FRIEND, authorization=BEARER)
        preflight = call(port, "OPTIONS", origin=EVIL, access_control_request_method="POST")
        refused = call(port, "POST", body=raw.BODY, cookie=COOKIE, origin=EVIL)
    for one in (answer, preflight):
        assert one.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in one.headers
    assert listed.headers["access-control-allow-origin"] == FRIEND
    assert listed.headers["access-control-allow-credentials"] == "true"
    assert refused.refusal == (401, "token-needed")


# Without a token, the headers that browsers set keep other sites out


@pytest.mark.parametrize(
    ("header", "values", "refusal"),
    [
        (
            "content_type",
            [
                *("text/plain", "application/x-www-form-urlencoded", "application/jsonp"),
                *("multipart/form-data; boundary=x", "text/plain; application/json", None),
            ],
            (415, "json-needed"),
        ),
        ("content_encoding", ["gzip"], (415, "encoded-body")),
        ("sec_fetch_site", ["cross-site"], (403, "wrong-origin")),
    ],
)
def test_other_sites_cannot_post(
    opened: Served, header: str, values: list[str | None], refusal: tuple[int, str]
) -> None:
    asked, port = opened
    asked.prompts.clear()
    for value in values:
        headers: Any = {header: value}
        assert call(port, "POST", body=raw.BODY, **headers).refusal == refusal
    assert asked.prompts == []


def test_other_sites_cannot_read_or_embed_but_may_link(opened: Served) -> None:
    refused = call(opened[1], sec_fetch_site="cross-site")
    assert refused.refusal == (403, "wrong-origin")
    assert call(opened[1], sec_fetch_site="cross-site", sec_fetch_mode="navigate").status == 200
    headers = call(opened[1]).headers
    assert headers["x-frame-options"] == "deny"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    kind = "Application/JSON; charset=utf-8"
    assert call(opened[1], "POST", body=raw.BODY, content_type=kind).status == 201
    assert call(opened[1], "DELETE", "/api/runs/none").problem == "unknown-run"  # needs no body


def refused_user(user: object) -> tuple[int, str]:
    """Post as the user that this function names. A refused request starts no run."""
    with serving(user=user) as (asked, port):
        answer = call(port, "POST", body=raw.BODY, x_user="ann")
    assert asked.prompts == []
    return answer.refusal


@pytest.mark.parametrize("is_async", [False, True])
def test_user_function_names_the_owner_of_a_run(caplog: Logs, *, is_async: bool) -> None:
    def user(request: Request) -> str:
        return request.headers["x-user"]

    async def user_async(request: Request) -> str:
        return user(request)

    with serving(user=user_async if is_async else user) as (asked, port):
        assert call(port, "POST", body=raw.BODY, x_user="ann").status == 201
        assert len(asyncio.run(asked.store.runs(user="ann"))) == 1
        assert call(port, x_user="").refusal == (401, "not-signed-in")
    assert refused_user(lambda _: None) == (401, "not-signed-in")
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("status", "code"), [(401, "not-signed-in"), (403, "not-allowed"), (418, "refused")]
)
def test_http_exception_of_the_user_function_is_sent(status: int, code: str, caplog: Logs) -> None:
    def user(_: Request) -> str:
        raise HTTPException(status, "see /login " + "x" * 500, {"www-authenticate": "Custom"})

    assert refused_user(user) == (status, code)
    with serving(user=user) as (_, port):
        answer = call(port)
    assert answer.detail == "see /login " + "x" * 500
    assert answer.headers["www-authenticate"] == "custom"
    assert caplog.text == ""


def test_exception_of_the_user_function_is_500_and_logged(caplog: Logs) -> None:
    async def user(request: Request) -> str:
        return str(request.user.display_name)

    assert refused_user(user) == (500, "internal-error")
    assert (
        "POST '/api/runs': 500 internal-error: user= raised AssertionError: "
        "AuthenticationMiddleware must be installed to access request.user\nTraceback"
    ) in caplog.text
    assert {record.levelname for record in caplog.records} == {"ERROR"}
    assert refused_user(lambda _: 7) == (500, "internal-error")
    assert "user= must return a str or None, not int" in caplog.text


def test_requests_that_the_user_function_fails_are_counted(caplog: Logs) -> None:
    def user(_: Request) -> str:
        raise ValueError("broken")

    with serving(user=user, limits=Limits(requests_per_minute=30)) as (_, port):
        assert [call(port).status for _ in range(4)] == [500, 500, 500, 429]
    assert len(caplog.records) == 3, "a client cannot fill the log"


def test_answers_have_headers_that_keep_browsers_from_guessing(port: int) -> None:
    for path in ("/healthz", "/no/such"):
        headers = call(port, path=path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_wrong_method_is_405_and_long_paths_are_not_echoed(port: int) -> None:
    refused = call(port, "PUT", body={}, authorization=BEARER)
    assert refused.refusal == (405, "method-not-allowed")
    assert refused.headers["allow"] == "get, head, post"
    assert "GET, HEAD, POST" in refused.detail
    unknown = call(port, path=f"/{'a' * 50_000}", authorization=BEARER)
    assert unknown.refusal == (404, "not-found")
    assert len(unknown.body) < 500


def test_lifespan_is_completed_and_websockets_are_not_served(port: int, caplog: Logs) -> None:
    wanted = {"connection": "upgrade, close", "upgrade": "websocket"}
    assert call(port, authorization=BEARER, **wanted).status == 200
    assert not caplog.text
    scope = {**raw.scope_of("/healthz"), "type": "websocket"}
    assert kinds(raw.exchange(Asked().app, scope, {"type": "websocket.connect"})) == [
        "websocket.close"
    ]
    received: list[Message] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent = raw.exchange(Asked().app, {"type": "lifespan"}, *received)
    assert kinds(sent) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    lost = raw.scope_of("/api/runs", "POST", content_type="application/json")
    assert raw.exchange(Asked().app, lost, {"type": "http.disconnect"}) == []


def kinds(sent: list[Message]) -> list[str]:
    return [message["type"] for message in sent]


class BreakingStore(raw.TroubledStore):
    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        if after:
            raise ValueError("in the middle")
        return await super().read(run_id, after, limit)


def test_failure_after_the_head_leaves_the_response_incomplete() -> None:
    asked = Asked(store=BreakingStore())
    texts = (TextDelta(f"{number} ", 0) for number in range(150))
    asyncio.run(Feeding(asked.store).write(RunStarted(RUN, "Go"), *texts))
    *sent, last = raw.exchange(asked.app, raw.scope_of(f"/api/runs/{RUN}/log"))
    assert kinds(sent)[0] == "http.response.start"
    assert kinds(sent).count("http.response.start") == 1
    assert last["more_body"] is True


def test_no_secret_reaches_a_log_or_an_answer(
    caplog: Logs,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def user(request: Request) -> str:
        if request.url.path == "/fails":
            raise ValueError(f"failed with {request.headers.raw} at {request.url}")
        return "ada"

    caplog.set_level(1)  # also records of uvicorn and asyncio
    answers: list[raw.Answer] = []
    with serving(token=TOKEN, user=user) as (_, port):
        monkeypatch.setattr(logging.getLogger("uvicorn.access"), "handlers", [caplog.handler])
        for path in ("/fails", "/api/runs", "/no/such"):
            path_with_query = f"{path}?access_token={QUERY}&x={QUERY}%20more&{CODED}&y={CODED}"
            answers += [
                call(port, path=path_with_query, **headers)
                for headers in (
                    {"authorization": BEARER},
                    {"authorization": f"Bearer {WRONG}"},
                    {"cookie": COOKIE},
                    {"cookie": COOKIE, "origin": f"http://127.0.0.1:{port}"},
                    {"host": f"{WRONG}.example"},
                )
            ]
        answers.append(call(port, "POST", body={"message": [WRONG]}, authorization=BEARER))
        for token in (WRONG, TOKEN, [WRONG]):
            signed_in = call(port, "POST", "/api/session", {"token": token})
            signed_in.headers.pop("set-cookie", None)
            answers.append(signed_in)
    assert {answer.status for answer in answers} == {200, 204, 401, 403, 404, 422, 500}
    assert "user= raised ValueError: failed with" in caplog.text
    shown = caplog.text + "".join(capfd.readouterr()) + str(answers)
    for secret in (TOKEN, WRONG, QUERY, CODED, "canary-query-0004", VALUE):
        assert secret not in shown


def test_failures_are_logged_and_not_sent(caplog: Logs) -> None:
    with serving() as (asked, port):
        asked.store.error = ValueError("a fault of ours")
        failed = call(port)
    assert failed.refusal == (500, "internal-error")
    for word in (b"Traceback", b"ValueError", b"fault", b".py"):
        assert word not in failed.body
    assert "Traceback" in caplog.text
    assert {record.name for record in caplog.records} == {"argstream.server"}
    caplog.clear()
    with serving() as (asked, port):
        asked.store.error = StoreError(f"cannot write\nto /srv/canary.db at {QUERY}")
        failed = call(port, path=f"/api/runs?{QUERY}")
    assert failed.refusal == (503, "store-failure")
    assert failed.detail == "the store is unavailable. Retry later"
    [line] = caplog.messages
    assert line.endswith("503 store-failure: cannot write to /srv/canary.db at [removed]")


def test_requests_are_logged_without_their_query(caplog: Logs) -> None:
    with serving() as (_, port):
        call(port, path=f"/api/runs?{QUERY}")
        assert not caplog.messages
        caplog.set_level(logging.DEBUG, "argstream.server")
        call(port, path=f"/api/runs?{QUERY}")
        call(port, path="/no%0a/such")
        eventually(lambda: len(caplog.messages) == 2)
    one, other = caplog.messages
    assert re.fullmatch(r"GET '/api/runs': 200 in \d+ ms", one)
    assert re.fullmatch(r"GET '/no\\n/such': 404 in \d+ ms", other)


def test_ids_cannot_add_a_header_or_a_log_line(opened: Served, caplog: Logs) -> None:
    port = opened[1]
    for line in ("%0d%0aset-cookie:%20a=b", "%0aevil", "%00", "%e2%80%a8", "\u0085"):
        body = {"message": "Hi", "conversation": unquote(line)}
        answers = [call(port, path=f"{path}{line}") for path in ("/api/runs/", "/no/")]
        for answer in (*answers, call(port, "POST", "/api/converse", body)):
            assert "set-cookie" not in answer.headers
            assert answer.status in (200, 400, 404, 422)
    assert not any(text.startswith(("evil", "set-cookie")) for text in caplog.text.splitlines())


@pytest.mark.parametrize("byte", [b"\r", b"\n", b"\0", b"\r\n\r\nGET /fails HTTP/1.1\r\nx: "])
def test_header_ends_at_its_line(opened: Served, byte: bytes) -> None:
    answer = ask(opened[1], HEAD + b"last-event-id: 3" + byte + b"4\r\n\r\n")
    assert answer.status in (200, 400)
    assert b"HTTP/1.1" not in answer.body


# /api/session: a page signs in with the token once, and then uses a cookie

OTHER = "canary-token-0003"
PATH = "/api/session"


@pytest.fixture
def client() -> Iterator[Client]:
    """A browser, which keeps cookies, and a server with a token."""
    with talking(*["Hello."] * 2, name="helper", token=TOKEN) as client:
        yield client


def sign_in(client: Client, token: Any = TOKEN) -> httpx.Response:
    return client.post(PATH, {"token": token}, origin=client.url)


def test_cookie_admits_until_the_page_signs_out(client: Client) -> None:
    assert client.status("/api/runs") == 401
    session = client.get(PATH)
    assert session.json() == {"needs_token": True, "signed_in": False, "agent": "helper"}
    assert session.headers["cache-control"] == "no-store"
    with_token = client.get(PATH, authorization=f"Bearer {TOKEN}").json()
    assert with_token["needs_token"] is False
    answer = sign_in(client)
    assert (answer.status_code, answer.content) == (204, b"")
    attributes = "Path=/; HttpOnly; SameSite=Strict"
    assert answer.headers["set-cookie"] == f"{NAME}={VALUE}; {attributes}"
    assert client.get(PATH).json() == {**session.json(), "needs_token": False, "signed_in": True}
    assert client.status("/api/runs") == 200
    assert client.post("/api/runs", {"message": "Hi"}, origin=client.url).status_code == 201
    answer = client.delete(PATH)
    assert answer.status_code == 204
    assert answer.headers["set-cookie"] == f"{NAME}=; {attributes}; Max-Age=0"
    assert client.status("/api/runs") == 401
    assert client.get(PATH).json()["needs_token"] is True


@pytest.mark.parametrize(
    "cookie",
    [
        *("a=b", f"{NAME}=", f"{NAME}={'0' * 64}"),
        f"{token_cookie(OTHER).partition('=')[0]}={VALUE}",
    ],
)
def test_name_of_the_cookie_is_not_revealed(client: Client, cookie: str) -> None:
    """The name is derived from the token."""
    answer = client.http.delete(PATH, headers={"cookie": cookie})
    assert (answer.status_code, "set-cookie" in answer.headers) == (204, False)


def test_browser_can_be_signed_in_at_two_servers_of_a_host() -> None:
    with talking("Hi.", token=TOKEN) as first, talking("Hi.", token=OTHER) as second:
        second.http.cookies = first.http.cookies  # cookies ignore the port
        sign_in(first)
        answers = [problem(second.get("/api/runs")) for _ in range(12)]
        assert set(answers) == {(401, "token-needed")}  # the other cookie is no wrong token
        sign_in(second, OTHER)
        assert [first.status("/api/runs"), second.status("/api/runs")] == [200, 200]
        second.delete(PATH)
        assert [first.status("/api/runs"), second.status("/api/runs")] == [200, 401]


def test_wrong_tokens_and_bodies_are_refused(client: Client) -> None:
    for token in (WRONG, "", f"{TOKEN} ", TOKEN[:-1], "ünïcode"):
        refused = client.post(PATH, {"token": token})
        assert problem(refused) == (401, "wrong-token")
        assert refused.headers["www-authenticate"] == "Bearer"
        assert "set-cookie" not in refused.headers
    bodies: list[Any] = [{}, {"token": 1}, {"token": TOKEN, "more": 1}, []]
    for body in bodies:
        assert client.post(PATH, body).status_code == 422


@pytest.mark.parametrize("token", [TOKEN, None])
def test_body_that_is_longer_than_any_token_is_not_read(token: str | None) -> None:
    long = {"token": "x" * 4_100}
    with talking("Hello.", token=token) as client:
        assert client.post(PATH, {"token": "x" * 4_000}).status_code == (401 if token else 204)
        in_pieces = client.http.post(
            PATH,
            content=iter([b'{"token": "', b"x" * 3_000, b"x" * 2_000, b'"}']),
            headers={"content-type": "application/json"},
        )
        for refused in (client.post(PATH, long), in_pieces):
            assert refused.status_code == 413
            assert refused.json()["detail"] == ("the body must have at most 4096 bytes")
    with talking("Hello.", token=token, limits=Limits(max_body_bytes=100)) as client:
        assert "max_body_bytes=100" in client.post(PATH, long).json()["detail"]


def test_forms_and_other_sites_cannot_sign_in_or_out(client: Client) -> None:
    assert client.http.post(PATH, data={"token": TOKEN}).status_code == 415
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        for answer in (
            client.post(PATH, {"token": TOKEN}, **headers),
            client.http.delete(PATH, headers=headers),
        ):
            assert problem(answer) == (403, "wrong-origin")
            assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", [PATH, "/api/runs"])
def test_many_wrong_tokens_are_429_and_right_ones_still_admit(client: Client, path: str) -> None:
    wrong = {"authorization": f"Bearer {WRONG}"}
    for _ in range(5):
        assert client.post(PATH, {"token": WRONG}).status_code == 401
        assert client.status(path, **wrong) == (200 if path == PATH else 401)
    for refused in (client.post(PATH, {"token": WRONG}), client.get(path, **wrong)):
        assert problem(refused) == (429, "too-many-wrong-tokens")
        assert "the limit is wrong_tokens_per_minute=10 per client" in refused.json()["detail"]
        assert 1 <= int(refused.headers["retry-after"]) <= 6
    assert client.status("/api/runs") == 401
    assert client.status("/api/runs", authorization=f"Bearer {TOKEN}") == 200
    assert client.status("/api/runs", authorization="Basic eA==") == 401
    assert sign_in(client).status_code == 204
    assert client.status("/api/runs") == 200
    assert client.status(path, **wrong) == 429


@pytest.mark.parametrize("options", [{}, {"user": lambda request: request.headers["x-user"]}])
def test_server_without_a_token_needs_no_sign_in(options: dict[str, Any]) -> None:
    with talking("Hello.", **options) as client:
        session = client.get(PATH).json()
        assert (session["needs_token"], session["signed_in"]) == (False, False)
        answer = client.post(PATH, {"token": "any"})
        assert (answer.status_code, "set-cookie" in answer.headers) == (204, False)


@pytest.mark.parametrize(
    ("mount", "path", "written"),
    [("/agent", "/agent", "/agent"), ("/{team}/agent", "/a;%20b/agent", "/a%3B%20b/agent")],
)
def test_path_of_the_cookie_is_that_of_the_mounted_app(mount: str, path: str, written: str) -> None:
    inner = AgentServer(agent_for("Hello.")[0], token=TOKEN)
    with hosted(Starlette(routes=[Mount(mount, inner)]), path) as client:
        signed_in = client.post(PATH, {"token": TOKEN})
        client.http.cookies.clear()
        signed_out = client.http.delete(PATH, headers={"cookie": f"{NAME}={VALUE}"})
    for answer in (signed_in, signed_out):
        assert f"; Path={written}; HttpOnly" in answer.headers["set-cookie"]


def test_cookie_of_a_page_that_came_over_https_is_secure() -> None:
    page = "https://agent.example"
    with talking("Hello.", token=TOKEN, hosts=None, origins=(page,)) as client:
        headers = {"host": "agent.example", "origin": page}  # the TLS proxy adds no header
        answer = client.post(PATH, {"token": TOKEN}, **headers)
    assert answer.headers["set-cookie"].endswith("; SameSite=Strict; Secure")
