"""Searching texts: for a text as it stands, or for a regular expression; never for too long.

The expressions are those of Rust, which pydantic has at hand: they take a time that is linear in
the text, whatever a model thinks of. Those of Python can take forever, and nobody else gets to run
meanwhile.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Final, TypeAlias

from pydantic_core import SchemaError, SchemaValidator, core_schema

from argstream.agent.toolkits._folder import Folder
from argstream.agent.toolkits._regular_files import MOST_BYTES, read_in
from argstream.agent.toolkits._texts import FileText, counted, lines_of
from argstream.agent.toolkits._tree import path_of, walk
from argstream.errors import ToolFailure

__all__ = ["Matcher", "Search", "matcher"]

Matcher: TypeAlias = Callable[[str], Iterator[int | None]]
"""Gives the indices of a text's lines that match; None for one that does not, so that whoever asks
can stop in between."""

_MOST_MATCHES: Final = 200
_MOST_ENTRIES: Final = 50_000
_LONGEST_SHOWN: Final = 300  # characters of a line
_LONGEST_MATCHED: Final = 2_000  # characters of a line that an expression looks at
_SECONDS: Final = 10.0


def matcher(sought: str, *, is_regex: bool) -> Matcher:
    """Make what finds a text. Raises ToolFailure for an expression that cannot be used."""
    if not is_regex:
        return lambda text: _plain(text, sought)
    try:
        schema = core_schema.str_schema(pattern=sought, regex_engine="rust-regex")
        matches = SchemaValidator(schema).isinstance_python
    except SchemaError as error:
        reason = str(error).partition("SchemaError: ")[2].strip() or str(error)
        raise ToolFailure(
            f"this is no regular expression that can be used: {reason}\nLeave out regex to search "
            "for the text as it stands"
        ) from None
    return lambda text: (
        number if matches(line[:_LONGEST_MATCHED]) else None
        for number, line in enumerate(lines_of(text))
    )


class Search:
    """One search, and what it has found so far."""

    def __init__(self, matches: Matcher, may_go_on: Callable[[], bool]) -> None:
        self._matches = matches
        self._may_go_on = may_go_on
        self._found: list[str] = []
        self._files = 0
        self._unreadable = 0
        self._end: str | None = None
        self._ends_at = time.monotonic() + _SECONDS

    def all_below(self, folder: Folder, start: Sequence[str]) -> None:
        """Search all files in a directory and below."""
        seen = 0
        with closing(walk(folder, start, _MOST_ENTRIES)) as directories:
            for directory in directories:
                seen += len(directory.entries)
                for entry in directory.entries:
                    if self._end is not None:
                        return
                    if entry.kind == "file":
                        self._file(directory.number, entry.name, (*directory.names, entry.name))
                if directory.has_more:
                    self._end = f"it was stopped after {seen} files and folders"

    def text(self, text: str, path: str) -> None:
        """Search a text."""
        lines: list[str] | None = None
        for number in self._matches(text):
            if number is not None:
                lines = lines or lines_of(text)
                self._found.append(f"{path}:{number + 1}: {_shown(lines[number])}")
            if self._must_end():
                break
        self._files += lines is not None

    def summary(self) -> str:
        """Say what was found, and what was not searched."""
        head = "nothing was found"
        if self._found:
            head = f"{counted(len(self._found), 'line')} in {counted(self._files, 'file')}"
        if self._end is not None:
            head += f"; {self._end}, so there may be more: name a narrower path"
        if self._unreadable:
            left_out = counted(self._unreadable, "file")
            head += f"; not searched: {left_out}, no text in UTF-8 or too large"
        return "\n".join([head, *self._found])

    def _file(self, directory: int, name: str, names: Sequence[str]) -> None:
        if self._must_end():
            return
        try:
            found = read_in(directory, name)
            if found is None or len(found.data) > MOST_BYTES:
                self._unreadable += 1
            else:
                self.text(FileText(found.data, name).text, path_of(names))
        except (OSError, ToolFailure):
            self._unreadable += 1

    def _must_end(self) -> bool:
        if len(self._found) >= _MOST_MATCHES:
            self._end = f"it was stopped after {_MOST_MATCHES}"
        elif time.monotonic() > self._ends_at:
            self._end = f"it was stopped after {_SECONDS:g} s"
        elif not self._may_go_on():
            self._end = "it was stopped"
        return self._end is not None


def _shown(line: str) -> str:
    cut = len(line) - _LONGEST_SHOWN
    return line if cut <= 0 else f"{line[:_LONGEST_SHOWN]} … ({cut} characters more)"


def _plain(text: str, sought: str) -> Iterator[int | None]:
    place = text.find(sought)
    line = seen = 0
    while place >= 0:
        line += text.count("\n", seen, place)
        seen = place
        yield line
        end = text.find("\n", place)
        place = text.find(sought, end + 1) if end >= 0 else -1
