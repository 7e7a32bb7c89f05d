"""A folder that nothing leads out of, whoever changes it meanwhile.

A path is walked name by name, each step from a directory that is open already, and no step follows
a symbolic link: a link is read, and its target walked in the same way, from where it stands. So
there is no moment between a check and a use in which a directory could be exchanged for a link.
``..`` goes back to the directory that the walk came through.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from argstream.agent.toolkits._asked import Asked, names_below, plain_names, read_path
from argstream.agent.toolkits._hidden import Hidden
from argstream.errors import ToolFailure, UsageError

__all__ = ["DEEPEST", "Folder", "Place", "told"]

_MOST_LINKS: Final = 40  # as Linux has it
DEEPEST: Final = 100
"""Directories that are open at once, so what is deeper is not gone into."""
_MISSING_FLAGS: Final = [
    name for name in ("O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK") if not hasattr(os, name)
]
_NEEDED: Final = {os.open, os.stat, os.mkdir, os.readlink, os.rename, os.unlink, os.access}


class Folder:
    """A folder for tools: paths in, open directories out."""

    def __init__(self, root: Path | str, hidden: Iterable[Path | str] = ()) -> None:
        if _MISSING_FLAGS or not os.supports_dir_fd >= _NEEDED or os.scandir not in os.supports_fd:
            raise UsageError(
                "tools that are confined to a folder need what this system does not have (open a "
                "file relative to an open directory): use Linux, macOS, or WSL on Windows"
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
            raise UsageError(f"the folder {str(root)!r} cannot be used: {error}") from None
        if not stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{str(root)!r} is no folder")
        self._identity = (status.st_dev, status.st_ino)
        self.roots: Sequence[Sequence[str]] = (self.root.parts[1:], given.parts[1:])
        self.hidden = Hidden(self.root, hidden)

    @contextmanager
    def find(self, path: str) -> "Iterator[Place]":
        """Walk to a path that a model gave, and stay there."""
        asked = read_path(path, self.roots)
        with told(asked.text, "looked up"), _open_directories(self._open()) as directories:
            place = Place(self, asked, directories)
            place.walk()
            if self.hidden.covers(place.way):
                raise ToolFailure(f"{place.text} is kept from these tools: leave it alone")
            yield place

    @contextmanager
    def opened(self, names: Sequence[str]) -> Iterator[int]:
        """Open a directory by its names; none of them may be a link."""
        with _open_directories(self._open()) as directories:
            for name in names:
                directories.append(_enter(name, directories[-1]))
            yield directories[-1]

    def require_same(self) -> None:
        """Raise ToolFailure if another folder is in its place now."""
        os.close(self._open())

    def _open(self) -> int:
        try:
            number = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise ToolFailure(f"the folder cannot be opened: {_reason(error)}") from None
        status = os.fstat(number)
        if (status.st_dev, status.st_ino) != self._identity:
            os.close(number)
            raise ToolFailure("the folder was replaced by another: nothing is done in that")
        return number


class Place:
    """Where a path leads: a name in a directory that is open."""

    def __init__(self, folder: Folder, asked: Asked, directories: list[int]) -> None:
        self.asked = asked
        self.names: list[str] = []
        """The way to the directory, without links."""
        self.name: str | None = None
        """What is looked for in it; None: the directory itself."""
        self.status: os.stat_result | None = None
        """What is there under the name; None if nothing is."""
        self._rest: list[str] = []  # what is below the name, if that does not exist
        self._roots = folder.roots
        self._directories = directories
        self._links = 0

    @property
    def text(self) -> str:
        """What the place is called in answers."""
        return self.asked.text

    @property
    def directory(self) -> int:
        """The open directory."""
        return self._directories[-1]

    @property
    def way(self) -> list[str]:
        """All names that lead there, also those that do not exist yet."""
        return [*self.names, *([] if self.name is None else [self.name]), *self._rest]

    def walk(self) -> None:
        """Go as far as there is something."""
        ahead = [*reversed(self.asked.names)]
        while ahead:
            name = ahead.pop()
            if name == "..":
                self._go_up()
                continue
            status = self._look(name)
            if status is not None and stat.S_ISLNK(status.st_mode):
                ahead += reversed(self._target(name))
            elif status is None or not ahead:
                self.name, self.status = name, status
                self._rest = ahead[::-1]
                return
            else:
                self._go_down(name)

    def require_existing(self) -> os.stat_result:
        """Give the status of what is there. Raises ToolFailure if nothing is."""
        if self.status is not None:
            return self.status
        if self.name is None:
            return os.fstat(self.directory)
        raise ToolFailure(f"there is no {self.text}: list_files shows what there is")

    @property
    def is_folder(self) -> bool:
        """Whether a directory is there."""
        return self.name is None or (self.status is not None and stat.S_ISDIR(self.status.st_mode))

    def enter(self) -> Self:
        """Go into the directory that is there."""
        self.require_existing()
        if not self.is_folder:
            raise ToolFailure(f"{self.text} is no folder: read_file reads a file")
        if self.name is not None:
            self._go_down(self.name)
            self.name = self.status = None
        return self

    def make_parents(self) -> None:
        """Make the directories that are missing above the name."""
        if ".." in self._rest:
            raise ToolFailure(
                f"{self.text} goes up from a folder that does not exist: leave out .."
            )
        if len(self.way) > DEEPEST:
            raise self._too_deep()
        while self._rest and self.name is not None:
            with suppress(FileExistsError):  # if that is no directory, the next line says so
                os.mkdir(self.name, dir_fd=self.directory)
            self._go_down(self.name)
            self.name = self._rest.pop(0)
            self.status = self._look(self.name)

    def _look(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _go_up(self) -> None:
        if not self.names:
            raise ToolFailure(f"{self.text} leads out of the folder: stay below it")
        self.names.pop()
        os.close(self._directories.pop())

    def _go_down(self, name: str) -> None:
        if len(self._directories) > DEEPEST:
            raise self._too_deep()
        self._directories.append(_enter(name, self.directory))
        self.names.append(name)

    def _too_deep(self) -> ToolFailure:
        return ToolFailure(f"{self.text} is more than {DEEPEST} folders deep")

    def _target(self, name: str) -> Sequence[str]:
        """Read a symbolic link: the names to walk from here."""
        self._links += 1
        if self._links > _MOST_LINKS:
            raise ToolFailure(f"{self.text} goes through too many symbolic links, or in a circle")
        target = os.readlink(name, dir_fd=self.directory)
        if not target.startswith("/"):
            return plain_names(target)
        names = names_below(target, self._roots)
        if names is None:
            raise ToolFailure(
                f"{self.text} leads out of the folder, by a symbolic link: it cannot be used"
            )
        while self.names:
            self._go_up()
        return names


@contextmanager
def told(path: str, done: str) -> Iterator[None]:
    """Tell a model of what the system refuses; ``done`` says to what end, such as ``read``."""
    try:
        yield
    except OSError as error:
        raise ToolFailure(f"{path} cannot be {done}: {_reason(error)}") from error


@contextmanager
def _open_directories(first: int) -> Iterator[list[int]]:
    """Keep directories open that are walked through, and close those that are left."""
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
