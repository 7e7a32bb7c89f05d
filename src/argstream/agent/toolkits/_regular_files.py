"""Regular files in an open directory: read whole, and replaced in one step.

What is replaced is the name. So nobody ever sees half a file, and another name of the old one, a
hard link to somewhere else, keeps what it had.
"""

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from argstream.agent.toolkits._asked import is_version_control
from argstream.agent.toolkits._folder import Place, told
from argstream.errors import ToolFailure

__all__ = ["MOST_BYTES", "Found", "read", "read_in", "require_writable", "write"]

MOST_BYTES: Final = 16 * 1024 * 1024
"""What a file may have, to be read, searched or edited."""
_FOR_READING: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NOCTTY", 0)
_FOR_WRITING: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


class Found(NamedTuple):
    """What was in a file, and what it was then."""

    data: bytes
    status: os.stat_result


def read(place: Place) -> Found:
    """Read the file that is there. Raises ToolFailure if it is none, or too large."""
    name = _require_file(place)
    with told(place.text, "read"):
        found = read_in(place.directory, name)
    if found is None:
        raise _no_file(place)
    if len(found.data) > MOST_BYTES:
        raise ToolFailure(
            f"{place.text} is too large: it has more than {MOST_BYTES // 2**20} MB, which is more "
            "than these tools read"
        )
    return found


def read_in(directory: int, name: str) -> Found | None:
    """Read a file by its name; None if it is no regular one. Of one that is too large, a part.

    It never waits: a pipe that nobody writes to is opened without, and is seen to be none.
    """
    number = os.open(name, _FOR_READING | os.O_NONBLOCK, dir_fd=directory)
    with os.fdopen(number, "rb") as file:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            return None
        return Found(file.read(MOST_BYTES + 1), status)


def require_writable(place: Place) -> None:
    """Raise ToolFailure if no file can be written there."""
    if any(is_version_control(name) for name in place.way):
        raise ToolFailure(
            f"{place.text} belongs to the version control, which runs programs that it finds "
            "there: nothing is written to it"
        )
    if place.name is not None and place.status is None:
        if place.asked.is_folder:
            raise ToolFailure(f"{place.text} would be a folder: leave out the slash at the end")
        return
    name = _require_file(place)
    mode = place.require_existing().st_mode
    if not mode & 0o222 or not os.access(name, os.W_OK, dir_fd=place.directory):
        raise ToolFailure(f"{place.text} may not be written: it is read-only")


def write(
    place: Place, data: bytes, seen: os.stat_result | None, may_go_on: Callable[[], bool]
) -> None:
    """Put a file there, whole or not at all.

    ``seen`` is what was there when it was decided what to write; if that has changed, nothing is
    written, and neither if ``may_go_on`` says so at the last moment.
    """
    name = place.name
    if name is None:
        raise _no_file(place)
    if len(data) > MOST_BYTES:
        raise ToolFailure(f"{place.text} would have more than {MOST_BYTES // 2**20} MB: write less")
    directory = place.directory
    draft = f".argstream-{secrets.token_hex(8)}.tmp"
    with told(place.text, "written"):
        number = os.open(draft, _FOR_WRITING, 0o666, dir_fd=directory)
        try:
            with os.fdopen(number, "wb") as file:
                if seen is not None:
                    os.fchmod(number, seen.st_mode & 0o777)  # never to run as somebody else
                file.write(data)
                file.flush()
                os.fsync(number)
            if not _is_unchanged(directory, name, seen):
                raise ToolFailure(f"{place.text} was changed by somebody else: read it again first")
            if not may_go_on():
                raise ToolFailure(f"{place.text} was not written: the call was stopped")
            os.rename(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=directory)
            raise


def _require_file(place: Place) -> str:
    status = place.require_existing()
    if stat.S_ISDIR(status.st_mode) or place.name is None:
        raise ToolFailure(f"{place.text} is a folder, not a file: list_files shows what is in it")
    if place.asked.is_folder:
        raise ToolFailure(f"{place.text} is a file: leave out the slash at the end")
    if not stat.S_ISREG(status.st_mode):
        raise _no_file(place)
    return place.name


def _no_file(place: Place) -> ToolFailure:
    return ToolFailure(f"{place.text} is no regular file (a pipe, a device …): leave it alone")


def _is_unchanged(directory: int, name: str, seen: os.stat_result | None) -> bool:
    try:
        now = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return seen is None
    return seen is not None and _version(now) == _version(seen)


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
