"""Models over HTTP: connections, timeouts and retries."""

import asyncio
import json
import logging
import os
import re
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from functools import cache, partial
from io import BytesIO
from ipaddress import ip_address, ip_network
from math import inf
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec
from msgspec import Struct

from argstream._asyncio import FirstLoop, PerLoop
from argstream._certificates import load_certificates, names_of_set_variables
from argstream.errors import MissingExtraError, UsageError
from argstream.models._errors import (
    MAX_ERROR_BYTES,
    FailedAttempt,
    Hidden,
    Key,
    RequestInfo,
    failed,
    failed_at_once,
    headline,
    not_a_stream,
    refused,
)
from argstream.models._providers import checked_base_url, find_provider
from argstream.models._retries import Retries, retry_after_seconds
from argstream.providers import ProtocolName, UnreadableError, make_decoder
from argstream.providers._deltas import ProviderFailed
from argstream.providers._requests import Api, ModelRequest, ModelSettings
from argstream.wire import Broken, Frame, JsonTextDecoder, SseDecoder
from argstream.wire._decoders import BYTE_ORDER_MARK

try:
    import aiohttp
    from aiohttp.http_exceptions import ContentLengthError, TransferEncodingError
except ModuleNotFoundError:
    raise MissingExtraError("http", "a model over HTTP") from None

_KEPT_ALIVE: Final = 60.0  # seconds that a connection may be unused: a tool runs between two turns
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_MAX_UNREAD_BYTES: Final = 64 * 1024  # the server has to wait at twice as many
_MAX_HEADER_BYTES: Final = 64 * 1024  # of one header of a response
_MAX_FIRST_EVENT_BYTES: Final = 1024 * 1024  # a longer first event is not inspected
_MAX_BLANK_BYTES: Final = 16 * 1024  # before the first event; white space may be a keep-alive
_CONNECTION_ERRORS: Final = (aiohttp.ClientError, OSError)
_ERROR_BODY_TIMEOUT: Final = 10.0
# The last event of a response. After it, some servers keep the connection open and some reset it.
# Neither is a failure.
_LAST_EVENT: Final = re.compile(
    rb"[\r\n](?:data: ?\[DONE\]"
    rb"|event: ?(?:message_stop|response\.(?:completed|incomplete|failed)))\s"
)
_MAX_LAST_EVENT_BYTES: Final = 40
_CLOSE_TIMEOUT: Final = 1.0  # after the last event
_UNREAD_TIMEOUT: Final = 0.01  # to read bytes that have arrived already
_logger = logging.getLogger("argstream.models")
_certificates: Final = cache(load_certificates)  # loading takes at least 20 ms
# Our sessions. Without a reference, one could become garbage together with what would close it, and
# aiohttp logs an error about an open session that is garbage.
_open_sessions: Final[set[aiohttp.ClientSession]] = set()
_HEADERS: Final = {
    "accept": "text/event-stream, application/json",
    # Compressed responses arrive later and in larger chunks.
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "argstream",
}
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Timeouts(Struct, frozen=True, kw_only=True):
    """How long to wait for a server, in seconds. None means no limit.

    Models that think may send nothing for minutes. Pings and comments count as data.
    """

    connect: float | None = 10.0
    first_byte: float | None = 600.0
    """From the request to the first byte of the response."""
    idle: float | None = 600.0
    """Between two chunks of the response."""

    def __post_init__(self) -> None:
        for seconds in (self.connect, self.first_byte, self.idle):
            is_number = isinstance(seconds, int | float) and 0 < seconds < inf
            if seconds is not None and not is_number:
                raise UsageError(f"Timeouts: each must be greater than 0, or None, not {seconds!r}")


def make_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float | Timeouts | None = None,
    retries: int | Retries | None = None,
    session: aiohttp.ClientSession | None = None,
) -> "HttpModel":
    """Return a model by name: ``anthropic:claude-opus-4-7``, ``openai:gpt-5``, ``ollama:qwen3``.

    The key is ``api_key``, or the provider's usual environment variable, which is read for each
    request. With a ``base_url``, requests go to that server (with the provider's API), and a key is
    optional. ``timeout`` is how long to wait for data (see ``Timeouts``). ``retries`` is how often
    a request is retried before a response starts. A ``session`` is used unchanged, and stays open
    when the model is closed.

    >>> make_model("vllm:qwen3", base_url="http://10.0.0.7:8000/v1")
    <HttpModel vllm:qwen3 at http://10.0.0.7:8000/v1>
    """
    given = Hidden(api_key)
    del api_key  # tracebacks may show local variables
    provider, model = find_provider(name)
    if base_url is not None:
        address = checked_base_url(base_url, "base_url")
    elif set_url := os.environ.get(provider.url_variable, "").strip():
        address = checked_base_url(provider.read_url(set_url), f"${provider.url_variable}")
    else:
        address = provider.base_url
    if timeout is None:
        timeout = Timeouts()
    elif not isinstance(timeout, Timeouts):
        timeout = Timeouts(first_byte=timeout, idle=timeout)
    if not isinstance(retries, Retries):
        retries = Retries() if retries is None else Retries(most=retries)
    return HttpModel(
        name.strip(),
        model=model,
        api=provider.api_at(address),
        base_url=address,
        key=Key(given, provider, is_needed=provider.needs_key and address == provider.base_url),
        timeouts=timeout,
        retries=retries,
        session=session,
    )


class HttpModel:
    """A model over HTTP, created by ``make_model``. ``aclose()`` closes its connections.

    Many tasks may use it at once, and several event loops too, unless it has a ``session``.
    """

    def __init__(
        self,
        name: str,
        *,
        model: str,
        api: Api,
        base_url: str,
        key: Key,
        timeouts: Timeouts,
        retries: Retries,
        session: aiohttp.ClientSession | None = None,
    ) -> None:
        self.name = name
        self.protocol: ProtocolName = api.protocol
        self.base_url = base_url
        self._model = model
        self._api = api
        self._key = key
        self._timeouts = timeouts
        self._retries = retries
        if session is not None and not isinstance(session, aiohttp.ClientSession):
            raise UsageError(f"session must be aiohttp.ClientSession, not {type(session).__name__}")
        self._given = session
        self._given_loop = FirstLoop()
        self._sessions = PerLoop(_new_session, _close_session, _drop_session)

    def __repr__(self) -> str:
        return f"<HttpModel {self.name} at {self.base_url}>"

    def require_key(self) -> None:
        """Raise ``UsageError`` if the key is missing. Each request raises the same error."""
        self._key.value()

    async def aclose(self) -> None:
        """Close the connections of this event loop. The next request opens new ones."""
        await self._sessions.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[bytes, None]:
        """Request a turn, and yield the bytes of the response as they arrive.

        Raises ``ProviderError`` if no response starts or if it breaks off, and ``UsageError`` if
        the key is missing or the request is not valid. Closing the generator closes the connection.
        """
        content = _encode(self._api.body(self._model, request))
        headers = _Headers(self._api, self._key, request.settings)
        response = await self._response(content, headers)
        try:
            while chunk := await response.read():
                yield chunk
        finally:
            response.close()

    async def _response(self, content: bytes, headers: "_Headers") -> "HttpStream":
        info = RequestInfo(
            name=self.name,
            model=self._model,
            url=f"{self.base_url}{self._api.path}",
            key=self._key.origin,
        )
        made, waited = 0, 0.0
        while True:
            found = await self._attempt(content, headers, info._replace(tries=made + 1))
            if isinstance(found, HttpStream):
                return found
            made += 1
            wait = self._retries.wait(made, waited, found.retry_after)
            if wait is None or not found.failure.retryable:
                raise found.failure
            waited += wait
            _logger.info("%s: %r; retrying in %.1f s", info.name, found.failure.code, wait)
            await self._retries.sleep(wait)

    async def _attempt(
        self, content: bytes, headers: "_Headers", info: RequestInfo
    ) -> "HttpStream | FailedAttempt":
        session = await self._session()
        info = info.hiding({**session.headers, **headers.sent})
        times = self._timeouts
        timeout, body, is_stream = times.first_byte, None, False
        try:
            async with asyncio.timeout(timeout):
                response = await self._post(session, info.url, content, headers)
                info = info.hiding(response.request_info.headers)  # the session may have added some
                body = _Body(response)
                chunk = await body.read() if 200 <= response.status < 300 else None
            timeout = times.idle
            body.limit_waits(inf if timeout is None else timeout)
            if chunk is None:
                start = await body.read_start(MAX_ERROR_BYTES, _ERROR_BODY_TIMEOUT)
                wait = retry_after_seconds(response.headers, self._retries.now())
                return refused(info, response.status, response.headers, start, wait)
            first_event = FirstEvent(self.protocol)
            while chunk and not first_event.feed(chunk):
                chunk = await body.read()
            if first_event.is_blank:
                return not_a_stream(info, b"nothing but white space", response.headers)
            if not chunk and not first_event.close():
                return not_a_stream(info, bytes(first_event.held), response.headers)
            if first_event.failure is not None:
                return failed_at_once(info, first_event.failure, response.headers)
            is_stream = True
            return HttpStream(body, bytes(first_event.held), info._replace(tries=1), timeout)
        except _CONNECTION_ERRORS as error:
            return _unreachable(info, error, times.connect, timeout)
        finally:
            if body is not None and not is_stream:
                body.close()

    async def _post(
        self, session: aiohttp.ClientSession, url: str, content: bytes, headers: "_Headers"
    ) -> aiohttp.ClientResponse:
        try:
            return await session.post(
                url,
                data=BytesIO(content),  # aiohttp warns of large bytes
                headers=headers.sent,
                proxy=None if session is self._given else await _proxy_for(url),
                timeout=aiohttp.ClientTimeout(connect=self._timeouts.connect),
                allow_redirects=False,  # the target would receive the key
                raise_for_status=False,
                read_bufsize=_MAX_UNREAD_BYTES,
                max_field_size=_MAX_HEADER_BYTES,
            )
        except (aiohttp.ClientError, UsageError):  # some of them are ValueErrors
            raise
        except ValueError:
            pass  # it may show a header, and so a key
        raise UsageError("the request is not valid HTTP. Check headers and auth of the session")

    async def _session(self) -> aiohttp.ClientSession:
        if self._given is None:
            return await self._sessions.get()
        if self._given.closed:
            raise UsageError("the session is closed. Pass an open one")
        # Its open connections would fail in another loop. The sync methods of an agent use a loop
        # for each run.
        if not self._given_loop.is_current():
            raise UsageError(
                "the session belongs to another event loop. Use the agent in one loop "
                "(run_stream, run_async), or do not pass a session"
            )
        return self._given


class _Headers:
    """The headers of a request. Hides the key from tracebacks that show local variables."""

    __slots__ = ("sent",)

    def __init__(self, api: Api, key: Key, settings: ModelSettings) -> None:
        invalid = next(
            (name for name, value in settings.headers.items() if not _is_valid(name, value)), None
        )
        if invalid is not None:
            raise UsageError(f"header {invalid!r} is not a str or contains invalid characters")
        self.sent = dict(_HEADERS)
        self._set(api.headers(None if key.is_token else key.value()))
        if key.is_token:
            self.sent["authorization"] = f"Bearer {key.value()}"
        self._set(settings.headers)

    def _set(self, headers: Mapping[str, str]) -> None:
        self.sent.update({name.lower(): value.strip() for name, value in headers.items()})


def _is_valid(name: object, value: object) -> bool:
    if not isinstance(name, str) or not isinstance(value, str):
        return False
    return bool(_HEADER_NAME.fullmatch(name)) and value.isascii() and value.isprintable()


def _encode(body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (UnicodeEncodeError, OverflowError):
        # A lone surrogate or a number of more than 64 bits, which a model may have written.
        return json.dumps(body).encode()
    except TypeError as error:
        raise UsageError(f"the request cannot be encoded as JSON: {error}") from None


def _new_session() -> aiohttp.ClientSession:
    # No limit of connections: the caller decides how many requests run at once.
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_ALIVE, ssl=_certificates())
    session = aiohttp.ClientSession(connector=connector)
    _open_sessions.add(session)
    return session


async def _close_session(session: aiohttp.ClientSession) -> None:
    _open_sessions.discard(session)
    await session.close()


def _drop_session(session: aiohttp.ClientSession) -> None:
    """Mark a session as closed whose loop is closed. This does not wait for anything."""
    with suppress(StopIteration):
        _close_session(session).send(None)


async def _proxy_for(url: str) -> str | None:
    """Return the proxy that the environment or the system sets for a URL.

    aiohttp reads neither ALL_PROXY nor networks in NO_PROXY.
    """
    proxies = getproxies()
    proxy = proxies.get(urlsplit(url).scheme) or proxies.get("all")
    if not proxy or await asyncio.to_thread(_is_direct, url, proxies.get("no", "")):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if problem := _problem_of_proxy(proxy):
        del proxies, proxy  # tracebacks may show local variables
        raise UsageError(f"{names_of_set_variables(_PROXIES)}: {problem}")
    return proxy


def _is_direct(url: str, exceptions: str) -> bool:
    """Return True for an exception from the proxies. Some systems look up the host for this."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if proxy_bypass(parts.netloc) or proxy_bypass(host):
        return True
    for exception in exceptions.split(","):
        with suppress(ValueError):  # the exception is not a network, or the host is a name
            if ip_address(host) in ip_network(exception.strip(), strict=False):
                return True
    return False


def _problem_of_proxy(proxy: str) -> str:
    with suppress(ValueError):
        parts = urlsplit(proxy)
        if parts.scheme.startswith("socks"):
            return "SOCKS proxies need a session with a connector of aiohttp-socks"
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return ""
    return "not a valid proxy URL"  # not shown, because it may contain a password


class FirstEvent:
    """Holds the first bytes of a response until its first event is decoded."""

    def __init__(self, protocol: ProtocolName) -> None:
        self._protocol = protocol
        self._decoder: SseDecoder | JsonTextDecoder | None = None
        self.held = bytearray()
        self._known = False
        self.failure: ProviderFailed | None = None  # if the first event is an error
        self.is_blank = False  # too much white space and nothing else

    def feed(self, chunk: bytes) -> bool:
        """Return True once the first event is decoded, or the limit is reached."""
        self.held += chunk
        if self._decoder is None:
            start = self.held.removeprefix(BYTE_ORDER_MARK).lstrip()
            if not start:
                self.is_blank = len(self.held) > _MAX_BLANK_BYTES
                return self.is_blank
            is_json = start.startswith((b"{", b"["))
            self._decoder = JsonTextDecoder() if is_json else SseDecoder()
            chunk = bytes(self.held)
        self._inspect(self._decoder.feed(chunk))
        return self._known or len(self.held) > _MAX_FIRST_EVENT_BYTES

    def close(self) -> bool:
        """Return True if there was an event."""
        if self._decoder is not None and not self._known:
            self._inspect(self._decoder.close())
        return self._known

    def _inspect(self, frames: list[Frame | Broken]) -> None:
        for frame in frames:
            if self._known:
                return
            if isinstance(frame, Broken):
                self._known = True
            elif frame.data and frame.event != "ping":
                self._known = True
                with suppress(UnreadableError):  # stream() reports it
                    self.failure = _failure_in(frame, self._protocol)


def _failure_in(frame: Frame, protocol: ProtocolName) -> ProviderFailed | None:
    """Return the failure if the event is an error and nothing else."""
    match make_decoder(protocol).feed(frame.data, frame.event):
        case [ProviderFailed() as failure]:
            return failure
    return None


def _unreachable(
    info: RequestInfo, error: Exception, connect: float | None, waited: float | None
) -> FailedAttempt:
    code = "connection_lost"
    match error:
        case aiohttp.ConnectionTimeoutError():
            code, message = "timeout", f"no connection to {info.origin} within {_duration(connect)}"
        case TimeoutError():
            code, message = "timeout", f"{info.name} sent nothing for {_duration(waited)}"
        case aiohttp.ClientHttpProxyError(status=407):
            code, message = "refused", headline(407, info)
        case aiohttp.ClientHttpProxyError(status=status):
            code = "connection_failed"
            message = f"cannot connect to {info.origin}: the proxy answered with {status}"
        case aiohttp.ClientProxyConnectionError(os_error=reason):
            code = "connection_failed"
            message = f"cannot connect to the proxy for {info.origin}: {_text(reason)}"
        case aiohttp.ClientConnectorError(os_error=reason):
            code, message = "connection_failed", f"cannot connect to {info.origin}: {_text(reason)}"
        case aiohttp.ServerDisconnectedError():  # its text is the response so far
            message = f"{info.name} closed the connection"
        case aiohttp.ClientPayloadError(__cause__=ContentLengthError() | TransferEncodingError()):
            message = f"{info.name} closed the connection before the end of its response"
        case aiohttp.ClientResponseError(__cause__=cause):  # the texts have bytes of the response
            kind = type(getattr(cause, "__cause__", None) or error).__name__
            message = f"{info.name} sent invalid HTTP ({kind})"
        case _:
            message = f"the connection to {info.name} was lost: {_text(error)}"
    return failed(info, code, message, retryable=_may_recover(error))


def _duration(seconds: float | None) -> str:
    return "too long" if seconds is None else f"{seconds:g} s"


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _may_recover(error: BaseException) -> bool:
    """Return True if a retry may succeed after this connection error."""
    match error:
        case aiohttp.InvalidURL() | ssl.SSLCertVerificationError():
            return False
        case aiohttp.ClientHttpProxyError(status=407):
            return False
    cause = error.__cause__ or error.__context__
    return cause is None or _may_recover(cause)


class _Body:
    """The body of a response. One timer limits each wait for its next bytes.

    A timer for each wait would cost more than the reading. When this one is due, it looks how long
    the current wait has lasted, and is set again.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = response.content
        headers, connection = response.headers, response.connection
        is_framed = "content-length" in headers or "transfer-encoding" in headers
        # Of a response that ends with its connection: aiohttp raises no error if that is reset.
        self._protocol = None if is_framed or connection is None else connection.protocol
        self._loop = asyncio.get_running_loop()
        self._waiting_since = inf  # not waiting
        self._longest_wait = inf
        self._deadline = inf
        self._timer: asyncio.TimerHandle | None = None

    async def read(self) -> bytes:
        """Return what has arrived, or wait for the next bytes. Return ``b""`` at the end."""
        self._waiting_since = self._loop.time()
        try:
            chunk = await self._content.readany()
        except _CONNECTION_ERRORS:
            if unread := _unread(self._content):
                return unread
            raise
        finally:
            self._waiting_since = inf
        if not chunk and self._protocol is not None:
            error = self._protocol.exception()
            if isinstance(error, aiohttp.ClientOSError):
                raise error
        return chunk

    async def read_start(self, size: int, seconds: float) -> bytes:
        """Return the start of the body, as far as it arrives."""
        start = bytearray()
        self.end_within(seconds)
        with suppress(*_CONNECTION_ERRORS):
            while len(start) <= size and (chunk := await self.read()):
                start += chunk
        return bytes(start)

    def limit_waits(self, seconds: float) -> None:
        self._longest_wait = seconds
        self._set_timer()

    def end_within(self, seconds: float) -> None:
        """Limit the time for all that follows. Later calls change nothing."""
        if self._deadline == inf:
            self._deadline = self._loop.time() + seconds
            self._set_timer()

    def close(self) -> None:
        """Close the connection, unless the body was read to its end."""
        if self._timer is not None:
            self._timer.cancel()
        self._response.close()

    def _set_timer(self, *, is_second: bool = False) -> None:
        if self._timer is not None:
            self._timer.cancel()
        now = self._loop.time()
        due = min(min(self._waiting_since, now) + self._longest_wait, self._deadline)
        if due <= now and is_second:
            self._content.set_exception(TimeoutError())
        elif due <= now:  # bytes may have arrived while the loop was blocked
            again = partial(self._set_timer, is_second=True)
            self._timer = self._loop.call_later(_UNREAD_TIMEOUT, again)
        elif due != inf:
            self._timer = self._loop.call_at(due, self._set_timer)


def _unread(content: Any) -> bytes:
    """Return the bytes that arrived before an error. aiohttp would raise the error before them."""
    error = content.exception()
    content.set_exception(None)
    try:
        unread: bytes = content.read_nowait()
        return unread
    finally:
        content.set_exception(error)


class HttpStream:
    def __init__(self, body: _Body, head: bytes, info: RequestInfo, idle: float | None) -> None:
        self._body = body
        self._head = head
        self._info = info
        self._idle = idle
        self._redactor = info.secrets.redactor(live=True)
        self._tail = b"\n"  # so that the pattern matches the first line
        self._is_over = False

    async def read(self) -> bytes:
        """Return the next bytes without secrets, or ``b""`` at the end."""
        failure = None
        chunk, self._head = self._head, b""
        try:
            while chunk := chunk or await self._body.read():
                self._detect_end(chunk)
                if chunk := self._redactor.feed(chunk):  # tracebacks may show this variable
                    return chunk
        except _CONNECTION_ERRORS as error:
            if not self._is_over:
                failure = _unreachable(self._info, error, None, self._idle).failure
        if failure is not None:
            raise failure  # not from the error, which refers to the request and its headers
        return self._redactor.feed(b"", is_end=True)

    def close(self) -> None:
        self._body.close()

    def _detect_end(self, chunk: bytes) -> None:
        """Detect the last event, also if it is cut by chunks."""
        data = self._tail + chunk
        self._is_over = self._is_over or _LAST_EVENT.search(data) is not None
        self._tail = data[-_MAX_LAST_EVENT_BYTES:]
        # The data of the last event may be long, so wait for its end.
        if self._is_over and self._tail.endswith((b"\n\n", b"\r\n\r\n", b"\r\r")):
            self._body.end_within(_CLOSE_TIMEOUT)
