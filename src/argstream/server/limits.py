"""How much a server takes on: everything that a client can make large, many or slow has a bound.

What goes over one is refused with words that name the limit, so that who runs the server knows what
to raise.
"""

import msgspec

from argstream.errors import UsageError

__all__ = ["Limits"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one server process; the defaults are for some hundred people at once.

    A *client* is a user, where the host app names one, and else an address. Behind a proxy that is
    the proxy's, unless the server is told to trust what it forwards: see ``serve``.
    """

    max_body_bytes: int = 4 * 1024 * 1024
    """The longest body of a request; a chat front end sends its whole history each time."""
    body_seconds: float = 20.0
    """How long a body may take to arrive."""
    max_depth: int = 256
    """How deep the JSON of a body may be nested, as deep as a model may nest its arguments."""
    max_values: int = 250_000
    """How many values the JSON of a body may hold, of whatever kind: they need far more room than
    their text."""
    max_incoming_bytes: int = 128 * 1024 * 1024
    """How many bytes of bodies may be held at once that are not read as a whole yet."""
    max_incoming_bytes_per_client: int = 32 * 1024 * 1024
    """How many of these may be of one client."""
    max_prompt_chars: int = 400_000
    """The longest message to the model."""

    requests_per_minute: int = 6_000
    """How many requests a client may make, on average; a tenth of it may come at once. How often he
    asks whether the server is alive is counted apart: who watches over it may share his address."""
    wrong_tokens_per_minute: int = 10
    """How many wrong tokens a client may name, in a header or to sign in; all of them may come at
    once. What is over is told to come later. Who names the right one is let in all the same, as
    others may share his address: so it is the length of a token, and ``requests_per_minute``, that
    keep it from being found by trying."""
    runs_per_minute: int = 120
    """How many runs a client may start, on average; a tenth of it may come at once."""
    max_clients: int = 20_000
    """Of how many clients the rates are remembered; who has asked for nothing longest goes."""

    max_running: int = 1_000
    """How many runs may be driven at once."""
    max_running_per_client: int = 200
    """How many of these may be of one client."""
    max_viewers: int = 10_000
    """How many streams may be open at once."""
    max_viewers_per_client: int = 1_000
    """How many of these may be of one client."""

    stalled_seconds: float = 60.0
    """How long who is sent something may leave it untaken before his connection is ended."""

    max_connections: int = 12_000
    """How many connections may be open; for one more, the one that idles longest is closed."""
    head_seconds: float = 10.0
    """How long a connection may take to send the whole head of a request."""
    max_head_bytes: int = 64 * 1024
    """The longest head of a request: its path, its query and its headers."""
    keep_alive_seconds: float = 30.0
    """How long a connection without a request is kept, and then one whose answer is not read."""

    drain_seconds: float = 5.0
    """At the end: how long viewers are given to be told to come again."""
    grace_seconds: float = 5.0
    """At the end: how long requests are given to be answered after that."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not isinstance(value, int | float) or not value > 0:
                raise UsageError(f"the limit {name} must be a number above 0, not {value!r}")
