"""Input and output of the commands: files and standard input as they arrive, and messages."""

import os
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from select import select
from typing import Self, TextIO

from argstream.errors import UsageError
from argstream.recording import Recording, parse_recording, without_times
from argstream.recording._format import is_recording
from argstream.sanitise import visible


def bytes_output() -> Callable[[bytes], None]:
    """Return a function that writes bytes at once.

    On a terminal they are shown as text, in which nothing acts on it: a model wrote some of them.
    """
    decoder = getincrementaldecoder("utf-8")("replace") if sys.stdout.isatty() else None

    def write(data: bytes) -> None:
        if decoder is None:
            sys.stdout.buffer.write(data)
        else:
            sys.stdout.write(visible(decoder.decode(data)))
        sys.stdout.flush()

    return write


def silence(output: TextIO) -> None:
    """Discard what is written or buffered: Python would try to write it again at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


class Interruptions:
    """Waits that Ctrl-C ends with KeyboardInterrupt, whenever it came since the ``with``."""

    def __enter__(self) -> Self:
        self._arrived, self._told = os.pipe()
        os.set_blocking(self._told, False)
        self._before = signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._before)
        os.close(self._arrived)
        os.close(self._told)

    def sleep(self, seconds: float | None, *files: int) -> None:
        """Wait so long, or until one of the files can be read. None means for ever."""
        ready, _, _ = select([self._arrived, *files], [], [], seconds)
        if self._arrived in ready:
            raise KeyboardInterrupt

    def wait(self) -> int:
        """Wait for Ctrl-C, and return the exit status."""
        with suppress(KeyboardInterrupt):
            self.sleep(None)
        return 130


_CHUNK = 64 * 1024
_STANDARD_INPUT = 0


class UnreadableFileError(UsageError):
    def __init__(self, file: str, reason: str | None) -> None:
        super().__init__(f"cannot read {'stdin' if file == '-' else file}: {reason}")


def chunks(file: str, hint: str) -> Iterator[bytes]:
    """Yield what has arrived, without a buffer that would wait for more.

    The hint tells a user at a terminal what the command waits for.
    """
    if file == "-" and os.isatty(_STANDARD_INPUT):
        complain(hint)
    try:
        with (
            FileIO(_STANDARD_INPUT, closefd=False) if file == "-" else FileIO(file) as source,
            Interruptions() as interruptions,
        ):
            while True:
                interruptions.sleep(None, source.fileno())
                chunk = source.read(_CHUNK)
                if chunk == b"":
                    return
                if chunk is not None:  # None: another process has read what had arrived
                    yield chunk
    except OSError as error:
        raise UnreadableFileError(file, error.strerror) from error


def recording_in(file: str, pace: float) -> Recording:
    """Read a whole recording. A provider's plain stream has no times, so it gets some."""
    data = b"".join(chunks(file, "waiting for a recording on standard input"))
    if not is_recording(data):
        return without_times(data, pace)
    try:
        return parse_recording(data)
    except UsageError as error:
        raise UnreadableFileError(file, str(error)) from error


def complain(message: str) -> None:
    """Write a problem to standard error. If that is closed, go on."""
    say_aside(f"argstream: {message}")


def say_aside(line: str) -> None:
    """Write a line to standard error, if there is one."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)
