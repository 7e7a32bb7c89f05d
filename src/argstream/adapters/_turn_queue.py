"""Turns that a stream interleaves, told one after the other.

Assembly has one open turn for each speaker, and two responses of one session, or two nodes of one
graph, are not speakers that a call has started. So the first one is told as it comes, and the
others wait until it is over: later than they could be, but each whole, with its own verdicts.
"""

from collections.abc import Hashable

from argstream.deltas import CallClosed, CallOpened, Delta

__all__ = ["TurnQueue"]


class TurnQueue:
    """Which turn is told now, and what waits for its end."""

    def __init__(self) -> None:
        self.live: Hashable = None
        """The turn whose deltas are told as they come; None between two turns."""
        self._waiting: dict[Hashable, list[Delta]] = {}
        self._over: set[Hashable] = set()  # of those that wait
        self._between: list[Delta] = []

    def say(self, turn: Hashable, deltas: list[Delta]) -> list[Delta]:
        """Tell this of a turn, now or when it is its time."""
        if self.live is None:
            self.live = turn
        if turn == self.live:
            return deltas
        self._waiting.setdefault(turn, []).extend(deltas)
        return []

    def end(self, turn: Hashable) -> list[Delta]:
        """Take note that a turn is over, and give what has waited for that."""
        if turn != self.live:
            if turn in self._waiting:
                self._over.add(turn)
            return []
        self.live = None
        deltas: list[Delta] = []
        for waiting in [turn for turn in self._waiting if turn in self._over]:
            deltas += self._waiting.pop(waiting)
        self._over.clear()
        deltas += self._between
        self._between = []
        if self._waiting:
            self.live = next(iter(self._waiting))
            deltas += self._waiting.pop(self.live)
        return deltas

    def say_between(self, deltas: list[Delta]) -> list[Delta]:
        """Tell what belongs to no turn when none is open."""
        if self.live is None:
            return deltas
        self._between += deltas
        return []

    def interrupt(self) -> None:
        """Take note that something was lost: no call that waits and is open can be trusted."""
        for turn, deltas in self._waiting.items():
            if turn not in self._over:
                closed = {delta.key for delta in deltas if isinstance(delta, CallClosed)}
                deltas += [
                    CallClosed(delta.key, cut=True)
                    for delta in deltas
                    if isinstance(delta, CallOpened) and delta.key not in closed
                ]

    def close(self) -> list[Delta]:
        """Give all that still waits, because nothing more comes."""
        # What was said beside a turn that never ended may be the reason why it did not.
        deltas, self._between = self._between, []
        for waiting in self._waiting.values():
            deltas += waiting
        self._waiting.clear()
        return deltas
