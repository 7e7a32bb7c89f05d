"""A stream of what was written before, such as server-sent events: what is left is to send it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Final, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["EventStream", "Source"]

_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
_STALLED: Final = 60.0
_LOOKS: Final = 4
"""How often it is looked, in that time, whether somebody reads."""


class Source(Protocol):
    """What there is to send: a ``Viewer`` of a run, for one."""

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """Give it, a piece at a time."""

    def close(self) -> None:
        """Let go of what it holds."""


class EventStream(Response):
    """Sends a viewer what he watches, until it ends or he goes away."""

    def __init__(
        self,
        viewer: Source,
        headers: Mapping[str, str] | None = None,
        closed: Callable[[], None] | None = None,
        *,
        stalled_seconds: float = _STALLED,
    ) -> None:
        """Send what the viewer watches; ``closed`` is called when that is over.

        Whose connection takes nothing for ``stalled_seconds`` is not waited for any longer.
        """
        self.status_code = 200
        self.background = None
        self._viewer = viewer
        self._closed = closed
        self._stalled_seconds = stalled_seconds
        self._since: float | None = None  # when that was handed over which is not taken yet
        self.init_headers({**_HEADERS, **(headers or {})})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            if scope["method"] == "HEAD":
                await self._send_head(send)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await self._watch(scope, receive, send)
        finally:
            self.close()

    def close(self) -> None:
        """Watch no more: for who made it and cannot send it."""
        self._viewer.close()
        if self._closed is not None:
            self._closed()

    async def _watch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until all is sent, or nobody takes it."""
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_gone(receive))
        tasks = {sending, leaving}
        look = self._stalled_seconds / _LOOKS
        try:
            while not (sending.done() or leaving.done() or self._is_stalled()):
                await asyncio.wait(tasks, timeout=look, return_when=asyncio.FIRST_COMPLETED)
            if self._is_stalled():
                _abort(scope)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if not sending.cancelled():
            sending.result()

    def _is_stalled(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self._since is not None and now - self._since > self._stalled_seconds

    async def _send(self, send: Send) -> None:
        now = asyncio.get_running_loop().time
        try:
            self._since = now()
            await self._send_head(send)
            self._since = None
            async with aclosing(self._viewer.pieces()) as pieces:
                async for piece in pieces:
                    self._since = now()
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    self._since = None
            self._since = now()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:  # which is how some servers say that nobody is there any more
            return

    async def _send_head(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _abort(scope: Scope) -> None:
    """End a connection whose other side does not read: it would wait for that otherwise."""
    abort = scope.get("extensions", {}).get("argstream.abort")
    if abort is not None:
        abort()
