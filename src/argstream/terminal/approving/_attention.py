"""Whether a key is an answer to what stands on the screen, or was meant for something else. Pure.

What was typed before a question could be seen must not answer it; nor what is pasted or typed as a
word, nor the pieces of a key that sends several characters, nor the same key for the question
before, held a little too long. So a key counts if it came alone, after the question has stood there
for a moment in which nothing else came.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from argstream.terminal.approving._keys import Key

__all__ = ["ANY_KEY", "Answer", "answer_of"]

ANY_KEY: Final = "any"
_QUIET_SECONDS: Final = 0.3
_WARY_SECONDS: Final = 1.0
"""If it may have been meant for the question before; keys begin to repeat after 0.7 at most."""
_SEVERAL: Final = "Several keys at once, or a paste, are no answer: press one."
_TOO_SOON: Final = "That was quicker than you can read: press it again."


class Answer(NamedTuple):
    """What a key says, or else why it says nothing."""

    key: str = ""
    """In lower case; ``esc`` for Escape."""
    hint: str = ""


def answer_of(
    keys: Sequence[Key],
    choices: Sequence[str],
    stood: float | None,
    *,
    before: str = "",
    is_alone: bool = True,
) -> Answer:
    """Say what was answered by keys that came at the same time.

    ``stood`` is for how many seconds the question has stood on the screen, with nothing else typed;
    None: not at all. ``before`` is the key that answered another question just now, or ``ANY_KEY``
    if that one has disappeared. ``is_alone``: no key has followed on the heels of these.
    """
    hint = _hint(keys, choices) if is_alone else _SEVERAL
    if hint:
        return Answer(hint=hint)
    key = _name(keys[0])
    quiet = _WARY_SECONDS if before in (key, ANY_KEY) else _QUIET_SECONDS
    return Answer(hint=_TOO_SOON) if stood is None or stood < quiet else Answer(key)


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
