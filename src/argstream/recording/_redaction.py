"""Keys that must not be written down: what of a request is harmless, and how secrets are taken out.

Two rules, and the first is the one to rely on. Of headers and of a URL's query, only what is known
to be harmless is written at all. Besides, the secrets that are known are looked for in every byte
that is written, because providers repeat keys in their errors: also across chunks, they become
``[removed]``.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from argstream.recording._search import SecretSearch

__all__ = [
    "REQUEST_HEADERS",
    "RESPONSE_HEADERS",
    "Redactor",
    "harmless_headers",
    "harmless_path",
    "harmless_url",
]

REQUEST_HEADERS: Final = frozenset(
    {"accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta", "user-agent"}
)
RESPONSE_HEADERS: Final = frozenset(
    {
        "content-type",
        "openai-processing-ms",
        "request-id",
        "retry-after",
        "x-amzn-requestid",
        "x-request-id",
    }
)
_PARAMETERS: Final = frozenset({"alt", "api-version", "beta"})
_REMOVED: Final = "[removed]"
# What a step of a path has in it that could be a key: nothing else is so long without a break.
_LONG_RUN: Final = re.compile("[A-Za-z0-9]{24,}")


def harmless_headers(
    headers: Iterable[tuple[str, str]], allowed: frozenset[str], redactor: "Redactor"
) -> dict[str, str]:
    """Give the headers that may be written down, by name in lower case."""
    return {
        name.lower(): redactor.redacted(value) for name, value in headers if name.lower() in allowed
    }


def harmless_path(path: str, redactor: "Redactor") -> str:
    """Give a path without the steps that are or could be a key."""
    steps = redactor.redacted(path).split("/")
    return "/".join(_REMOVED if _could_be_a_key(step) else step for step in steps)


def _could_be_a_key(step: str) -> bool:
    runs: list[str] = _LONG_RUN.findall(step)
    return any(not run.isalpha() and not run.isdigit() for run in runs)


def harmless_url(url: str, redactor: "Redactor") -> str:
    """Give a URL with those parameters of its query that are known to be no key."""
    parts = urlsplit(url)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name.lower() in _PARAMETERS]
    host, path = parts.netloc.rpartition("@")[2], harmless_path(parts.path, redactor)
    query = redactor.redacted(urlencode(kept))
    return urlunsplit((parts.scheme, host, path, query, ""))


class Redactor:
    """Takes secrets out of bytes that come in chunks; what it gives may be written down.

    The end of a chunk that could be the beginning of a secret is held back until it is known, and
    keeps its time.
    """

    def __init__(self, secrets: Iterable[str] | SecretSearch) -> None:
        self._search = secrets if isinstance(secrets, SecretSearch) else SecretSearch(secrets)
        self._held = b""
        self._held_at = 0.0
        self.removed = 0
        """How often something was taken out."""

    def feed(self, at: float, chunk: bytes) -> list[tuple[float, bytes]]:
        """Take the next chunk and its time, and give what is safe."""
        return self._take(at, chunk, is_end=False) if self._search else [(at, chunk)]

    def close(self) -> list[tuple[float, bytes]]:
        """Give what was held back."""
        return self._take(self._held_at, b"", is_end=True)

    def redacted(self, text: str) -> str:
        """Take the secrets out of a text that is there as a whole."""
        whole = Redactor(self._search)
        data = text.encode(errors="surrogateescape")
        pieces = [*whole.feed(0.0, data), *whole.close()]
        return b"".join(piece for _, piece in pieces).decode(errors="replace")

    def _take(self, at: float, chunk: bytes, *, is_end: bool) -> list[tuple[float, bytes]]:
        held_at = self._held_at if self._held else at
        data, border = self._held + chunk, len(self._held)
        end = len(data) if is_end else len(data) - self._search.growing(data)
        before: list[bytes] = []
        after: list[bytes] = []

        def give(start: int, stop: int) -> None:
            if start < border:
                before.append(data[start : min(stop, border)])
            if stop > border:
                after.append(data[max(start, border) : stop])

        done = 0
        for start, stop in self._search.found(data):
            if start >= end:
                break
            give(done, start)
            (before if start < border else after).append(_REMOVED.encode())
            self.removed += 1
            done = min(stop, end)  # where another one touches it that may still grow, that is held
        give(done, end)
        self._held = data[end:]
        self._held_at = held_at if end < border else at
        given = ((held_at, b"".join(before)), (at, b"".join(after)))
        return [(time, piece) for time, piece in given if piece]
