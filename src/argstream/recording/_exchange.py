"""One request and its answer, passed on while they come, and the answer recorded.

A chunk is written down and goes on at once. What happens on one side is made to happen on the
other: if the provider breaks off, the client sees that, and if the client hangs up, the provider is
told.
"""

import contextlib
import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Final

from argstream.recording._client_side import (
    HOP_BY_HOP,
    ClientGone,
    Handler,
    Reply,
    in_chunk,
    send_error,
)
from argstream.recording._hang_up import HangUpWatch
from argstream.recording._numbered_files import NumberedFiles
from argstream.recording._redaction import (
    REQUEST_HEADERS,
    RESPONSE_HEADERS,
    Redactor,
    harmless_headers,
    harmless_path,
    harmless_url,
)
from argstream.recording._secrets import secrets_of_body, secrets_of_request
from argstream.recording._tape import Tape, is_readable_encoding
from argstream.recording._upstream import Upstream
from argstream.recording.format import Ending, Request, Response
from argstream.recording.writer import Recorder

__all__ = ["Exchange", "Passing", "Proxy"]

_PIECE: Final = 64 * 1024
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


@dataclass(frozen=True)
class Exchange:
    """What has passed through a proxy, for the person who watches. It holds no key."""

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


@dataclass(frozen=True)
class Proxy:
    """What an exchange has to know of the proxy that it passes through."""

    upstream: Upstream
    files: NumberedFiles
    secrets: Collection[str]
    with_request: bool
    tell: Callable[[Exchange], None]
    """Says that an exchange is over."""


class _NoAnswer(Exception):  # noqa: N818 - it names what happened
    """The provider gave none; the message says why."""


class Passing:
    """An exchange, from the head of the request to the end of the answer."""

    def __init__(self, handler: Handler, proxy: Proxy) -> None:
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
        """Pass everything on."""
        handler = self._handler
        try:
            with (
                contextlib.ExitStack() as used,
                contextlib.closing(self._connect(used)) as provider,
            ):
                self._send_request(provider)
                self._find_secrets_in_body()
                with HangUpWatch(handler.connection, provider.sock) as watch:
                    response = self._wait(provider, watch)
                    with contextlib.closing(response):
                        self._pass_answer(response, watch)
        except _NoAnswer as error:
            handler.close_connection = True
            problem = _STOPPED if handler.server.stopping.is_set() else str(error)
            with contextlib.suppress(OSError):
                for _ in self._coming:
                    pass  # who closes while something is left to be read takes back what was said
                send_error(handler, 502, problem)
            self._tell(502, "cut", None, problem)
        except ClientGone:
            handler.close_connection = True
            self._tell(499, "aborted", None, f"{_HUNG_UP} before there was an answer")

    # The request

    def _connect(self, used: contextlib.ExitStack) -> HTTPConnection:
        server = self._handler.server
        try:
            return self._proxy.upstream.connect(lambda one: used.enter_context(server.using(one)))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise _NoAnswer(f"cannot reach {self._proxy.upstream.url}: {reason}") from None

    def _send_request(self, connection: HTTPConnection) -> None:
        handler = self._handler
        try:
            self._send_head(connection)
        except (HTTPException, OSError, ValueError) as error:
            raise self._no_answer(error) from None
        for piece in self._coming:
            self._keep(piece)
            try:
                connection.send(in_chunk(piece) if handler.is_in_chunks else piece)
            except OSError:  # it wants no more of it, and has perhaps said why
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
        left_out = {*HOP_BY_HOP, *named, "host", "accept-encoding", "expect"}
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

    # The answer

    def _wait(self, connection: HTTPConnection, watch: HangUpWatch) -> HTTPResponse:
        try:
            response = connection.getresponse()
            while 100 < response.status < 200 and response.status != _SWITCHING_PROTOCOLS:
                response.headers = None  # type: ignore[assignment] # not yet the answer: read on
                response.begin()
        except (HTTPException, OSError, ValueError) as error:
            if watch.has_ended:
                raise ClientGone from None
            raise self._no_answer(error) from None
        if response.status == _SWITCHING_PROTOCOLS:
            raise _NoAnswer(f"{self._proxy.upstream.url} switches to another protocol")
        return response

    def _no_answer(self, error: Exception) -> _NoAnswer:
        # Not its words: they may have the URL in them, and that may have a key.
        return _NoAnswer(f"{self._proxy.upstream.url} gave no answer ({type(error).__name__})")

    def _pass_answer(self, response: HTTPResponse, watch: HangUpWatch) -> None:
        tape, problem = self._open_tape(response)
        reply = Reply(self._handler, response)
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
        self, response: HTTPResponse, reply: Reply, tape: Tape | None
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
                if response.length == 0:  # who has all of it shall find all of it recorded
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
                continue  # somebody else writes here too
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
