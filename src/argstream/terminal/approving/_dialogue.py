"""One question to a person at a terminal, from its first row to the decision."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self, TypeAlias, runtime_checkable

from argstream.decisions import Approval, Approve, Deny
from argstream.errors import UsageError
from argstream.events import ApprovalRequested
from argstream.terminal.approving._attention import Attention
from argstream.terminal.approving._documents import Documents
from argstream.terminal.approving._editor import EditorFailed, edit, editor_command
from argstream.terminal.approving._keyboard import Keyboard
from argstream.terminal.approving._line_editor import LineEditor
from argstream.terminal.approving._prompts import Prompt, remaining
from argstream.terminal.approving._questions import (
    HELP,
    always_prompt,
    confirm_prompt,
    main_prompt,
    mend_prompt,
    reason_prompt,
    view_heading,
)
from argstream.terminal.approving._readable_json import NotReadable, same
from argstream.terminal.approving.changes import argument_changes
from argstream.terminal.spans import Line, Span, line

__all__ = ["Check", "Dialogue", "Place", "View"]

Check: TypeAlias = Callable[[str, Approval], None]
"""Raises UsageError if a decision on a call cannot be taken."""
View: TypeAlias = Callable[[str, Mapping[str, Any]], list[Line]]
"""Shows all arguments of a tool's call."""

_UNCHANGED: Final = "Nothing was changed. (An editor in a window must wait: code --wait.)"
_SHOW: Final = ("v", "?")
"""Keys after which one goes on with the question at once."""


@runtime_checkable
class Place(Protocol):
    """Where somebody is asked: what we need of a live terminal."""

    def say(self, *lines: Line) -> None:
        """Commit lines of ours."""

    def ask(self, tail: Callable[[float, int, int], list[Line]] | None) -> None:
        """Have something stand at the bottom; None: nothing any more."""

    def suspended(self) -> AbstractContextManager[object]:
        """Give the terminal to somebody else."""


class Dialogue:
    """Asks about one call. Use it with ``with``: the question is then taken from the screen."""

    def __init__(  # noqa: PLR0913 - all of it is needed, by name
        self,
        request: ApprovalRequested,
        place: Place,
        keyboard: Keyboard,
        *,
        check: Check | None,
        view: View,
        position: Callable[[], str],
    ) -> None:
        self._request = request
        self._place = place
        self._keyboard = keyboard
        self._check = check
        self._view = view
        self._position = position
        self._prompt: Prompt | None = None
        self._attention = Attention()
        self._folder: TemporaryDirectory[str] | None = None
        self._documents: Documents | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._prompt = None
        with suppress(UsageError):  # the terminal was closed before
            self._place.ask(None)
        if self._folder is not None:
            self._folder.cleanup()

    async def decision(self) -> Approval:
        """Ask until there is one."""
        hint, at_once = "", False
        while True:
            prompt = main_prompt(self._request, was_edited=self._documents is not None, hint=hint)
            key = await self._choice(prompt, at_once=at_once)
            answer = await self._answer(key)
            if not isinstance(answer, str):
                return answer
            # Who typed something else just before must look up first.
            hint, at_once = answer, key in _SHOW

    async def _answer(self, key: str) -> Approval | str:
        """Do what a key says; a string is a hint, and the question stands as before."""
        match key:
            case "y":
                return self._approval()
            case "n":
                return Deny()
            case "d":
                return await self._reason()
            case "a":
                return await self._always()
            case "e":
                return await self._edited()
            case "v":
                whole = self._view(self._request.name, self._request.arguments)
                self._place.say(view_heading(self._request), *whole)
            case _:
                self._place.say(*HELP)
        return ""

    def _approval(
        self,
        arguments: Mapping[str, Any] | None = None,
        always: Literal["session", "rule"] | None = None,
    ) -> Approve:
        return Approve(arguments=arguments, always=always, digest=self._request.digest)

    async def _always(self) -> Approval | str:
        key = await self._choice(always_prompt(self._request), at_once=True)
        if key == "esc":
            return ""
        return self._approval(always="rule" if key == "r" else "session")

    async def _reason(self) -> Approval | str:
        """Have somebody type why not."""
        entry = LineEditor()
        self._show(reason_prompt(self._request, entry))
        while True:
            for key in await self._keyboard.read():
                if key.kind == "escape":
                    return ""
                if key.kind == "enter":
                    return Deny(entry.text.strip())
                entry.take(key)

    # Edits

    async def _edited(self) -> Approval | str:
        """Have somebody change the arguments."""
        documents = self._made_documents()
        key, decision = "e", None
        while key == "e":
            try:
                await self._run_editor(documents)
                decision = self._read_edit(documents)
            except EditorFailed as failure:
                return f"{failure}."
            except (NotReadable, UsageError) as problem:
                key = await self._choice(mend_prompt(str(problem)))
                continue
            if decision is None:
                return _UNCHANGED
            key = await self._choice(confirm_prompt(self._request))
        if key == "n":
            return Deny()
        return decision if key == "y" and decision is not None else ""

    def _read_edit(self, documents: Documents) -> Approve | None:
        """Read what was typed, and show what differs; None if nothing does."""
        arguments = documents.read()
        if same(arguments, self._request.arguments):
            return None
        decision = self._approval(arguments)
        if self._check is not None:
            self._check(self._request.call_id, decision)
        heading = line(Span("Your changes:", "strong"), margin=(Span("  "),))
        self._place.say(heading, *argument_changes(self._request.arguments, arguments))
        return decision

    def _made_documents(self) -> Documents:
        """Give the files of this question; what was typed before is still there."""
        if self._documents is None:
            # Nobody else may look into it; what an editor leaves there is its own business.
            self._folder = TemporaryDirectory(prefix="argstream-", ignore_cleanup_errors=True)
            self._documents = Documents(Path(self._folder.name), self._request.arguments)
        return self._documents

    async def _run_editor(self, documents: Documents) -> None:
        command = editor_command(os.environ)
        with self._keyboard.left(), self._place.suspended():
            await edit(command, documents.paths, self._keyboard.file)

    # The screen and the keys

    async def _choice(self, prompt: Prompt, *, at_once: bool = False) -> str:
        """Wait for a key that is one of the prompt's."""
        self._attention = Attention(at_once=at_once)
        if not at_once:
            self._keyboard.flush()
        self._show(prompt)
        while True:
            keys, now = await self._keyboard.read(), time.monotonic()
            is_alone = not await self._keyboard.is_more_coming()
            answer = self._attention.answer(keys, prompt.keys, now, is_alone=is_alone)
            if answer.key:
                return answer.key
            self._show(replace(prompt, hint=answer.hint))

    def _show(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self._place.ask(self._tail)

    def _tail(self, _now: float, columns: int, rows: int) -> list[Line]:
        """Give the rows of the question; called by whoever paints."""
        prompt = self._prompt
        if prompt is None:
            return []
        self._attention.asked_for(time.monotonic())
        parts = [self._position()]
        if self._request.expires_at is not None:
            parts.append(remaining(self._request.expires_at - time.time()))
        return prompt.lines(columns, rows, " · ".join(filter(None, parts)))
