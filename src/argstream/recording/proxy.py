"""A proxy in front of a provider: any client talks through it, and every answer is recorded.

::

    with RecordingProxy("https://api.anthropic.com", "recordings") as proxy:
        client = anthropic.Anthropic(base_url=proxy.url)
        ...

Each answer is a file of its own: requests run at once, and a file is what ``argstream watch``,
``argstream replay`` and the mock provider take. The client's key is passed on and never written.
It listens on the loopback interface only.
"""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from argstream.errors import UsageError
from argstream.recording._client_side import Handler, ProxyServer
from argstream.recording._exchange import Exchange, Passing, Proxy
from argstream.recording._numbered_files import NumberedFiles
from argstream.recording._upstream import Upstream

__all__ = ["Exchange", "RecordingProxy"]


class RecordingProxy:
    """Passes requests on to a provider, and writes each answer into a file of a directory.

    ``secrets`` are never written, besides the key that a request has. ``with_request`` writes the
    body of each request too: it holds prompts. ``on_exchange`` is called when an exchange is over,
    in the thread that passed it on.
    """

    def __init__(  # noqa: PLR0913 - all but two have a name and a default
        self,
        upstream: str,
        directory: str | Path,
        *,
        port: int = 0,
        with_request: bool = False,
        secrets: Iterable[str] = (),
        on_exchange: Callable[[Exchange], None] | None = None,
    ) -> None:
        self.upstream = Upstream(upstream)
        self.directory = Path(directory)
        self._files = NumberedFiles(self.directory)
        self._proxy = Proxy(
            self.upstream, self._files, frozenset(secrets), with_request, tell=self._tell
        )
        self._port = port
        self._on_exchange = on_exchange
        self._server: ProxyServer | None = None
        self._lock = threading.Lock()  # for what follows: each connection has its thread
        self._exchanges: list[Exchange] = []

    def start(self) -> Self:
        """Begin to listen; ``with`` does it."""
        if self._server is not None:
            raise UsageError("RecordingProxy: it is running already; stop it first")
        self._files.prepare()
        self._server = ProxyServer(self._port, self._pass_on)
        return self

    def stop(self) -> None:
        """End at once, also in the middle of an answer, whose recording then says so."""
        server = self._server
        if server is not None:
            server.stop()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address for clients, in place of the provider's."""
        if self._server is None:
            raise UsageError("RecordingProxy: it has no address until it runs; use `with`")
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def exchanges(self) -> list[Exchange]:
        """Every exchange that is over, in the order in which they ended."""
        with self._lock:
            return list(self._exchanges)

    def _tell(self, exchange: Exchange) -> None:
        with self._lock:
            self._exchanges.append(exchange)
        if self._on_exchange is not None:
            self._on_exchange(exchange)

    def _pass_on(self, handler: Handler) -> None:
        Passing(handler, self._proxy).run()
