"""The directory of a proxy: each recording is a file with the next number in its name."""

import re
import threading
from pathlib import Path
from typing import Final

from argstream.errors import UsageError

__all__ = ["NumberedFiles"]

_ONLY_OWNER: Final = 0o700
_LONGEST_NAME: Final = 60


class NumberedFiles:
    """Names for new files in a directory; any thread may ask for one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._number = 0

    def prepare(self) -> None:
        """Make the directory, and count on from what is in it."""
        try:
            self.directory.mkdir(mode=_ONLY_OWNER, parents=True, exist_ok=True)
            names = [path.name for path in self.directory.iterdir()]
        except FileExistsError:
            raise UsageError(
                f"{self.directory} is a file: the proxy writes a file for each answer, so give a "
                "directory"
            ) from None
        except OSError as error:
            raise UsageError(f"cannot write to {self.directory}: {error.strerror}") from error
        numbers = [int(found[1]) for name in names if (found := re.match(r"(\d{1,9})-", name))]
        self._number = max(numbers, default=0)

    def next(self, path: str) -> Path:
        """Give a file for the answer to a request for this path. Somebody else may have made it."""
        with self._lock:
            self._number += 1
            return self.directory / f"{self._number:04}-{_name(path)}.rec"


def _name(path: str) -> str:
    """Make a path a part of a file's name: ``/v1/chat/completions`` is ``chat-completions``."""
    steps = [step for step in path.split("/") if not re.fullmatch(r"v\d+\w*|", step)]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(steps)).strip("-.")
    return plain[-_LONGEST_NAME:].lstrip("-.") or "answer"
