"""What is in a folder and below, one directory after the other; links are told, never followed."""

import json
import os
import re
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias

from argstream.agent.toolkits._asked import is_version_control
from argstream.agent.toolkits._folder import DEEPEST, Folder

__all__ = ["Entry", "Listed", "Walk", "listing", "path_of"]

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


class Entry(NamedTuple):
    """A name in a directory."""

    name: str
    kind: Kind


class Listed(NamedTuple):
    """A directory, open as long as it is the current one."""

    names: tuple[str, ...]
    number: int
    entries: list[Entry]
    has_more: bool


class Walk:
    """A way through a directory and those below it, the upper ones first."""

    def __init__(self, folder: Folder, start: Sequence[str], most: int) -> None:
        """Begin at a directory; at most so many entries are seen."""
        self._folder = folder
        self._ahead = deque([tuple(start)])
        self._most = most
        self.passed_over: list[tuple[str, ...]] = []
        """Directories that are too deep, may not be read, or have gone meanwhile."""

    def directories(self) -> Generator[Listed, None, None]:
        """Give one after the other, as long as there are any."""
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
    """List what is in a directory and below, a path a line; empty if there is nothing."""
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
    """Write a path on one line; a name that would break the line is quoted."""
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
