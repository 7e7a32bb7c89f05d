"""What the command line offers: all commands, in the order in which ``--help`` tells them."""

from typing import Annotated

import typer

from argstream import __version__
from argstream.cli._agent_commands import demo, run, runs, serve
from argstream.cli._stream_commands import calls, inspect, lint, mock, parse, record, replay, watch

__all__ = ["app"]

app = typer.Typer(
    help="Read a model's tool call while it is still being written.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        typer.echo(f"argstream {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


for _command in (demo, run, serve, parse, watch, calls, lint, mock, record, replay, inspect, runs):
    app.command()(_command)
