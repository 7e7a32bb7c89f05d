"""What the command line offers. The words of ``--help`` are here, the work is in the modules."""

from typing import Annotated

import typer

from argstream import __version__
from argstream.adapters import ProtocolName
from argstream.cli.calls import list_calls
from argstream.cli.demo import show_demo
from argstream.cli.mock import serve_mock
from argstream.cli.parse import parse_to_ndjson
from argstream.cli.watch import watch_stream
from argstream.testing.faults import known_faults

__all__ = ["app"]

app = typer.Typer(
    help="Read a model's tool call while it is still being written.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


_Protocol = Annotated[
    ProtocolName, typer.Option("--from", help="Which protocol it is; auto finds out.")
]


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


@app.command()
def demo(
    speed: Annotated[
        float, typer.Option(min=0.1, help="How many times faster than a real model.")
    ] = 1.0,
) -> None:
    """Show what can be known about a tool call, and how early."""
    show_demo(speed)


@app.command()
def parse(
    file: Annotated[str, typer.Argument(help="A file, or - for standard input.")] = "-",
) -> None:
    """Turn JSON into fragments, one a line, while it arrives.

    Exits with 0 if the JSON is complete, with 1 if it is malformed or cut off, with 2 if it cannot
    be read or the fragments cannot be written.
    """
    raise typer.Exit(parse_to_ndjson(file))


@app.command()
def watch(
    file: Annotated[str, typer.Argument(help="A recorded stream, or - for standard input.")] = "-",
    protocol: _Protocol = "auto",
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the events as JSON, one a line.")
    ] = False,
) -> None:
    """Show a model's turn while it arrives, for instance of: curl -N … | argstream watch.

    Exits with 0 if all is well, with 1 if a call is cut off or malformed or this is no stream of a
    provider, with 2 if it cannot be read, with 130 after Ctrl-C.
    """
    raise typer.Exit(watch_stream(file, protocol, as_json=as_json))


@app.command()
def calls(
    files: Annotated[list[str], typer.Argument(help="Recorded streams, or - for standard input.")],
    protocol: _Protocol = "auto",
) -> None:
    """Print the tool calls of recorded streams, one JSON line each.

    Exits with 0 if all is well, with 1 if a call is not complete or a file is no stream of a
    provider, with 2 if one cannot be read.
    """
    raise typer.Exit(list_calls(files, protocol))


@app.command()
def mock(
    file: Annotated[
        str, typer.Argument(help="A script or a recording; without one, an example is played.")
    ] = "",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to listen; 0 is any free port.")
    ] = 0,
    pace: Annotated[
        float, typer.Option(min=0, help="Seconds between two events of a stream.")
    ] = 0.03,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FAULT",
            help=f"What goes wrong; may be given often: {known_faults()}.",
        ),
    ] = None,
) -> None:
    """Start a provider on this machine, for the real clients to talk to, until Ctrl-C.

    It speaks Anthropic Messages, OpenAI Chat Completions and OpenAI Responses.
    """
    raise typer.Exit(serve_mock(file, port=port, pace=pace, faults=fault or []))
