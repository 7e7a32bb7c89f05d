"""A reverse proxy for a provider that records every response.

::

    with RecordingProxy("https://api.anthropic.com", "recordings") as proxy:
        client = anthropic.Anthropic(base_url=proxy.url)
        ...

Each response becomes a file, for ``argstream watch``, ``argstream replay`` and the mock provider.
The client's key is passed on and never written. The proxy listens on the loopback interface only.
"""

import contextlib
import http.client
import json
import re
import selectors
import socket
import socketserver
import ssl
import struct
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from argstream.errors import UsageError
from argstream.recording._format import Ending, Request, Response
from argstream.recording._recorder import (
    REQUEST_HEADERS,
    RESPONSE_HEADERS,
    NumberedFiles,
    Recorder,
    Redactor,
    ResponseRecorder,
    harmless_headers,
    harmless_path,
    harmless_url,
    is_readable_encoding,
    secrets_of_body,
    secrets_of_request,
)

__all__ = ["Exchange", "LoopbackServer", "LoopbackService", "RecordingProxy", "Upstream"]


_CONNECT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 3.0
# A client may disconnect after the last event, before the proxy has sent the end of the body.
_GRACE_SECONDS: Final = 0.5
_HANG_UP_SECONDS: Final = 0.2
# PollSelector needs no file descriptor of its own. There is a selector for each request.
_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)
_MAX_REQUEST_BYTES: Final = 64 * 1024 * 1024
# A body as a JSON string can be six times as long, and a line has at most 64 MiB.
_MAX_RECORDED_BYTES: Final = 8 * 1024 * 1024
_DISCONNECTED: Final = "the client disconnected"
_BROKE_OFF: Final = "the provider disconnected before its response ended"
_EXAMPLE_URL: Final = "Pass a URL such as https://api.example.com"
_STOPPED: Final = "the proxy was stopped"
_SWITCHING_PROTOCOLS: Final = 101
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
_CHUNK_BYTES: Final = 64 * 1024
_USE_AS_BASE_URL: Final = "this proxy is not a forward proxy. Use its URL as the client's base URL"


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


class LoopbackService(ABC):
    """A service on the loopback interface that runs inside of ``with``."""

    _server: "LoopbackServer | None" = None

    @abstractmethod
    def _listen(self) -> "LoopbackServer": ...

    def start(self) -> Self:
        """Start to listen. ``with`` calls this."""
        if self._server is not None:
            raise UsageError(f"{type(self).__name__} is already running. Stop it first")
        self._server = self._listen()
        return self

    def stop(self) -> None:
        """Stop at once, also during a response."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The base URL for clients."""
        if self._server is None:
            name = type(self).__name__
            raise UsageError(f"{name} is not running, so it has no URL. Use `with`")
        return f"http://127.0.0.1:{self._server.port}"


class RecordingProxy(LoopbackService):
    """Passes requests on to a provider, and writes each response into a file of a directory.

    The credentials of requests and ``secrets`` are never written. ``with_request`` also writes the
    body of each request, which contains prompts. ``on_exchange`` is called after each exchange, in
    the thread of its connection. When the proxy stops, recordings of responses in progress end as
    aborted.
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
        self.upstream: Upstream = Upstream(upstream)
        self.directory: Path = Path(directory)
        self._files = NumberedFiles(self.directory)
        self._proxy = _Proxy(
            self.upstream, self._files, frozenset(secrets), with_request, report=self._report
        )
        self._port = port
        self._on_exchange = on_exchange
        self._lock = threading.Lock()  # guards _exchanges: each connection has a thread
        self._exchanges: list[Exchange] = []

    def _listen(self) -> "_ProxyServer":
        self._files.prepare()
        return _ProxyServer(self._port, lambda handler: _Forwarding(handler, self._proxy).run())

    @property
    def exchanges(self) -> list[Exchange]:
        """All completed exchanges, in the order in which they ended."""
        with self._lock:
            return list(self._exchanges)

    def _report(self, exchange: Exchange) -> None:
        with self._lock:
            self._exchanges.append(exchange)
        if self._on_exchange is not None:
            self._on_exchange(exchange)


class Upstream:
    """The URL of a provider, http or https. Its path is prepended to all request paths."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
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
        self.is_secure: bool = parts.scheme == "https"
        self.host: str = parts.hostname
        self.port: int = port or (443 if self.is_secure else 80)
        ascii_only = parts.netloc.isascii()
        self.netloc: str = parts.netloc if ascii_only else parts.netloc.encode("idna").decode()
        self.path: str = parts.path.rstrip("/")
        self.url: str = f"{parts.scheme}://{parts.netloc}{self.path}"

    @cached_property
    def _certificates(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def connect(self, use: Callable[[socket.socket], None]) -> http.client.HTTPConnection:
        """Open a connection without a read timeout, because a model may think for minutes.

        ``use`` is called with each socket before it blocks, so that another thread can close it.
        """
        connection = http.client.HTTPConnection(self.host, self.port)
        connection.sock = used = self._connected(use)
        used.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.is_secure:
            try:
                connection.sock = used = self._certificates.wrap_socket(
                    used, server_hostname=self.host, do_handshake_on_connect=False
                )
                use(used)
                used.do_handshake()
            except OSError:
                used.close()
                raise
        used.settimeout(None)
        return connection

    def _connected(self, use: Callable[[socket.socket], None]) -> socket.socket:
        """Try each address of the host."""
        failure = OSError("the host has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM
        ):
            used = socket.socket(family, kind, protocol)
            used.settimeout(_CONNECT_SECONDS)
            use(used)
            try:
                used.connect(address)
            except OSError as error:
                used.close()
                failure = error
            else:
                return used
        raise failure


def _is_valid_host(host: str) -> bool:
    try:
        host.encode("idna")
    except UnicodeError:  # a label is empty or too long
        return False
    return re.fullmatch(r"[\w.:%-]+", host) is not None


class LoopbackServer(socketserver.TCPServer):
    """Listens on 127.0.0.1 until it is stopped."""

    # Not http.server.HTTPServer, which does a slow reverse DNS lookup of its host.
    allow_reuse_address: bool = sys.platform != "win32"  # on Windows it would share a port in use
    request_queue_size: int = 128
    timeout: float | None = _POLL_SECONDS

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.stopping: threading.Event = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        try:
            super().__init__(("127.0.0.1", port), handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"cannot listen on port {port}: {reason}. Choose another port, or 0 for a free one"
            ) from error
        self.port: int = self.server_address[1]
        self._accepting = threading.Thread(
            target=self._accept, name=f"loopback server on port {self.port}", daemon=True
        )
        self._accepting.start()

    def stop(self) -> None:
        """Close every connection, also during a response, and end all threads."""
        self.stopping.set()
        # A connection wakes the accepting thread, which would otherwise wait for its timeout.
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=_POLL_SECONDS).close()
        self._accepting.join()
        deadline = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            while thread.is_alive() and time.monotonic() < deadline:
                with self._lock:  # repeated, because a socket may not have been connected yet
                    for used in self._sockets:
                        _shut_down(used)
                thread.join(_POLL_SECONDS / 10)
        self.server_close()

    @contextlib.contextmanager
    def using(self, used: socket.socket) -> Iterator[None]:
        """Close a socket when the server is stopped."""
        with self._lock:
            self._sockets.add(used)
        if self.stopping.is_set():
            _shut_down(used)
        try:
            yield
        finally:
            with self._lock:
                self._sockets.discard(used)

    def process_request(self, request: object, client_address: object) -> None:
        """Serve a connection in a new thread."""
        thread = threading.Thread(
            target=self._serve, args=(request, client_address), daemon=True, name="connection"
        )
        thread.start()
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def _accept(self) -> None:
        while not self.stopping.is_set():
            self.handle_request()

    def _serve(self, request: socket.socket, client_address: object) -> None:
        try:
            with self.using(request):
                self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001 - as in socketserver: handle_error reports it
            self.handle_error(request, client_address)
        finally:
            self.shutdown_request(request)


def _shut_down(used: socket.socket) -> None:
    """Shut down a socket that another thread may be using, which wakes that thread."""
    # Not SSLSocket.shutdown, which would change the object while another thread reads.
    with contextlib.suppress(OSError):  # it may be closed already
        socket.socket.shutdown(used, socket.SHUT_RDWR)


class _ClientGoneError(ConnectionError): ...


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # each write is sent at once
    server: "_ProxyServer"

    def _handle(self) -> None:
        length = self.headers.get("content-length", "0")
        if not self.path.startswith("/") or self.command == "CONNECT":
            self._refuse(400, _USE_AS_BASE_URL)
        elif "websocket" in self.headers.get("upgrade", "").lower():
            self._refuse(501, "this proxy does not support WebSockets")
        elif not (length.isascii() and length.isdigit()):
            self._refuse(400, "the content-length is not a number")
        else:
            self.server.pass_on(self)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Serve all HTTP methods: http.server calls ``do_METHOD``."""
        if name.startswith("do_"):
            return self._handle
        raise AttributeError(name)

    def _refuse(self, status: int, message: str) -> None:
        self.close_connection = True
        _send_error(self, status, message)

    @property
    def is_chunked(self) -> bool:
        return "transfer-encoding" in self.headers

    def request_body(self) -> Iterator[bytes]:
        if self.is_chunked:
            while (size := self._chunk_size()) > 0:
                yield from self._read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass  # ignore trailers
        else:
            yield from self._read(int(self.headers.get("content-length", "0")))

    def _chunk_size(self) -> int:
        try:
            return int(self.rfile.readline(100).partition(b";")[0], 16)
        except ValueError:
            raise _ClientGoneError from None

    def _read(self, length: int) -> Iterator[bytes]:
        while length > 0:
            piece = self.rfile.read1(min(length, _CHUNK_BYTES))
            if not piece:
                raise _ClientGoneError
            length -= len(piece)
            yield piece

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, because a request line may contain a key."""


class _ProxyServer(LoopbackServer):
    def __init__(self, port: int, pass_on: Callable[[_Handler], None]) -> None:
        self.pass_on = pass_on
        super().__init__(port, _Handler)


class _Reply:
    """Sends the provider's response to the client, with the same framing where possible."""

    def __init__(self, handler: _Handler, response: HTTPResponse) -> None:
        self._handler = handler
        self._response = response
        has_body = handler.command != "HEAD" and response.status not in (204, 304)
        self._has_no_length = has_body and response.length is None
        is_old = handler.request_version == "HTTP/1.0"
        self._is_chunked = self._has_no_length and not is_old

    def begin(self) -> None:
        handler, response = self._handler, self._response
        left_out = {*_HOP_BY_HOP, "content-length"} if self._has_no_length else _HOP_BY_HOP
        handler.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in left_out:
                handler.send_header(name, " ".join(value.splitlines()))
        if self._is_chunked:
            handler.send_header("transfer-encoding", "chunked")
        elif self._has_no_length:
            handler.close_connection = True
            handler.send_header("connection", "close")
        handler.end_headers()

    def write(self, chunk: bytes) -> None:
        self._handler.wfile.write(_in_chunk(chunk) if self._is_chunked else chunk)

    def end(self, ending: Ending) -> None:
        if ending == "orderly":
            if self._is_chunked:
                self._handler.wfile.write(b"0\r\n\r\n")
            return
        self._handler.close_connection = True
        if self._has_no_length and not self._is_chunked:
            # Closing the connection would mark the end of this body, so reset it.
            reset = struct.pack("ii", 1, 0)
            self._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            self._handler.connection.close()


def _send_error(handler: _Handler, status: int, message: str) -> None:
    """Send an error in the format of providers, which their clients can show."""
    error = {"type": "proxy_error", "message": f"argstream record: {message}"}
    body = json.dumps({"type": "error", "error": error}).encode()
    handler.send_response_only(status)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def _in_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class _HangUpWatch:
    """Closes the provider's connection when a waiting client disconnects.

    Otherwise the proxy would notice only at the next bytes, and a model may think for minutes.
    """

    def __init__(self, client: socket.socket, upstream: socket.socket) -> None:
        self._client = client
        self._upstream = upstream
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="hang-up watch")
        self.has_ended = False  # the client disconnected and the provider's connection was closed

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        with _Selector() as selector:
            selector.register(self._client, selectors.EVENT_READ)
            while not self._is_over.is_set():
                if not selector.select(_HANG_UP_SECONDS):
                    continue
                # Data that is not the end is the next request. The client still waits for this one.
                if self._has_hung_up() and not self._is_over.wait(_GRACE_SECONDS):
                    self.has_ended = True
                    _shut_down(self._upstream)
                return

    def _has_hung_up(self) -> bool:
        try:
            return self._client.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True


@dataclass(frozen=True)
class _Proxy:
    upstream: Upstream
    files: NumberedFiles
    secrets: Collection[str]
    with_request: bool
    report: Callable[[Exchange], None]  # called when an exchange is over


class _NoResponseError(Exception):
    """The provider sent no response."""


class _Forwarding:
    """An exchange, from the head of the request to the end of the response."""

    def __init__(self, handler: _Handler, proxy: _Proxy) -> None:
        self._handler = handler
        self._proxy = proxy
        self._started = time.monotonic()
        self._bytes = 0
        sent = secrets_of_request(handler.headers.items(), handler.path)
        self._secrets = sent | set(proxy.secrets)
        self._redactor = Redactor(self._secrets)
        self._path = harmless_path(handler.path.partition("?")[0], self._redactor)
        self._request_chunks = handler.request_body()
        is_readable = "content-encoding" not in handler.headers
        self._request_body: bytearray | None = bytearray() if is_readable else None

    def run(self) -> None:
        handler = self._handler
        try:
            with (
                contextlib.ExitStack() as used,
                contextlib.closing(self._connect(used)) as provider,
            ):
                self._send_request(provider)
                self._find_secrets_in_body()
                with _HangUpWatch(handler.connection, provider.sock) as watch:
                    response = self._wait_for_response(provider, watch)
                    with contextlib.closing(response):
                        self._pass_response(response, watch)
        except _NoResponseError as error:
            handler.close_connection = True
            problem = _STOPPED if handler.server.stopping.is_set() else str(error)
            with contextlib.suppress(OSError):
                for _ in self._request_chunks:
                    pass  # closing with unread data would reset the connection
                _send_error(handler, 502, problem)
            self._report(502, "cut", None, problem)
        except _ClientGoneError:
            handler.close_connection = True
            self._report(499, "aborted", None, f"{_DISCONNECTED} before the response started")

    def _connect(self, used: contextlib.ExitStack) -> HTTPConnection:
        server = self._handler.server
        try:
            return self._proxy.upstream.connect(lambda one: used.enter_context(server.using(one)))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise _NoResponseError(f"cannot reach {self._proxy.upstream.url}: {reason}") from None

    def _send_request(self, connection: HTTPConnection) -> None:
        handler = self._handler
        try:
            self._send_head(connection)
        except (HTTPException, OSError, ValueError) as error:
            raise self._no_response(error) from None
        for piece in self._request_chunks:
            self._keep(piece)
            try:
                connection.send(_in_chunk(piece) if handler.is_chunked else piece)
            except OSError:  # the provider stopped reading, and may have sent an error
                handler.close_connection = True
                return
        if handler.is_chunked:
            with contextlib.suppress(OSError):
                connection.send(b"0\r\n\r\n")

    def _send_head(self, connection: HTTPConnection) -> None:
        handler, upstream = self._handler, self._proxy.upstream
        target = upstream.path + handler.path
        connection.putrequest(handler.command, target, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", upstream.netloc)
        connection.putheader("Accept-Encoding", "identity")  # for readable recordings
        named = handler.headers.get("connection", "").lower().replace(",", " ").split()
        left_out = {*_HOP_BY_HOP, *named, "host", "accept-encoding", "expect"}
        if handler.is_chunked:
            left_out.add("content-length")
        for name, value in handler.headers.items():
            if name.lower() not in left_out:
                connection.putheader(name, value)
        if handler.is_chunked:
            connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()

    def _keep(self, piece: bytes) -> None:
        if self._request_body is not None:
            self._request_body += piece
            if len(self._request_body) > _MAX_REQUEST_BYTES:
                self._request_body = None

    def _find_secrets_in_body(self) -> None:
        found = secrets_of_body(self._request_body or b"") - self._secrets
        if found:
            self._secrets |= found
            self._redactor = Redactor(self._secrets)
            self._path = self._redactor.redacted(self._path)

    def _wait_for_response(self, connection: HTTPConnection, watch: _HangUpWatch) -> HTTPResponse:
        try:
            response = connection.getresponse()
            while 100 < response.status < 200 and response.status != _SWITCHING_PROTOCOLS:
                response.headers = None  # type: ignore[assignment] # skip interim responses
                response.begin()
        except (HTTPException, OSError, ValueError) as error:
            if watch.has_ended:
                raise _ClientGoneError from None
            raise self._no_response(error) from None
        if response.status == _SWITCHING_PROTOCOLS:
            url = self._proxy.upstream.url
            raise _NoResponseError(f"{url} switched protocols (101). The proxy supports only HTTP")
        return response

    def _no_response(self, error: Exception) -> _NoResponseError:
        # Without the error's message, which may contain the URL and so a key.
        name = type(error).__name__
        return _NoResponseError(f"{self._proxy.upstream.url} sent no response ({name})")

    def _pass_response(self, response: HTTPResponse, watch: _HangUpWatch) -> None:
        recorder, problem = self._open_recorder(response)
        reply = _Reply(self._handler, response)
        marks_its_end = response.chunked or response.length is not None
        ending, reason = self._pass_body(response, reply, recorder)
        if ending == "cut" or not marks_its_end:
            if watch.has_ended:
                ending, reason = "aborted", _DISCONNECTED
            elif self._handler.server.stopping.is_set():
                ending, reason = "aborted", _STOPPED
        if recorder is not None:
            recorder.close(ending, reason)
            problem = recorder.problem
        with contextlib.suppress(OSError):  # the body has been passed on already
            reply.end(ending)
        file = None if recorder is None else recorder.file
        removed = 0 if recorder is None else recorder.removed
        self._report(response.status, ending, file, problem or reason, removed)

    def _pass_body(
        self, response: HTTPResponse, reply: _Reply, recorder: ResponseRecorder | None
    ) -> tuple[Ending, str]:
        try:
            reply.begin()
        except OSError:
            return "aborted", _DISCONNECTED
        while True:
            try:
                chunk = response.read1(_CHUNK_BYTES)
            except (HTTPException, OSError):
                return "cut", _BROKE_OFF
            if not chunk:
                return ("cut", _BROKE_OFF) if response.length else ("orderly", "")
            self._bytes += len(chunk)
            if recorder is not None:
                recorder.write(chunk)
                if response.length == 0:  # complete the file before the client has the last byte
                    recorder.close("orderly", "")
            try:
                reply.write(chunk)
            except OSError:
                return "aborted", _DISCONNECTED

    def _open_recorder(self, response: HTTPResponse) -> tuple[ResponseRecorder | None, str]:
        encoding = (response.getheader("content-encoding") or "").strip().lower()
        if not is_readable_encoding(encoding):
            return None, f"not recorded: the response is compressed with {encoding}"
        content_type = response.getheader("content-type") or ""
        if _RETURNS_KEYS.search(self._path) and "event-stream" not in content_type:
            return None, "not recorded: the response may contain a key"
        headers = harmless_headers(response.getheaders(), RESPONSE_HEADERS, self._redactor)
        request, head = self._request(), Response(response.status, headers)
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
                return None, f"not recorded: {error.strerror}"
            return ResponseRecorder(recorder, file, encoding), ""

    def _request(self) -> Request:
        handler = self._handler
        kept, body = self._request_body, None
        if self._proxy.with_request and kept is not None and len(kept) <= _MAX_RECORDED_BYTES:
            body = self._redactor.redacted(kept.decode(errors="replace"))
        return Request(
            handler.command,
            harmless_url(self._proxy.upstream.url + handler.path, self._redactor),
            harmless_headers(handler.headers.items(), REQUEST_HEADERS, self._redactor),
            body,
        )

    def _report(
        self, status: int, ending: Ending, file: Path | None, problem: str, removed: int = 0
    ) -> None:
        self._proxy.report(
            Exchange(
                method=self._handler.command,
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
