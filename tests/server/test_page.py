"""The page: how its files are served, what they import, and what no file may contain."""

import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from posixpath import normpath

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount

from argstream import server
from argstream.server import AgentServer, Limits
from tests.server.raw import call
from tests.server.talking import Client, agent_for, hosted, problem, talking

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
    with talking("Hello.", token=TOKEN, origins=(FRIEND,)) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "kind", "policy"),
    [
        ("/", "text/html", POLICY),
        ("/static/page.css", "text/css", CLOSED),
        ("/static/page.js", "text/javascript", CLOSED),
    ],
)
def test_files_are_served_with_their_policy_and_revalidated(
    client: Client, path: str, kind: str, policy: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == f"{kind}; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    again = client.get(path, **{"if-none-match": f'"other", W/{answer.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == answer.headers["etag"]
    assert client.status(path, **{"if-none-match": "*"}) == 304
    assert client.get(path, **{"if-none-match": '"other"'}).content == answer.content
    # The headers of a 304 replace those that the browser has.
    for one in (answer, again):
        assert one.headers["content-security-policy"] == policy
        opener = one.headers.get("cross-origin-opener-policy")
        assert opener == ("same-origin" if path == "/" else None)
    head = client.http.head(path)
    assert head.headers["content-length"] == answer.headers["content-length"]
    assert head.headers["etag"] == answer.headers["etag"]


def prefix_of(client: Client) -> str:
    """Return what stands before the names of files in the document."""
    found = re.search(r'src="(static/[0-9a-f]{16}/)page\.js"', client.get("/").text)
    assert found is not None
    return found[1]


def test_reload_asks_only_for_the_document(client: Client) -> None:
    document = client.get("/").text
    named = re.findall(r'(?:src|href)="(static/[^"]*)"', document)
    assert len(named) == 8
    for path in named:
        assert path.startswith(prefix_of(client))
        answer = client.get(f"/{path}")
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        stable = client.get(f"/static/{path.rpartition('/')[2]}")
        assert stable.headers["cache-control"] == "no-cache"
        assert answer.text.count("\n") == stable.text.count("\n")
        without_comments = [line for line in answer.text.splitlines() if line.strip()]
        assert set(without_comments) <= set(stable.text.splitlines())
        only_comment = re.compile(r"\s*(?://.*|/\*.*\*/\s*)")
        assert not any(only_comment.fullmatch(line) for line in without_comments)


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip, deflate, br", "gzip"), ("br;q=1, gzip;q=0", None), ("identity", None), ("", None)],
)
def test_files_are_compressed_for_clients_that_accept_it(
    client: Client, accepted: str, encoding: str | None
) -> None:
    for path in ("/", SCRIPT):
        answer = client.get(path, **{"accept-encoding": accepted})
        assert answer.headers.get("content-encoding") == encoding
        assert "accept-encoding" in answer.headers["vary"]
        assert "argstream" in answer.text
        kept = {"accept-encoding": accepted, "if-none-match": answer.headers["etag"]}
        assert client.status(path, **kept) == 304


def test_page_loads_in_few_small_files(client: Client) -> None:
    document = client.http.get("/")
    paths = re.findall(r'(?:src|href)="(static/[^"]*)"', document.text)
    sizes = [int(client.http.get(path).headers["content-length"]) for path in ["/", *paths]]
    assert len(sizes) + 1 <= 10  # with the list of conversations
    assert sum(sizes) <= 130_000


def test_edited_file_is_served_again(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"if-none-match": client.get(SCRIPT).headers["etag"]}
    file = STATIC / "argstream.js"
    before = file.stat()
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"edited")
    assert client.status(SCRIPT, **kept) == 304
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
        *("elements.d.ts", "0123456789abcdef/argstream.js", "DIGEST/index.html"),
        *(f"{'x' * 300}.js", f"{'x/' * 300}y.js"),
    ],
)
def test_unknown_file_is_404(client: Client, name: str) -> None:
    name = name.replace("DIGEST", prefix_of(client).split("/")[1])
    answer = call(client.http.base_url.port or 0, path=f"/static/{name}")
    assert answer.refusal == (404, "not-found")
    assert answer.headers["content-security-policy"] == CLOSED


def test_files_need_no_token_and_are_read_only(client: Client) -> None:
    answer = client.post(SCRIPT, authorization=f"Bearer {TOKEN}")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert client.status(SCRIPT) == client.status("/", accept="text/html") == 200
    assert client.status("/static/nothing.js") == 404
    assert client.status("/api/runs") == client.status("/static") == 401
    assert client.post(SCRIPT).status_code == 401


def test_host_and_origin_are_checked_for_files(client: Client) -> None:
    cross_site = {"sec-fetch-site": "cross-site"}
    for path in ("/", SCRIPT, "/api/session"):
        rebound = client.get(path, host="evil.example", accept="text/html")
        assert problem(rebound) == (403, "wrong-host")
    for path in ("/", "/api/session"):
        for headers in ({"origin": "https://evil.example"}, cross_site):
            assert problem(client.get(path, **headers)) == (403, "wrong-origin")
    link = cross_site | {"sec-fetch-mode": "navigate"}
    assert client.status("/", **link) != 403


def test_pages_of_any_origin_may_load_the_code(client: Client) -> None:
    for headers in ({"origin": "https://other.example"}, {"sec-fetch-site": "cross-site"}, {}):
        answer = client.get(SCRIPT, **headers)
        known = {"if-none-match": answer.headers["etag"]}
        for one in (answer, client.get(SCRIPT, **headers, **known)):
            assert one.headers["access-control-allow-origin"] == "*"
            assert one.headers["cross-origin-resource-policy"] == "cross-origin"


def test_requests_for_files_are_counted_and_the_page_can_be_switched_off() -> None:
    with talking("Hello.", limits=Limits(requests_per_minute=30)) as client:
        assert [client.status(SCRIPT) for _ in range(4)] == [200, 200, 200, 429]
    for token, status in ((None, 404), (TOKEN, 401)):
        with talking("Hello.", page=False, token=token) as client:
            assert [client.status(path) for path in ("/", SCRIPT)] == [status] * 2


def test_page_of_a_mounted_app_needs_no_user() -> None:
    def forbidden(_: object) -> str:
        raise HTTPException(403, "not for you")

    inner = AgentServer(agent_for("Hello.")[0], hosts=None, user=forbidden)
    with hosted(Starlette(routes=[Mount("/agent", inner)])) as client:
        client.http.follow_redirects = True
        assert str(client.get("/agent").url) == f"{client.url}/agent/"
        for path in (SCRIPT, "/", "/api/session"):
            assert client.status(f"/agent{path}") == 200
        assert client.status("/agent/api/runs") == 403


# The text of the files

MODULES = {file.relative_to(STATIC).as_posix(): file.read_text() for file in STATIC.rglob("*.js")}
TEXTS = MODULES | {
    file.relative_to(STATIC).as_posix(): file.read_text()
    for kind in ("*.html", "*.css", "*.svg")
    for file in STATIC.rglob(kind)
}
_IMPORT = re.compile(r'^import\b(?:([^;"]*?)\bfrom\b)?\s*"(\.[^"]*)";', re.MULTILINE)
_LAZY_IMPORT = re.compile(r'\{([^{}]*)\} = await import\("(\.[^"]*)"\)')
_FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\s*\(|\bnew Function\b"
    r"|createContextualFragment|setHTMLUnsafe|DOMParser|\bsrcdoc\s*="
    r"|[\"'`]\s*javascript:|setTimeout\(\s*[\"'`]"
)


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


INDEX = Elements(TEXTS["index.html"]).found


def imports(name: str, pattern: re.Pattern[str] = _IMPORT) -> Iterator[tuple[set[str], str]]:
    """Yield the names that a module imports, and their module."""
    for names, path in pattern.findall(MODULES.get(name, "")):
        target = normpath(PurePosixPath(name).parent / path)
        yield set(re.findall(r"(\w+)(?: as \w+)?", names)), target


def reached(name: str) -> set[str]:
    """Return a module and all modules that it imports, directly or not."""
    known: set[str] = set()
    waiting = [name]
    while waiting:
        if (module := waiting.pop()) not in known:
            known.add(module)
            waiting.extend(path for _, path in imports(module))
    return known


def loaded(tag: str, attribute: str, **others: str) -> list[str]:
    return [
        attributes[attribute].removeprefix("static/")
        for name, attributes in INDEX
        if name == tag and attribute in attributes and others.items() <= attributes.items()
    ]


def test_page_preloads_all_modules_that_it_starts_with() -> None:
    scripts = loaded("script", "src", type="module")
    preloaded = loaded("link", "href", rel="modulepreload")
    assert "page.js" in scripts
    assert sorted(preloaded) == preloaded
    assert sorted([*scripts, *preloaded]) == sorted(reached("page.js"))


def test_every_file_is_used() -> None:
    lazily = {path for name in MODULES for _, path in imports(name, _LAZY_IMPORT)}
    used = reached("page.js").union(*map(reached, lazily))
    assert used == set(MODULES)
    styles = loaded("link", "href", rel="stylesheet")
    assert sorted(styles) == sorted(name for name in TEXTS if name.endswith(".css"))


def test_no_file_turns_text_into_markup_or_code() -> None:
    assert {name: found for name in TEXTS if (found := _FORBIDDEN.findall(TEXTS[name]))} == {}
    for tag, attributes in INDEX:
        assert tag != "style"
        assert tag != "script" or attributes["src"].startswith("static/")
        assert [name for name in attributes if name.startswith("on") or name == "style"] == []
        addresses = [attributes.get("src", ""), attributes.get("href", "")]
        assert all(re.fullmatch(r"(?:(?:static/|#).*)?", address) for address in addresses)
