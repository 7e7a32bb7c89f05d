"""Which part of a view an argument belongs to, by its name, its tool's name, and its schema.

A guess may be wrong, so it never hides anything: what turns out to have no place is shown plainly.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from argstream.jsonstream import Kind
from argstream.terminal.looks._diff import DiffNames
from argstream.terminal.looks._placing import Purpose, Seen
from argstream.validation import Schema, ToolSpec

__all__ = ["Guessed"]

_PATHS: Final = frozenset(
    [
        "path",
        "file_path",
        "filepath",
        "filePath",
        "file",
        "filename",
        "file_name",
        "fileName",
        "target_file",
        "targetFile",
        "absolute_path",
        "relative_path",
        "notebook_path",
        "AbsolutePath",
        "TargetFile",
    ]
)
_CONTENTS: Final = frozenset(["content", "contents"])
_TEXTS: Final = frozenset(["text", "source", "body", "data", "new_source"])
_CERTAIN_TEXTS: Final = frozenset(
    ["file_text", "fileText", "file_content", "file_contents", "fileContent", "CodeContent"]
)
_CODE: Final = {
    "code": None,
    "source_code": None,
    "python": "python",
    "python_code": "python",
    "javascript": "javascript",
    "sql": "sql",
    "html": "html",
}
_EDITS: Final = (
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("old_content", "new_content"),
    ("old_code", "new_code"),
    ("old", "new"),
    ("oldString", "newString"),
    ("oldText", "newText"),
    ("oldStr", "newStr"),
    ("original", "replacement"),
    ("original_text", "new_text"),
    ("search", "replace"),
    ("find", "replace"),
    ("search", "replacement"),
    ("find", "replacement"),
    ("pattern", "replacement"),
)
# Words that mean something else in a tool that does not edit.
_UNSURE: Final = frozenset(["search", "find", "pattern", "original", "replace", "replacement"])
_COMMANDS: Final = frozenset(
    ["command", "cmd", "script", "shell_command", "bash_command", "CommandLine"]
)
_LANGUAGES: Final = ("python", "javascript", "typescript", "sql", "bash", "ruby", "php", "lua")

_WRITES: Final = frozenset(
    ["write", "create", "save", "file", "append", "overwrite", "put", "insert"]
)
_CHANGES: Final = frozenset(
    ["edit", "edits", "replace", "patch", "modify", "update", "substitute", "multiedit"]
)

_find_words: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+").findall


class Guessed:
    """What an argument seems to be."""

    def __init__(self, name: str, tool: ToolSpec | None = None) -> None:
        """Guess by a tool's name, and by its schema if there is one."""
        self._words = {word.lower() for word in _find_words(name)}
        self._properties = _properties(tool)
        self.may_have_path = self._may_come(_PATHS)
        self.may_have_title = self.may_have_path or self._may_come(_COMMANDS)
        self.diff_names = _names(pair for pair in _EDITS if self._is_edit(*pair))
        self.item_names = _names(_EDITS)

    def language(self, name: str) -> str | None:
        """Give the language that the name of the argument or of the tool says."""
        if name in _COMMANDS:
            return "bash"
        if name not in _CODE:
            return None
        return _CODE[name] or next((word for word in _LANGUAGES if word in self._words), None)

    def purpose(self, name: str, kind: Kind, seen: Seen) -> Purpose:
        """Guess what an argument is."""
        if kind == "array":
            return "array"
        if kind != "string":
            return "plain"
        if name in _PATHS:
            return "path"
        if name == "language":
            return "language"
        if name in self.diff_names.old:
            return "old"
        if name in self.diff_names.new:
            return "new"
        if name in _COMMANDS and self._is_command(name):
            return "command"
        if not seen.has_text and self._is_text(name, seen):
            return "text"
        return "plain"

    def _may_come(self, names: frozenset[str]) -> bool:
        return self._properties is None or bool(names & self._properties.keys())

    def _is_edit(self, old: str, new: str) -> bool:
        if self._properties is not None:
            return old in self._properties and new in self._properties
        return bool(self._words & _CHANGES) or not {old, new} & _UNSURE

    def _is_command(self, name: str) -> bool:
        """Tell what is run from the kind of edit that some tools call a command."""
        schema = (self._properties or {}).get(name)
        has_choices = isinstance(schema, Mapping) and "enum" in schema
        return not has_choices and not self._words & _CHANGES

    def _is_text(self, name: str, seen: Seen) -> bool:
        if name in _CODE or name in _CERTAIN_TEXTS:
            return True
        writes_file = "file" in self._words or self._words == {"write"}
        if self._properties is not None and not seen.has_path:
            has_file = self.may_have_path
        else:
            has_file = seen.has_path or writes_file
        return has_file and (name in _CONTENTS or (name in _TEXTS and bool(self._words & _WRITES)))


def _names(pairs: Iterable[tuple[str, str]]) -> DiffNames:
    pairs = list(pairs)
    return DiffNames(frozenset(old for old, _ in pairs), frozenset(new for _, new in pairs), _PATHS)


def _properties(tool: ToolSpec | None) -> Mapping[str, Any] | None:
    """Give the arguments that a schema names; None if it names none, or there is no schema."""
    schema = tool.schema if tool is not None else None
    if isinstance(schema, Schema):
        schema = schema.source
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return properties if isinstance(properties, Mapping) and properties else None
