"""Limits of a server: sizes, rates, connections and waiting times of clients.

An error names the limit, so that the operator knows which one to raise.
"""

import asyncio
import json
import math
import re
import time
from collections import Counter
from itertools import accumulate
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request

from argstream.errors import UsageError
from argstream.server._security import Problem, client_of

T = TypeVar("T")

_SHORT: Final = 64 * 1024
"""Longer bodies are decoded in a thread, and checked in pieces, to keep the event loop free."""

_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1, ord(","): 0}
_NO_MARKS: Final = bytes(set(range(256)) - _STEPS.keys())

# Escaped backslashes, a surrogate pair, or half of a pair. Only the last is replaced.
_SURROGATES: Final = re.compile(
    rb"\\(?:(\\(?:\\\\)*+|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one server process. The defaults suit a few hundred concurrent users.

    A *client* is the user that the host app names, or else an address. Behind a proxy that is the
    address of the proxy, unless ``forwarded_from`` of ``serve`` names the proxy.
    """

    max_body_bytes: int = 4 * 1024 * 1024
    """The largest request body. A chat front end sends its whole history each time."""
    body_seconds: float = 20.0
    """How long a body may take to arrive."""
    max_depth: int = 256
    """How deep the JSON of a body may be nested. The same as for the arguments of a call."""
    max_values: int = 250_000
    """How many values the JSON of a body may have. Decoded, they need much more memory than as
    text."""
    max_incoming_bytes: int = 128 * 1024 * 1024
    """How many bytes of incomplete bodies may be in memory."""
    max_incoming_bytes_per_client: int = 32 * 1024 * 1024
    """The same for one client."""
    max_prompt_chars: int = 400_000
    """The longest message to the model."""

    requests_per_minute: int = 6_000
    """How many requests a client may send, on average. A tenth of them may come at once. Health
    checks are counted separately, because a monitor may share the address of a client."""
    wrong_tokens_per_minute: int = 10
    """How many wrong tokens a client may send, in a header or to sign in. All may come at once.
    Further ones get 429. The right token is always accepted, because clients may share an address.
    So guessing is prevented by the length of the token and by ``requests_per_minute``."""
    runs_per_minute: int = 120
    """How many runs a client may start, on average. A tenth of them may come at once."""
    max_clients: int = 20_000
    """How many clients have their rates kept. The least recent one is dropped."""

    max_running: int = 1_000
    """How many runs may be driven at once."""
    max_running_per_client: int = 200
    """The same for one client."""
    max_viewers: int = 10_000
    """How many streams may be open at once."""
    max_viewers_per_client: int = 1_000
    """The same for one client."""

    stalled_seconds: float = 60.0
    """The seconds after which a connection that does not read is closed."""

    max_connections: int = 12_000
    """How many connections may be open. For one more, the longest idle one is closed."""
    head_seconds: float = 10.0
    """How long a connection may take to send the whole head of a request."""
    max_head_bytes: int = 64 * 1024
    """The largest head of a request: path, query and headers."""
    keep_alive_seconds: float = 30.0
    """How long an idle connection is kept, and then how long one whose response is not read."""

    grace_seconds: float = 5.0
    """At shutdown: how long viewers may take to leave, and the remaining requests to end."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not isinstance(value, int | float) or not value > 0:
                raise UsageError(f"Limits: {name} must be a number greater than 0, not {value!r}")


class Rates:
    """What the clients of a server have used of its limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.request = RateLimit("requests", "requests_per_minute", limits).acquire
        # A user who mistypes the token tries again at once. The refusal does not say whether the
        # token was right.
        wrong_tokens = RateLimit("wrong tokens", "wrong_tokens_per_minute", limits, at_once=1.0)
        self.wrong_token = wrong_tokens.acquire
        self.start = RateLimit("new runs", "runs_per_minute", limits, "too-many-starts").acquire
        self.viewers = Quota("open streams", "max_viewers", limits)  # one per open stream
        self.running = Quota("runs", "max_running", limits)  # one per run that is driven here
        # One per byte of a body, until the body is read.
        self.incoming = Quota("bytes of bodies", "max_incoming_bytes", limits)


class RateLimit:
    """Token buckets of one rate, one for each client."""

    def __init__(
        self, what: str, limit: str, limits: Limits, code: str = "", *, at_once: float = 0.1
    ) -> None:
        """``limit`` is a field of ``Limits``. ``at_once`` is the fraction that may come at once."""
        per_minute: int = getattr(limits, limit)
        burst = "" if at_once == 1 else ", a tenth of it at once"
        self._refusal = f"too many {what}: the limit is {limit}={per_minute} per client{burst}"
        self._code = code or f"too-many-{what.replace(' ', '-')}"
        self._interval = 60 / per_minute
        self._burst = max(1.0, per_minute * at_once) * self._interval
        self._max_clients = limits.max_clients
        self._full_at: dict[str, float] = {}

    def acquire(self, client: str) -> None:
        """Use a token. Raise Problem (429) with the seconds until one is available."""
        now = time.monotonic()
        full_at = max(self._full_at.pop(client, now), now)
        wait = full_at + self._interval - now - self._burst
        refused = wait > 1e-9
        # Appended, so that the least recent client is first, and is dropped first.
        self._full_at[client] = full_at if refused else full_at + self._interval
        if len(self._full_at) > self._max_clients:
            del self._full_at[next(iter(self._full_at))]
        if refused:
            retry = str(math.ceil(wait))
            detail = f"{self._refusal}. Retry in {retry} s"
            raise Problem(429, self._code, detail, {"retry-after": retry})


class Reservation:
    """What a client has reserved, until it is released. Releasing twice is harmless."""

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
            self._places.release(self._client, size)


class Quota:
    """A bounded number of places, with a bound for each client."""

    def __init__(self, what: str, limit: str, limits: Limits) -> None:
        """``limit`` is a field of ``Limits``. The error message names it and ``what``."""
        self._what = what
        self._limit = limit
        self._in_all: int = getattr(limits, limit)
        self._per_client: int = getattr(limits, f"{limit}_per_client")
        self._reserved: Counter[str] = Counter()
        self._total = 0

    def acquire(self, client: str) -> Reservation:
        place = Reservation(self, client)
        place.grow(1)
        return place

    def reserve(self, client: str, size: int) -> None:
        """Reserve places. Raise Problem: 429 if the client has too many, 503 if all have."""
        reserved = self._reserved.get(client, 0)
        if reserved + size > self._per_client:
            raise self._refused(429, f"{self._limit}_per_client={self._per_client}", "a client")
        if self._total + size > self._in_all:
            raise self._refused(503, f"{self._limit}={self._in_all}", "this server")
        self._reserved[client] = reserved + size
        self._total += size

    def release(self, client: str, size: int) -> None:
        self._reserved[client] -= size
        self._total -= size
        if not self._reserved[client]:
            del self._reserved[client]

    def _refused(self, status: int, limit: str, owner: str) -> Problem:
        code = f"too-many-{self._what.replace(' ', '-')}"
        detail = f"too many {self._what}: the limit is {limit} at once for {owner}"
        return Problem(status, code, f"{detail}. Retry when some have ended", {"retry-after": "5"})


async def read_json(
    request: Request,
    kind: type[T],
    rates: Rates,
    *,
    default: T | None = None,
    most: int | None = None,
) -> T:
    """Decode a JSON body. Raise Problem if it is not valid.

    With a default, the body may be missing. ``most`` is a smaller limit than ``max_body_bytes``,
    for bodies that are always short.

    Half of a surrogate pair becomes U+FFFD: a page can cut a text there, and no store could keep
    it. 400: not valid JSON, or a repeated key. 408: it did not arrive in time. 413: too long. 422:
    JSON of another shape. 429 and 503: too many bytes are incoming.
    """
    limits = rates.limits
    place = Reservation(rates.incoming, client_of(request.scope))
    try:
        try:
            body = await _read(request, limits, place, most)
        except Problem as problem:
            # The rest of the body is not read, so the connection cannot be used again.
            problem.headers["connection"] = "close"
            raise
        if not body:
            if default is not None:
                return default
            raise Problem(400, "no-body", "the request has no body. Send a JSON object")
        if len(body) <= _SHORT:
            return _decode(body, kind, limits)
        return await asyncio.to_thread(_decode, body, kind, limits)
    finally:
        place.release()


async def _read(request: Request, limits: Limits, place: Reservation, most: int | None) -> bytes:
    longest = min(limits.max_body_bytes, most or limits.max_body_bytes)
    named = "" if longest == most else f" (max_body_bytes={longest})"
    detail = f"the body must have at most {longest} bytes{named}"
    too_long = Problem(413, "body-too-long", detail)
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise Problem(400, "wrong-length", "the header Content-Length must be a number")
    # More digits are never allowed, and int() would be slow.
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
        # Checks only the keys. Numbers are not converted.
        json.loads(body.decode(), object_pairs_hook=_check_keys, parse_int=len, parse_float=len)
    except msgspec.ValidationError as error:
        raise Problem(422, "wrong-body", f"the body has the wrong shape: {error}") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Problem(400, "no-json", f"the body is not valid JSON: {error}") from None
    return decoded


def _check_shape(body: bytes, limits: Limits) -> None:
    """Raise Problem for a body with too many values or levels, before a decoder recurses."""
    opened = body.count(b"[") + body.count(b"{")
    if opened <= limits.max_depth and len(body) <= limits.max_values:
        return
    # An escaped quote does not end a string. Outside of strings, decoding fails later.
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
    """Raise Problem for a repeated key: other readers could use another of its values."""
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise Problem(400, "doubled-key", f"an object in the body has the key {key!r} twice")
        seen.add(key)
