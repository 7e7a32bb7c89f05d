"""Ctrl-C, where a real process would show it only by chance."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.in_process import argstream
from tests.cli.recordings import BODY, timed


@pytest.fixture
def interrupted_soon() -> Iterator[None]:
    """Send Ctrl-C to a handler that does nothing: only the wakeup descriptor can tell of it."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    yield
    timer.cancel()
    signal.signal(signal.SIGINT, before)


@pytest.mark.timeout(20)
@pytest.mark.usefixtures("interrupted_soon")
@pytest.mark.parametrize("command", ["watch", "replay"])
def test_ctrl_c_just_before_a_read_or_a_sleep_is_not_missed(command: str, tmp_path: Path) -> None:
    arrived, sent = os.pipe()
    os.write(sent, BODY[:50])
    recording = timed(tmp_path / "turn.rec", (0.0, BODY[:50]), (60.0, BODY[50:]))
    done = argstream(command, f"/dev/fd/{arrived}" if command == "watch" else recording)
    os.close(arrived)
    os.close(sent)
    assert (done.returncode, done.stderr) == (130, b"")


def test_ctrl_c_before_there_is_a_command_leaves_no_traceback() -> None:
    program = """
import sys
from argstream.cli import main

class Interrupted:
    def find_spec(self, name, *_):
        if name == "argstream.cli._commands":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")
