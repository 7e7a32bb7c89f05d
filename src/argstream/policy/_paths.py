"""Where a path leads, as the file system has it, and what of it cannot be told.

This is the one place of the package that looks at the outside world, and it only looks.
"""

import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

__all__ = ["UntellableError", "is_inside", "oddity", "resolve"]

_LONGEST: Final = 4096
"""Characters: what the system call itself takes, and so short that no way of reading it is long."""
_MOST_LINKS: Final = 40  # as Linux has it

# A drive, or the scheme of a URL. A tool may know what it means; here it is the name of a file.
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_VARIABLE: Final = re.compile(r"\$[A-Za-z_{(]")
_STRUCTURE: Final = "/\\.~:$"


class UntellableError(Exception):
    """It cannot be told where a path leads; the message says why, as a clause about ``it``."""


def oddity(path: str, *, windows: bool = os.name == "nt") -> str | None:
    """Say what about a path tools read in different ways, if there is such a thing.

    The answer is a clause about ``it``. None means: all tools that open this path open the same.
    """
    if not path:
        return "it is empty"
    if len(path) > _LONGEST:
        return f"it is longer than {_LONGEST} characters"
    if path.startswith("~"):
        return "it begins with '~', which many tools replace by a home directory"
    if path != path.strip():
        return "it begins or ends with white space"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in path):
        return "it has a control character in it"
    if _VARIABLE.search(path):
        return "it has a '$' in it, which some tools replace by a variable"
    if not path.isascii():
        plain = unicodedata.normalize("NFKC", path)
        if any(plain.count(character) != path.count(character) for character in _STRUCTURE):
            return "it has a character in it that some systems turn into a slash or a dot"
    names = re.split(r"[/\\]", path)
    if any(name.endswith((".", " ")) and name not in (".", "..") for name in names):
        return "it has a name in it that ends with a dot or a space"
    return _windows_oddity(path) if windows else _posix_oddity(path)


def _posix_oddity(path: str) -> str | None:
    if "\\" in path:
        return "it has a backslash in it"
    if _SCHEME.match(path):
        return "it begins like a URL or a drive"
    return None


def _windows_oddity(path: str) -> str | None:
    rest = path[2:] if _DRIVE.match(path) else path
    if ":" in rest:
        return "it has a colon in it"
    if path.startswith(("//", "\\\\", "\\/", "/\\")):
        return "it begins with two slashes"
    if "~" in path:
        return "it has a '~' in it, as a short name has"
    if "%" in path:
        return "it has a '%' in it, which some tools replace by a variable"
    return None


def resolve(path: str) -> str:
    """Follow every symbolic link of an absolute path; what does not exist is taken by its name.

    ``..`` goes up from where a link leads, as the system does it. Raises ``UntellableError`` where
    the way is barred.
    """
    try:
        return os.path.realpath(path) if os.name == "nt" else _follow(path)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UntellableError(f"it cannot be looked up ({reason})") from None
    except ValueError:
        raise UntellableError("it is no path") from None


def _follow(path: str) -> str:
    # os.path.realpath passes over what it may not look at, and over loops: here both must be told.
    current = "/"
    names = path.split("/")[::-1]
    links = 0
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            current = os.path.dirname(current)  # noqa: PTH120 - text, not a path object
            continue
        step = current.rstrip("/") + "/" + name
        try:
            is_link = stat.S_ISLNK(os.lstat(step).st_mode)
        except FileNotFoundError:
            is_link = False
        if not is_link:
            current = step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise UntellableError("it goes through too many symbolic links, maybe in a circle")
        if step.startswith("/proc/"):
            raise UntellableError("it goes through a link of /proc, which each process sees anew")
        target = os.readlink(step)  # noqa: PTH115
        if target.startswith("/"):
            current = "/"
        names += target.split("/")[::-1]
    return current


def is_inside(path: str, directory: str) -> bool:
    """Say whether a resolved path is a resolved directory, or below it.

    Names may differ and the directory be the same: where case or the composition of letters does
    not count, or where it is mounted twice. So what exists is compared by its identity.
    """
    if _is_below(path, directory):
        return True
    identity = _identity(directory)
    if identity is not None and any(_identity(place) == identity for place in _ancestors(path)):
        return True
    if not _is_below(_folded(path), _folded(directory)):
        return False
    depth = len(PurePath(directory).parts)
    namesake = str(PurePath(*PurePath(path).parts[:depth]))
    if identity is None or _identity(namesake) is None:
        raise UntellableError("its name differs only in case or in how letters are composed")
    return False


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _ancestors(path: str) -> Iterator[str]:
    place = PurePath(path)
    yield str(place)
    yield from map(str, place.parents)


def _identity(path: str) -> tuple[int, int] | None:
    """Tell what a place is, whatever it is called; None if there is nothing."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UntellableError(f"it cannot be looked up ({reason})") from None
    return status.st_dev, status.st_ino
