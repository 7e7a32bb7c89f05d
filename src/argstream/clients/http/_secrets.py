"""Keys that must not be told: where one comes from, and how it is taken out of what others say.

Providers repeat keys in their errors, whole (some gateways) or in part (``sk-ab***yz``). So nothing
that a server says gets into an exception or an event before it has been looked through.
"""

import base64
import binascii
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies

from argstream.errors import UsageError

__all__ = ["Hidden", "Key", "Secrets", "StreamCleaner", "proxy_secrets", "secret_headers"]

_REMOVED: Final = "[removed]"
_RUN: Final = 8  # characters of a key, in one go, that nobody may tell
_SHORTEST_IN_STREAM: Final = 12  # a shorter one may be a word that a model says
# What is left of a key when somebody has hidden its middle. A word is tried from its beginning
# only, and given up as a whole: a long one would else be read once for each of its letters.
_HIDDEN: Final = re.compile(r"((?:(?<![\w-])[\w-]++)?)(?:\*{2,}|•{2,}|…|\.{3,})([\w-]*+)")
_SECRET_HEADERS: Final = ("auth", "cookie", "key", "secret", "token")


class Hidden:
    """Holds what must not be shown. A traceback may show the variables of its frames."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "<hidden>"


class Key:
    """A key that was given, or the variables to look for it when it is needed."""

    __slots__ = ("_given", "_is_needed", "_provider", "_token_variable", "_variables")

    def __init__(
        self,
        given: Hidden,
        variables: tuple[str, ...],
        *,
        provider: str,
        is_needed: bool,
        token_variable: str = "",
    ) -> None:
        """Look for a token, which is sent in another way, if no variable has a key."""
        if not isinstance(given.value, str | None):
            raise UsageError(f"api_key is a text, not a {type(given.value).__name__}")
        self._given = given.value
        self._variables = (*variables, token_variable) if token_variable else variables
        self._token_variable = token_variable
        self._provider = provider
        self._is_needed = is_needed

    def __repr__(self) -> str:
        return f"<Key: {self.origin}>"

    @property
    def origin(self) -> str:
        """Where the key comes from, for a message; not the key."""
        if self._given:
            return "the key that was given as api_key"
        if (variable := self._found()) is not None:
            return f"the key of ${variable}"
        return "a request without a key"

    @property
    def is_token(self) -> bool:
        """Whether it goes into the header ``authorization``, also where a key does not."""
        return not self._given and self._found() == self._token_variable != ""

    def value(self) -> str | None:
        """Give the key, or None if there is none and none is needed."""
        # Nothing here is kept in a variable: a traceback may show them.
        if not self._read() and self._is_needed:
            raise UsageError(
                f"{self._provider} needs a key: set ${self._variables[0]}, or give api_key"
            )
        if not (self._read().isascii() and self._read().isprintable()):
            raise UsageError(f"{self.origin} has characters in it that no key can have")
        return self._read() or None

    def _read(self) -> str:
        variable = self._found()
        key = self._given or ("" if variable is None else os.environ[variable])
        return key.strip()  # a line end from a file is no part of it

    def _found(self) -> str | None:
        return next((name for name in self._variables if os.environ.get(name, "").strip()), None)


def secret_headers(headers: Mapping[str, str]) -> list[str]:
    """Give what is secret in those headers that could hold a secret."""
    return [
        secret
        for name, value in headers.items()
        if any(part in name.lower() for part in _SECRET_HEADERS)
        for secret in _secrets_in(value.strip())
    ]


def proxy_secrets() -> list[str]:
    """Give the passwords of the proxies that the environment names, as a proxy is told them."""
    secrets: list[str] = []
    for address in getproxies().values():
        try:
            userinfo = urlsplit(address).netloc.rpartition("@")[0]
        except ValueError:  # then no proxy is found there, either
            continue
        name, _, password = map(unquote, userinfo.partition(":"))
        if password:
            secrets += [password, base64.b64encode(f"{name}:{password}".encode()).decode()]
    return secrets


def _secrets_in(value: str) -> Iterator[str]:
    scheme, _, rest = value.partition(" ")
    if not (rest and scheme.isalpha()):
        yield value
        return
    yield rest.strip()
    if scheme.lower() == "basic":  # a name and a password, which whoever reads it can tell, too
        try:
            pair = base64.b64decode(rest, validate=True).decode(errors="replace")
        except binascii.Error:
            return
        yield pair
        yield pair.partition(":")[2]


class Secrets:
    """Knows what must not be told, and takes it out."""

    __slots__ = ("_runs", "_whole", "_words", "in_stream")

    def __init__(self, secrets: Iterable[str]) -> None:
        spellings = {
            spelling for secret in secrets for spelling in (secret, quote(secret, safe=""))
        }
        self._whole = whole = spellings - {""}
        long = {secret for secret in whole if len(secret) >= _RUN}
        self._runs = {
            secret[start : start + _RUN]
            for secret in long
            for start in range(len(secret) - _RUN + 1)
        }
        words = "|".join(map(re.escape, sorted(whole - long)))
        self._words = re.compile(rf"\b(?:{words})\b") if words else None
        in_stream = (secret for secret in long if len(secret) >= _SHORTEST_IN_STREAM)
        self.in_stream = [secret.encode() for secret in sorted(in_stream, key=len, reverse=True)]
        """Those to be taken out of an answer, as bytes; of two that begin alike, the longer."""

    def __repr__(self) -> str:
        return "<Secrets>"

    def removed_from(self, text: str) -> str:
        """Give a text without any secret, any part of one, and what somebody else left of one."""
        text = self._without_runs(_HIDDEN.sub(self._hidden, text))
        return text if self._words is None else self._words.sub(_REMOVED, text)

    def _hidden(self, found: re.Match[str]) -> str:
        first, last = found.groups()
        is_one = any(
            (first and secret.startswith(first)) or (last and secret.endswith(last))
            for secret in self._whole
        )
        return _REMOVED if is_one else found[0]

    def _without_runs(self, text: str) -> str:
        pieces: list[str] = []
        done = 0  # up to where it is told, or a secret goes
        for start in range(len(text) - _RUN + 1):
            if text[start : start + _RUN] in self._runs:
                if start > done or not pieces:  # it is not the rest of the last one
                    pieces += [text[done:start], _REMOVED]
                done = start + _RUN
        return "".join([*pieces, text[done:]])


class StreamCleaner:
    """Takes secrets out of bytes that come in chunks, wherever those are cut."""

    __slots__ = ("_held", "_pattern", "_secrets")

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets.in_stream
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)))
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Take a chunk; gives what is safe, and keeps what may be the beginning of a secret."""
        if not self._secrets:
            return chunk
        data = self._pattern.sub(_REMOVED.encode(), self._held + chunk)
        end = len(data) - self._growing(data)
        self._held = data[end:]
        return data[:end]

    def close(self) -> bytes:
        """Give what was kept."""
        held, self._held = self._held, b""
        return held

    def _growing(self, data: bytes) -> int:
        if data.endswith(b"\n"):  # as nearly all chunks do: no key has a line end
            return 0
        longest = max(map(len, self._secrets)) - 1
        return next(
            (
                length
                for length in range(min(longest, len(data)), 0, -1)
                if any(secret.startswith(data[-length:]) for secret in self._secrets)
            ),
            0,
        )
