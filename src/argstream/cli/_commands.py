"""The commands and their options, as ``--help`` shows them. The work is imported when needed."""

import math
from importlib import import_module
from typing import Annotated, Final, Literal, TypeAlias

import typer

from argstream import __version__
from argstream.events import RunStatus
from argstream.providers import ProtocolName
from argstream.testing._replies import known_faults

RUN: Final = "run:"  # prefix of a run ID, where a file could be meant

LintScope: TypeAlias = Literal["all", "order", "late"]
LogLevel: TypeAlias = Literal["error", "warning", "info", "debug"]

ModelName: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="Such as anthropic:claude-opus-4-7, openai:gpt-5, ollama:qwen3.",
        show_default="ARGSTREAM_MODEL",
    ),
]
Protocol: TypeAlias = Annotated[
    ProtocolName, typer.Option("--from", help="Protocol of the stream. auto detects it.")
]
ToolsFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Check calls against these tools: JSON, in any provider's format.", metavar="FILE"
    ),
]
PolicyFile: TypeAlias = Annotated[
    str | None, typer.Option(help="Check calls against this policy: TOML.", metavar="FILE")
]
Store: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="STORE",
        help="The store: an SQLite file, or a redis:// address.",
        show_default="ARGSTREAM_STORE, else argstream.db",
    ),
]
RUN_OR_FILE: Final = "A recording, - for standard input, or run:ID for a run of a store."
RunOrFile: TypeAlias = Annotated[str, typer.Argument(help=RUN_OR_FILE)]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the events as JSON, one a line.")
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")]

Folder: TypeAlias = Annotated[
    str, typer.Option(metavar="FOLDER", help="Where it works: nothing outside is touched.")
]
Instructions: TypeAlias = Annotated[
    str, typer.Option(metavar="TEXT", help="What the model is told before everything else.")
]
MaxTurns: TypeAlias = Annotated[int, typer.Option(min=1, help="How often the model is asked.")]

Port: TypeAlias = Annotated[
    int, typer.Option(min=0, max=65535, help="Where to listen; 0 is any free port.")
]

# Options of ``serve``
ServedModel: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="As of run; script needs no key, claude-agent is Claude Code.",
        show_default="ARGSTREAM_MODEL, else script",
    ),
]
ServedTools: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="files,shell",
        help="What it may use; nothing, unless said. The shell asks; files only by --policy.",
    ),
]
Host: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="HOST",
        help="Address to listen on. Any other than loopback needs --token or ARGSTREAM_TOKEN.",
    ),
]
Token: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="TOKEN",
        help="Access token that clients must send. Prefer ARGSTREAM_TOKEN: other users see "
        "command lines.",
        show_default="ARGSTREAM_TOKEN, else a random one, kept in a file",
    ),
]
NoToken: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--no-token",
        help="Require no token: any local user or process can then start runs and approve "
        "commands.",
    ),
]
Origins: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--origin",
        metavar="ORIGIN",
        help="A page that may ask, such as http://localhost:3000; may be given often.",
    ),
]
AllowedHosts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host",
        metavar="HOST",
        help="A name that the server is reached by, such as agent.example; may be given often.",
    ),
]
Proxies: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--forwarded-from",
        metavar="ADDRESS",
        help="A proxy that is believed from where it forwards: 10.0.0.7, 10.0.0.0/8; may be "
        "given often.",
    ),
]


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
    from argstream.cli._streams import watch_stream

    raise typer.Exit(watch_stream(file, protocol, as_json=as_json, tools=tools, policy=policy))


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
    checked only when it is too late (late), and schemas that do not work at all (unusable).

    Exits with 0 if there is nothing to say, with 1 if there is, with 2 if a file cannot be read.
    """
    from argstream.cli._streams import lint_files

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
    from argstream.cli._streams import serve_mock

    if timed and fault:
        raise typer.BadParameter("--timed sends what was recorded, so it makes no --fault")
    status = serve_mock(file, port=port, pace=pace, faults=fault or [], is_timed=timed)
    raise typer.Exit(status)


def record(
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
    force: Force = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not pass on what is recorded.")
    ] = False,
) -> None:
    """Write down what a provider sends, with its times, without keys.

    From a pipe: curl -N … | argstream record -o turn.rec. As tee does, it passes on what it records
    to standard output; without -o, the recording itself goes there.

    As a proxy on this machine: argstream record --proxy https://api.anthropic.com. Give clients its
    address as their base URL. Each answer becomes a file of its own.

    A recording is read by watch, replay, inspect and mock. Exits with 0 if all is recorded,
    with 2 if something cannot be read or written, with 130 after Ctrl-C.
    """
    from argstream.cli._streams import record_pipe, record_proxy

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


def replay(
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
    from argstream.cli._streams import replay_file, speed_factor

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
        from argstream.cli._agents import replay_run

        raise typer.Exit(replay_run(file, store, factor, as_json=as_json, follow=follow))
    raise typer.Exit(replay_file(file, factor, protocol, as_json=as_json, is_raw=raw))


def inspect(
    files: Annotated[
        list[str], typer.Argument(help=f"{RUN_OR_FILE} Several files only with --calls.")
    ],
    protocol: Protocol = "auto",
    tools: ToolsFile = None,
    policy: PolicyFile = None,
    *,
    store: Store = "",
    svg: Annotated[str, typer.Option(metavar="FILE", help="Also write the waterfall as SVG.")] = "",
    calls: Annotated[bool, typer.Option("--calls", help="Print calls as JSON lines.")] = False,
    fragments: Annotated[
        bool, typer.Option("--fragments", help="Parse JSON and print fragments as JSON lines.")
    ] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Include nested values.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    force: Force = False,
) -> None:
    """Show the calls in a recording or run, and when each argument became available.

    A provider's plain stream has no times, so it is measured in bytes. For a run (run:ID), the
    outcome of each call is shown, too. Without --json, ends with a waterfall chart of the calls.

    With --calls, print the arguments and the verdict of each call, checked against --tools and
    --policy. With --fragments, the input is JSON instead of a stream: parse it as it arrives.

    Exits with 0 if every call is complete, 1 if one is not or the stream failed, 2 if a file cannot
    be read or written, 130 after Ctrl-C.
    """
    is_run = any(file.startswith(RUN) for file in files)
    if (calls or fragments) and (calls is fragments or is_run or deep or as_json or svg):
        raise typer.BadParameter(
            "--calls and --fragments exclude each other, run:ID, --deep, --json and --svg"
        )
    if not calls and (tools or policy or len(files) > 1):
        raise typer.BadParameter("--tools, --policy and several files are for --calls")
    if (is_run or fragments) and (deep or protocol != "auto"):
        raise typer.BadParameter("--deep and --from are for recordings, not for runs or JSON")
    if store and not is_run:
        raise typer.BadParameter("--store is for runs: argstream inspect run:ID")
    if force and not svg:
        raise typer.BadParameter("--force is for --svg: nothing else is written")
    if calls or fragments:
        from argstream.cli._streams import print_calls, print_fragments

        status = print_calls(files, protocol, tools, policy) if calls else print_fragments(files[0])
        raise typer.Exit(status)
    from argstream.cli._inspect import Picture, inspect_file, inspect_run

    picture = Picture(svg, overwrite=force) if svg else None
    if is_run:
        raise typer.Exit(inspect_run(files[0], store, as_json=as_json, picture=picture))
    status = inspect_file(files[0], protocol, as_json=as_json, is_deep=deep, picture=picture)
    raise typer.Exit(status)


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


def run(
    prompt: Annotated[str, typer.Argument(help="What to do; - reads it from standard input.")],
    *,
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
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Approve everything that would be asked about.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run an agent on a prompt, and watch it write.

    Files are read and written below one folder only. What must be approved is shown in full; if
    standard input is no terminal, it is denied. Ctrl-C stops the run.

    Exits with 0 if it is complete, with 1 if it failed, with 2 if it cannot be run, with 130 after
    Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
    """
    from argstream.cli._agents import RunOptions, run_prompt

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


def serve(
    *,
    model: ServedModel = "",
    tools: ServedTools = "",
    folder: Folder = ".",
    policy: PolicyFile = None,
    instructions: Instructions = "",
    max_turns: MaxTurns = 50,
    store: Store = "",
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = "",
    origin: Origins = None,
    allowed_host: AllowedHosts = None,
    forwarded_from: Proxies = None,
    pace: Annotated[
        float, typer.Option(min=0, help="Seconds between two pieces that the script writes.")
    ] = 0.03,
    log_level: Annotated[
        LogLevel, typer.Option(help="What is told of the server on standard error.")
    ] = "warning",
    no_token: NoToken = False,
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
    import_module("argstream.server")  # first: of two missing extras, the user needs this one
    from argstream.cli._serve import ServeOptions, serve_agent

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
    from argstream.cli._agents import list_runs

    raise typer.Exit(list_runs(store, status, limit, as_json=as_json))


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


for _command in (demo, run, serve, watch, lint, mock, record, replay, inspect, runs):
    app.command()(_command)
