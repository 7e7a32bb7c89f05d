"""How long something takes, if its beginning was seen."""

from argstream.terminal.words import duration

__all__ = ["Timer"]


class Timer:
    """Runs from the beginning of something to its end."""

    def __init__(self, began: float | None) -> None:
        """Begin; None is for what began nobody knows when."""
        self._began = began
        self._ended: float | None = None

    def stop(self, now: float) -> None:
        """Stop: it is over."""
        self._ended = now

    def took(self, now: float) -> float | None:
        """Give the seconds so far, or in all."""
        if self._began is None:
            return None
        return (now if self._ended is None else self._ended) - self._began

    def said(self, now: float, before: str = "") -> list[str]:
        """Say it, if it is known."""
        took = self.took(now)
        return [] if took is None else [before + duration(took)]
