"""Files of a folder that its tools do not see, such as the store that keeps the log of the run."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from argstream.agent.toolkits._asked import folded
from argstream.errors import UsageError

__all__ = ["Hidden"]

_Names: TypeAlias = tuple[str, ...]

_BESIDE: Final = ("", "-journal", "-wal", "-shm")
"""What SQLite keeps beside a file: who writes one of these has written to the file."""


class Hidden:
    """Says which names are not seen; names are compared as the most forgiving file system does."""

    def __init__(self, root: Path, files: Iterable[Path | str]) -> None:
        """Hide files by their paths; those that are not below the root need no hiding."""
        if isinstance(files, str):
            raise UsageError(f"hidden is a list of paths: [{files!r}]")
        self._names: dict[_Names, set[str]] = {}
        for names in _ways(root, files):
            *directory, name = names
            self._names.setdefault(tuple(map(folded, directory)), set()).update(
                folded(f"{name}{ending}") for ending in _BESIDE
            )

    def seen(self, directory: Sequence[str], names: Iterable[str]) -> set[str]:
        """Give those of the names in a directory that are not hidden."""
        hidden = self._names.get(tuple(map(folded, directory)))
        return {name for name in names if hidden is None or folded(name) not in hidden}

    def covers(self, way: Sequence[str]) -> bool:
        """Say whether the way leads to a hidden file, or would lead through one."""
        return any(not self.seen(way[:depth], [name]) for depth, name in enumerate(way))


def _ways(root: Path, files: Iterable[Path | str]) -> Iterator[_Names]:
    for file in files:
        try:
            place = Path(file).resolve()  # where a link leads, SQLite has its other files as well
        except (OSError, ValueError, RuntimeError) as error:  # a NUL, a circle of links
            raise UsageError(f"{str(file)!r} cannot be hidden: {error}") from None
        if root in place.parents:
            yield place.relative_to(root).parts
