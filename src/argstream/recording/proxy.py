"""A reverse proxy for a provider that records every response.

::

    with RecordingProxy("https://api.anthropic.com", "recordings") as proxy:
        client = anthropic.Anthropic(base_url=proxy.url)
        ...

Each response becomes a file, for ``argstream watch``, ``argstream replay`` and the mock provider.
The client's key is passed on and never written. The proxy listens on the loopback interface only,
and refuses requests of web pages.
"""

import asyncio
import io
import json
import logging
import os
import re
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from argstream._asyncio import LoopThread, cancel_until_done, run_in_thread, shielded
from argstream._certificates import load_certificates
from argstream._secrets import Secrets, secrets_of_body, secrets_of_request
from argstream.errors import MissingExtraError, UsageError
from argstream.recording._format import Ending, Request, Response
from argstream.recording._recorder import (
    READABLE_ENCODINGS,
    REQUEST_HEADERS,
    RESPONSE_HEADERS,
    NumberedFiles,
    Recorder,
    ResponseRecorder,
    harmless_headers,
    harmless_path,
    harmless_url,
)

try:
    import aiohttp
    from aiohttp import web
    from aiohttp.http import HttpProcessingError, HttpVersion11
    from multidict import CIMultiDict
    from yarl import URL
except ModuleNotFoundError:
    raise MissingExtraError("http", "the recording proxy") from None

__all__ = ["Exchange", "LoopbackService", "RecordingProxy", "Upstream"]

_CONNECT_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 3.0
# A client may disconnect after the last event, before the proxy has sent the end of the body.
_GRACE_SECONDS: Final = 0.5
_BACKLOG: Final = 128
_HIGHEST_PORT: Final = 65535
_MAX_HEADER_BYTES: Final = 64 * 1024
_MAX_REQUEST_BYTES: Final = 64 * 1024 * 1024
# A body as a JSON string can be six times as long, and a line has at most 64 MiB.
_MAX_RECORDED_BYTES: Final = 8 * 1024 * 1024
_DISCONNECTED: Final = "the client disconnected"
_EXAMPLE_URL: Final = "Pass a URL such as https://api.example.com"
_STOPPED: Final = "the proxy was stopped"
# Ends of paths whose responses may contain keys, such as the short-lived browser keys of realtime
# APIs. Paths that count tokens do not match.
_RETURNS_KEYS: Final = re.compile(
    "(?:account|credential|key|oauth2?|secret|session|(?<!count)(?<!count_)(?<!input_)token)s?/?$",
    re.IGNORECASE,
)
_HOP_BY_HOP: Final = frozenset(  # RFC 9110, section 7.6.1
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_LOOPBACK: Final = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?", re.IGNORECASE)


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Return False for malformed requests. They are answered, and may contain a key."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_logger: Final = logging.getLogger(__name__)
_logger.addFilter(_is_worth_a_line)


class LoopbackService(ABC):
    """An HTTP service on the loopback interface that runs inside of ``with``.

    It has an event loop in a thread of its own, so that it also serves a thread that blocks.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._thread: LoopThread | None = None
        self._handling: set[asyncio.Task[object]] = set()
        self.is_stopping: bool = False

    @abstractmethod
    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Respond to a request. It is cancelled if the client disconnects or the service stops."""

    def start(self) -> Self:
        """Start to listen. ``with`` calls this."""
        if self._thread is not None:
            raise UsageError(f"{type(self).__name__} is already running. Stop it first")
        listener = _listen(self._port)
        self._address: int = listener.getsockname()[1]
        self.is_stopping = False
        self._running = AsyncExitStack()
        self._thread = LoopThread(self._close)
        try:
            self._thread.call(partial(self._open, listener))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop at once, also during a response."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The base URL for clients."""
        if self._thread is None:
            name = type(self).__name__
            raise UsageError(f"{name} is not running, so it has no URL. Use `with`")
        return f"http://127.0.0.1:{self._address}"

    async def _open(self, listener: socket.socket) -> None:
        self._running.callback(listener.close)
        server = web.Server(
            self._respond,
            handler_cancellation=True,
            access_log=None,
            logger=_logger,
            auto_decompress=False,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
        )
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(server, sock=listener, backlog=_BACKLOG)
        self._running.push_async_callback(self._end_connections, server)
        self._running.callback(listening.close)

    async def _close(self) -> None:
        self.is_stopping = True
        await self._running.aclose()

    async def _end_connections(self, server: web.Server) -> None:
        for connection in server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        for task in self._handling:
            task.cancel()
        if self._handling:
            await asyncio.wait(self._handling, timeout=_STOP_SECONDS)

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        task = request.task
        self._handling.add(task)
        try:
            if request.headers.get("expect", "").lower() == "100-continue":
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return await self._handle(request)
        finally:
            self._handling.discard(task)


def _listen(port: int) -> socket.socket:
    if not 0 <= port <= _HIGHEST_PORT:
        raise UsageError(f"cannot listen on port {port}. The highest is {_HIGHEST_PORT}")
    try:
        return socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
    except OSError as error:
        raise UsageError(
            f"cannot listen on port {port}: {os.strerror(error.errno or 0)}. "
            "Choose another port, or 0 for a free one"
        ) from error


def disconnect(request: web.BaseRequest) -> None:
    """Close the client's connection after what was written, without a proper end of the body."""
    if request.transport is not None:
        request.transport.close()


class Upstream:
    """The URL of a provider, http or https. Its path is prepended to all request paths."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError as error:
            raise UsageError(f"upstream is not a valid URL. {_EXAMPLE_URL}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"upstream must be an http or https URL. {_EXAMPLE_URL}")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise UsageError(
                "upstream must not contain a key, a query or a fragment. The client sends its key "
                "as usual, and the proxy passes it on"
            )
        if not _is_valid_host(parts.hostname) or re.search("[^!-~]", parts.path):
            raise UsageError(f"upstream has an invalid host name or path. {_EXAMPLE_URL}")
        ascii_only = parts.netloc.isascii()
        self.netloc: str = parts.netloc if ascii_only else parts.netloc.encode("idna").decode()
        self.url: str = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._base = f"{parts.scheme}://{self.netloc}{parts.path.rstrip('/')}"

    def connect(self) -> aiohttp.ClientSession:
        """Return a session without a read timeout, because a model may think for minutes."""
        certificates = load_certificates() if self.url.startswith("https") else True
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True, ssl=certificates),
            timeout=aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
        )

    async def send(
        self, session: aiohttp.ClientSession, request: web.BaseRequest, body: bytes
    ) -> aiohttp.ClientResponse:
        """Send a client's request to the provider, and return the response with its body unread."""
        named = re.findall(r"[^\s,]+", ",".join(request.headers.getall("connection", ())).lower())
        left_out = {*_HOP_BY_HOP, *named, "host", "accept-encoding", "content-length", "expect"}
        headers = _headers(request.headers.items(), left_out)
        headers["Host"] = self.netloc
        headers["Accept-Encoding"] = "identity"  # for readable recordings
        try:
            response = await session.request(
                request.method,
                URL(self._base + request.raw_path, encoded=True),
                headers=headers,
                data=io.BytesIO(body) if body else None,
                chunked="transfer-encoding" in request.headers or None,
                allow_redirects=False,
                middlewares=(self._send_once,),
            )
        except ValueError as error:
            raise self._no_response(error) from None
        if response.status == 101:
            response.close()
            raise _NoResponseError(
                f"{self.url} switched protocols (101). The proxy supports only HTTP"
            )
        return response

    async def _send_once(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Translate errors. aiohttp would repeat a GET after some of its own."""
        try:
            return await send(request)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise _NoResponseError(f"cannot reach {self.url}: {_reason(error)}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise self._no_response(error) from None

    def _no_response(self, error: Exception) -> "_NoResponseError":
        # Without the error's message, which may contain the URL and so a key.
        return _NoResponseError(f"{self.url} sent no response ({type(error).__name__})")


class _NoResponseError(Exception):
    """The provider sent no response."""


def _is_valid_host(host: str) -> bool:
    try:
        host.encode("idna")
    except UnicodeError:  # a label is empty or too long
        return False
    return re.fullmatch(r"[\w.:%-]+", host) is not None


def _reason(error: Exception) -> str:
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
    if isinstance(cause, ssl.SSLError | socket.gaierror):
        return cause.strerror or type(cause).__name__
    number = getattr(cause, "errno", None)  # asyncio's own text has the address
    return os.strerror(number) if number else type(cause).__name__


def _headers(given: Iterable[tuple[str, str]], left_out: Collection[str]) -> "CIMultiDict[str]":
    return CIMultiDict(
        (name, _writable(value)) for name, value in given if name.lower() not in left_out
    )


def _writable(value: str) -> str:
    """Return a header's value as aiohttp writes it: as UTF-8, and without control characters."""
    value = re.sub("[\x00-\x08\x0a-\x1f\x7f]", " ", value)
    try:
        value.encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8 are Latin-1
        return value.encode("utf-8", "surrogateescape").decode("latin-1")
    return value


def reply_to_client(response: aiohttp.ClientResponse) -> web.StreamResponse:
    """Return a reply with the status and the headers of the provider's response."""
    left_out = {*_HOP_BY_HOP, "content-length"} if _has_no_length(response) else _HOP_BY_HOP
    headers = _headers(response.headers.items(), left_out)
    reason = _writable(response.reason or "")
    return web.StreamResponse(status=response.status, reason=reason, headers=headers)


def _has_no_length(response: aiohttp.ClientResponse) -> bool:
    is_chunked = "transfer-encoding" in response.headers
    return is_chunked or "content-length" not in response.headers


def _error(status: int, message: str) -> web.Response:
    """Return an error in the format of providers, which their clients can show."""
    error = {"type": "proxy_error", "message": f"argstream record: {message}"}
    body = json.dumps({"type": "error", "error": error})
    return web.Response(status=status, text=body, content_type="application/json")


def _refusal(request: web.BaseRequest) -> web.Response | None:
    """Return the response to a request that must not be passed on."""
    origins = request.headers.getall("origin", ())
    # An image of a web page has no Origin. Several origins never match.
    has_page = origins or request.headers.get("sec-fetch-site") == "cross-site"
    if request.method == "CONNECT" or not request.raw_path.startswith("/"):
        return _error(400, "this is not a forward proxy. Use its URL as the client's base URL")
    if request.version < HttpVersion11:
        return _error(505, "this proxy needs HTTP/1.1")  # 1.0 cannot tell a cut body from a whole
    if "websocket" in request.headers.get("upgrade", "").lower():
        return _error(501, "this proxy does not support WebSockets")
    if not _LOOPBACK.fullmatch(host := request.headers.get("host", "")):
        return _error(403, f"the Host must be localhost, 127.0.0.1 or [::1], not {host!r}")
    if has_page and not _LOOPBACK.fullmatch(re.sub("^https?://", "", ",".join(origins))):
        page = "the request comes from a web page that is not served from this machine"
        return _error(403, f"{page}. Only pages from this machine may use the proxy")
    return None


@dataclass(frozen=True)
class Exchange:
    """A request and its response, without secrets."""

    method: str
    path: str
    """Without the query."""
    status: int
    """Of the response; 502 if the provider sent none, 499 if the client disconnected before it."""
    bytes: int
    """Length of the response body."""
    seconds: float
    ending: Ending
    file: Path | None
    """The recording. If it is None, ``problem`` has the reason."""
    problem: str = ""
    removed: int = 0
    """Number of secrets removed from the response."""


class RecordingProxy(LoopbackService):
    """Passes requests on to a provider, and writes each response into a file of a directory.

    The credentials of requests and ``secrets`` are never written. ``with_request`` also writes the
    body of each request, which contains prompts. ``on_exchange`` is called after each exchange, in
    a thread of its own. When the proxy stops, recordings of responses in progress end as aborted.
    """

    def __init__(
        self,
        upstream: str,
        directory: str | Path,
        *,
        port: int = 0,
        with_request: bool = False,
        secrets: Iterable[str] = (),
        on_exchange: Callable[[Exchange], None] | None = None,
    ) -> None:
        super().__init__(port)
        self.upstream: Upstream = Upstream(upstream)
        self.directory: Path = Path(directory)
        self._files = NumberedFiles(self.directory)
        self._with_request = with_request
        self._secrets = frozenset(secrets)
        self._on_exchange = on_exchange
        self._exchanges: list[Exchange] = []

    def start(self) -> Self:
        """Create the directory and start to listen. ``with`` calls this."""
        self._files.prepare()
        return super().start()

    @property
    def exchanges(self) -> list[Exchange]:
        """All completed exchanges, in the order in which they ended."""
        return list(self._exchanges)

    async def _open(self, listener: socket.socket) -> None:
        self._proxy = _Proxy(
            self.upstream,
            await self._running.enter_async_context(self.upstream.connect()),
            self._files,
            self._secrets,
            self._with_request,
            is_stopping=lambda: self.is_stopping,
            report=self._report,
        )
        await super()._open(listener)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        refusal = _refusal(request)
        if refusal is not None:
            return refusal
        work = asyncio.ensure_future(_RecordedExchange(self._proxy, request).run())
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            with suppress(asyncio.CancelledError):  # it is stopped meanwhile
                if not self.is_stopping:
                    await asyncio.wait([work], timeout=_GRACE_SECONDS)
            await cancel_until_done(work)
            return work.result()

    async def _report(self, exchange: Exchange) -> None:
        self._exchanges.append(exchange)
        if self._on_exchange is not None:
            call = partial(self._on_exchange, exchange)
            await shielded(run_in_thread(call, "report of an exchange"))


@dataclass(frozen=True)
class _Proxy:
    upstream: Upstream
    session: aiohttp.ClientSession
    files: NumberedFiles
    secrets: Collection[str]
    with_request: bool
    is_stopping: Callable[[], bool]
    report: Callable[[Exchange], Awaitable[None]]


class _RecordedExchange:
    """An exchange, from the head of the request to the end of the response.

    It is one way to handle a request that is not refused. Another, which ends a response early for
    example, can share ``Upstream.send``, ``reply_to_client`` and ``disconnect``.
    """

    def __init__(self, proxy: _Proxy, request: web.BaseRequest) -> None:
        self._proxy = proxy
        self._request = request
        self._started = time.monotonic()
        self._bytes = 0
        sent = secrets_of_request(request.headers.items(), request.raw_path)
        self._secrets = sent | set(proxy.secrets)
        self._redactor = Secrets(self._secrets)
        self._path = harmless_path(request.raw_path.partition("?")[0], self._redactor)
        self._body = b""

    async def run(self) -> web.StreamResponse:
        proxy, request = self._proxy, self._request
        try:
            self._body = await request.content.read()
            self._find_secrets_in_body()
            response = await proxy.upstream.send(proxy.session, request, self._body)
        except _NoResponseError as error:
            await self._report(502, "cut", None, str(error))
            return _error(502, str(error))
        except (asyncio.CancelledError, OSError, web.RequestPayloadError):
            if proxy.is_stopping():
                await self._report(502, "cut", None, _STOPPED)
            else:
                problem = f"{_DISCONNECTED} before the response started"
                await self._report(499, "aborted", None, problem)
            disconnect(request)
            return web.Response()  # it cannot be sent
        async with response:
            return await self._pass_on(response)

    def _find_secrets_in_body(self) -> None:
        if not self._is_readable():
            return
        found = secrets_of_body(self._body) - self._secrets
        if found:
            self._secrets |= found
            self._redactor = Secrets(self._secrets)
            self._path = self._redactor.redacted(self._path)

    def _is_readable(self) -> bool:
        is_plain = "content-encoding" not in self._request.headers
        return is_plain and len(self._body) <= _MAX_REQUEST_BYTES

    async def _pass_on(self, response: aiohttp.ClientResponse) -> web.StreamResponse:
        """Record the response and pass it on. The file is complete before the client's response."""
        recorder = self._open_recorder(response)
        reply = reply_to_client(response)
        ending: Ending
        try:
            await reply.prepare(self._request)
            await self._pass_body(response, reply, recorder)
        except ConnectionError:
            ending, reason = "aborted", _DISCONNECTED
        except aiohttp.ClientError:
            ending, reason = "cut", "the provider disconnected before its response ended"
        except asyncio.CancelledError:
            ending, reason = "aborted", _STOPPED if self._proxy.is_stopping() else _DISCONNECTED
        else:
            ending, reason = "orderly", ""
        recorder.close(ending, reason)
        if ending == "orderly":
            with suppress(ConnectionError):  # the body has been passed on already
                await reply.write_eof()
        else:
            disconnect(self._request)
        problem = recorder.problem or reason
        await self._report(response.status, ending, recorder.file, problem, recorder.removed)
        return reply

    async def _pass_body(
        self,
        response: aiohttp.ClientResponse,
        reply: web.StreamResponse,
        recorder: ResponseRecorder,
    ) -> None:
        length = None if _has_no_length(response) else response.content_length
        provider = response.connection and response.connection.protocol
        async for chunk in response.content.iter_any():
            self._bytes += len(chunk)
            recorder.write(chunk)
            if self._bytes == length:
                recorder.close("orderly", "")
            await reply.write(chunk)
        if provider is not None and isinstance(provider.exception(), aiohttp.ClientOSError):
            raise aiohttp.ClientPayloadError  # a body without a length, and a reset connection

    def _open_recorder(self, response: aiohttp.ClientResponse) -> ResponseRecorder:
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in READABLE_ENCODINGS:
            problem = f"not recorded: the response is compressed with {encoding}"
            return ResponseRecorder(problem=problem)
        is_stream = "event-stream" in response.headers.get("content-type", "")
        if _RETURNS_KEYS.search(self._path) and not is_stream:
            return ResponseRecorder(problem="not recorded: the response may contain a key")
        headers = harmless_headers(response.headers.items(), RESPONSE_HEADERS, self._redactor)
        request, head = self._recorded_request(), Response(response.status, headers)
        while True:
            file = self._proxy.files.next(self._path)
            try:
                recorder = Recorder(
                    file,
                    request=request,
                    response=head,
                    secrets=self._secrets,
                    started=self._started,
                )
            except FileExistsError:
                continue  # another process writes here too
            except OSError as error:
                return ResponseRecorder(problem=f"not recorded: {error.strerror}")
            return ResponseRecorder(recorder, file, encoding)

    def _recorded_request(self) -> Request:
        request, body = self._request, None
        is_kept = self._proxy.with_request and len(self._body) <= _MAX_RECORDED_BYTES
        if is_kept and self._is_readable():
            body = self._redactor.redacted(self._body.decode(errors="replace"))
        return Request(
            request.method,
            harmless_url(self._proxy.upstream.url + request.raw_path, self._redactor),
            harmless_headers(request.headers.items(), REQUEST_HEADERS, self._redactor),
            body,
        )

    async def _report(
        self, status: int, ending: Ending, file: Path | None, problem: str, removed: int = 0
    ) -> None:
        await self._proxy.report(
            Exchange(
                method=self._request.method,
                path=self._path,
                status=status,
                bytes=self._bytes,
                seconds=time.monotonic() - self._started,
                ending=ending,
                file=file,
                problem=self._redactor.redacted(problem),
                removed=removed,
            )
        )
