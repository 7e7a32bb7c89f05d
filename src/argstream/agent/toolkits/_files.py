"""Tools for the files of one folder: list, read, search, write, edit. Nothing leads out of it."""

import codecs
import json
import os
import re
import secrets
import stat
import threading
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import accumulate, islice, pairwise
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
from argstream.policy import Policy

MOST_BYTES: Final = 16 * 1024 * 1024  # of a file that is read, searched, written or edited
_SECONDS: Final = 60  # for a disk that does not answer
_FOR_READING: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NOCTTY", 0)
_FOR_WRITING: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)

# What one answer contains at most
_MOST_LISTED: Final = 1_000  # files and folders
_MOST_CHARACTERS: Final = 256 * 1024  # of a file that is read
_MOST_SHOWN: Final = 2_000_000  # bytes of a file that a user interface shows
_MOST_MATCHES: Final = 200  # lines that a search finds
_LONGEST_SHOWN: Final = 300  # characters of such a line
_MOST_PLACES: Final = 20  # where a text occurs, or may have been meant
_LONGEST: Final = 120  # characters of a line, in an error

# When a search ends
_MOST_ENTRIES: Final = 50_000  # files and folders that it looks at
_SEARCH_SECONDS: Final = 10.0
_LONGEST_MATCHED: Final = 1_000  # characters of a line that an expression looks at
_LARGEST: Final = 20_000  # steps of an expression: such a one takes 0.2 s for a line
_REPEATED: Final = re.compile(r"(?<!\\[xuUpP])\{\s*(\d*)\s*(?:,\s*(\d*)\s*)?\}")  # no \x{41}
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z-]*x")

_OTHER_MARKS: Final = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),  # begin like those of UTF-16
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}

_Names: TypeAlias = tuple[str, ...]
_Kind: TypeAlias = Literal["file", "folder", "generated", "skipped", "link", "other"]
_GENERATED: Final = re.compile(r"node_modules|__pycache__|\.?venv|\.(tox|nox|gradle|idea|.+_cache)")
_MARKS: Final[dict[_Kind, str]] = {
    "file": "",
    "folder": "/",
    "generated": "/ (not listed)",
    "skipped": "/ (not listed: it is too deep, or cannot be opened)",
    "link": " (symbolic link)",
    "other": " (no regular file)",
}

_Matcher: TypeAlias = Callable[[str], Iterator[int | None]]
"""Yields the indices of lines that match, and None for others, so that a search can stop there."""


def file_tools(
    root: Path | str,
    *,
    hidden: Iterable[Path | str] = (),
    confirm_writes: bool | Policy | None = None,
) -> list[Tool]:
    """Return ``list_files``, ``read_file``, ``search_files``, ``write_file`` and ``edit_file``.

    They see only this folder, which must exist. No path, no symbolic link and no concurrent change
    leads outside. A file is replaced in one step.

    Args:
        root: The folder.
        hidden: Files in the folder that the tools do not see, with the files that SQLite keeps
            beside them. Name the store of the agent here if it is below the folder.
        confirm_writes: ``True`` if each call of ``write_file`` and ``edit_file`` needs approval,
            ``False`` if none does, or a policy that decides which do. By default, each needs
            approval if the agent also has ``shell_tool`` and no policy: a command that looks
            harmless, such as ``pytest``, runs files that were written before.

    """
    files = _Files(Folder(root, hidden))
    always = False if confirm_writes is None else confirm_writes
    writing = tool(timeout=_SECONDS, requires_confirmation=always)
    reading: list[Tool] = [files.list_files, files.read_file, files.search_files]
    writers: list[Tool] = [writing(files.write_file), writing(files.edit_file)]
    for writer in writers:
        writer.asks_beside = "run_command" if confirm_writes is None else ""
    return [*reading, *writers]


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
                return _read_text(place)
        except ToolError:
            return None

    return read_text


def _read(place: Place) -> tuple[bytes, os.stat_result]:
    """Read a file. Raises ToolError if it is not a regular file, or too large."""
    name = _require_file(place)
    with as_tool_error(place.text, "read"):
        return _read_in(place.directory, name, place.text)


def _read_in(directory: int, name: str, path: str) -> tuple[bytes, os.stat_result]:
    """Read a file by its name. It never blocks, not even on a pipe without a writer."""
    descriptor = os.open(name, _FOR_READING | os.O_NONBLOCK, dir_fd=directory)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _no_file(path)
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ToolError(f"{path} is too large: it has more than {MOST_BYTES // 2**20} MB")
    return data, status


def _require_writable(place: Place) -> None:
    if any(is_version_control(name) for name in place.way):
        # It runs programs that it finds there.
        raise ToolError(f"{place.text} belongs to version control: these tools do not write there")
    if place.name is not None and place.status is None:
        if place.must_be_folder:
            raise ToolError(f"{place.text} would be a folder: leave out the slash at the end")
        return
    name = _require_file(place)
    mode = place.require_existing().st_mode
    if not mode & 0o222 or not os.access(name, os.W_OK, dir_fd=place.directory):
        raise ToolError(f"{place.text} may not be written: it is read-only")


def _write(
    place: Place, data: bytes, seen: os.stat_result | None, context: ToolContext | None
) -> None:
    """Write a file completely or not at all.

    Nothing is written if the file differs from ``seen``, its status when the caller looked at it,
    or if the call was stopped meanwhile.
    """
    name, directory = place.name, place.directory
    if name is None:
        raise _no_file(place.text)
    if len(data) > MOST_BYTES:
        raise ToolError(f"{place.text} would have more than {MOST_BYTES // 2**20} MB: write less")
    draft = f".argstream-{secrets.token_hex(8)}.tmp"
    with as_tool_error(place.text, "written"):
        descriptor = os.open(draft, _FOR_WRITING, 0o666, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if seen is not None:
                    os.fchmod(descriptor, seen.st_mode & 0o777)  # without set-user-ID
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            if _version(place.look(name)) != _version(seen):
                raise ToolError(f"{place.text} was changed in the meantime: read it again first")
            if context is not None and context.cancelled:
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
    if place.must_be_folder:
        raise ToolError(f"{place.text} is a file: leave out the slash at the end")
    if not stat.S_ISREG(status.st_mode):
        raise _no_file(place.text)
    return place.name


def _no_file(path: str) -> ToolError:
    return ToolError(f"{path} is a pipe, a device or another special file. Do not read or write it")


def _version(status: os.stat_result | None) -> tuple[int, ...]:
    if status is None:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class _Directory(NamedTuple):
    names: _Names
    descriptor: int
    entries: list[tuple[str, _Kind]]


class _Walk:
    """Walks through a directory and those below it, upper ones first."""

    def __init__(self, folder: Folder, start: Sequence[str], most: int) -> None:
        self._folder = folder
        self._ahead = deque([tuple(start)])
        self._most = most  # entries that may still be seen
        self.is_cut = False  # whether there were more
        self.skipped: list[_Names] = []  # too deep, may not be read, or gone meanwhile

    def directories(self) -> Generator[_Directory, None, None]:
        while self._ahead and not self.is_cut:
            names = self._ahead.popleft()
            if len(names) > DEEPEST:
                self.skipped.append(names)
                continue
            try:
                with self._folder.opened(names) as descriptor:
                    entries = self._entries(names, descriptor)
                    yield _Directory(names, descriptor, entries)
            except OSError:
                self.skipped.append(names)
                continue
            self._ahead += [(*names, name) for name, kind in entries if kind == "folder"]

    def _entries(self, names: _Names, descriptor: int) -> list[tuple[str, _Kind]]:
        with os.scandir(descriptor) as found:
            entries = sorted((one.name, _kind(one)) for one in islice(found, self._most + 1))
        self.is_cut = len(entries) > self._most
        del entries[self._most :]
        self._most -= len(entries)
        visible = self._folder.visible(names, (name for name, _ in entries))
        return [(name, kind) for name, kind in entries if name in visible]


def _kind(entry: "os.DirEntry[str]") -> _Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        is_generated = _GENERATED.fullmatch(entry.name) or is_version_control(entry.name)
        return "generated" if is_generated else "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _listing(folder: Folder, start: Sequence[str]) -> str:
    found: dict[_Names, _Kind] = {}
    walk = _Walk(folder, start, _MOST_LISTED)
    for directory in walk.directories():
        found |= {(*directory.names, name): kind for name, kind in directory.entries}
    found |= dict.fromkeys(walk.skipped, "skipped")
    lines = [f"{_path_text(names) or '.'}{_MARKS[kind]}" for names, kind in sorted(found.items())]
    if walk.is_cut:
        lines.append(f"… these are the first {_MOST_LISTED}: list one of the folders for more")
    return "\n".join(lines)


def _path_text(names: Sequence[str]) -> str:
    """Write a path on one line. A name that would break the line is quoted."""
    path = "/".join(names)
    return path if path.isprintable() else json.dumps(path)


class _FileText:
    """The text of a file with LF at the ends of lines, as a model sees it."""

    def __init__(self, data: bytes, path: str) -> None:
        only = "only text in UTF-8 can be used here"
        for encoding, marks in _OTHER_MARKS.items():
            if data.startswith(marks):
                raise ToolError(f"{path} is written in {encoding}: {only}")
        if b"\0" in data:
            raise ToolError(f"{path} is not text, but binary data: {only}")
        self._mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        try:
            self._raw = data[len(self._mark) :].decode()
        except UnicodeDecodeError as error:
            raise ToolError(
                f"{path} is not UTF-8 text (byte {error.start + len(self._mark)} is "
                f"0x{error.object[error.start]:02x}): only that can be used here"
            ) from None
        found = re.finditer("\r\n", self._raw)
        self._shortened = [one.start() - number for number, one in enumerate(found)]
        self.text = self._raw.replace("\r\n", "\n")

    def encoded(self, replacements: list[tuple[int, int, str]]) -> bytes:
        """Return the file with parts replaced: start, end and new text, in order.

        New lines have the ends that most lines have.
        """
        has_crlf = 2 * len(self._shortened) > self.text.count("\n")
        pieces: list[str] = []
        done = 0
        for start, end, new in replacements:
            pieces.append(self._raw[done : self._raw_offset(start)])
            pieces.append(new.replace("\n", "\r\n") if has_crlf else new)
            done = self._raw_offset(end)
        pieces.append(self._raw[done:])
        return self._mark + "".join(pieces).encode()

    def _raw_offset(self, offset: int) -> int:
        return offset + bisect_left(self._shortened, offset)


def _read_text(place: Place) -> str:
    return _FileText(_read(place)[0], place.text).text


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


class Edit(BaseModel):
    """One replacement in a file."""

    model_config = ConfigDict(extra="forbid")

    old: str = Field(
        min_length=1,
        description="The text to replace, exactly as in the file, with its indentation. It must "
        "occur exactly once. Include the lines around it if necessary.",
    )
    new: str = Field(description="The text that comes in its place; empty to delete.")


def _edited(file: _FileText, edits: list[Edit], path: str) -> bytes:
    """Make all edits or none, in any order. Raises ToolError."""
    replacements: list[tuple[int, int, str]] = []
    for number, edit in enumerate(edits, 1):
        subject = "old" if len(edits) == 1 else f"old of edit {number}"
        old, new = edit.old.replace("\r\n", "\n"), edit.new.replace("\r\n", "\n")
        start = _only_place(file.text, old, f"{subject} in {path}")
        replacements.append((start, start + len(old), new))
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


def _only_place(text: str, old: str, subject: str) -> int:
    places = list(islice(_places(text, old), _MOST_PLACES + 1))
    if len(places) == 1:
        return places[0]
    if not places:
        raise ToolError(f"{subject} does not occur{_hint(text, old)}. Nothing was changed")
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
    wanted, there = _lines(old.lstrip("\n")), _lines(text)
    first = "".join(wanted[0].split()) if wanted else ""
    guesses = (
        number for number, line in enumerate(there) if first and "".join(line.split()) == first
    )
    for guess in islice(guesses, _MOST_PLACES):
        for number, (has, wants) in enumerate(zip(there[guess:], wanted, strict=False), guess + 1):
            if has != wants:
                return f": line {number} is {has[:_LONGEST]!r}, not {wants[:_LONGEST]!r}"
    return ": read the file again, and copy from it exactly"


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _matcher(sought: str, *, is_regex: bool) -> _Matcher:
    """Return a function that finds lines. Raises ToolError for an unusable expression."""
    if not is_regex:
        return lambda text: _lines_with(text, sought)
    if _VERBOSE.search(sought):  # among white space and comments, repetitions are not seen
        raise _unusable("it has the flag x: write it without white space and comments")
    if _size(sought) > _LARGEST:
        raise _unusable("it repeats so much that it would take too long: write + or * instead")
    try:
        schema = core_schema.str_schema(pattern=sought, regex_engine="rust-regex")
        matches = SchemaValidator(schema).isinstance_python
    except SchemaError as error:
        raise _unusable(str(error).partition("SchemaError: ")[2].strip() or str(error)) from None
    return lambda text: (
        number if matches(line[:_LONGEST_MATCHED]) else None
        for number, line in enumerate(_lines(text))
    )


def _unusable(problem: str) -> ToolError:
    return ToolError(
        f"this is no regular expression that can be used: {problem}\nLeave out regex to search "
        "for the text as it stands"
    )


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


def _lines_with(text: str, sought: str) -> Iterator[int]:
    line = seen = 0
    for found in re.finditer(f"{re.escape(sought)}.*", text):
        line += text.count("\n", seen, found.start())
        seen = found.start()
        yield line


class _Search:
    def __init__(self, matches: _Matcher, context: ToolContext | None) -> None:
        self._matches = matches
        self._context = context
        self._found: list[str] = []
        self._files = 0
        self._unreadable = 0
        self._skipped: Sequence[_Names] = ()
        self._end: str | None = None
        self._ends_at = time.monotonic() + _SEARCH_SECONDS

    def all_below(self, folder: Folder, start: Sequence[str]) -> None:
        walk = _Walk(folder, start, _MOST_ENTRIES)
        self._skipped = walk.skipped
        with closing(walk.directories()) as directories:
            for directory in directories:
                for name, kind in directory.entries:
                    if kind == "file":
                        if self._must_end():
                            return
                        self._file(directory, name)
        if walk.is_cut:
            self._end = self._end or f"it was stopped after {_MOST_ENTRIES} files and folders"

    def text(self, text: str, path: str) -> None:
        lines: list[str] | None = None
        for number in self._matches(text):
            if number is not None:
                lines = lines or _lines(text)
                self._found.append(f"{path}:{number + 1}: {_shown(lines[number])}")
            if self._must_end():
                break
        self._files += lines is not None

    def summary(self) -> str:
        files, folders = _counted(self._unreadable, "file"), _counted(len(self._skipped), "folder")
        head = "nothing was found"
        if self._found:
            head = f"{_counted(len(self._found), 'line')} in {_counted(self._files, 'file')}"
        if self._end is not None:
            head += f"; {self._end}, so there may be more: name a narrower path"
        if self._unreadable:
            head += f"; not searched: {files}, no text in UTF-8 or too large"
        if self._skipped:
            head += f"; not searched: {folders}, too deep or not to be opened"
        return "\n".join([head, *self._found])

    def _file(self, directory: _Directory, name: str) -> None:
        try:
            data, _ = _read_in(directory.descriptor, name, name)
            text = _FileText(data, name).text
        except (OSError, ToolError):
            self._unreadable += 1
        else:
            self.text(text, _path_text((*directory.names, name)))

    def _must_end(self) -> bool:
        if len(self._found) >= _MOST_MATCHES:
            self._end = f"it was stopped after {_MOST_MATCHES}"
        elif time.monotonic() > self._ends_at:
            self._end = f"it was stopped after {_SEARCH_SECONDS:g} s"
        elif self._context is not None and self._context.cancelled:
            self._end = "it was stopped"
        return self._end is not None


def _shown(line: str) -> str:
    cut = len(line) - _LONGEST_SHOWN
    return line if cut <= 0 else f"{line[:_LONGEST_SHOWN]} … ({cut} characters more)"


class _Files:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._writing = threading.Lock()  # calls of one turn run at the same time

    @tool(timeout=_SECONDS, read_only=True)
    def list_files(self, path: str = ".") -> str:
        """List the files of the project, in a folder and all folders below it.

        Folders end with a slash. Generated folders, such as .git or node_modules, are listed only
        if they are the path.

        :param path: The folder, relative to the root of the project, such as src.
        """
        with self._folder.find(path) as place:
            start = place.enter().names
        return _listing(self._folder, start) or f"{place.text} is empty"

    @tool(timeout=_SECONDS, read_only=True)
    def read_file(
        self,
        path: str,
        start_line: Annotated[int, Field(ge=1)] = 1,
        max_lines: Annotated[int, Field(ge=1)] = 2_000,
    ) -> str:
        """Read a text file of the project, or some lines of it.

        The first line of the result says which lines these are and how many the file has. The
        exact text of the file follows.

        :param path: The file, relative to the root of the project, such as src/app.py.
        :param start_line: The first line to read. The first line of the file is 1.
        :param max_lines: How many lines to read at most.
        """
        with self._folder.find(path) as place:
            lines = _lines(_read_text(place))
        if not lines:
            return f"{place.text} is empty"
        has = f"{place.text} has {_counted(len(lines), 'line')}"
        if start_line > len(lines):
            raise ToolError(f"{has}: there is no line {start_line}")
        return f"{has}; {_part(lines, start_line, max_lines)}"

    @tool(timeout=_SECONDS, read_only=True)
    def search_files(
        self,
        query: Annotated[str, Field(min_length=1, max_length=500)],
        path: str = ".",
        regex: bool = False,  # noqa: FBT001, FBT002 - a model writes its name
        context: ToolContext | None = None,
    ) -> str:
        """Search the text files of the project, and return the lines in which something occurs.

        Upper and lower case differ. Generated folders, such as .git or node_modules, are searched
        only if they are the path.

        :param query: The exact text to find.
        :param path: The file or folder to search, relative to the root of the project.
        :param regex: Whether the query is a regular expression that a line matches somewhere. It
            has no look-around and no backreferences; (?i) at its beginning passes over case.
        """
        search = _Search(_matcher(query, is_regex=regex), context)
        with self._folder.find(path) as place:
            if place.is_folder:
                search.all_below(self._folder, place.enter().names)
            else:
                search.text(_read_text(place), _path_text(place.way))
        return search.summary()

    def write_file(self, path: str, content: str, context: ToolContext | None = None) -> str:
        """Write a text file of the project. Missing folders are created.

        An existing file is replaced as a whole. To change a part of it, use edit_file.

        :param path: The file, relative to the root of the project, such as src/app.py.
        :param content: The whole text of the file.
        """
        with self._writing, self._folder.find(path) as place:
            _require_writable(place)
            place.make_parents()
            _write(place, content.encode(), place.status, context)
        lines = _counted(len(_lines(content)), "line")
        if place.status is None:
            return f"created {place.text} with {lines}"
        return f"wrote {lines} to {place.text}"

    def edit_file(
        self,
        path: str,
        edits: Annotated[list[Edit], Field(min_length=1)],
        context: ToolContext | None = None,
    ) -> str:
        """Change parts of a text file of the project. All edits are made, or none.

        Each edit refers to the file as it is before the call, so their order does not matter, and
        they must not overlap.

        :param path: The file, relative to the root of the project, such as src/app.py.
        :param edits: The replacements. Each refers to the file as it was before the call.
        """
        with self._writing, self._folder.find(path) as place:
            place.require_existing()
            _require_writable(place)
            data, status = _read(place)
            data = _edited(_FileText(data, place.text), edits, place.text)
            _write(place, data, status, context)
        return f"made {_counted(len(edits), 'edit')} in {place.text}"


def _part(lines: list[str], start_line: int, max_lines: int) -> str:
    """Return some lines, no more than fit into one answer, after a line about which they are."""
    wanted = lines[start_line - 1 :][:max_lines]
    sizes = [*accumulate(len(line) + 1 for line in wanted)]
    shown = wanted[: bisect_right(sizes, _MOST_CHARACTERS)]
    if not shown:
        left_out = len(wanted[0]) - _MOST_CHARACTERS
        shown = [f"{wanted[0][:_MOST_CHARACTERS]} … (the line has {left_out} characters more)"]
    end = start_line + len(shown) - 1
    which = f"line {start_line}" if end == start_line else f"lines {start_line} to {end}"
    if len(shown) == len(lines):
        which = "all of it"
    more = f"; go on with start_line={end + 1}" if end < len(lines) else ""
    return "\n".join([f"this is {which}{more}:", *shown, ""])
