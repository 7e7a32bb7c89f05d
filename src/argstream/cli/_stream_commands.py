"""The commands about what providers send: streams, recordings, tools. Their words are here."""

# ruff: noqa: PLC0415 - a command loads what it needs, and not what others need

from typing import Annotated

import typer

from argstream.cli._options import (
    RUN,
    AsJson,
    LintScope,
    PolicyFile,
    Port,
    Protocol,
    RunOrFile,
    Store,
    ToolsFile,
)
from argstream.testing.faults import known_faults

__all__ = ["calls", "inspect", "lint", "mock", "parse", "record", "replay", "watch"]


def parse(
    file: Annotated[str, typer.Argument(help="A file, or - for standard input.")] = "-",
) -> None:
    """Turn JSON into fragments, one a line, while it arrives.

    Exits with 0 if the JSON is complete, with 1 if it is malformed or cut off, with 2 if it cannot
    be read or the fragments cannot be written.
    """
    from argstream.cli.parse import parse_to_ndjson

    raise typer.Exit(parse_to_ndjson(file))


def watch(
    file: Annotated[str, typer.Argument(help="A recorded stream, or - for standard input.")] = "-",
    protocol: Protocol = "auto",
    tools: ToolsFile = None,
    policy: PolicyFile = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show a model's turn while it arrives, for instance of: curl -N … | argstream watch.

    Recordings of `argstream record` are understood as well. When the policy denies a call, reading
    stops, and so does curl.

    Exits with 0 if all is well, with 1 if a call is cut off, malformed or rejected or this is no
    stream of a provider, with 2 if it cannot be read, with 130 after Ctrl-C.
    """
    from argstream.cli.watch import watch_stream

    raise typer.Exit(watch_stream(file, protocol, as_json=as_json, tools=tools, policy=policy))


def calls(
    files: Annotated[list[str], typer.Argument(help="Recorded streams, or - for standard input.")],
    protocol: Protocol = "auto",
    tools: ToolsFile = None,
    policy: PolicyFile = None,
) -> None:
    """Print the tool calls of recorded streams, one JSON line each.

    Recordings of `argstream record` are understood as well.

    Exits with 0 if all is well, with 1 if a call is not complete or a file is no stream of a
    provider, with 2 if one cannot be read.
    """
    from argstream.cli.calls import list_calls

    raise typer.Exit(list_calls(files, protocol, tools, policy))


def lint(
    files: Annotated[
        list[str],
        typer.Argument(help="Tools as JSON, in any provider's format, or - for standard input."),
    ],
    only: Annotated[
        LintScope, typer.Option(help="What to look for; a schema that is unusable is told anyway.")
    ] = "all",
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the findings as JSON, one a line.")
    ] = False,
) -> None:
    """Find what in the schemas of tools keeps a person or a rule waiting, and say how to mend it.

    A long text that stands before the short properties that one decides by (order), what can be
    judged only when it is too late (late), and schemas that do not work at all (unusable).

    Exits with 0 if there is nothing to say, with 1 if there is, with 2 if a file cannot be read.
    """
    from argstream.cli.lint import lint_files

    raise typer.Exit(lint_files(files, only, as_json=as_json))


def mock(
    file: Annotated[
        str, typer.Argument(help="A script or a recording; without one, an example is played.")
    ] = "",
    port: Port = 0,
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
    *,
    timed: Annotated[
        bool, typer.Option("--timed", help="Send what was recorded when it came; no --fault then.")
    ] = False,
) -> None:
    """Start a provider on this machine, for the real clients to talk to, until Ctrl-C.

    It speaks Anthropic Messages, OpenAI Chat Completions and OpenAI Responses. What `argstream
    record` recorded of another API is sent as it came, whatever is asked for.
    """
    from argstream.cli.mock import serve_mock

    if timed and fault:
        raise typer.BadParameter("--timed sends what was recorded, so it makes no --fault")
    status = serve_mock(file, port=port, pace=pace, faults=fault or [], is_timed=timed)
    raise typer.Exit(status)


def record(  # noqa: PLR0913 - a command has options
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="The recording; with --proxy, the directory for recordings.",
            show_default="standard output; with --proxy, recordings",
        ),
    ] = "",
    proxy: Annotated[
        str, typer.Option(metavar="URL", help="Record what clients get from this provider.")
    ] = "",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where the proxy listens; 0 is any free port.")
    ] = 0,
    *,
    with_request: Annotated[
        bool,
        typer.Option("--with-request", help="Record what clients send, too: it holds prompts."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not pass on what is recorded.")
    ] = False,
) -> None:
    """Write down what a provider sends, with its times, without keys.

    From a pipe: curl -N … | argstream record -o turn.rec. As tee does, it passes on what it records
    to standard output; without -o, the recording itself goes there.

    As a proxy on this machine: argstream record --proxy https://api.anthropic.com. Give clients its
    address as their base URL. Each answer becomes a file of its own.

    A recording is read by watch, calls, replay, inspect and mock. Exits with 0 if all is recorded,
    with 2 if something cannot be read or written, with 130 after Ctrl-C.
    """
    from argstream.cli.record import record_pipe, record_proxy

    if proxy and (force or quiet):
        raise typer.BadParameter("--force and --quiet are not for --proxy: it overwrites nothing")
    if not proxy and (port or with_request):
        raise typer.BadParameter("--port and --with-request are for --proxy")
    if proxy:
        directory = output or "recordings"
        status = record_proxy(proxy, directory, port=port, with_request=with_request)
    else:
        status = record_pipe(output, overwrite=force, is_quiet=quiet)
    raise typer.Exit(status)


def replay(  # noqa: PLR0913 - a command has options
    file: RunOrFile,
    speed: Annotated[
        str, typer.Option(metavar="NUMBER|max", help="How many times faster than it was; or max.")
    ] = "1",
    protocol: Protocol = "auto",
    store: Store = "",
    *,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write the provider's bytes, and do not show them.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the events as JSON, one a line; of a run, records."),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until the run is over.")
    ] = False,
) -> None:
    """Play a recording again, at the times at which it came, as `argstream watch` would show it.

    A provider's plain stream can be played too; it has no times, so each event takes 0.03 s. So can
    a run of an agent: run:ID, where the first characters of the ID are enough. How long it was
    paused is told, and not waited for.

    Exits as watch does; with --raw, with 1 if what was recorded was cut or aborted.
    """
    from argstream.cli.replay import replay_file, speed_factor
    from argstream.cli.replay_run import replay_run

    is_run = file.startswith(RUN)
    if is_run and (raw or protocol != "auto"):
        raise typer.BadParameter("--raw and --from are for recordings: a run is kept as events")
    if not is_run and (store or follow):
        raise typer.BadParameter("--store and --follow are for runs: argstream replay run:ID")
    if raw and as_json:
        raise typer.BadParameter("--raw writes bytes and --json events: choose one")
    if (factor := speed_factor(speed)) is None:
        raise typer.Exit(2)
    if is_run:
        raise typer.Exit(replay_run(file, store, factor, as_json=as_json, follow=follow))
    raise typer.Exit(replay_file(file, factor, protocol, as_json=as_json, is_raw=raw))


def inspect(  # noqa: PLR0913 - a command has options
    file: RunOrFile,
    protocol: Protocol = "auto",
    store: Store = "",
    svg: Annotated[
        str, typer.Option("--svg", metavar="FILE", help="Write the waterfall as a picture, too.")
    ] = "",
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Show also what is inside of objects and arrays.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a picture that exists.")
    ] = False,
) -> None:
    """Tell what is in a recording: its calls, and when each argument became visible.

    Of a provider's plain stream, which has no times, it tells after how many bytes. Of a run of an
    agent (run:ID) it tells what became of each call, and when. Below that it draws a waterfall:
    when each argument was visible, against the silence that it replaced.

    Exits as watch does; with 2 if the picture cannot be written.
    """
    from argstream.cli._waterfall import Picture
    from argstream.cli.inspect import inspect_file
    from argstream.cli.inspect_run import inspect_run

    is_run = file.startswith(RUN)
    if is_run and (deep or protocol != "auto"):
        raise typer.BadParameter("--deep and --from are for recordings: a run is kept as events")
    if not is_run and store:
        raise typer.BadParameter("--store is for runs: argstream inspect run:ID")
    if force and not svg:
        raise typer.BadParameter("--force is for --svg: nothing else is written")
    picture = Picture(svg, overwrite=force) if svg else None
    if is_run:
        raise typer.Exit(inspect_run(file, store, as_json=as_json, picture=picture))
    status = inspect_file(file, protocol, as_json=as_json, is_deep=deep, picture=picture)
    raise typer.Exit(status)
