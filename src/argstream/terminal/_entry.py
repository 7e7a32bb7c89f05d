r"""What a person types: keys, a line, and the arguments of a call in an editor.

Keys come one by one, while a question is asked. Ctrl-C stays a signal for the program. One setting
is changed, that lines are collected until Enter, and restored whatever happens. What was typed
before ``fg`` was meant for the shell, and is dropped.

An editor gets the arguments of a call as files.
``arguments.json`` has all of them. A text of several lines would be a single line full of ``\n``
there, so each of these is a file beside it; in its place stands ``{"file": "content.py"}``. That
cannot be mistaken: it means the file only where we have put it. In such a file, what would be
invisible is spelled as on the screen, ``⟦ESC⟧``, and read back.

If the only argument is a string, there is only the file with its text.
"""

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import unified_diff
from pathlib import Path, PurePath
from select import select
from typing import Any, Final, Literal, NamedTuple, TextIO, TypeAlias

from wcwidth import grapheme_boundary_before

from argstream.errors import UsageError
from argstream.jsonstream import Invalid, Parser, locate
from argstream.sanitise import original, visible, visible_line
from argstream.terminal._layout import width
from argstream.terminal._screen import descriptor, is_in_background, switch
from argstream.terminal._text import Line, Role, Span, Spans, shown
from argstream.terminal.tool_views import read_regular_file

if sys.platform != "win32":
    import termios

KeyKind: TypeAlias = Literal[
    "character", "enter", "escape", "backspace", "erase_line", "erase_word", "paste", "other"
]
_CONTROLS: Final[dict[str, KeyKind]] = {
    "\r": "enter",
    "\n": "enter",
    "\b": "backspace",
    "\x7f": "backspace",
    "\x15": "erase_line",  # Ctrl-U
    "\x17": "erase_word",  # Ctrl-W
}
_PASTE_BEGINS: Final = ("\x1b[200~", "\x9b200~")
# What terminals send. Instead of Escape and a character, a sequence may begin with an 8-bit one.
_next_key: Final = re.compile(
    r"""(?P<character> [^\x1b\x8e-\x90\x98\x9b\x9d-\x9f] )
    | (?:\x1b\[|\x9b) 200~ (?P<paste> .*? ) \x1b\[201~
    | (?:\x1b\[|\x9b) (?!200~) (?:
        \[ [^\x1b]                      # a function key of the Linux console
        | M [^\x1b]{3}                  # the mouse: a button and a place
        | (?![\[M]) [^@-~\x1b]* [@-~]
        | [^\x1b]* (?=\x1b)             # Escape inside a sequence starts another
      )
    | (?:\x1b[NO]|[\x8e\x8f]) \d* (?: [^\d\x1b] | (?=\x1b) )  # a number if Shift was held
    | (?:\x1b[PX\]^_]|[\x90\x98\x9d-\x9f]) .*? (?: \x07 | \x1b\\ | \x9c )  # ended expressly
    | \x1b [^\[NOPX\]^_\x1b]             # Alt and a key
    | (?P<escape> \x1b ) (?=\x1b)
    """,
    re.VERBOSE | re.DOTALL,
).match
_MAX_SEQUENCE: Final = 4096  # longer than anything that a terminal sends by itself
_MOMENT_SECONDS: Final = 0.05  # an Escape that is followed by nothing for so long is the key
# A key that is followed by nothing for so long is no paste, no word, and not held.
_ALONE_SECONDS: Final = 0.25
_SEQUENCE_SECONDS: Final = 1.0  # an incomplete sequence ends after this, on slow lines too
_LOOK_SECONDS: Final = 0.1  # how often to check that the terminal is still ours
_POLL_SECONDS: Final = 0.02
_LAG_SECONDS: Final = 0.1  # how late the event loop may be before keys count as older
_PIECE: Final = 4096
_CURSOR = "▏"
_LAST_WORD: Final = re.compile(r"\S*\s*\Z")


class Key(NamedTuple):
    kind: KeyKind
    text: str = ""  # the character, or what was pasted


class HangupError(Exception):
    """The terminal is gone."""


def is_terminal(source: TextIO | None) -> bool:
    """Return whether keys can be read from there. Windows has no termios."""
    number = None if source is None else descriptor(source)
    return sys.platform != "win32" and number is not None and os.isatty(number)


class KeyDecoder:
    r"""Decodes what a terminal sends, in pieces of any size, to keys.

    >>> KeyDecoder().feed(b"y\x1b[A")
    [Key(kind='character', text='y'), Key(kind='other', text='')]
    """

    def __init__(self) -> None:
        self._decode = getincrementaldecoder("utf-8")("replace")
        self._pending = ""  # a sequence or a paste that has begun

    @property
    def is_inside(self) -> bool:
        return self._pending != ""

    @property
    def is_after_escape(self) -> bool:
        """Whether the last character may have been the Escape key."""
        return self._pending == "\x1b"

    def feed(self, piece: bytes) -> list[Key]:
        self._pending += self._decode.decode(piece)
        keys, end = list[Key](), 0
        while found := _next_key(self._pending, end):
            keys.append(_key(found))
            end = found.end()
        self._pending = self._pending[end:]
        return keys + self.pause() if len(self._pending) > _MAX_SEQUENCE else keys

    def pause(self) -> list[Key]:
        """End a sequence that has begun: nothing followed it for a while."""
        if not self._pending or self._pending.startswith(_PASTE_BEGINS):
            return []  # only its mark ends a paste
        key = Key("escape" if self.is_after_escape else "other")
        self._pending = ""
        return [key]


def _key(found: re.Match[str]) -> Key:
    match found.lastgroup:
        case "character" if found[0].isprintable():
            return Key("character", found[0])
        case "character":
            return Key(_CONTROLS.get(found[0], "other"))
        case "paste":
            return Key("paste", found["paste"])
        case group:
            return Key("escape" if group else "other")


class Keyboard:
    """Reads keys inside of ``with listening()``."""

    def __init__(self, source: TextIO, on_key: Callable[[], None] | None = None) -> None:
        self._source = source
        self._on_key = on_key
        self.file = source.fileno()  # the file descriptor
        self._decoder = KeyDecoder()
        self._is_raw = False  # whether we have turned canonical mode off
        self._is_away = False  # in the background
        self._idle_at = 0.0  # when there was no key for the last time

    @property
    def pressed_at(self) -> float:
        """When the newest keys were pressed, at the earliest, unless the event loop is a bit late.

        While it is blocked, keys wait. They may be older than what is on the screen.
        """
        return min(time.monotonic(), self._idle_at + _LAG_SECONDS)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Get each key at once from now on. What was typed before is dropped."""
        try:
            self._set_modes()
            self.flush()
            yield
        finally:
            self._restore_modes()

    @contextmanager
    def left(self) -> Iterator[None]:
        """Leave the terminal to another program, with its own modes."""
        self._restore_modes()
        try:
            yield
        finally:
            self._set_modes()
            self.flush()

    def flush(self) -> None:
        self._decoder = KeyDecoder()
        if not is_in_background(self._source):  # else SIGTTOU would stop this process
            with suppress(termios.error):  # it is gone: ``read`` raises HangupError
                termios.tcflush(self.file, termios.TCIFLUSH)

    async def read(self) -> list[Key]:
        """Return the keys that arrived at once, after waiting for the first. Raises HangupError.

        An empty list means that another job had the terminal, and may have written on the screen.
        """
        while True:
            is_ready = await self._ready(self._patience())
            if is_in_background(self._source):
                self._is_away = True
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            if self._set_modes() or self._is_away:
                self._is_away = False
                self.flush()
                return []
            keys = self._decoder.feed(self._piece()) if is_ready else self._decoder.pause()
            if keys:
                if self._on_key is not None:
                    self._on_key()
                return keys

    async def is_more_coming(self) -> bool:
        """Return whether another key follows within a moment, as in a paste or a held key."""
        return self._decoder.is_inside or await self._ready(_ALONE_SECONDS)

    def _patience(self) -> float:
        if self._decoder.is_after_escape:
            return _MOMENT_SECONDS
        return _SEQUENCE_SECONDS if self._decoder.is_inside else _LOOK_SECONDS

    def _piece(self) -> bytes:
        try:
            piece = os.read(self.file, _PIECE)
        except BlockingIOError:  # another process was quicker
            return b""
        except OSError:
            raise HangupError from None
        if not piece:
            raise HangupError
        return piece

    def _set_modes(self) -> bool:
        """Turn canonical mode off, to get each key at once. Return whether this changed it."""
        is_changed = switch(self._source, "ICANON", on=False)
        self._is_raw |= is_changed
        return is_changed

    def _restore_modes(self) -> None:
        """Turn canonical mode on if it was turned off here. Does nothing in the background."""
        if self._is_raw:
            self._is_raw = False
            switch(self._source, "ICANON", on=True)

    async def _ready(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while True:
            looked_at = time.monotonic()
            if select([self.file], [], [], 0)[0]:
                return True
            self._idle_at = looked_at
            if looked_at > end:
                return False
            await asyncio.sleep(_POLL_SECONDS)


class LineEditor:
    """A line of text with a cursor at its end.

    >>> editor = LineEditor()
    >>> for character in "not now":
    ...     editor.take(Key("character", character))
    >>> editor.take(Key("erase_word"))
    >>> editor.text
    'not '
    """

    def __init__(self) -> None:
        self.text = ""

    def take(self, key: Key) -> None:
        match key.kind:
            case "character":
                self.text += key.text
            case "paste":
                self.text += " ".join(key.text.split())  # several lines become one
            case "backspace":
                # The marks on a character were typed as one with it.
                self.text = self.text[: grapheme_boundary_before(self.text, len(self.text))]
            case "erase_word":
                self.text = _LAST_WORD.sub("", self.text, count=1)
            case "erase_line":
                self.text = ""

    def spans(self, columns: int) -> Spans:
        room = max(columns - width(_CURSOR), 0)
        text = shown(self.text).text
        is_cut = width(text) > room
        while text and width(text) > room - is_cut:
            text = text[1:]
        return Span("…" if is_cut else "", "faint"), Span(text), Span(_CURSOR, "key")


_LAST_SECONDS: Final = 1.0  # to end in order when its question is withdrawn
# Resets what a killed editor may have left: its own screen, keys, paste and mouse off; the usual
# keypad, colours and cursor.
_RESET_MODES: Final = b"\x1b[?1049;1;2004;1000;1002;1003;1006l\x1b>\x1b[0m\x1b[?25h"
_ARGUMENTS: Final = "arguments.json"
_PATHS: Final = ("path", "file_path", "filename", "file_name", "file")
_SUFFIX: Final = re.compile(r"\.[A-Za-z0-9]{1,10}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]+")
_MAX_NAME: Final = 40
_BLANK: Final = "·"
_SIGNS: Final[dict[str, Role]] = {"-": "removed", "+": "added", " ": "faint"}


class _Text(NamedTuple):
    file: str
    written: str  # what was put into it
    ends_open: bool  # whether we added a newline: editors write one anyway

    @property
    def reference(self) -> dict[str, str]:
        return {"file": self.file}


class EditorError(Exception):
    """There is no editor, or it did not end well; says what to do."""


class NotReadableError(UsageError):
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
    for name in ("nano", "vi"):
        if shutil.which(name):
            return [name]
    raise EditorError("no editor found. Set $EDITOR")


async def edit(command: Sequence[str], paths: Sequence[Path], terminal: int) -> None:
    """Run an editor on files until it ends. Raises EditorError."""
    with _restoring_modes(terminal):
        with suppress(termios.error):  # typed for the question, not for the editor
            termios.tcflush(terminal, termios.TCIFLUSH)
        try:
            process = subprocess.Popen(  # noqa: S603 - it is the user's own command
                [*command, *map(str, paths)], stdin=terminal, process_group=0
            )
        except OSError as error:
            raise EditorError(f"{command[0]} cannot be started: {error.strerror}") from None
        try:
            _give(terminal, process.pid)  # if it was stopped before, it is continued below
            while (status := _poll_status(process)) is None:
                await asyncio.sleep(_POLL_SECONDS)
        except BaseException:
            _end(process)
            raise
        finally:
            _give(terminal, os.getpgrp())
        if status != 0:
            how = f"status {status}" if status > 0 else f"signal {-status}"
            raise EditorError(f"{command[0]} exited with {how}")


def _poll_status(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit status, or None while the editor runs. Continue it if it is stopped."""
    pid, status = os.waitpid(process.pid, os.WNOHANG | os.WUNTRACED)
    if pid == 0:
        return None
    if os.WIFSTOPPED(status):  # by Ctrl-Z
        os.killpg(process.pid, signal.SIGCONT)
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    """End an editor whose question was withdrawn. No ``await``: the task is cancelled."""
    os.killpg(process.pid, signal.SIGTERM)
    end = time.monotonic() + _LAST_SECONDS
    while _poll_status(process) is None:
        if time.monotonic() > end:
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


@contextmanager
def _restoring_modes(terminal: int) -> Iterator[None]:
    """Restore the modes of the terminal. If the editor fails or is killed, reset the screen."""
    try:
        modes = termios.tcgetattr(terminal)
    except termios.error:  # it is gone: ``Keyboard.read`` raises HangupError
        yield
        return
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.write(terminal, _RESET_MODES)
        raise
    finally:
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSADRAIN, modes)


def _give(terminal: int, group: int) -> None:
    """Make a process group the one that gets the keys, and signals such as Ctrl-C."""
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
        values = list(arguments.values())
        self._is_text = len(values) == 1 and isinstance(values[0], str)
        self._texts = _texts_of(arguments, is_text=self._is_text)
        for text in self._texts.values():
            (folder / text.file).write_bytes(text.written.encode())
        if not self._is_text:
            placed = {name: text.reference for name, text in self._texts.items()}
            content = f"{readable({**arguments, **placed})}\n"
            (folder / _ARGUMENTS).write_bytes(content.encode())

    @property
    def paths(self) -> list[Path]:
        """The files, the long texts first."""
        names = [text.file for text in self._texts.values()]
        return [self._folder / name for name in (*names, *[_ARGUMENTS] * (not self._is_text))]

    def read(self) -> dict[str, Any]:
        if self._is_text:
            return {name: self._text(text) for name, text in self._texts.items()}
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
            arguments[name] = self._text(text)
        elif os.path.lexists(self._folder / text.file) and self._content(text.file) != text.written:
            raise NotReadableError(
                f"{text.file} was changed, but {_ARGUMENTS} does not mention it: it should say "
                f"{readable(name)}: {json.dumps(text.reference)}"
            )

    def _text(self, text: _Text) -> str:
        content = self._content(text.file)
        if not content.strip() and text.written.strip():  # perhaps the editor has failed
            how = "" if self._is_text else f". For an empty text, put it into {_ARGUMENTS}"
            raise NotReadableError(f"{text.file} is empty{how}")
        return original(content.removesuffix("\n") if text.ends_open else content)

    def _content(self, file: str) -> str:
        try:
            return read_regular_file(self._folder / file).decode()
        except FileNotFoundError:
            raise NotReadableError(f"{file} was deleted") from None
        except OSError as error:
            raise NotReadableError(f"{file} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise NotReadableError(f"{file} is not UTF-8 (at byte {error.start})") from None


def _texts_of(arguments: Mapping[str, Any], *, is_text: bool) -> dict[str, _Text]:
    texts: dict[str, _Text] = {}
    taken = {_ARGUMENTS}
    suffix = _suffix(arguments)
    for name, value in arguments.items():
        if isinstance(value, str) and (is_text or "\n" in value):
            file = _free_name(name, suffix, taken)
            taken.add(file.lower())
            ends_open = not value.endswith("\n")
            texts[name] = _Text(file, visible(value) + "\n" * ends_open, ends_open)
    return texts


def _suffix(arguments: Mapping[str, Any]) -> str:
    """Return the suffix by which an editor recognises the language."""
    if isinstance(arguments.get("command"), str):
        return ".sh"
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
    return "".join(
        one if one == "\n" or visible_line(one) == one else json.dumps(one)[1:-1] for one in text
    )


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
        values = [one[name] for one in (before, after) if name in one]
        if len(values) == 2 and same(*values):
            continue
        what = "" if len(values) == 2 else "  new" if name in after else "  removed"
        lines.append(Line((shown(name, "argument"), Span(what, "faint")), (Span("  "),)))
        # A text as it is, where that cannot mislead. A newline at its end is an empty line more.
        are_texts = all(isinstance(one, str) for one in values)
        texts = [(one if are_texts else readable(one)).split("\n") for one in values]
        old, new = texts if len(values) == 2 else ([], *texts) if name in after else (*texts, [])
        if old[-1:] == new[-1:] == [""]:
            old, new = old[:-1], new[:-1]
        is_short = (len(old) <= 1 and len(new) <= 1) or not (old and new)
        for text in list(unified_diff(old, new, lineterm=""))[2:]:  # without the names of files
            sign, kept = text[0], text[1:].rstrip(" ")
            if sign != "@":  # blanks at the end would be invisible, so they are marked
                marks = Span(_BLANK * (len(text) - 1 - len(kept)), "warning")
                margin = (Span(f"  {sign} ", _SIGNS[sign]),)
                lines.append(Line((shown(kept, _SIGNS[sign]), marks), margin))
            elif not is_short:
                lines.append(Line((Span(text, "place"),), (Span("  "),)))
    return lines
