"""The page and its files: what is given, to whom, and what a browser lets them do."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount, Router

from argstream.sanitise import table
from argstream.server import AgentServer, Limits
from argstream.server.doors import Doors
from argstream.server.guarding import Guard
from argstream.server.page import Page
from tests.server.servers import serving
from tests.server.talking import Client, agent_for, served

TOKEN = "a-token-nobody-guesses"
FRIEND = "http://friend.example:3000"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
CLOSED = "default-src 'none'; frame-ancestors 'none'"
SCRIPT = "/static/argstream.js"


class Folder:
    """A page of a folder behind doors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._app = Guard(Router(Page(folder).routes()), Doors())

    def write(self, name: str, text: str, age: int = 0) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written = 1_000_000_000 - age
        os.utime(path, (written, written))

    def get(self, path: str, method: str = "GET", **headers: str) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                request = http.build_request(method, "/", headers=headers)
                request.url = request.url.copy_with(raw_path=path.encode())  # as it is written
                return await http.send(request)

        return asyncio.run(ask())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A page with a script and a style."""
    page = Folder(tmp_path / "static")
    page.folder.mkdir()
    page.write("index.html", "<!doctype html><title>Ünïcode</title>")
    page.write("page.css", "p { color: red }")
    page.write("page/main.js", "export {};")
    page.write("notes.txt", "nobody's business")
    (tmp_path / "secret.js").write_text("secret")
    return page


class TestFiles:
    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/", "text/html; charset=utf-8"),
            ("/static/page.css", "text/css; charset=utf-8"),
            ("/static/page/main.js", "text/javascript; charset=utf-8"),
        ],
    )
    def test_are_given_with_their_kind_and_looked_at_anew_each_time(
        self, folder: Folder, path: str, kind: str
    ) -> None:
        answer = folder.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = folder.get(path, **{"if-none-match": f'"other", W/{answer.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == answer.headers["etag"]
        assert folder.get(path, **{"if-none-match": "*"}).status_code == 304
        assert folder.get(path, **{"if-none-match": '"other"'}).content == answer.content

    def test_can_be_asked_for_without_their_content(self, folder: Folder) -> None:
        answer = folder.get("/static/page.css", "HEAD")
        assert (answer.status_code, answer.headers["content-length"]) == (200, "16")
        assert answer.headers["etag"] == folder.get("/static/page.css").headers["etag"]

    def test_show_what_was_edited(self, folder: Folder) -> None:
        first = folder.get("/static/page.css")
        folder.write("page.css", "p { color: tan }", age=1)  # as long as before
        second = folder.get("/static/page.css", **{"if-none-match": first.headers["etag"]})
        assert (second.status_code, second.text) == (200, "p { color: tan }")
        assert second.headers["etag"] != first.headers["etag"]
        folder.write("page/new.js", "export const one = 1;")
        assert folder.get("/static/page/new.js").status_code == 200

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "nothing.js",
            "index.html",
            "notes.txt",
            "page",
            "page/",
            "page.css/main.js",
            "../secret.js",
            "%2e%2e/secret.js",
            "..%2fsecret.js",
            "page/../../secret.js",
            "..%5csecret.js",
            "/page.css",
            "%2fetc%2fpasswd",
            "page.css%00.js",
            "Page.css",
            f"{'x' * 300}.js",
            f"{'x/' * 300}y.js",
        ],
    )
    def test_of_no_such_name_are_a_problem(self, folder: Folder, name: str) -> None:
        answer = folder.get(f"/static/{name}")
        assert answer.status_code == 404
        assert answer.json()["type"] == "urn:argstream:not-found"
        assert "secret" not in answer.json()["detail"]

    def test_are_not_written_to(self, folder: Folder) -> None:
        answer = folder.get("/static/page.css", "POST", **{"content-type": "application/json"})
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")

    def test_a_page_that_is_not_there_is_a_problem(self, tmp_path: Path) -> None:
        assert Folder(tmp_path).get("/").status_code == 404


class TestPolicy:
    def test_the_page_may_do_nothing_but_what_it_must(self, folder: Folder) -> None:
        page = folder.get("/")
        assert page.headers["content-security-policy"] == POLICY
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cross-origin-opener-policy"] == "same-origin"
        # What comes with a 304 takes the place of what the browser has.
        again = folder.get("/", **{"if-none-match": page.headers["etag"]})
        assert (again.status_code, again.headers["content-security-policy"]) == (304, POLICY)
        assert again.headers["cross-origin-opener-policy"] == "same-origin"

    def test_all_else_may_do_nothing_at_all(self, folder: Folder) -> None:
        for path in ("/static/page.css", "/static/nothing.js", "/nothing"):
            assert folder.get(path).headers["content-security-policy"] == CLOSED


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A server with a token, and a page elsewhere that may ask."""
    agent, _ = agent_for("Hello.")
    with served(agent, token=TOKEN, origins=(FRIEND,)) as client:
        yield client


class TestDoors:
    def test_what_is_not_secret_needs_no_token(self, client: Client) -> None:
        assert client.get(SCRIPT).status_code == 200
        assert client.get("/static/nothing.js").status_code == 404
        assert client.get("/", accept="text/html").status_code == 200
        assert client.get("/api/runs").status_code == 401
        assert client.post(SCRIPT).status_code == 401
        assert client.get("/static").status_code == 401

    def test_the_host_and_the_origin_are_looked_at(self, client: Client) -> None:
        for path in ("/", SCRIPT, "/api/session"):
            rebound = client.get(path, host="evil.example", accept="text/html")
            assert (rebound.status_code, rebound.json()["type"]) == (
                403,
                "urn:argstream:wrong-host",
            )
            others = client.get(path, origin="https://evil.example")
            assert others.json()["type"] == "urn:argstream:wrong-origin"
            embedded = client.get(path, **{"sec-fetch-site": "cross-site"})
            assert embedded.json()["type"] == "urn:argstream:wrong-origin"

    def test_a_link_to_it_may_be_followed(self, client: Client) -> None:
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert client.get("/", **link).status_code != 403

    def test_a_friends_page_may_import_its_scripts(self, client: Client) -> None:
        answer = client.get(SCRIPT, origin=FRIEND)
        assert answer.headers["access-control-allow-origin"] == FRIEND
        kept = {"origin": FRIEND, "if-none-match": answer.headers["etag"]}
        assert client.get(SCRIPT, **kept).headers["access-control-allow-origin"] == FRIEND

    def test_it_is_counted(self) -> None:
        agent, _ = agent_for("Hello.")
        with served(agent, limits=Limits(requests_per_minute=30)) as client:
            statuses = [client.get(SCRIPT).status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]

    def test_who_wants_none_has_none(self) -> None:
        agent, _ = agent_for("Hello.")
        with served(agent, page=False) as client:
            assert [client.get(path).status_code for path in ("/", SCRIPT)] == [404, 404]
        with served(agent, page=False, token=TOKEN) as client:
            assert [client.get(path).status_code for path in ("/", SCRIPT)] == [401, 401]

    def test_it_is_open_where_it_is_mounted(self) -> None:
        agent, _ = agent_for("Hello.")

        def nobody(_: object) -> str:
            raise HTTPException(403, "not for you")

        inner = AgentServer(agent, hosts=None, user=nobody)
        with (
            serving(Starlette(routes=[Mount("/agent", inner)])) as url,
            httpx.Client(base_url=url, follow_redirects=True) as http,
        ):
            assert http.get(f"/agent{SCRIPT}").status_code == 200
            assert str(http.get("/agent").url) == f"{url}/agent/"
            assert http.get("/agent/").status_code == 200
            assert http.get("/agent/api/session").status_code == 200
            assert http.get("/agent/api/runs").status_code == 403


@pytest.mark.bulk
def test_the_table_of_what_is_hidden_is_that_of_the_terminal(client: Client) -> None:
    answer = client.get("/static/visible-table.js")
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.content.isascii()
    written = answer.text.removeprefix("export const table = ").removesuffix(";\n")
    assert json.loads(written) == json.loads(json.dumps(table()))
    kept = {"if-none-match": answer.headers["etag"]}
    assert client.get("/static/visible-table.js", **kept).status_code == 304
