"""The ``argstream`` command: each subcommand is a module of its own, put together in ``app``."""

import sys

from argstream.errors import MissingExtra

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command line, or say what to install for it."""
    try:
        _run()
    except KeyboardInterrupt:  # before a command could say what that means for it
        sys.exit(_INTERRUPTED)


def _run() -> None:
    try:
        import typer  # noqa: F401, PLC0415 - to find out whether the extra is there
    except ModuleNotFoundError:
        sys.exit(str(MissingExtra("cli", "the argstream command")))
    from argstream.cli._input import complain  # noqa: PLC0415 - only now is it sure that it is used
    from argstream.cli._output import silence  # noqa: PLC0415 - the same

    if sys.stdout is None:
        complain("there is no standard output to write to")
        sys.exit(2)
    from argstream.cli.app import app  # noqa: PLC0415 - only now is it sure to be there

    try:
        app(prog_name="argstream")
    except MissingExtra as error:
        complain(str(error))
        sys.exit(2)
    except OSError as error:
        # The output cannot be written; and 1 would mean that something is wrong with the input.
        silence(sys.stdout)
        complain(f"cannot go on: {error.strerror}")
        sys.exit(2)
