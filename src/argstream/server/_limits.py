"""Limits of a server: everything that a client can make large, many or slow has a bound.

A refusal names the limit, so that the operator knows what to raise.
"""

import asyncio
import hashlib
import json
import math
import re
import time
from collections import Counter
from ipaddress import IPv6Address
from itertools import accumulate
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.types import Scope

from argstream.errors import UsageError
from argstream.server._problems import Problem

T = TypeVar("T")

_SHORT: Final = 64 * 1024
"""Longer bodies are decoded in a thread and checked in pieces, so that others do not wait."""

_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1, ord(","): 0}
_NO_MARKS: Final = bytes(set(range(256)) - _STEPS.keys())

# What begins with a backslash: escaped backslashes, a surrogate pair, or else half of one.
_SURROGATES: Final = re.compile(
    rb"\\(?:(\\(?:\\\\)*+|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_LONGEST_NAME: Final = 100


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
    asks whether the server is alive is counted apart: a monitor may share its address."""
    wrong_tokens_per_minute: int = 10
    """How many wrong tokens a client may name, in a header or to sign in; all of them may come at
    once. What is over is told to come later. Who names the right one is let in all the same, as
    others may share his address: so it is the length of a token, and ``requests_per_minute``, that
    keep it from being found by trying."""
    runs_per_minute: int = 120
    """How many runs a client may start, on average; a tenth of it may come at once."""
    max_clients: int = 20_000
    """The number of clients whose rates are kept. The least recent one is dropped."""

    max_running: int = 1_000
    """How many runs may be driven at once."""
    max_running_per_client: int = 200
    """How many of these may be of one client."""
    max_viewers: int = 10_000
    """How many streams may be open at once."""
    max_viewers_per_client: int = 1_000
    """How many of these may be of one client."""

    stalled_seconds: float = 60.0
    """The seconds after which a connection that does not read is closed."""

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
                raise UsageError(f"Limits: {name} must be a number greater than 0, not {value!r}")


class Rates:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._requests = RateLimit(limits.requests_per_minute, limits.max_clients)
        self._starts = RateLimit(limits.runs_per_minute, limits.max_clients)
        # A user who mistypes the token tries again at once.
        self._wrong_tokens = RateLimit(
            limits.wrong_tokens_per_minute, limits.max_clients, at_once=1.0
        )
        self.viewers = Quota(
            "open streams", "max_viewers", limits.max_viewers, limits.max_viewers_per_client
        )
        """The quota of viewers: one per stream, reserved while it is open."""
        self.running = Quota(
            "runs", "max_running", limits.max_running, limits.max_running_per_client
        )
        """The quota of runs: one per run, reserved while it is driven here."""
        self.incoming = Quota(
            "bytes of bodies",
            "max_incoming_bytes",
            limits.max_incoming_bytes,
            limits.max_incoming_bytes_per_client,
        )
        """The quota of bodies: one per byte, reserved until the body is read."""

    def request(self, client: str) -> None:
        limit = f"requests_per_minute={self._limits.requests_per_minute}"
        _refuse(self._requests.take(client), "too-many-requests", "requests", limit)

    def wrong_token(self, client: str) -> None:
        """Count a wrong token, or raise a 429 that does not say whether the token was right."""
        limit = f"wrong_tokens_per_minute={self._limits.wrong_tokens_per_minute}"
        _refuse(self._wrong_tokens.take(client), "too-many-wrong-tokens", "wrong tokens", limit, "")

    def start(self, client: str) -> None:
        limit = f"runs_per_minute={self._limits.runs_per_minute}"
        _refuse(self._starts.take(client), "too-many-starts", "new runs", limit)


def _refuse(
    seconds: float, code: str, what: str, limit: str, burst: str = ", a tenth of it at once"
) -> None:
    if seconds:
        wait = math.ceil(seconds)
        detail = f"too many {what}: the limit is {limit} per client{burst}. Retry in {wait} s"
        raise Problem(429, code, detail, {"retry-after": str(wait)})


class RateLimit:
    """Token buckets of one rate, one for each client."""

    def __init__(self, per_minute: float, max_clients: int, at_once: float = 0.1) -> None:
        """Let so much of what a minute allows come at once, a tenth as a rule, and at least one."""
        self._interval = 60 / per_minute
        self._burst = max(1.0, per_minute * at_once) * self._interval
        self._max_clients = max_clients
        self._full_at: dict[str, float] = {}

    def take(self, client: str) -> float:
        """Use a token. Return 0, or the seconds until one is available."""
        now = time.monotonic()
        full_at = max(self._full_at.pop(client, now), now)
        wait = full_at + self._interval - now - self._burst
        refused = wait > 1e-9
        # Put back last: who asked longest ago is first, and the first to be forgotten.
        self._full_at[client] = full_at if refused else full_at + self._interval
        if len(self._full_at) > self._max_clients:
            del self._full_at[next(iter(self._full_at))]
        return wait if refused else 0.0


class Reservation:
    """What a client has reserved until it is released. Releasing twice does no harm."""

    __slots__ = ("_client", "_places", "_size")

    def __init__(self, places: "Quota", client: str) -> None:
        self._places = places
        self._client = client
        self._size = 0

    def grow(self, size: int) -> None:
        """Reserve more, or raise Problem and keep what is reserved."""
        self._places.reserve(self._client, size)
        self._size += size

    def release(self) -> None:
        size, self._size = self._size, 0
        if size:
            self._places.give_back(self._client, size)


class Quota:
    """A bounded number of places, with a bound for each client."""

    def __init__(self, what: str, limit: str, in_all: int, per_client: int) -> None:
        """``name`` (plural) and ``limit`` appear in the error of a refused client."""
        self._what = what
        self._limit = limit
        self._in_all = in_all
        self._per_client = per_client
        self._taken: Counter[str] = Counter()
        self._total = 0

    def take(self, client: str) -> Reservation:
        place = Reservation(self, client)
        place.grow(1)
        return place

    def reserve(self, client: str, size: int) -> None:
        """Count places, or raise Problem: 429 if the client has too many, 503 if all have."""
        taken = self._taken.get(client, 0)
        if taken + size > self._per_client:
            raise self._refused(429, f"{self._limit}_per_client={self._per_client}", "a client")
        if self._total + size > self._in_all:
            raise self._refused(503, f"{self._limit}={self._in_all}", "this server")
        self._taken[client] = taken + size
        self._total += size

    def give_back(self, client: str, size: int) -> None:
        self._taken[client] -= size
        self._total -= size
        if not self._taken[client]:
            del self._taken[client]

    def _refused(self, status: int, limit: str, who: str) -> Problem:
        return Problem(
            status,
            f"too-many-{self._what.replace(' ', '-')}",
            f"too many {self._what}: the limit is {limit} at once for {who}. Retry when some have "
            "ended",
            {"retry-after": "5"},
        )


def client_of(scope: Scope) -> str:
    """Return the name under which a client is counted: its user, or else its address.

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


async def read_json(
    request: Request,
    kind: type[T],
    limits: Limits,
    incoming: Quota,
    *,
    default: T | None = None,
    most: int | None = None,
) -> T:
    """Decode a JSON body. ``Problem`` says what is wrong with it, and where.

    With a default, the body may be missing. ``incoming`` bounds what all bodies together need
    while they arrive. ``most`` is a lower bound for bodies that are always short.

    Half of a surrogate pair becomes U+FFFD: a page can cut a text there, and no store could keep
    it. 400: it is not valid JSON, or repeats a key. 408: it did not arrive in time. 413: it is too
    long. 422: it is JSON of another shape. 429 and 503: too much is on its way.
    """
    place = Reservation(incoming, client_of(request.scope))
    try:
        try:
            body = await _read(request, limits, place, most)
        except Problem as problem:
            # What is left unread is not waited for, so the connection cannot be used again.
            problem.headers["connection"] = "close"
            raise
        if not body:
            if default is not None:
                return default
            raise Problem(400, "no-body", "the request has no body: send a JSON object")
        if len(body) <= _SHORT:
            return _decode(body, kind, limits)
        return await asyncio.to_thread(_decode, body, kind, limits)
    finally:
        place.release()


async def _read(request: Request, limits: Limits, place: Reservation, most: int | None) -> bytes:
    longest = min(limits.max_body_bytes, most or limits.max_body_bytes)
    named = "" if longest == most else f" (max_body_bytes={longest})"
    detail = f"the body is longer than {longest} bytes, which is all that is taken{named}"
    too_long = Problem(413, "body-too-long", detail)
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise Problem(400, "wrong-length", "the header Content-Length is no number")
    # So many digits are more than is ever allowed, and int() would be slow.
    if len(length) > 18 or int(length) > longest:
        raise too_long
    chunks: list[bytes] = []
    total = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                total += len(chunk)
                if total > longest:
                    raise too_long
                place.grow(len(chunk))
                chunks.append(chunk)
    except TimeoutError:
        detail = f"the body did not arrive within {limits.body_seconds:g} s"
        raise Problem(408, "body-too-slow", f"{detail} (body_seconds)") from None
    return b"".join(chunks)


def _decode(body: bytes, kind: type[T], limits: Limits) -> T:
    _check_shape(body, limits)
    if rb"\ud" in body or rb"\uD" in body:
        body = _SURROGATES.sub(lambda match: match[0] if match[1] else rb"\ufffd", body)
    try:
        decoded = msgspec.json.decode(body, type=kind)
        # Only the keys are looked at: whatever else it holds is counted, and forgotten.
        json.loads(body.decode(), object_pairs_hook=_check_keys, parse_int=len, parse_float=len)
    except msgspec.ValidationError as error:
        raise Problem(422, "wrong-body", f"the body is not what is asked for: {error}") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Problem(400, "no-json", f"the body is not valid JSON: {error}") from None
    return decoded


def _check_shape(body: bytes, limits: Limits) -> None:
    """Refuse bodies that are nested too deep, before anything recurses, or that hold too much."""
    opened = body.count(b"[") + body.count(b"{")
    if opened <= limits.max_depth and len(body) <= limits.max_values:
        return
    # What is escaped ends no string; outside of one it is no JSON, which is found out later.
    text = body.replace(rb"\\", b"").replace(rb"\"", b"")
    inside = level = values = 0
    for start in range(0, len(text), _SHORT):
        parts = text[start : start + _SHORT].split(b'"')
        marks = b"".join(parts[inside::2]).translate(None, _NO_MARKS)
        inside = (inside + len(parts) - 1) % 2
        values += len(marks) - marks.count(b"]") - marks.count(b"}")
        if values > limits.max_values:
            detail = f"the body holds more than {limits.max_values} values (max_values)"
            raise Problem(413, "body-too-large", detail)
        levels = list(accumulate(map(_STEPS.__getitem__, marks), initial=level))
        if max(levels) > limits.max_depth:
            detail = f"the body is nested deeper than {limits.max_depth} levels (max_depth)"
            raise Problem(400, "body-too-deep", detail)
        level = levels[-1]


def _check_keys(pairs: list[tuple[str, object]]) -> None:
    """Refuse an object with a repeated key: other readers could take another of its values."""
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise Problem(400, "doubled-key", f"an object of the body has the key {key!r} twice")
        seen.add(key)
