"""``/api/session``: how a page signs in, since the token is not for its scripts to keep.

===========================  =====================================================================
``GET /api/session``         ``{needs_token, signed_in, agent}``: whether the page must ask for it
``POST /api/session``        ``{token}``: 204 and a cookie, with which the browser is let in
``DELETE /api/session``      204, and the cookie is gone
===========================  =====================================================================

Anybody may ask this, without the token; pages of other origins may not.
"""

from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argstream.server._tokens import Token, no_cookie, token_cookie
from argstream.server.context import Context
from argstream.server.problems import Problem

__all__ = ["SESSION_PATH", "routes"]

SESSION_PATH: Final = "/api/session"
_MOST_BYTES: Final = 4 * 1024
"""Of a body: it has a token and no more, and anybody may send it."""


class _SignIn(Struct, forbid_unknown_fields=True):
    token: str


class _Session(Struct):
    needs_token: bool
    signed_in: bool
    agent: str


def routes(context: Context, token: str | None) -> list[Route]:
    """Give the routes of a server with this token, or none."""

    async def show(request: Request) -> Response:
        has_token: bool = request.scope["argstream.has_token"]
        told = _Session(not has_token, has_token and token is not None, context.runs.agent)
        return Response(msgspec.json.encode(told), media_type="application/json")

    async def sign_in(request: Request) -> Response:
        body = await context.body(request, _SignIn, most=_MOST_BYTES)
        if token is None:
            return Response(status_code=204)  # all is as wanted
        if not Token(token).is_same(body.token):
            context.count_wrong_token(request)
            raise Problem(
                401,
                "wrong-token",
                "wrong token",
                {"www-authenticate": "Bearer"},
            )
        cookie = token_cookie(token, secure=_is_secure(request), path=_place(request))
        return Response(status_code=204, headers={"set-cookie": cookie})

    async def sign_out(request: Request) -> Response:
        # Only who has it knows its name, which comes of the token: others must not be told.
        if token is None or not Token(token).is_in_cookie(_cookies(request)):
            return Response(status_code=204)
        cookie = no_cookie(token, secure=_is_secure(request), path=_place(request))
        return Response(status_code=204, headers={"set-cookie": cookie})

    return [
        Route(SESSION_PATH, show, methods=["GET"]),
        Route(SESSION_PATH, sign_in, methods=["POST"]),
        Route(SESSION_PATH, sign_out, methods=["DELETE"]),
    ]


def _cookies(request: Request) -> bytes:
    return "; ".join(request.headers.getlist("cookie")).encode("latin-1")


def _place(request: Request) -> str:
    """Say below which path the app is, as browsers write it."""
    return quote(request.scope.get("root_path", "")) or "/"


def _is_secure(request: Request) -> bool:
    """Say whether the browser came over https, also if what ends TLS before us does not tell."""
    origin = request.headers.get("origin", "")
    return request.url.scheme == "https" or origin.startswith("https://")
