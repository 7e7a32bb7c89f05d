"""The sockets that a server listens on, and whether anybody else can reach them."""

import contextlib
import errno
import os
import socket
from ipaddress import ip_address
from typing import Final

from argstream.errors import UsageError

__all__ = ["is_loopback", "listen", "room_for"]

_SEND_BUFFER: Final = 128 * 1024
_BACKLOG: Final = 2048
_TRIES: Final = 20  # to find a port that is free for all addresses of a name

_Address = tuple[socket.AddressFamily, str]


def listen(host: str, port: int, *, only_loopback: bool) -> list[socket.socket]:
    """Listen on all addresses of a host, on the same port; 0 is one that is free.

    A name is looked up once: what was checked is what is listened on.
    """
    if not 0 <= port <= 65535:
        raise UsageError(f"{port} is no port: take one from 1 to 65535, or 0 for one that is free")
    addresses = _resolve(host)
    if only_loopback and not all(is_loopback(address) for _, address in addresses):
        raise UsageError(
            f"{host or 'all addresses'!r} is reachable from other machines: set a token "
            "(ARGSTREAM_TOKEN, or token=… in Python), which clients send as a Bearer token, or "
            "listen on 127.0.0.1"
        )
    for _ in range(_TRIES if port == 0 else 1):
        sockets = _listen_on(addresses, host, port)
        if sockets:
            return sockets
    raise _taken(host, port)


def is_loopback(address: str) -> bool:
    """Tell whether an address can be reached from the same machine only."""
    return ip_address(address).is_loopback


def room_for(connections: int) -> int:
    """Have the system allow as many open files as it does, and say how many connections that is.

    A quarter is left for what else a server opens: its store, its providers, its tools.
    """
    if os.name != "posix":
        return connections
    import resource  # noqa: PLC0415 - other systems do not have it

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS names a limit that it does not grant: then it stays as it is.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return connections if soft == resource.RLIM_INFINITY else min(connections, soft - soft // 4)


def _resolve(host: str) -> list[_Address]:
    try:
        found = socket.getaddrinfo(
            host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise UsageError(f"there is no host {host!r} to listen on: {error}") from None
    return list(dict.fromkeys((family, str(address[0])) for family, *_, address in found))


def _listen_on(addresses: list[_Address], host: str, port: int) -> list[socket.socket]:
    """Listen on each; on none if a port that was free for the first is taken for another."""
    sockets: list[socket.socket] = []
    try:
        for family, address in addresses:
            taken = sockets[0].getsockname()[1] if sockets else port
            listener = _listen_at(family, address, taken)
            if listener is not None:
                sockets.append(listener)
    except OSError as error:
        for listener in sockets:
            listener.close()
        if error.errno != errno.EADDRINUSE:
            raise UsageError(
                f"cannot listen on port {port} of {host!r}: {error.strerror}"
            ) from None
        if port:
            raise _taken(host, port) from None
        return []
    if not sockets:
        raise UsageError(f"this machine has no address {host!r} to listen on")
    return sockets


def _listen_at(family: socket.AddressFamily, address: str, port: int) -> socket.socket | None:
    """Listen at an address; None if this machine does not have it, such as one of IPv6."""
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return None
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Each connection has the same. By itself the kernel keeps megabytes for one who does not
        # read, and a thousand of these would be gigabytes.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        # At once: two may be bound to a port, as long as neither listens.
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRNOTAVAIL:
            return None
        raise
    listener.setblocking(False)  # noqa: FBT003 - as it is called
    return listener


def _taken(host: str, port: int) -> UsageError:
    return UsageError(
        f"port {port} of {host!r} is taken: something else listens there; take another, or 0 for "
        "one that is free"
    )
