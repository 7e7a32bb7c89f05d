"""What happens to runs, heard in one event loop over one connection, however many runs there are.

Each run has a channel. What is told there before the server has confirmed that somebody listens, or
while the connection is lost, is not heard: so once it is confirmed, those who want to know are told
that there may be more. They are told so every few seconds, too, since of some things nobody is
told: that the server has lost all it had, or threw a run away. If the connection stays lost, they
are told why.
"""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import Struct
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
"""How many seconds there are between two looks whether the server is still there, and the runs."""

Tell = Callable[[str, bytes | None, bytes | None], None]
"""Hears of which run something was said, its identity if that is known, and what was said: None if
anything may have been."""


class _Wanted(Struct):
    run_id: str
    identity: bytes | None = None


class News:
    """Listens to channels while anybody wants to know. Belongs to one event loop.

    If it cannot, ``fail`` is told; whoever wants to know something then has it try again.
    """

    def __init__(
        self, clients: Clients, patience: float, tell: Tell, fail: Callable[[StoreFailure], None]
    ) -> None:
        self._clients = clients
        self._patience = patience
        self._tell = tell
        self._fail = fail
        self._wanted: dict[bytes, _Wanted] = {}
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._heard_at = -math.inf
        self._task: asyncio.Task[None] | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to listen to."""
        return bool(self._wanted)

    def want(self, run_id: str, channel: bytes) -> None:
        """Listen to the channel of a run from now on, of whichever run has it now."""
        self._wanted[channel] = _Wanted(run_id)
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._listen())

    def leave(self, channel: bytes) -> None:
        """Do not listen to a channel any more."""
        self._wanted.pop(channel, None)
        self._changed.set()
        if not self._wanted:
            self.end()

    def see(self, channel: bytes, identity: bytes) -> None:
        """Take note which run it is that has this channel. What is told of another is not its."""
        if (wanted := self._wanted.get(channel)) is not None and wanted.identity is None:
            wanted.identity = identity

    def end(self) -> None:
        """Do not listen to anything any more."""
        self._wanted.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _listen(self) -> None:
        """Listen until it cannot be done any more, and say so."""
        try:
            client = await self._clients.client()
        except ArgstreamError:
            return  # it is closed, or not for this event loop: whoever follows is told as he reads
        try:
            problem = await self._until_cut_off(client.redis.connection_pool)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody would be told anything
            if self._loop.is_closed():
                return  # and those in it are, too
            problem = StoreFailure(
                f"Redis at {self._clients.place}: what happens there cannot be heard any more: "
                f"{type(error).__name__}: {error}"
            )
            problem.__cause__ = error
        self._fail(problem)

    async def _until_cut_off(self, pool: ConnectionPool) -> StoreFailure:
        """Listen, over one connection after the other, until it has been lost for too long."""
        while True:
            lost_at = self._clock()
            for pause in pauses():
                problem = await self._until_lost(pool)
                if self._heard_at > lost_at:
                    await asyncio.sleep(pause)
                    break  # it had worked meanwhile: this is another loss, with time of its own
                if not may_pass(problem) or self._clock() - lost_at > self._patience:
                    return failure(problem, self._clients.place, self._patience)
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
                    self._say(channel, data)
                case [b"subscribe", bytes() as channel, _]:
                    self._say(channel, None)
                case _:
                    pass  # that we do not listen to something any more, or that it is still there

    def _say(self, channel: bytes, said: bytes | None) -> None:
        if (wanted := self._wanted.get(channel)) is not None:  # he may have left just now
            self._tell(wanted.run_id, wanted.identity, said)

    async def _subscribe(self, connection: AbstractConnection) -> RedisError:
        """Tell the server what is wanted, and see whether it is still there."""
        begun_at = self._clock()
        beat_at = begun_at + _BEAT
        asked: set[bytes] = set()
        while True:
            self._changed.clear()
            wanted = set(self._wanted)
            new, old, asked = wanted - asked, asked - wanted, wanted
            try:
                if new:
                    await connection.send_command("SUBSCRIBE", *new)
                if old:
                    await connection.send_command("UNSUBSCRIBE", *old)
                await self._changed_before(beat_at)
                if self._clock() < beat_at:
                    continue
                await connection.send_command("PING")
            except RedisError as error:
                return error
            beat_at = self._clock() + _BEAT
            if self._clock() - max(self._heard_at, begun_at) > 2 * _BEAT:
                return ConnectionLost("it does not answer any more")
            for channel in asked:
                self._say(channel, None)

    async def _changed_before(self, time: float) -> None:
        """Wait until something else is wanted, but not longer than to this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(time):
                await self._changed.wait()
