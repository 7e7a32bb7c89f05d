"""The file that holds the access token that ``argstream serve`` generates when none is set.

A restarted server reads the token again, so browsers stay signed in. Only the owner may read the
file: with the token, other users of the machine could start runs and approve commands.
"""

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from argstream.errors import UsageError

__all__ = ["read_token", "write_token"]

_OWNER_ONLY: Final = 0o600
_OTHERS: Final = 0o077
_MAX_BYTES: Final = 4096
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)  # for a writer, if the path is a named pipe
_INSTEAD: Final = "or set ARGSTREAM_TOKEN to a token of your own"


def read_token(path: Path) -> str | None:
    """Return the token in a file, or None if there is no such file.

    Raise ``UsageError`` if other users could have read or written the file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
    except FileNotFoundError:
        return None
    except OSError as error:  # also a symbolic link, which might lead anywhere
        raise _unusable("read", path, error) from None
    try:
        _require_private(descriptor, path)
        token = os.read(descriptor, _MAX_BYTES).decode("ascii", "replace").strip()
    except OSError as error:  # a directory, for example
        raise _unusable("read", path, error) from None
    finally:
        os.close(descriptor)
    if not token:
        raise UsageError(f"{str(path)!r} holds no token. Delete it and start again")
    return token


def write_token(path: Path, token: str) -> None:
    """Create the file, readable for its owner only from the start, whatever the umask is."""
    try:
        _make_folders(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
        descriptor = os.open(path, flags, _OWNER_ONLY)
    except FileExistsError:
        raise UsageError(
            f"another server has just created {str(path)!r}. Start again to use its token"
        ) from None
    except OSError as error:
        raise _unusable("create", path, error) from None
    try:
        _require_private(descriptor, path)  # some file systems keep no permissions
        os.write(descriptor, f"{token}\n".encode("ascii"))
    except BaseException as error:
        with contextlib.suppress(OSError):
            path.unlink()
        if isinstance(error, OSError):
            raise _unusable("write", path, error) from None
        raise
    finally:
        os.close(descriptor)


def _make_folders(folder: Path) -> None:
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def _require_private(descriptor: int, path: Path) -> None:
    if os.name != "posix":
        return  # there, permissions are not a file's mode
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid():
        raise UsageError(
            f"{str(path)!r} belongs to another user, who may know its token. Delete it, {_INSTEAD}"
        )
    if status.st_mode & _OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        raise UsageError(
            f"{str(path)!r} is open to other users (mode {mode:04o}), who may know its token. "
            f"Delete it to get a new one, {_INSTEAD}"
        )


def _unusable(what: str, path: Path, error: OSError) -> UsageError:
    reason = error.strerror or type(error).__name__
    return UsageError(f"cannot {what} the token file {str(path)!r}: {reason}. Fix this, {_INSTEAD}")
