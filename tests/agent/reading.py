"""A turn of the model while it is read, as the runner reads it, but without waiting."""

from argstream.agent._listening import Listening
from argstream.agent._toolbox import Toolbox
from argstream.assembly import Assembler
from argstream.events import Event, StreamFailed
from tests.agent.chance import Turn


class Stream:
    """The events of a turn, one after the other."""

    def __init__(self, turn: Turn, tools: Toolbox, assembler: Assembler) -> None:
        self.assembler = assembler
        self.listening = Listening(tools)
        self.is_left = False
        """Whether nobody wants to know the rest."""
        self._turn = turn
        self._payloads = iter(turn.payloads)
        self._events: list[Event] = []
        self._has_ended = False

    def next_event(self) -> Event | None:
        """Give the next event; None when there are no more."""
        while not self._events:
            if self._has_ended:
                return None
            payload = next(self._payloads, None)
            if payload is not None:
                self._events += self.assembler.feed(payload)
            elif self._turn.raises:
                self._events += self.assembler.abort("truncated", "the source failed")
                self.listening.fail(StreamFailed("overloaded", "Too much"))
            else:
                self._events += self.assembler.close()
            self._has_ended = payload is None or self.assembler.stopped
        return self._events.pop(0)
