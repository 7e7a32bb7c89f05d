"""Who fetches for the readers of a sync stream: whoever waits.

What a source gives comes in batches, the events of one item. They are fetched only while somebody
waits whose question has no answer, so a slow reader holds the provider up, as a slow loop does.
Events that were fetched for a reader are kept for a loop over the events, if there is one, and for
nobody else.
"""

from collections import deque
from collections.abc import Generator
from types import GeneratorType
from typing import TypeVar, cast

from argstream.errors import UsageError
from argstream.events import Event
from argstream.readers._progress import Progress
from argstream.readers._questions import Question

__all__ = ["Pump"]

Answer = TypeVar("Answer")


class Pump:
    """Fetches for whoever waits."""

    def __init__(self, batches: Generator[list[Event], None, None], progress: Progress) -> None:
        self._batches = cast("GeneratorType[list[Event], None, None]", batches)
        self.progress = progress
        self._held: deque[list[Event]] | None = None  # for a loop over the events, if there is one

    def events(self) -> Generator[Event, None, None]:
        """Give every event once, also those that were fetched for a reader in the meantime."""
        progress = self.progress
        held = self._held = deque()
        try:
            for batch in self._batches:
                yield from batch
                while held:
                    yield from held.popleft()
        except ValueError:
            self._refuse_threads()
            raise
        finally:
            if not self._batches.gi_running:
                self.close()
        if (failure := progress.failure) is not None:  # it was raised to a reader
            raise failure

    def answer(self, question: Question[Answer]) -> Answer:
        """Fetch until the question can be answered."""
        while not question.ready():
            self._fetch()
        return question.take()

    def close(self) -> None:
        """Fetch no more."""
        self._batches.close()
        self.progress.stop()

    def _fetch(self) -> None:
        progress = self.progress
        if progress.ended:
            raise AssertionError("at the end of a stream every question has an answer")
        try:
            batch = next(self._batches, None)
        except BaseException as error:
            if isinstance(error, ValueError):
                self._refuse_threads()
            progress.ended = True
            raise
        if batch is None:
            progress.ended = True
            return
        if self._held is not None:
            self._held.append(batch)

    def _refuse_threads(self) -> None:
        if self._batches.gi_frame is not None:  # not it has failed: it could not be asked
            raise UsageError("another thread fetches: read a stream in one thread") from None
