"""Tools for the files of one folder: list, read, search, write, edit. Nothing leads out of it."""

import codecs
import json
import os
import re
import secrets
import stat
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice, pairwise
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import SchemaError, SchemaValidator, core_schema

from argstream.agent.toolkits._folder import (
    DEEPEST,
    Folder,
    Place,
    as_tool_error,
    is_version_control,
)
from argstream.agent.tools import Tool, ToolContext, tool
from argstream.errors import ToolError

MOST_BYTES: Final = 16 * 1024 * 1024  # what a file may have, to be read, searched or edited
_FOR_READING: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NOCTTY", 0)
_FOR_WRITING: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)

Kind: TypeAlias = Literal["file", "folder", "left out", "passed over", "link", "other"]
_MADE_BY_PROGRAMS: Final = frozenset(
    {"node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".gradle", ".idea"}
)
_CACHE: Final = re.compile(r"\..+_cache")
_MOST_LISTED: Final = 1_000
_MARKS: Final[dict[Kind, str]] = {
    "file": "",
    "folder": "/",
    "left out": "/ (not listed)",
    "passed over": "/ (not listed: it is too deep, or cannot be opened)",
    "link": " (symbolic link)",
    "other": " (no regular file)",
}

_CRLF: Final = re.compile("\r\n")
_OTHER_MARKS: Final = {
    codecs.BOM_UTF32_LE: "UTF-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}

_MOST_PLACES: Final = 20  # that are listed for a text that occurs too often
_LONGEST: Final = 120  # characters of a line, in an error
_MOST_GUESSES: Final = 20  # places that may have been meant

Matcher: TypeAlias = Callable[[str], Iterator[int | None]]
"""Yields the indices of lines that match, and None for others, so that a search can stop there."""
_MOST_MATCHES: Final = 200
_MOST_ENTRIES: Final = 50_000
_LONGEST_SHOWN: Final = 300  # characters of a line
_LONGEST_MATCHED: Final = 1_000  # characters of a line that an expression looks at
_LARGEST: Final = 20_000  # steps of an expression: such a one takes 0.2 s for a line
_SEARCH_SECONDS: Final = 10.0
_REPEATED: Final = re.compile(
    r"(?<!\\[xuUpP])\{\s*(\d*)\s*(?:,\s*(\d*)\s*)?\}"  # but no \x{41}, \p{Greek}
)
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z-]*x")

_SECONDS: Final = 60  # for a disk that does not answer
_MOST_CHARACTERS: Final = 256 * 1024  # of a file, in one answer
_MOST_SHOWN: Final = 2_000_000  # bytes of a file that is read to be shown


def file_tools(root: Path | str, *, hidden: Iterable[Path | str] = ()) -> list[Tool]:
    """Make ``list_files``, ``read_file``, ``search_files``, ``write_file`` and ``edit_file``.

    They see only this folder, which must exist. No path, no symbolic link and no concurrent change
    leads them out of it, so they need no approval unless a policy asks. A file is replaced in one
    step.

    ``hidden`` are files in it that they do not see, with what SQLite keeps beside them. Name the
    store of the agent there, if it is below the folder.
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

    It is for user interfaces, such as ``ToolViews(read_file=…)``. It returns None for what
    ``read_file`` would refuse, and for files that are too large to show.
    """
    folder = Folder(root, hidden)

    def read_text(path: str) -> str | None:
        try:
            with folder.find(path) as place:
                if place.require_existing().st_size > _MOST_SHOWN:
                    return None
                return FileText(read(place).data, place.text).text
        except ToolError:
            return None

    return read_text


class Found(NamedTuple):
    data: bytes
    status: os.stat_result


def read(place: Place) -> Found:
    """Read a file. Raises ToolError if it is not a regular file, or too large."""
    name = _require_file(place)
    with as_tool_error(place.text, "read"):
        found = read_in(place.directory, name)
    if found is None:
        raise _no_file(place)
    if len(found.data) > MOST_BYTES:
        raise ToolError(
            f"{place.text} is too large: it has more than {MOST_BYTES // 2**20} MB, which is more "
            "than these tools read"
        )
    return found


def read_in(directory: int, name: str) -> Found | None:
    """Read a file by its name; None if it is not a regular file. A large file is read in part.

    It never blocks, not even on a pipe without a writer.
    """
    number = os.open(name, _FOR_READING | os.O_NONBLOCK, dir_fd=directory)
    with os.fdopen(number, "rb") as file:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            return None
        return Found(file.read(MOST_BYTES + 1), status)


def require_writable(place: Place) -> None:
    if any(is_version_control(name) for name in place.way):
        raise ToolError(
            f"{place.text} belongs to the version control, which runs programs that it finds "
            "there: nothing is written to it"
        )
    if place.name is not None and place.status is None:
        if place.asked.is_folder:
            raise ToolError(f"{place.text} would be a folder: leave out the slash at the end")
        return
    name = _require_file(place)
    mode = place.require_existing().st_mode
    if not mode & 0o222 or not os.access(name, os.W_OK, dir_fd=place.directory):
        raise ToolError(f"{place.text} may not be written: it is read-only")


def write(
    place: Place, data: bytes, seen: os.stat_result | None, may_go_on: Callable[[], bool]
) -> None:
    """Write a file completely or not at all.

    Nothing is written if the file differs from ``seen``, its status when the caller looked at it,
    or if ``may_go_on`` returns False at the last moment.
    """
    name = place.name
    if name is None:
        raise _no_file(place)
    if len(data) > MOST_BYTES:
        raise ToolError(f"{place.text} would have more than {MOST_BYTES // 2**20} MB: write less")
    directory = place.directory
    draft = f".argstream-{secrets.token_hex(8)}.tmp"
    with as_tool_error(place.text, "written"):
        number = os.open(draft, _FOR_WRITING, 0o666, dir_fd=directory)
        try:
            with os.fdopen(number, "wb") as file:
                if seen is not None:
                    os.fchmod(number, seen.st_mode & 0o777)  # without set-user-ID
                file.write(data)
                file.flush()
                os.fsync(number)
            if not _is_unchanged(directory, name, seen):
                raise ToolError(f"{place.text} was changed in the meantime: read it again first")
            if not may_go_on():
                raise ToolError(f"{place.text} was not written: the call was stopped")
            os.rename(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=directory)
            raise


def _require_file(place: Place) -> str:
    status = place.require_existing()
    if stat.S_ISDIR(status.st_mode) or place.name is None:
        raise ToolError(f"{place.text} is a folder, not a file: list_files shows what is in it")
    if place.asked.is_folder:
        raise ToolError(f"{place.text} is a file: leave out the slash at the end")
    if not stat.S_ISREG(status.st_mode):
        raise _no_file(place)
    return place.name


def _no_file(place: Place) -> ToolError:
    return ToolError(f"{place.text} is no regular file (a pipe, a device …): leave it alone")


def _is_unchanged(directory: int, name: str, seen: os.stat_result | None) -> bool:
    try:
        now = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return seen is None
    return seen is not None and _version(now) == _version(seen)


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class Entry(NamedTuple):
    name: str
    kind: Kind


class Listed(NamedTuple):
    names: tuple[str, ...]
    number: int
    entries: list[Entry]
    has_more: bool


class Walk:
    """Walks through a directory and those below it, upper ones first."""

    def __init__(self, folder: Folder, start: Sequence[str], most: int) -> None:
        """``most`` bounds how many entries are seen."""
        self._folder = folder
        self._ahead = deque([tuple(start)])
        self._most = most
        self.passed_over: list[tuple[str, ...]] = []
        """Directories that are too deep, may not be read, or have gone meanwhile."""

    def directories(self) -> Generator[Listed, None, None]:
        while self._ahead:
            names = self._ahead.popleft()
            if len(names) > DEEPEST:
                self.passed_over.append(names)
                continue
            try:
                with self._folder.opened(names) as number:
                    listed = self._listed(names, number)
                    yield listed
            except OSError:
                self.passed_over.append(names)
                continue
            if listed.has_more:
                return
            folders = (entry.name for entry in listed.entries if entry.kind == "folder")
            self._ahead += [(*names, name) for name in folders]

    def _listed(self, names: tuple[str, ...], number: int) -> Listed:
        entries = _entries(number, self._most + 1)
        has_more = len(entries) > self._most
        del entries[self._most :]
        self._most -= len(entries)
        seen = self._folder.hidden.seen(names, (entry.name for entry in entries))
        return Listed(names, number, [one for one in entries if one.name in seen], has_more)


def listing(folder: Folder, start: Sequence[str]) -> str:
    found: dict[tuple[str, ...], Kind] = {}
    is_cut = False
    walk = Walk(folder, start, _MOST_LISTED)
    with closing(walk.directories()) as directories:
        for directory in directories:
            is_cut = is_cut or directory.has_more
            found |= {(*directory.names, entry.name): entry.kind for entry in directory.entries}
    found |= dict.fromkeys(walk.passed_over, "passed over")
    lines = [f"{path_of(names) or '.'}{_MARKS[kind]}" for names, kind in sorted(found.items())]
    if is_cut:
        lines.append(f"… these are the first {_MOST_LISTED}: list one of the folders for more")
    return "\n".join(lines)


def path_of(names: Sequence[str]) -> str:
    """Write a path on one line. A name that would break the line is quoted."""
    path = "/".join(names)
    return path if path.isprintable() else json.dumps(path)


def _entries(number: int, most: int) -> list[Entry]:
    with os.scandir(number) as found:
        entries = [Entry(one.name, _kind(one)) for one in islice(found, most)]
    return sorted(entries)


def _kind(entry: "os.DirEntry[str]") -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        is_left_out = entry.name in _MADE_BY_PROGRAMS or _CACHE.fullmatch(entry.name)
        return "left out" if is_left_out or is_version_control(entry.name) else "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


class FileText:
    def __init__(self, data: bytes, path: str) -> None:
        if (problem := _problem(data)) is not None:
            raise ToolError(f"{path} {problem}: only text in UTF-8 can be used here")
        self._mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        try:
            self._raw = data[len(self._mark) :].decode()
        except UnicodeDecodeError as error:
            raise ToolError(
                f"{path} is no text in UTF-8 (byte {error.start + len(self._mark)} is "
                f"0x{error.object[error.start]:02x}): only that can be used here"
            ) from None
        found = _CRLF.finditer(self._raw)
        self._shortened = [one.start() - number for number, one in enumerate(found)]
        self.text = self._raw.replace("\r\n", "\n")  # as a model sees it

    def encoded(self, replacements: list[tuple[int, int, str]]) -> bytes:
        """Return the file with parts replaced: start, end and new text, in order.

        What is new has the line ends that most lines have.
        """
        has_crlf = 2 * len(self._shortened) > self.text.count("\n")
        pieces: list[str] = []
        done = 0
        for start, end, new in replacements:
            pieces.append(self._raw[done : self._place(start)])
            pieces.append(new.replace("\n", "\r\n") if has_crlf else new)
            done = self._place(end)
        pieces.append(self._raw[done:])
        return self._mark + "".join(pieces).encode()

    def _place(self, offset: int) -> int:
        """Return the offset in the file of an offset in the text."""
        return offset + bisect_left(self._shortened, offset)


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def line_count(text: str) -> str:
    return counted(text.count("\n") + (not text.endswith("\n") and text != ""), "line")


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _problem(data: bytes) -> str | None:
    for mark, name in _OTHER_MARKS.items():
        if data.startswith(mark):
            return f"is written in {name}"
    if b"\0" in data:
        return "is no text, but binary data"
    return None


class Edit(BaseModel):
    """One replacement in a file."""

    model_config = ConfigDict(extra="forbid")

    old: str = Field(
        min_length=1,
        description="The text to replace, exactly as in the file, with its indentation. It must "
        "occur exactly once: take in lines around it if need be.",
    )
    new: str = Field(description="The text that comes in its place; empty to delete.")


class NotFoundError(Exception):
    def __init__(self, text: str, old: str, subject: str) -> None:
        super().__init__(f"{subject} does not occur")
        self._text = text
        self._old = old

    def failure(self) -> ToolError:
        return ToolError(f"{self}{_hint(self._text, self._old)}. Nothing was changed")


def edited(file: FileText, edits: list[Edit], path: str) -> bytes:
    """Make all edits or none, in any order. Raises ToolError or NotFoundError."""
    replacements: list[tuple[int, int, str]] = []
    for number, edit in enumerate(edits, 1):
        subject = "old" if len(edits) == 1 else f"old of edit {number}"
        start, end = _found(file.text, _with_lf(edit.old), f"{subject} in {path}")
        replacements.append((start, end, _with_lf(edit.new)))
    replacements.sort()
    for (_, end, _), (start, _, _) in pairwise(replacements):
        if start < end:
            raise ToolError(
                f"two edits of {path} overlap, around line {_line(file.text, start)}: make one of "
                "them. Nothing was changed"
            )
    if all(file.text[start:end] == new for start, end, new in replacements):
        raise ToolError(f"old and new are the same: {path} was not changed")
    return file.encoded(replacements)


def _found(text: str, old: str, subject: str) -> tuple[int, int]:
    places = list(islice(_places(text, old), _MOST_PLACES + 1))
    if len(places) == 1:
        return places[0], places[0] + len(old)
    if not places:
        raise NotFoundError(text, old, subject)
    often = str(len(places)) if len(places) <= _MOST_PLACES else f"more than {_MOST_PLACES}"
    lines = ", ".join(str(_line(text, place)) for place in places[:_MOST_PLACES])
    raise ToolError(
        f"{subject} occurs {often} times, in lines {lines}: take in lines around it, so that it "
        "occurs once. Nothing was changed"
    )


def _places(text: str, old: str) -> Iterator[int]:
    place = text.find(old)
    while place >= 0:
        yield place
        place = text.find(old, place + 1)


def _hint(text: str, old: str) -> str:
    """Return what may have been meant: where lines begin to differ, maybe only in white space."""
    wanted = lines_of(old.lstrip("\n"))
    there = lines_of(text)
    first = "".join(wanted[0].split()) if wanted else ""
    guesses = (
        number for number, line in enumerate(there) if first and "".join(line.split()) == first
    )
    for guess in islice(guesses, _MOST_GUESSES):
        for number in range(guess, min(guess + len(wanted), len(there))):
            has, wants = there[number], wanted[number - guess]
            if has != wants:
                told = f"{has[:_LONGEST]!r}, not {wants[:_LONGEST]!r}"
                return f": line {number + 1} is {told}"
    return ": read the file again, and copy from it exactly"


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _with_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def matcher(sought: str, *, is_regex: bool) -> Matcher:
    """Return a function that finds lines. Raises ToolError for an unusable expression."""
    if not is_regex:
        return lambda text: _plain(text, sought)
    if (problem := _pattern_problem(sought)) is None:
        try:
            schema = core_schema.str_schema(pattern=sought, regex_engine="rust-regex")
            matches = SchemaValidator(schema).isinstance_python
        except SchemaError as error:
            problem = str(error).partition("SchemaError: ")[2].strip() or str(error)
    if problem is not None:
        raise ToolError(
            f"this is no regular expression that can be used: {problem}\nLeave out regex to search "
            "for the text as it stands"
        )
    return lambda text: (
        number if matches(line[:_LONGEST_MATCHED]) else None
        for number, line in enumerate(lines_of(text))
    )


def _pattern_problem(sought: str) -> str | None:
    if _VERBOSE.search(sought):  # among white space and comments, repetitions are not seen
        return "it has the flag x: write it without white space and comments"
    if _size(sought) > _LARGEST:
        return (
            "it repeats so much that it would take too long: write + or * in place of large "
            "numbers, and repeat nothing that is repeated"
        )
    return None


def _size(sought: str) -> int:
    """Return an upper bound for the steps of an expression: nested repetitions multiply."""
    once = again = 1
    for found in _REPEATED.finditer(sought):
        times = max(int(found[2] or found[1] or 1), 1)
        if sought[: found.start()].endswith((")", "}", "?", "*", "+")):
            again *= times
        else:
            once = max(once, times)
    return len(sought) * once * again


class Search:
    def __init__(self, matches: Matcher, may_go_on: Callable[[], bool]) -> None:
        self._matches = matches
        self._may_go_on = may_go_on
        self._found: list[str] = []
        self._files = 0
        self._unreadable = 0
        self._passed_over: Sequence[Sequence[str]] = ()
        self._end: str | None = None
        self._ends_at = time.monotonic() + _SEARCH_SECONDS

    def all_below(self, folder: Folder, start: Sequence[str]) -> None:
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
        lines: list[str] | None = None
        for number in self._matches(text):
            if number is not None:
                lines = lines or lines_of(text)
                self._found.append(f"{path}:{number + 1}: {_shown(lines[number])}")
            if self._must_end():
                break
        self._files += lines is not None

    def summary(self) -> str:
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
        except (OSError, ToolError):
            self._unreadable += 1

    def _must_end(self) -> bool:
        if len(self._found) >= _MOST_MATCHES:
            self._end = f"it was stopped after {_MOST_MATCHES}"
        elif time.monotonic() > self._ends_at:
            self._end = f"it was stopped after {_SEARCH_SECONDS:g} s"
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
            raise ToolError(f"{name} has {line_count(text)}: there is no line {start_line}")
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
        except NotFoundError as problem:  # outside of the lock
            raise problem.failure() from None
        return f"made {counted(len(edits), 'edit')} in {name}"


def _part(name: str, lines: list[str], start_line: int, max_lines: int) -> str:
    """Return some lines, no more than fit into one answer, and say which they are."""
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
