"""What a tool's arguments are, by who wrote the tool: a file, a diff, a command, a table.

``Looks({"save_note": File(text="body", path="note")})`` is all that there is to say of a tool.

An argument that does not come as it was declared, because it is missing or of another kind, is
shown plainly, as are all that a declaration does not name.
"""

from dataclasses import dataclass
from typing import TypeAlias

from argstream.terminal.looks.view import OwnLook

__all__ = ["Command", "Declaration", "Diff", "File", "Look", "Plain", "Table"]


@dataclass(frozen=True)
class File:
    """The text of a file, with line numbers, coloured by the file's name or by its language."""

    text: str = "content"
    """The argument that is the text."""
    path: str | None = "path"
    """The argument that says which file."""
    language: str | None = None
    """What it is written in, such as ``python``, if its name does not tell. If there is an argument
    of the name ``language``, it counts too, but only if it comes before the text."""


@dataclass(frozen=True)
class Diff:
    """A text that is replaced by another one, line by line, in place if the file can be read."""

    old: str = "old_string"
    new: str = "new_string"
    path: str | None = "path"
    """The argument that says in which file; None: there is none, so nobody waits for it."""
    within: str | None = None
    """The array of objects that have ``old`` and ``new``, if there are several such edits. Each may
    have a ``path`` of its own."""


@dataclass(frozen=True)
class Command:
    """Something that is run: beside the tool's name if it is short, else as lines after ``$``."""

    command: str = "command"
    language: str | None = "bash"


@dataclass(frozen=True)
class Table:
    """An array of flat objects: a row for each."""

    rows: str = "rows"


@dataclass(frozen=True)
class Plain:
    """Each argument by its name, and nothing guessed."""


Declaration: TypeAlias = File | Diff | Command | Table | Plain
Look: TypeAlias = Declaration | OwnLook
