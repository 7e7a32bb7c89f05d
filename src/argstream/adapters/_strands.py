"""Turns side by side in one stream: responses of one session, or nodes of one graph."""

from collections.abc import Hashable

from argstream.deltas import Delta, SpeakerChanged

__all__ = ["Strands"]


class Strands:
    """Which turns are open, and which of them was spoken of last."""

    def __init__(self) -> None:
        self.speaking: Hashable = None
        self._open: dict[Hashable, None] = {}  # in order

    @property
    def oldest(self) -> Hashable:
        """The turn that has been open for the longest time; None if none is."""
        return next(iter(self._open), None)

    def say(self, turn: Hashable, deltas: list[Delta]) -> list[Delta]:
        """Say this of a turn, which is open from now on."""
        self._open[turn] = None
        return self._switch(turn, deltas)

    def say_last(self, turn: Hashable, deltas: list[Delta]) -> list[Delta]:
        """Say this of a turn, and that it is over."""
        self._open.pop(turn, None)
        return self._switch(turn, deltas)

    def say_between(self, deltas: list[Delta]) -> list[Delta]:
        """Say what belongs to no turn."""
        return self._switch(None, deltas)

    def _switch(self, turn: Hashable, deltas: list[Delta]) -> list[Delta]:
        if turn == self.speaking or not deltas:
            return deltas
        self.speaking = turn
        return [SpeakerChanged(strand=turn), *deltas]
