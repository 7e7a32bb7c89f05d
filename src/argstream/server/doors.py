"""Who may ask a server: what its token, its names, its pages and its users are."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec
from starlette.requests import Request

from argstream.errors import UsageError
from argstream.server._origins import normal_host, normal_origin

__all__ = ["LOOPBACK_HOSTS", "Doors", "NameUser"]

LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
"""The names by which a browser on the same machine asks for a server."""

_SHORTEST_TOKEN: Final = 16

NameUser: TypeAlias = Callable[[Request], str | Awaitable[str | None] | None]


class Doors(msgspec.Struct, frozen=True, kw_only=True):
    """What a server lets in."""

    token: str | None = None
    """What a client must send: ``Authorization: Bearer …``, or in a browser the cookie."""
    hosts: tuple[str, ...] | None = LOOPBACK_HOSTS
    """By which names the server may be asked for, with or without a port; None is any."""
    origins: tuple[str, ...] = ()
    """Whose pages may ask besides the server's own (CORS), such as ``http://localhost:3000``. With
    ``*`` those of anybody may who has the token: in the header, as no cookie is sent then."""
    user: NameUser | None = None
    """Returns the user of a request; None or "" if nobody is signed in (401). It may raise
    ``HTTPException`` to refuse the request. It is called in the event loop, so a function that does
    I/O must be async."""

    def __post_init__(self) -> None:
        if self.token is not None and not (
            self.token
            and self.token.isascii()
            and self.token.isprintable()
            and " " not in self.token
        ):
            raise UsageError("a token must be of visible ASCII characters, without spaces")
        if self.token is not None and len(self.token) < _SHORTEST_TOKEN:
            raise UsageError(
                f"a token has at least {_SHORTEST_TOKEN} characters, so that nobody guesses it: "
                "take one of chance, such as openssl rand -hex 16 gives"
            )
        _check_is_no_text("hosts", self.hosts)
        _check_is_no_text("origins", self.origins)
        for host in self.hosts or ():
            normal_host(host)
        for origin in self.origins:
            normal_origin(origin)
        if "*" in self.origins and self.token is None:
            raise UsageError("with the origin '*' any website could ask: give a token too")

    def __repr__(self) -> str:
        """Show all but the token."""
        token = "None" if self.token is None else "'…'"
        return f"Doors(token={token}, hosts={self.hosts}, origins={self.origins}, user={self.user})"


def _check_is_no_text(name: str, value: object) -> None:
    if isinstance(value, str):
        raise UsageError(f"{name} must be a tuple of strings: ({value!r},)")
