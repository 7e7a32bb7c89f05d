"""Searching texts: for a text as it stands, or for a regular expression; never for too long.

The expressions are those of Rust, which pydantic has at hand: they take a time that is linear in
the text, whatever a model thinks of, and in the size of the expression, which is bounded. Those of
Python can take forever, and nobody else gets to run meanwhile.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Final, TypeAlias

from pydantic_core import SchemaError, SchemaValidator, core_schema

from argstream.agent.toolkits._folder import Folder
from argstream.agent.toolkits._regular_files import MOST_BYTES, read_in
from argstream.agent.toolkits._texts import FileText, counted, lines_of
from argstream.agent.toolkits._tree import Walk, path_of
from argstream.errors import ToolFailure

__all__ = ["Matcher", "Search", "matcher"]

Matcher: TypeAlias = Callable[[str], Iterator[int | None]]
"""Gives the indices of a text's lines that match; None for one that does not, so that whoever asks
can stop in between."""

_MOST_MATCHES: Final = 200
_MOST_ENTRIES: Final = 50_000
_LONGEST_SHOWN: Final = 300  # characters of a line
_LONGEST_MATCHED: Final = 1_000  # characters of a line that an expression looks at
_LARGEST: Final = 20_000  # steps of an expression: such a one takes 0.2 s for a line
_SECONDS: Final = 10.0
_REPEATED: Final = re.compile(
    r"(?<!\\[xuUpP])\{\s*(\d*)\s*(?:,\s*(\d*)\s*)?\}"  # but no \x{41}, \p{Greek}
)
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z-]*x")


def matcher(sought: str, *, is_regex: bool) -> Matcher:
    """Make what finds a text. Raises ToolFailure for an expression that cannot be used."""
    if not is_regex:
        return lambda text: _plain(text, sought)
    if (problem := _problem(sought)) is None:
        try:
            schema = core_schema.str_schema(pattern=sought, regex_engine="rust-regex")
            matches = SchemaValidator(schema).isinstance_python
        except SchemaError as error:
            problem = str(error).partition("SchemaError: ")[2].strip() or str(error)
    if problem is not None:
        raise ToolFailure(
            f"this is no regular expression that can be used: {problem}\nLeave out regex to search "
            "for the text as it stands"
        )
    return lambda text: (
        number if matches(line[:_LONGEST_MATCHED]) else None
        for number, line in enumerate(lines_of(text))
    )


def _problem(sought: str) -> str | None:
    """Say why an expression is not even tried."""
    if _VERBOSE.search(sought):  # among white space and comments, repetitions are not seen
        return "it has the flag x: write it without white space and comments"
    if _size(sought) > _LARGEST:
        return (
            "it repeats so much that it would take too long: write + or * in place of large "
            "numbers, and repeat nothing that is repeated"
        )
    return None


def _size(sought: str) -> int:
    """Say how many steps an expression has, at most: repetitions of repetitions multiply."""
    once = again = 1
    for found in _REPEATED.finditer(sought):
        times = max(int(found[2] or found[1] or 1), 1)
        if sought[: found.start()].endswith((")", "}", "?", "*", "+")):
            again *= times
        else:
            once = max(once, times)
    return len(sought) * once * again


class Search:
    """One search, and what it has found so far."""

    def __init__(self, matches: Matcher, may_go_on: Callable[[], bool]) -> None:
        self._matches = matches
        self._may_go_on = may_go_on
        self._found: list[str] = []
        self._files = 0
        self._unreadable = 0
        self._passed_over: Sequence[Sequence[str]] = ()
        self._end: str | None = None
        self._ends_at = time.monotonic() + _SECONDS

    def all_below(self, folder: Folder, start: Sequence[str]) -> None:
        """Search all files in a directory and below."""
        seen = 0
        walk = Walk(folder, start, _MOST_ENTRIES)
        self._passed_over = walk.passed_over
        with closing(walk.directories()) as directories:
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
        if self._passed_over:
            left_out = counted(len(self._passed_over), "folder")
            head += f"; not searched: {left_out}, too deep or not to be opened"
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
