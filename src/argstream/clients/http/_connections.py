"""The HTTP client of a model: one for each event loop, made when it is first needed.

Connections belong to a loop, so each has its own client; over turns and runs they are used again.
A client is kept by an async generator. Whoever ends a loop in the orderly way (``asyncio.run``
does) ends its generators, and so a model that nobody has closed leaves no connection behind.
"""

import os
from collections.abc import AsyncGenerator
from functools import cache
from ssl import SSLContext
from typing import Any, Final, NamedTuple
from weakref import ReferenceType, ref

import httpx2
from anyio.lowlevel import current_token

from argstream.errors import UsageError

__all__ = ["Connections"]

# As many as are asked for: who makes requests decides how many. An idle one is kept for a while,
# since a tool may take its time between two turns.
_LIMITS: Final = httpx2.Limits(
    max_connections=None, max_keepalive_connections=100, keepalive_expiry=60.0
)
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")


class _Open(NamedTuple):
    client: httpx2.AsyncClient
    keeper: AsyncGenerator[httpx2.AsyncClient, None]


class Connections:
    """Gives the client to use. One that was given is used for all, and never closed."""

    def __init__(self, given: httpx2.AsyncClient | None = None) -> None:
        if given is not None and not isinstance(given, httpx2.AsyncClient):
            raise UsageError(f"http_client is an httpx2.AsyncClient, not a {type(given).__name__}")
        self._given = given
        self._home: ref[Any] | None = None  # the loop of the one that was given
        # By loop. A client knows its loop, so no loop would ever be freed that is not taken out.
        self._open: dict[object, _Open] = {}

    async def client(self) -> httpx2.AsyncClient:
        """Give the client of this event loop."""
        if self._given is not None:
            if self._given.is_closed:
                raise UsageError("the http_client that was given is closed")
            self._require_one_loop()
            return self._given
        loop = current_token().native_token
        self._forget_those_that_are_over()
        found = self._open.get(loop)
        if found is None:
            keeper = _kept(ref(self))
            # There is no await between these, so that no other task makes one meanwhile.
            client = await anext(keeper)
            self._open[loop] = found = _Open(client, keeper)
        return found.client

    def _require_one_loop(self) -> None:
        """Refuse another event loop: connections of the first would fail there, or be asked twice.

        The sync face of an agent has one for each run.
        """
        loop: Any = current_token().native_token
        self._home = self._home or ref(loop)
        if self._home() is not loop:
            raise UsageError(
                "the http_client that was given belongs to another event loop: use the agent in "
                "one loop (run_stream, run_async), or leave http_client out"
            )

    async def close(self) -> None:
        """Close the client of this event loop; the next request makes another."""
        found = self._open.pop(current_token().native_token, None)
        if found is not None:
            await found.keeper.aclose()

    def forget(self, client: httpx2.AsyncClient) -> None:
        """Let go of a client that is about to be closed."""
        for loop, one in list(self._open.items()):
            if one.client is client:
                self._open.pop(loop, None)

    def _forget_those_that_are_over(self) -> None:
        """Let go of clients that somebody has closed, and of loops that did not end in order."""
        for loop, one in list(self._open.items()):
            is_closed = getattr(loop, "is_closed", None)
            if one.client.is_closed or (is_closed is not None and is_closed()):
                self._open.pop(loop, None)


async def _kept(owner: ReferenceType[Connections]) -> AsyncGenerator[httpx2.AsyncClient, None]:
    client = _made()
    try:
        yield client
    finally:
        if (connections := owner()) is not None:
            connections.forget(client)
        await client.aclose()


def _made() -> httpx2.AsyncClient:
    certificates = _certificates()
    try:
        return httpx2.AsyncClient(verify=certificates, limits=_LIMITS)
    except ImportError:
        problem = "a SOCKS proxy, for which the package socksio is needed"
    except (ValueError, httpx2.InvalidURL):
        problem = "no address of a proxy that can be used"  # it may have a password in it
    raise UsageError(f"{_set(_PROXIES)}: this is {problem}")


@cache
def _certificates() -> SSLContext:
    """Load what servers are known by, once: it takes 20 ms and more."""
    try:
        return httpx2.create_ssl_context()
    except OSError as error:  # as those of SSL are, too
        raise UsageError(f"{_set(_CERTIFICATES)}: certificates cannot be loaded: {error}") from None


def _set(variables: tuple[str, ...]) -> str:
    """Name those of the variables that are set, of which one must be wrong."""
    spellings = [spelling for name in variables for spelling in (name, name.lower())]
    found = [f"${name}" for name in spellings if os.environ.get(name)]
    return ", ".join(found) or "the settings of this machine"
