"""A client that hangs up ends the request: somebody would have to pay for the rest."""

import selectors
import socket
import threading
from types import TracebackType
from typing import Final, Self

from argstream.recording._loopback import shut_down

__all__ = ["HangUpWatch"]

# A client may close when it has read the last event, before the end that follows it is passed on.
_GRACE_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.2
# Not one that has a descriptor of its own: there is a watch for each request.
_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)


class HangUpWatch:
    """Watches a client that waits, and ends the provider's side when it goes away.

    Whoever only passes bytes on would see that with the next of them, and a model may think long.
    """

    def __init__(self, client: socket.socket, upstream: socket.socket) -> None:
        self._client = client
        self._upstream = upstream
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="hang-up watch")
        self.has_ended = False
        """Whether the client went away, and the provider's side was ended for that."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        with _Selector() as selector:
            selector.register(self._client, selectors.EVENT_READ)
            while not self._is_over.is_set():
                if not selector.select(_POLL_SECONDS):
                    continue
                # Or else it sends its next request already, so it still wants this answer.
                if self._has_hung_up() and not self._is_over.wait(_GRACE_SECONDS):
                    self.has_ended = True
                    shut_down(self._upstream)
                return

    def _has_hung_up(self) -> bool:
        try:
            return self._client.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True
