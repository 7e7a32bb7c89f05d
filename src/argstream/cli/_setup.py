"""What several commands need: the store, tools and policy, showing events, signals, columns.

Imports stand inside of functions where a command can do without: each starts as fast as it can.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from shutil import get_terminal_size
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from argstream.cli._commands import RUN
from argstream.cli._io import complain
from argstream.errors import RunNotFoundError, UsageError
from argstream.events import (
    Event,
    PolicyDecision,
    RunFailed,
    StreamFailed,
    ToolArgsCompleted,
    ToolArgsInvalid,
    to_json,
)
from argstream.sanitise import visible_line
from argstream.terminal._text import Span, duration, text_of
from argstream.terminal._text import line as line_of

if TYPE_CHECKING:
    import asyncio

    from argstream.policy import Policy
    from argstream.runs._records import RunInfo
    from argstream.runs._store import Store
    from argstream.terminal import ToolViews
    from argstream.validation import ToolSpec

_VARIABLE: Final = "ARGSTREAM_STORE"
_DEFAULT: Final = "argstream.db"
_IN_MEMORY: Final = "memory:"
_SQLITE: Final = "sqlite:"
_MAX_CANDIDATES: Final = 8
_STATE: Final = "XDG_STATE_HOME"


def place_of(given: str) -> str:
    return given or os.environ.get(_VARIABLE, "") or _DEFAULT


def files_of(place: str) -> tuple[Path, ...]:
    """Return the files that tools must not touch: the store, and the token of ``serve``."""
    store, token = _store_file(place), token_file_of(place)
    return tuple(file for file in (store, token) if file is not None)


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
async def opened(place: str) -> "AsyncIterator[Store]":
    """Open an existing store, by its name, or the usual one. This creates none."""
    from argstream.runs import open_store

    place = place_of(place)
    if "://" not in place and not _is_there(Path(place.removeprefix(_SQLITE))):
        shown = f" {place!r}" if "@" not in place else ""  # which may have a password in it
        raise UsageError(
            f"there is no store{shown}: name the SQLite file or the redis:// address that the "
            f"agent was given, with --store or in {_VARIABLE}"
        )
    store = open_store(place)
    try:
        yield store
    finally:
        await store.aclose()


def _is_there(path: Path) -> bool:
    try:
        return path.exists() and path.stat().st_size > 0  # an empty file is no store yet
    except (OSError, ValueError):  # a name that no file can have
        return False


async def find_run(store: "Store", name: str) -> "RunInfo":
    """Return the run with this ID or prefix of an ID, after ``run:``."""
    start = name.removeprefix(RUN)
    if not start:
        raise UsageError("run: and then comes the id of a run: see `argstream runs`")
    try:
        return await store.info(start)
    except RunNotFoundError:
        starts = (start, f"run_{start}")
        found = [info for info in await store.runs() if info.run_id.startswith(starts)]
    if not found:
        raise UsageError(f"the store has no run {start!r}: see `argstream runs`")
    if len(found) > 1:
        shown = [info.run_id for info in found[:_MAX_CANDIDATES]]
        rest = len(found) - len(shown)
        more = f" and {rest} more" if rest else ""
        raise UsageError(
            f"there are {len(found)} runs that begin with {start!r}: {', '.join(shown)}{more}"
        )
    return found[0]


class Rules(NamedTuple):
    tools: "list[ToolSpec] | None" = None
    policy: "Policy | None" = None


NO_RULES = Rules()


def read_rules(tools: str | None, policy: str | None) -> Rules:
    """Read the given files. Raises ``UsageError`` if one is not valid."""
    specs, rules = None, None
    if tools is not None:
        from argstream.validation import load_tools

        specs = load_tools(tools)
    if policy is not None:
        from argstream.policy import Policy

        rules = Policy.load(policy)
    return Rules(specs, rules)


class Shown:
    """Shows events as they come: to a person, or as JSON, one a line."""

    def __init__(self, looks: "ToolViews | None" = None, *, as_json: bool) -> None:
        from argstream.terminal import open_terminal

        self.terminal = None if as_json else open_terminal(looks)  # None if programs read them
        self._invalid = 0
        self._failures: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.terminal is not None:
            self.terminal.close()
        else:
            sys.stdout.flush()

    def show(self, event: Event, line: bytes | None = None) -> None:
        """Show an event. ``line`` is the JSON, if it is not that of the event."""
        if self.terminal is not None:
            self.terminal.show(event)
            if isinstance(event, ToolArgsCompleted) and event.policy_decision is not None:
                self._show_approval(event.name, event.policy_decision)
        else:
            _write(to_json(event) if line is None else line)
        if isinstance(event, ToolArgsInvalid):
            self._invalid += 1
        elif isinstance(event, StreamFailed | RunFailed):
            self._failures.append(visible_line(event.message))

    def status(self) -> int:
        """Complain about what was wrong. Return the exit status: 0 if all is well, else 1."""
        from argstream.terminal import LiveTerminal

        failures = list(self._failures)
        if self._invalid:
            told = "1 call is" if self._invalid == 1 else f"{self._invalid} calls are"
            failures.append(f"{told} not valid")
        if not isinstance(self.terminal, LiveTerminal):  # which has said it where it happened
            for failure in failures:
                complain(failure)
        return 1 if failures else 0

    def _show_approval(self, name: str, decision: PolicyDecision) -> None:
        if self.terminal is not None and decision.action == "ask":
            by = "" if decision.rule is None else f" (rule {decision.rule})"
            text = f"  ? {name} needs approval under the policy{by}: {decision.reason}"
            self.terminal.say(line_of(text))


def _write(line: bytes) -> None:
    """Write JSON as printable ASCII, so that nothing acts on a terminal."""
    text = line.decode()
    is_plain = text.isascii() and text.isprintable()
    sys.stdout.write((text if is_plain else json.dumps(json.loads(text))) + "\n")
    sys.stdout.flush()


_TAKEN: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")  # some systems do not have all of them
_AT_ONCE: Final = ("SIGQUIT",)
# Seconds for the `with` blocks: a held Ctrl-C must not interrupt what they restore.
_PATIENCE: Final = 1.0


class Stopping:
    """Handles signals inside of ``with``. Ignored signals stay ignored.

    While nothing runs that could be stopped, a signal raises SystemExit with the usual status.
    """

    def __init__(self) -> None:
        self.status: int | None = None  # to exit with if a signal came: 128 and its number
        self._stop: Callable[[str], None] | None = None
        self._raise_in: asyncio.AbstractEventLoop | None = None
        self._raised_at = -_PATIENCE
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # no other can
            known = [getattr(signal, name) for name in _TAKEN if hasattr(signal, name)]
            for number in known:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def stops(self, stop: Callable[[str], object]) -> Iterator[None]:
        """Call this with a reason at the first signal, in this event loop."""
        import asyncio

        loop = asyncio.get_running_loop()

        def stop_soon(reason: str) -> None:
            loop.call_soon_threadsafe(stop, reason)

        self._stop, self._raise_in = stop_soon, loop
        try:
            yield
        finally:
            self._stop = self._raise_in = None

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self.status is None:
            self.status = 128 + number
            if self._stop is not None and name not in _AT_ONCE:
                self._stop("Ctrl-C" if name == "SIGINT" else name)
                return
        from argstream.agent.tools._execute import kill_noted  # loaded, or there is nothing to kill

        kill_noted()
        now = time.monotonic()
        if now - self._raised_at >= _PATIENCE:
            self._raise(now)

    def _raise(self, now: float) -> None:
        """Leave all ``with`` blocks: between two steps of the event loop, if it listens."""
        loop, self._raise_in = self._raise_in, None
        self._raised_at = now
        if loop is None:
            raise SystemExit(self.status)

        def leave() -> None:
            raise SystemExit(self.status)

        loop.call_soon_threadsafe(leave)


_LEAST: Final = 50
_MOST: Final = 100  # longer lines are hard to read


def terminal_width() -> int:
    """Return how long cut lines may be: 79 columns if the width is unknown."""
    return max(_LEAST, min(_MOST, get_terminal_size().columns - 1))


def fit(text: str, columns: int) -> str:
    """Cut a text that takes more columns than there are.

    >>> fit("a long text", 7)
    'a long…'
    """
    from argstream.terminal._layout import cut

    return text_of(cut((Span(text),), columns))


def padded(text: str, columns: int) -> str:
    from argstream.terminal._layout import width

    shown = fit(text, columns)
    return shown + " " * (columns - width(shown))


def seconds_in_words(seconds: float) -> str:
    """Return a duration in words.

    >>> [seconds_in_words(seconds) for seconds in (0.5, 75, 4000, 200_000)]
    ['0.50 s', '1 min 15 s', '1 h 6 min', '2 d 7 h']
    """
    return f"{seconds:.2f} s" if round(seconds, 2) < 60 else duration(seconds)
