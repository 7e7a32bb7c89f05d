"""The store that a command looks into, and the run in it that is meant."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from argstream.cli._options import RUN
from argstream.errors import UnknownRun, UsageError
from argstream.log import RunInfo, Store
from argstream.sanitise import visible_line
from argstream.stores import open_store

__all__ = ["files_of", "find_run", "opened", "place_of", "shown_place", "token_file_of"]

_VARIABLE: Final = "ARGSTREAM_STORE"
_DEFAULT: Final = "argstream.db"
_IN_MEMORY: Final = "memory:"
_SQLITE: Final = "sqlite:"
_MAX_CANDIDATES: Final = 8
_STATE: Final = "XDG_STATE_HOME"


def place_of(given: str) -> str:
    """Give the name of the store that is meant: what was given, or the usual one."""
    return given or os.environ.get(_VARIABLE, "") or _DEFAULT


def files_of(place: str) -> tuple[Path, ...]:
    """Return the files that tools must not touch: the store, and the token of ``serve``."""
    store, token = _store_file(place), token_file_of(place)
    return tuple(file for file in (store, token) if file is not None)


def token_file_of(place: str) -> Path | None:
    """Return where ``serve`` keeps its token: beside the store, or in the user's state folder.

    None if the store is not a file and the user has no home directory.
    """
    store = _store_file(place)
    if store is not None:
        return store.with_name(f"{store.name}.token")
    state = Path(os.environ.get(_STATE, ""))
    if not state.is_absolute():  # the XDG specification: relative paths are ignored
        try:
            state = Path.home() / ".local" / "state"
        except RuntimeError:
            return None
    return state / "argstream" / "server.token"


def _store_file(place: str) -> Path | None:
    """Return the SQLite file of a store; None if it is elsewhere."""
    if "://" in place or place == _IN_MEMORY:
        return None
    return Path(place.removeprefix(_SQLITE))


def shown_place(place: str) -> str:
    """Give the name of a store as it can be shown: no password is in it."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return visible_line(place)
    return visible_line(f"{scheme}://{'…' if '?' in rest else rest.rpartition('@')[2]}")


@asynccontextmanager
async def opened(place: str) -> AsyncIterator[Store]:
    """Open a store that is there, by its name, or the usual one; looking does not make one."""
    place = place_of(place)
    if "://" not in place and not _is_there(Path(place.removeprefix(_SQLITE))):
        shown = f" {place!r}" if "@" not in place else ""  # which may have a password in it
        raise UsageError(
            f"there is no store{shown}: name the SQLite file or the redis:// address that the "
            f"agent was given, with --store or in {_VARIABLE}"
        )
    store = open_store(place)
    try:
        yield store
    finally:
        await store.aclose()


def _is_there(path: Path) -> bool:
    try:
        return path.exists() and path.stat().st_size > 0  # an empty file is no store yet
    except (OSError, ValueError):  # a name that no file can have
        return False


async def find_run(store: Store, name: str) -> RunInfo:
    """Give the run that is meant by ``run:`` and its id, or by the first characters of that."""
    start = name.removeprefix(RUN)
    if not start:
        raise UsageError("run: and then comes the id of a run: see `argstream runs`")
    try:
        return await store.info(start)
    except UnknownRun:
        starts = (start, f"run_{start}")
        found = [info for info in await store.runs() if info.run_id.startswith(starts)]
    if not found:
        raise UsageError(f"the store has no run {start!r}: see `argstream runs`")
    if len(found) > 1:
        shown = [info.run_id for info in found[:_MAX_CANDIDATES]]
        rest = len(found) - len(shown)
        more = f" and {rest} more" if rest else ""
        raise UsageError(
            f"there are {len(found)} runs that begin with {start!r}: {', '.join(shown)}{more}"
        )
    return found[0]
