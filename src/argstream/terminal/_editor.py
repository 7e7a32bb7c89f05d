r"""The arguments of a call as files for an editor, and back.

``arguments.json`` has all of them. A text of several lines would be a single line full of ``\n``
there, so each of these is a file beside it; in its place stands ``{"file": "content.py"}``. That
cannot be mistaken: it means the file only where we have put it. In such a file, what would be
invisible is spelled as on the screen, ``⟦ESC⟧``, and read back.
"""

import asyncio
import errno
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import unified_diff
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from argstream.jsonstream import Invalid, Parser, locate
from argstream.sanitise import original, visible, visible_line
from argstream.terminal._text import Line, Role, Span, shown

if sys.platform != "win32":
    import termios

_USUAL: Final = ("nano", "vi")
_POLL_SECONDS: Final = 0.03
_LAST_SECONDS: Final = 1.0  # to end in order when its question is withdrawn
# What a killed editor had no time to restore.
_AS_ALWAYS: Final = (
    b"".join(
        # Its own screen, keys, paste and mouse off; the usual keypad, colours and cursor.
        b"\x1b[?%dl" % mode
        for mode in (1049, 1, 2004, 1000, 1002, 1003, 1006)
    )
    + b"\x1b>\x1b[0m\x1b[?25h"
)
_ARGUMENTS: Final = "arguments.json"
_PATHS: Final = ("path", "file_path", "filename", "file_name", "file")
_SUFFIX: Final = re.compile(r"\.[A-Za-z0-9]{1,10}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]+")
_MAX_NAME: Final = 40
_BLANK: Final = "·"


class _Text(NamedTuple):
    file: str
    written: str  # what was put into it
    ends_open: bool  # whether we added a newline: editors write one anyway

    @property
    def reference(self) -> dict[str, str]:
        return {"file": self.file}


class EditorError(Exception):
    """There is no editor, or it did not end well; says what to do."""


class NotReadableError(Exception):
    """A text that is not what it should be; says where, and why."""


def editor_command(environment: Mapping[str, str]) -> list[str]:
    """Return the command of the user's editor, or of a usual one."""
    for variable in ("VISUAL", "EDITOR"):
        value = environment.get(variable, "")
        try:
            command = shlex.split(value)
        except ValueError as error:
            raise EditorError(f"${variable} cannot be read: {error}") from None
        if command:
            return command
    for name in _USUAL:
        if shutil.which(name):
            return [name]
    raise EditorError("there is no editor: say which one in $EDITOR")


async def edit(command: Sequence[str], paths: Sequence[Path], terminal: int) -> None:
    """Run an editor on files until it ends. Raises EditorError."""
    with _left_as_it_was(terminal):
        await _run(command, paths, terminal)


async def _run(command: Sequence[str], paths: Sequence[Path], terminal: int) -> None:
    try:
        process = subprocess.Popen(  # noqa: S603 - it is the user's own command
            [*command, *map(str, paths)], stdin=terminal, process_group=0
        )
    except OSError as error:
        raise EditorError(f"{command[0]} cannot be started: {error.strerror}") from None
    with _foreground(terminal, process.pid):
        status = await _end_of(process)
    if status != 0:
        how = f"status {status}" if status > 0 else f"signal {-status}"
        raise EditorError(f"{command[0]} ended with {how}")


async def _end_of(process: subprocess.Popen[bytes]) -> int:
    try:
        while (status := _looked_at(process)) is None:
            await asyncio.sleep(_POLL_SECONDS)
    except BaseException:
        _end(process)
        raise
    return status


def _looked_at(process: subprocess.Popen[bytes]) -> int | None:
    """Return the status of an editor that has ended. One that was stopped is continued."""
    pid, status = os.waitpid(process.pid, os.WNOHANG | os.WUNTRACED)
    if pid == 0:
        return None
    if os.WIFSTOPPED(status):  # by Ctrl-Z, or because it came before it had the terminal
        os.killpg(process.pid, signal.SIGCONT)
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    """End an editor whose question was withdrawn. No ``await``: the task is cancelled."""
    os.killpg(process.pid, signal.SIGTERM)
    end = time.monotonic() + _LAST_SECONDS
    while _looked_at(process) is None:
        if time.monotonic() > end:
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


@contextmanager
def _left_as_it_was(terminal: int) -> Iterator[None]:
    """Restore the terminal after an editor that failed or was killed."""
    try:
        modes = termios.tcgetattr(terminal)
    except termios.error:  # it is gone, as who reads keys will be told
        yield
        return
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.write(terminal, _AS_ALWAYS)
        raise
    finally:
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSADRAIN, modes)


@contextmanager
def _foreground(terminal: int, group: int) -> Iterator[None]:
    """Send the keys of a terminal to another process group."""
    _give(terminal, group)
    try:
        yield
    finally:
        _give(terminal, os.getpgrp())


def _give(terminal: int, group: int) -> None:
    # A background process would be stopped for this, unless it blocks the signal.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        with suppress(OSError):  # it is not the terminal that we were started from, or is gone
            os.tcsetpgrp(terminal, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Documents:
    """Arguments as files in a folder. What was typed stays there until the folder is removed."""

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
        """The files, the long texts first."""
        names = [text.file for text in self._texts.values()]
        return [self._folder / name for name in (*names, _ARGUMENTS)]

    def read(self) -> dict[str, Any]:
        content = self._content(_ARGUMENTS)
        try:
            arguments = read(content)
        except NotReadableError as problem:
            raise NotReadableError(f"{_ARGUMENTS}, {problem}") from None
        for name, text in self._texts.items():
            self._put_back(arguments, name, text)
        return arguments

    def has_changes(self) -> bool:
        """Return whether anything was changed, also if it cannot be used."""
        try:
            return not same(self.read(), self._arguments)
        except NotReadableError:
            return True

    def _put_back(self, arguments: dict[str, Any], name: str, text: _Text) -> None:
        if name in arguments and same(arguments[name], text.reference):
            content = self._content(text.file)
            if text.ends_open:
                content = content.removesuffix("\n")
            arguments[name] = original(content)
        elif os.path.lexists(self._folder / text.file) and self._content(text.file) != text.written:
            raise NotReadableError(
                f"{text.file} was changed, but {_ARGUMENTS} does not mention it: it should say "
                f"{readable(name)}: {json.dumps(text.reference)}"
            )

    def _content(self, file: str) -> str:
        try:
            return _bytes_of(self._folder / file).decode()
        except FileNotFoundError:
            raise NotReadableError(f"{file} is not there any more") from None
        except OSError as error:
            raise NotReadableError(f"{file} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise NotReadableError(f"{file} is not UTF-8 (at byte {error.start})") from None


def _bytes_of(path: Path) -> bytes:
    """Read a file, whatever an editor left in its place. Opening a named pipe must not wait."""
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
    """Return the suffix by which an editor recognises the language."""
    for name in _PATHS:
        path = arguments.get(name)
        if isinstance(path, str) and _SUFFIX.fullmatch(suffix := PurePath(path).suffix):
            return suffix
    return ".txt"


def _free_name(argument: str, suffix: str, taken: set[str]) -> str:
    """Return a free file name like the name of the argument, which a model may have chosen."""
    stem = _NOT_IN_NAMES.sub("-", argument).strip("-")[:_MAX_NAME] or "text"
    name, number = stem + suffix, 2
    while name.lower() in taken:  # some file systems do not tell a from A
        name, number = f"{stem}-{number}{suffix}", number + 1
    return name


def read(text: str) -> dict[str, Any]:
    """Parse an object that a user has written. A repeated key is an error.

    Raises NotReadableError.
    """
    parser = Parser(unique_keys=True)
    fragments = [*parser.feed(text), *parser.close()]
    last = fragments[-1]
    if isinstance(last, Invalid):
        line, column = locate(text, last.offset)
        why = last.message.removesuffix(f" (at character {last.offset})")
        raise NotReadableError(f"line {line}, column {column}: {why}")
    if not isinstance(parser.value, dict):
        raise NotReadableError("the arguments of a tool must be an object: {…}")
    return parser.value


def readable(value: object) -> str:
    r"""Return a value as JSON in which everything invisible is an escape.

    >>> print(readable({"name": "Zoë\u202e"}))
    {
      "name": "Zoë\u202e"
    }
    """
    text = json.dumps(value, ensure_ascii=False, indent=2)
    if visible(text) == text:
        return text
    return "".join(map(_spelled, text))


def _spelled(character: str) -> str:
    if character == "\n" or visible_line(character) == character:
        return character
    return json.dumps(character)[1:-1]


def same(one: object, other: object) -> bool:
    """Return whether two values are the same JSON. In Python, 1 equals True."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def argument_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Line]:
    """Return by argument what was removed and what is new; nothing if both are equal.

    Short values stand one below the other; texts of several lines, and what else takes several
    lines, as a diff with three lines around each change.
    """
    lines: list[Line] = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if name not in before:
            lines += [_heading(name, "new"), *_rows("+", "added", _lines(new, [new]))]
        elif name not in after:
            lines += [_heading(name, "taken away"), *_rows("-", "removed", _lines(old, [old]))]
        elif not same(old, new):
            lines += [
                _heading(name),
                *_difference(_lines(old, [old, new]), _lines(new, [old, new])),
            ]
    return lines


def _lines(value: object, values: Sequence[object]) -> list[str]:
    """Return a value as lines: a text as it is, where that helps and cannot mislead."""
    are_texts = all(isinstance(one, str) for one in values)
    if isinstance(value, str) and are_texts and any("\n" in str(one) for one in values):
        return value.split("\n")  # a newline at the end is an empty line more
    return readable(value).split("\n")


def _heading(name: str, what: str = "") -> Line:
    spans = (shown(name, "argument"), Span(f"  {what}" if what else "", "faint"))
    return Line(spans, (Span("  "),))


def _difference(old: list[str], new: list[str]) -> Iterator[Line]:
    if len(old) == 1 and len(new) == 1:
        yield from _rows("-", "removed", old)
        yield from _rows("+", "added", new)
        return
    if old[-1] == new[-1] == "":  # both end with a newline
        old, new = old[:-1], new[:-1]
    for text in list(unified_diff(old, new, lineterm=""))[2:]:  # without the names of files
        match text[0]:
            case "@":
                yield Line((Span(text, "place"),), (Span("  "),))
            case "-":
                yield _row("-", "removed", text[1:])
            case "+":
                yield _row("+", "added", text[1:])
            case _:
                yield _row(" ", "faint", text[1:])


def _rows(sign: str, role: Role, texts: Iterable[str]) -> Iterator[Line]:
    return (_row(sign, role, text) for text in texts)


def _row(sign: str, role: Role, text: str) -> Line:
    """Return a line of a text. Blanks at its end would be invisible, so they are marked."""
    kept = text.rstrip(" ")
    spans = (shown(kept, role), Span(_BLANK * (len(text) - len(kept)), "warning"))
    return Line(spans, (Span(f"  {sign} ", role),))
