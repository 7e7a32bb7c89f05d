"""The provider behind the recording proxy: its address, and connections to it."""

import http.client
import socket
import ssl
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
        self.is_secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = port
        self.netloc = parts.netloc
        self.path = parts.path.rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc}{self.path}"

    @cached_property
    def _certificates(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def connect(self) -> tuple[http.client.HTTPConnection, socket.socket]:
        """Open a connection. Once it is open it may be silent for as long as a model thinks."""
        connection = (
            http.client.HTTPSConnection(
                self.host, self.port, timeout=_CONNECT_SECONDS, context=self._certificates
            )
            if self.is_secure
            else http.client.HTTPConnection(self.host, self.port, timeout=_CONNECT_SECONDS)
        )
        connection.connect()
        used: socket.socket = connection.sock
        used.settimeout(None)
        return connection, used
