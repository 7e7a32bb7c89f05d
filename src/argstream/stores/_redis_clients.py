"""The client of a Redis store: one for each event loop, made when it is first needed.

Connections belong to a loop, so each has its own client. It is kept by an async generator: whoever
ends a loop in the orderly way (``asyncio.run`` does) ends its generators, and so a store that
nobody has closed leaves no connection behind.
"""

import asyncio
import re
from asyncio import AbstractEventLoop, Semaphore
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVarTuple, Unpack
from weakref import ReferenceType, ref

from redis.asyncio import Redis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from argstream.errors import StoreFailure, UsageError
from argstream.stores._redis_failures import place_of

__all__ = ["Client", "Clients", "soon"]

Given = TypeVarTuple("Given")

_AT_ONCE: Final = 16
"""How many commands of an event loop are under way: more would not make the server quicker."""
_AUTHORITY_END: Final = re.compile("[/?#]")
_OPTIONS: Final[Mapping[str, Any]] = {
    "client_name": "argstream",
    "protocol": 2,  # 3 costs a greeting more, and has nothing that is needed here
    # How long to wait is decided elsewhere, for a whole command: that of the client's makes each
    # one slower by half.
    "socket_timeout": None,
    "socket_connect_timeout": 5.0,
    "driver_info": None,
    "max_connections": 2 * _AT_ONCE,
}


class Client(NamedTuple):
    """A client that may be used in one event loop."""

    redis: Redis
    turns: Semaphore
    """Held while a command is under way."""


class _Open(NamedTuple):
    client: Client
    keeper: AsyncGenerator[Client, None]


class Clients:
    """Gives the client to use. One that was given is used for all, and never closed."""

    def __init__(self, server: str | Redis, options: Mapping[str, Any]) -> None:
        self._given: Redis | None = None
        self._home: ref[AbstractEventLoop] | None = None  # the loop of the one that was given
        self._open: dict[AbstractEventLoop, _Open] = {}
        self._is_closed = False
        if isinstance(server, str):
            self._url, self._options = server, {**_OPTIONS, **options}
            self._settle({**options, **_settings(server)})
            return
        if not isinstance(server, Redis):
            raise UsageError(
                "a RedisStore needs the address of a server, such as redis://localhost:6379, or a "
                f"redis.asyncio.Redis, not a {type(server).__module__}.{type(server).__name__}"
            )
        if options:
            raise UsageError("options are for an address: a client that is given has its own")
        self._given = server
        self._settle(server.connection_pool.connection_kwargs)

    def _settle(self, settings: Mapping[str, Any]) -> None:
        self.place = place_of(settings)
        self.database = int(settings.get("db") or 0)

    async def client(self) -> Client:
        """Give the client of this event loop."""
        loop = asyncio.get_running_loop()
        found = self._open.get(loop)
        if self._is_closed:  # what was under way must not open anything again
            raise StoreFailure("the store is closed: open it anew")
        if found is None:
            self._require_one_loop(loop)
            self._forget_loops_that_are_over()
            is_ours = self._given is None
            keeper = _kept(ref(self), loop, self._given or self._made(), is_ours=is_ours)
            # The generator does not wait before it yields, so no other task makes one meanwhile.
            found = _Open(await anext(keeper), keeper)
            self._open[loop] = found
        return found.client

    async def close(self) -> None:
        """Close all clients: that of this event loop now, others when their loops get to it."""
        self._is_closed = True
        here = asyncio.get_running_loop()
        for loop, one in list(self._open.items()):
            self.forget(loop)
            if loop is here:
                await one.keeper.aclose()
            else:
                soon(loop, _close, loop, one.keeper)

    def forget(self, loop: AbstractEventLoop) -> None:
        """Let go of the client of a loop."""
        self._open.pop(loop, None)

    def _made(self) -> Redis:
        # What was lost is tried again elsewhere, where it is known for how long.
        retry = Retry(NoBackoff(), 0)
        client: Redis = Redis.from_url(self._url, retry=retry, **self._options)
        return client

    def _require_one_loop(self, loop: AbstractEventLoop) -> None:
        """Refuse another event loop to a client that was given: its connections belong to one."""
        if self._given is None:
            return
        self._home = self._home or ref(loop)
        if self._home() is not loop:
            raise UsageError(
                "the client that the RedisStore was given belongs to another event loop: use the "
                "store in one loop, or give it the address of the server"
            )

    def _forget_loops_that_are_over(self) -> None:
        for loop in list(self._open):
            if loop.is_closed():
                self.forget(loop)


async def _kept(
    owner: ReferenceType[Clients], loop: AbstractEventLoop, redis: Redis, *, is_ours: bool
) -> AsyncGenerator[Client, None]:
    try:
        yield Client(redis, Semaphore(_AT_ONCE))
    finally:
        if (clients := owner()) is not None:
            clients.forget(loop)
        if is_ours:
            await redis.aclose()


def soon(loop: AbstractEventLoop, act: Callable[[Unpack[Given]], object], *given: *Given) -> None:
    """Have an event loop do something, in its own thread; one that is over has nothing to do."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(act, *given)


def _close(loop: AbstractEventLoop, keeper: AsyncGenerator[Client, None]) -> None:
    closing = loop.create_task(keeper.aclose())
    _closing.add(closing)
    closing.add_done_callback(_closing.discard)


_closing: set[asyncio.Task[None]] = set()  # so that nobody drops them


def _settings(url: str) -> Mapping[str, Any]:
    """Read an address, which may have a password in it: no part of that is told."""
    _, *rest = _AUTHORITY_END.split(url.partition("://")[2], maxsplit=1)
    is_cut_off = "@" in "".join(rest)  # what is before it would be taken for something else
    with suppress(ValueError):  # it may tell a part of the password
        if not is_cut_off:
            return parse_url(url)
    raise UsageError(
        "this is no address of a Redis server: write redis://HOST:PORT/DATABASE, rediss://… or "
        "unix://PATH, with a password as :PASSWORD@HOST, where characters such as @, /, ? and # "
        "are percent-encoded (%40, %2F, %3F, %23)"
    )
