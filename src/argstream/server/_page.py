"""The web page at ``/``, and its files at ``/static/…``.

The files are public and need no token. The page gets its data from ``/api``, which needs one. Its
content security policy allows scripts and styles of this server only, requests to this server only,
and no string that becomes markup (``_POLICY``).

The document links to ``/static/DIGEST/NAME``, where the digest is that of all files. Browsers keep
these for good, so a reload asks only for the document. Their comments are left out, which are a
third of the bytes. ``/static/NAME`` has the files as they are under names that do not change, for
other pages and for people who read them: these are revalidated.
"""

import asyncio
import gzip
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argstream.server._security import STATIC_PATH, Problem

_FOLDER: Final = Path(__file__).with_name("static")
_INDEX: Final = "index.html"
_KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_DOCUMENT_HEADERS: Final = {
    "cache-control": "no-cache",
    "content-security-policy": _POLICY,
    # A site that opens this page gets no reference to it, so the site cannot navigate the page.
    "cross-origin-opener-policy": "same-origin",
}
_REVALIDATED: Final = {"cache-control": "no-cache"}
_IMMUTABLE: Final = {"cache-control": "public, max-age=31536000, immutable"}
# Comments that begin a line and are all that follows on it. They become blank, so that the numbers
# of lines stay. Every test of the page runs on what is left.
_COMMENTS: Final = re.compile(rb"^[ \t]*(?://.*|/\*(?:[^*]|\*(?!/))*\*/[ \t]*)$", re.MULTILINE)
_GZIP: Final = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")


class _Asset(Struct, frozen=True):
    kind: str
    bodies: Mapping[str, tuple[str, bytes]]  # ETag and content, by content encoding


class _Files(Struct, frozen=True):
    """The files of the page, as they were when they were read."""

    versions: Mapping[Path, tuple[int, int]]  # modification times and sizes
    document: _Asset
    assets: Mapping[str, _Asset]  # by NAME, and without comments by DIGEST/NAME


class Page:
    def __init__(self) -> None:
        self._files: _Files | None = None

    def routes(self) -> list[Route]:
        return [
            Route("/", self._show, methods=["GET"]),
            Route(f"{STATIC_PATH}{{path:path}}", self._send_file, methods=["GET"]),
        ]

    async def _show(self, request: Request) -> Response:
        files = await asyncio.to_thread(self._read)
        # Also with a 304: its headers replace those that the browser has cached.
        return _answer(request, files.document, _DOCUMENT_HEADERS)

    async def _send_file(self, request: Request) -> Response:
        path: str = request.path_params["path"]
        has_digest, files = "/" in path, self._files
        if files is None or not has_digest or path not in files.assets:
            files = await asyncio.to_thread(self._read)
        if (asset := files.assets.get(path)) is None:
            raise Problem(404, "not-found", "no such file")
        return _answer(request, asset, _IMMUTABLE if has_digest else _REVALIDATED)

    def _read(self) -> _Files:
        """Return the files from memory. If one was edited, they are read again.

        It reads from the disk, so it is called in a thread.
        """
        versions: dict[Path, tuple[int, int]] = {}
        for path in sorted(_FOLDER.iterdir()):
            if path.suffix in _KINDS:
                status = path.stat()
                versions[path] = status.st_mtime_ns, status.st_size
        files = self._files
        if files is None or files.versions != versions:
            files = self._files = _files_of(versions)
        return files


def _files_of(versions: Mapping[Path, tuple[int, int]]) -> _Files:
    contents = {path.name: path.read_bytes() for path in versions}
    named = b"".join(name.encode() + b"\0" + content for name, content in contents.items())
    digest = hashlib.sha256(named).hexdigest()[:16]
    document = contents.pop(_INDEX).replace(b'"static/', f'"static/{digest}/'.encode())
    assets: dict[str, _Asset] = {}
    for name, content in contents.items():
        bare = _COMMENTS.sub(lambda comment: b"\n" * comment[0].count(b"\n"), content)
        assets |= {name: _asset(name, content), f"{digest}/{name}": _asset(name, bare)}
    return _Files(versions, _asset(_INDEX, document), assets)


def _asset(name: str, content: bytes) -> _Asset:
    bodies = {"identity": content, "gzip": gzip.compress(content, mtime=0)}
    tagged = {encoding: (etag_of(body), body) for encoding, body in bodies.items()}
    return _Asset(_KINDS[Path(name).suffix], tagged)


def _answer(request: Request, asset: _Asset, headers: Mapping[str, str]) -> Response:
    is_compressed = _GZIP.search(request.headers.get("accept-encoding", ""))
    etag, content = asset.bodies["gzip" if is_compressed else "identity"]
    headers = {**headers, "etag": etag, "vary": "accept-encoding"}
    if is_known(request, etag):
        return Response(status_code=304, headers=headers)
    headers |= {"content-type": asset.kind} | (
        {"content-encoding": "gzip"} if is_compressed else {}
    )
    return Response(content, headers=headers)


def etag_of(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def is_known(request: Request, etag: str) -> bool:
    """Return True if the client has the content with this ETag."""
    known = request.headers.get("if-none-match", "")
    return known.strip() == "*" or etag in re.findall(r'"[^"]*"', known)
