"""A proxy in front of a provider: any client talks through it, and every answer is recorded.

::

    with RecordingProxy("https://api.anthropic.com", "recordings") as proxy:
        client = anthropic.Anthropic(base_url=proxy.url)
        ...

Each answer is a file of its own: requests run at once, and a file is what ``argstream watch``,
``argstream replay`` and the mock provider take. The client's key is passed on and never written.
It listens on the loopback interface only.
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
    Tape,
    harmless_headers,
    harmless_path,
    harmless_url,
    is_readable_encoding,
    secrets_of_body,
    secrets_of_request,
)

__all__ = ["Exchange", "LoopbackServer", "RecordingProxy", "Upstream"]


_CONNECT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 3.0
# A client may close when it has read the last event, before the end that follows it is passed on.
_GRACE_SECONDS: Final = 0.5
_HANG_UP_SECONDS: Final = 0.2
# Not one that has a descriptor of its own: there is a watch for each request.
_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)
_MOST_KEPT: Final = 64 * 1024 * 1024  # of a request
_MOST_RECORDED: Final = 8 * 1024 * 1024  # in JSON, up to six times as long, and a line has 64 MiB
_HUNG_UP: Final = "the client hung up"
_BROKE_OFF: Final = "the provider broke off its answer"
_STOPPED: Final = "the proxy was stopped"
_SWITCHING_PROTOCOLS: Final = 101
# How a path ends whose answers are keys, or may have some in them: of realtime APIs, short-lived
# ones for a browser. To count tokens is something else.
_GIVES_KEYS: Final = re.compile(
    "(?:account|credential|key|oauth2?|secret|session|(?<!count)(?<!count_)(?<!input_)token)s?/?$",
    re.IGNORECASE,
)
_HOP_BY_HOP: Final = frozenset(
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
"""Headers that are about a connection, and not about what is sent through it."""

_PIECE: Final = 64 * 1024
_USE_AS_BASE_URL: Final = "this is no forward proxy: use its address as the client's base URL"


@dataclass(frozen=True)
class Exchange:
    """What has passed through a proxy. It holds no key."""

    method: str
    path: str
    """Without the query."""
    status: int
    """Of the answer; 502 if there was none, 499 if the client did not wait for it."""
    bytes: int
    """Of the answer's body."""
    seconds: float
    ending: Ending
    file: Path | None
    """The recording; None if there is none, and then ``problem`` says why."""
    problem: str = ""
    removed: int = 0
    """How often a secret was taken out of the answer."""


class RecordingProxy:
    """Passes requests on to a provider, and writes each answer into a file of a directory.

    ``secrets`` are never written, besides the key that a request has. ``with_request`` writes the
    body of each request too: it holds prompts. ``on_exchange`` is called when an exchange is over,
    in the thread that passed it on.
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
        self.upstream = Upstream(upstream)
        self.directory = Path(directory)
        self._files = NumberedFiles(self.directory)
        self._proxy = _Proxy(
            self.upstream, self._files, frozenset(secrets), with_request, tell=self._tell
        )
        self._port = port
        self._on_exchange = on_exchange
        self._server: _ProxyServer | None = None
        self._lock = threading.Lock()  # for what follows: each connection has its thread
        self._exchanges: list[Exchange] = []

    def start(self) -> Self:
        """Begin to listen. ``with`` does it."""
        if self._server is not None:
            raise UsageError("RecordingProxy: it is running already; stop it first")
        self._files.prepare()
        self._server = _ProxyServer(
            self._port, lambda handler: _Passing(handler, self._proxy).run()
        )
        return self

    def stop(self) -> None:
        """Stop at once, also in the middle of an answer, whose recording then says so."""
        server = self._server
        if server is not None:
            server.stop()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address for clients, in place of the provider's."""
        if self._server is None:
            raise UsageError("RecordingProxy: it has no address until it runs; use `with`")
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def exchanges(self) -> list[Exchange]:
        """Every exchange that is over, in the order in which they ended."""
        with self._lock:
            return list(self._exchanges)

    def _tell(self, exchange: Exchange) -> None:
        with self._lock:
            self._exchanges.append(exchange)
        if self._on_exchange is not None:
            self._on_exchange(exchange)


class Upstream:
    """The address of a provider, http or https. Its path, if any, precedes all paths."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise UsageError("the proxy: this is no URL; write https://api.example.com") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                "the proxy stands before a provider: give its URL, such as https://api.example.com"
            )
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise UsageError(
                "the proxy: give the URL without a key, a query or a fragment; the client sends "
                "its key as always, and the proxy passes it on"
            )
        if not _can_be_asked_for(parts.hostname) or re.search("[^!-~]", parts.path):
            raise UsageError(
                "the proxy: there can be no host of this name, or no such path; write "
                "https://api.example.com"
            )
        self.is_secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = port or (443 if self.is_secure else 80)
        ascii_only = parts.netloc.isascii()
        self.netloc = parts.netloc if ascii_only else parts.netloc.encode("idna").decode()
        self.path = parts.path.rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc}{self.path}"

    @cached_property
    def _certificates(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def connect(self, use: Callable[[socket.socket], None]) -> http.client.HTTPConnection:
        """Open a connection. Once it is open it may be silent for as long as a model thinks.

        ``use`` is called with each socket before that waits for anything, so that another thread
        can end the wait.
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
        """Try one address after the other."""
        failure = OSError("it has no address")
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


def _can_be_asked_for(host: str) -> bool:
    """Return True if the name can be looked up, whatever the result."""
    try:
        host.encode("idna")
    except UnicodeError:  # a part of it is empty, or too long
        return False
    return re.fullmatch(r"[\w.:%-]+", host) is not None


class LoopbackServer(socketserver.TCPServer):
    """Listens on 127.0.0.1 until it is stopped."""

    # Not http.server's own server: that asks the name service for its name, which can take long.
    allow_reuse_address = sys.platform != "win32"  # there it would share a port that is taken
    request_queue_size = 128
    timeout = _POLL_SECONDS

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.stopping = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        try:
            super().__init__(("127.0.0.1", port), handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"cannot listen on port {port}: {reason}; choose another, or 0 for any free one"
            ) from error
        self.port: int = self.server_address[1]
        self._accepting = threading.Thread(
            target=self._accept, name=f"loopback server on port {self.port}", daemon=True
        )
        self._accepting.start()

    def stop(self) -> None:
        """Close every connection, also in the middle of an answer, and end all threads."""
        self.stopping.set()
        # A connection wakes the thread that accepts; otherwise it would wait for its timeout.
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=_POLL_SECONDS).close()
        self._accepting.join()
        with self._lock:
            for used in self._sockets:
                _shut_down(used)
        deadline = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
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
        """Serve a connection in a thread of its own."""
        thread = threading.Thread(
            target=self._serve, args=(request, client_address), daemon=True, name="connection"
        )
        thread.start()
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that went away: that is their right."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def _accept(self) -> None:
        while not self.stopping.is_set():
            self.handle_request()

    def _serve(self, request: socket.socket, client_address: object) -> None:
        try:
            with self.using(request):
                self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001 - as socketserver has it: shown by handle_error
            self.handle_error(request, client_address)
        finally:
            self.shutdown_request(request)


def _shut_down(used: socket.socket) -> None:
    """Shut down a socket that another thread may be using, which wakes that thread."""
    # Not the method of an SSL socket: that would change it under the hands of its reader.
    with contextlib.suppress(OSError):  # it may be gone already
        socket.socket.shutdown(used, socket.SHUT_RDWR)


class _ClientGoneError(ConnectionError): ...


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # each write leaves at once
    server: "_ProxyServer"

    def _handle(self) -> None:
        length = self.headers.get("content-length", "0")
        if not self.path.startswith("/") or self.command == "CONNECT":
            self._refuse(400, _USE_AS_BASE_URL)
        elif "websocket" in self.headers.get("upgrade", "").lower():
            self._refuse(501, "this proxy passes on HTTP, but no WebSockets")
        elif not (length.isascii() and length.isdigit()):
            self._refuse(400, "the content-length is no number")
        else:
            self.server.pass_on(self)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Serve any method: http.server looks for a function with its name."""
        if name.startswith("do_"):
            return self._handle
        raise AttributeError(name)

    def _refuse(self, status: int, message: str) -> None:
        self.close_connection = True
        _send_error(self, status, message)

    @property
    def is_in_chunks(self) -> bool:
        return "transfer-encoding" in self.headers

    def request_body(self) -> Iterator[bytes]:
        if self.is_in_chunks:
            while (size := self._chunk_size()) > 0:
                yield from self._read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass  # of trailers, nothing is wanted
        else:
            yield from self._read(int(self.headers.get("content-length", "0")))

    def _chunk_size(self) -> int:
        try:
            return int(self.rfile.readline(100).partition(b";")[0], 16)
        except ValueError:
            raise _ClientGoneError from None

    def _read(self, length: int) -> Iterator[bytes]:
        while length > 0:
            piece = self.rfile.read1(min(length, _PIECE))
            if not piece:
                raise _ClientGoneError
            length -= len(piece)
            yield piece

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a request line may have a key in it."""


class _ProxyServer(LoopbackServer):
    def __init__(self, port: int, pass_on: Callable[[_Handler], None]) -> None:
        self.pass_on = pass_on
        super().__init__(port, _Handler)


class _Reply:
    """The answer to the client: the provider's, framed as it was where that is possible."""

    def __init__(self, handler: _Handler, response: HTTPResponse) -> None:
        self._handler = handler
        self._response = response
        has_body = handler.command != "HEAD" and response.status not in (204, 304)
        self._has_no_length = has_body and response.length is None
        is_old = handler.request_version == "HTTP/1.0"
        self._is_in_chunks = self._has_no_length and not is_old

    def begin(self) -> None:
        handler, response = self._handler, self._response
        left_out = {*_HOP_BY_HOP, "content-length"} if self._has_no_length else _HOP_BY_HOP
        handler.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in left_out:
                handler.send_header(name, " ".join(value.splitlines()))
        if self._is_in_chunks:
            handler.send_header("transfer-encoding", "chunked")
        elif self._has_no_length:
            handler.close_connection = True
            handler.send_header("connection", "close")
        handler.end_headers()

    def write(self, chunk: bytes) -> None:
        self._handler.wfile.write(_in_chunk(chunk) if self._is_in_chunks else chunk)

    def end(self, ending: Ending) -> None:
        if ending == "orderly":
            if self._is_in_chunks:
                self._handler.wfile.write(b"0\r\n\r\n")
            return
        self._handler.close_connection = True
        if self._has_no_length and not self._is_in_chunks:
            # Only the connection tells where this body ends, and a reset is no orderly end.
            at_once = struct.pack("ii", 1, 0)
            self._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            self._handler.connection.close()


def _send_error(handler: _Handler, status: int, message: str) -> None:
    """Refuse a request, in a form that the clients of providers show to people."""
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
    """Watches a client that waits, and ends the provider's side when it goes away.

    Passing bytes on would show that only with the next of them, and a model may think long.
    """

    def __init__(self, client: socket.socket, upstream: socket.socket) -> None:
        self._client = client
        self._upstream = upstream
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="hang-up watch")
        self.has_ended = False  # whether the client went away, and the provider's side was ended

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
                # Or else it sends its next request already, so it still wants this answer.
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
    tell: Callable[[Exchange], None]  # called when an exchange is over


class _NoAnswerError(Exception):
    """The provider gave no answer. The message says why."""


class _Passing:
    """An exchange, from the head of the request to the end of the answer."""

    def __init__(self, handler: _Handler, proxy: _Proxy) -> None:
        self._handler = handler
        self._proxy = proxy
        self._started = time.monotonic()
        self._bytes = 0
        sent = secrets_of_request(handler.headers.items(), handler.path)
        self._secrets = sent | set(proxy.secrets)
        self._redactor = Redactor(self._secrets)
        self._path = harmless_path(handler.path.partition("?")[0], self._redactor)
        self._coming = handler.request_body()
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
                    response = self._wait(provider, watch)
                    with contextlib.closing(response):
                        self._pass_answer(response, watch)
        except _NoAnswerError as error:
            handler.close_connection = True
            problem = _STOPPED if handler.server.stopping.is_set() else str(error)
            with contextlib.suppress(OSError):
                for _ in self._coming:
                    pass  # closing with unread data would reset the connection and lose the answer
                _send_error(handler, 502, problem)
            self._tell(502, "cut", None, problem)
        except _ClientGoneError:
            handler.close_connection = True
            self._tell(499, "aborted", None, f"{_HUNG_UP} before there was an answer")

    def _connect(self, used: contextlib.ExitStack) -> HTTPConnection:
        server = self._handler.server
        try:
            return self._proxy.upstream.connect(lambda one: used.enter_context(server.using(one)))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise _NoAnswerError(f"cannot reach {self._proxy.upstream.url}: {reason}") from None

    def _send_request(self, connection: HTTPConnection) -> None:
        handler = self._handler
        try:
            self._send_head(connection)
        except (HTTPException, OSError, ValueError) as error:
            raise self._no_answer(error) from None
        for piece in self._coming:
            self._keep(piece)
            try:
                connection.send(_in_chunk(piece) if handler.is_in_chunks else piece)
            except OSError:  # the provider reads no more of it, and may have answered why
                handler.close_connection = True
                return
        if handler.is_in_chunks:
            with contextlib.suppress(OSError):
                connection.send(b"0\r\n\r\n")

    def _send_head(self, connection: HTTPConnection) -> None:
        handler, upstream = self._handler, self._proxy.upstream
        target = upstream.path + handler.path
        connection.putrequest(handler.command, target, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", upstream.netloc)
        connection.putheader("Accept-Encoding", "identity")  # so that what is recorded can be read
        named = handler.headers.get("connection", "").lower().replace(",", " ").split()
        left_out = {*_HOP_BY_HOP, *named, "host", "accept-encoding", "expect"}
        if handler.is_in_chunks:
            left_out.add("content-length")
        for name, value in handler.headers.items():
            if name.lower() not in left_out:
                connection.putheader(name, value)
        if handler.is_in_chunks:
            connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()

    def _keep(self, piece: bytes) -> None:
        if self._request_body is not None:
            self._request_body += piece
            if len(self._request_body) > _MOST_KEPT:
                self._request_body = None

    def _find_secrets_in_body(self) -> None:
        found = secrets_of_body(self._request_body or b"") - self._secrets
        if found:
            self._secrets |= found
            self._redactor = Redactor(self._secrets)
            self._path = self._redactor.redacted(self._path)

    def _wait(self, connection: HTTPConnection, watch: _HangUpWatch) -> HTTPResponse:
        try:
            response = connection.getresponse()
            while 100 < response.status < 200 and response.status != _SWITCHING_PROTOCOLS:
                response.headers = None  # type: ignore[assignment] # not yet the answer: read on
                response.begin()
        except (HTTPException, OSError, ValueError) as error:
            if watch.has_ended:
                raise _ClientGoneError from None
            raise self._no_answer(error) from None
        if response.status == _SWITCHING_PROTOCOLS:
            raise _NoAnswerError(f"{self._proxy.upstream.url} switches to another protocol")
        return response

    def _no_answer(self, error: Exception) -> _NoAnswerError:
        # Not its words: they may have the URL in them, and that may have a key.
        return _NoAnswerError(f"{self._proxy.upstream.url} gave no answer ({type(error).__name__})")

    def _pass_answer(self, response: HTTPResponse, watch: _HangUpWatch) -> None:
        tape, problem = self._open_tape(response)
        reply = _Reply(self._handler, response)
        tells_its_end = response.chunked or response.length is not None
        ending, reason = self._pass_body(response, reply, tape)
        if ending == "cut" or not tells_its_end:
            if watch.has_ended:
                ending, reason = "aborted", _HUNG_UP
            elif self._handler.server.stopping.is_set():
                ending, reason = "aborted", _STOPPED
        if tape is not None:
            tape.close(ending, reason)
            problem = tape.problem
        with contextlib.suppress(OSError):  # all that there was has been passed on
            reply.end(ending)
        file = None if tape is None else tape.file
        removed = 0 if tape is None else tape.removed
        self._tell(response.status, ending, file, problem or reason, removed)

    def _pass_body(
        self, response: HTTPResponse, reply: _Reply, tape: Tape | None
    ) -> tuple[Ending, str]:
        try:
            reply.begin()
        except OSError:
            return "aborted", _HUNG_UP
        while True:
            try:
                chunk = response.read1(_PIECE)
            except (HTTPException, OSError):
                return "cut", _BROKE_OFF
            if not chunk:
                return ("cut", _BROKE_OFF) if response.length else ("orderly", "")
            self._bytes += len(chunk)
            if tape is not None:
                tape.write(chunk)
                if response.length == 0:  # a client that has all of it finds all of it recorded
                    tape.close("orderly", "")
            try:
                reply.write(chunk)
            except OSError:
                return "aborted", _HUNG_UP

    def _open_tape(self, response: HTTPResponse) -> tuple[Tape | None, str]:
        encoding = (response.getheader("content-encoding") or "").strip().lower()
        if not is_readable_encoding(encoding):
            return None, f"not recorded: the answer is compressed with {encoding}"
        content_type = response.getheader("content-type") or ""
        if _GIVES_KEYS.search(self._path) and "event-stream" not in content_type:
            return None, "not recorded: an answer to this may be a key"
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
            return Tape(recorder, file, encoding), ""

    def _request(self) -> Request:
        handler = self._handler
        kept, body = self._request_body, None
        if self._proxy.with_request and kept is not None and len(kept) <= _MOST_RECORDED:
            body = self._redactor.redacted(kept.decode(errors="replace"))
        return Request(
            handler.command,
            harmless_url(self._proxy.upstream.url + handler.path, self._redactor),
            harmless_headers(handler.headers.items(), REQUEST_HEADERS, self._redactor),
            body,
        )

    def _tell(
        self, status: int, ending: Ending, file: Path | None, problem: str, removed: int = 0
    ) -> None:
        self._proxy.tell(
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
