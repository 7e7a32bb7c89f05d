"""One request and its answer, as bytes: opened, read with patience, closed at once.

An answer has begun when its first event has come and is no error. All that fails before is given as
``Unanswered``, so that it can be tried again; what fails later is raised.
"""

import re
from collections.abc import AsyncGenerator
from math import inf
from typing import Final

import anyio
import httpx2
from msgspec import Struct

from argstream.adapters import ProtocolName
from argstream.clients.http._error_bodies import MOST_BYTES
from argstream.clients.http._failures import (
    Asked,
    Unanswered,
    failed_at_once,
    not_a_stream,
    refused,
    unreachable,
)
from argstream.clients.http._opening import Opening
from argstream.clients.http._retries import told_wait
from argstream.clients.http._secrets import StreamCleaner
from argstream.errors import UsageError

__all__ = ["Answer", "Timeouts", "ask"]

_CONNECTION_ERRORS: Final = (httpx2.TransportError, httpx2.DecodingError, TimeoutError)
_PATIENCE_FOR_ERRORS: Final = 10.0  # seconds, for the body of an error
# With these an answer is over. Some servers then neither close the connection nor end the body, and
# some break it off: that is no failure any more.
_LAST_WORD: Final = re.compile(
    rb"[\r\n](?:data: ?\[DONE\]"
    rb"|event: ?(?:message_stop|response\.(?:completed|incomplete|failed)))\s"
)
_LONGEST_LAST_WORD: Final = 40
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_PATIENCE_AFTER: Final = 1.0


class Timeouts(Struct, frozen=True, kw_only=True):
    """How long a server is waited for, in seconds; None: for ever.

    Models that think may say nothing for minutes. Whatever comes counts as a sign of life, a ping
    or a comment as well.
    """

    connect: float | None = 10.0
    first_byte: float | None = 600.0
    """From the request to the first byte of the answer."""
    idle: float | None = 600.0
    """Between two pieces of the answer."""

    def __post_init__(self) -> None:
        for seconds in (self.connect, self.first_byte, self.idle):
            if seconds is not None and not seconds > 0:
                raise UsageError(f"Timeouts: give seconds, more than 0, or None, not {seconds!r}")

    def told(self, error: Exception, seconds: float | None) -> str:
        """Say how long was waited, if that is what an error says."""
        waited = self.connect if isinstance(error, httpx2.ConnectTimeout) else seconds
        return f"{waited:g} s" if waited is not None else "too long"


async def ask(  # noqa: PLR0913 - each of them is another thing
    client: httpx2.AsyncClient,
    request: httpx2.Request,
    asked: Asked,
    *,
    times: Timeouts,
    protocol: ProtocolName,
    now: float,
) -> "Answer | Unanswered":
    """Send a request, and wait until its answer has begun."""
    response: httpx2.Response | None = None
    patience = times.first_byte
    begun = False
    try:
        with anyio.fail_after(times.first_byte):
            # Never followed: the key would go to wherever a redirect leads.
            response = await client.send(request, stream=True, follow_redirects=False)
            asked = asked.hiding(response.request.headers)  # to which the client may have added
            chunks = response.aiter_bytes()
            chunk = await anext(chunks, None) if response.is_success else None
        if not response.is_success:
            body = await _error_body(chunks, times.idle)
            wait = told_wait(response.headers, now)
            return refused(asked, response.status_code, response.headers, body, wait)
        patience = times.idle
        opening = Opening(protocol)
        while chunk is not None and not opening.take(chunk):
            with anyio.fail_after(patience):
                chunk = await anext(chunks, None)
        if opening.is_blank:
            return not_a_stream(asked, b"nothing but white space", response.headers)
        if chunk is None and not opening.close():
            return not_a_stream(asked, opening.held, response.headers)
        if opening.failure is not None:
            return failed_at_once(asked, opening.failure, response.headers)
        begun = True
        return Answer(response, chunks, opening.held, asked, times)
    except _CONNECTION_ERRORS as error:
        return unreachable(asked, error, times.told(error, patience))
    finally:
        if response is not None and not begun:
            await _close(response)


async def _error_body(chunks: AsyncGenerator[bytes, None], patience: float | None) -> bytes:
    """Read the body of an error, not for ever; what comes of it is what can be told."""
    body = bytearray()
    try:
        with anyio.move_on_after(min(_PATIENCE_FOR_ERRORS, patience or inf)):
            async for chunk in chunks:
                body += chunk
                if len(body) > MOST_BYTES:
                    break
    except _CONNECTION_ERRORS:
        pass  # the status says enough
    return bytes(body)


async def _close(response: httpx2.Response) -> None:
    """Close the connection, also when whoever reads has been cancelled."""
    with anyio.CancelScope(shield=True):
        await response.aclose()


class Answer:
    """An answer that has begun."""

    def __init__(
        self,
        response: httpx2.Response,
        chunks: AsyncGenerator[bytes, None],
        head: bytes,
        asked: Asked,
        times: Timeouts,
    ) -> None:
        self._response = response
        self._chunks = chunks
        self._head = head
        self._asked = asked
        self._times = times
        self._tail = b"\n"  # an answer begins with a line
        self._is_over = False
        self._last_moment: float | None = None  # until when it may be closed, once it is whole

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Give its bytes as they come, without the key if it is in there."""
        cleaner = StreamCleaner(self._asked.secrets)
        chunk: bytes | None = self._head
        try:
            while chunk is not None:
                self._listen(chunk)
                if clean := cleaner.feed(chunk):
                    yield clean
                chunk = await self._next()
            if rest := cleaner.close():
                yield rest
        finally:
            await _close(self._response)

    async def _next(self) -> bytes | None:
        patience = self._times.idle
        if self._last_moment is not None:  # for all that follows, or pings would go on for ever
            patience = self._last_moment - anyio.current_time()
        try:
            with anyio.fail_after(patience):
                return await anext(self._chunks, None)
        except _CONNECTION_ERRORS as error:
            if self._is_over:
                return None
            told = self._times.told(error, patience)
            failure = unreachable(self._asked, error, told).failure
        raise failure  # not from the error, which knows the request and its headers

    def _listen(self, chunk: bytes) -> None:
        """Notice the last word, also if it comes in pieces."""
        heard = self._tail + chunk
        self._is_over = self._is_over or _LAST_WORD.search(heard) is not None
        self._tail = heard[-_LONGEST_LAST_WORD:]
        # The event of the last word may be long: it is to be whole.
        is_whole = self._is_over and self._tail.endswith(_EVENT_ENDS)
        if is_whole and self._last_moment is None:
            self._last_moment = anyio.current_time() + _PATIENCE_AFTER
