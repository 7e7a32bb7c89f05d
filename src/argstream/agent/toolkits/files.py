"""Tools for the files of one folder: list, read, search, write, edit. Nothing leads out of it."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from argstream.agent.toolkits._edits import Edit, NotThere, edited
from argstream.agent.toolkits._folder import Folder
from argstream.agent.toolkits._regular_files import read, require_writable, write
from argstream.agent.toolkits._search import Search, matcher
from argstream.agent.toolkits._texts import FileText, counted, line_count, lines_of
from argstream.agent.toolkits._tree import listing, path_of
from argstream.agent.tools import Tool, ToolContext, tool
from argstream.errors import ToolFailure

__all__ = ["file_tools", "text_reader"]

_SECONDS: Final = 60  # for a disk that does not answer
_MOST_CHARACTERS: Final = 256 * 1024  # of a file, in one answer
_MOST_SHOWN: Final = 2_000_000  # bytes of a file that is read to be shown


def file_tools(root: Path | str, *, hidden: Iterable[Path | str] = ()) -> list[Tool]:
    """Make ``list_files``, ``read_file``, ``search_files``, ``write_file`` and ``edit_file``.

    They see nothing but what is in this folder, which must exist: no path, no symbolic link and
    nobody who changes the folder meanwhile leads them out of it. A file is replaced in one step.

    ``hidden`` are files in it that they do not see either, nor what SQLite keeps beside them: name
    the store of the agent there, if it is below the folder.
    """
    files = _Files(Folder(root, hidden))
    return [
        files.list_files,
        files.read_file,
        files.search_files,
        files.write_file,
        files.edit_file,
    ]


def text_reader(
    root: Path | str, *, hidden: Iterable[Path | str] = ()
) -> Callable[[str], str | None]:
    """Make a function that reads the text files of one folder by the paths that a model writes.

    It is for who shows what a model does, such as ``Looks(read_file=…)``. What ``read_file`` would
    refuse, or is larger than is good to look at, is None: nothing leads out of the folder.
    """
    folder = Folder(root, hidden)

    def read_text(path: str) -> str | None:
        try:
            with folder.find(path) as place:
                if place.require_existing().st_size > _MOST_SHOWN:
                    return None
                return FileText(read(place).data, place.text).text
        except ToolFailure:
            return None

    return read_text


class _Files:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._writing = threading.Lock()  # calls of one turn run at the same time

    @tool(timeout=_SECONDS)
    def list_files(self, path: str = ".") -> str:
        """List the files of the project, in a folder and all folders below it.

        Folders end with a slash. What programs have made, such as .git or node_modules, is not
        listed unless it is asked for by its path.

        :param path: The folder, from the root of the project on, such as src.
        """
        with self._folder.find(path) as place:
            start = place.enter().names
            name = place.text
        return listing(self._folder, start) or f"{name} is empty"

    @tool(timeout=_SECONDS)
    def read_file(
        self,
        path: str,
        start_line: Annotated[int, Field(ge=1)] = 1,
        max_lines: Annotated[int, Field(ge=1)] = 2_000,
    ) -> str:
        """Read a text file of the project, or some lines of it.

        The first line of the answer says which lines these are and how many the file has; after it
        comes the text as it is in the file.

        :param path: The file, from the root of the project on, such as src/app.py.
        :param start_line: The first line that is wanted; the first of the file is 1.
        :param max_lines: At most so many lines.
        """
        with self._folder.find(path) as place:
            name = place.text
            text = FileText(read(place).data, name).text
        lines = lines_of(text)
        if not lines:
            return f"{name} is empty"
        if start_line > len(lines):
            raise ToolFailure(f"{name} has {line_count(text)}: there is no line {start_line}")
        return _part(name, lines, start_line, max_lines)

    @tool(timeout=_SECONDS)
    def search_files(
        self,
        query: Annotated[str, Field(min_length=1, max_length=500)],
        path: str = ".",
        regex: bool = False,  # noqa: FBT001, FBT002 - a model gives it by name
        context: ToolContext | None = None,
    ) -> str:
        """Search the text files of the project, and give the lines in which something occurs.

        Upper and lower case differ. What programs have made, such as .git or node_modules, is not
        searched unless it is asked for by its path.

        :param query: What is sought, as it stands in a file.
        :param path: The file or folder to search, from the root of the project on.
        :param regex: Whether the query is a regular expression that a line matches somewhere. It
            has no look-around and no backreferences; (?i) at its beginning passes over case.
        """
        search = Search(matcher(query, is_regex=regex), lambda: not _is_stopped(context))
        with self._folder.find(path) as place:
            if place.is_folder:
                search.all_below(self._folder, place.enter().names)
            else:
                search.text(FileText(read(place).data, place.text).text, path_of(place.way))
        return search.summary()

    @tool(timeout=_SECONDS)
    def write_file(self, path: str, content: str, context: ToolContext | None = None) -> str:
        """Write a text file of the project; folders that are missing are made.

        If the file exists, all that was in it is replaced: to change a part, use edit_file.

        :param path: The file, from the root of the project on, such as src/app.py.
        :param content: All that is to be in it.
        """
        with self._writing, self._folder.find(path) as place:
            require_writable(place)
            place.make_parents()
            is_new = place.status is None
            write(place, content.encode(), place.status, lambda: not _is_stopped(context))
            name = place.text
        told = line_count(content)
        return f"created {name} with {told}" if is_new else f"wrote {told} to {name}"

    @tool(timeout=_SECONDS)
    def edit_file(
        self,
        path: str,
        edits: Annotated[list[Edit], Field(min_length=1)],
        context: ToolContext | None = None,
    ) -> str:
        """Change parts of a text file of the project: all edits are made, or none.

        Each edit refers to the file as it is before the call, so their order does not matter, and
        they must not overlap.

        :param path: The file, from the root of the project on, such as src/app.py.
        :param edits: What is replaced by what.
        """
        try:
            with self._writing, self._folder.find(path) as place:
                name = place.text
                place.require_existing()
                require_writable(place)
                found = read(place)
                data = edited(FileText(found.data, name), edits, name)
                write(place, data, found.status, lambda: not _is_stopped(context))
        except NotThere as problem:  # here nobody else waits any more
            raise problem.failure() from None
        return f"made {counted(len(edits), 'edit')} in {name}"


def _part(name: str, lines: list[str], start_line: int, max_lines: int) -> str:
    """Give some lines, no more than a model can be expected to read at once, and say which."""
    wanted = lines[start_line - 1 :][:max_lines]
    room = _MOST_CHARACTERS
    shown: list[str] = []
    for line in wanted:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    if not shown:
        left_out = len(wanted[0]) - _MOST_CHARACTERS
        shown = [f"{wanted[0][:_MOST_CHARACTERS]} … (the line has {left_out} characters more)"]
    end = start_line + len(shown) - 1
    if len(shown) == len(lines):
        which = "all of it"
    else:
        which = f"line {start_line}" if end == start_line else f"lines {start_line} to {end}"
    number = counted(len(lines), "line")
    more = f"; go on with start_line={end + 1}" if end < len(lines) else ""
    return "\n".join([f"{name} has {number}; this is {which}{more}:", *shown, ""])


def _is_stopped(context: ToolContext | None) -> bool:
    return context is not None and context.cancelled
