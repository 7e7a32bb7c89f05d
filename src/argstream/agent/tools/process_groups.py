"""A process that leads a group, so that what it has started can be ended with it."""

import os
import signal
import subprocess

__all__ = ["signal_group", "wait_without_reaping"]


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
