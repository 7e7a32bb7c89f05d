r"""The arguments of a call as files for an editor, and back.

``arguments.json`` has all of them. A text of several lines would be a single line full of ``\n``
there, so each of these is a file beside it; in its place stands ``{"file": "content.py"}``. That
cannot be mistaken: it means the file only where we have put it. In such a file, what would be
invisible is spelled as on the screen, ``⟦ESC⟧``, and read back.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from argstream.sanitise import original, visible
from argstream.terminal._readable_json import NotReadable, read, readable, same

__all__ = ["Documents"]

_ARGUMENTS: Final = "arguments.json"
_PATHS: Final = ("path", "file_path", "filename", "file_name", "file")
_SUFFIX: Final = re.compile(r"\.[A-Za-z0-9]{1,10}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]+")
_MAX_NAME: Final = 40


class _Text(NamedTuple):
    """A text that has a file of its own."""

    file: str
    written: str
    """What was put into it."""
    ends_open: bool
    """Whether a newline of ours is at its end: editors write one, be it wanted or not."""

    @property
    def reference(self) -> dict[str, str]:
        return {"file": self.file}


class Documents:
    """Arguments, as files in a folder. What somebody has typed stays there until that is gone."""

    def __init__(self, folder: Path, arguments: Mapping[str, Any]) -> None:
        self._folder = folder
        self._arguments = arguments
        self._texts = _texts_of(arguments)
        placed = {
            name: self._texts[name].reference if name in self._texts else value
            for name, value in arguments.items()
        }
        for text in self._texts.values():
            (folder / text.file).write_bytes(text.written.encode())
        (folder / _ARGUMENTS).write_bytes(f"{readable(placed)}\n".encode())

    @property
    def paths(self) -> list[Path]:
        """The files, in the order in which one wants to see them: the long texts first."""
        names = [text.file for text in self._texts.values()]
        return [self._folder / name for name in (*names, _ARGUMENTS)]

    def read(self) -> dict[str, Any]:
        """Read what is there now. Raises NotReadable."""
        content = self._content(_ARGUMENTS)
        try:
            arguments = read(content)
        except NotReadable as problem:
            raise NotReadable(f"{_ARGUMENTS}, {problem}") from None
        for name, text in self._texts.items():
            self._put_back(arguments, name, text)
        return arguments

    def has_changes(self) -> bool:
        """Say whether somebody has changed anything, be it of use or not."""
        try:
            return not same(self.read(), self._arguments)
        except NotReadable:
            return True

    def _put_back(self, arguments: dict[str, Any], name: str, text: _Text) -> None:
        if name in arguments and same(arguments[name], text.reference):
            content = self._content(text.file)
            if text.ends_open:
                content = content.removesuffix("\n")
            arguments[name] = original(content)
        elif os.path.lexists(self._folder / text.file) and self._content(text.file) != text.written:
            raise NotReadable(
                f"{text.file} was changed, but {_ARGUMENTS} does not mention it: it should say "
                f"{readable(name)}: {json.dumps(text.reference)}"
            )

    def _content(self, file: str) -> str:
        try:
            return _bytes_of(self._folder / file).decode()
        except FileNotFoundError:
            raise NotReadable(f"{file} is not there any more") from None
        except OSError as error:
            raise NotReadable(f"{file} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise NotReadable(f"{file} is not UTF-8 (at byte {error.start})") from None


def _bytes_of(path: Path) -> bytes:
    """Read a file, whatever an editor has left in its place; who opens a pipe would wait."""
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no file any more")
        return file.read()


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # there is none on Windows


def _texts_of(arguments: Mapping[str, Any]) -> dict[str, _Text]:
    texts: dict[str, _Text] = {}
    taken = {_ARGUMENTS}
    suffix = _suffix(arguments)
    for name, value in arguments.items():
        if isinstance(value, str) and "\n" in value:
            file = _free_name(name, suffix, taken)
            taken.add(file.lower())
            ends_open = not value.endswith("\n")
            texts[name] = _Text(file, visible(value) + "\n" * ends_open, ends_open)
    return texts


def _suffix(arguments: Mapping[str, Any]) -> str:
    """Give the suffix by which an editor knows the language."""
    for name in _PATHS:
        path = arguments.get(name)
        if isinstance(path, str) and _SUFFIX.fullmatch(suffix := PurePath(path).suffix):
            return suffix
    return ".txt"


def _free_name(argument: str, suffix: str, taken: set[str]) -> str:
    """Give a file a name like that of its argument, which a model may have chosen."""
    stem = _NOT_IN_NAMES.sub("-", argument).strip("-")[:_MAX_NAME] or "text"
    name, number = stem + suffix, 2
    while name.lower() in taken:  # some file systems do not tell a from A
        name, number = f"{stem}-{number}{suffix}", number + 1
    return name
