"""Serves an app with uvicorn: on loopback, or with a token. Shuts down gracefully.

There is no TLS. On other networks, put a proxy with HTTPS in front of it, and pass the proxy's
address in ``forwarded_from``. Forwarded headers from other addresses are ignored.
"""

import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self

import uvicorn
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from argstream.errors import UsageError
from argstream.server._limits import Limits
from argstream.server._security import Access, Problem, problem_response

if TYPE_CHECKING:
    from argstream.server.app import AgentServer

logger = logging.getLogger("argstream.server")

_SEND_BUFFER: Final = 128 * 1024
_BACKLOG: Final = 2048
_MAX_TRIES: Final = 20  # to find a port that is free for all addresses of a name

_Address = tuple[socket.AddressFamily, str]
_GC_THRESHOLDS: Final = (50_000, 20, 50)
_POLL_SECONDS: Final = 0.05  # between two checks whether all requests are done, at shutdown
_Handler = Callable[[int, FrameType | None], object]
_MAX_AHEAD: Final = 8
"""How many pipelined requests may wait on a connection."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_NO_LINGER: Final = struct.pack("ii", 1, 0)
_CLOSE: Final = {"connection": "close"}

_NO_ROOM: Final = Problem(
    503,
    "too-many-connections",
    "the server has too many connections (max_connections, or the limit of open files). Retry "
    "later",
    {"retry-after": "5", **_CLOSE},
)


def serve(
    app: "AgentServer",
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    forwarded_from: Sequence[str] = (),
    loopback_only: bool = False,
    before_start: Callable[[], None] | None = None,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve an app until SIGINT or SIGTERM. A second signal ends the process at once.

    ``before_start`` is called once the port is bound, before any request is read. If it raises, the
    port is released. ``on_listening`` is called with the address, such as
    ``http://127.0.0.1:8000``, when requests are accepted.

    Raise ``UsageError`` if the port is in use, or if other machines could reach the app and it has
    no token. With ``loopback_only``, other machines are refused even with a token.
    """
    serving = Serving(
        app, host=host, port=port, forwarded_from=forwarded_from, loopback_only=loopback_only
    )
    with contextlib.closing(serving), _collecting_seldom():
        if before_start is not None:
            before_start()
        serving.run(on_listening)


@contextlib.contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Collect reference cycles less often than by default.

    With a few hundred runs, garbage collection takes a sixth of the CPU time, and each collection
    blocks the event loop for a tenth of a second.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class Serving:
    """A server with a bound port. Connections wait until it runs.

    ``run()`` runs it in this thread, ``await serve()`` in the running event loop, and ``with`` in a
    thread until the block ends. Signals are handled only in the main thread.
    """

    def __init__(
        self,
        app: "AgentServer",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        forwarded_from: Sequence[str] = (),
        loopback_only: bool = False,
    ) -> None:
        """Bind the port; 0 is any free one.

        Without a token, or with ``loopback_only``, only loopback addresses are allowed.
        """
        if not isinstance(getattr(app, "access", None), Access):
            raise UsageError(
                f"serve() needs an AgentServer, not a {type(app).__name__}: "
                'serve(AgentServer(agent, token="…"))'
            )
        if app.access.token is None and app.access.hosts is None:
            raise UsageError(
                "with hosts=None and without a token, any website could send requests to this "
                "server. Pass token=… or hosts=…"
            )
        self._sockets = listen(host, port, only_loopback=loopback_only or app.access.token is None)
        self.host = host
        self.port: int = self._sockets[0].getsockname()[1]
        """The port that it listens on."""
        self._app = app
        self._server = _Server(_config(app, forwarded_from), app)
        self._running: Future[None] | None = None  # in a thread

    @property
    def url(self) -> str:
        """The address to reach it from this machine."""
        any_ipv4 = str(ip_address(socket.INADDR_ANY))
        host = {"": "127.0.0.1", any_ipv4: "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def run(self, on_listening: Callable[[str], None] | None = None) -> None:
        """Serve in an event loop of its own, until a signal or ``end()``."""
        factory = self._server.config.get_loop_factory()
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(self.serve(on_listening))

    async def serve(self, on_listening: Callable[[str], None] | None = None) -> None:
        """Serve in the running event loop, until a signal or ``end()``."""
        try:
            with self._server.capture_signals():
                async with self._app:
                    await self._server.run_until_stopped(self._sockets, self.url, on_listening)
        finally:
            self.close()

    def close(self) -> None:
        """Release the port, also of a server that was never started."""
        for listener in self._sockets:
            listener.close()

    def end(self) -> None:
        """Ask the server to end gracefully. Can be called from any thread."""
        self._server.should_exit = True

    def __enter__(self) -> Self:
        ready = threading.Event()
        threads = ThreadPoolExecutor(1, "serving")
        self._running = threads.submit(self.run, lambda _: ready.set())
        threads.shutdown(wait=False)
        self._running.add_done_callback(lambda _: ready.set())
        ready.wait()
        if self._running.done():
            self._running.result()  # raises why it could not start
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        if self._running is not None:
            self._running.result()


def _config(app: "AgentServer", forwarded_from: Sequence[str]) -> uvicorn.Config:
    limits = app.limits
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        interface="asgi3",
        lifespan="off",  # ``serve`` enters the app, so that its errors are raised there
        log_config=None,  # the program configures logging
        log_level="info",  # below it, uvicorn would log requests with their query
        access_log=False,
        server_header=False,
        proxy_headers=bool(forwarded_from),
        forwarded_allow_ips=list(forwarded_from),
        timeout_keep_alive=limits.keep_alive_seconds,  # type: ignore[arg-type] # for a timer
    )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, app: "AgentServer") -> None:
        super().__init__(config)
        self.server_state: Connections = Connections(app.limits)
        self._app = app
        self._limits = app.limits

    async def run_until_stopped(
        self, sockets: list[socket.socket], url: str, on_listening: Callable[[str], None] | None
    ) -> None:
        """Do what uvicorn's ``serve`` does, except for its lifespan and logging."""
        self.server_state.room = room_for(self._limits.max_connections)
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup(sockets)
        if on_listening is not None:
            on_listening(url)
        await self.main_loop()
        await self.shutdown(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, ask viewers to reconnect, then wait for the other requests."""
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        self._let_connections_end()
        try:
            await self._app.drain()
        except Exception:  # the shutdown continues
            logger.exception("not all viewers could be asked to reconnect")
        self._let_connections_end()
        try:
            async with asyncio.timeout(self._limits.grace_seconds):
                while self.server_state.tasks or self.server_state.connections:
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            logger.warning("%d requests were aborted at shutdown", len(self.server_state.tasks))
        await self._cut_off()

    def _let_connections_end(self) -> None:
        """Close idle connections. Others are closed after their response."""
        for connection in list(self.server_state.connections):
            connection.shutdown()

    async def _cut_off(self) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.hang_up()
        await asyncio.sleep(_POLL_SECONDS)  # handlers that notice the disconnect end by themselves
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End gracefully; at the second signal, at once. Acknowledged writes are in the store."""
        if self.should_exit:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self.should_exit = True


class Connections(ServerState):
    """All connections of a server, and those that are idle, oldest first."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self.limits = limits
        self.room = limits.max_connections
        self.idle: dict[Connection, None] = {}

    def make_room(self) -> None:
        """Close the connection that has been idle longest, if there are too many."""
        if self.are_too_many and len(self.idle) > 1:  # the newest one has just connected
            next(iter(self.idle)).hang_up()

    @property
    def are_too_many(self) -> bool:
        return len(self.connections) > self.room


class Connection(HttpToolsProtocol):
    """uvicorn's connection, with time limits and a bounded request head."""

    def __init__(
        self,
        config: Config,
        server_state: Connections,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.access_log = False  # it would show the query of each request
        self._app = self.app
        self._all = server_state
        self._limits = server_state.limits
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled_timer: asyncio.TimerHandle | None = None
        self._in_head = False
        self._is_lost = False
        self._unanswered: deque[RequestResponseCycle] = deque()
        # Bytes since the last complete head or body chunk: the parser may buffer all of them.
        self._unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the class above
        super().connection_made(transport)
        self._await_head()
        self._all.make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._head_received()
        self._cancel_stalled_timer()
        # uvicorn keeps its keep-alive timer when the peer has reset the connection.
        self._unset_keepalive_if_required()
        # uvicorn signals the disconnect to the last request only, not to the one being answered.
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._unread > self._limits.max_head_bytes:
            most = self._limits.max_head_bytes
            detail = f"the head of the request is longer than allowed (max_head_bytes={most})"
            self._refuse(Problem(431, "head-too-long", detail, _CLOSE))
        elif not self._unanswered:
            self._await_head()
        else:
            self._head_received()

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header. Trailers are ignored, because the request was already checked."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._unread = 0
        if len(self.pipeline) >= _MAX_AHEAD:
            raise ValueError("too many requests at once on a connection")  # becomes a 400
        # If the client does not read a response, only closing the connection ends it.
        extensions: Any = {"argstream.abort": self.hang_up}  # not defined by ASGI
        self.scope["extensions"] = extensions
        self.app = problem_response(_NO_ROOM) if self._all.are_too_many else self._app
        super().on_headers_complete()
        self._unanswered.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._unanswered.popleft()
        super().on_response_complete()
        if self.transport.is_closing():
            self._close_later()
        elif not self._unanswered:
            self._all.idle[self] = None

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that is idle, also one whose last response is not read."""
        super().timeout_keep_alive_handler()
        self._close_later()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled_timer is None:
            self._stalled_timer = self.loop.call_later(self._limits.stalled_seconds, self.hang_up)

    def resume_writing(self) -> None:
        self._cancel_stalled_timer()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse(Problem(400, "no-http", msg, _CLOSE))

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing. A request for an upgrade is answered like any other."""

    def hang_up(self) -> None:
        """Close the connection at once. Do nothing if it is lost already."""
        if self._is_lost:
            return
        self._head_received()
        self._cancel_stalled_timer()
        self.connections.discard(self)  # now, because the next connection is counted before the end
        connection = self.transport.get_extra_info("socket")
        if connection is not None:  # otherwise the kernel waits for a client that does not read
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def _refuse(self, problem: Problem) -> None:
        """Respond to a request that does not reach the app. Close if another response is open."""
        if self._unanswered:
            self.hang_up()
            return
        response = problem_response(problem)
        lines = [STATUS_LINE[response.status_code]]
        lines += [b"%s: %s\r\n" % header for header in response.raw_headers]
        self.transport.write(b"".join([*lines, b"\r\n", response.body]))
        self.transport.close()

    def _close_later(self) -> None:
        """Close the connection after the client had time to read the response."""
        if self._deadline is None and not self._is_lost:
            self._deadline = self.loop.call_later(self._limits.keep_alive_seconds, self.hang_up)

    def _cancel_stalled_timer(self) -> None:
        if self._stalled_timer is not None:
            self._stalled_timer.cancel()
            self._stalled_timer = None

    def _await_head(self) -> None:
        self._all.idle.setdefault(self)
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._limits.head_seconds, self.hang_up)

    def _head_received(self) -> None:
        self._all.idle.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def listen(host: str, port: int, *, only_loopback: bool) -> list[socket.socket]:
    """Listen on all addresses of a host, on the same port; 0 is any free one.

    The name is resolved once, so that the checked addresses are those that are used.
    """
    if not 0 <= port <= 65535:
        raise UsageError(f"port must be from 0 to 65535, not {port}. 0 is any free port")
    addresses = _resolve(host)
    if only_loopback and not all(ip_address(address).is_loopback for _, address in addresses):
        raise UsageError(
            f"{host or 'all addresses'!r} is reachable from other machines. Set a token with "
            "ARGSTREAM_TOKEN or --token (Python: token=…), or listen on 127.0.0.1"
        )
    for _ in range(_MAX_TRIES if port == 0 else 1):
        try:
            sockets = _listen_on(addresses, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                continue  # port 0 may be free on one address and taken on another
            reason = os.strerror(error.errno or 0)
            raise UsageError(f"cannot listen on port {port} of {host!r}: {reason}") from None
        if not sockets:
            raise UsageError(f"this machine has no address {host!r} to listen on")
        return sockets
    raise UsageError(
        f"port {port} of {host!r} is already in use. Choose another, or 0 for any free port"
    )


def room_for(connections: int) -> int:
    """Raise the limit of open files, and return the number of connections that it allows.

    A quarter is left for the store, the providers and the tools.
    """
    if os.name != "posix":
        return connections
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS reports a hard limit that it does not allow. Then the limit stays as it is.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return connections if soft == resource.RLIM_INFINITY else min(connections, soft - soft // 4)


def _resolve(host: str) -> list[_Address]:
    try:
        found = socket.getaddrinfo(
            host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot resolve host {host!r}: {reason}") from None
    return list(dict.fromkeys((family, str(address[0])) for family, *_, address in found))


def _listen_on(addresses: list[_Address], port: int) -> list[socket.socket]:
    """Listen on each address that this machine has, on the same port."""
    sockets: list[socket.socket] = []
    with contextlib.ExitStack() as opened:
        for family, address in addresses:
            taken = sockets[0].getsockname()[1] if sockets else port
            try:
                # It listens at once: two sockets can be bound to a port if neither listens.
                listener = socket.create_server((address, taken), family=family, backlog=_BACKLOG)
            except OSError as error:
                if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # without IPv6
                    continue
                raise
            sockets.append(opened.enter_context(listener))
            # By default the kernel buffers megabytes for a client that does not read. A thousand of
            # them would need gigabytes.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            listener.settimeout(0)
        opened.pop_all()
    return sockets


class ShutdownSignals:
    """Calls a function in the event loop at SIGINT and SIGTERM."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        # By signal: the new handler, and the one before.
        self._handlers: dict[int, tuple[_Handler, _Handler]] = {}

    def listen(self) -> None:
        """Add signal handlers, if the event loop runs in the main thread."""
        if self._handlers or threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            before = signal.getsignal(number)
            if callable(before):  # otherwise the signal ends the process
                handler = partial(self._handle, loop, before)
                self._handlers[number] = handler, before
                signal.signal(number, handler)

    def _handle(
        self,
        loop: asyncio.AbstractEventLoop,
        before: _Handler,
        number: int,
        frame: FrameType | None,
    ) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._callback)
        before(number, frame)

    def forget(self) -> None:
        for number, (handler, before) in self._handlers.items():
            if signal.getsignal(number) is handler:  # otherwise another handler has replaced it
                signal.signal(number, before)
        self._handlers.clear()
