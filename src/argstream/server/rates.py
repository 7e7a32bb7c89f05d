"""How often a client may ask, and how much he may have open: counted here, refused in words.

A rate is a bucket with a token for each request, which fills at a steady pace. Of a bucket only one
number is kept: the moment at which it will be full (the generic cell rate algorithm), and of the
buckets only so many, whatever clients come.
"""

import hashlib
import math
import time
from collections import Counter
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Final

from starlette.types import Scope

from argstream.server.limits import Limits
from argstream.server.problems import Problem

__all__ = ["Buckets", "Place", "Places", "Rates", "client_of"]

_LONGEST_NAME: Final = 100


def client_of(scope: Scope) -> str:
    """Name who asks, to count what he asks for: the user if the host app names one, or his address.

    Who has an IPv6 address has 2⁶⁴ of them: the network counts.
    """
    user: str = scope.get("argstream.user", "")
    if user:
        if len(user) > _LONGEST_NAME:
            user = hashlib.sha256(user.encode(errors="surrogatepass")).hexdigest()
        return f"user {user}"
    address: str = (scope.get("client") or ("",))[0]
    if ":" in address:
        try:
            known = IPv6Address(address)
        except ValueError:  # a server may put there what it likes
            return f"address {address[:_LONGEST_NAME]}"
        mapped = known.ipv4_mapped
        return f"network {int(known) >> 64:x}" if mapped is None else f"address {mapped}"
    return f"address {address[:_LONGEST_NAME]}"


class Buckets:
    """One rate, for any number of clients."""

    def __init__(
        self,
        per_minute: float,
        max_clients: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        at_once: float = 0.1,
    ) -> None:
        """Let so much of what a minute allows come at once, a tenth as a rule, and at least one."""
        self._interval = 60 / per_minute
        self._burst = max(1.0, per_minute * at_once) * self._interval
        self._max_clients = max_clients
        self._clock = clock
        self._full_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, client: str) -> float:
        """Take a token; return 0, or the seconds until there is one again."""
        now = self._clock()
        full_at = max(self._full_at.pop(client, now), now)
        wait = full_at + self._interval - now - self._burst
        refused = wait > 1e-9
        # Put back last: who asked longest ago is first, and the first to be forgotten.
        self._full_at[client] = full_at if refused else full_at + self._interval
        if len(self._full_at) > self._max_clients:
            del self._full_at[next(iter(self._full_at))]
        return wait if refused else 0.0


class Place:
    """A place, or several, that somebody has until he gives them back; twice is no harm."""

    __slots__ = ("_client", "_places", "_size")

    def __init__(self, places: "Places", client: str) -> None:
        self._places = places
        self._client = client
        self._size = 0

    def grow(self, size: int) -> None:
        """Take so many more, or be refused; those that one has stay."""
        self._places.reserve(self._client, size)
        self._size += size

    def release(self) -> None:
        """Give all back."""
        size, self._size = self._size, 0
        if size:
            self._places.give_back(self._client, size)


class Places:
    """So many at once, and so many of them for one client."""

    def __init__(self, what: str, limit: str, in_all: int, per_client: int) -> None:
        """Say what they are, in the plural, and which limit it is: it is told to who gets none."""
        self._what = what
        self._limit = limit
        self._in_all = in_all
        self._per_client = per_client
        self._taken: Counter[str] = Counter()
        self._total = 0

    def __len__(self) -> int:
        return self._total

    def take(self, client: str) -> Place:
        """Take a place, or be refused."""
        place = self.hold(client)
        place.grow(1)
        return place

    def hold(self, client: str) -> Place:
        """Begin with none, and take them as they are needed."""
        return Place(self, client)

    def reserve(self, client: str, size: int) -> None:
        """Count so many, or refuse them: 429 if the client has too many, 503 if all have."""
        taken = self._taken.get(client, 0)
        if taken + size > self._per_client:
            raise self._refused(429, f"{self._limit}_per_client={self._per_client}", "a client")
        if self._total + size > self._in_all:
            raise self._refused(503, f"{self._limit}={self._in_all}", "this server")
        self._taken[client] = taken + size
        self._total += size

    def give_back(self, client: str, size: int) -> None:
        """Take note that so many are free: their holder calls this, and once."""
        self._taken[client] -= size
        self._total -= size
        if not self._taken[client]:
            del self._taken[client]

    def _refused(self, status: int, limit: str, who: str) -> Problem:
        return Problem(
            status,
            f"too-many-{self._what.replace(' ', '-')}",
            f"too many {self._what}: {limit} is all that {who} may have at once; come again when "
            "some have ended",
            {"retry-after": "5"},
        )


class Rates:
    """All that is counted in one server process."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._requests = Buckets(limits.requests_per_minute, limits.max_clients, clock)
        self._starts = Buckets(limits.runs_per_minute, limits.max_clients, clock)
        # Somebody who mistypes it tries again at once.
        self._wrong_tokens = Buckets(
            limits.wrong_tokens_per_minute, limits.max_clients, clock, at_once=1.0
        )
        self.viewers = Places(
            "open streams", "max_viewers", limits.max_viewers, limits.max_viewers_per_client
        )
        """Places for those who watch: one for each stream, held while it is open."""
        self.running = Places(
            "runs", "max_running", limits.max_running, limits.max_running_per_client
        )
        """Places for runs: one for each, held while it is driven here."""
        self.incoming = Places(
            "bytes of bodies",
            "max_incoming_bytes",
            limits.max_incoming_bytes,
            limits.max_incoming_bytes_per_client,
        )
        """Places for bodies: one for each byte, held until the body is read as a whole."""

    def request(self, client: str) -> None:
        """Count a request, or refuse it: 429."""
        limit = f"requests_per_minute={self._limits.requests_per_minute}"
        _refuse(self._requests.take(client), "too-many-requests", "requests", limit)

    def wrong_token(self, client: str) -> None:
        """Count that a wrong token was named, or refuse it in other words than that: 429."""
        limit = f"wrong_tokens_per_minute={self._limits.wrong_tokens_per_minute}"
        _refuse(self._wrong_tokens.take(client), "too-many-wrong-tokens", "wrong tokens", limit, "")

    def start(self, client: str) -> None:
        """Count the start of a run, or refuse it: 429."""
        limit = f"runs_per_minute={self._limits.runs_per_minute}"
        _refuse(self._starts.take(client), "too-many-starts", "runs in so short a time", limit)


def _refuse(
    seconds: float, code: str, what: str, limit: str, burst: str = ", and a tenth of it at once"
) -> None:
    if seconds:
        wait = math.ceil(seconds)
        detail = (
            f"too many {what}: {limit} is all that a client may have{burst}; come again in {wait} s"
        )
        raise Problem(429, code, detail, {"retry-after": str(wait)})
