"""The page and its files: what is given, to whom, and what a browser lets them do."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount

from argstream import server
from argstream.sanitise import table
from argstream.server import AgentServer, Limits
from tests.server.raw import call
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


STATIC = Path(server.__file__).with_name("static")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A server with a token, and a page elsewhere that may ask."""
    agent, _ = agent_for("Hello.")
    with served(agent, token=TOKEN, origins=(FRIEND,)) as client:
        yield client


class TestFiles:
    @pytest.mark.parametrize(
        ("path", "kind", "policy"),
        [
            ("/", "text/html; charset=utf-8", POLICY),
            ("/static/page.css", "text/css; charset=utf-8", CLOSED),
            ("/static/page/main.js", "text/javascript; charset=utf-8", CLOSED),
        ],
    )
    def test_are_given_with_their_kind_and_looked_at_anew_each_time(
        self, client: Client, path: str, kind: str, policy: str
    ) -> None:
        answer = client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        again = client.get(path, **{"if-none-match": f'"other", W/{answer.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == answer.headers["etag"]
        assert client.get(path, **{"if-none-match": "*"}).status_code == 304
        assert client.get(path, **{"if-none-match": '"other"'}).content == answer.content
        # What comes with a 304 takes the place of what the browser has.
        opener = "same-origin" if path == "/" else None
        for one in (answer, again):
            assert one.headers["content-security-policy"] == policy
            assert one.headers.get("cross-origin-opener-policy") == opener
        head = client.http.head(path)
        assert head.headers["content-length"] == str(len(answer.content))
        assert head.headers["etag"] == answer.headers["etag"]

    def test_show_what_was_edited(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        first = client.get(SCRIPT)
        file = STATIC / "argstream.js"
        before = file.stat()
        monkeypatch.setattr(Path, "read_bytes", lambda _: b"edited")
        kept = {"if-none-match": first.headers["etag"]}
        assert client.get(SCRIPT, **kept).status_code == 304
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        try:
            second = client.get(SCRIPT, **kept)
        finally:
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (second.status_code, second.text) == (200, "edited")

    @pytest.mark.parametrize(
        "name",
        [
            *("", "nothing.js", "index.html", "notes.txt", "page", "page/", "argstream.js/main.js"),
            *("../app.py", "%2e%2e/app.py", "..%2fapp.py", "page/../../app.py", "..%5capp.py"),
            *("/argstream.js", "%2fetc%2fpasswd", "argstream.js%00.js", "Argstream.js"),
            *(f"{'x' * 300}.js", f"{'x/' * 300}y.js"),
        ],
    )
    def test_of_no_such_name_are_a_problem(self, client: Client, name: str) -> None:
        answer = call(client.http.base_url.port or 0, path=f"/static/{name}")
        assert answer.refusal == (404, "not-found")
        assert answer.headers["content-security-policy"] == CLOSED

    def test_are_not_written_to(self, client: Client) -> None:
        answer = client.post(SCRIPT, authorization=f"Bearer {TOKEN}")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


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
