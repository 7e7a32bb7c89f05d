"""Whether a request is made again, and after which time. Performs no I/O: the sleep is injected.

Only a request to which no answer has begun is made again: what a provider has said once, it would
say twice.
"""

import math
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Final

import anyio
import httpx2
from msgspec import Struct

from argstream.errors import UsageError

# A time-out, a lock, a limit: passing things. All errors of a server are, but this one.
_PASSING: Final = frozenset({408, 409, 425, 429})
_NOT_IMPLEMENTED: Final = 501


class Retries(Struct, frozen=True, kw_only=True):
    """How often a request is repeated before an answer begins, and how long to wait."""

    most: int = 3
    """After the first try; 0: never."""
    first_wait: float = 0.5
    """Seconds before the first of them; each wait is twice as long as the last, less a bit."""
    longest_wait: float = 8.0
    """Where that ends."""
    longest_told_wait: float = 60.0
    """What a provider may ask for (``retry-after``). If it asks for more, the request fails."""
    longest_in_all: float = 120.0
    """Of all waits for one request together; one that would go beyond is not made."""
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    random: Callable[[], float] = random.random
    now: Callable[[], float] = time.time
    """Seconds since 1970: some providers ask to wait until a date."""

    def __post_init__(self) -> None:
        if self.most < 0:
            raise UsageError(f"Retries: most is a number from 0, not {self.most!r}")
        waits = (self.first_wait, self.longest_wait, self.longest_told_wait, self.longest_in_all)
        if not all(math.isfinite(wait) and wait >= 0 for wait in waits):
            raise UsageError("Retries: waits are seconds from 0")

    def wait(self, made: int, waited: float, told: float | None) -> float | None:
        """Return the seconds to wait after so many tries and seconds; None: do not try again."""
        if made > self.most:
            return None
        if told:
            wait = told + self.first_wait / 2 * self.random()  # not all at once
            fits = told <= self.longest_told_wait
        else:
            doubled = self.first_wait * 2 ** min(made - 1, 60)
            wait = min(doubled, self.longest_wait) * (1 - self.random() / 4)
            fits = True
        return wait if fits and waited + wait <= self.longest_in_all else None


def may_succeed_later(status: int, headers: Mapping[str, str]) -> bool:
    """Return True if the same request may succeed later."""
    match headers.get("x-should-retry"):  # what the APIs of Anthropic and OpenAI say themselves
        case "true":
            return True
        case "false":
            return False
        case _:
            return status in _PASSING or (status >= 500 and status != _NOT_IMPLEMENTED)


def connection_may_recover(error: BaseException) -> bool:
    """Return True unless the same request must fail again after this error of a connection."""
    if isinstance(error, httpx2.LocalProtocolError | ssl.SSLCertVerificationError):
        return False
    cause = error.__cause__ or error.__context__
    return cause is None or connection_may_recover(cause)


def told_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that a provider asks to wait, if it does."""
    if (wait := _number(headers.get("retry-after-ms"))) is not None:
        return wait / 1000
    told = headers.get("retry-after")
    if told is None or (wait := _number(told)) is not None:
        return wait
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - now)
    except (ValueError, OverflowError):  # neither seconds nor a date: it says nothing
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
