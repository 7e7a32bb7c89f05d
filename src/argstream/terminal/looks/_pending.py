"""What is in the files that calls are about, as each of these calls will find it.

A model may edit a file several times in one turn, with a call for each edit. They are carried out
when all are written, one after the other. So a call is shown as it applies to what those before it
will have made of the file. Once it is known how a call ended, the file itself tells.
"""

import os
from collections.abc import Callable
from typing import TypeAlias

from argstream.events import ToolCallStarted

__all__ = ["Change", "Files", "PendingCalls", "ReadFile"]

ReadFile: TypeAlias = Callable[[str], str | None]
Change: TypeAlias = Callable[[str], str | None]
"""Gives what becomes of the text of a file; None: nobody knows."""


class PendingCalls:
    """The calls whose end is not known, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: dict[str, Files] = {}
        self._places: dict[str | None, dict[str, int]] = {}  # of the calls of each speaker
        self.ended = 0
        """How many calls have ended."""

    def begin(self, call: ToolCallStarted, read_file: ReadFile | None) -> "Files":
        """Give the files as a call finds them; what it was before counts no more."""
        places = self._places.setdefault(call.parent_id, {})
        # Each turn counts its calls from 0: those that are not before this one are of another turn.
        while places and next(reversed(places.values())) >= call.index:
            self.settle(places.popitem()[0])
        places[call.call_id] = call.index
        files = self._calls[call.call_id] = Files(read_file, self)
        return files

    def again(self, call_id: str | None, read_file: ReadFile | None) -> "Files":
        """Give the files for a call that is told anew, in its place if it is one of these."""
        files = Files(read_file, self)
        if call_id in self._calls:
            self._calls[call_id] = files
        return files

    def before(self, files: "Files") -> list["Files"]:
        """Give what the calls before this one do; nothing if it is none of these."""
        calls = list(self._calls.values())
        return calls[: calls.index(files)] if files in calls else []

    def settle(self, call_id: str) -> None:
        """Take note that a call has ended, however it did: the files tell what it changed."""
        if self._calls.pop(call_id, None) is not None:
            self.ended += 1


class Files:
    """Files as one call finds them, and what it makes of them."""

    def __init__(self, read_file: ReadFile | None, pending: PendingCalls) -> None:
        self._read_file = read_file
        self._pending = pending
        self._changes: dict[str, list[Change]] = {}  # by path
        self._texts: dict[str, tuple[str | None, int]] = {}  # with how many changes made
        self._read_after = pending.ended  # calls

    def text(self, path: str) -> str | None:
        """Give what is in a file after the changes so far; None if that cannot be known."""
        if self._read_after != self._pending.ended:
            self._read_after = self._pending.ended
            self._texts.clear()
        name = os.path.normpath(path)
        text, made = self._texts.get(name) or (self._found(path, name), 0)
        changes = self._changes.get(name, [])
        for change in changes[made:]:
            text = None if text is None else change(text)
        self._texts[name] = text, len(changes)
        return text

    def change(self, path: str, change: Change) -> None:
        """Say what this call makes of a file; it is done when somebody asks for the text."""
        self._changes.setdefault(os.path.normpath(path), []).append(change)

    def _found(self, path: str, name: str) -> str | None:
        for files in reversed(self._pending.before(self)):
            if name in files._changes:  # noqa: SLF001 - of its own kind
                return files.text(path)
        return None if self._read_file is None else self._read_file(path)
