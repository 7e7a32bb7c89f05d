"""The page of a server at ``/``, and what it is made of at ``/static/…``.

The files are not secret and need no token. What the page shows comes from ``/api``, which does. Its
content security policy allows scripts and styles of this server only, requests to this server only,
and no string that becomes markup (``_POLICY``).

``/static/visible-table.js`` is generated from ``argstream.sanitise``, so that the page shows hidden
characters as a terminal does.
"""

import asyncio
import json
import re
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argstream import sanitise
from argstream.server._problems import Problem, etag_of, is_known

_FOLDER: Final = Path(__file__).with_name("static")
_INDEX: Final = "index.html"
_BELOW: Final = "/static/"
_TABLE: Final = "visible-table.js"
_KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
}
# No dot but that of the kind: such a name leads nowhere else.
_NAME: Final = re.compile(rf"(?:[a-z0-9-]{{1,60}}/){{0,3}}[a-z0-9-]{{1,60}}\.({'|'.join(_KINDS)})")
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    # A page that opens this one must not keep a hold on it: it could lead it elsewhere later.
    "cross-origin-opener-policy": "same-origin",
}


class _Asset(Struct, frozen=True):
    content: bytes
    kind: str
    etag: str
    """What a browser that has it can name it by."""
    version: tuple[int, int]
    """Modification time and size: they change when the file is edited."""


class Page:
    def __init__(self) -> None:
        self._assets: dict[str, _Asset] = {}

    @staticmethod
    def is_at(path: str) -> bool:
        """Return True if a path belongs to the page, whether the file exists or not."""
        return path in ("", "/") or path.startswith(_BELOW)

    def routes(self) -> list[Route]:
        return [
            Route("/", self._show, methods=["GET"]),
            Route(f"{_BELOW}{{name:path}}", self._give, methods=["GET"]),
        ]

    async def _show(self, request: Request) -> Response:
        page = await asyncio.to_thread(self._read, _INDEX, "text/html; charset=utf-8")
        # Also with a 304, whose headers take the place of those that the browser has kept.
        return _answer(request, page, _HEADERS)

    async def _give(self, request: Request) -> Response:
        name: str = request.path_params["name"]
        if name == _TABLE:
            return _answer(request, await asyncio.to_thread(_visible_table))
        match = _NAME.fullmatch(name)
        if match is None:
            raise _nothing()
        return _answer(request, await asyncio.to_thread(self._read, name, _KINDS[match[1]]))

    def _read(self, name: str, kind: str) -> _Asset:
        """Return a file from memory. An edited file is read again, so a reload shows it.

        It looks at the disk, so it is called in a thread.
        """
        path = _FOLDER / name
        try:
            status = path.stat()
            version = (status.st_mtime_ns, status.st_size)
            asset = self._assets.get(name)
            if asset is None or asset.version != version:
                asset = self._assets[name] = _asset(path.read_bytes(), kind, version)
        except (FileNotFoundError, NotADirectoryError):
            raise _nothing() from None
        return asset


def _asset(content: bytes, kind: str, version: tuple[int, int] = (0, 0)) -> _Asset:
    return _Asset(content, kind, etag_of(content), version)


@cache
def _visible_table() -> _Asset:
    table = json.dumps(sanitise.table(), separators=(",", ":"))
    return _asset(f"export const table = {table};\n".encode(), _KINDS["js"])


def _nothing() -> Problem:
    return Problem(404, "not-found", "there is no such file here")


def _answer(request: Request, asset: _Asset, headers: dict[str, str] | None = None) -> Response:
    headers = {"etag": asset.etag, "cache-control": "no-cache", **(headers or {})}
    if is_known(request, asset.etag):
        return Response(status_code=304, headers=headers)
    return Response(asset.content, 200, {**headers, "content-type": asset.kind})
