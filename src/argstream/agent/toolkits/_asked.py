"""What a model may ask for as a path: names to walk along, before the disk is looked at."""

import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

from argstream.errors import ToolFailure

__all__ = ["Asked", "folded", "is_version_control", "names_below", "plain_names", "read_path"]

_LONGEST: Final = 4096  # characters: what a system call takes
_LONGEST_NAME: Final = 255  # bytes: what file systems take
_VERSION_CONTROL: Final = frozenset({".git", "git~1", ".hg", ".jj", ".svn"})
_RELATIVE: Final = "give a path from the folder on, such as src/app.py"


class Asked(NamedTuple):
    """A path as a model means it."""

    names: tuple[str, ...]
    """From the folder on; ``..`` among them is still to be walked."""
    is_folder: bool
    """Whether it can only be a folder: it ends with a slash or a dot, or is empty."""

    @property
    def text(self) -> str:
        """What it is called in answers."""
        return "/".join(self.names) or "."


def read_path(path: str, roots: Sequence[Sequence[str]]) -> Asked:
    """Read a path; ``roots`` are the names that may stand before it, if it is absolute.

    Raises ToolFailure, in words for a model, if it cannot be a path in the folder.
    """
    if (problem := _problem(path)) is not None:
        raise ToolFailure(f"{_shown(path)} {problem}")
    names: Sequence[str] | None = plain_names(path)
    if path.startswith("/"):
        names = names_below(path, roots)
    if names is None:
        raise ToolFailure(f"{_shown(path)} is outside of the folder: {_RELATIVE}")
    return Asked(tuple(names), path.rpartition("/")[2] in ("", ".", ".."))


def names_below(path: str, roots: Sequence[Sequence[str]]) -> Sequence[str] | None:
    """Give what of an absolute path comes after a root; None if it begins elsewhere."""
    names = plain_names(path)
    for root in roots:
        if names[: len(root)] == list(root):
            return names[len(root) :]
    return None


def is_version_control(name: str) -> bool:
    """Say whether it is a folder in which a file may be a program that others will run."""
    return folded(name) in _VERSION_CONTROL


def folded(name: str) -> str:
    """Give a name such that names are the same if any file system takes them for the same.

    They differ in that: some know no case, some pass over characters that cannot be seen, some
    have short names, some have streams behind a colon.
    """
    plain = unicodedata.normalize("NFKC", name)
    visible = "".join(one for one in plain if unicodedata.category(one) != "Cf")
    return visible.casefold().partition(":")[0].rstrip(". ")


def plain_names(path: str) -> list[str]:
    """Give the names of a path, without those that lead nowhere."""
    return [name for name in path.split("/") if name not in ("", ".")]


def _problem(path: str) -> str | None:
    """Say what is wrong with the text of a path, as a clause about it."""
    if not path:
        return f"is no path: {_RELATIVE}, or . for the folder itself"
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
    if any(len(name.encode()) > _LONGEST_NAME for name in path.split("/")):
        return f"has a name in it that is too long: one has at most {_LONGEST_NAME} bytes"
    return None


def _shown(path: str) -> str:
    """Give a path for an error: quoted, and not at any length."""
    return ascii(path if len(path) <= 100 else f"{path[:100]}...")
