"""Keys that must not be written down: which there are in a request, and how they are taken out.

Two rules, and the first is the one to rely on. Of headers and of a URL's query, only what is known
to be harmless is written at all. Besides, what the request had as its key is looked for in every
byte that is written, because providers repeat keys in their errors: any run of twelve characters of
it, also across chunks, becomes ``[removed]``.
"""

import base64
import binascii
import contextlib
import json
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

__all__ = [
    "REQUEST_HEADERS",
    "RESPONSE_HEADERS",
    "Redactor",
    "harmless_headers",
    "harmless_url",
    "secrets_of_request",
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
# What the name of a header or a parameter has in it if its value is a secret.
_SECRET: Final = ("auth", "cookie", "credential", "key", "pass", "secret", "sig", "token")

_REMOVED: Final = b"[removed]"
_SHORTEST_SECRET: Final = 8  # a shorter one would be found in many a word
_SHORTEST_RUN: Final = 12  # of a longer one, what gives away a part of it


def harmless_headers(
    headers: Iterable[tuple[str, str]], allowed: frozenset[str], redactor: "Redactor"
) -> dict[str, str]:
    """Give the headers that may be written down, by name in lower case."""
    return {
        name.lower(): redactor.redacted(value) for name, value in headers if name.lower() in allowed
    }


def harmless_url(url: str, redactor: "Redactor") -> str:
    """Give a URL with those parameters of its query that are known to be no key."""
    parts = urlsplit(url)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name.lower() in _PARAMETERS]
    host = parts.netloc.rpartition("@")[2]
    return redactor.redacted(urlunsplit((parts.scheme, host, parts.path, urlencode(kept), "")))


def secrets_of_request(headers: Iterable[tuple[str, str]], target: str) -> set[str]:
    """Find what a request was authorised with."""
    secrets: set[str] = set()
    for name, value in headers:
        if _is_secret(name):
            secrets |= _parts(value)
    for parameter in target.partition("?")[2].split("&"):
        name, _, value = parameter.partition("=")
        if _is_secret(name):
            secrets |= {value, *(found for _, found in parse_qsl(parameter))}
    return secrets


def _is_secret(name: str) -> bool:
    name = name.lower()
    return any(word in name for word in _SECRET)


def _parts(value: str) -> set[str]:
    """Give the words of a header's value, of ``name=value`` the value.

    The words, because the rest of it may be anything: AWS has a list of headers there.
    """
    if value.startswith("AWS4-"):
        return set(re.findall(r"(?:Credential|Signature)=([^,/\s]+)", value))
    scheme, _, rest = value.strip().partition(" ")
    words = {re.sub(r"^[\w.-]+=(?=[^=])", "", word) for word in re.split(r'[\s,;"]+', value)}
    if scheme.lower() == "basic":
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):  # then it has no password
            words.add(base64.b64decode(rest).decode().partition(":")[2])
    return words


class Redactor:
    """Takes secrets out of bytes that come in chunks; what it gives may be written down.

    The end of a chunk that could be the beginning of a secret is held back until it is known, and
    keeps its time. That is linear, but for each secret.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted(_spellings(secrets))
        self._held = b""
        self._held_at = 0.0

    def feed(self, at: float, chunk: bytes) -> list[tuple[float, bytes]]:
        """Take the next chunk and its time, and give what is safe."""
        if not self._secrets:
            return [(at, chunk)]
        return self._take(at, chunk, is_end=False)

    def close(self) -> list[tuple[float, bytes]]:
        """Give what was held back."""
        return self._take(self._held_at, b"", is_end=True)

    def redacted(self, text: str) -> str:
        """Take the secrets out of a text that is there as a whole."""
        whole = Redactor(())
        whole._secrets = self._secrets
        data = text.encode(errors="surrogateescape")
        pieces = [*whole.feed(0.0, data), *whole.close()]
        return b"".join(piece for _, piece in pieces).decode(errors="replace")

    def _take(self, at: float, chunk: bytes, *, is_end: bool) -> list[tuple[float, bytes]]:
        held_at = self._held_at if self._held else at
        data, border = self._held + chunk, len(self._held)
        end = len(data) if is_end else len(data) - self._growing(data)
        before: list[bytes] = []
        after: list[bytes] = []

        def give(start: int, stop: int) -> None:
            if start < border:
                before.append(data[start : min(stop, border)])
            if stop > border:
                after.append(data[max(start, border) : stop])

        done = 0
        for start, stop in self._found(data):
            if start >= end:
                break
            give(done, start)
            (before if start < border else after).append(_REMOVED)
            done = stop
        if done < end:
            give(done, end)
        self._held = data[max(done, end) :]
        self._held_at = held_at if max(done, end) < border else at
        given = ((held_at, b"".join(before)), (at, b"".join(after)))
        return [(time, piece) for time, piece in given if piece]

    def _growing(self, data: bytes) -> int:
        """Say how much at the end of the data may go on as a part of a secret."""
        longest = 0
        for secret in self._secrets:
            length = longest + 1
            while length <= min(len(data), len(secret)) and data[-length:] in secret:
                longest = length
                length += 1
        return longest

    def _found(self, data: bytes) -> list[tuple[int, int]]:
        """Find all runs of secrets, in order, joined where they touch."""
        runs = sorted(run for secret in self._secrets for run in _runs(data, secret))
        joined: list[tuple[int, int]] = []
        for start, stop in runs:
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
            else:
                joined.append((start, stop))
        return joined


def _runs(data: bytes, secret: bytes) -> Iterable[tuple[int, int]]:
    """Find where a long enough part of a secret stands.

    Cut the secret into blocks of half that length: such a part has a whole block in it. Each block
    is found by ``find``, which is quick, and then followed to both sides.
    """
    shortest = min(len(secret), _SHORTEST_RUN)
    size = (shortest + 1) // 2
    for offset in range(0, len(secret) - size + 1, size):
        block = secret[offset : offset + size]
        position = data.find(block)
        while position >= 0:
            start, stop, first, last = position, position + size, offset, offset + size
            while start and first and data[start - 1] == secret[first - 1]:
                start, first = start - 1, first - 1
            while stop < len(data) and last < len(secret) and data[stop] == secret[last]:
                stop, last = stop + 1, last + 1
            if stop - start >= shortest:
                yield start, stop
            position = data.find(block, position + 1)


def _spellings(secrets: Iterable[str]) -> set[bytes]:
    """Give the secrets that can be looked for, as they may stand in a body."""
    found = {secret.strip() for secret in secrets}
    return {
        spelling.encode(errors="surrogateescape")
        for secret in found
        if len(secret) >= _SHORTEST_SECRET
        for spelling in (secret, quote(secret, safe="", errors="replace"), json.dumps(secret)[1:-1])
    }
