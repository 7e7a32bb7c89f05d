"""What the commands read, where a real process would show it only by chance."""

import os
import signal

import pytest

from argstream.cli._input import chunks


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
