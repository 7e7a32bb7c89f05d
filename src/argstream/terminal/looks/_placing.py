"""Which part of a view an argument belongs to, by what was declared of its tool."""

from typing import Literal, NamedTuple, Protocol, TypeAlias

from argstream.jsonstream import Kind
from argstream.terminal.looks._diff import DiffNames
from argstream.terminal.looks.declarations import Command, Declaration, Diff, File, Plain, Table

__all__ = ["Declared", "Placement", "Purpose", "Seen"]

Purpose: TypeAlias = Literal[
    "path", "text", "language", "old", "new", "edits", "command", "rows", "array", "plain"
]
"""What an argument is; ``array``: it depends on what is in it."""


class Seen(NamedTuple):
    """What came before an argument."""

    has_path: bool
    has_text: bool


class Placement(Protocol):
    """Knows what the arguments of a tool are."""

    @property
    def may_have_title(self) -> bool:
        """Whether an argument may come that is a title."""
        ...

    @property
    def may_have_path(self) -> bool:
        """Whether an argument may come that says which file it is about."""
        ...

    @property
    def diff_names(self) -> DiffNames:
        """What the parts of an edit are called, if they are arguments of the call."""
        ...

    @property
    def item_names(self) -> DiffNames:
        """What they are called in an array of edits."""
        ...

    def language(self, name: str) -> str | None:
        """Say what the text of an argument is written in, if that is known."""
        ...

    def purpose(self, name: str, kind: Kind, seen: Seen) -> Purpose:
        """Say what an argument is that begins now."""
        ...


class Declared:
    """What a person said of a tool."""

    def __init__(self, look: Declaration) -> None:
        self._purposes: dict[tuple[str, Kind], Purpose] = {}
        self._language: str | None = None
        self.may_have_path = isinstance(look, File | Diff) and look.path is not None
        self.may_have_title = self.may_have_path or isinstance(look, Command)
        self.diff_names = DiffNames(frozenset(), frozenset(), frozenset())
        self.item_names = self.diff_names
        match look:
            case File(text, path, language):
                self._language = language
                self._name("language", "string", "language")
                self._name(path, "string", "path")
                self._name(text, "string", "text")
            case Diff(old, new, path, within):
                paths = frozenset() if path is None else frozenset({path})
                self.diff_names = DiffNames(frozenset({old}), frozenset({new}), paths)
                self.item_names = self.diff_names
                self._name(path, "string", "path")
                if within is None:
                    self._name(old, "string", "old")
                    self._name(new, "string", "new")
                else:
                    self._name(within, "array", "edits")
            case Command(command, language):
                self._language = language
                self._name(command, "string", "command")
            case Table(rows):
                self._name(rows, "array", "rows")
            case Plain():
                pass

    def language(self, name: str) -> str | None:  # noqa: ARG002 - there is one such argument
        """Give the language of the text or the command."""
        return self._language

    def purpose(self, name: str, kind: Kind, seen: Seen) -> Purpose:  # noqa: ARG002 - it is known
        """Say what was declared; nothing was of an argument of another kind."""
        return self._purposes.get((name, kind), "plain")

    def _name(self, name: str | None, kind: Kind, purpose: Purpose) -> None:
        if name is not None:
            self._purposes[name, kind] = purpose
