"""A stream of server-sent events that were written before: what is left is to send them."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from argstream.server.channels import Viewer

__all__ = ["EventStream"]

_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
_STALLED: Final = 60.0
"""How long one may take to read what was sent, in seconds, before his connection is ended."""
_LOOK_AGAIN: Final = 20.0


class EventStream(Response):
    """Sends a viewer what he watches, until it ends or he goes away."""

    def __init__(
        self,
        viewer: Viewer,
        headers: Mapping[str, str] | None = None,
        closed: Callable[[], None] | None = None,
    ) -> None:
        """Send what the viewer watches; ``closed`` is called when that is over."""
        self.status_code = 200
        self.background = None
        self._viewer = viewer
        self._closed = closed
        self._since: float | None = None  # when that was handed over which is not taken yet
        self.init_headers({**_HEADERS, **(headers or {})})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_gone(receive))
        tasks = {sending, leaving}
        try:
            while not (sending.done() or leaving.done() or self._is_stalled()):
                await asyncio.wait(tasks, timeout=_LOOK_AGAIN, return_when=asyncio.FIRST_COMPLETED)
            if self._is_stalled():
                _abort(scope)
        finally:
            self.close()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if not sending.cancelled():
            sending.result()

    def close(self) -> None:
        """Watch no more: for who made it and cannot send it."""
        self._viewer.close()
        if self._closed is not None:
            self._closed()

    def _is_stalled(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self._since is not None and now - self._since > _STALLED

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        now = asyncio.get_running_loop().time
        async with aclosing(self._viewer.pieces()) as pieces:
            async for piece in pieces:
                self._since = now()
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                self._since = None
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _abort(scope: Scope) -> None:
    """End a connection whose other side does not read: it would wait for that otherwise."""
    abort = scope.get("extensions", {}).get("argstream.abort")
    if abort is not None:
        abort()
