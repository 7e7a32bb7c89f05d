"""Who is let in: the token, the Host, the Origin, the user; every refusal over real sockets."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from argstream.errors import UsageError
from argstream.server import Limits, token_cookie
from tests.server.raw import BODY, Asked, ask, call, serving

TOKEN = "a-token-nobody-guesses"
BEARER = f"Bearer {TOKEN}"
FRIEND = "http://friend.example:3000"
EVIL = "https://evil.example"
COOKIE = token_cookie(TOKEN).partition(";")[0]
NAME, _, VALUE = COOKIE.partition("=")


@pytest.fixture(scope="module")
def closed() -> Iterator[tuple[Asked, int]]:
    """A server with a token, and a page elsewhere that may ask."""
    limits = Limits(wrong_tokens_per_minute=1_000)
    with serving(token=TOKEN, origins=(FRIEND,), limits=limits) as served:
        yield served


@pytest.fixture
def port(closed: tuple[Asked, int]) -> int:
    """The port of it, with nothing asked yet."""
    asked, port = closed
    asked.prompts.clear()
    return port


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[Asked, int]]:
    """A server without a token."""
    with serving() as served:
        yield served


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(
            ({"token": token}, "visible ASCII")
            for token in ("", "two words", "tab\t", "ünï", "a\n")
        ),
        ({"token": "x" * 15}, "at least 16 characters"),
        *(({"hosts": (name,)}, "no name of a host") for name in ("http://a", "a:80", "a/b", "")),
        ({"hosts": "example.com"}, "must be a tuple"),
        ({"origins": "http://a"}, "must be a tuple"),
        ({"origins": ("*",)}, "give a token too"),
        *(
            ({"origins": (name,)}, "no origin")
            for name in ("a.b", "http://a/b", "ftp://a", "http://")
        ),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Asked(**options)


class TestToken:
    def test_who_has_it_comes_in(self, port: int) -> None:
        assert call(port, authorization=BEARER).status == 200

    @pytest.mark.parametrize(
        "authorization",
        [
            *(None, "", TOKEN, "Bearer", "Bearer ", f"Basic {TOKEN}"),
            *(BEARER[:-1], BEARER + "x", "Bearer é"),
        ],
    )
    def test_who_has_it_not_is_refused(self, port: int, authorization: str | None) -> None:
        refused = call(port, authorization=authorization)
        assert refused.refusal == (401, "token-needed")
        assert refused.headers["www-authenticate"] == "bearer"

    def test_is_needed_to_know_which_paths_there_are(self, port: int) -> None:
        assert call(port, path="/no/such").problem == "token-needed"
        assert call(port, path="/no/such", authorization=BEARER).problem == "not-found"

    def test_two_of_them_are_refused(self, port: int) -> None:
        head = (
            "GET /api/runs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            f"authorization: {BEARER}\r\nauthorization: Bearer other\r\n\r\n"
        )
        assert ask(port, head.encode()).refusal == (400, "doubled-header")

    def test_health_is_told_without_it_but_not_to_any_host(self, port: int) -> None:
        assert call(port, path="/healthz").status == 200
        assert call(port, path="/healthz", host="evil.example").problem == "wrong-host"
        assert call(port, "POST", path="/healthz", body={}).problem == "token-needed"

    def test_is_not_shown(self, closed: tuple[Asked, int]) -> None:
        assert TOKEN not in repr(closed[0].app.doors)


class TestCookie:
    def test_has_a_name_of_its_own_for_each_server_of_a_host(self) -> None:
        assert re.fullmatch(r"argstream_token_[0-9a-f]{8}", NAME)
        assert not token_cookie(f"{TOKEN}x").startswith(NAME)
        assert NAME.rpartition("_")[2] not in VALUE

    def test_is_closed_to_scripts_and_other_sites_and_does_not_tell_the_token(self) -> None:
        cookie = token_cookie(TOKEN, secure=True)
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
        assert TOKEN not in cookie

    def test_lets_a_browser_read(self, port: int) -> None:
        assert call(port, cookie=f"a=b; {COOKIE}; c=d").status == 200

    @pytest.mark.parametrize(
        "cookie", [f"{NAME}={TOKEN}", f"{NAME}=", f"x{NAME}={VALUE}", f"{NAME}x={VALUE}", "; ;="]
    )
    def test_of_another_value_does_not(self, port: int, cookie: str) -> None:
        assert call(port, cookie=cookie).problem == "token-needed"

    def test_decides_nothing_without_the_origin_of_the_servers_own_page(
        self, closed: tuple[Asked, int], port: int
    ) -> None:
        for origin in (None, FRIEND):
            refused = call(port, "POST", body=BODY, cookie=COOKIE, origin=origin)
            assert refused.problem == "token-needed"
        assert closed[0].prompts == []
        own = f"http://127.0.0.1:{port}"
        assert call(port, "POST", body=BODY, cookie=COOKIE, origin=own).status == 201


class TestHost:
    @pytest.mark.parametrize(
        "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:80"]
    )
    def test_of_the_server_may_have_any_port(self, port: int, host: str) -> None:
        assert call(port, host=host, authorization=BEARER).status == 200

    @pytest.mark.parametrize(
        "host",
        [
            *("evil.example", "localhost.evil.example", "evil.example:80@localhost"),
            *("localhost:80:80", "localhost:", "localhost:x", "localhost/", "::1", "[::1", ""),
        ],
    )
    def test_of_another_name_is_refused_whatever_the_token(self, port: int, host: str) -> None:
        assert call(port, host=host, authorization=BEARER).refusal == (403, "wrong-host")

    def test_must_be_there_and_once(self, port: int) -> None:
        assert ask(port, b"GET /healthz HTTP/1.0\r\n\r\n").problem == "wrong-host"
        twice = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n"
        assert ask(port, twice + b"connection: close\r\n\r\n").status == 400


class TestOrigin:
    @pytest.mark.parametrize(
        "origin",
        [
            *(EVIL, "null", "", f"{FRIEND}.evil.example", "http://friend.example"),
            *("https://127.0.0.1", "file://"),
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
    def test_of_others_is_refused_whatever_the_token(
        self, closed: tuple[Asked, int], port: int, origin: str, method: str
    ) -> None:
        body = BODY if method == "POST" else None
        refused = call(port, method, body=body, origin=origin, authorization=BEARER)
        assert refused.refusal == (403, "wrong-origin")
        assert "access-control-allow-origin" not in refused.headers
        assert closed[0].prompts == []

    def test_of_others_is_told_how_it_can_be_allowed(self, port: int) -> None:
        refused = call(port, origin="http://localhost:3000", authorization=BEARER)
        assert 'origins=("http://localhost:3000",)' in refused.detail
        assert "--origin http://localhost:3000" in refused.detail
        odd = call(port, origin='http://<script>"', authorization=BEARER)
        assert odd.problem == "wrong-origin"
        assert "null" not in call(port, origin="null", authorization=BEARER).detail

    def test_of_the_servers_own_page_is_let_in(self, port: int) -> None:
        for host, origin in (
            (f"127.0.0.1:{port}", f"http://127.0.0.1:{port}"),
            ("localhost:80", "http://localhost"),
        ):
            assert call(port, host=host, origin=origin, authorization=BEARER).status == 200

    def test_of_a_friend_is_let_in_and_may_read_the_answer(self, port: int) -> None:
        answer = call(port, origin=FRIEND, authorization=BEARER)
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == FRIEND
        assert answer.headers["access-control-allow-credentials"] == "true"
        for header in ("etag", "x-vercel-ai-ui-message-stream"):
            assert header in answer.headers["access-control-expose-headers"]
        refused = call(port, origin=FRIEND)
        assert refused.problem == "token-needed"
        assert refused.headers["access-control-allow-origin"] == FRIEND

    def test_of_a_friend_is_told_ahead_what_he_may_send(self, port: int) -> None:
        asked = call(port, "OPTIONS", origin=FRIEND, access_control_request_method="POST")
        assert (asked.status, asked.body) == (204, b"")
        assert asked.headers["access-control-allow-origin"] == FRIEND
        assert asked.headers["access-control-allow-methods"] == "get, post, delete"
        for header in ("authorization", "content-type", "if-none-match", "last-event-id"):
            assert header in asked.headers["access-control-allow-headers"]

    def test_nothing_is_cached_for_others(self, port: int) -> None:
        for origin in (None, FRIEND):
            assert call(port, origin=origin, authorization=BEARER).headers["vary"] == "origin"

    def test_with_any_no_cookie_is_sent(self) -> None:
        with serving(token=TOKEN, origins=("*",)) as (_, port):
            answer = call(port, origin=EVIL, authorization=BEARER)
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers


class TestOtherSites:
    """Without a token, other sites are kept out by what browsers say about a request."""

    @pytest.mark.parametrize(
        ("headers", "refusal"),
        [
            *(
                ({"content_type": kind}, (415, "json-needed"))
                for kind in (
                    *("text/plain", "application/x-www-form-urlencoded", "application/jsonp"),
                    *("multipart/form-data; boundary=x", "text/plain; application/json", None),
                )
            ),
            ({"content_encoding": "gzip"}, (415, "encoded-body")),
            ({"sec_fetch_site": "cross-site"}, (403, "wrong-origin")),
        ],
    )
    def test_cannot_post(
        self, opened: tuple[Asked, int], headers: dict[str, Any], refusal: tuple[int, str]
    ) -> None:
        asked, port = opened
        asked.prompts.clear()
        assert call(port, "POST", body=BODY, **headers).refusal == refusal
        assert asked.prompts == []

    def test_cannot_read_but_may_link_to_a_page(self, opened: tuple[Asked, int]) -> None:
        refused = call(opened[1], sec_fetch_site="cross-site")
        assert refused.refusal == (403, "wrong-origin")
        followed = call(opened[1], sec_fetch_site="cross-site", sec_fetch_mode="navigate")
        assert followed.status == 200

    def test_json_may_name_its_charset(self, opened: tuple[Asked, int]) -> None:
        kind = "Application/JSON; charset=utf-8"
        assert call(opened[1], "POST", body=BODY, content_type=kind).status == 201

    def test_no_page_may_frame_or_embed_it(self, opened: tuple[Asked, int]) -> None:
        headers = call(opened[1]).headers
        assert headers["x-frame-options"] == "deny"
        assert headers["cross-origin-resource-policy"] == "same-origin"

    def test_delete_needs_no_body(self, opened: tuple[Asked, int]) -> None:
        assert call(opened[1], "DELETE", "/api/runs/none").problem == "unknown-run"


class TestUser:
    @staticmethod
    def refused(user: object) -> str:
        """Post as a user that this function names; what is refused begins no run."""
        with serving(user=user) as (asked, port):
            answer = call(port, "POST", body=BODY, x_user="ann")
        assert asked.prompts == []
        return f"{answer.status} {answer.problem}"

    @pytest.mark.parametrize("is_async", [False, True])
    def test_is_named_by_a_function(self, *, is_async: bool) -> None:
        def user(request: Request) -> str:
            return request.headers["x-user"]

        async def user_async(request: Request) -> str:
            return user(request)

        with serving(user=user_async if is_async else user) as (asked, port):
            assert call(port, "POST", body=BODY, x_user="ann").status == 201
            assert len(asyncio.run(asked.store.runs(user="ann"))) == 1

    @pytest.mark.parametrize("nobody", [None, ""])
    def test_nobody_is_401(self, nobody: str | None, caplog: pytest.LogCaptureFixture) -> None:
        assert self.refused(lambda _: nobody) == "401 not-signed-in"
        assert caplog.text == ""

    @pytest.mark.parametrize(
        ("status", "code"), [(401, "not-signed-in"), (403, "not-allowed"), (418, "refused")]
    )
    def test_http_exception_passes_through(
        self, status: int, code: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        def user(_: Request) -> str:
            raise HTTPException(status, "see /login " + "x" * 500, {"www-authenticate": "Custom"})

        assert self.refused(user) == f"{status} {code}"
        with serving(user=user) as (_, port):
            answer = call(port)
        assert answer.detail == "see /login " + "x" * 500
        assert answer.headers["www-authenticate"] == "custom"
        assert caplog.text == ""

    def test_any_other_exception_is_500_and_logged_with_its_message(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def user(request: Request) -> str:
            return str(request.user.display_name)

        assert self.refused(user) == "500 internal-error"
        assert (
            "POST '/api/runs': 500 internal-error: user= raised AssertionError: "
            "AuthenticationMiddleware must be installed to access request.user\nTraceback"
        ) in caplog.text
        assert {record.levelname for record in caplog.records} == {"ERROR"}

    def test_refused_users_count_as_requests(self, caplog: pytest.LogCaptureFixture) -> None:
        def user(_: Request) -> str:
            raise ValueError("broken")

        with serving(user=user, limits=Limits(requests_per_minute=30)) as (_, port):
            assert [call(port).status for _ in range(4)] == [500, 500, 500, 429]
        assert len(caplog.records) == 3, "a client cannot fill the log"

    def test_a_return_value_that_is_no_text_is_500(self, caplog: pytest.LogCaptureFixture) -> None:
        assert self.refused(lambda _: 7) == "500 internal-error"
        assert "user= must return a str or None, not int" in caplog.text


class TestAnswers:
    def test_have_headers_that_keep_browsers_from_guessing(self, port: int) -> None:
        for path in ("/healthz", "/no/such"):
            headers = call(port, path=path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"
            assert "server" not in headers

    def test_to_a_wrong_method_name_the_right_ones(self, port: int) -> None:
        refused = call(port, "PUT", body={}, authorization=BEARER)
        assert refused.refusal == (405, "method-not-allowed")
        assert refused.headers["allow"] == "get, head, post"
        assert "GET, HEAD, POST" in refused.detail

    def test_do_not_give_back_a_page_of_what_was_asked(self, port: int) -> None:
        refused = call(port, path=f"/{'a' * 50_000}", authorization=BEARER)
        assert refused.refusal == (404, "not-found")
        assert len(refused.body) < 500

    def test_to_who_asks_for_a_socket_are_those_to_any_request(
        self, port: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        wanted = {"connection": "upgrade, close", "upgrade": "websocket"}
        assert call(port, authorization=BEARER, **wanted).status == 200
        assert not caplog.text
