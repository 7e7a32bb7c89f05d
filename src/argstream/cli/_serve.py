"""``argstream serve``: an agent over HTTP, for browsers, curl and other front ends."""

import asyncio
import contextlib
import logging
import os
import secrets
import stat
from argparse import Namespace
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from argstream.agent import Agent
from argstream.cli._agents import (
    CLAUDE,
    SCRIPT,
    absolute,
    chosen_model,
    folder_named,
    kits_named,
    launched_agent,
    launched_tools,
    refuse_options,
)
from argstream.cli._commands import LogLevel, say
from argstream.cli._io import complain
from argstream.cli._setup import Stopping, place_of, policy_in, shown_place, token_file_of
from argstream.errors import UsageError
from argstream.runs._records import Launch
from argstream.runs._store import Store
from argstream.sanitise import visible, visible_line
from argstream.server import AgentServer, serve
from argstream.server._security import LOOPBACK_HOSTS
from argstream.terminal._text import harmless

if TYPE_CHECKING:
    from argstream.server import ClaudeAgentDriver

_MODELS: Final = {
    SCRIPT: "demo script (use --model for a real one)",
    CLAUDE: "Claude Code (asks before it changes files)",
}
Hosts: TypeAlias = tuple[str, ...] | None  # the names that requests may use; None is any
_EVERYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104 - to know it by
_PATHS: Final = (
    ("POST /api/converse", "simple streaming chat"),
    ("POST /api/chat", "AI SDK (useChat)"),
    ("POST /api/ag-ui", "AG-UI (HttpAgent)"),
    ("POST /api/runs", "start a run; follow it at GET /api/runs/ID/events"),
    ("POST /api/runs/ID/decisions", "approve or deny calls"),
)


def _greeting(
    url: str, facts: dict[str, str], options: Namespace, hosts: Hosts, access: "_Access"
) -> str:
    """Return what is printed when the server listens."""
    page, token, authorization = "/", "set by you; the page asks for it", ""
    if access.token is None:
        token = "none: any local user or process can start runs and approve commands"
    elif access.file is None:
        authorization = '-H "authorization: Bearer $ARGSTREAM_TOKEN" '
    else:
        page, token = f"/#token={access.token}", f"kept in {visible_line(str(access.file))}"
        authorization = f"-H 'authorization: Bearer {access.token}' "
    facts = {
        "Open": "" if options.no_page else f"{url}{page}",
        **facts,
        "Token": token,
        "Network": _network_access(url, options.host, hosts),
    }
    lines = [f"  {name:<9}{text}" for name, text in facts.items() if text]
    paths = "\n".join(f"  {path:29}{what}" for path, what in _PATHS)
    return (
        f"argstream is running at {url} (Ctrl-C to stop)\n\n"
        + "\n".join(lines)
        + f"\n\n  curl -N {url}/api/converse {authorization}-H 'content-type: "
        """application/json' -d '{"message": "Hello"}'\n\n"""
        f"{paths}\n"
    )


def _network_access(url: str, host: str, hosts: Hosts) -> str:
    """Return how other machines can reach the server; "" if they cannot."""
    with contextlib.suppress(ValueError):  # a name: what it stands for is not known here
        if host == "localhost" or ip_address(host).is_loopback:
            return ""
    names = [name for name in hosts or () if name not in _EVERYWHERE]
    by = f"as {visible_line(', '.join(names))}" if names else "by any name of this machine"
    return f"reachable from other machines on port {urlsplit(url).port}, {by}, with the token"


def tell_log(level: LogLevel) -> None:
    """Log to standard error; of other libraries, only what went wrong."""
    number = getattr(logging, level.upper())
    handler = logging.StreamHandler()
    handler.setFormatter(_Visible("%(levelname)s: %(message)s"))
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler])
    logging.getLogger("argstream").setLevel(number)


class _Visible(logging.Formatter):
    """Makes what models, providers and clients wrote visible."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name there
        return harmless(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - as above
        return visible(super().formatException(ei))


_OWNER_ONLY: Final = 0o600
_OTHERS: Final = 0o077
_MAX_BYTES: Final = 4096
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)  # for a writer, if the path is a named pipe
_INSTEAD: Final = "or set ARGSTREAM_TOKEN to a token of your own"


def read_token(path: Path) -> str | None:
    """Return the token in a file, or None if there is no such file.

    Raise ``UsageError`` if other users could have read or written the file.
    """
    with _explained("read", path):  # a directory, or a symbolic link, which might lead anywhere
        try:
            descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
        except FileNotFoundError:
            return None
        try:
            _require_private(descriptor, path)
            token = os.read(descriptor, _MAX_BYTES).decode("ascii", "replace").strip()
        finally:
            os.close(descriptor)
    if not token:
        raise UsageError(f"{str(path)!r} holds no token. Delete it and start again")
    return token


def write_token(path: Path, token: str) -> None:
    """Create the file, readable for its owner only from the start, whatever the umask is."""
    with _explained("create", path):
        for folder in reversed(path.parents):
            folder.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
        try:
            descriptor = os.open(path, flags, _OWNER_ONLY)
        except FileExistsError:
            raise UsageError(
                f"another server has just created {str(path)!r}. Start again to use its token"
            ) from None
    try:
        with _explained("write", path):
            _require_private(descriptor, path)  # some file systems keep no permissions
            os.write(descriptor, f"{token}\n".encode("ascii"))
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    finally:
        os.close(descriptor)


def _require_private(descriptor: int, path: Path) -> None:
    if os.name != "posix":
        return  # there, permissions are not a file's mode
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid():
        raise UsageError(
            f"{str(path)!r} belongs to another user, who may know its token. Delete it, {_INSTEAD}"
        )
    if status.st_mode & _OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        raise UsageError(
            f"{str(path)!r} is open to other users (mode {mode:04o}), who may know its token. "
            f"Delete it to get a new one, {_INSTEAD}"
        )


@contextlib.contextmanager
def _explained(what: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or type(error).__name__
        message = f"cannot {what} the token file {str(path)!r}: {why}. Fix this, {_INSTEAD}"
        raise UsageError(message) from None


_TOKEN: Final = "ARGSTREAM_TOKEN"
# Seconds for the store to answer, before the user is told what takes so long.
_PATIENCE: Final = 1.0


def serve_agent(options: Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM. Return the exit status."""
    tell_log(options.log_level)
    with Stopping() as stopping, TemporaryDirectory(prefix="argstream-serve-") as name:
        _serve(options, Path(name).resolve())
    return stopping.status or 0


def _serve(options: Namespace, room: Path) -> None:
    name = chosen_model(options.model) or SCRIPT
    place = place_of(options.store)
    access = _access(options, place)
    agent = _agent(name, options, place, room)
    hosts = _hosts(options, access)
    app = AgentServer(
        agent,
        token=access.token,
        hosts=hosts,
        origins=tuple(options.origin),
        page=not options.no_page,
    )

    def prepare() -> None:
        """Create files only now: a server that is refused leaves none."""
        asyncio.run(_require(agent.store, place))
        if access.file is not None and access.token is not None and access.is_new:
            write_token(access.file, access.token)

    facts = {"Model": visible_line(_MODELS.get(name, name)), "Runs": shown_place(place)}
    serve(
        app,
        host=options.host,
        port=options.port,
        forwarded_from=options.forwarded_from,
        loopback_only=not access.is_given,
        before_start=prepare,
        on_listening=lambda url: say(_greeting(url, facts, options, hosts, access)),
    )


class _Access(NamedTuple):
    """The token that clients must send, if any, and the file to keep it in."""

    token: str | None
    file: Path | None = None  # None: chosen by the user, and neither written nor printed
    is_new: bool = False

    @property
    def is_given(self) -> bool:
        return self.token is not None and self.file is None


def _access(options: Namespace, place: str) -> _Access:
    set_token = os.environ.pop(_TOKEN, "")  # what is started from here need not know it
    given = options.token or set_token
    if options.no_token:
        if given:
            source = "--token" if options.token else _TOKEN
            raise UsageError(f"--no-token cannot be combined with {source}. Remove one of them")
        return _Access(None)
    if given:
        return _Access(given)
    file = token_file_of(place)
    if file is None:
        raise UsageError(
            f"no home directory to store the access token. Set {_TOKEN} to your own token"
        )
    kept = read_token(file)
    return _Access(kept or secrets.token_urlsafe(), file, is_new=kept is None)


def _agent(name: str, options: Namespace, place: str, room: Path) -> "Agent | ClaudeAgentDriver":
    """Return what is served. Options that do not apply to it are refused."""
    if name == SCRIPT:
        refuse_options(
            chosen_model(options.model),
            tools=options.tools,
            folder=options.folder,
            instructions=options.instructions,
        )
    folder = folder_named("." if options.folder is None else options.folder)
    instructions, turns = options.instructions or "", options.max_turns
    if name == CLAUDE:
        from argstream.server import ClaudeAgentDriver

        refuse_options(name, tools=options.tools, policy=options.policy)
        if not folder.is_dir():
            raise UsageError(f"--folder {options.folder} is not a folder")
        return ClaudeAgentDriver.in_folder(
            place, folder, instructions=instructions, max_turns=turns
        )
    kits = tuple(kits_named(options.tools or ""))
    launch = Launch(name, kits, str(folder), absolute(options.policy), instructions, turns)
    tools = launched_tools(launch, place, room, options.pace)
    title = SCRIPT if name == SCRIPT else "agent"
    rules = policy_in(options.policy)
    return launched_agent(launch, rules, tools, options.pace, name=title, store=place)


def _hosts(options: Namespace, access: _Access) -> Hosts:
    """Return the names that requests may use for this server; None is any name.

    A user who chose a token may serve under names that are not known here.
    """
    if access.is_given and not options.allowed_host:
        return None
    own = (options.host,) if options.host else ()
    return tuple(dict.fromkeys((*LOOPBACK_HOSTS, *own, *options.allowed_host)))


async def _require(store: Store | None, place: str) -> None:
    """Raise ``StoreError`` now if the store cannot be used, and not at the first request."""
    if store is not None:
        loop = asyncio.get_running_loop()
        waiting = f"waiting for the store {shown_place(place)} …"
        hint = loop.call_later(_PATIENCE, complain, waiting)
        try:
            await store.runs(limit=1)
        finally:
            hint.cancel()
