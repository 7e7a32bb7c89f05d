"""Which requests a server accepts: host, origin, token, user and content type.

``SecurityMiddleware`` wraps the routes. It checks the head of a request once, in an order that
reveals nothing to clients that are refused: Host, Origin, preflight, token, user, rate, content
type. Answers pass unchanged, except for the headers that it adds. Exceptions become problem+json
(RFC 9457), with the problem and what to do. Unexpected ones are logged, without secrets.

Starlette's ``TrustedHostMiddleware`` parses and checks the Host, and its ``CORSMiddleware`` makes
the answers to preflights and the CORS headers. Neither wraps the routes: the first would answer in
plain text, and the second would add a call to each chunk of a stream. A ``CORSMiddleware`` blocks
no request either, so the Origin is checked here.
"""

import hashlib
import hmac
import inspect
import logging
import re
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from argstream._secrets import REMOVED, Secrets, secrets_of_request
from argstream.errors import (
    AlreadyDecidedError,
    ArgstreamError,
    RunBusyError,
    RunNotFoundError,
    StoreError,
    UsageError,
)
from argstream.server._viewers import STREAMS

if TYPE_CHECKING:
    from argstream.server._limits import Rates

_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]\\]+)(?::([0-9]{1,5}))?")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
"""The host names of this machine for a browser on it."""

_TOKEN: Final = re.compile("[!-~]+")
_SHORTEST_TOKEN: Final = 16

NameUser: TypeAlias = Callable[[Request], str | Awaitable[str | None] | None]
_COOKIE: Final = "argstream_token"
_NAME_DIGITS: Final = 8
logger: Final = logging.getLogger("argstream.server")

_SHORTEST_SECRET: Final = 6  # a shorter one would remove unrelated text
OPEN_PATH: Final = "/healthz"
"""The health check. It needs no token."""
SESSION_PATH: Final = "/api/session"
"""Sign-in. It needs no token, but what it answers depends on it."""
STATIC_PATH: Final = "/static/"
"""The files of the page. They are code and no data, so pages of any origin may load them."""

_SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_ALLOWED_METHODS: Final = ("GET", "POST", "PATCH", "DELETE")
_ALLOWED_HEADERS: Final = [
    "authorization",
    "content-type",
    "if-none-match",
    "last-event-id",
    "user-agent",
    "x-vercel-ai-ui-message-stream",
]
_EXPOSED_HEADERS: Final = [
    "etag",
    "location",
    "retry-after",
    "x-argstream-conversation",
    "x-argstream-run",
    "x-vercel-ai-ui-message-stream",
]

# Each is added unless the answer has it.
_SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"x-frame-options", b"DENY"),  # prevents clickjacking of "approve"
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)

_PUBLIC: Final = (
    (b"access-control-allow-origin", b"*"),
    (b"cross-origin-resource-policy", b"cross-origin"),
)

# Headers that are checked here. Each may occur only once.
_SINGLE: Final = frozenset(
    (b"host", b"origin", b"authorization", b"content-type", b"sec-fetch-site", b"sec-fetch-mode")
)

_LONGEST_PATH: Final = 200  # in the log

_LINE_END: Final = re.compile(rb"[\r\n\0]")

_LONGEST_NAME: Final = 100  # of a client
# An error must not repeat a large request.
_LONGEST_DETAIL: Final = 400
_LONGEST_INSTANCE: Final = 200


class Problem(Exception):  # noqa: N818 - what RFC 9457 calls it
    """The reason why a request is refused, for the client."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
        *,
        raw_detail: object = None,
    ) -> None:
        """``code`` is for programs, such as ``unknown-run``. ``detail`` is for people.

        ``raw_detail`` is sent unchanged in place of ``detail``.
        """
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.raw_detail = raw_detail


# The last item replaces the message of the error, which may contain paths and process names.
_PROBLEMS: Final[tuple[tuple[type[ArgstreamError], int, str, str], ...]] = (
    (RunNotFoundError, 404, "unknown-run", ""),
    (AlreadyDecidedError, 403, "already-decided", ""),
    (UsageError, 422, "unusable", ""),
    (RunBusyError, 409, "run-taken", "another process drives the run. Retry in a moment"),
    (StoreError, 503, "store-failure", "the store is unavailable. Retry later"),
)


def problem_of(error: Exception) -> Problem:
    """Return the problem for an exception. An unexpected one is not described to clients."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        phrase = HTTPStatus(error.status_code).phrase.lower()
        return Problem(error.status_code, phrase.replace(" ", "-"), phrase, error.headers)
    for kind, status, code, words in _PROBLEMS:
        if isinstance(error, kind):
            return Problem(status, code, words or str(error))
    return _internal_error()


def _internal_error() -> Problem:
    return Problem(500, "internal-error", "internal error. See the server log")


def problem_response(problem: Problem, request: Request | None = None) -> Response:
    body: dict[str, object] = {
        "type": f"urn:argstream:{problem.code}",
        "title": problem.code.replace("-", " "),
        "status": problem.status,
        "detail": _cut(problem.detail, _LONGEST_DETAIL),
    }
    if problem.raw_detail is not None:
        body["detail"] = problem.raw_detail
    if request is not None:
        body["instance"] = _cut(request.url.path, _LONGEST_INSTANCE)
    return Response(
        msgspec.json.encode(body, enc_hook=str),
        problem.status,
        {**problem.headers, "cache-control": "no-store"},
        "application/problem+json",
    )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests a server accepts."""

    token: str | None = None
    """What a client must send: ``Authorization: Bearer …``, or in a browser the cookie."""
    hosts: tuple[str, ...] | None = LOOPBACK_HOSTS
    """The accepted Host names, with or without a port; None accepts any."""
    origins: tuple[str, ...] = ()
    """The origins of other pages that may send requests (CORS), such as ``http://localhost:3000``.
    ``*`` allows all pages that send the token in the header. No cookie is accepted from them."""
    user: NameUser | None = None
    """Returns the user of a request; None or "" if no user is signed in (401). It may raise
    ``HTTPException`` to refuse the request. It is called in the event loop, so a function that does
    I/O must be async."""

    def __post_init__(self) -> None:
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            raise UsageError("token must consist of visible ASCII characters, without spaces")
        if self.token is not None and len(self.token) < _SHORTEST_TOKEN:
            raise UsageError(
                f"token must have at least {_SHORTEST_TOKEN} characters, so that it cannot be "
                "guessed. Generate one: openssl rand -hex 16"
            )
        for name, value in (("hosts", self.hosts), ("origins", self.origins)):
            if isinstance(value, str):
                raise UsageError(f"{name} must be a tuple of strings: ({value!r},)")
        for host in self.hosts or ():
            normal_host(host)
        for origin in self.origins:
            normal_origin(origin)
        if "*" in self.origins and self.token is None:
            raise UsageError("the origin '*' allows any website. Pass token=… as well")

    def __repr__(self) -> str:
        token = "None" if self.token is None else "'…'"
        return (
            f"Access(token={token}, hosts={self.hosts}, origins={self.origins}, user={self.user})"
        )


def token_cookie(token: str, *, secure: bool = False, path: str = "/") -> str:
    """Return the ``Set-Cookie`` header that signs a browser in until it is closed.

    Scripts cannot read the cookie, and browsers do not send it with requests of other sites.
    ``secure`` is for pages over HTTPS.
    """
    return _cookie(token, _digest("cookie", token), path, secure=secure)


def no_cookie(token: str, *, secure: bool = False, path: str = "/") -> str:
    """Return the ``Set-Cookie`` header that deletes the token cookie."""
    return _cookie(token, "", path, secure=secure) + "; Max-Age=0"


class SecurityMiddleware:
    """ASGI middleware that checks requests before they reach the routes."""

    def __init__(self, app: ASGIApp, access: Access, rates: "Rates", *, has_page: bool) -> None:
        self._app = app
        self._has_page = has_page
        hosts = None if access.hosts is None else [*map(normal_host, access.hosts)]
        self._check_host = TrustedHostMiddleware(_accept, hosts, www_redirect=False)
        origins = frozenset(map(normal_origin, access.origins))
        self._origins = origins - {"*"}
        self._cors = _cors(self._origins, with_cookies=True) if origins else None
        self._cors_for_any = _cors(("*",), with_cookies=False) if "*" in origins else None
        self._token = None if access.token is None else Token(access.token)
        self._secrets = Secrets([access.token] if access.token else [])
        self._user = access.user
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send(
                {"type": "websocket.close", "code": 1008, "reason": "WebSockets are not supported"}
            )
            return
        scope = dict(scope)
        # With "app" in the scope, the router raises errors instead of sending plain text. Without
        # the handlers of an app around this one, they arrive here.
        scope["app"] = self
        scope.pop("starlette.exception_handlers", None)
        streams: list[ASGIApp] = []
        scope[STREAMS] = streams
        cors: CORSMiddleware | None = None
        is_public = False
        status = 0
        began = time.monotonic()

        def answer(message: Message) -> Awaitable[None]:
            # Not a coroutine, so that each chunk of a stream costs only one call.
            nonlocal status
            if status:
                return send(message)
            status = message["status"]
            _add_headers(message, _PUBLIC if is_public else ())
            if cors is None:
                return send(message)
            return cors.send(message, send, Headers(scope=scope))

        try:
            # What is only needed for the checks is local to them: this frame lasts as long as a
            # stream.
            await self._check_host(scope, receive, _refuse_host)
            is_public = self._is_public(scope)
            cors = None if is_public else self._cors_of(scope)
            preflight = await self._admit(scope, receive, cors, is_public=is_public)
            if preflight is not None:
                cors = None  # it has the headers already
            await (preflight or self._app)(scope, receive, answer)
            while streams:
                await streams.pop()(scope, receive, answer)
        except ClientDisconnect:
            return  # no client is left to answer
        except Exception as error:  # noqa: BLE001 - sent to the client, and logged
            problem = problem_of(error)
            if problem is not error and problem.status >= 500:
                log_failure(error, problem, scope, self._secrets)
            if problem.status == 405:
                self._list_methods(problem, scope)
            # If the head was sent, returning here makes the server close the connection.
            if not status:
                await problem_response(problem, Request(scope))(scope, receive, answer)
        finally:
            if logger.isEnabledFor(logging.DEBUG):
                taken = (time.monotonic() - began) * 1_000
                path = scope["path"][:_LONGEST_PATH]
                logger.debug("%s %r: %d in %.0f ms", scope["method"], path, status, taken)

    def _is_public(self, scope: Scope) -> bool:
        """Return True for a file of the page, which pages of any origin may load."""
        is_file = _path(scope).startswith(STATIC_PATH)
        return self._has_page and scope["method"] in _SAFE_METHODS and is_file

    def _cors_of(self, scope: Scope) -> CORSMiddleware | None:
        """Return what adds the CORS headers. Pages of ``*`` get no cookies, listed ones do."""
        is_listed = Headers(scope=scope).get("origin") in self._origins
        return self._cors if is_listed else self._cors_for_any or self._cors

    async def _admit(
        self, scope: Scope, receive: Receive, cors: CORSMiddleware | None, *, is_public: bool
    ) -> Response | None:
        """Raise Problem, return the answer to a preflight, or None if the request may proceed."""
        headers = _headers(scope)
        own_page = not is_public and self._check_origin(headers, scope)
        needed = {b"origin", b"access-control-request-method"}
        if cors is not None and scope["method"] == "OPTIONS" and needed <= headers.keys():
            return cors.preflight_response(Headers(scope=scope))
        method, path = scope["method"], _path(scope)
        safe = method in _SAFE_METHODS
        if path == OPEN_PATH and safe:
            self._count(scope, "health ")
            return None
        has_token = self._token is None or _has_token(
            self._token, headers, cookie_counts=safe or own_page
        )
        scope["argstream.has_token"] = has_token
        is_page = self._has_page and method in ("GET", "HEAD") and path in ("", "/")
        is_open = is_public or is_page or path == SESSION_PATH  # these need no token
        if has_token and not is_open:
            scope["argstream.user"] = await self._get_user(Request(scope, receive))
        self._count(scope)
        # Also on open paths: their answers differ for clients that have the token.
        if not has_token and _names_token(headers):
            self._rates.wrong_token(client_of(scope))
        if not (has_token or is_open):
            detail = "this server needs a token. Send the header 'Authorization: Bearer …'"
            raise Problem(401, "token-needed", detail, {"www-authenticate": "Bearer"})
        if not safe:
            _check_content_type(method, headers)
        return None

    def _check_origin(self, headers: dict[bytes, bytes], scope: Scope) -> bool:
        """Refuse pages of other origins. Return True if the page is certainly of this server."""
        raw = headers.get(b"origin")
        if raw is None:
            is_link = headers.get(b"sec-fetch-mode") == b"navigate"  # to a page
            if headers.get(b"sec-fetch-site") == b"cross-site" and not (
                is_link and scope["method"] in _SAFE_METHODS
            ):
                raise _wrong_origin("")
            return False
        origin, host = raw.decode("latin-1"), headers.get(b"host", b"").decode("latin-1")
        scheme = scope["scheme"]
        plain_host = _without_default_port(scheme, host.lower())
        if origin in (f"{scheme}://{host}", f"{scheme}://{plain_host}"):
            return True
        if origin in self._origins:
            # Behind a proxy that terminates TLS, a page of this server has another scheme.
            return origin.partition("://")[2] == host.lower()
        if self._cors_for_any is None:
            raise _wrong_origin(origin)
        return False

    async def _get_user(self, request: Request) -> str:
        if self._user is None:
            return ""
        try:
            named = self._user(request)
            user: object = await named if inspect.isawaitable(named) else named
        except (Problem, ClientDisconnect):
            raise
        except HTTPException as error:
            self._count(request.scope)
            status, detail = error.status_code, error.detail
            code = {401: "not-signed-in", 403: "not-allowed"}.get(status, "refused")
            raise Problem(status, code, str(detail), error.headers, raw_detail=detail) from None
        except Exception as error:  # noqa: BLE001 - logged; the request goes no further
            self._count(request.scope)  # first, or a client could fill the log
            problem = _internal_error()
            log_failure(error, problem, request.scope, self._secrets, where="user=")
            raise problem from None
        if user is None or user == "":
            self._count(request.scope)
            raise Problem(401, "not-signed-in", "not signed in")
        if not isinstance(user, str):
            logger.error("user= must return a str or None, not %s", type(user).__name__)
            raise _internal_error()
        return user

    def _count(self, scope: Scope, prefix: str = "") -> None:
        self._rates.request(f"{prefix}{client_of(scope)}")

    def _list_methods(self, problem: Problem, scope: Scope) -> None:
        """List the methods of all routes of a path. The router lists only those of the first."""
        methods: set[str] = set()
        for route in getattr(self._app, "routes", ()):
            if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE:
                methods |= route.methods or set()
        if methods:
            problem.headers["Allow"] = ", ".join(sorted(methods))
            problem.detail = f"this path accepts {problem.headers['Allow']}"


class Token:
    """Compares what clients send with a token, in constant time."""

    __slots__ = ("_cookie", "_cookie_values", "_token")

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._cookie = _digest("cookie", token).encode()
        name = cookie_name(token).encode()
        self._cookie_values = re.compile(rb"(?:^|;)\s*" + name + rb'="?([0-9a-f]*)"?\s*(?=;|$)')

    def is_same(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token)

    def is_in_header(self, authorization: bytes) -> bool:
        scheme, _, token = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)

    def is_in_cookie(self, cookies: bytes) -> bool:
        return any(
            hmac.compare_digest(value, self._cookie)
            for value in self._cookie_values.findall(cookies)
        )


def client_of(scope: Scope) -> str:
    """Return the name under which a client is counted: its user, or else its address.

    For IPv6 it is the network, because a client has 2⁶⁴ addresses.
    """
    user: str = scope.get("argstream.user", "")
    if user:
        if len(user) > _LONGEST_NAME:
            user = hashlib.sha256(user.encode(errors="surrogatepass")).hexdigest()
        return f"user {user}"
    address: str = (scope.get("client") or ("",))[0]
    if ":" in address:
        with suppress(ValueError):  # the ASGI server may put any text there
            known = IPv6Address(address)
            mapped = known.ipv4_mapped
            return f"network {int(known) >> 64:x}" if mapped is None else f"address {mapped}"
    return f"address {address[:_LONGEST_NAME]}"


async def _accept(*_: object) -> None:
    """Do nothing: the request may proceed."""


async def _refuse_host(_: Message) -> None:
    """Raise Problem in place of the plain text that ``TrustedHostMiddleware`` would send."""
    raise Problem(
        403,
        "wrong-host",
        "this host name is not allowed. The operator can allow it with hosts=… or --allowed-host",
    )


def _cors(origins: Collection[str], *, with_cookies: bool) -> CORSMiddleware:
    return CORSMiddleware(
        _accept,
        origins,
        _ALLOWED_METHODS,
        _ALLOWED_HEADERS,
        allow_credentials=with_cookies,
        allow_private_network=True,  # a page of the internet, and a server on this machine
        expose_headers=_EXPOSED_HEADERS,
    )


def normal_host(host: str) -> str:
    """Return a configured host name in the form of a Host header. IPv6 brackets are optional.

    ``*.example.com`` is any subdomain of ``example.com``.
    """
    if host == "*":
        raise UsageError("'*' is not a host name. Pass hosts=None to accept any host")
    written = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
    match = _HOST.fullmatch(written.lower())
    if match is None or match[2] or "*" in written.removeprefix("*."):
        raise UsageError(
            f"{host!r} is not a host name. Write it without scheme, port and path, such as "
            "'example.com', '*.example.com' or '::1'"
        )
    return match[1]


def normal_origin(origin: str) -> str:
    """Return a configured origin in the form that browsers send. ``*`` is any."""
    if origin == "*":
        return origin
    scheme, separator, host = origin.lower().rstrip("/").partition("://")
    if scheme not in _DEFAULT_PORTS or not separator or _HOST.fullmatch(host) is None:
        raise UsageError(
            f"{origin!r} is not an origin. Write scheme and host without a path, such as "
            "'https://example.com' or 'http://localhost:3000'"
        )
    return f"{scheme}://{_without_default_port(scheme, host)}"


def _without_default_port(scheme: str, host: str) -> str:
    return host.removesuffix(f":{_DEFAULT_PORTS.get(scheme, '')}")


def cookie_name(token: str) -> str:
    return f"{_COOKIE}_{_digest('cookie name', token)[:_NAME_DIGITS]}"


def _cookie(token: str, value: str, path: str, *, secure: bool) -> str:
    flags = "; Secure" if secure else ""
    return f"{cookie_name(token)}={value}; Path={path}; HttpOnly; SameSite=Strict{flags}"


def _digest(what: str, token: str) -> str:
    return hashlib.sha256(f"argstream {what} {token}".encode()).hexdigest()


def log_failure(
    error: Exception, problem: Problem, scope: Scope, secrets: Secrets, *, where: str = ""
) -> None:
    """Log an error with its traceback, without secrets.

    ``where`` names the callback that raised the error. Its type and message are then in the first
    line. A ``StoreError`` is logged in one line, because it may repeat with each request.
    """
    text = message = " ".join(str(error).split())
    if not isinstance(error, StoreError):
        text = "\n" + "".join(traceback.format_exception(error))
    if where:
        text = f"{where} raised {type(error).__name__}: {message}{text}"
    sent = secrets_of_request(
        ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]),
        "?" + scope.get("query_string", b"").decode("latin-1"),
        whole_query=True,
    )
    # In no other spelling: a client chooses how many these are, and each spelling costs time.
    long = (one for one in sent if len(one) >= _SHORTEST_SECRET)
    for secret in sorted(long, key=len, reverse=True):
        text = text.replace(secret, REMOVED)
    text = secrets.redacted_message(text)
    # The path is quoted: a line break in it could imitate another log line.
    logger.error(
        "%s %r: %d %s: %s", scope["method"], scope["path"], problem.status, problem.code, text
    )


def _headers(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers. Raise Problem for a repeated header that must be unique."""
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name not in headers:
            headers[name] = value
        elif name in _SINGLE:
            raise Problem(400, "doubled-header", f"the header {name.decode()} occurs twice")
        elif name == b"cookie":
            headers[name] += b"; " + value
    return headers


def _path(scope: Scope) -> str:
    """Return the path as the routes see it, also where the app is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _names_token(headers: dict[bytes, bytes]) -> bool:
    return headers.get(b"authorization", b"")[:7].lower() == b"bearer "


def _has_token(token: Token, headers: dict[bytes, bytes], *, cookie_counts: bool) -> bool:
    if _names_token(headers):
        return token.is_in_header(headers[b"authorization"])
    return cookie_counts and token.is_in_cookie(headers.get(b"cookie", b""))


def _check_content_type(method: str, headers: dict[bytes, bytes]) -> None:
    """Require JSON. A form of another site cannot send it without a preflight."""
    if method == "DELETE" and b"content-type" not in headers:
        return  # no form can send it
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise Problem(415, "json-needed", "send the header 'Content-Type: application/json'")
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        detail = "send the body as it is, without the header Content-Encoding"
        raise Problem(415, "encoded-body", detail, {"accept-encoding": "identity"})


def _wrong_origin(origin: str) -> Problem:
    """Return the problem, with how to allow the origin if that is possible."""
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


def _add_headers(message: Message, added: Iterable[tuple[bytes, bytes]]) -> None:
    headers = [*message.get("headers", ()), *added]
    if _LINE_END.search(b"".join([value for _, value in headers])):
        raise ValueError("a response header contains a line break or NUL")
    present = {name for name, _ in headers}
    message["headers"] = [
        *headers,
        *(header for header in _SECURITY_HEADERS if header[0] not in present),
    ]
