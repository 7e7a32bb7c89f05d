"""A real terminal for a test: a command in tmux, with keys to press and a screen to read.

    with Tmux([sys.executable, "-c", "input('name? ')"], columns=40, rows=12) as terminal:
        terminal.wait_for("name?")
        terminal.press("Ada", "Enter")

Each has its own server, which ends with it and with all that it runs.
"""

import itertools
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
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
    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        program = shutil.which("tmux")
        if program is None:
            program_is_missing("tmux is not installed")
        self._temporary = tempfile.TemporaryDirectory(prefix="argstream-tmux-")
        configuration = Path(self._temporary.name, "tmux.conf")
        configuration.write_text(_CONFIGURATION)
        server = f"argstream-{os.getpid()}-{next(_numbers)}"
        self._tmux = [program, "-L", server, "-f", str(configuration)]
        size = ("-x", str(columns), "-y", str(rows), "-c", str(folder or Path.cwd()))
        variables = [f"{name}={value}" for name, value in (environment or {}).items()]
        options = [option for variable in variables for option in ("-e", variable)]
        try:
            self._run("new-session", "-d", *size, *options, shlex.join(command))
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def press(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def answer(self, key: str, question: str) -> None:
        """Press a key until a question is gone: the first time may be too early."""
        self.wait_for(question)
        while question in self.screen():
            self.press(key)
            end = time.monotonic() + 0.6
            while question in self.screen() and time.monotonic() < end:
                time.sleep(0.02)

    def resize(self, columns: int, rows: int) -> None:
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self, *options: str) -> str:
        captured = self._run("capture-pane", "-p", *options)
        return "\n".join(row.rstrip() for row in captured.split("\n"))

    def everything(self) -> str:
        return self.screen("-S", "-")

    def lines(self) -> list[str]:
        return self.screen("-S", "-", "-J").rstrip().split("\n")

    def is_cursor_shown(self) -> bool:
        return self._run("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def wait_for(self, text: str, *, timeout: float = 20) -> None:
        deadline = time.monotonic() + timeout
        while text not in self.everything():
            if time.monotonic() > deadline:
                pytest.fail(f"{text!r} does not come; the terminal shows:\n{self.everything()}")
            time.sleep(0.03)

    def end(self) -> None:
        self._run("kill-server", check=False)
        self._temporary.cleanup()

    def _run(self, *command: str, check: bool = True) -> str:
        # Inside a tmux of the developer, it would refuse to start another.
        environment = {name: value for name, value in os.environ.items() if name != "TMUX"}
        environment |= {"LC_ALL": "C.UTF-8", "TMUX_TMPDIR": self._temporary.name}
        done = subprocess.run(
            [*self._tmux, *command],
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=environment,
            check=False,
        )
        if check and done.returncode:
            pytest.fail(f"tmux {command[0]}: {done.stderr}")
        return done.stdout
