"""The HTTP client of a model: one for each event loop, made when it is first needed.

Connections belong to a loop, so each has its own client; over turns and runs they are used again.
A client is kept by an async generator. Whoever ends a loop in the orderly way (``asyncio.run``
does) ends its generators, and so a model that nobody has closed leaves no connection behind.
"""

from collections.abc import AsyncGenerator
from functools import cache
from ssl import SSLContext
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import httpx2
from anyio.lowlevel import current_token

from argstream.errors import UsageError

__all__ = ["Connections"]

# As many as are asked for: who makes requests decides how many. An idle one is kept for a while,
# since a tool may take its time between two turns.
_LIMITS: Final = httpx2.Limits(
    max_connections=None, max_keepalive_connections=100, keepalive_expiry=60.0
)


class _Open(NamedTuple):
    client: httpx2.AsyncClient
    keeper: AsyncGenerator[httpx2.AsyncClient, None]


class Connections:
    """Gives the client to use. One that was given is used for all, and never closed."""

    def __init__(self, given: httpx2.AsyncClient | None = None) -> None:
        if given is not None and not isinstance(given, httpx2.AsyncClient):
            raise UsageError(f"http_client is an httpx2.AsyncClient, not a {type(given).__name__}")
        self._given = given
        self._open: WeakKeyDictionary[object, _Open] = WeakKeyDictionary()

    async def client(self) -> httpx2.AsyncClient:
        """Give the client of this event loop."""
        if self._given is not None:
            if self._given.is_closed:
                raise UsageError("the http_client that was given is closed")
            return self._given
        loop = current_token().native_token
        found = self._open.get(loop)
        if found is None or found.client.is_closed:
            keeper = _kept()
            # There is no await between these, so that no other task makes one meanwhile.
            client = await anext(keeper)
            self._open[loop] = found = _Open(client, keeper)
        return found.client

    async def close(self) -> None:
        """Close the client of this event loop; the next request makes another."""
        found = self._open.pop(current_token().native_token, None)
        if found is not None:
            await found.keeper.aclose()


async def _kept() -> AsyncGenerator[httpx2.AsyncClient, None]:
    client = httpx2.AsyncClient(verify=_certificates(), limits=_LIMITS)
    try:
        yield client
    finally:
        await client.aclose()


@cache
def _certificates() -> SSLContext:
    """Load what servers are known by, once: it takes 20 ms and more."""
    return httpx2.create_ssl_context()
