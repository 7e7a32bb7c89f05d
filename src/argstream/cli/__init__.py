"""The ``argstream`` command: each subcommand is a module of its own, put together in ``app``."""

import sys

from argstream.errors import MissingExtra

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say what to install for it."""
    try:
        import typer  # noqa: F401, PLC0415 - to find out whether the extra is there
    except ModuleNotFoundError:
        sys.exit(str(MissingExtra("cli", "the argstream command")))
    from argstream.cli.app import app  # noqa: PLC0415

    app(prog_name="argstream")
