"""Serving an app with uvicorn: on loopback, or with a token; and ending so that nothing is lost.

TLS is not its business: where others can listen, put a proxy before it that speaks https, and say
in ``forwarded_from`` from where it asks; nothing that is forwarded is trusted otherwise.
"""

import asyncio
import contextlib
import gc
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, TracebackType
from typing import Final, Protocol, Self

import uvicorn
from starlette.types import Receive, Scope, Send

from argstream.errors import UsageError
from argstream.server._connections import Connection, Connections
from argstream.server._failures import logger
from argstream.server._listening import listen, room_for
from argstream.server.doors import Doors
from argstream.server.limits import Limits

__all__ = ["Servable", "Serving", "serve"]

_COLLECTIONS: Final = (50_000, 20, 50)
_LOOK: Final = 0.05  # how often it is looked whether all is done, at the end


class Servable(Protocol):
    """An ASGI app that can be served: one that can be entered, and told that the end is near."""

    @property
    def doors(self) -> Doors:
        """What it lets in."""

    @property
    def limits(self) -> Limits:
        """How much it takes on."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

    async def __aenter__(self) -> object:
        """Begin: requests come after that."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> object:
        """End: no more requests come."""

    async def drain(self) -> None:
        """Tell all who watch to come again, and leave the runs to others."""


def serve(  # noqa: PLR0913 - by name
    app: Servable,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    forwarded_from: Sequence[str] = (),
    loopback_only: bool = False,
    before_start: Callable[[], None] | None = None,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve an app until SIGINT or SIGTERM; a second one ends the process at once.

    ``before_start`` is called once the port is bound, before any request is read. If it raises, the
    port is released. ``on_listening`` is called with the address, such as
    ``http://127.0.0.1:8000``, when requests can come.

    Raise ``UsageError`` if the app cannot be served: the port is taken, or other machines could
    reach it and it has no token. With ``loopback_only``, a token does not change that.
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
    """Have garbage that goes in circles collected less often than by default.

    With some hundred runs there is so much to look at that looking takes a sixth of the time, and
    each look at all of it a tenth of a second in which nobody is sent anything.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class Serving:
    """A server that listens already: connections wait until it runs.

    ``run()`` is for a process, ``await serve()`` for a loop that is there, and ``with`` runs it in
    a thread for as long as the block lasts. Signals are heeded in the main thread only.
    """

    def __init__(
        self,
        app: Servable,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        forwarded_from: Sequence[str] = (),
        loopback_only: bool = False,
    ) -> None:
        """Bind the port; 0 is any free one.

        Without a token, or with ``loopback_only``, only loopback addresses are allowed.
        """
        if not isinstance(getattr(app, "doors", None), Doors):
            raise UsageError(
                f"serve() needs an AgentServer, not a {type(app).__name__}: "
                'serve(AgentServer(agent, token="…"))'
            )
        if app.doors.token is None and app.doors.hosts is None:
            raise UsageError(
                "with any Host and without a token, every website could ask this server: give a "
                "token, or the hosts by which it is asked for"
            )
        self._sockets = listen(host, port, only_loopback=loopback_only or app.doors.token is None)
        self.host = host
        self.port: int = self._sockets[0].getsockname()[1]
        """The port that it listens on."""
        self._app = app
        self._server = _Server(_config(app, forwarded_from), app)
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    @property
    def url(self) -> str:
        """Where it can be reached from this machine."""
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - a name for it
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def run(self, on_listening: Callable[[str], None] | None = None) -> None:
        """Serve in a loop of its own, until it is told to end."""
        factory = self._server.config.get_loop_factory()
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(self.serve(on_listening))

    async def serve(self, on_listening: Callable[[str], None] | None = None) -> None:
        """Serve in the loop that runs, until it is told to end."""
        try:
            with self._server.capture_signals():
                async with self._app:
                    await self._server.run_until_told(
                        self._sockets, lambda: _tell(on_listening, self.url)
                    )
        finally:
            self.close()

    def close(self) -> None:
        """Release the port, also of a server that was never started."""
        for listener in self._sockets:
            listener.close()

    def end(self) -> None:
        """Tell it to end, in order; from any thread."""
        self._server.should_exit = True

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run_in_thread, args=(ready,), name="serving")
        self._thread.start()
        ready.wait()
        if self._failure is not None:
            self.__exit__(None, None, None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()
        if self._thread is not None:
            self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run_in_thread(self, ready: threading.Event) -> None:
        try:
            self.run(lambda _: ready.set())
        except BaseException as error:  # noqa: BLE001 - it is raised where the thread is joined
            self._failure = error
        finally:
            ready.set()


def _tell(on_listening: Callable[[str], None] | None, url: str) -> None:
    if on_listening is not None:
        on_listening(url)


def _config(app: Servable, forwarded_from: Sequence[str]) -> uvicorn.Config:
    limits = app.limits
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        interface="asgi3",
        lifespan="off",  # the app is entered by who serves it, so that what it raises gets to him
        log_config=None,  # logging is the business of who runs it
        log_level="info",  # below it, uvicorn would log requests with their query
        access_log=False,
        server_header=False,
        proxy_headers=bool(forwarded_from),
        forwarded_allow_ips=list(forwarded_from),
        timeout_keep_alive=limits.keep_alive_seconds,  # type: ignore[arg-type] # for a timer
    )


class _Server(uvicorn.Server):
    """uvicorn's server, but for how it begins and ends."""

    def __init__(self, config: uvicorn.Config, app: Servable) -> None:
        super().__init__(config)
        self.server_state: Connections = Connections(app.limits)
        self._app = app
        self._limits = app.limits

    async def run_until_told(
        self, sockets: list[socket.socket], on_listening: Callable[[], None]
    ) -> None:
        """Serve; all that is uvicorn's own ``serve``, but for its lifespan and its logging."""
        self.server_state.room = room_for(self._limits.max_connections)
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup(sockets)
        on_listening()
        await self.main_loop()
        await self.shutdown(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End in order: nobody new, who watches is told to come again, the rest is waited for."""
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        self._let_connections_end()
        try:
            async with asyncio.timeout(self._limits.drain_seconds):
                await self._app.drain()
        except Exception:  # noqa: BLE001 - it ends, whatever the app makes of that
            logger.exception("not all who watch could be told to come again")
        self._let_connections_end()
        try:
            async with asyncio.timeout(self._limits.grace_seconds):
                while self.server_state.tasks or self.server_state.connections:
                    await asyncio.sleep(_LOOK)
        except TimeoutError:
            logger.warning("%d requests were cut off at the end", len(self.server_state.tasks))
        await self._cut_off()

    def _let_connections_end(self) -> None:
        """Close those that are idle; the others end with their answer."""
        for connection in list(self.server_state.connections):
            connection.shutdown()

    async def _cut_off(self) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.hang_up()
        await asyncio.sleep(_LOOK)  # who hears that nobody is there any more ends by himself
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Heed signals, as uvicorn does, but do not raise them again: it ends in order."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self.handle_exit)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as it is called
        """End in order; the second time at once: what was acknowledged is in the store."""
        if self.should_exit:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self.should_exit = True
