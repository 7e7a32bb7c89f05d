"""The provider behind the recording proxy: its address, and connections to it."""

import http.client
import re
import socket
import ssl
from collections.abc import Callable
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from argstream.errors import UsageError

__all__ = ["Upstream"]

_CONNECT_SECONDS: Final = 30.0


class Upstream:
    """A provider's address, http or https, with or without a path that goes before all paths."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise UsageError("the proxy: this is no URL; write https://api.example.com") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                "the proxy stands before a provider: give its URL, such as https://api.example.com"
            )
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise UsageError(
                "the proxy: give the URL without a key, a query or a fragment; the client sends "
                "its key as always, and the proxy passes it on"
            )
        if not _can_be_asked_for(parts.hostname) or re.search("[^!-~]", parts.path):
            raise UsageError(
                "the proxy: there can be no host of this name, or no such path; write "
                "https://api.example.com"
            )
        self.is_secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = port or (443 if self.is_secure else 80)
        ascii_only = parts.netloc.isascii()
        self.netloc = parts.netloc if ascii_only else parts.netloc.encode("idna").decode()
        self.path = parts.path.rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc}{self.path}"

    @cached_property
    def _certificates(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def connect(self, use: Callable[[socket.socket], None]) -> http.client.HTTPConnection:
        """Open a connection. Once it is open it may be silent for as long as a model thinks.

        Each socket is told to ``use`` before it waits for anything, so that somebody else can end
        that.
        """
        connection = http.client.HTTPConnection(self.host, self.port)
        connection.sock = used = self._connected(use)
        used.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.is_secure:
            try:
                connection.sock = used = self._certificates.wrap_socket(
                    used, server_hostname=self.host, do_handshake_on_connect=False
                )
                use(used)
                used.do_handshake()
            except OSError:
                used.close()
                raise
        used.settimeout(None)
        return connection

    def _connected(self, use: Callable[[socket.socket], None]) -> socket.socket:
        """Try one address after the other."""
        failure = OSError("it has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM
        ):
            used = socket.socket(family, kind, protocol)
            used.settimeout(_CONNECT_SECONDS)
            use(used)
            try:
                used.connect(address)
            except OSError as error:
                used.close()
                failure = error
            else:
                return used
        raise failure


def _can_be_asked_for(host: str) -> bool:
    """Say whether the name service can be asked for this name, whatever it may say."""
    try:
        host.encode("idna")
    except UnicodeError:  # a part of it is empty, or too long
        return False
    return re.fullmatch(r"[\w.:%-]+", host) is not None
