"""How long runs collect what merely grows before they write it: longer, the more there are.

Each write costs the store, all who follow the run and all who watch those. If some hundred runs go
on in one event loop, each piece that a model writes cannot have one of its own. What anything
follows from is never held up by this.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from anyio.lowlevel import RunVar

__all__ = ["Pace", "pace_here"]

_SECONDS_PER_RUN: Final = 0.0003
_LONGEST: Final = 0.15
_SHORTEST: Final = 0.005
"""Less than this is not worth a wait."""


class Pace:
    """Counts the runs of one event loop."""

    def __init__(self) -> None:
        self._runs = 0
        self.pause = 0.0
        """The seconds between two writes of a run, if these can wait."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count a run, for as long as it goes on."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        self._runs += change
        pause = min(self._runs * _SECONDS_PER_RUN, _LONGEST)
        self.pause = pause if pause >= _SHORTEST else 0.0


_pace: RunVar[Pace] = RunVar("argstream_pace")


def pace_here() -> Pace:
    """Give that of the event loop that runs."""
    try:
        return _pace.get()
    except LookupError:
        pace = Pace()
        _pace.set(pace)
        return pace
