"""A real terminal for a test: a command in tmux, with keys to press and a screen to read.

    with Tmux([sys.executable, "-c", "input('name? ')"], columns=40, rows=12) as terminal:
        terminal.wait_for("name?")
        terminal.press("Ada", "Enter")
        terminal.wait_for_end()

Each has a server of its own, which ends with it and with all that it runs.
"""

import itertools
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.support import program_is_missing

__all__ = ["Tmux"]

_CONFIGURATION = """
set -g status off
set -g remain-on-exit on
set -g remain-on-exit-format ''
set -g history-limit 50000
set -s escape-time 0
set -g default-terminal screen-256color
"""
_numbers = itertools.count()


class Tmux:
    """A command that runs in a terminal of a given size."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._program = _tmux()
        self._server = f"argstream-{os.getpid()}-{next(_numbers)}"
        self._temporary = tempfile.TemporaryDirectory(prefix="argstream-tmux-")
        configuration = Path(self._temporary.name, "tmux.conf")
        configuration.write_text(_CONFIGURATION)
        settings = [f"{name}={value}" for name, value in (environment or {}).items()]
        self._configuration = str(configuration)
        try:
            self._run(
                "new-session",
                "-d",
                *("-x", str(columns), "-y", str(rows)),
                *("-c", str(folder or Path.cwd())),
                *(option for setting in settings for option in ("-e", setting)),
                shlex.join(command),
            )
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    def press(self, *keys: str) -> None:
        """Press keys: tmux's names for them ("Enter", "C-c", "Escape"), or text to type."""
        self._run("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal."""
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self, *, colours: bool = False) -> str:
        """Give what is on the screen."""
        return self._capture([], colours=colours)

    def everything(self, *, colours: bool = False) -> str:
        """Give the scrollback as well."""
        return self._capture(["-S", "-"], colours=colours)

    def lines(self) -> list[str]:
        """Give scrollback and screen as lines; rows that tmux has wrapped are joined."""
        return self._capture(["-S", "-", "-J"], colours=False).rstrip().split("\n")

    def is_cursor_shown(self) -> bool:
        """Tell whether the cursor can be seen."""
        return self._ask("#{cursor_flag}") == "1"

    def is_over(self) -> bool:
        """Tell whether the command has ended."""
        if self._ask("#{pane_dead}") == "0":
            return False
        # tmux 3.3a at times misses that a command has ended until another one does.
        self._run("run-shell", "true")
        return self._ask("#{pane_dead_status}#{pane_dead_signal}") != ""

    def exit_code(self) -> int:
        """Give what it ended with."""
        return int(self._ask("#{pane_dead_status}"))

    def wait_for(self, text: str, *, timeout: float = 20) -> None:
        """Wait until a text is to be seen, in the scrollback at least."""
        self._wait(lambda: text in self.everything(), f"{text!r} does not come", timeout)

    def wait_for_end(self, *, timeout: float = 20) -> None:
        """Wait until the command has ended."""
        self._wait(self.is_over, "it does not end", timeout)

    def end(self) -> None:
        """End the command, whatever it does."""
        self._run("kill-server", check=False)
        self._temporary.cleanup()

    def _capture(self, options: Sequence[str], *, colours: bool) -> str:
        captured = self._run("capture-pane", "-p", *options, *(["-e"] if colours else []))
        return "\n".join(row.rstrip() for row in captured.split("\n"))

    def _ask(self, format_: str) -> str:
        return self._run("display-message", "-p", format_).strip()

    def _wait(self, is_so: Callable[[], bool], complaint: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not is_so():
            if time.monotonic() > deadline:
                pytest.fail(f"{complaint}; the terminal shows:\n{self.everything()}")
            time.sleep(0.03)

    def _run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(
            [self._program, "-L", self._server, "-f", self._configuration, *command],
            capture_output=True,
            text=True,
            encoding="utf-8",
            # Its own environment: inside a tmux of the developer it would complain.
            env={name: value for name, value in os.environ.items() if name != "TMUX"}
            | {"LC_ALL": "C.UTF-8", "TMUX_TMPDIR": self._temporary.name},
            check=False,
        )
        if check and done.returncode:
            pytest.fail(f"tmux {command[0]}: {done.stderr}")
        return done.stdout


def _tmux() -> str:
    program = shutil.which("tmux")
    if program is None:
        program_is_missing("tmux is not installed")
    return program
