"""What happens to runs, heard in one event loop over one connection, however many runs there are.

Each run has a channel. What is told there before the server has confirmed that somebody listens, or
while the connection is lost, is not heard: so once it is confirmed, those who want to know are told
that there may be more. If the connection stays lost, they are told why.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Final

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as NoAnswer

from argstream.errors import ArgstreamError, StoreFailure
from argstream.stores._redis_calls import pauses
from argstream.stores._redis_clients import Clients
from argstream.stores._redis_failures import failure, may_pass

__all__ = ["News"]

_BEAT: Final = 5.0
"""After so many quiet seconds the server is asked whether it is still there."""

Tell = Callable[[bytes, bytes | None], None]
"""Hears what was said on a channel; None if anything may have been said."""


class News:
    """Listens to channels while anybody wants to know. Belongs to one event loop."""

    def __init__(
        self, clients: Clients, patience: float, tell: Tell, fail: Callable[[StoreFailure], None]
    ) -> None:
        self._clients = clients
        self._patience = patience
        self._tell = tell
        self._fail = fail
        self._wanted: set[bytes] = set()
        self._changed = asyncio.Event()
        self._clock = asyncio.get_running_loop().time
        self._heard_at = -math.inf
        self._task: asyncio.Task[None] | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to listen to."""
        return bool(self._wanted)

    def want(self, channel: bytes) -> None:
        """Listen to a channel from now on."""
        self._wanted.add(channel)
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._listen())

    def leave(self, channel: bytes) -> None:
        """Do not listen to a channel any more."""
        self._wanted.discard(channel)
        self._changed.set()
        if not self._wanted:
            self.end()

    def end(self) -> None:
        """Do not listen to anything any more."""
        self._wanted.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _listen(self) -> None:
        """Listen, over one connection after the other, until it has been lost for too long."""
        try:
            client = await self._clients.client()
        except ArgstreamError:
            return  # it is closed, or not for this event loop: whoever follows is told as he reads
        while True:
            lost_at = self._clock()
            for pause in pauses():
                problem = await self._until_lost(client.redis.connection_pool)
                if self._heard_at > lost_at:
                    await asyncio.sleep(pause)
                    break  # it had worked meanwhile: this is another loss, with time of its own
                if not may_pass(problem) or self._clock() - lost_at > self._patience:
                    self._fail(failure(problem, self._clients.place, self._patience))
                    return
                await asyncio.sleep(pause)

    async def _until_lost(self, pool: ConnectionPool) -> RedisError:
        """Listen over one connection, and give the reason why it cannot be done any more."""
        try:
            async with asyncio.timeout(self._patience):
                connection = await pool.get_connection()  # type: ignore[no-untyped-call] # so it is
        except TimeoutError:
            return NoAnswer()
        except RedisError as error:
            return error
        sides = [
            asyncio.create_task(self._hear(connection)),
            asyncio.create_task(self._subscribe(connection)),
        ]
        try:
            done, _ = await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for side in sides:
                side.cancel()
            await asyncio.wait(sides)
            await connection.disconnect(nowait=True)
            await pool.release(connection)

    async def _hear(self, connection: AbstractConnection) -> RedisError:
        while True:
            try:
                said = await connection.read_response(
                    disable_decoding=True,
                    timeout=math.inf,
                    disconnect_on_error=False,
                    push_request=True,
                )
            except RedisError as error:
                return error
            self._heard_at = self._clock()
            match said:
                case [b"message", bytes() as channel, bytes() as data]:
                    self._tell(channel, data)
                case [b"subscribe", bytes() as channel, _]:
                    self._tell(channel, None)
                case _:
                    pass  # that we do not listen to something any more, or that it is still there

    async def _subscribe(self, connection: AbstractConnection) -> RedisError:
        """Tell the server what is wanted, and see whether it is still there."""
        begun_at = self._clock()
        asked: set[bytes] = set()
        while True:
            self._changed.clear()
            new, old = self._wanted - asked, asked - self._wanted
            asked = set(self._wanted)
            try:
                if new:
                    await connection.send_command("SUBSCRIBE", *new)
                if old:
                    await connection.send_command("UNSUBSCRIBE", *old)
                if not await self._is_changed():
                    await connection.send_command("PING")
            except RedisError as error:
                return error
            if self._clock() - max(self._heard_at, begun_at) > 2 * _BEAT:
                return ConnectionLost("it does not answer any more")

    async def _is_changed(self) -> bool:
        """Wait until something else is wanted, but not for long; say whether it is."""
        try:
            async with asyncio.timeout(_BEAT):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True
