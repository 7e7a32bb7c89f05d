"""Processes that lead a group, so that what they have started can be ended with them.

Those that are noted are killed when the program ends, in whichever order it does; a program that
handles signals itself calls ``kill_noted`` before it goes.
"""

import atexit
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["kill_noted", "noted", "signal_group", "wait_without_reaping"]

_noted: "set[subprocess.Popen[bytes]]" = set()


@contextmanager
def noted(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Have a process, and all that it has started, end with the program if not before."""
    _noted.add(process)
    try:
        yield
    finally:
        _noted.discard(process)


@atexit.register
def kill_noted() -> None:
    """Kill those that are noted, with all that they have started, at once."""
    for process in tuple(_noted):
        signal_group(process, signal.SIGKILL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_noted.clear)  # they are its parent's


def wait_without_reaping(process: "subprocess.Popen[bytes]") -> None:
    """Wait for the end, and leave the process its number, so that nobody else gets it yet."""
    if not hasattr(os, "waitid"):
        process.wait()
        return
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return  # somebody else has waited for it


def signal_group(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Send a signal to it and to all that it has started."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # none of them is left
