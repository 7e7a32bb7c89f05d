"""Whether a key is an answer to what stands on the screen, or was meant for something else. Pure.

What was typed before a question could be seen must not answer it; nor what is pasted, nor the
pieces of a key that sends several characters. So a key counts if it came alone, and nothing else
came for a moment before it, since the question was painted. What has been asked for twice has been
painted once: who paints does one after the other, and waits for a terminal that is slow.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from argstream.terminal.approving._keys import Key

__all__ = ["Answer", "Attention"]

_QUIET_SECONDS: Final = 0.3
_SEVERAL: Final = "Several keys at once, or a paste, are no answer: press one."


class Answer(NamedTuple):
    """What a key says, or else why it says nothing."""

    key: str = ""
    """In lower case; ``esc`` for Escape."""
    hint: str = ""


class Attention:
    """Follows one question."""

    def __init__(self, *, at_once: bool = False) -> None:
        """Begin; ``at_once``: the question follows from a key that was just pressed."""
        self._is_asked_for = False
        self._last: float | None = None
        """When it was painted, or when something came that was no answer."""
        self._quiet = 0.0 if at_once else _QUIET_SECONDS

    def asked_for(self, now: float) -> None:
        """Take that somebody is about to paint the question."""
        if self._is_asked_for and self._last is None:
            self._last = now
        self._is_asked_for = True

    def is_given(self, now: float) -> bool:
        """Say whether the question can have been read, and nothing else came since."""
        return self._last is not None and now - self._last >= self._quiet

    def answer(
        self, keys: Sequence[Key], choices: Sequence[str], now: float, *, is_alone: bool = True
    ) -> Answer:
        """Say what was answered by keys that came at the same time."""
        hint = _hint(keys, choices) if is_alone else _SEVERAL
        if not hint and self.is_given(now):
            return Answer(_name(keys[0]))
        if self._last is not None:
            self._last = now
        self._quiet = _QUIET_SECONDS  # what comes next may be the rest of it
        return Answer(hint=hint or "That was quicker than you can read: press it again.")


def _hint(keys: Sequence[Key], choices: Sequence[str]) -> str:
    """Say why this cannot be an answer."""
    if len(keys) > 1 or keys[0].kind == "paste":
        return _SEVERAL
    if keys[0].kind == "enter":
        return "Enter alone is no answer."
    return "" if _name(keys[0]) in choices else "That key is none of these."


def _name(key: Key) -> str:
    if key.kind == "escape":
        return "esc"
    return key.text.lower() if key.kind == "character" else ""
