"""Models over HTTP: providers, API keys, connections, timeouts and retries."""

import difflib
import json
import logging
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import cache
from math import inf
from ssl import SSLContext
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from weakref import ReferenceType, ref

import anyio
import httpx2
import msgspec
from anyio.lowlevel import current_token
from msgspec import Struct

from argstream.errors import UsageError
from argstream.models._errors import (
    MAX_ERROR_BYTES,
    FailedAttempt,
    Hidden,
    Key,
    RequestInfo,
    failed_at_once,
    not_a_stream,
    refused,
    unreachable,
)
from argstream.models._retries import Retries, retry_after_seconds
from argstream.providers import ProtocolName, UnreadableError, make_decoder
from argstream.providers._deltas import ProviderFailed
from argstream.providers._requests import Api, ModelRequest, ModelSettings
from argstream.providers.anthropic_requests import AnthropicApi
from argstream.providers.openai_requests import CHAT_COMPATIBILITY, ChatApi, ResponsesApi
from argstream.wire import Broken, Frame, JsonTextDecoder, SseDecoder
from argstream.wire._frames import BYTE_ORDER_MARK

_OPENAI_HOSTS: Final = (".openai.com", ".azure.com")
_OPENAI_URL: Final = "https://api.openai.com/v1"
# Prefixes of well-known model names, to suggest a provider.
_MODELS: Final = {
    "claude": "anthropic",
    "gpt": "openai",
    "chatgpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "deepseek": "deepseek",
    "mistral": "mistral",
    "codestral": "mistral",
    "grok": "xai",
    "llama": "ollama",
    "qwen": "ollama",
}
# Not limited: the caller decides how many requests run at once. Idle connections are kept for the
# time that a tool may run between two turns.
_LIMITS: Final = httpx2.Limits(
    max_connections=None, max_keepalive_connections=100, keepalive_expiry=60.0
)
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
_MAX_FIRST_EVENT_BYTES: Final = 1024 * 1024  # a longer first event is not inspected
_MAX_BLANK_BYTES: Final = 16 * 1024  # before the first event; white space may be a keep-alive
_CONNECTION_ERRORS: Final = (httpx2.TransportError, httpx2.DecodingError, TimeoutError)
_ERROR_BODY_TIMEOUT: Final = 10.0
# The last event of a response. After it, some servers keep the connection open and some reset it.
# Neither is a failure.
_LAST_EVENT: Final = re.compile(
    rb"[\r\n](?:data: ?\[DONE\]"
    rb"|event: ?(?:message_stop|response\.(?:completed|incomplete|failed)))\s"
)
_MAX_LAST_EVENT_BYTES: Final = 40
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_CLOSE_TIMEOUT: Final = 1.0  # after the last event
_logger = logging.getLogger("argstream.models")
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
            if seconds is not None and not seconds > 0:
                raise UsageError(f"Timeouts: each must be greater than 0, or None, not {seconds!r}")

    def describe(self, error: Exception, seconds: float | None) -> str:
        waited = self.connect if isinstance(error, httpx2.ConnectTimeout) else seconds
        return f"{waited:g} s" if waited is not None else "too long"


def make_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float | Timeouts | None = None,
    retries: int | Retries | None = None,
    http_client: httpx2.AsyncClient | None = None,
) -> "HttpModel":
    """Return a model by name: ``anthropic:claude-opus-4-7``, ``openai:gpt-5``, ``ollama:qwen3``.

    The key is ``api_key``, or the provider's usual environment variable, which is read for each
    request. With a ``base_url``, requests go to that server (with the provider's API), and a key is
    optional. ``timeout`` is how long to wait for data (see ``Timeouts``). ``retries`` is how often
    a request is retried before a response starts. An ``http_client`` is used unchanged, and stays
    open when the model is closed.

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
        key=Key(
            given,
            provider.key_variables,
            bearer_variable=provider.token_variable,
            provider=provider.name,
            is_needed=provider.needs_key and address == provider.base_url,
        ),
        timeouts=timeout,
        retries=retries,
        http_client=http_client,
    )


class HttpModel:
    """A model over HTTP, created by ``make_model``. ``aclose()`` closes its connections.

    Many tasks may use it at once, and several event loops too, unless it has an ``http_client``.
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
        http_client: httpx2.AsyncClient | None = None,
    ) -> None:
        self.name = name
        self.protocol: ProtocolName = api.protocol
        self.base_url = base_url
        self._model = model
        self._api = api
        self._key = key
        self._timeouts = timeouts
        self._retries = retries
        self._connections = Connections(http_client)

    def __repr__(self) -> str:
        return f"<HttpModel {self.name} at {self.base_url}>"

    def require_key(self) -> None:
        """Raise ``UsageError`` if the key is missing. Each request raises the same error."""
        self._key.value()

    async def aclose(self) -> None:
        """Close the connections of this event loop. The next request opens new ones."""
        await self._connections.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[bytes, None]:
        """Request a turn, and yield the bytes of the response as they arrive.

        Raises ``ProviderError`` if no response starts or if it breaks off, and ``UsageError`` if
        the key is missing or the request is not valid. Closing the generator closes the connection.
        """
        content = _encode(self._api.body(self._model, request))
        headers = _Headers(self._api, self._key, request.settings)
        response = await self._response(content, headers)
        async with aclosing(response.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _response(self, content: bytes, headers: "_Headers") -> "HttpStream":
        info = RequestInfo(
            name=self.name,
            model=self._model,
            url=f"{self.base_url}{self._api.path}",
            key=self._key.origin,
        )
        made, waited = 0, 0.0
        while True:
            client = await self._connections.client()
            request = headers.build_request(client, info.url, content, self._timeouts)
            found = await send_request(
                client,
                request,
                info.hiding(request.headers),
                times=self._timeouts,
                protocol=self.protocol,
                now=self._retries.now(),
            )
            if isinstance(found, HttpStream):
                return found
            made += 1
            wait = self._retries.wait(made, waited, found.retry_after) if found.may_retry else None
            if wait is None:
                raise found.after(made)
            waited += wait
            _logger.info("%s: %r; retrying in %.1f s", info.name, found.failure.code, wait)
            await self._retries.sleep(wait)


class _Headers:
    """The headers of a request. Hides the key from tracebacks that show local variables."""

    __slots__ = ("_headers",)

    def __init__(self, api: Api, key: Key, settings: ModelSettings) -> None:
        invalid = next(
            (name for name, value in settings.headers.items() if not _is_valid(name, value)), None
        )
        if invalid is not None:
            raise UsageError(f"header {invalid!r} is not a str or contains invalid characters")
        self._headers = httpx2.Headers(_HEADERS)
        self._headers.update(api.headers(None if key.is_token else key.value()))
        if key.is_token:
            self._headers["authorization"] = f"Bearer {key.value()}"
        self._headers.update({name: value.strip() for name, value in settings.headers.items()})

    def build_request(
        self, client: httpx2.AsyncClient, url: str, content: bytes, times: Timeouts
    ) -> httpx2.Request:
        # No read timeout here: it differs between the first and later bytes.
        timeout = httpx2.Timeout(connect=times.connect, read=None, write=times.idle, pool=None)
        return client.build_request(
            "POST", url, content=content, headers=self._headers, timeout=timeout
        )


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


class Provider(Struct):
    """A server, or a kind of server, with one of the APIs."""

    name: str  # the prefix of model names: ``anthropic:…``
    base_url: str
    api: Callable[[str], Api] | None = None  # at a base URL; None for Chat Completions
    needs_key: bool = True
    variables: str = ""  # what its environment variables begin with, if that is not its name
    url_variable: str = ""  # overrides base_url
    token_variable: str = ""  # of a bearer token that is used if there is no key
    read_url: Callable[[str], str] = str  # converts the value of url_variable

    def __post_init__(self) -> None:
        self.variables = self.variables or self.name.upper()
        self.url_variable = self.url_variable or f"{self.variables}_BASE_URL"

    @property
    def key_variables(self) -> tuple[str, ...]:
        return (f"{self.variables}_API_KEY",)

    def api_at(self, base_url: str) -> Api:
        return self.api(base_url) if self.api else ChatApi(CHAT_COMPATIBILITY.get(self.name))


def _ollama_url(host: str) -> str:
    """Parse ``OLLAMA_HOST`` as Ollama does. Scheme and port are optional; ``/v1`` is added.

    >>> _ollama_url("0.0.0.0"), _ollama_url("https://ollama.com"), _ollama_url(":8080")
    ('http://0.0.0.0:11434/v1', 'https://ollama.com/v1', 'http://127.0.0.1:8080/v1')
    """
    scheme, separator, rest = host.partition("://")
    if separator:
        return f"{scheme}://{rest.rstrip('/').removesuffix('/v1')}/v1"
    authority, slash, path = host.partition("/")
    name, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):  # IPv6 addresses contain colons
        name, port = authority, "11434"
    path = f"{slash}{path}".rstrip("/").removesuffix("/v1")
    return f"http://{name or '127.0.0.1'}:{port}{path}/v1"


def _groq_url(url: str) -> str:
    """Return the URL of Groq's API, given the shorter one that its SDK expects."""
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/openai/v1"


def _openai_chat(base_url: str) -> Api:
    """Assume OpenAI's extensions only for the hosts of OpenAI and Azure."""
    is_own = (urlsplit(base_url).hostname or "").endswith(_OPENAI_HOSTS)
    return ChatApi(CHAT_COMPATIBILITY["openai"] if is_own else None)


PROVIDERS: Final[Mapping[str, Provider]] = {
    provider.name: provider
    for provider in (
        Provider(
            "anthropic",
            "https://api.anthropic.com",
            lambda _: AnthropicApi(),
            token_variable="ANTHROPIC_AUTH_TOKEN",  # noqa: S106 - the name of a variable
        ),
        Provider("openai", _OPENAI_URL, _openai_chat),
        Provider("openai-responses", _OPENAI_URL, lambda _: ResponsesApi(), variables="OPENAI"),
        Provider("deepseek", "https://api.deepseek.com"),
        Provider("openrouter", "https://openrouter.ai/api/v1"),
        Provider("groq", "https://api.groq.com/openai/v1", read_url=_groq_url),
        Provider("mistral", "https://api.mistral.ai/v1"),
        Provider("xai", "https://api.x.ai/v1"),
        Provider("together", "https://api.together.ai/v1"),
        Provider(
            "ollama",
            "http://127.0.0.1:11434/v1",
            needs_key=False,
            url_variable="OLLAMA_HOST",
            read_url=_ollama_url,
        ),
        Provider("vllm", "http://127.0.0.1:8000/v1", needs_key=False),
    )
}


def find_provider(name: str) -> tuple[Provider, str]:
    if not isinstance(name, str):
        raise UsageError(
            f"a model name must be a str such as 'anthropic:claude-opus-4-7', not {name!r}"
        )
    prefix, colon, model = name.strip().partition(":")
    if colon and model and (provider := PROVIDERS.get(prefix)) is not None:
        return provider, model
    if prefix in PROVIDERS:
        raise UsageError(f"{prefix!r} is a provider. Add a model: '{prefix}:MODEL'")
    guess = _guess(name.strip(), prefix if colon else "", model)
    problem = f"unknown provider {prefix!r}" if colon and model else f"unknown model {name!r}"
    fix = "" if colon else " Write the provider before it."
    fix = f" Did you mean {guess!r}?" if guess else fix
    raise UsageError(f"{problem}.{fix} Providers: {', '.join(PROVIDERS)}")


def _guess(name: str, prefix: str, model: str) -> str:
    start, slash, rest = name.partition("/")
    if slash and start in PROVIDERS:  # the format of other libraries
        return f"{start}:{rest}"
    if near := difflib.get_close_matches(prefix.lower(), PROVIDERS, 1):
        return f"{near[0]}:{model or '…'}"
    known = next((known for known in _MODELS if name.lower().startswith(known)), None)
    return "" if known is None else f"{_MODELS[known]}:{name}"


def checked_base_url(url: str, origin: str) -> str:
    """Return a valid URL without its final slash.

    It must not contain secrets, because URLs appear in logs and errors.
    """
    try:
        parts = urlsplit(url.strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        httpx2.URL(url.strip())  # stricter than urlsplit
    except (ValueError, httpx2.InvalidURL):
        parts, is_address = urlsplit(""), False
    if not is_address:
        raise UsageError(f"{origin} must be a URL such as 'http://127.0.0.1:8000/v1'")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"{origin} must not contain a password, a query or a fragment, because URLs appear in "
            "logs. Send secrets in headers (ModelSettings.headers or http_client)"
        )
    return url.strip().rstrip("/")


class _Open(NamedTuple):
    client: httpx2.AsyncClient
    lifetime: AsyncGenerator[httpx2.AsyncClient, None]


class Connections:
    """The HTTP clients, one for each event loop. A client that was passed is not closed."""

    def __init__(self, given: httpx2.AsyncClient | None = None) -> None:
        if given is not None and not isinstance(given, httpx2.AsyncClient):
            raise UsageError(f"http_client must be httpx2.AsyncClient, not {type(given).__name__}")
        self._given = given
        self._given_loop: ref[Any] | None = None
        # By loop. Clients refer to their loops, so entries must be removed to free the loops.
        self._open: dict[object, _Open] = {}

    async def client(self) -> httpx2.AsyncClient:
        if self._given is not None:
            if self._given.is_closed:
                raise UsageError("the http_client is closed. Pass an open one")
            self._require_one_loop()
            return self._given
        loop = current_token().native_token
        self._forget_closed()
        found = self._open.get(loop)
        if found is None:
            lifetime = _keep_client(ref(self))
            # anext() does not suspend here, so no other task creates a second client.
            client = await anext(lifetime)
            self._open[loop] = found = _Open(client, lifetime)
        return found.client

    def _require_one_loop(self) -> None:
        """Reject other event loops, where the open connections would fail.

        The sync methods of an agent use a loop for each run.
        """
        loop: Any = current_token().native_token
        self._given_loop = self._given_loop or ref(loop)
        if self._given_loop() is not loop:
            raise UsageError(
                "the http_client belongs to another event loop. Use the agent in one loop "
                "(run_stream, run_async), or do not pass http_client"
            )

    async def close(self) -> None:
        found = self._open.pop(current_token().native_token, None)
        if found is not None:
            await found.lifetime.aclose()

    def forget(self, client: httpx2.AsyncClient) -> None:
        for loop, one in list(self._open.items()):
            if one.client is client:
                self._open.pop(loop, None)

    def _forget_closed(self) -> None:
        """Remove clients that were closed elsewhere, and clients of closed loops."""
        for loop, one in list(self._open.items()):
            is_closed = getattr(loop, "is_closed", None)
            if one.client.is_closed or (is_closed is not None and is_closed()):
                self._open.pop(loop, None)


async def _keep_client(
    owner: ReferenceType[Connections],
) -> AsyncGenerator[httpx2.AsyncClient, None]:
    client = _new_client()
    try:
        yield client
    finally:
        if (connections := owner()) is not None:
            connections.forget(client)
        await client.aclose()


def _new_client() -> httpx2.AsyncClient:
    certificates = _certificates()
    try:
        return httpx2.AsyncClient(verify=certificates, limits=_LIMITS)
    except ImportError:
        problem = "SOCKS proxies need the package socksio"
    except (ValueError, httpx2.InvalidURL):
        problem = "not a valid proxy URL"  # not shown, because it may contain a password
    raise UsageError(f"{_variables_set(_PROXIES)}: {problem}")


@cache
def _certificates() -> SSLContext:
    """Load the certificates once, because loading takes at least 20 ms."""
    try:
        return httpx2.create_ssl_context()
    except OSError as error:  # includes ssl.SSLError
        names = _variables_set(_CERTIFICATES)
        raise UsageError(f"{names}: certificates cannot be loaded: {error}") from None


def _variables_set(variables: tuple[str, ...]) -> str:
    spellings = [spelling for name in variables for spelling in (name, name.lower())]
    found = [f"${name}" for name in spellings if os.environ.get(name)]
    return ", ".join(found) or "the settings of this machine"


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
        first = next((frame for frame in frames if _is_significant(frame)), None)
        if first is None or self._known:
            return
        self._known = True
        if isinstance(first, Frame):
            self.failure = _failure_in(first, self._protocol)


def _is_significant(frame: Frame | Broken) -> bool:
    return isinstance(frame, Broken) or (bool(frame.data) and frame.event != "ping")


def _failure_in(frame: Frame, protocol: ProtocolName) -> ProviderFailed | None:
    """Return the failure if the event is an error and nothing else."""
    try:
        deltas = make_decoder(protocol).feed(frame.data, frame.event)
    except UnreadableError:
        return None  # stream() reports it
    match deltas:
        case [ProviderFailed() as failure]:
            return failure
        case _:
            return None


async def send_request(
    client: httpx2.AsyncClient,
    request: httpx2.Request,
    info: RequestInfo,
    *,
    times: Timeouts,
    protocol: ProtocolName,
    now: float,
) -> "HttpStream | FailedAttempt":
    response: httpx2.Response | None = None
    timeout = times.first_byte
    is_stream = False
    try:
        with anyio.fail_after(timeout):
            # Redirects are not followed, because they would receive the key.
            response = await client.send(request, stream=True, follow_redirects=False)
            info = info.hiding(response.request.headers)  # the client may have added some
            chunks = response.aiter_bytes()
            chunk = await anext(chunks, None) if response.is_success else None
        if not response.is_success:
            body = await _error_body(chunks, times.idle)
            wait = retry_after_seconds(response.headers, now)
            return refused(info, response.status_code, response.headers, body, wait)
        timeout = times.idle
        first_event = FirstEvent(protocol)
        while chunk is not None and not first_event.feed(chunk):
            with anyio.fail_after(timeout):
                chunk = await anext(chunks, None)
        if first_event.is_blank:
            return not_a_stream(info, b"nothing but white space", response.headers)
        if chunk is None and not first_event.close():
            return not_a_stream(info, bytes(first_event.held), response.headers)
        if first_event.failure is not None:
            return failed_at_once(info, first_event.failure, response.headers)
        is_stream = True
        return HttpStream(response, chunks, bytes(first_event.held), info, times)
    except _CONNECTION_ERRORS as error:
        return unreachable(info, error, times.describe(error, timeout))
    finally:
        if response is not None and not is_stream:
            await _close(response)


async def _error_body(chunks: AsyncGenerator[bytes, None], timeout: float | None) -> bytes:
    body = bytearray()
    try:
        with anyio.move_on_after(min(_ERROR_BODY_TIMEOUT, timeout or inf)):
            async for chunk in chunks:
                body += chunk
                if len(body) > MAX_ERROR_BYTES:
                    break
    except _CONNECTION_ERRORS:
        pass  # the status is enough for a message
    return bytes(body)


async def _close(response: httpx2.Response) -> None:
    """Close the connection, even if the reading task has been cancelled."""
    with anyio.CancelScope(shield=True):
        await response.aclose()


class HttpStream:
    def __init__(
        self,
        response: httpx2.Response,
        chunks: AsyncGenerator[bytes, None],
        head: bytes,
        info: RequestInfo,
        times: Timeouts,
    ) -> None:
        self._response = response
        self._chunks = chunks
        self._head = head
        self._info = info
        self._times = times
        self._tail = b"\n"  # so that the pattern matches the first line
        self._is_over = False
        self._deadline: float | None = None  # for closing, after the last event

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes as they arrive, without secrets."""
        redactor = self._info.secrets.redactor(live=True)
        chunk: bytes | None = self._head
        try:
            while chunk is not None:
                self._detect_end(chunk)
                chunk = redactor.feed(chunk)  # tracebacks may show this variable
                if chunk:
                    yield chunk
                chunk = await self._next()
            if rest := redactor.feed(b"", is_end=True):
                yield rest
        finally:
            await _close(self._response)

    async def _next(self) -> bytes | None:
        timeout = self._times.idle
        if self._deadline is not None:  # one deadline, because pings may continue forever
            timeout = self._deadline - anyio.current_time()
        try:
            with anyio.fail_after(timeout):
                return await anext(self._chunks, None)
        except _CONNECTION_ERRORS as error:
            if self._is_over:
                return None
            failure = unreachable(self._info, error, self._times.describe(error, timeout)).failure
        raise failure  # not from the error, which refers to the request and its headers

    def _detect_end(self, chunk: bytes) -> None:
        """Detect the last event, also if it is cut by chunks."""
        data = self._tail + chunk
        self._is_over = self._is_over or _LAST_EVENT.search(data) is not None
        self._tail = data[-_MAX_LAST_EVENT_BYTES:]
        # The data of the last event may be long, so wait for its end.
        is_complete = self._is_over and self._tail.endswith(_EVENT_ENDS)
        if is_complete and self._deadline is None:
            self._deadline = anyio.current_time() + _CLOSE_TIMEOUT
