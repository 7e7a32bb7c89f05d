"""``argstream serve``: an agent over HTTP, for a browser, curl and other people's front ends."""

import asyncio
import os
import secrets
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from argstream.agent import Agent
from argstream.cli._agents import (
    INSTRUCTIONS,
    chosen_model,
    folder_named,
    kits_named,
    model_named,
    tools_of,
)
from argstream.cli._input import complain
from argstream.cli._options import LogLevel
from argstream.cli._rules import read_rules
from argstream.cli._stopping import Stopping
from argstream.cli._stores import files_of, place_of, shown_place, token_file_of
from argstream.cli.serve.greeting import Greeting
from argstream.cli.serve.log_lines import tell_log
from argstream.cli.serve.script import ScriptedGuide
from argstream.cli.serve.token_file import read_token, write_token
from argstream.cli.serve.tools import script_tools
from argstream.errors import ArgstreamError, UsageError
from argstream.log import Store
from argstream.sanitise import visible_line
from argstream.server import AgentServer, serve
from argstream.server.doors import LOOPBACK_HOSTS

if TYPE_CHECKING:
    from argstream.server import ClaudeAgentDriver

__all__ = ["ServeOptions", "serve_agent"]

_TOKEN: Final = "ARGSTREAM_TOKEN"
_SCRIPT: Final = "script"
_CLAUDE: Final = "claude-agent"
_PATIENCE: Final = 1.0
"""Seconds for the store to answer, before it is said what is waited for."""
_PIECES_A_STEP: Final = 10
"""How many pieces the script could write while its longer tool makes a step."""


class ServeOptions(NamedTuple):
    """What is served, and to whom."""

    model: str = ""
    tools: str = ""
    folder: str = "."
    policy: str | None = None
    instructions: str = ""
    max_turns: int = 50
    store: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    token: str = ""
    no_token: bool = False
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """By which names it is asked for, besides those of this machine."""
    forwarded_from: tuple[str, ...] = ()
    """The addresses of proxies."""
    page: bool = True
    pace: float = 0.03
    log_level: LogLevel = "warning"

    def __repr__(self) -> str:
        """Show all but the token."""
        shown = self._asdict() | {"token": "…" if self.token else ""}
        return f"ServeOptions({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def serve_agent(options: ServeOptions) -> int:
    """Serve until Ctrl-C or SIGTERM.

    Returns the exit status: 0 if it ended in order, 2 if it cannot be started.
    """
    tell_log(options.log_level)
    with Stopping() as stopping, TemporaryDirectory(prefix="argstream-serve-") as name:
        try:
            _serve(options, Path(name).resolve())
        except ArgstreamError as error:
            complain(visible_line(str(error)))
            return 2
    return stopping.status or 0


def _serve(options: ServeOptions, room: Path) -> None:
    name = chosen_model(options.model) or _SCRIPT
    place = place_of(options.store)
    access = _access(options, place)
    proxies = _proxies(options)
    agent = _agent(name, options, place, room)
    hosts = _hosts(options, access)
    app = AgentServer(
        agent, token=access.token, hosts=hosts, origins=options.origins, page=options.page
    )

    def prepare() -> None:
        """Create files: only now, since a server that is refused leaves none."""
        asyncio.run(_require(agent.store, place))
        access.save()

    greeting = Greeting(
        model=name,
        place=shown_place(place),
        host=options.host,
        hosts=hosts,
        has_page=options.page,
        has_token=access.token is not None,
        made_token="" if access.is_given else access.token or "",
        token_file="" if access.file is None else visible_line(str(access.file)),
    )
    serve(
        app,
        host=options.host,
        port=options.port,
        forwarded_from=proxies,
        loopback_only=not access.is_given,
        before_start=prepare,
        on_listening=greeting.show,
    )


class _Access(NamedTuple):
    """The token that clients must send, if any, and the file to keep it in."""

    token: str | None
    is_given: bool = False
    """Whether the user chose it. Such a token is neither written nor printed."""
    file: Path | None = None
    is_new: bool = False

    def save(self) -> None:
        if self.file is not None and self.token is not None and self.is_new:
            write_token(self.file, self.token)


def _access(options: ServeOptions, place: str) -> _Access:
    set_token = os.environ.pop(_TOKEN, "")  # what is started from here need not know it
    given = options.token or set_token
    if options.no_token:
        if given:
            source = "--token" if options.token else _TOKEN
            raise UsageError(f"--no-token cannot be combined with {source}. Remove one of them")
        return _Access(None)
    if given:
        return _Access(given, is_given=True)
    file = token_file_of(place)
    if file is None:
        raise UsageError(
            f"no home directory to store the access token. Set {_TOKEN} to your own token"
        )
    kept = read_token(file)
    return _Access(kept or secrets.token_urlsafe(), file=file, is_new=kept is None)


def _agent(name: str, options: ServeOptions, place: str, room: Path) -> "Agent | ClaudeAgentDriver":
    """Make what is served; what of its options means nothing there is refused."""
    if name == _SCRIPT:
        _refuse(options, name, "tools", "folder", "instructions")
        return Agent(
            ScriptedGuide(options.pace),
            script_tools(room, options.pace * _PIECES_A_STEP),
            policy=read_rules(None, options.policy).policy,
            name=_SCRIPT,
            max_turns=options.max_turns,
            store=place,
        )
    folder = folder_named(options.folder)
    if name == _CLAUDE:
        _refuse(options, name, "tools", "policy")
        return _claude_code(options, place, folder)
    kits = kits_named(options.tools)
    return Agent(
        model_named(name),
        tools_of(kits, folder, files_of(place)),
        instructions=options.instructions or (INSTRUCTIONS.format(folder=folder) if kits else ""),
        policy=read_rules(None, options.policy).policy,
        max_turns=options.max_turns,
        store=place,
    )


def _claude_code(options: ServeOptions, place: str, folder: Path) -> "ClaudeAgentDriver":
    from argstream.server import ClaudeAgentDriver  # noqa: PLC0415 - it needs an SDK

    if not folder.is_dir():
        raise UsageError(f"--folder {options.folder} is no folder")
    return ClaudeAgentDriver.in_folder(
        place, folder, instructions=options.instructions, max_turns=options.max_turns
    )


def _refuse(options: ServeOptions, model: str, *names: str) -> None:
    usual = ServeOptions()._asdict()
    given = [f"--{name}" for name in names if getattr(options, name) != usual[name]]
    if given:
        mean, them = ("means", "it") if len(given) == 1 else ("mean", "them")
        raise UsageError(
            f"{' and '.join(given)} {mean} nothing for --model {model}, which has its own: leave "
            f"{them} out, or name another model"
        )


def _hosts(options: ServeOptions, access: _Access) -> tuple[str, ...] | None:
    """Return the names that requests may use for this server; None is any name.

    A user who chose a token may serve under names that are not known here.
    """
    if access.is_given and not options.hosts:
        return None
    own = (options.host,) if options.host else ()
    return tuple(dict.fromkeys((*LOOPBACK_HOSTS, *own, *options.hosts)))


def _proxies(options: ServeOptions) -> tuple[str, ...]:
    """Give the addresses of proxies; one that is mistyped would never be believed."""
    for address in options.forwarded_from:
        try:
            ip_network(address)
        except ValueError:
            raise UsageError(
                f"--forwarded-from is an address such as 10.0.0.7, or a network such as "
                f"10.0.0.0/8, not {address!r}"
            ) from None
    return options.forwarded_from


async def _require(store: Store | None, place: str) -> None:
    """Raise ``StoreFailure`` now if the store cannot be used, and not when somebody asks."""
    if store is not None:
        loop = asyncio.get_running_loop()
        waiting = f"waiting for the store {shown_place(place)} …"
        hint = loop.call_later(_PATIENCE, complain, waiting)
        try:
            await store.runs(limit=1)
        finally:
            hint.cancel()
