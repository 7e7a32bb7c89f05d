"""The token of a server: in a header, or for browsers in a cookie.

A browser's ``EventSource`` cannot send headers, so a page is given a cookie. Cookies are shared by
all servers of a host, whatever their port. So it does not hold the token but a digest of it, which
is good for this server only; and another digest is part of its name, so that a browser can be
signed in at several.

Both are told to nobody who does not have the token: who knows them can try tokens on his own
machine, as fast as that is.
"""

import hashlib
import hmac
import re
from typing import Final

__all__ = ["Token", "cookie_name", "no_cookie", "token_cookie"]

_COOKIE: Final = "argstream_token"
_NAME_DIGITS: Final = 8


def token_cookie(token: str, *, secure: bool = False, path: str = "/") -> str:
    """Write the ``Set-Cookie`` header that lets a browser in for as long as it is open.

    Scripts cannot read it, and a browser sends it with no request that another site has caused.
    ``secure`` is for pages that came over https.
    """
    return _cookie(token, _cookie_value(token), path, secure=secure)


def no_cookie(token: str, *, secure: bool = False, path: str = "/") -> str:
    """Write the ``Set-Cookie`` header that takes it away again: for who has it, or the token."""
    return _cookie(token, "", path, secure=secure) + "; Max-Age=0"


def cookie_name(token: str) -> str:
    """Name the cookie of a server with this token."""
    return f"{_COOKIE}_{_digest('cookie name', token)[:_NAME_DIGITS]}"


def _cookie(token: str, value: str, path: str, *, secure: bool) -> str:
    flags = "; Secure" if secure else ""
    return f"{cookie_name(token)}={value}; Path={path}; HttpOnly; SameSite=Strict{flags}"


class Token:
    """Compares what comes with a token, in a time that tells nothing of it."""

    __slots__ = ("_cookie", "_cookie_values", "_token")

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._cookie = _cookie_value(token).encode()
        name = cookie_name(token).encode()
        self._cookie_values = re.compile(rb"(?:^|;)\s*" + name + rb'="?([0-9a-f]*)"?\s*(?=;|$)')

    def is_same(self, given: str) -> bool:
        """Tell whether somebody has typed it."""
        return hmac.compare_digest(given.encode(), self._token)

    def is_in_header(self, authorization: bytes) -> bool:
        """Tell whether it is in a header ``Authorization: Bearer …``."""
        scheme, _, token = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)

    def is_in_cookie(self, cookies: bytes) -> bool:
        """Tell whether its cookie is among these."""
        return any(
            hmac.compare_digest(value, self._cookie)
            for value in self._cookie_values.findall(cookies)
        )


def _cookie_value(token: str) -> str:
    return _digest("cookie", token)


def _digest(what: str, token: str) -> str:
    return hashlib.sha256(f"argstream {what} {token}".encode()).hexdigest()
