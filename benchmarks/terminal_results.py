"""All that is measured of the terminal, each in a process of its own that has a real one."""

import json
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from readers import ARGSTREAM
from results import versions
from tables import size_name
from terminal_player import Played, Playing
from terminal_ways import OURS, RICH_LINES, RICH_WHOLE
from terminal_workloads import EDITS, FILE, TEXT, TOOLS, showing


class Shown(NamedTuple):
    """What is shown, and how."""

    way: str
    what: str
    size: int
    """Characters, at the end."""


SMALL, LARGE = 20_000, 100_000
COMPARED = [
    Shown(OURS, FILE, LARGE),
    Shown(RICH_LINES, FILE, LARGE),
    Shown(RICH_WHOLE, FILE, LARGE),
    Shown(OURS, FILE, SMALL),
]
TOLD = [
    Shown(RICH_WHOLE, FILE, SMALL),
    Shown(OURS, TEXT, LARGE),
    Shown(OURS, EDITS, LARGE),
    Shown(OURS, TOOLS, LARGE),
]
"""What is no part of a budget: measured once."""
AT_ONCE = [Shown(OURS, what, LARGE) for what in (FILE, TEXT, EDITS, TOOLS)]

_PLAYER = Path(__file__).with_name("terminal_player.py")
_COLUMNS, _ROWS = 120, 40
_LONG, _SHORT = 3.0, 1.0
"""Seconds that are measured."""
_find_sequences = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class TerminalResults:
    """What was found out about the terminal."""

    versions: dict[str, str]
    paced: dict[Shown, Played]
    """The last seconds, at the pace of a model."""
    at_once: dict[Shown, Played]
    """All of it, as fast as it goes."""

    def ratio(self, way: str) -> float | None:
        """Divide what a frame of a long file costs us by what it costs another way."""
        return _ratio(self.paced, Shown(OURS, FILE, LARGE), Shown(way, FILE, LARGE))

    def growth_of(self, way: str) -> float | None:
        """Divide what a frame costs near the end of a long file by what it costs in a short one."""
        return _ratio(self.paced, Shown(way, FILE, LARGE), Shown(way, FILE, SMALL))


def gather_terminal(*, quick: bool = False) -> TerminalResults:
    """Measure all of it."""
    seconds, rounds = (_SHORT, 1) if quick else (_LONG, 2)
    return TerminalResults(
        versions([ARGSTREAM.package, "rich", "pygments", "wcwidth"]),
        {**_take_turns(COMPARED, seconds, rounds), **_take_turns(TOLD, seconds, 1)},
        {shown: _in_terminal(Playing(*shown, seconds=0)) for shown in AT_ONCE},
    )


def _take_turns(shown: Sequence[Shown], seconds: float, rounds: int) -> dict[Shown, Played]:
    """Show each once per round, and keep the reading with the cheapest frames."""
    readings: dict[Shown, list[Played]] = {one: [] for one in shown}
    for _ in range(rounds):
        for one in shown:
            readings[one].append(_in_terminal(Playing(*one, seconds)))
    return {
        one: min(found, key=lambda played: played.cpu_per_frame) for one, found in readings.items()
    }


def _in_terminal(playing: Playing) -> Played:
    """Play it in another process, and read all that it writes to its terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (_ROWS, _COLUMNS))
    told, telling = os.pipe()
    environment = {**os.environ, "TERM": "xterm-256color"}
    for variable in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        environment.pop(variable, None)
    with subprocess.Popen(
        [sys.executable, str(_PLAYER), json.dumps(asdict(playing)), str(telling)],
        stdin=theirs,
        stdout=theirs,
        env=environment,
        pass_fds=[telling],
        start_new_session=True,
    ):
        os.close(theirs)
        os.close(telling)
        written = _find_sequences.sub(b"", _drained(ours)).decode()
    with os.fdopen(told) as pipe:
        result = pipe.read()
    if not result:
        sys.exit(f"{playing}: the process that was to show it has failed, see above")
    if showing(playing.what, playing.size).last not in written:  # refuse to measure that
        sys.exit(f"{playing}: the end of it was not shown")
    played = Played(**json.loads(result))
    _progress(playing, played)
    return played


def _drained(terminal: int) -> bytes:
    """Read to the end, as a terminal does: whatever comes, as soon as it comes."""
    pieces = []
    with os.fdopen(terminal, "rb", buffering=0) as output:
        try:
            while piece := output.read(65_536):
                pieces.append(piece)
        except OSError:  # which is how Linux tells the end
            pass
    return b"".join(pieces)


def _progress(playing: Playing, played: Played) -> None:
    what = f"{playing.what}, {size_name(playing.size)}"
    cost = f"{played.cpu_seconds * 1000:8,.0f} ms of CPU time in {played.seconds:.1f} s"
    print(f"{what:36} {playing.way:36} {cost}", file=sys.stderr, flush=True)


def _ratio(found: dict[Shown, Played], one: Shown, other: Shown) -> float | None:
    if one not in found or other not in found:
        return None
    return found[one].cpu_per_frame / found[other].cpu_per_frame
