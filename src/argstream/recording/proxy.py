"""A proxy in front of a provider: any client talks through it, and every answer is recorded.

::

    with RecordingProxy("https://api.anthropic.com", "recordings") as proxy:
        client = anthropic.Anthropic(base_url=proxy.url)
        ...

Each answer is a file of its own: requests run at once, and a file is what ``argstream watch``,
``argstream replay`` and the mock provider take. The client's key is passed on and never written.
It listens on the loopback interface only.
"""

import re
import threading
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from argstream.errors import UsageError
from argstream.recording._client_side import Handler, ProxyServer
from argstream.recording._exchange import Exchange, Passing
from argstream.recording._tape import Tape
from argstream.recording._upstream import Upstream
from argstream.recording.format import Request, Response
from argstream.recording.writer import Recorder

__all__ = ["Exchange", "RecordingProxy"]

_ONLY_OWNER: Final = 0o700
_LONGEST_NAME: Final = 60


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
        self.with_request = with_request
        self.secrets: Collection[str] = frozenset(secrets)
        self._port = port
        self._on_exchange = on_exchange
        self._server: ProxyServer | None = None
        self._lock = threading.Lock()  # for what follows: each connection has its thread
        self._number = 0
        self._exchanges: list[Exchange] = []

    def start(self) -> Self:
        """Begin to listen; ``with`` does it."""
        if self._server is not None:
            raise UsageError("RecordingProxy: it is running already; stop it first")
        try:
            self.directory.mkdir(mode=_ONLY_OWNER, parents=True, exist_ok=True)
            names = [path.name for path in self.directory.iterdir()]
        except FileExistsError:
            raise UsageError(
                f"{self.directory} is a file: the proxy writes a file for each answer, so give a "
                "directory"
            ) from None
        except OSError as error:
            raise UsageError(f"cannot write to {self.directory}: {error.strerror}") from error
        numbers = [int(found[1]) for name in names if (found := re.match(r"(\d{1,9})-", name))]
        self._number = max(numbers, default=0)
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

    @property
    def is_stopping(self) -> bool:
        """Whether everything is to end now."""
        return self._server is None or self._server.stopping.is_set()

    def open_tape(  # noqa: PLR0913 - all that a recording begins with
        self,
        path: str,
        request: Request,
        response: Response,
        *,
        encoding: str,
        secrets: Collection[str],
        started: float,
    ) -> Tape:
        """Begin a recording under the next number, with a name that tells what it is of."""
        while True:
            with self._lock:
                self._number += 1
                number = self._number
            file = self.directory / f"{number:04}-{_name(path)}.rec"
            try:
                recorder = Recorder(
                    file, request=request, response=response, secrets=secrets, started=started
                )
            except FileExistsError:
                continue  # somebody else writes here too
            return Tape(recorder, file, encoding)

    def tell(self, exchange: Exchange) -> None:
        """Say that an exchange is over."""
        with self._lock:
            self._exchanges.append(exchange)
        if self._on_exchange is not None:
            self._on_exchange(exchange)

    def _pass_on(self, handler: Handler) -> None:
        Passing(handler, self).run()


def _name(path: str) -> str:
    """Make a path a part of a file's name: ``/v1/chat/completions`` is ``chat-completions``."""
    steps = [step for step in path.split("/") if not re.fullmatch(r"v\d+\w*|", step)]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(steps)).strip("-.")
    return plain[-_LONGEST_NAME:].lstrip("-.") or "answer"
