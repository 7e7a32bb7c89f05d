"""What several commands need: the store, tools and policy, showing events, signals, columns.

Imports stand inside of functions where a command can do without: each starts as fast as it can.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from shutil import get_terminal_size
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from argstream import events as ev
from argstream.cli._commands import RUN
from argstream.cli._io import complain
from argstream.errors import RunNotFoundError, UsageError
from argstream.sanitise import visible_line
from argstream.terminal._text import Span, duration, text_of
from argstream.terminal._text import line as line_of

if TYPE_CHECKING:
    import asyncio

    from argstream.policy import Policy
    from argstream.runs import Record
    from argstream.runs._records import Launch, RunInfo
    from argstream.runs._state import RunState
    from argstream.runs._store import Store
    from argstream.terminal import Line, Spans, ToolViews
    from argstream.validation import ToolSpec

_VARIABLE: Final = "ARGSTREAM_STORE"
_DEFAULT: Final = "argstream.db"
_IN_MEMORY: Final = "memory:"
_SQLITE: Final = "sqlite:"
_MAX_CANDIDATES: Final = 8
_SHORT: Final = 8  # characters of an ID
_STATE: Final = "XDG_STATE_HOME"
_TARGETS: Final = ("path", "file_path", "file", "command", "url", "query")  # say what a call is for
_LONGEST_TARGET: Final = 60
_Thing = TypeVar("_Thing")


def place_of(given: str | None, default: str = _DEFAULT) -> str:
    return given or os.environ.get(_VARIABLE, "") or default


def store_option(place: str | None) -> str:
    """Return what must be added to a command for the same store."""
    return f" --store {shown_place(place)}" if place else ""


def files_of(place: str) -> tuple[Path, ...]:
    """Return the files that tools must not touch: the store, and the token of ``serve``."""
    return tuple(filter(None, (_store_file(place), token_file_of(place))))


def token_file_of(place: str) -> Path | None:
    """Return where ``serve`` keeps its token: beside the store, or in the user's state folder.

    None if the store is not a file and the user has no home directory.
    """
    store = _store_file(place)
    if store is not None:
        return store.with_name(f"{store.name}.token")
    state = Path(os.environ.get(_STATE, ""))
    if not state.is_absolute():  # the XDG specification: relative paths are ignored
        try:
            state = Path.home() / ".local" / "state"
        except RuntimeError:
            return None
    return state / "argstream" / "server.token"


def _store_file(place: str) -> Path | None:
    """Return the SQLite file of a store; None if it is elsewhere."""
    if "://" in place or place == _IN_MEMORY:
        return None
    return Path(place.removeprefix(_SQLITE))


def shown_place(place: str) -> str:
    """Return the name of a store without its password."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return visible_line(place)
    return visible_line(f"{scheme}://{'…' if '?' in rest else rest.rpartition('@')[2]}")


@asynccontextmanager
async def opened(place: str | None, *, may_create: bool = False) -> "AsyncIterator[Store]":
    """Open a store, by its name, or the usual one. A missing one is an error, or is created."""
    from argstream.runs import open_store

    place = place_of(place)
    if not may_create and "://" not in place and not _is_there(Path(place.removeprefix(_SQLITE))):
        shown = f" {place!r}" if "@" not in place else ""  # which may have a password in it
        raise UsageError(
            f"store{shown} not found. Pass the agent's SQLite file or redis:// URL with --store or "
            f"{_VARIABLE}"
        )
    async with open_store(place) as store:
        yield store


def _is_there(path: Path) -> bool:
    try:
        return path.stat().st_size > 0  # an empty file is no store yet
    except (OSError, ValueError):  # no file, or a name that no file can have
        return False


def short_id(name: str) -> str:
    """Return the first characters of an ID, as users type it."""
    return visible_line(name.removeprefix("run_").removeprefix("conversation_")[:_SHORT])


async def find_run(store: "Store", name: str, place: str | None) -> "RunInfo":
    """Return the run with this ID or unique prefix of an ID, with or without ``run:``."""
    start, hint = name.removeprefix(RUN), f"List runs with `argstream runs{store_option(place)}`"
    if not start:
        raise UsageError(f"expected a run ID{f' after {RUN!r}' if name else ''}. {hint}")
    try:
        return await store.info(start)
    except RunNotFoundError:
        return chosen("run", start, {info.run_id: info for info in await store.runs()}, hint)


def chosen(kind: str, start: str, known: "Mapping[str, _Thing]", hint: str) -> "_Thing":
    """Return the only thing whose ID starts so, with or without its kind."""
    if start in known:
        return known[start]
    found = [name for name in known if name.startswith((start, f"{kind}_{start}"))]
    if not found:
        raise UsageError(f"{kind} {start!r} not found. {hint}")
    if len(found) > 1:
        rest = len(found) - _MAX_CANDIDATES
        more = f" and {rest} more" if rest > 0 else ""
        names = ", ".join(found[:_MAX_CANDIDATES])
        raise UsageError(f"{kind} ID {start!r} is ambiguous: {names}{more}")
    return known[found[0]]


def settings_of(launch: "Launch") -> dict[str, str]:
    """Return how a run was launched, in words."""
    return {
        "Model": launch.model,
        "Tools": ",".join(launch.tools) or ("none" if ":" in launch.model else ""),
        "Folder": launch.folder if launch.tools else "",
        "Policy": launch.policy,
        "Instructions": fit(" ".join(launch.instructions.split()), _LONGEST_TARGET),
        "Max turns": str(launch.max_turns or ""),
    }


def continue_command(info: "RunInfo", place: str | None) -> str:
    """Return the command that sends another prompt in the conversation of a run."""
    name = f"{short_id(info.conversation_id)}{store_option(place)}"
    return f'argstream run --conversation {name} "…"'


def approve_commands(
    run_id: str, pending: "Sequence[ev.ApprovalRequested]", place: str | None, verb: str = "approve"
) -> str:
    """Return the command that approves a pending call; of several calls, a list with one each."""
    start, option = f"argstream runs {verb} {short_id(run_id)}", store_option(place)
    if len(pending) == 1:
        return f"{start}{option}"
    return "".join(
        f"\n  {start} {visible_line(one.call_id)}{option}  # {in_short(one)}" for one in pending
    )


def in_short(request: ev.ApprovalRequested) -> str:
    """Return the name of a tool and what the call is about."""
    values = [request.arguments.get(name) for name in _TARGETS]
    target = next((value for value in values if isinstance(value, str) and value), "")
    return visible_line(fit(f"{request.name} {target}".strip(), _LONGEST_TARGET))


async def pending_calls(store: "Store", state: "RunState") -> "list[ev.ApprovalRequested]":
    """Return the requests that can be decided.

    They have not expired, and have no decision, not even one that waits for the driver.
    """
    decided = (await store.commands(state.run_id)).decisions
    return [
        request
        for request in state.pending
        if request.call_id not in decided and not _is_expired(request)
    ]


def _is_expired(request: ev.ApprovalRequested) -> bool:
    return request.expires_at is not None and request.expires_at <= time.time()


async def find_call(
    store: "Store", info: "RunInfo", start: str | None, place: str | None
) -> "tuple[ev.ApprovalRequested, list[ev.ApprovalRequested]]":
    """Return the pending call with this ID or unique prefix of an ID, and the other ones."""
    from argstream.runs._state import RunState

    name, option = short_id(info.run_id), store_option(place)
    if info.is_over:
        raise UsageError(f"run {name} has ended ({info.status}), so no call needs approval")
    state = RunState.from_records(await store.read(info.run_id))
    pending = await pending_calls(store, state)
    exact = [one for one in pending if one.call_id == start]
    found = exact or [one for one in pending if one.call_id.startswith(start or "")]
    known = ", ".join(f"{one.call_id} ({in_short(one)})" for one in pending)
    for one in () if found else state.pending:
        if one.call_id.startswith(start or "") and _is_expired(one):
            then = f"its approval has expired. Continue without it: argstream runs resume {name}"
            raise UsageError(f"call {one.call_id} ({one.name}) can't be decided: {then}{option}")
    if not pending:
        hint = f"See argstream runs show {name}{option}"
        raise UsageError(f"no call of run {name} needs approval. {hint}")
    if not found:
        raise UsageError(f"no pending call {start!r} in run {name}. Pending: {known}")
    if len(found) > 1:
        raise UsageError(f"{len(found)} calls of run {name} are pending. Name one: {known}")
    return found[0], [one for one in pending if one is not found[0]]


def tools_in(file: str | None) -> "list[ToolSpec] | None":
    if file is None:
        return None
    from argstream.validation import load_tools

    return load_tools(file)


def policy_in(file: str | None) -> "Policy | None":
    if file is None:
        return None
    from argstream.policy import Policy

    return Policy.load(file)


class Shown:
    """Shows events as they come: to a person, or as JSON, one a line."""

    def __init__(
        self,
        looks: "ToolViews | None" = None,
        *,
        as_json: bool,
        full: bool = False,
        stored: bool | str = False,
        timed: bool = True,
    ) -> None:
        from argstream.terminal import open_terminal

        # None if programs read them
        self.terminal = (
            None if as_json else open_terminal(looks, full=full, stored=stored, timed=timed)
        )
        self._invalid = 0
        self._failures: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.terminal is not None:
            self.terminal.close()
        else:
            sys.stdout.flush()

    def show(
        self, event: ev.Event, line: bytes | None = None, record: "Record | None" = None
    ) -> None:
        """Show an event. ``line`` is the JSON, if it is not that of the event.

        The times of a ``record`` are those of the run, and not of its replay.
        """
        if self.terminal is not None:
            self.terminal.show(event if record is None else record)
            match event:
                case ev.ToolArgsCompleted(policy_decision=ev.PolicyDecision(action="ask") as ask):
                    by = "" if ask.rule is None else f" (rule {ask.rule})"
                    told = f"{event.name} needs approval under the policy{by}: {ask.reason}"
                    self.terminal.say(line_of(f"  ? {told}"))
        else:
            _write(ev.to_json(event) if line is None else line)
        if isinstance(event, ev.ToolArgsInvalid):
            self._invalid += 1
        elif isinstance(event, ev.StreamFailed | ev.RunFailed):
            self._failures.append(visible_line(event.message))

    def status(self) -> int:
        """Return the exit status: 0 if all is well, else 1. With JSON, complain about failures."""
        failures = list(self._failures)
        if self._invalid:
            told = "1 call is" if self._invalid == 1 else f"{self._invalid} calls are"
            failures.append(f"{told} not valid")
        for failure in failures if self.terminal is None else ():  # which shows them otherwise
            complain(failure)
        return 1 if failures else 0


def _write(line: bytes) -> None:
    """Write JSON as printable ASCII, so that nothing acts on a terminal."""
    text = line.decode()
    is_plain = text.isascii() and text.isprintable()
    sys.stdout.write((text if is_plain else json.dumps(json.loads(text))) + "\n")
    sys.stdout.flush()


_TAKEN: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")  # some systems do not have all of them
# Seconds for the `with` blocks: a held Ctrl-C must not interrupt what they restore.
_PATIENCE: Final = 1.0


class Stopping:
    """Handles signals inside of ``with``. Ignored signals stay ignored.

    While nothing runs that could be stopped, a signal raises SystemExit with the usual status.
    """

    def __init__(self) -> None:
        self.status: int | None = None  # to exit with if a signal came: 128 and its number
        self._stop: Callable[[str], object] | None = None
        self._raise_in: asyncio.AbstractEventLoop | None = None
        self._raised_at = -_PATIENCE
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # no other can
            for name in _TAKEN:
                number = getattr(signal, name, None)
                if number and signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def stops(self, stop: Callable[[str], object]) -> Iterator[None]:
        """Call this with a reason at the first signal, in this event loop."""
        import asyncio

        self._raise_in = loop = asyncio.get_running_loop()
        self._stop = lambda reason: loop.call_soon_threadsafe(stop, reason)
        try:
            yield
        finally:
            self._stop = self._raise_in = None

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self.status is None:
            self.status = 128 + number
            if self._stop is not None and name != "SIGQUIT":
                self._stop("Ctrl-C" if name == "SIGINT" else name)
                return
        shell = sys.modules.get("argstream.agent.toolkits._shell")
        if shell is not None:  # otherwise there is nothing to kill
            shell.kill_commands()
        now = time.monotonic()
        if now - self._raised_at < _PATIENCE:
            return
        # Leave all `with` blocks: between two steps of the event loop, if it listens.
        loop, self._raise_in, self._raised_at = self._raise_in, None, now
        if loop is None:
            sys.exit(self.status)
        loop.call_soon_threadsafe(sys.exit, self.status)


_LEAST: Final = 50
_MOST: Final = 100  # longer lines are hard to read
_WIDEST: Final = 240


def terminal_width() -> int:
    """Return how long cut lines may be: 79 columns if the width is unknown."""
    return max(_LEAST, min(_MOST, get_terminal_size().columns - 1))


def table_width() -> int:
    """Return how wide a table may be. For a pipe it need not be cut, unless COLUMNS says so."""
    is_known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return max(20, get_terminal_size().columns - 1) if is_known else _WIDEST


def print_lines(lines: "Iterable[Line | Spans]") -> None:
    """Print lines in colour, if standard output is a terminal. Rows of spans are not broken."""
    from argstream.terminal import Line, Palette, rows_of

    palette, columns = Palette.of(sys.stdout), terminal_width()
    for one in lines:
        for row in rows_of(one, columns) if isinstance(one, Line) else [one]:
            sys.stdout.write(palette.ansi(row).rstrip() + "\n")
    sys.stdout.flush()


def fit(text: str, columns: int) -> str:
    """Cut a text that takes more columns than there are.

    >>> fit("a long text", 7)
    'a long…'
    """
    from argstream.terminal._layout import cut

    return text_of(cut((Span(text),), columns))


def seconds_in_words(seconds: float) -> str:
    """Return a duration in words.

    >>> [seconds_in_words(seconds) for seconds in (0.5, 75, 4000, 200_000)]
    ['0.50 s', '1 min 15 s', '1 h 6 min', '2 d 7 h']
    """
    return f"{seconds:.2f} s" if round(seconds, 2) < 60 else duration(seconds)
