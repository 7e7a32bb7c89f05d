"""Shows something in the terminal that is its standard output, and says what that has cost.

A process of its own: ``python terminal_player.py PLAYING PIPE``. The first part is shown as fast as
it goes, the last one at the pace of a model; only one of them is measured. It is told through the
pipe, so that nothing but what is shown gets into the terminal.
"""

import fcntl
import gc
import json
import os
import sys
import termios
import time
from dataclasses import asdict, dataclass

from terminal_ways import WAYS, Way
from terminal_workloads import Showing, showing

DELTAS_PER_SECOND = 100


@dataclass(frozen=True)
class Playing:
    """What is shown, how, and how much of it at the pace of a model."""

    way: str
    what: str
    size: int
    """Characters."""
    seconds: float
    """The last part, which is measured; 0: all of it is shown as fast as it goes."""


@dataclass(frozen=True)
class Played:
    """What was measured."""

    cpu_seconds: float
    """User and system, of all threads."""
    seconds: float
    frames: int

    @property
    def share(self) -> float:
        """How much of a core it took."""
        return self.cpu_seconds / self.seconds

    @property
    def frames_per_second(self) -> float:
        """How often the eye got something new."""
        return self.frames / self.seconds

    @property
    def cpu_per_frame(self) -> float:
        """Seconds, of all that was done from one frame to the next."""
        return self.cpu_seconds / self.frames


def play(playing: Playing) -> Played:
    """Show all of it, and measure one part."""
    shown = showing(playing.what, playing.size)
    open_way = WAYS[playing.way]
    if playing.seconds:
        return _at_pace(open_way(shown), shown, round(playing.seconds * DELTAS_PER_SECOND))
    gc.collect()
    watch = _Stopwatch()
    way = open_way(shown)
    _hurry(way, shown, len(shown.deltas))
    way.close()
    return watch.read(way)


def _at_pace(way: Way, shown: Showing, count: int) -> Played:
    _hurry(way, shown, len(shown.deltas) - count)
    _wait_until_painted(way)
    gc.collect()
    frames = way.frames
    watch = _Stopwatch()
    for number, delta in enumerate(shown.deltas[-count:], 1):
        way.take(delta)
        time.sleep(max(0, watch.began + number / DELTAS_PER_SECOND - time.monotonic()))
    played = watch.read(way, frames)
    way.close()
    return played


def _hurry(way: Way, shown: Showing, count: int) -> None:
    way.take(shown.opening)
    for delta in shown.deltas[:count]:
        way.take(delta)


def _wait_until_painted(way: Way) -> None:
    """Wait for frames that began after now, and for the rest after a long one."""
    enough = way.frames + 3
    while way.frames < enough:
        time.sleep(0.02)


class _Stopwatch:
    def __init__(self) -> None:
        self.began = time.monotonic()
        self._cpu_began = time.process_time()

    def read(self, way: Way, frames: int = 0) -> Played:
        used = time.process_time() - self._cpu_began
        return Played(used, time.monotonic() - self.began, way.frames - frames)


def _main(playing: str, pipe: str) -> None:
    fcntl.ioctl(sys.stdout, termios.TIOCSCTTY, 0)  # it is ours, as that of a shell's job is
    played = play(Playing(**json.loads(playing)))
    os.write(int(pipe), json.dumps(asdict(played)).encode())


if __name__ == "__main__":
    _main(*sys.argv[1:])
