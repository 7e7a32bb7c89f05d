"""Commands that run to their end, called inside the test process."""

import io
import os
import re
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest.mock import patch

from argstream.cli import main

__all__ = ["argstream", "refused", "timeless"]


def argstream(*arguments: str, stdin: bytes = b"", **variables: str) -> CompletedProcess[bytes]:
    """Run a command with this standard input, and return its output and its exit status."""
    out, err = io.BytesIO(), io.BytesIO()
    stdout = io.TextIOWrapper(out, "utf-8", write_through=True)
    stderr = io.TextIOWrapper(err, "utf-8", "backslashreplace", write_through=True)
    status: object = 0
    ours = os.dup(0)
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(stdin)
        file.seek(0)
        os.dup2(file.fileno(), 0)  # the commands read the descriptor, not sys.stdin
    try:
        with (
            patch("sys.argv", ["argstream", *arguments]),
            patch.dict(os.environ, variables),
            redirect_stdout(stdout),
            redirect_stderr(stderr),
        ):
            main()
    except SystemExit as exit_:
        status = exit_.code or 0
    finally:
        os.dup2(ours, 0)
        os.close(ours)
    assert isinstance(status, int), status
    return CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def refused(*arguments: str, stdin: bytes = b"", **variables: str) -> str:
    """Run a command that must exit with status 2 and no output. Return its message on one line."""
    done = argstream(*arguments, stdin=stdin, **variables)
    assert (done.returncode, done.stdout) == (2, b"")
    return " ".join(done.stderr.decode().split())


def timeless(shown: bytes) -> str:
    """Replace each duration in the output of a command by "…"."""
    return re.sub(r"\b\d+(\.\d+)? m?s\b", "…", shown.decode())
