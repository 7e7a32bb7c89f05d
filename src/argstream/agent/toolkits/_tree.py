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
from argstream.agent.toolkits._folder import Folder

__all__ = ["Entry", "Listed", "listing", "path_of", "walk"]

Kind: TypeAlias = Literal["file", "folder", "left out", "link", "other"]

_MADE_BY_PROGRAMS: Final = frozenset(
    {"node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".gradle", ".idea"}
)


_CACHE: Final = re.compile(r"\..+_cache")


_MOST_LISTED: Final = 1_000
_MARKS: Final[dict[Kind, str]] = {
    "file": "",
    "folder": "/",
    "left out": "/ (not listed)",
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


def walk(folder: Folder, start: Sequence[str], most: int) -> Generator[Listed, None, None]:
    """List a directory and those below it, the upper ones first, up to so many entries.

    One that has gone meanwhile, or may not be read, is passed over.
    """
    ahead = deque([tuple(start)])
    while ahead:
        names = ahead.popleft()
        try:
            with folder.opened(names) as number:
                entries = _entries(number, most + 1)
                has_more = len(entries) > most
                del entries[most:]
                most -= len(entries)
                yield Listed(names, number, entries, has_more)
        except OSError:
            continue
        if has_more:
            return
        ahead += [(*names, entry.name) for entry in entries if entry.kind == "folder"]


def listing(folder: Folder, start: Sequence[str]) -> str:
    """List what is in a directory and below, a path a line; empty if there is nothing."""
    found: dict[tuple[str, ...], Kind] = {}
    is_cut = False
    with closing(walk(folder, start, _MOST_LISTED)) as directories:
        for directory in directories:
            is_cut = is_cut or directory.has_more
            found |= {(*directory.names, entry.name): entry.kind for entry in directory.entries}
    lines = [f"{path_of(names)}{_MARKS[kind]}" for names, kind in sorted(found.items())]
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
