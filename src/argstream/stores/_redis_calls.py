"""Calls of the scripts: made again while the connection is lost, but not for ever."""

import asyncio
import hashlib
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

from redis.client import NEVER_DECODE
from redis.exceptions import NoScriptError, RedisError
from redis.exceptions import TimeoutError as NoAnswer

from argstream.stores._redis_clients import Clients
from argstream.stores._redis_failures import failure, may_pass
from argstream.stores._redis_scripts import SCRIPTS

__all__ = ["Calls", "pauses"]

_HASHES: Final = {
    name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    for name, text in SCRIPTS.items()
}
_FORGET: Final = ("delete", "expire")
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.5

Argument = str | bytes


class Calls:
    """Has the server run its scripts."""

    def __init__(self, clients: Clients, patience: float) -> None:
        self._clients = clients
        self._patience = patience

    async def run(
        self, name: str, keys: Sequence[bytes], arguments: Sequence[Argument] = ()
    ) -> list[Any]:
        """Run a script and give its answer. Each may be run again: it sees that it was."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._patience
        problem: RedisError | None = None
        for pause in pauses():
            try:
                # Not all at once: it may be this connection that is dead, and not the server.
                async with asyncio.timeout_at(min(deadline, clock() + self._patience / 2)):
                    answer = await self._run_once(name, keys, arguments)
            except TimeoutError:
                problem = problem or NoAnswer()  # what had gone wrong before tells more
            except RedisError as error:
                problem = error
            else:
                # It may have been the attempt before that has forgotten it.
                is_forgotten = problem and name in _FORGET and answer == [b"unknown"]
                return [b"done"] if is_forgotten else answer
            if not may_pass(problem) or clock() + pause >= deadline:
                break
            await asyncio.sleep(pause)
        raise failure(problem, self._clients.place, self._patience) from problem

    async def _run_once(
        self, name: str, keys: Sequence[bytes], arguments: Sequence[Argument]
    ) -> list[Any]:
        client = await self._clients.client()
        execute: Any = client.redis.execute_command  # it has no types
        given = (len(keys), *keys, *arguments)
        options = {NEVER_DECODE: True}
        async with client.turns:
            try:
                answer = await execute("EVALSHA", _HASHES[name], *given, **options)
            except NoScriptError:
                # The server was started anew, or is another one, or was told to forget its scripts.
                answer = await execute("EVAL", SCRIPTS[name], *given, **options)
        return list(answer)


def pauses() -> Iterator[float]:
    """Say how long to wait before each attempt but the first: longer and longer, never the same."""
    longest = _FIRST_PAUSE
    while True:
        yield longest * random.uniform(0.5, 1.0)  # noqa: S311 - so that not all come back at once
        longest = min(2 * longest, _LONGEST_PAUSE)
