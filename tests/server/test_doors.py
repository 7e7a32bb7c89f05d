"""Who is let in: the token, the Host, the Origin, the user; every refusal over real sockets."""

import re
from collections.abc import Iterator

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from argstream.errors import UsageError
from argstream.server._tokens import cookie_name, token_cookie
from argstream.server.doors import Doors
from argstream.server.limits import Limits
from tests.server.stand_in import StandIn, ask, call, serving

TOKEN = "a-token-nobody-guesses"
BEARER = f"Bearer {TOKEN}"
FRIEND = "http://friend.example:3000"
EVIL = "https://evil.example"
APPROVAL = {"approve": True}


@pytest.fixture(scope="module")
def closed() -> Iterator[tuple[StandIn, int]]:
    """A server with a token, and a page elsewhere that may ask."""
    doors = Doors(token=TOKEN, origins=(FRIEND,), hosts=("localhost", "127.0.0.1", "::1"))
    with serving(doors) as served:
        yield served


@pytest.fixture
def port(closed: tuple[StandIn, int]) -> int:
    """The port of it, with nothing decided yet."""
    app, port = closed
    app.decided.clear()
    return port


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[StandIn, int]]:
    """A server without a token."""
    with serving() as served:
        yield served


class TestToken:
    def test_who_has_it_comes_in(self, port: int) -> None:
        assert call(port, authorization=BEARER).status == 200

    @pytest.mark.parametrize(
        "authorization",
        [
            None,
            "",
            TOKEN,
            "Bearer",
            "Bearer ",
            f"Basic {TOKEN}",
            BEARER[:-1],
            BEARER + "x",
            "Bearer é",
        ],
    )
    def test_who_has_it_not_is_refused(self, port: int, authorization: str | None) -> None:
        refused = call(port, authorization=authorization)
        assert (refused.status, refused.problem) == (401, "token-needed")
        assert refused.headers["www-authenticate"] == "bearer"

    def test_is_needed_to_know_which_paths_there_are(self, port: int) -> None:
        assert call(port, path="/no/such").problem == "token-needed"
        assert call(port, path="/no/such", authorization=BEARER).problem == "not-found"

    def test_two_of_them_are_refused(self, port: int) -> None:
        head = (
            "GET /runs/one HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            f"authorization: {BEARER}\r\n"
        )
        twice = ask(port, f"{head}authorization: Bearer other\r\n\r\n".encode())
        assert (twice.status, twice.problem) == (400, "doubled-header")

    def test_health_is_told_without_it_but_not_to_any_host(self, port: int) -> None:
        assert call(port, path="/healthz").status == 200
        assert call(port, path="/healthz", host="evil.example").problem == "wrong-host"
        assert call(port, "POST", path="/healthz", body={}).problem == "token-needed"

    @pytest.mark.parametrize("token", ["", "two words", "tab\t", "ünïcode", "line\n"])
    def test_must_fit_into_a_header(self, token: str) -> None:
        with pytest.raises(UsageError, match="visible ASCII"):
            Doors(token=token)

    def test_is_long_enough_not_to_be_guessed(self) -> None:
        with pytest.raises(UsageError, match="at least 16 characters"):
            Doors(token="x" * 15)
        assert Doors(token="x" * 16).token

    def test_is_not_shown(self) -> None:
        assert TOKEN not in repr(Doors(token=TOKEN))


class TestCookie:
    COOKIE = token_cookie(TOKEN).partition(";")[0]
    NAME, _, VALUE = COOKIE.partition("=")

    def test_has_a_name_of_its_own_for_each_server_of_a_host(self) -> None:
        assert re.fullmatch(r"argstream_token_[0-9a-f]{8}", self.NAME)
        assert cookie_name(f"{TOKEN}x") != self.NAME
        assert self.NAME.rpartition("_")[2] not in self.VALUE

    def test_is_closed_to_scripts_and_other_sites_and_does_not_tell_the_token(self) -> None:
        cookie = token_cookie(TOKEN, secure=True)
        assert cookie.startswith(f"{cookie_name(TOKEN)}=")
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
        assert TOKEN not in cookie

    def test_lets_a_browser_read(self, port: int) -> None:
        assert call(port, cookie=f"a=b; {self.COOKIE}; c=d").status == 200

    @pytest.mark.parametrize(
        "cookie", [f"{NAME}={TOKEN}", f"{NAME}=", f"x{NAME}={VALUE}", f"{NAME}x={VALUE}", "; ;="]
    )
    def test_of_another_value_does_not(self, port: int, cookie: str) -> None:
        assert call(port, cookie=cookie).problem == "token-needed"

    def test_decides_nothing_without_the_origin_of_the_servers_own_page(
        self, closed: tuple[StandIn, int], port: int
    ) -> None:
        app, _ = closed
        for origin in (None, FRIEND):
            refused = call(port, "POST", "/decisions", APPROVAL, cookie=self.COOKIE, origin=origin)
            assert refused.problem == "token-needed"
        assert not app.decided
        own = f"http://127.0.0.1:{port}"
        assert (
            call(port, "POST", "/decisions", APPROVAL, cookie=self.COOKIE, origin=own).status == 200
        )
        assert len(app.decided) == 1


class TestHost:
    @pytest.mark.parametrize(
        "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:80"]
    )
    def test_of_the_server_may_have_any_port(self, port: int, host: str) -> None:
        assert call(port, host=host, authorization=BEARER).status == 200

    @pytest.mark.parametrize(
        "host",
        [
            "evil.example",
            "localhost.evil.example",
            "evil.example:80@localhost",
            "localhost:80:80",
            "localhost:",
            "localhost:x",
            "localhost/",
            "::1",
            "[::1",
            "",
        ],
    )
    def test_of_another_name_is_refused_whatever_the_token(self, port: int, host: str) -> None:
        refused = call(port, host=host, authorization=BEARER)
        assert (refused.status, refused.problem) == (403, "wrong-host")

    def test_must_be_there_and_once(self, port: int) -> None:
        assert ask(port, b"GET /healthz HTTP/1.0\r\n\r\n").problem == "wrong-host"
        twice = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n"
        assert ask(port, twice + b"connection: close\r\n\r\n").status == 400

    def test_is_that_of_this_machine_unless_others_are_named(self) -> None:
        with serving() as (_, port):
            assert call(port, host="localhost").status == 200
            assert call(port, host="rebound.example").problem == "wrong-host"

    @pytest.mark.parametrize("host", ["http://a", "a:80", "a/b", "", "a b"])
    def test_is_written_as_a_name_only(self, host: str) -> None:
        with pytest.raises(UsageError, match="no name of a host"):
            Doors(hosts=(host,))

    def test_is_given_in_a_tuple(self) -> None:
        with pytest.raises(UsageError, match="must be a tuple"):
            Doors(hosts="example.com")  # type: ignore[arg-type] # what the test is about


class TestOrigin:
    @pytest.mark.parametrize(
        "origin",
        [
            EVIL,
            "null",
            "",
            f"{FRIEND}.evil.example",
            "http://friend.example",
            "https://127.0.0.1",
            "file://",
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
    def test_of_others_is_refused_whatever_the_token(
        self, port: int, origin: str, method: str
    ) -> None:
        body = APPROVAL if method == "POST" else None
        refused = call(port, method, "/decisions", body, origin=origin, authorization=BEARER)
        assert (refused.status, refused.problem) == (403, "wrong-origin")
        assert "access-control-allow-origin" not in refused.headers

    def test_of_others_is_told_how_it_can_be_allowed(self, port: int) -> None:
        refused = call(port, origin="http://localhost:3000", authorization=BEARER)
        assert 'origins=("http://localhost:3000",)' in refused.detail
        assert "--origin http://localhost:3000" in refused.detail
        odd = call(port, origin='http://<script>"', authorization=BEARER)
        assert odd.problem == "wrong-origin"
        assert "null" not in call(port, origin="null", authorization=BEARER).detail

    def test_of_the_servers_own_page_is_let_in(self, port: int) -> None:
        own = f"http://127.0.0.1:{port}"
        assert call(port, origin=own, authorization=BEARER).status == 200
        assert (
            call(port, host="localhost:80", origin="http://localhost", authorization=BEARER).status
            == 200
        )

    def test_of_a_friend_is_let_in_and_may_read_the_answer(self, port: int) -> None:
        answer = call(port, origin=FRIEND, authorization=BEARER)
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == FRIEND
        assert answer.headers["access-control-allow-credentials"] == "true"
        for header in ("etag", "x-vercel-ai-ui-message-stream"):
            assert header in answer.headers["access-control-expose-headers"]
        assert answer.headers["vary"] == "origin"

    def test_of_a_friend_may_read_why_he_is_refused(self, port: int) -> None:
        refused = call(port, origin=FRIEND)
        assert refused.problem == "token-needed"
        assert refused.headers["access-control-allow-origin"] == FRIEND

    def test_of_a_friend_is_told_ahead_what_he_may_send(self, port: int) -> None:
        asked = call(
            port, "OPTIONS", "/decisions", origin=FRIEND, access_control_request_method="POST"
        )
        assert (asked.status, asked.body) == (204, b"")
        assert asked.headers["access-control-allow-origin"] == FRIEND
        assert asked.headers["access-control-allow-methods"] == "get, post, delete"
        for header in ("authorization", "content-type", "if-none-match", "last-event-id"):
            assert header in asked.headers["access-control-allow-headers"]

    def test_nothing_is_cached_for_others(self, port: int) -> None:
        assert call(port, authorization=BEARER).headers["vary"] == "origin"

    def test_with_any_no_cookie_is_sent(self) -> None:
        with serving(Doors(token=TOKEN, origins=("*",))) as (_, port):
            answer = call(port, origin=EVIL, authorization=BEARER)
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers

    def test_any_needs_a_token(self) -> None:
        with pytest.raises(UsageError, match="token"):
            Doors(origins=("*",))

    @pytest.mark.parametrize(
        "origin", ["friend.example", "http://friend.example/path", "ftp://a", "http://"]
    )
    def test_is_written_without_a_path(self, origin: str) -> None:
        with pytest.raises(UsageError, match="no origin"):
            Doors(origins=(origin,))


class TestOtherSites:
    """Without a token, other sites are kept out by what browsers say about a request."""

    @pytest.mark.parametrize(
        "content_type",
        [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "text/plain; application/json",
            "application/jsonp",
            None,
        ],
    )
    def test_a_form_cannot_send_json(
        self, opened: tuple[StandIn, int], content_type: str | None
    ) -> None:
        app, port = opened
        refused = call(port, "POST", "/decisions", APPROVAL, content_type=content_type)
        assert (refused.status, refused.problem) == (415, "json-needed")
        assert not app.decided

    def test_a_packed_body_is_refused_in_words(self, opened: tuple[StandIn, int]) -> None:
        refused = call(opened[1], "POST", "/decisions", APPROVAL, content_encoding="gzip")
        assert (refused.status, refused.problem) == (415, "encoded-body")
        assert "without the header Content-Encoding" in refused.detail

    def test_json_may_name_its_charset(self, opened: tuple[StandIn, int]) -> None:
        app, port = opened
        kind = "Application/JSON; charset=utf-8"
        assert call(port, "POST", "/decisions", APPROVAL, content_type=kind).status == 200
        app.decided.clear()

    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_what_they_make_a_browser_ask_is_refused(
        self, opened: tuple[StandIn, int], method: str
    ) -> None:
        body = APPROVAL if method == "POST" else None
        refused = call(opened[1], method, "/decisions", body, sec_fetch_site="cross-site")
        assert refused.problem == "wrong-origin"

    def test_a_link_to_a_page_may_be_followed(self, opened: tuple[StandIn, int]) -> None:
        followed = call(opened[1], sec_fetch_site="cross-site", sec_fetch_mode="navigate")
        assert followed.status == 200

    def test_no_page_may_frame_or_embed_it(self, opened: tuple[StandIn, int]) -> None:
        headers = call(opened[1]).headers
        assert headers["x-frame-options"] == "deny"
        assert headers["cross-origin-resource-policy"] == "same-origin"

    def test_delete_needs_no_body(self, opened: tuple[StandIn, int]) -> None:
        assert call(opened[1], "DELETE").status == 200


class TestUser:
    @staticmethod
    def named(user: object) -> str:
        with serving(Doors(user=user)) as (_, port):  # type: ignore[arg-type] # also wrong ones
            answer = call(port, x_user="ann")
        return answer.body.decode() if answer.status == 200 else f"{answer.status} {answer.problem}"

    def test_is_named_by_a_function(self) -> None:
        assert '"user":"ann"' in self.named(lambda request: request.headers["x-user"])

    def test_is_named_by_a_coroutine(self) -> None:
        async def user(request: Request) -> str:
            return request.headers["x-user"]

        assert '"user":"ann"' in self.named(user)

    @pytest.mark.parametrize("nobody", [None, ""])
    def test_nobody_is_401(self, nobody: str | None, caplog: pytest.LogCaptureFixture) -> None:
        assert self.named(lambda _: nobody) == "401 not-signed-in"
        assert caplog.text == ""

    @pytest.mark.parametrize(
        ("status", "code"), [(401, "not-signed-in"), (403, "not-allowed"), (418, "refused")]
    )
    def test_http_exception_passes_through(
        self, status: int, code: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        def user(_: Request) -> str:
            raise HTTPException(status, "see /login " + "x" * 500, {"www-authenticate": "Custom"})

        with serving(Doors(user=user)) as (app, port):
            answer = call(port, "POST", "/decisions", APPROVAL)
        assert (answer.status, answer.problem) == (status, code)
        assert answer.detail == "see /login " + "x" * 500
        assert answer.headers["www-authenticate"] == "custom"
        assert not app.decided
        assert caplog.text == ""

    def test_any_other_exception_is_500_and_logged_with_its_message(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def user(request: Request) -> str:
            return str(request.user.display_name)

        with serving(Doors(user=user)) as (app, port):
            answer = call(port, "POST", "/decisions", APPROVAL)
        assert (answer.status, answer.problem) == (500, "internal-error")
        assert "Middleware" not in answer.body.decode()
        assert not app.decided
        assert (
            "POST '/decisions': 500 internal-error: user= raised AssertionError: "
            "AuthenticationMiddleware must be installed to access request.user\nTraceback"
        ) in caplog.text
        assert {record.levelname for record in caplog.records} == {"ERROR"}

    def test_the_log_of_an_exception_has_no_secret(self, caplog: pytest.LogCaptureFixture) -> None:
        def user(request: Request) -> str:
            raise ValueError(f"bad signature of {request.headers['authorization']}")

        with serving(Doors(user=user)) as (_, port):
            answer = call(port, authorization="Bearer canary-of-a-user")
        assert answer.status == 500
        assert "user= raised ValueError: bad signature of [removed]" in caplog.text
        assert "canary-of-a-user" not in caplog.text

    def test_refused_users_count_as_requests(self, caplog: pytest.LogCaptureFixture) -> None:
        def user(_: Request) -> str:
            raise ValueError("broken")

        with serving(Doors(user=user), Limits(requests_per_minute=30)) as (_, port):
            assert [call(port).status for _ in range(4)] == [500, 500, 500, 429]
        assert len(caplog.records) == 3, "a client cannot fill the log"

    def test_a_return_value_that_is_no_text_is_500(self, caplog: pytest.LogCaptureFixture) -> None:
        assert self.named(lambda _: 7) == "500 internal-error"
        assert "user= must return a str or None, not int" in caplog.text


class TestAnswers:
    def test_have_headers_that_keep_browsers_from_guessing(self, port: int) -> None:
        for path in ("/healthz", "/no/such"):
            headers = call(port, path=path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"
            assert "server" not in headers

    def test_may_say_themselves_how_long_they_are_good(self, port: int) -> None:
        assert call(port, authorization=BEARER).headers["cache-control"] == "max-age=5"

    def test_to_a_wrong_method_name_the_right_ones(self, port: int) -> None:
        refused = call(port, "PUT", body={}, authorization=BEARER)
        assert (refused.status, refused.problem) == (405, "method-not-allowed")
        assert refused.headers["allow"] == "delete, get, head"
        assert "DELETE, GET, HEAD" in refused.detail

    def test_do_not_give_back_a_page_of_what_was_asked(self, port: int) -> None:
        refused = call(port, path=f"/{'a' * 50_000}", authorization=BEARER)
        assert (refused.status, refused.problem) == (404, "not-found")
        assert len(refused.body) < 500

    def test_to_who_asks_for_a_socket_are_those_to_any_request(
        self, port: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        wanted = {"connection": "upgrade, close", "upgrade": "websocket"}
        assert call(port, authorization=BEARER, **wanted).status == 200
        assert not caplog.text
