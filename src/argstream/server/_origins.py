"""Where a request was made for, and from where: its Host and its Origin (RFC 6454).

A page of any website can make a browser ask a server on the same machine. The Host tells whether
the browser was lured there by a name that is not ours (DNS rebinding), the Origin whose page asks.
"""

import re
from typing import Final

from argstream.errors import UsageError

__all__ = ["is_allowed_host", "normal_host", "normal_origin", "same_origin"]

_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]\\]+)(?::([0-9]{1,5}))?")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


def _host_name(host: str) -> str | None:
    """Take the port off a Host; None if it is none."""
    match = _HOST.fullmatch(host.lower())
    return match[1] if match else None


def is_allowed_host(host: str, allowed: frozenset[str]) -> bool:
    """Tell whether a Host, with or without a port, is one of these names."""
    return _host_name(host) in allowed


def normal_host(host: str) -> str:
    """Read the name of a host as somebody wrote it down: an IPv6 address may lack its brackets."""
    written = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
    match = _HOST.fullmatch(written.lower())
    if match is None or match[2]:
        raise UsageError(
            f"{host!r} is no name of a host: write it without scheme, port and path, such as "
            "'example.com' or '::1'"
        )
    return match[1]


def normal_origin(origin: str) -> str:
    """Read an origin as somebody wrote it down; ``*`` is any."""
    if origin == "*":
        return origin
    scheme, separator, host = origin.lower().rstrip("/").partition("://")
    if scheme not in _DEFAULT_PORTS or not separator or _host_name(host) is None:
        raise UsageError(
            f"{origin!r} is no origin: write it with scheme and host and without a path, such as "
            "'https://example.com' or 'http://localhost:3000'"
        )
    return f"{scheme}://{_without_default_port(scheme, host)}"


def same_origin(origin: str, scheme: str, host: str) -> bool:
    """Tell whether a page of this origin has come from the server itself."""
    return origin == f"{scheme}://{host}" or (
        origin == f"{scheme}://{_without_default_port(scheme, host.lower())}"
    )


def _without_default_port(scheme: str, host: str) -> str:
    return host.removesuffix(f":{_DEFAULT_PORTS.get(scheme, '')}")
