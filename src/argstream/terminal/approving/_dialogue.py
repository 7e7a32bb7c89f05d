"""One question to a person at a terminal, from its first row to the decision."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

from argstream.decisions import Approval, Approve, Deny
from argstream.errors import UsageError
from argstream.events import ApprovalRequested
from argstream.terminal._readable_json import NotReadable, same
from argstream.terminal.approving._asking import Asking, Place, Subject
from argstream.terminal.approving._documents import Documents
from argstream.terminal.approving._editor import EditorFailed, edit, editor_command
from argstream.terminal.approving._keyboard import Keyboard
from argstream.terminal.approving._line_editor import LineEditor
from argstream.terminal.approving._questions import (
    HELP,
    always_prompt,
    changes_heading,
    confirm_prompt,
    main_prompt,
    mend_prompt,
    reason_prompt,
    view_heading,
)
from argstream.terminal.approving._turns import Turn
from argstream.terminal.argument_changes import argument_changes
from argstream.terminal.spans import Line

__all__ = ["Check", "Dialogue", "View"]

Check: TypeAlias = Callable[[str, Approval], None]
"""Raises UsageError if a decision on a call cannot be taken."""
View: TypeAlias = Callable[[str, Mapping[str, Any]], list[Line]]
"""Shows all arguments of a tool's call."""

_UNCHANGED: Final = "Nothing was changed. (An editor in a window must wait: code --wait.)"


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
        turn: Turn,
    ) -> None:
        self._request = request
        self._place = place
        self._keyboard = keyboard
        self._check = check
        self._view = view
        self._asking = Asking(place, keyboard, turn, request.expires_at)
        self._subject = Subject(request, self._whole)
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
        self._asking.end()
        if self._folder is not None:
            self._folder.cleanup()

    async def decision(self) -> Approval:
        """Ask until there is one."""
        await self._asking.settle()
        hint = ""
        while True:
            prompt = main_prompt(self._request, has_changes=self._has_changes(), hint=hint)
            answer = await self._answer(await self._asking.choose(prompt, self._subject))
            if not isinstance(answer, str):
                return answer
            hint = answer

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
                self._place.say(*self._whole(), about=self._request)
            case _:
                self._place.say(*HELP, about=self._request)  # who asks for it knows what is above
        return ""

    def _whole(self) -> list[Line]:
        """Give the call as it would run, to the last character."""
        whole = self._view(self._request.name, self._request.arguments)
        return [view_heading(self._request), *whole]

    def _approval(
        self,
        arguments: Mapping[str, Any] | None = None,
        always: Literal["session", "rule"] | None = None,
    ) -> Approve:
        return Approve(arguments=arguments, always=always, digest=self._request.digest)

    async def _always(self) -> Approval | str:
        prompt = always_prompt(self._request, has_changes=self._has_changes())
        key = await self._asking.choose(prompt, self._subject)
        if key == "esc":
            return ""
        return self._approval(always="rule" if key == "r" else "session")

    async def _reason(self) -> Approval | str:
        """Have somebody type why not."""
        entry = LineEditor()
        prompt = reason_prompt(self._request, entry)
        self._asking.explain(prompt)
        self._asking.show(prompt)
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
        key, decision = "e", None
        while key == "e":
            try:
                documents = self._made_documents()
                await self._run_editor(documents)
                decision = self._read_edit(documents)
            except EditorFailed as failure:
                return f"{failure}."
            except (NotReadable, UsageError) as problem:
                key = await self._asking.choose(mend_prompt(str(problem)))
                continue
            if decision is None:
                return _UNCHANGED
            key = await self._asking.choose(confirm_prompt(self._request), self._changes(decision))
        if key == "n":
            return Deny()
        return decision if key == "y" and decision is not None else ""

    def _read_edit(self, documents: Documents) -> Approve | None:
        """Read what was typed; None if nothing differs."""
        arguments = documents.read()
        if same(arguments, self._request.arguments):
            return None
        decision = self._approval(arguments)
        if self._check is not None:
            self._check(self._request.call_id, decision)
        return decision

    def _changes(self, decision: Approve) -> Subject:
        """Give what differs."""
        changes = argument_changes(self._request.arguments, decision.arguments or {})
        return Subject(decision, lambda: [changes_heading(), *changes])

    def _has_changes(self) -> bool:
        return self._documents is not None and self._documents.has_changes()

    def _made_documents(self) -> Documents:
        """Give the files of this question; what was typed before is still there."""
        if self._documents is None:
            try:
                # Nobody else may look into it; what an editor leaves there is its own business.
                self._folder = TemporaryDirectory(prefix="argstream-", ignore_cleanup_errors=True)
                self._documents = Documents(Path(self._folder.name), self._request.arguments)
            except OSError as error:
                raise EditorFailed(f"the files cannot be written: {error.strerror}") from None
        return self._documents

    async def _run_editor(self, documents: Documents) -> None:
        command = editor_command(os.environ)
        with self._keyboard.left(), self._place.suspended():
            await edit(command, documents.paths, self._keyboard.file)
