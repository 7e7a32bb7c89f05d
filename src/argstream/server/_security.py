"""Which requests a server accepts: host, origin, token, user and content type.

``SecurityMiddleware`` wraps the routes. It checks the head of a request once, in an order that
reveals nothing to clients that are refused: Host, Origin, preflight, token, user, rate, content
type. Answers pass unchanged, except for the headers that it adds. Exceptions become problem+json.
Unexpected ones are logged, without secrets.
"""

import hashlib
import hmac
import inspect
import logging
import re
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from argstream._secrets import REMOVED, Secrets, secrets_of_request
from argstream.errors import StoreError, UsageError
from argstream.server._limits import Rates, client_of
from argstream.server._problems import Problem, problem_of, problem_of_host_app, problem_response
from argstream.server._viewers import STREAMS

_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]\\]+)(?::([0-9]{1,5}))?")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
"""The host names of this machine for a browser on it."""

_SHORTEST_TOKEN: Final = 16

NameUser: TypeAlias = Callable[[Request], str | Awaitable[str | None] | None]
_COOKIE: Final = "argstream_token"
_NAME_DIGITS: Final = 8
logger: Final = logging.getLogger("argstream.server")

_SHORTEST_SECRET: Final = 6  # a shorter one would remove unrelated text
OPEN_PATH: Final = "/healthz"
"""The health check. It needs no token."""

_SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_ALLOWED_METHODS: Final = b"GET, POST, PATCH, DELETE"
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

Headed: TypeAlias = list[tuple[bytes, bytes]]
IsOpen: TypeAlias = Callable[[str, str], bool]

_preflight: Final = Response(
    status_code=204,
    headers={
        "access-control-allow-methods": _ALLOWED_METHODS.decode(),
        "access-control-allow-headers": _ALLOWED_HEADERS.decode(),
        "access-control-max-age": "600",
    },
)


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
        if self.token is not None and not (
            self.token
            and self.token.isascii()
            and self.token.isprintable()
            and " " not in self.token
        ):
            raise UsageError("token must consist of visible ASCII characters, without spaces")
        if self.token is not None and len(self.token) < _SHORTEST_TOKEN:
            raise UsageError(
                f"token must have at least {_SHORTEST_TOKEN} characters, so that it cannot be "
                "guessed. Generate one: openssl rand -hex 16"
            )
        _check_is_no_text("hosts", self.hosts)
        _check_is_no_text("origins", self.origins)
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

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        rates: Rates,
        is_open: IsOpen,
        is_public: Callable[[str], bool],
    ) -> None:
        """``is_open`` returns True if a method and path need no token.

        ``is_public`` returns True if pages of any origin may read a path.
        """
        self._app = app
        self._is_public = is_public
        self._hosts = None if access.hosts is None else frozenset(map(normal_host, access.hosts))
        self._origins = frozenset(map(normal_origin, access.origins))
        self._any_origin = "*" in self._origins
        self._token = None if access.token is None else Token(access.token)
        self._secrets = Secrets([access.token] if access.token else [])
        self._user = access.user
        self._rates = rates
        self._is_open = is_open

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
        added: Headed = []
        status = 0
        began = time.monotonic()

        def answer(message: Message) -> Awaitable[None]:
            # Not a coroutine, so that each chunk of a stream costs only one call.
            nonlocal status
            if not status:
                _add_headers(message, added)
                status = message["status"]
            return send(message)

        try:
            preflight = await self._admit(scope, receive, added)
            await (self._app if preflight is None else preflight)(scope, receive, answer)
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

    async def _admit(self, scope: Scope, receive: Receive, added: Headed) -> ASGIApp | None:
        """Raise Problem, return the answer to a preflight, or None if the request may proceed."""
        headers = _headers(scope)
        host = headers.get(b"host", b"").decode("latin-1")
        if self._hosts is not None and _host_name(host) not in self._hosts:
            raise Problem(
                403,
                "wrong-host",
                "this host name is not allowed. The operator can allow it with hosts=… or "
                "--allowed-host",
            )
        method: str = scope["method"]
        safe = method in _SAFE_METHODS
        path = _path(scope)
        if safe and self._is_public(path):
            added += _PUBLIC
            own_page = False
        else:
            own_page = self._check_origin(headers, host, scope["scheme"], added, safe=safe)
        if method == "OPTIONS" and {b"origin", b"access-control-request-method"} <= headers.keys():
            return _preflight
        if path == OPEN_PATH and safe:
            self._count(scope, "health ")
            return None
        has_token = self._token is None or _has_token(
            self._token, headers, cookie_counts=safe or own_page
        )
        scope["argstream.has_token"] = has_token
        is_open = self._is_open(method, path)
        if has_token and not is_open:
            scope["argstream.user"] = await self._get_user(Request(scope, receive))
        self._count(scope)
        # Also on open paths: their answers differ for clients that have the token.
        if not has_token and _names_token(headers):
            self._rates.wrong_token(client_of(scope))
        if not (has_token or is_open):
            raise Problem(
                401,
                "token-needed",
                "this server needs a token. Send the header 'Authorization: Bearer …'",
                {"www-authenticate": "Bearer"},
            )
        if not safe:
            _check_content_type(method, headers)
        return None

    def _check_origin(
        self, headers: dict[bytes, bytes], host: str, scheme: str, added: Headed, *, safe: bool
    ) -> bool:
        """Refuse pages of other origins. Return True if the page is certainly of this server."""
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
            # Behind a proxy that terminates TLS, a page of this server has another scheme.
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


def _host_name(host: str) -> str | None:
    """Return a Host without its port; None if it is malformed."""
    match = _HOST.fullmatch(host.lower())
    return match[1] if match else None


def normal_host(host: str) -> str:
    """Return a configured host name in the form of a Host header. IPv6 brackets are optional."""
    written = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
    match = _HOST.fullmatch(written.lower())
    if match is None or match[2]:
        raise UsageError(
            f"{host!r} is not a host name. Write it without scheme, port and path, such as "
            "'example.com' or '::1'"
        )
    return match[1]


def normal_origin(origin: str) -> str:
    """Return a configured origin in the form that browsers send. ``*`` is any."""
    if origin == "*":
        return origin
    scheme, separator, host = origin.lower().rstrip("/").partition("://")
    if scheme not in _DEFAULT_PORTS or not separator or _host_name(host) is None:
        raise UsageError(
            f"{origin!r} is not an origin. Write scheme and host without a path, such as "
            "'https://example.com' or 'http://localhost:3000'"
        )
    return f"{scheme}://{_without_default_port(scheme, host)}"


def same_origin(origin: str, scheme: str, host: str) -> bool:
    return origin == f"{scheme}://{host}" or (
        origin == f"{scheme}://{_without_default_port(scheme, host.lower())}"
    )


def _without_default_port(scheme: str, host: str) -> str:
    return host.removesuffix(f":{_DEFAULT_PORTS.get(scheme, '')}")


def _check_is_no_text(name: str, value: object) -> None:
    if isinstance(value, str):
        raise UsageError(f"{name} must be a tuple of strings: ({value!r},)")


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
    text = (
        " ".join(str(error).split())
        if isinstance(error, StoreError)
        else "\n" + "".join(traceback.format_exception(error))
    )
    if where:
        message = " ".join(str(error).split())
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


def _broken_user() -> Problem:
    return Problem(500, "internal-error", "internal error. See the server log")


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


def _add_headers(message: Message, added: Headed) -> None:
    headers = list(message.get("headers", ()))
    if _LINE_END.search(b"".join([value for _, value in headers])):
        raise ValueError("a response header contains a line break or NUL")
    present = {name for name, _ in (*headers, *added)}
    headers += [header for header in _SECURITY_HEADERS if header[0] not in present]
    headers += added
    message["headers"] = headers
