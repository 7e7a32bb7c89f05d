"""The commands about agents and their runs. The words of ``--help`` are here."""

# ruff: noqa: PLC0415 - a command loads what it needs, and not what others need

import math
from typing import Annotated

import typer

from argstream.cli._options import (
    AsJson,
    Folder,
    Instructions,
    LogLevel,
    MaxTurns,
    ModelName,
    PolicyFile,
    Port,
    Store,
)
from argstream.events import RunStatus

__all__ = ["demo", "run", "runs", "serve"]


def demo(
    speed: Annotated[
        float, typer.Option(min=0.1, help="How many times faster than a real model.")
    ] = 1.0,
    *,
    fast: Annotated[bool, typer.Option("--fast", help="Wait for nothing.")] = False,
) -> None:
    """Watch an agent write: it works in a temporary folder, without a key and without a network.

    Its model follows a script; the agent, the files, the tests and the rules are real. When it
    asks, press a key, or wait: after some seconds it answers itself.
    """
    from argstream.cli.demo import show_demo

    raise typer.Exit(show_demo(math.inf if fast else speed))


def run(  # noqa: PLR0913, PLR0917 - a command has options
    prompt: Annotated[str, typer.Argument(help="What to do; - reads it from standard input.")],
    model: ModelName = "",
    tools: Annotated[
        str,
        typer.Option(
            metavar="files,shell", help='What it may use; "" is nothing. The shell always asks.'
        ),
    ] = "files",
    folder: Folder = ".",
    policy: PolicyFile = None,
    instructions: Instructions = "",
    store: Annotated[
        str, typer.Option(metavar="STORE", help="Keep the run: an SQLite file, or redis://….")
    ] = "",
    max_turns: MaxTurns = 50,
    *,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Approve everything that would be asked about.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Have an agent work on a prompt, and watch it write.

    Files are read and written below one folder only. What must be approved is shown in full; if
    nobody can be asked, since standard input is no terminal, it is denied. Ctrl-C stops the run.

    Exits with 0 if it is complete, with 1 if it failed, with 2 if it cannot be run, with 130 after
    Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
    """
    from argstream.cli.run import RunOptions, run_prompt

    options = RunOptions(
        model=model,
        tools=tools,
        folder=folder,
        policy=policy,
        instructions=instructions,
        store=store,
        max_turns=max_turns,
        is_approved=yes,
        as_json=as_json,
    )
    raise typer.Exit(run_prompt(prompt, options))


def serve(  # noqa: PLR0913, PLR0917 - a command has options
    model: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="As of run; script needs no key, claude-agent is Claude Code.",
            show_default="ARGSTREAM_MODEL, else script",
        ),
    ] = "",
    tools: Annotated[
        str,
        typer.Option(
            metavar="files,shell",
            help="What it may use; nothing, unless said. The shell asks; files only by --policy.",
        ),
    ] = "",
    folder: Folder = ".",
    policy: PolicyFile = None,
    instructions: Instructions = "",
    max_turns: MaxTurns = 50,
    store: Store = "",
    host: Annotated[
        str,
        typer.Option(
            metavar="HOST",
            help="Address to listen on. Any other than loopback needs --token or ARGSTREAM_TOKEN.",
        ),
    ] = "127.0.0.1",
    port: Port = 8000,
    token: Annotated[
        str,
        typer.Option(
            metavar="TOKEN",
            help="Access token that clients must send. Prefer ARGSTREAM_TOKEN: other users see "
            "command lines.",
            show_default="ARGSTREAM_TOKEN, else a random one, kept in a file",
        ),
    ] = "",
    origin: Annotated[
        list[str] | None,
        typer.Option(
            "--origin",
            metavar="ORIGIN",
            help="A page that may ask, such as http://localhost:3000; may be given often.",
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            metavar="HOST",
            help="A name that the server is reached by, such as agent.example; may be given often.",
        ),
    ] = None,
    forwarded_from: Annotated[
        list[str] | None,
        typer.Option(
            "--forwarded-from",
            metavar="ADDRESS",
            help="A proxy that is believed from where it forwards: 10.0.0.7, 10.0.0.0/8; may be "
            "given often.",
        ),
    ] = None,
    pace: Annotated[
        float, typer.Option(min=0, help="Seconds between two pieces that the script writes.")
    ] = 0.03,
    log_level: Annotated[
        LogLevel, typer.Option(help="What is told of the server on standard error.")
    ] = "warning",
    *,
    no_token: Annotated[
        bool,
        typer.Option(
            "--no-token",
            help="Require no token: any local user or process can then start runs and approve "
            "commands.",
        ),
    ] = False,
    page: Annotated[
        bool, typer.Option("--page/--no-page", help="Whether there is a page for browsers at /.")
    ] = True,
) -> None:
    """Serve an agent over HTTP: a page for browsers, and more for programs and front ends.

    Without options it listens on this machine only, its model is a script that needs no key, and
    runs are kept in argstream.db. It prints an address with an access token to open in a browser.
    It also speaks the protocols of useChat (AI SDK) and AG-UI. Calls that need approval wait for a
    decision as long as it takes, also across restarts.

    Exits with 0 after Ctrl-C or SIGTERM, with 2 if it cannot be started.
    """
    import argstream.server  # noqa: F401 - or less would be said to be missing
    from argstream.cli.serve import ServeOptions, serve_agent

    options = ServeOptions(
        model=model,
        tools=tools,
        folder=folder,
        policy=policy,
        instructions=instructions,
        max_turns=max_turns,
        store=store,
        host=host,
        port=port,
        token=token,
        no_token=no_token,
        origins=tuple(origin or ()),
        hosts=tuple(allowed_host or ()),
        forwarded_from=tuple(forwarded_from or ()),
        page=page,
        pace=pace,
        log_level=log_level,
    )
    raise typer.Exit(serve_agent(options))


def runs(
    store: Store = "",
    status: Annotated[
        RunStatus | None, typer.Option(help="Only those.", show_default="all of them")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the newest first.")] = 20,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print them as JSON, one a line.")
    ] = False,
) -> None:
    """List the runs of agents that a store has: what became of them, what they wait for.

    Exits with 0, or with 2 if the store cannot be read.
    """
    from argstream.cli.runs import list_runs

    raise typer.Exit(list_runs(store, status, limit, as_json=as_json))
