"""What the mock has said, so that it can tell whether it comes back as it was."""

from collections.abc import Collection
from dataclasses import dataclass

from argstream.testing._mock_wire import Turn
from argstream.testing.script import CallTool, Say, Think

__all__ = ["Memory", "ServedTurn"]


@dataclass(frozen=True)
class ServedTurn:
    """An answer, with the ids of its calls. Those that were damaged on their way are not kept."""

    turn: Turn
    call_ids: tuple[str, ...]
    """Of each part; what is not a call has one that nobody has seen."""

    @property
    def said(self) -> str:
        """All of its text."""
        return "".join(part.text for part in self.turn.reply.parts if isinstance(part, Say))

    @property
    def thinks(self) -> bool:
        """Whether there is a thought in it."""
        return any(isinstance(part, Think) for part in self.turn.reply.parts)

    def thoughts(self, end: int | None = None) -> list[Think]:
        """Give the thoughts among its parts, or among the first of them."""
        return [part for part in self.turn.reply.parts[:end] if isinstance(part, Think)]

    def place_of_last(self, call_ids: Collection[str]) -> int:
        """Say how many parts come before the last of these calls, 0 if there is none of them."""
        parts = zip(self.turn.reply.parts, self.call_ids, strict=True)
        places = [
            place
            for place, (part, id_) in enumerate(parts)
            if isinstance(part, CallTool) and id_ in call_ids
        ]
        return max(places, default=0)


class Memory:
    """The answers of one mock. Several conversations may go on at once: calls are told by ids."""

    def __init__(self) -> None:
        self._by_call: dict[tuple[str, str], list[ServedTurn]] = {}
        self._by_text: dict[tuple[str, str], list[ServedTurn]] = {}
        self.call_ids: set[str] = set()
        """Of all calls so far, as OpenAI's APIs name them."""

    def remember(self, protocol: str, turn: Turn, *, is_damaged: bool) -> None:
        """Take note of an answer that is about to be sent."""
        ids = tuple(turn.ids("toolu_" if protocol == "anthropic" else "call_"))
        calls = [
            id_
            for part, id_ in zip(turn.reply.parts, ids, strict=True)
            if isinstance(part, CallTool)
        ]
        self.call_ids.update(calls)
        served = ServedTurn(turn, ids)
        if is_damaged or not served.thinks:
            return
        for id_ in calls:
            self._by_call.setdefault((protocol, id_), []).append(served)
        if not calls:
            self._by_text.setdefault((protocol, served.said), []).append(served)

    def calling(self, protocol: str, call_ids: Collection[str]) -> list[ServedTurn]:
        """Give the answers with a thought that made one of these calls."""
        return [turn for id_ in call_ids for turn in self._by_call.get((protocol, id_), ())]

    def saying(self, protocol: str, text: object) -> list[ServedTurn]:
        """Give the answers with a thought, and without a call, that said this."""
        return self._by_text.get((protocol, text), []) if isinstance(text, str) else []
