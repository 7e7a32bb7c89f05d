"""Somebody's editor, in the terminal that is ours otherwise.

It gets the terminal as a shell would give it: as a process group of its own in the foreground. So
Ctrl-C is the editor's while it runs, in whichever thread we are. It cannot be put aside by Ctrl-Z,
since there would be nobody to bring it back.
"""

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["EditorFailed", "edit", "editor_command"]

_USUAL: Final = ("nano", "vi")
_POLL_SECONDS: Final = 0.03
_LAST_SECONDS: Final = 1.0
"""How long an editor may take to end in order when its question is taken back."""
_AS_ALWAYS: Final = (
    b"".join(
        # Its own screen, keys, paste and mouse off; the usual keypad, colours and cursor.
        b"\x1b[?%dl" % mode
        for mode in (1049, 1, 2004, 1000, 1002, 1003, 1006)
    )
    + b"\x1b>\x1b[0m\x1b[?25h"
)
"""What an editor may have no time to say when it is killed."""


class EditorFailed(Exception):  # noqa: N818 - it says what is the case
    """There is no editor, or it did not end well; says what to do."""


def editor_command(environment: Mapping[str, str]) -> list[str]:
    """Give the command for the editor that somebody likes, or for a usual one."""
    for variable in ("VISUAL", "EDITOR"):
        value = environment.get(variable, "")
        try:
            command = shlex.split(value)
        except ValueError as error:
            raise EditorFailed(f"${variable} cannot be read: {error}") from None
        if command:
            return command
    for name in _USUAL:
        if shutil.which(name):
            return [name]
    raise EditorFailed("there is no editor: say which one in $EDITOR")


async def edit(command: Sequence[str], paths: Sequence[Path], terminal: int) -> None:
    """Run an editor on files until it ends. Raises EditorFailed."""
    with _left_as_it_was(terminal):
        await _run(command, paths, terminal)


async def _run(command: Sequence[str], paths: Sequence[Path], terminal: int) -> None:
    try:
        process = subprocess.Popen(  # noqa: S603 - it is the user's own command
            [*command, *map(str, paths)], stdin=terminal, process_group=0
        )
    except OSError as error:
        raise EditorFailed(f"{command[0]} cannot be started: {error.strerror}") from None
    with _foreground(terminal, process.pid):
        status = await _end_of(process)
    if status != 0:
        how = f"status {status}" if status > 0 else f"signal {-status}"
        raise EditorFailed(f"{command[0]} ended with {how}")


async def _end_of(process: subprocess.Popen[bytes]) -> int:
    try:
        while (status := _looked_at(process)) is None:
            await asyncio.sleep(_POLL_SECONDS)
    except BaseException:
        _end(process)
        raise
    return status


def _looked_at(process: subprocess.Popen[bytes]) -> int | None:
    """Give the status of an editor that has ended; one that was stopped goes on."""
    pid, status = os.waitpid(process.pid, os.WNOHANG | os.WUNTRACED)
    if pid == 0:
        return None
    if os.WIFSTOPPED(status):  # by Ctrl-Z, or because it came before it had the terminal
        os.killpg(process.pid, signal.SIGCONT)
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    """End an editor whose question was taken back; without ``await``, for we are cancelled."""
    os.killpg(process.pid, signal.SIGTERM)
    end = time.monotonic() + _LAST_SECONDS
    while _looked_at(process) is None:
        if time.monotonic() > end:
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


@contextmanager
def _left_as_it_was(terminal: int) -> Iterator[None]:
    """Put back what an editor that fails, or is killed, leaves behind in the terminal."""
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
    """Have the keys of a terminal go to another process group."""
    _give(terminal, group)
    try:
        yield
    finally:
        _give(terminal, os.getpgrp())


def _give(terminal: int, group: int) -> None:
    # Who is in the background would be stopped for this, unless it blocks the signal.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        with suppress(OSError):  # it is not the terminal that we were started from, or is gone
            os.tcsetpgrp(terminal, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
