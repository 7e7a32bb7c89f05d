"""What a view is made of: each part shows some of the arguments."""

from typing import Protocol

from argstream.terminal.looks.view import ArgumentEvent
from argstream.terminal.spans import Line

__all__ = ["Part"]


class Part(Protocol):
    """Shows arguments that it has a place for. What is final it writes to the lines of the view."""

    def take(self, event: ArgumentEvent) -> None:
        """Follow what an argument of this part becomes."""
        ...

    def growing(self, rows: int) -> list[Line]:
        """Give the newest of what is not final."""
        ...

    def finish(self) -> None:
        """Write out what was held back: no more comes."""
        ...
