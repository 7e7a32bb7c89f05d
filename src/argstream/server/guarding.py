"""The doors of a server: who may come in, from where, and what he is told if he may not.

``Guard`` stands before the routes. It looks at the head of a request once, in an order that tells
those outside nothing: Host, Origin, preflight, token, user, rate, content type. Answers pass it
untouched but for the headers that it adds to their head. What fails inside is told as
problem+json, and what was not expected goes to the log, without what is secret.
"""

import inspect
import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from argstream.errors import UsageError
from argstream.server._failures import log_failure, logger
from argstream.server._origins import is_allowed_host, normal_host, normal_origin, same_origin
from argstream.server._tokens import Token
from argstream.server.doors import Doors
from argstream.server.problems import (
    Problem,
    problem_of,
    problem_of_host_app,
    problem_response,
)
from argstream.server.rates import Rates, client_of

__all__ = ["OPEN_PATH", "Guard"]

OPEN_PATH: Final = "/healthz"
"""What anybody may ask, whatever the token: whether the server is alive."""

_SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_ALLOWED_METHODS: Final = b"GET, POST, DELETE"
_ALLOWED_HEADERS: Final = (
    b"authorization, content-type, if-none-match, last-event-id, user-agent, "
    b"x-vercel-ai-ui-message-stream"
)
_EXPOSED_HEADERS: Final = (
    b"etag, location, retry-after, x-argstream-conversation, x-argstream-run, "
    b"x-vercel-ai-ui-message-stream"
)

# Each is added unless the answer has it.
_SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"x-frame-options", b"DENY"),  # a click on "approve" must not be stolen
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)

# Headers that are looked at here, and that may be there once only.
_SINGLE: Final = frozenset(
    (b"host", b"origin", b"authorization", b"content-type", b"sec-fetch-site", b"sec-fetch-mode")
)

_LONGEST_PATH: Final = 200  # in the log

_ENDS_A_LINE: Final = re.compile(rb"[\r\n\0]")

Headed: TypeAlias = list[tuple[bytes, bytes]]
IsOpen: TypeAlias = Callable[[str, str], bool]


class Guard:
    """Stands before an ASGI app, such as a router, and lets in what its doors allow."""

    def __init__(
        self,
        app: ASGIApp,
        doors: Doors | None = None,
        rates: Rates | None = None,
        is_open: IsOpen | None = None,
    ) -> None:
        """Stand before an app.

        ``is_open`` says of a method and a path whether anybody may ask that, whatever the token.
        """
        doors = doors or Doors()
        self._app = app
        self._hosts = None if doors.hosts is None else frozenset(map(normal_host, doors.hosts))
        self._origins = frozenset(map(normal_origin, doors.origins))
        self._any_origin = "*" in self._origins
        self._token = None if doors.token is None else Token(doors.token)
        self._secrets = (doors.token,) if doors.token else ()
        self._user = doors.user
        self._rates = rates
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": "there are no sockets"})
            return
        scope = dict(scope)
        # With an app, a router raises what it would answer as plain text; without the handlers of
        # an app around us, that gets here.
        scope["app"] = self
        scope.pop("starlette.exception_handlers", None)
        added: Headed = []
        status = 0
        began = time.monotonic()

        def answer(message: Message) -> Awaitable[None]:
            # No coroutine of its own: what streams pays a call for each chunk, and no more.
            nonlocal status
            if not status:
                _add_headers(message, added)
                status = message["status"]
            return send(message)

        try:
            preflight = await self._admit(scope, receive, added)
            await (self._app if preflight is None else preflight)(scope, receive, answer)
        except ClientDisconnect:
            return  # nobody is there to be told
        except Exception as error:  # noqa: BLE001 - all that fails is told, and logged
            problem = problem_of(error)
            if problem is not error and problem.status >= 500:
                log_failure(error, problem, scope, self._secrets)
            if problem.status == 405:
                self._name_methods(problem, scope)
            # A head that is sent cannot be taken back: to end here makes the server hang up.
            if not status:
                await problem_response(problem, Request(scope))(scope, receive, answer)
        finally:
            if logger.isEnabledFor(logging.DEBUG):
                taken = (time.monotonic() - began) * 1_000
                path = scope["path"][:_LONGEST_PATH]
                logger.debug("%s %r: %d in %.0f ms", scope["method"], path, status, taken)

    async def _admit(self, scope: Scope, receive: Receive, added: Headed) -> ASGIApp | None:
        """Raise a Problem, give the answer to a preflight, or None: the request may go on."""
        headers = _headers(scope)
        host = headers.get(b"host", b"").decode("latin-1")
        if self._hosts is not None and not is_allowed_host(host, self._hosts):
            raise Problem(
                403,
                "wrong-host",
                "this server is not asked for by that Host; who runs it can allow it: hosts=… or "
                "--allowed-host",
            )
        method: str = scope["method"]
        safe = method in _SAFE_METHODS
        own_page = self._check_origin(headers, host, scope["scheme"], added, safe=safe)
        if method == "OPTIONS" and b"origin" in headers and _asks_ahead(scope):
            return _preflight
        path = _path(scope)
        if path == OPEN_PATH and safe:
            self._count(scope, "health ")
            return None
        has_token = self._token is None or _has_token(
            self._token, headers, cookie_counts=safe or own_page
        )
        scope["argstream.has_token"] = has_token
        is_open = self._is_open is not None and self._is_open(method, path)
        if has_token and not is_open:
            scope["argstream.user"] = await self._name_user(Request(scope, receive))
        self._count(scope)
        # Also where anybody may ask: what is told there differs for who has the token.
        if not has_token and self._rates is not None and _names_token(headers):
            self._rates.wrong_token(client_of(scope))
        if not (has_token or is_open):
            raise Problem(
                401,
                "token-needed",
                "this server needs a token: send the header 'Authorization: Bearer …'",
                {"www-authenticate": "Bearer"},
            )
        if not safe:
            _check_content_type(method, headers)
        return None

    def _check_origin(
        self, headers: dict[bytes, bytes], host: str, scheme: str, added: Headed, *, safe: bool
    ) -> bool:
        """Refuse others' pages; tell whether it is surely a page of the server's own that asks."""
        if self._origins:
            added.append((b"vary", b"origin"))
        raw = headers.get(b"origin")
        if raw is None:
            if headers.get(b"sec-fetch-site") == b"cross-site" and not (
                safe and headers.get(b"sec-fetch-mode") == b"navigate"  # a link to a page
            ):
                raise _wrong_origin("")
            return False
        origin = raw.decode("latin-1")
        own = same_origin(origin, scheme, host)
        if origin in self._origins:
            added += (
                (b"access-control-allow-origin", raw),
                (b"access-control-allow-credentials", b"true"),
                (b"access-control-expose-headers", _EXPOSED_HEADERS),
            )
            # What ends TLS before us makes a page of our own look like one of another scheme.
            return own or origin.partition("://")[2] == host.lower()
        if own:
            return True
        if not self._any_origin:
            raise _wrong_origin(origin)
        added += (
            (b"access-control-allow-origin", b"*"),
            (b"access-control-expose-headers", _EXPOSED_HEADERS),
        )
        return False

    async def _name_user(self, request: Request) -> str:
        if self._user is None:
            return ""
        try:
            named = self._user(request)
            user: object = await named if inspect.isawaitable(named) else named
        except (Problem, ClientDisconnect):
            raise
        except HTTPException as error:
            self._count(request.scope)
            raise problem_of_host_app(error) from None
        except Exception as error:  # noqa: BLE001 - logged; the request goes no further
            self._count(request.scope)  # first, or a client could fill the log
            problem = _broken_user()
            log_failure(error, problem, request.scope, self._secrets, where="user=")
            raise problem from None
        if user is None or user == "":
            self._count(request.scope)
            raise Problem(401, "not-signed-in", "not signed in")
        if not isinstance(user, str):
            logger.error("user= must return a str or None, not %s", type(user).__name__)
            raise _broken_user()
        return user

    def _count(self, scope: Scope, prefix: str = "") -> None:
        if self._rates is not None:
            self._rates.request(f"{prefix}{client_of(scope)}")

    def _name_methods(self, problem: Problem, scope: Scope) -> None:
        """Name those of all routes of a path: the router knows the first of them only."""
        methods: set[str] = set()
        for route in getattr(self._app, "routes", ()):
            if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE:
                methods |= route.methods or set()
        if methods:
            problem.headers["Allow"] = ", ".join(sorted(methods))
            problem.detail = f"this path takes {problem.headers['Allow']}"


def _headers(scope: Scope) -> dict[bytes, bytes]:
    """Give the headers; one that could be read in two ways is refused."""
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name not in headers:
            headers[name] = value
        elif name in _SINGLE:
            raise Problem(400, "doubled-header", f"the header {name.decode()} is there twice")
        elif name == b"cookie":
            headers[name] += b"; " + value
    return headers


def _path(scope: Scope) -> str:
    """Give the path as the routes see it, also where the app is mounted into another."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _names_token(headers: dict[bytes, bytes]) -> bool:
    return headers.get(b"authorization", b"")[:7].lower() == b"bearer "


def _has_token(token: Token, headers: dict[bytes, bytes], *, cookie_counts: bool) -> bool:
    if _names_token(headers):
        return token.is_in_header(headers[b"authorization"])
    return cookie_counts and token.is_in_cookie(headers.get(b"cookie", b""))


def _asks_ahead(scope: Scope) -> bool:
    return "access-control-request-method" in Headers(scope=scope)


def _check_content_type(method: str, headers: dict[bytes, bytes]) -> None:
    """Insist on JSON: a form of another site cannot send that without asking ahead."""
    if method == "DELETE" and b"content-type" not in headers:
        return  # no form can send it
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise Problem(415, "json-needed", "send the header 'Content-Type: application/json'")
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        detail = "send the body as it is, without the header Content-Encoding"
        raise Problem(415, "encoded-body", detail, {"accept-encoding": "identity"})


def _broken_user() -> Problem:
    return Problem(500, "internal-error", "internal error. See the server log")


def _wrong_origin(origin: str) -> Problem:
    """Return the problem. It says how to allow the origin, if that is possible."""
    try:
        normal = normal_origin(origin)
    except UsageError:  # "null", for example
        detail = "pages of other sites may not use this server"
    else:
        detail = (
            f"pages of {normal} may not use this server. To allow them, pass "
            f'origins=("{normal}",) to AgentServer, or --origin {normal} to argstream serve. A '
            "CORSMiddleware of the app around it is not enough"
        )
    return Problem(403, "wrong-origin", detail)


def _add_headers(message: Message, added: Headed) -> None:
    headers = list(message.get("headers", ()))
    if _ENDS_A_LINE.search(b"".join([value for _, value in headers])):
        raise ValueError("a header of an answer would have had a second line")
    there = {name for name, _ in headers}
    headers += [header for header in _SECURITY_HEADERS if header[0] not in there]
    headers += added
    message["headers"] = headers


_preflight: Final = Response(
    status_code=204,
    headers={
        "access-control-allow-methods": _ALLOWED_METHODS.decode(),
        "access-control-allow-headers": _ALLOWED_HEADERS.decode(),
        "access-control-max-age": "600",
    },
)
