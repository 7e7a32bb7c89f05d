"""Commands and programs that run to their end, called inside the test process."""

import gc
import io
import os
import re
import tempfile
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from runpy import run_path
from subprocess import CompletedProcess
from unittest.mock import patch

from argstream.cli import main

__all__ = ["argstream", "refused", "run_file", "timeless"]


def argstream(
    *arguments: str, stdin: bytes = b"", encoding: str = "utf-8", **variables: str
) -> CompletedProcess[bytes]:
    """Run a command with this standard input, and return its output and its exit status."""
    return called(main, "argstream", *arguments, stdin=stdin, encoding=encoding, **variables)


def called(
    program: Callable[[], object],
    *arguments: str,
    stdin: bytes = b"",
    encoding: str = "utf-8",
    **variables: str,
) -> CompletedProcess[bytes]:
    """Call a function as if it were the program of a process with these arguments."""
    out, err = io.BytesIO(), io.BytesIO()
    stdout = io.TextIOWrapper(out, encoding, write_through=True)
    stderr = io.TextIOWrapper(err, "utf-8", "backslashreplace", write_through=True)
    status: object = 0
    ours = os.dup(0)
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(stdin)
        file.seek(0)
        os.dup2(file.fileno(), 0)  # the commands read the descriptor, not sys.stdin
    try:
        with (
            open(0, encoding="utf-8", closefd=False) as typed,
            patch("sys.stdin", typed),
            patch("sys.argv", list(arguments)),
            patch.dict(os.environ, variables),
            redirect_stdout(stdout),
            redirect_stderr(stderr),
        ):
            program()
    except SystemExit as exit_:
        status = exit_.code or 0
    finally:
        os.dup2(ours, 0)
        os.close(ours)
    assert isinstance(status, int), status
    return CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def run_file(
    path: Path, *arguments: str, stdin: str = "", **variables: str
) -> CompletedProcess[bytes]:
    """Run a program of Python, as ``python path`` does, inside the test process."""
    with warnings.catch_warnings():
        # Some programs leave it to Python to close the clients of SDKs.
        warnings.simplefilter("ignore", ResourceWarning)
        program = partial(run_path, str(path), run_name="__main__")
        done = called(program, str(path), *arguments, stdin=stdin.encode(), **variables)
        gc.collect()
    return done


def refused(*arguments: str, stdin: bytes = b"", **variables: str) -> str:
    """Run a command that must exit with status 2 and no output. Return its message on one line."""
    done = argstream(*arguments, stdin=stdin, **variables)
    assert (done.returncode, done.stdout) == (2, b"")
    return " ".join(done.stderr.decode().split())


def timeless(shown: bytes) -> str:
    """Replace each duration in the output of a command by "…"."""
    return re.sub(r"\b\d+(\.\d+)? m?s\b", "…", shown.decode())
