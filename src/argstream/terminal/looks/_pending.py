"""What is in the files that calls are about, as these calls will find them.

A model may edit a file several times in one turn, in a call for each edit. They are carried out
when all are written, one after the other. So while they are written, a call is shown as it applies
to what the calls before it will have made of the file. Once it is known how a call ended, what is
in the file counts again.
"""

import os
from collections import defaultdict
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["Change", "Files", "PendingCalls", "ReadFile"]

ReadFile: TypeAlias = Callable[[str], str | None]
Change: TypeAlias = Callable[[str], str | None]
"""Makes the text of a file another one; None: nobody knows what it becomes."""


class PendingCalls:
    """The calls whose end is not known, in the order in which they began."""

    def __init__(self, read_file: ReadFile | None) -> None:
        self._read_file = read_file
        self._calls: dict[str, Files] = {}

    def begin(self, call_id: str | None, *, is_past: bool = False) -> "Files":
        """Give the files as a call finds them; one of the same id counts no more.

        Of a past call nobody knows what it found. One without an id changes nothing for others.
        """
        if call_id is None:
            return Files(None if is_past else self._read_file)
        before = [files for key, files in self._calls.items() if key != call_id]
        if call_id in self._calls:
            before = before[: list(self._calls).index(call_id)]
        files = self._calls[call_id] = Files(None if is_past else self._read_file, tuple(before))
        return files

    def settle(self, call_id: str | None = None) -> None:
        """Say that it is known how a call ended, or how all did: the files tell what it did."""
        if call_id is None:
            self._calls.clear()
        elif self._calls.pop(call_id, None) is not None:
            for files in self._calls.values():
                files.forget()


class Files:
    """Files as one call finds them, and as it leaves them."""

    def __init__(self, read_file: ReadFile | None, before: tuple["Files", ...] = ()) -> None:
        self._read_file = read_file
        self._before = before
        self._changes: defaultdict[str, list[Change]] = defaultdict(list)  # by path
        self._texts: dict[str, tuple[str | None, int]] = {}  # and how many changes are made

    def text(self, path: str) -> str | None:
        """Give what is in a file now, after the changes so far; None if that cannot be known."""
        key = os.path.normpath(path)
        text, made = self._texts.get(key) or (self._found(path), 0)
        for change in self._changes[key][made:]:
            text = None if text is None else change(text)
        self._texts[key] = text, len(self._changes[key])
        return text

    def change(self, path: str, change: Change) -> None:
        """Say what becomes of a file; it is asked when somebody wants to know."""
        self._changes[os.path.normpath(path)].append(change)

    def is_changed_before(self, path: str) -> bool:
        """Tell whether a call before this one changes a file."""
        ...

    def forget(self) -> None:
        """Read again what is asked for next: a call before this one was carried out."""
        self._texts.clear()
