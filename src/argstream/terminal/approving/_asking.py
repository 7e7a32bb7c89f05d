"""A question on the screen, until a key answers it.

Who lets a call run must have seen what runs. So it is said again, directly above the question,
whenever something else may stand there: because others ask at the same time, because a tool that
runs has said something, or because the terminal was somebody else's. That is looked at when the
question comes, and once more when a key says yes; then nothing else comes in between any more.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Final, NamedTuple, Protocol, runtime_checkable

from argstream.errors import UsageError
from argstream.terminal.approving._attention import answer_of
from argstream.terminal.approving._keyboard import Keyboard
from argstream.terminal.approving._prompts import Prompt, remaining
from argstream.terminal.approving._turns import Turn
from argstream.terminal.spans import Line

__all__ = ["Asking", "Place", "Subject"]

_LOOK_AGAIN: Final = "Something else came in between: look again, then press it again."
_SETTLING_SECONDS: Final = 0.2
"""How long a request may take to be shown by whoever follows the run."""


@runtime_checkable
class Place(Protocol):
    """Where somebody is asked: what we need of a live terminal."""

    def say(self, *lines: Line, about: object = None) -> None:
        """Commit lines of ours."""

    def is_last(self, about: object) -> bool:
        """Tell whether what was last committed is about this."""

    def ask(
        self, tail: Callable[[float, int, int], list[Line]] | None, *, alone: bool = False
    ) -> None:
        """Have something stand at the bottom, with nothing committed meanwhile; None: nothing."""

    def asked_since(self) -> float | None:
        """Tell since when that can be seen; to ask anew is to begin anew."""

    def tail_size(self) -> tuple[int, int]:
        """Give the columns and rows that there are for it."""

    def suspended(self) -> AbstractContextManager[object]:
        """Give the terminal to somebody else."""


class Subject(NamedTuple):
    """What is decided on."""

    about: object
    """By what the place knows it."""
    lines: Callable[[], list[Line]]
    """All that there is to see of it."""


class Asking:
    """Asks one thing after the other, in a turn that one has."""

    def __init__(
        self, place: Place, keyboard: Keyboard, turn: Turn, expires_at: float | None
    ) -> None:
        self._place = place
        self._keyboard = keyboard
        self._turn = turn
        self._expires_at = expires_at
        self._prompt: Prompt | None = None
        self._explained: Prompt | None = None  # said above, since it did not fit
        self._is_alone = False

    def end(self) -> None:
        """Take the question from the screen."""
        self._prompt = None
        with suppress(UsageError):  # the terminal was closed before
            self._place.ask(None)

    async def settle(self) -> None:
        """Wait a moment for what comes at the same time: the request, and others beside it."""
        await asyncio.sleep(max(self._turn.since + _SETTLING_SECONDS - time.monotonic(), 0))

    async def choose(self, prompt: Prompt, subject: Subject | None = None) -> str:
        """Wait for a key that is one of the prompt's."""
        before, hint = self._turn.key_before, prompt.hint
        self._keyboard.flush()
        self._say_missing(prompt, subject)
        while True:
            self.show(replace(prompt, hint=hint))
            keys, now = await self._keyboard.read(), time.monotonic()
            if not keys:  # whoever had the terminal may have written anything
                self._say_missing(prompt, subject, is_any_seen=False)
                continue
            answer = answer_of(
                keys,
                prompt.keys,
                self._stood(prompt, now),
                before=before,
                is_alone=not await self._keyboard.is_more_coming(),
            )
            before, hint = "", answer.hint  # who goes on has seen this one
            if answer.key and prompt.runs(answer.key) and self._say_missing(prompt, subject):
                before, hint, self._is_alone = answer.key, _LOOK_AGAIN, True
            elif answer.key:
                self._turn.answered(answer.key)
                return answer.key

    def _stood(self, prompt: Prompt, now: float) -> float | None:
        """Give for how long the question can have been read."""
        since = self._place.asked_since()
        columns, _ = self._place.tail_size()
        return None if since is None or not prompt.can_be_read(columns) else now - since

    def show(self, prompt: Prompt) -> None:
        """Let it stand at the bottom."""
        self._prompt = prompt
        self._place.ask(self._tail, alone=self._is_alone)

    def explain(self, prompt: Prompt, about: object = None) -> bool:
        """Say above what does not fit below, once; tell whether that was to be done."""
        bare = replace(prompt, hint="")
        if bare == self._explained or prompt.fits(*self._place.tail_size()):
            return False
        self._explained = bare
        self._place.say(*prompt.paragraphs(), about=about)
        return True

    def _say_missing(
        self, prompt: Prompt, subject: Subject | None, *, is_any_seen: bool = True
    ) -> bool:
        """Say what must be seen to answer, and is not; tell whether there was such a thing."""
        if not is_any_seen:
            self._explained = None
        if subject is None:
            return self.explain(prompt)
        is_missing = not (is_any_seen and self._place.is_last(subject.about))
        if is_missing:
            self._place.say(*subject.lines(), about=subject.about)
        return self.explain(prompt, subject.about) or is_missing

    def _tail(self, _now: float, columns: int, rows: int) -> list[Line]:
        """Give the rows of the question; called by whoever paints."""
        prompt = self._prompt
        if prompt is None:
            return []
        parts = [self._turn.position]
        if self._expires_at is not None:
            parts.append(remaining(self._expires_at - time.time()))
        return prompt.lines(columns, rows, " · ".join(filter(None, parts)))
