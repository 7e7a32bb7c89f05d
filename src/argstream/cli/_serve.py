"""``argstream serve``: an agent over HTTP, for browsers, curl and other front ends."""

import asyncio
import contextlib
import logging
import os
import secrets
import stat
from ipaddress import ip_address, ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from argstream.agent import Agent
from argstream.cli._agents import (
    INSTRUCTIONS,
    chosen_model,
    folder_named,
    kits_named,
    model_named,
    tools_of,
)
from argstream.cli._commands import LogLevel
from argstream.cli._guide import ScriptedGuide, script_tools
from argstream.cli._io import complain, say
from argstream.cli._setup import (
    Stopping,
    files_of,
    place_of,
    read_rules,
    shown_place,
    token_file_of,
)
from argstream.errors import UsageError
from argstream.runs._store import Store
from argstream.sanitise import visible, visible_line
from argstream.server import AgentServer, serve
from argstream.server._security import LOOPBACK_HOSTS

if TYPE_CHECKING:
    from argstream.server import ClaudeAgentDriver

_MODELS: Final = {
    "script": "The model is a script that needs no API key. Use --model to choose a real one.",
    "claude-agent": "The model is Claude Code, which asks before it changes anything.",
}
_NO_TOKEN: Final = (
    "No token is required: any local user or process that can reach the port can start runs and "
    "approve commands.\n"
)
_EVERYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104 - to know it by
_PATHS: Final = (
    ("POST /api/converse", "one answer, as a stream of small objects"),
    ("POST /api/chat", "for useChat of the AI SDK"),
    ("POST /api/ag-ui", "for HttpAgent of AG-UI"),
    ("POST /api/runs", "a run, to be followed at GET /api/runs/ID/events"),
    ("POST /api/runs/ID/decisions", "approve or deny what it asks"),
)


class Greeting(NamedTuple):
    """The text, and what it depends on."""

    model: str
    place: str  # where the runs are kept, without passwords
    host: str
    hosts: tuple[str, ...] | None  # the names that requests may use for it; None is any
    has_page: bool = True
    has_token: bool = True
    made_token: str = ""  # made by this server; "" if the user chose one, which is not printed
    token_file: str = ""

    def text(self, url: str) -> str:
        model = _MODELS.get(self.model, f"The model is {visible_line(self.model)}.")
        kept = f", the access token in {self.token_file}" if self.token_file else ""
        paths = "\n".join(f"  {path:29}{what}" for path, what in _PATHS)
        return (
            f"Serving at {url} (press Ctrl-C to stop).\n"
            f"{model}\n"
            f"Runs are kept in {self.place}{kept}.\n"
            f"{'' if self.has_token else _NO_TOKEN}"
            f"{self._others(url)}\n"
            f"{self._page(url)}"
            f"  curl -N {url}/api/converse {self._authorization()}-H 'content-type: "
            """application/json' -d '{"message": "Hello"}'\n\n"""
            f"{paths}\n"
        )

    def _page(self, url: str) -> str:
        if not self.has_page:
            return ""
        if self.made_token:
            return f"  Open {url}/#token={self.made_token}\n\n"
        sign_in = " and sign in with the token" if self.has_token else ""
        return f"  Open {url}{sign_in}\n\n"

    def _authorization(self) -> str:
        if not self.has_token:
            return ""
        if self.made_token:
            return f"-H 'authorization: Bearer {self.made_token}' "
        return '-H "authorization: Bearer $ARGSTREAM_TOKEN" '

    def _others(self, url: str) -> str:
        """Return the names by which others can reach it; "" if they cannot."""
        if self.host == "localhost" or _is_loopback(self.host):
            return ""
        names = [name for name in self.hosts or () if name not in _EVERYWHERE]
        by = f"as {visible_line(', '.join(names))}" if names else "by any name of this machine"
        return f"Others can reach it on port {urlsplit(url).port}, {by}, if they know the token.\n"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name: what it stands for is not known here
        return False


_SPELLED: Final = "⟦"
_ErrorInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


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
        # What the server has made visible already is not spelled out once more.
        return _SPELLED.join(map(visible_line, super().formatMessage(record).split(_SPELLED)))

    def formatException(self, ei: _ErrorInfo) -> str:  # noqa: N802 - as above
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
    try:
        descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
    except FileNotFoundError:
        return None
    except OSError as error:  # also a symbolic link, which might lead anywhere
        raise _unusable("read", path, error) from None
    try:
        _require_private(descriptor, path)
        token = os.read(descriptor, _MAX_BYTES).decode("ascii", "replace").strip()
    except OSError as error:  # a directory, for example
        raise _unusable("read", path, error) from None
    finally:
        os.close(descriptor)
    if not token:
        raise UsageError(f"{str(path)!r} holds no token. Delete it and start again")
    return token


def write_token(path: Path, token: str) -> None:
    """Create the file, readable for its owner only from the start, whatever the umask is."""
    try:
        _make_folders(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
        descriptor = os.open(path, flags, _OWNER_ONLY)
    except FileExistsError:
        raise UsageError(
            f"another server has just created {str(path)!r}. Start again to use its token"
        ) from None
    except OSError as error:
        raise _unusable("create", path, error) from None
    try:
        _require_private(descriptor, path)  # some file systems keep no permissions
        os.write(descriptor, f"{token}\n".encode("ascii"))
    except BaseException as error:
        with contextlib.suppress(OSError):
            path.unlink()
        if isinstance(error, OSError):
            raise _unusable("write", path, error) from None
        raise
    finally:
        os.close(descriptor)


def _make_folders(folder: Path) -> None:
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


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


def _unusable(what: str, path: Path, error: OSError) -> UsageError:
    reason = error.strerror or type(error).__name__
    return UsageError(f"cannot {what} the token file {str(path)!r}: {reason}. Fix this, {_INSTEAD}")


_TOKEN: Final = "ARGSTREAM_TOKEN"
_SCRIPT: Final = "script"
_CLAUDE: Final = "claude-agent"
# Seconds for the store to answer, before the user is told what takes so long.
_PATIENCE: Final = 1.0
# How many pieces the script could write during a step of its longer tool.
_PIECES_A_STEP: Final = 10


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
    hosts: tuple[str, ...] = ()  # names that requests may use, besides those of this machine
    forwarded_from: tuple[str, ...] = ()  # addresses of proxies
    page: bool = True
    pace: float = 0.03
    log_level: LogLevel = "warning"

    def __repr__(self) -> str:
        """Show everything but the token."""
        shown = self._asdict() | {"token": "…" if self.token else ""}
        return f"ServeOptions({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def serve_agent(options: ServeOptions) -> int:
    """Serve until Ctrl-C or SIGTERM. Return the exit status."""
    tell_log(options.log_level)
    with Stopping() as stopping, TemporaryDirectory(prefix="argstream-serve-") as name:
        _serve(options, Path(name).resolve())
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
        """Create files only now: a server that is refused leaves none."""
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
        on_listening=lambda url: say(greeting.text(url)),
    )


class _Access(NamedTuple):
    """The token that clients must send, if any, and the file to keep it in."""

    token: str | None
    is_given: bool = False  # chosen by the user: neither written nor printed
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
    """Return what is served. Options that do not apply to it are refused."""
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
    from argstream.server import ClaudeAgentDriver

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
    """Return the addresses of proxies. A mistyped one would never match."""
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
    """Raise ``StoreError`` now if the store cannot be used, and not at the first request."""
    if store is not None:
        loop = asyncio.get_running_loop()
        waiting = f"waiting for the store {shown_place(place)} …"
        hint = loop.call_later(_PATIENCE, complain, waiting)
        try:
            await store.runs(limit=1)
        finally:
            hint.cancel()
