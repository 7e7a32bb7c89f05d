"""What the commands read, where a real process would show it only by chance."""

import io
import os
import signal
import subprocess
import sys

import pytest

from argstream.cli._input import chunks, complain
from argstream.cli._interruptions import Interruptions


@pytest.mark.timeout(10)
def test_ctrl_c_just_before_a_read_is_not_missed() -> None:
    """The handler has run and the read has not begun: only what was left behind can tell."""
    arrived, sent = os.pipe()
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        os.write(sent, b"a")
        reading = chunks(f"/dev/fd/{arrived}", "")
        assert next(reading) == b"a"
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            next(reading)
    finally:
        signal.signal(signal.SIGINT, before)
        os.close(arrived)
        os.close(sent)


def test_ctrl_c_before_there_is_a_command_leaves_no_traceback() -> None:
    program = """
import sys
from argstream.cli import main

class Interrupted:
    def find_spec(self, name, *_):
        if name == "argstream.cli.app":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")


def test_a_complaint_that_nobody_hears_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    complain("nobody")
    with open(os.devnull, "rb") as unwritable:  # noqa: PTH123 - it is no path
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(unwritable))
        complain("nobody")


@pytest.mark.timeout(10)
def test_ctrl_c_just_before_a_sleep_is_not_missed() -> None:
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with Interruptions() as interruptions:
            interruptions.sleep(0)
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                interruptions.sleep(60)
            with pytest.raises(KeyboardInterrupt):
                interruptions.wait()
    finally:
        signal.signal(signal.SIGINT, before)
