"""``argstream serve``: an agent over HTTP, for curl and for other people's front ends."""

import asyncio
import logging
import os
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
from argstream.cli._stores import place_of
from argstream.cli.serve.greeting import Greeting
from argstream.cli.serve.script import ScriptedGuide
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
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """By which names it is asked for, besides those of this machine."""
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
    _tell_log(options.log_level)
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
    token = options.token or os.environ.get(_TOKEN, "") or None
    agent = _agent(name, options, place, room)
    app = AgentServer(agent, token=token, hosts=_hosts(options, token), origins=options.origins)
    asyncio.run(_require(agent.store))
    greeting = Greeting(name, place, has_token=token is not None)
    serve(app, host=options.host, port=options.port, on_listening=greeting.show)


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
        tools_of(kits, folder),
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
        raise UsageError(
            f"{' and '.join(given)} mean nothing for --model {model}, which has its own: leave "
            "them out, or name another model"
        )


def _hosts(options: ServeOptions, token: str | None) -> tuple[str, ...] | None:
    """Say by which names it may be asked for: by any, if all who ask must know a token."""
    if token is not None and not options.hosts:
        return None
    own = (options.host,) if options.host else ()
    return tuple(dict.fromkeys((*LOOPBACK_HOSTS, *own, *options.hosts)))


async def _require(store: Store | None) -> None:
    """Raise ``StoreFailure`` now if the store cannot be used, and not when somebody asks."""
    if store is not None:
        await store.runs(limit=1)


def _tell_log(level: LogLevel) -> None:
    """Have what happens told on standard error; of what others log, only what went wrong."""
    number = getattr(logging, level.upper())
    logging.basicConfig(level=max(number, logging.WARNING), format="%(levelname)s: %(message)s")
    logging.getLogger("argstream").setLevel(number)
