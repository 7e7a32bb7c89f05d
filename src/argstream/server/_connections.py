"""A connection of uvicorn's that is not waited for: its heads are bounded in time and size.

uvicorn waits for ever for the head of a request, and keeps whatever comes of it. Here a head must
be there within some seconds, and be no longer than some bytes; so must be what comes after a body.
Nor is anybody waited for who does not take what he is sent. Where connections are short, the one
that has been idle longest makes room for the next.
"""

import asyncio
import socket
import struct
from collections import deque
from typing import Any, Final

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from argstream.server.limits import Limits
from argstream.server.problems import Problem, problem_response

__all__ = ["Connection", "Connections"]

_MAX_AHEAD: Final = 8
"""How many requests may wait on a connection for the one before them to be answered."""

_NOTHING_LINGERS: Final = struct.pack("ii", 1, 0)
_HANG_UP: Final = {"connection": "close"}

_NO_ROOM: Final = Problem(
    503,
    "too-many-connections",
    "this server has as many connections as it takes (max_connections, or what the system lets it "
    "open): come again later",
    {"retry-after": "5", **_HANG_UP},
)


async def _no_room(scope: Any, receive: Any, send: Any) -> None:
    await problem_response(_NO_ROOM)(scope, receive, send)


class Connections(ServerState):
    """All connections of a server; those that wait for a request, by how long they have."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self.limits = limits
        self.room = limits.max_connections
        self.idle: dict[Connection, None] = {}

    def make_room(self) -> None:
        """Close the one that has been idle longest, if there are too many."""
        if self.are_too_many and len(self.idle) > 1:  # one of them has just come
            next(iter(self.idle)).hang_up()

    @property
    def are_too_many(self) -> bool:
        """Tell whether there are more connections than there is room for."""
        return len(self.connections) > self.room


class Connection(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: Connections,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.access_log = False  # even if somebody listens: it would show the query of each request
        self._app = self.app
        self._all = server_state
        self._limits = server_state.limits
        self._deadline: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._in_head = False
        self._is_lost = False
        self._unanswered: deque[RequestResponseCycle] = deque()
        # Bytes that have made neither a head nor a piece of a body: the parser may hold them all.
        self._unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the class above
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._await_head()
        self._all.make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timers: the socket is closed, so there is nothing left to end."""
        self._is_lost = True
        self._have_head()
        self._is_taken()
        # uvicorn keeps its keep-alive timer when the peer has reset the connection.
        self._unset_keepalive_if_required()
        # uvicorn tells only the last request that nobody is there, not the one being answered.
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; if it is not yet a whole head, the time for that runs on."""
        self._unread += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._unread > self._limits.max_head_bytes:
            most = self._limits.max_head_bytes
            detail = f"the head of a request has at most {most} bytes (max_head_bytes={most})"
            self._refuse(Problem(431, "head-too-long", detail, _HANG_UP))
        elif not self._unanswered:
            self._await_head()
        else:
            self._have_head()

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header of the head; those after a body come too late to mean anything."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Have a whole head."""
        self._in_head = False
        self._unread = 0
        if len(self.pipeline) >= _MAX_AHEAD:
            raise ValueError("too many requests at once on a connection")  # makes a 400
        # For an answer that nobody reads: only the connection itself can end that.
        self.scope["extensions"] = {"argstream.abort": self.hang_up}  # type: ignore[dict-item] # ours
        self.app = _no_room if self._all.are_too_many else self._app
        super().on_headers_complete()
        self._unanswered.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Have a piece of a body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Have the whole body."""
        self._unread = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Be idle again, unless the next request is here already."""
        self._unanswered.popleft()
        super().on_response_complete()
        if self.transport.is_closing():
            self._hang_up_later()
        elif not self._unanswered:
            self._all.idle[self] = None

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that is not used; also one whose last answer is not taken."""
        super().timeout_keep_alive_handler()
        self._hang_up_later()

    def pause_writing(self) -> None:
        """Have sent more than is taken: the time for that runs."""
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(self._limits.stalled_seconds, self.hang_up)

    def resume_writing(self) -> None:
        """Be read again."""
        self._is_taken()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._refuse(Problem(400, "no-http", msg, _HANG_UP))

    def _unsupported_upgrade_warning(self) -> None:
        """Answer as if nothing else had been asked for: there are no sockets, nor need there be."""

    def hang_up(self) -> None:
        """Close the connection at once. Does nothing if it is lost already."""
        if self._is_lost:
            return
        self._have_head()
        self._is_taken()
        self.connections.discard(self)  # at once: the next to come is counted before it is gone
        connection = self.transport.get_extra_info("socket")
        if connection is not None:  # the kernel, too, would wait for one who does not read
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOTHING_LINGERS)
        self.transport.abort()

    def _refuse(self, problem: Problem) -> None:
        """Answer what never gets to the app; never into the midst of another answer."""
        if self._unanswered:
            self.hang_up()
            return
        response = problem_response(problem)
        lines = [STATUS_LINE[response.status_code]]
        lines += [b"%s: %s\r\n" % header for header in response.raw_headers]
        self.transport.write(b"".join([*lines, b"\r\n", response.body]))
        self.transport.close()

    def _hang_up_later(self) -> None:
        """Give the other side time to read what was sent, but not for ever."""
        if self._deadline is None and not self._is_lost:
            self._deadline = self.loop.call_later(self._limits.keep_alive_seconds, self.hang_up)

    def _is_taken(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _await_head(self) -> None:
        self._all.idle.setdefault(self)
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._limits.head_seconds, self.hang_up)

    def _have_head(self) -> None:
        self._all.idle.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
