"""``/api/session``: a page signs in with the token once, and a cookie does the rest."""

import logging
from collections.abc import Iterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from argstream.server import AgentServer, Limits, token_cookie
from tests.server.servers import serving
from tests.server.talking import Client, agent_for, eventually, served

TOKEN = "canary-token-0001"
WRONG = "canary-wrong-0002"
FRIEND = "http://friend.example:3000"
PATH = "/api/session"
COOKIE, _, VALUE = token_cookie(TOKEN).partition(";")[0].partition("=")
OTHER = "canary-token-0003"


@pytest.fixture
def client() -> Iterator[Client]:
    """A browser, which keeps cookies, and a server with a token."""
    agent, _ = agent_for("Hello.", "Hello.", name="helper")
    with served(agent, token=TOKEN, origins=(FRIEND,)) as client:
        yield client


def own(client: Client) -> dict[str, str]:
    """Say what the browser says of a page of the server's own."""
    return {"origin": str(client.http.base_url).rstrip("/")}


class TestSigningIn:
    def test_the_page_knows_whether_to_ask(self, client: Client) -> None:
        told = client.get(PATH)
        assert told.json() == {"needs_token": True, "signed_in": False, "agent": "helper"}
        assert told.headers["cache-control"] == "no-store"
        client.post(PATH, {"token": TOKEN}, **own(client))
        assert client.get(PATH).json() == {
            "needs_token": False,
            "signed_in": True,
            "agent": "helper",
        }
        bearer = {"authorization": f"Bearer {TOKEN}"}
        client.http.cookies.clear()
        assert client.get(PATH, **bearer).json()["needs_token"] is False

    def test_with_the_cookie_the_page_reads_and_decides(self, client: Client) -> None:
        assert client.get("/api/runs").status_code == 401
        answer = client.post(PATH, {"token": TOKEN}, **own(client))
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["set-cookie"] == (
            f"{COOKIE}={VALUE}; Path=/; HttpOnly; SameSite=Strict"
        )
        assert client.get("/api/runs").status_code == 200
        assert client.post("/api/runs", {"message": "Hi"}, **own(client)).status_code == 201

    def test_who_signs_out_is_out(self, client: Client) -> None:
        client.post(PATH, {"token": TOKEN}, **own(client))
        answer = client.delete(PATH)
        assert answer.status_code == 204
        assert answer.headers["set-cookie"] == (
            f"{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
        )
        assert client.get("/api/runs").status_code == 401
        assert client.get(PATH).json()["needs_token"] is True

    def test_who_has_no_cookie_is_not_told_its_name_which_comes_of_the_token(
        self, client: Client
    ) -> None:
        for cookie in (
            "a=b",
            f"{COOKIE}=",
            f"{COOKIE}={'0' * 64}",
            f"{token_cookie(OTHER).partition('=')[0]}={VALUE}",
        ):
            answer = client.http.delete(PATH, headers={"cookie": cookie})
            assert (answer.status_code, "set-cookie" in answer.headers) == (204, False)

    def test_a_browser_can_be_signed_in_at_two_servers_of_a_host(self) -> None:
        one, _ = agent_for("Hello.", name="one")
        two, _ = agent_for("Hello.", name="two")
        with served(one, token=TOKEN) as first, served(two, token=OTHER) as second:
            second.http.cookies = first.http.cookies  # they know no ports
            first.post(PATH, {"token": TOKEN}, **own(first))
            assert second.get("/api/runs").status_code == 401
            second.post(PATH, {"token": OTHER}, **own(second))
            for client in (first, second):
                assert client.get("/api/runs").status_code == 200
            second.delete(PATH)
            assert first.get("/api/runs").status_code == 200
            assert second.get("/api/runs").status_code == 401


class TestRefusing:
    @pytest.mark.parametrize("token", [WRONG, "", f"{TOKEN} ", TOKEN[:-1], "ünïcode"])
    def test_another_token_is_refused(self, client: Client, token: str) -> None:
        refused = client.post(PATH, {"token": token})
        assert (refused.status_code, refused.json()["type"]) == (401, "urn:argstream:wrong-token")
        assert refused.headers["www-authenticate"] == "Bearer"
        assert "set-cookie" not in refused.headers

    @pytest.mark.parametrize("body", [{}, {"token": 1}, {"token": TOKEN, "more": 1}, []])
    def test_what_is_no_token_is_refused(self, client: Client, body: object) -> None:
        assert client.post(PATH, body).status_code == 422

    @pytest.mark.parametrize("token", [TOKEN, None])
    def test_a_body_that_is_longer_than_any_token_is_not_read(self, token: str | None) -> None:
        agent, _ = agent_for("Hello.")
        with served(agent, token=token) as client:
            assert client.post(PATH, {"token": "x" * 4_000}).status_code == (401 if token else 204)
            long = {"token": "x" * 4_100}
            in_pieces = client.http.post(
                PATH,
                content=iter([b'{"token": "', b"x" * 3_000, b"x" * 2_000, b'"}']),
                headers={"content-type": "application/json"},
            )
            for refused in (client.post(PATH, long), in_pieces):
                assert refused.status_code == 413
                assert refused.json()["detail"] == (
                    "the body is longer than 4096 bytes, which is all that is taken"
                )
        with served(agent, token=token, limits=Limits(max_body_bytes=100)) as client:
            assert "max_body_bytes=100" in client.post(PATH, long).json()["detail"]

    def test_forms_and_pages_of_others_cannot_sign_in(self, client: Client) -> None:
        form = client.http.post(PATH, data={"token": TOKEN})
        assert form.status_code == 415
        for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
            for answer in (
                client.post(PATH, {"token": TOKEN}, **headers),
                client.http.delete(PATH, headers=headers),
            ):
                assert answer.json()["type"] == "urn:argstream:wrong-origin"
                assert "set-cookie" not in answer.headers

    @pytest.mark.parametrize("path", [PATH, "/api/runs"])
    def test_who_names_many_wrong_tokens_is_told_to_come_later(
        self, client: Client, path: str
    ) -> None:
        wrong = {"authorization": f"Bearer {WRONG}"}
        for _ in range(5):
            assert client.post(PATH, {"token": WRONG}).status_code == 401
            assert client.get(path, **wrong).status_code == (200 if path == PATH else 401)
        for refused in (client.post(PATH, {"token": WRONG}), client.get(path, **wrong)):
            assert refused.status_code == 429
            assert refused.json()["type"] == "urn:argstream:too-many-wrong-tokens"
            assert "wrong_tokens_per_minute=10 is all" in refused.json()["detail"]
            assert 1 <= int(refused.headers["retry-after"]) <= 6
        # Others may have his address: who has the right one, or names none, is not kept waiting.
        assert client.get("/api/runs").status_code == 401
        assert client.get("/api/runs", authorization=f"Bearer {TOKEN}").status_code == 200
        assert client.get("/api/runs", authorization="Basic eA==").status_code == 401
        assert client.post(PATH, {"token": TOKEN}, **own(client)).status_code == 204
        assert client.get("/api/runs").status_code == 200
        assert client.get(path, **wrong).status_code == 429

    def test_the_cookie_of_another_server_is_no_wrong_token(self, client: Client) -> None:
        other = {"cookie": token_cookie(OTHER).partition(";")[0]}
        answers = [client.get("/api/runs", **other) for _ in range(12)]
        assert {answer.json()["type"] for answer in answers} == {"urn:argstream:token-needed"}

    def test_guesses_are_counted_with_all_that_is_asked(self) -> None:
        agent, _ = agent_for("Hello.")
        with served(agent, token=TOKEN, limits=Limits(requests_per_minute=30)) as client:
            guesses = [client.post(PATH, {"token": WRONG}).status_code for _ in range(4)]
        assert guesses == [401, 401, 401, 429]

    def test_neither_token_gets_into_a_log_or_an_answer(
        self, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        answers = [
            client.post(PATH, body, **own(client))
            for body in ({"token": WRONG}, {"token": TOKEN}, {"token": [WRONG]}, {"token": TOKEN})
        ]
        answers += [client.get(PATH), client.get("/api/runs"), client.delete(PATH)]
        assert {answer.status_code for answer in answers} == {200, 204, 401, 422}
        eventually(lambda: caplog.text.count(" ms\n") >= len(answers))  # all requests are logged
        shown = caplog.text + "".join(f"{one.text}{one.headers}" for one in answers)
        assert f"POST '{PATH}': 204" in shown
        assert TOKEN not in shown
        assert WRONG not in shown


class TestElsewhere:
    def test_without_a_token_there_is_nothing_to_do(self) -> None:
        agent, _ = agent_for("Hello.")
        with served(agent) as client:
            assert client.get(PATH).json()["needs_token"] is False
            assert client.get(PATH).json()["signed_in"] is False
            answer = client.post(PATH, {"token": "any"})
            assert (answer.status_code, "set-cookie" in answer.headers) == (204, False)

    def test_users_of_the_host_app_need_not_sign_in(self) -> None:
        agent, _ = agent_for("Hello.")
        with served(agent, user=lambda request: request.headers["x-user"]) as client:
            assert client.get(PATH).json()["needs_token"] is False

    @pytest.mark.parametrize(
        ("mount", "place", "written"),
        [("/agent", "/agent", "/agent"), ("/{team}/agent", "/a;%20b/agent", "/a%3B%20b/agent")],
    )
    def test_the_cookie_is_for_where_the_app_is_mounted(
        self, mount: str, place: str, written: str
    ) -> None:
        agent, _ = agent_for("Hello.")
        inner = AgentServer(agent, token=TOKEN)
        with (
            serving(Starlette(routes=[Mount(mount, inner)])) as url,
            httpx.Client(base_url=url) as http,
        ):
            signed_in = http.post(f"{place}{PATH}", json={"token": TOKEN})
            http.cookies.clear()
            signed_out = http.delete(f"{place}{PATH}", headers={"cookie": f"{COOKIE}={VALUE}"})
        assert f"; Path={written}; HttpOnly" in signed_in.headers["set-cookie"]
        assert f"; Path={written}; HttpOnly" in signed_out.headers["set-cookie"]

    def test_the_cookie_of_a_page_that_came_over_https_stays_there(self) -> None:
        agent, _ = agent_for("Hello.")
        page = "https://agent.example"
        with served(agent, token=TOKEN, hosts=None, origins=(page,)) as client:
            headers = {"host": "agent.example", "origin": page}  # what ends TLS did not say so
            answer = client.post(PATH, {"token": TOKEN}, **headers)
        assert answer.headers["set-cookie"].endswith("; SameSite=Strict; Secure")
