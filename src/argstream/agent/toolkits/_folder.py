"""A folder that no path leads out of, even if another process changes it meanwhile.

A path is walked name by name, each step from a directory that is open already, and no step follows
a symbolic link: a link is read, and its target walked in the same way, from where it stands. So
there is no moment between a check and a use in which a directory could be exchanged for a link.
``..`` goes back to the directory that the walk came through.
"""

import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from argstream.errors import ToolError, UsageError

_LONGEST: Final = 4096  # characters of a path: what a system call accepts
_MOST_LINKS: Final = 40  # as Linux has it
DEEPEST: Final = 100  # directories that are open at once; deeper ones are not entered
_FUNCTIONS: Final = {os.open, os.stat, os.mkdir, os.readlink, os.rename, os.unlink, os.access}
_VERSION_CONTROL: Final = frozenset({".git", "git~1", ".hg", ".jj", ".svn"})
_SQLITE_SUFFIXES: Final = ("", "-journal", "-wal", "-shm")
"""Of the files that SQLite keeps beside a database: writing one of them changes the database."""
_RELATIVE: Final = "give a path from the folder on, such as src/app.py"


def _names_below(path: str, roots: Sequence[Sequence[str]]) -> list[str] | None:
    """Return the names after a root in an absolute path; None if it begins elsewhere."""
    names = _plain_names(path)
    return next((names[len(root) :] for root in roots if names[: len(root)] == list(root)), None)


def is_version_control(name: str) -> bool:
    """Return True for a folder in which a file may be a program that others will run."""
    return _folded(name) in _VERSION_CONTROL


def _folded(name: str) -> str:
    """Return a form in which names are equal if any file system treats them as the same.

    Some file systems ignore case, some ignore invisible characters, some have short names, and some
    have streams behind a colon.
    """
    plain = unicodedata.normalize("NFKC", name)
    visible = "".join(one for one in plain if unicodedata.category(one) != "Cf")
    return visible.casefold().partition(":")[0].rstrip(". ")


def _plain_names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _problem(path: str) -> str | None:
    """Return what is wrong with the text of a path, as a clause about it."""
    if not path:
        return f"is not a path: {_RELATIVE}, or . for the folder itself"
    if len(path) > _LONGEST:
        return f"is too long: a path has at most {_LONGEST} characters"
    if path.startswith("~"):
        return f"begins with ~, and a home directory is outside of the folder: {_RELATIVE}"
    if "://" in path:
        return f"is a URL, not a path: {_RELATIVE}"
    if "\\" in path:
        return "has a backslash in it: write / between names"
    if any(unicodedata.category(one) in ("Cc", "Cs") for one in path):
        return "has a character in it that no name here has: leave out control characters"
    return None


def _shown(path: str) -> str:
    return ascii(path if len(path) <= 100 else f"{path[:100]}...")


class Folder:
    def __init__(self, root: Path | str, hidden: Iterable[Path | str] = ()) -> None:
        if not os.supports_dir_fd >= _FUNCTIONS:
            raise UsageError(
                "this system cannot open files relative to an open directory, which confines tools "
                "to a folder: use Linux, macOS, or WSL on Windows"
            )
        if not isinstance(root, Path | str):
            raise UsageError(f"the folder must be a Path or a str, not {type(root).__name__}")
        if root == "":
            raise UsageError("the folder has no name: . is the one that the program runs in")
        try:
            given = Path(root).expanduser().absolute()
            self.root = given.resolve(strict=True)
            status = self.root.stat()
        except (OSError, ValueError, RuntimeError) as error:  # no home, a NUL, a circle of links
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"the folder {str(root)!r} cannot be used: {reason}") from None
        if not stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{str(root)!r} is not a folder")
        self._identity = (status.st_dev, status.st_ino)
        self._roots: Sequence[Sequence[str]] = (self.root.parts[1:], given.parts[1:])
        self._hidden: dict[tuple[str, ...], set[str]] = {}  # folded names, by folder
        self._hide(hidden)

    def _hide(self, files: Iterable[Path | str]) -> None:
        if isinstance(files, str):
            raise UsageError(f"hidden is a list of paths: [{files!r}]")
        for file in files:
            try:
                target = Path(file).resolve()  # SQLite keeps its other files beside the target
            except (OSError, ValueError, RuntimeError) as error:  # a NUL, a circle of links
                raise UsageError(f"{str(file)!r} cannot be hidden: {error}") from None
            if self.root in target.parents:
                *directory, name = target.relative_to(self.root).parts
                names = {_folded(f"{name}{suffix}") for suffix in _SQLITE_SUFFIXES}
                self._hidden.setdefault(tuple(map(_folded, directory)), set()).update(names)

    def visible(self, directory: Sequence[str], names: Iterable[str]) -> set[str]:
        """Return the names in a directory that are not hidden, however they are spelled."""
        hidden = self._hidden.get(tuple(map(_folded, directory)))
        return {name for name in names if hidden is None or _folded(name) not in hidden}

    @contextmanager
    def find(self, path: str) -> "Iterator[Place]":
        """Find what a path leads to. Raises ToolError if it cannot be a path in the folder."""
        if (problem := _problem(path)) is not None:
            raise ToolError(f"{_shown(path)} {problem}")
        # In these names, ".." is not resolved yet.
        names = _names_below(path, self._roots) if path.startswith("/") else _plain_names(path)
        if names is None:
            raise ToolError(f"{_shown(path)} is outside of the folder: {_RELATIVE}")
        text = "/".join(names) or "."
        with as_tool_error(text, "looked up"), _open_directories(self._open()) as directories:
            place = Place(text, directories, self._roots)
            place.must_be_folder = path.rpartition("/")[2] in ("", ".", "..")
            place.walk(names)
            way = place.way
            if not all(self.visible(way[:depth], [name]) for depth, name in enumerate(way)):
                raise ToolError(f"{text} is kept from these tools: leave it alone")
            yield place

    @contextmanager
    def opened(self, names: Sequence[str]) -> Iterator[int]:
        """Open a directory by names that are no links. Raises ToolError for another folder."""
        with _open_directories(self._open()) as directories:
            for name in names:
                directories.append(_enter(name, directories[-1]))
            yield directories[-1]

    def _open(self) -> int:
        try:
            number = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise ToolError(f"the folder cannot be opened: {_reason(error)}") from None
        status = os.fstat(number)
        if (status.st_dev, status.st_ino) != self._identity:
            os.close(number)
            raise ToolError("the folder was replaced by another: nothing is done in that")
        return number


class Place:
    """Where a path leads: a name in an open directory."""

    def __init__(self, text: str, directories: list[int], roots: Sequence[Sequence[str]]) -> None:
        self.text = text  # the path, for messages
        self.must_be_folder = False  # whether the path ends with a slash or a dot
        self.names: list[str] = []  # the way to the directory, without links
        self.name: str | None = None  # what is looked for in it; None: the directory itself
        self.status: os.stat_result | None = None  # of what has the name; None if nothing has
        self._rest: list[str] = []  # what is below the name, if that does not exist
        self._roots = roots
        self._directories = directories
        self._links = 0

    @property
    def directory(self) -> int:
        return self._directories[-1]

    @property
    def way(self) -> list[str]:
        """All names that lead there, also those that do not exist yet."""
        return [*self.names, *([] if self.name is None else [self.name]), *self._rest]

    def walk(self, names: Sequence[str]) -> None:
        ahead = [*reversed(names)]
        while ahead:
            name = ahead.pop()
            if name == "..":
                self._go_up()
                continue
            status = self.look(name)
            if status is not None and stat.S_ISLNK(status.st_mode):
                ahead += reversed(self._target(name))
            elif status is None or not ahead:
                self.name, self.status = name, status
                self._rest = ahead[::-1]
                return
            else:
                self._go_down(name)

    def require_existing(self) -> os.stat_result:
        if self.status is not None:
            return self.status
        if self.name is None:
            return os.fstat(self.directory)
        raise ToolError(f"there is no {self.text}: list_files shows what there is")

    @property
    def is_folder(self) -> bool:
        return self.name is None or (self.status is not None and stat.S_ISDIR(self.status.st_mode))

    def enter(self) -> Self:
        self.require_existing()
        if not self.is_folder:
            raise ToolError(f"{self.text} is not a folder: read_file reads a file")
        if self.name is not None:
            self._go_down(self.name)
            self.name = self.status = None
        return self

    def make_parents(self) -> None:
        if ".." in self._rest:
            raise ToolError(f"{self.text} goes up from a folder that does not exist: leave out ..")
        self._require_depth(len(self.way))
        while self._rest and self.name is not None:
            with suppress(FileExistsError):  # if it is not a directory, the next line raises
                os.mkdir(self.name, dir_fd=self.directory)
            self._go_down(self.name)
            self.name = self._rest.pop(0)
            self.status = self.look(self.name)

    def look(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _go_up(self) -> None:
        if not self.names:
            raise ToolError(f"{self.text} leads out of the folder: stay below it")
        self.names.pop()
        os.close(self._directories.pop())

    def _go_down(self, name: str) -> None:
        self._require_depth(len(self._directories))
        self._directories.append(_enter(name, self.directory))
        self.names.append(name)

    def _require_depth(self, depth: int) -> None:
        if depth > DEEPEST:
            raise ToolError(f"{self.text} is more than {DEEPEST} folders deep")

    def _target(self, name: str) -> Sequence[str]:
        self._links += 1
        if self._links > _MOST_LINKS:
            raise ToolError(f"{self.text} goes through too many symbolic links, or in a circle")
        target = os.readlink(name, dir_fd=self.directory)
        if not target.startswith("/"):
            return _plain_names(target)
        names = _names_below(target, self._roots)
        if names is None:
            raise ToolError(f"{self.text} leads out of the folder by a symbolic link")
        while self.names:
            self._go_up()
        return names


@contextmanager
def as_tool_error(path: str, done: str) -> Iterator[None]:
    """Turn an OSError into a ToolError; ``done`` is what failed, such as ``read``."""
    try:
        yield
    except OSError as error:
        raise ToolError(f"{path} cannot be {done}: {_reason(error)}") from error


@contextmanager
def _open_directories(first: int) -> Iterator[list[int]]:
    """Keep directories open that are walked through, and close them at the end."""
    directories = [first]
    try:
        yield directories
    finally:
        for number in directories:
            os.close(number)


def _enter(name: str, directory: int) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
