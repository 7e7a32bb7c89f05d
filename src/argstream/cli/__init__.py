"""The ``argstream`` command: each subcommand is a module of its own, put together in ``app``."""

import os
import sys

from argstream.errors import MissingExtra

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say what to install for it."""
    try:
        import typer  # noqa: F401, PLC0415 - to find out whether the extra is there
    except ModuleNotFoundError:
        sys.exit(str(MissingExtra("cli", "the argstream command")))
    if sys.stdout is None:
        print("argstream: there is no standard output to write to", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    from argstream.cli.app import app  # noqa: PLC0415 - only now is it sure to be there

    try:
        app(prog_name="argstream")
    except OSError as error:
        # The output cannot be written. What is left of it goes nowhere, or Python would try again
        # at its end; and 1 would mean that something is wrong with the input.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"argstream: cannot go on: {error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
