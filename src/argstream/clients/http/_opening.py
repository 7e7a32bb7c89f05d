"""How an answer begins: whether its first event is an error, in which case there is no answer.

What comes is held back until its first event is whole. That delays nobody, since half an event says
nothing. Comments and pings only keep the connection open, so they are no beginning.
"""

from typing import Final

from argstream.adapters import ProtocolName, UnreadableError, make_adapter
from argstream.deltas import ProviderFailed
from argstream.wire import Broken, Frame, JsonTextDecoder, SseDecoder

__all__ = ["Opening"]

_MOST_BYTES: Final = 1024 * 1024  # of a first event; who sends more is let through
_MOST_BLANK: Final = 16 * 1024  # bytes of white space before it; some send a few to stay connected
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Opening:
    """Takes the first bytes of an answer until it is known what they begin."""

    def __init__(self, protocol: ProtocolName) -> None:
        self._protocol = protocol
        self._decoder: SseDecoder | JsonTextDecoder | None = None
        self._held = bytearray()
        self._known = False
        self.failure: ProviderFailed | None = None
        """The error with which it begins."""
        self.is_blank = False
        """Whether it is nothing but white space, and more of it than anybody needs."""

    @property
    def held(self) -> bytes:
        """All that came."""
        return bytes(self._held)

    def take(self, chunk: bytes) -> bool:
        """Take the next bytes; gives whether it is known now how the answer begins."""
        self._held += chunk
        if self._decoder is None:
            start = self._held.removeprefix(_BYTE_ORDER_MARK).lstrip()
            if not start:
                self.is_blank = len(self._held) > _MOST_BLANK
                return self.is_blank
            is_json = start.startswith((b"{", b"["))
            self._decoder = JsonTextDecoder() if is_json else SseDecoder()
            chunk = bytes(self._held)
        self._look_at(self._decoder.feed(chunk))
        return self._known or len(self._held) > _MOST_BYTES

    def close(self) -> bool:
        """Say that nothing more comes; gives whether there was an event."""
        if self._decoder is not None and not self._known:
            self._look_at(self._decoder.close())
        return self._known

    def _look_at(self, frames: list[Frame | Broken]) -> None:
        first = next((frame for frame in frames if _says_something(frame)), None)
        if first is None or self._known:
            return
        self._known = True
        if isinstance(first, Frame):
            self.failure = _failure_in(first, self._protocol)


def _says_something(frame: Frame | Broken) -> bool:
    return isinstance(frame, Broken) or (bool(frame.data) and frame.event != "ping")


def _failure_in(frame: Frame, protocol: ProtocolName) -> ProviderFailed | None:
    """Give the error that an event is, if it is nothing else."""
    try:
        deltas = make_adapter(protocol).feed(frame.data, frame.event)
    except UnreadableError:
        return None  # who reads the answer says so
    match deltas:
        case [ProviderFailed() as failure]:
            return failure
        case _:  # something came with it that is worth to be seen
            return None
