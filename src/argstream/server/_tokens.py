"""The token of a server: in a header, or for browsers in a cookie.

A browser's ``EventSource`` cannot send headers, so a page is given a cookie. It does not hold the
token but a digest of it: cookies are shared by all servers of a host, whatever their port.
"""

import hashlib
import hmac
import re
from typing import Final

__all__ = ["COOKIE", "Token", "token_cookie"]

COOKIE: Final = "argstream_token"
"""The name of the cookie."""

_COOKIE_VALUE: Final = re.compile(rb"(?:^|;)\s*" + COOKIE.encode() + rb'="?([0-9a-f]*)"?\s*(?=;|$)')


def token_cookie(token: str, *, secure: bool = False, path: str = "/") -> str:
    """Write the ``Set-Cookie`` header that lets a browser in for as long as it is open.

    Scripts cannot read it, and a browser sends it with no request that another site has caused.
    ``secure`` is for pages that came over https.
    """
    flags = "; Secure" if secure else ""
    return f"{COOKIE}={_cookie_value(token)}; Path={path}; HttpOnly; SameSite=Strict{flags}"


class Token:
    """Compares what comes with a token, in a time that tells nothing of it."""

    __slots__ = ("_cookie", "_token")

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._cookie = _cookie_value(token).encode()

    def is_in_header(self, authorization: bytes) -> bool:
        """Tell whether it is in a header ``Authorization: Bearer …``."""
        scheme, _, token = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)

    def is_in_cookie(self, cookies: bytes) -> bool:
        """Tell whether its cookie is among these."""
        return any(
            hmac.compare_digest(value, self._cookie) for value in _COOKIE_VALUE.findall(cookies)
        )


def _cookie_value(token: str) -> str:
    return hashlib.sha256(b"argstream cookie " + token.encode()).hexdigest()
