"""The ``argstream`` command. ``main`` turns exceptions into messages and exit statuses."""

import sys
from importlib import import_module

from argstream.errors import ArgstreamError, MissingExtraError

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command line, or report what to install for it."""
    try:
        _run()
    except KeyboardInterrupt:  # no command has handled it
        sys.exit(_INTERRUPTED)


def _run() -> None:
    try:
        import_module("typer")
    except ModuleNotFoundError:
        sys.exit(str(MissingExtraError("cli", "the argstream command")))
    from argstream.cli._io import complain, silence
    from argstream.sanitise import visible_line

    if sys.stdout is None:
        complain("there is no standard output to write to")
        sys.exit(2)
    from argstream.cli._commands import app

    try:
        app(prog_name="argstream")
    except ArgstreamError as error:
        complain(visible_line(str(error)))
        sys.exit(2)
    except OSError as error:
        # The output cannot be written; and 1 would mean that something is wrong with the input.
        silence(sys.stdout)
        complain(f"cannot go on: {error.strerror}")
        sys.exit(2)
