"""``/api/session``: a page signs in with the token once, and then uses a cookie."""

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from argstream.server import AgentServer, Limits, token_cookie
from tests.server.talking import Client, agent_for, eventually, hosted, problem, talking

TOKEN = "canary-token-0001"
WRONG = "canary-wrong-0002"
OTHER = "canary-token-0003"
PATH = "/api/session"
Logs = pytest.LogCaptureFixture
COOKIE, _, VALUE = token_cookie(TOKEN).partition(";")[0].partition("=")


@pytest.fixture
def client() -> Iterator[Client]:
    """A browser, which keeps cookies, and a server with a token."""
    with talking(*["Hello."] * 2, name="helper", token=TOKEN) as client:
        yield client


def sign_in(client: Client, token: Any = TOKEN) -> httpx.Response:
    return client.post(PATH, {"token": token}, origin=client.url)


def test_session_says_whether_a_token_is_needed(client: Client) -> None:
    answer = client.get(PATH)
    assert answer.json() == {"needs_token": True, "signed_in": False, "agent": "helper"}
    assert answer.headers["cache-control"] == "no-store"
    sign_in(client)
    signed_in = {"needs_token": False, "signed_in": True, "agent": "helper"}
    assert client.get(PATH).json() == signed_in
    client.http.cookies.clear()
    assert client.get(PATH, authorization=f"Bearer {TOKEN}").json()["needs_token"] is False


def test_cookie_admits_until_the_page_signs_out(client: Client) -> None:
    assert client.status("/api/runs") == 401
    answer = sign_in(client)
    assert (answer.status_code, answer.content) == (204, b"")
    attributes = "Path=/; HttpOnly; SameSite=Strict"
    assert answer.headers["set-cookie"] == f"{COOKIE}={VALUE}; {attributes}"
    assert client.status("/api/runs") == 200
    assert client.post("/api/runs", {"message": "Hi"}, origin=client.url).status_code == 201
    answer = client.delete(PATH)
    assert answer.status_code == 204
    assert answer.headers["set-cookie"] == f"{COOKIE}=; {attributes}; Max-Age=0"
    assert client.status("/api/runs") == 401
    assert client.get(PATH).json()["needs_token"] is True


@pytest.mark.parametrize(
    "cookie",
    [
        *("a=b", f"{COOKIE}=", f"{COOKIE}={'0' * 64}"),
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
            assert refused.json()["detail"] == (
                "the body is longer than 4096 bytes, which is all that is taken"
            )
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
        assert "wrong_tokens_per_minute=10 is all" in refused.json()["detail"]
        assert 1 <= int(refused.headers["retry-after"]) <= 6
    assert client.status("/api/runs") == 401
    assert client.status("/api/runs", authorization=f"Bearer {TOKEN}") == 200
    assert client.status("/api/runs", authorization="Basic eA==") == 401
    assert sign_in(client).status_code == 204
    assert client.status("/api/runs") == 200
    assert client.status(path, **wrong) == 429


def test_tokens_do_not_reach_a_log_or_an_answer(client: Client, caplog: Logs) -> None:
    caplog.set_level(logging.DEBUG)
    answers = [sign_in(client, token) for token in (WRONG, TOKEN, [WRONG], TOKEN)]
    answers += [client.get(PATH), client.get("/api/runs"), client.delete(PATH)]
    assert {answer.status_code for answer in answers} == {200, 204, 401, 422}
    eventually(lambda: caplog.text.count(" ms\n") >= len(answers))  # all requests are logged
    shown = caplog.text + "".join(f"{one.text}{one.headers}" for one in answers)
    assert f"POST '{PATH}': 204" in shown
    assert TOKEN not in shown
    assert WRONG not in shown


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
        signed_out = client.http.delete(PATH, headers={"cookie": f"{COOKIE}={VALUE}"})
    for answer in (signed_in, signed_out):
        assert f"; Path={written}; HttpOnly" in answer.headers["set-cookie"]


def test_cookie_of_a_page_that_came_over_https_is_secure() -> None:
    page = "https://agent.example"
    with talking("Hello.", token=TOKEN, hosts=None, origins=(page,)) as client:
        headers = {"host": "agent.example", "origin": page}  # the TLS proxy adds no header
        answer = client.post(PATH, {"token": TOKEN}, **headers)
    assert answer.headers["set-cookie"].endswith("; SameSite=Strict; Secure")
