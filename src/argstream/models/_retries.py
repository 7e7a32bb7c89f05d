"""Retry policy. Performs no I/O; the sleep function is injected.

Only requests without a first response event are retried. A later retry would repeat output.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from msgspec import Struct

from argstream.errors import UsageError

_TRANSIENT: Final = frozenset({408, 409, 425, 429})  # and 5xx, except 501 (not implemented)


class Retries(Struct, frozen=True, kw_only=True):
    """How often a request is retried before a response starts, and how long to wait."""

    most: int = 3
    """Maximum number of retries after the first attempt."""
    first_wait: float = 0.5
    """Seconds before the first retry. Each wait is twice the last, minus up to 25 % at random."""
    longest_wait: float = 8.0
    """Upper limit for these waits."""
    longest_told_wait: float = 60.0
    """Longest ``retry-after`` of a provider. If it asks for more, the request fails."""
    longest_in_all: float = 120.0
    """Upper limit for the sum of all waits of one request."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random
    now: Callable[[], float] = time.time  # Unix time, for a retry-after that is a date

    def __post_init__(self) -> None:
        if type(self.most) is not int or self.most < 0:
            raise UsageError(f"Retries: most must be at least 0, not {self.most!r}")
        waits = (self.first_wait, self.longest_wait, self.longest_told_wait, self.longest_in_all)
        if not all(math.isfinite(wait) and wait >= 0 for wait in waits):
            raise UsageError(f"Retries: each wait must be at least 0 and finite, not {waits}")

    def wait(self, made: int, waited: float, retry_after: float | None) -> float | None:
        """Return the seconds to wait after ``made`` attempts, or None for no retry."""
        if made > self.most:
            return None
        if retry_after:
            wait = retry_after + self.first_wait / 2 * self.random()  # spread clients
            fits = retry_after <= self.longest_told_wait
        else:
            doubled = self.first_wait * 2 ** min(made - 1, 60)
            wait = min(doubled, self.longest_wait) * (1 - self.random() / 4)
            fits = True
        return wait if fits and waited + wait <= self.longest_in_all else None


def may_succeed_later(status: int, headers: Mapping[str, str]) -> bool:
    told = headers.get("x-should-retry")  # sent by Anthropic and OpenAI
    if told in ("true", "false"):
        return told == "true"
    return status in _TRANSIENT or (status >= 500 and status != 501)


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds of ``retry-after-ms`` or ``retry-after``, or None."""
    if (wait := _number(headers.get("retry-after-ms"))) is not None:
        return wait / 1000
    value = headers.get("retry-after")
    if value is None or (wait := _number(value)) is not None:
        return wait
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):  # neither seconds nor a date
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
