"""All that is measured of the server under load, each with a fresh server."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from server_host import MEMORY, SQLITE, Usage
from server_viewers import Watched, Watching

__all__ = ["CROWDS", "MOST_SECONDS", "Crowd", "Crowded", "Host", "crowded", "hosting", "watched_by"]

MOST_SECONDS = 0.25
"""From a provider's byte to a client, for 99 of 100."""
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Crowd:
    """How many runs, watched by how many, and where they are kept."""

    name: str
    store: str
    runs: int
    viewers: int
    per_second: float
    lead: float
    """How many seconds it may take until all are there."""


CROWDS = [
    Crowd("2,000 viewers of one run", MEMORY, 1, 2_000, 50, lead=8),
    Crowd("500 runs, in memory", MEMORY, 500, 1, 20, lead=15),
    Crowd("500 runs, SQLite", SQLITE, 500, 1, 20, lead=15),
]


@dataclass(frozen=True)
class Crowded:
    """What came of it."""

    crowd: Crowd
    watched: Watched
    server: Usage
    """While pieces were written."""

    @property
    def server_share(self) -> float:
        """How much of a core the server took."""
        return self.server.cpu_seconds / self.watched.seconds

    @property
    def clients_share(self) -> float:
        """How much of a core those took who watch."""
        return self.watched.usage.cpu_seconds / self.watched.seconds

    @property
    def complaints(self) -> list[str]:
        """What is not as it must be."""
        found = list(self.watched.wrong)
        if self.watched.p99 > MOST_SECONDS:
            found.append(f"one of 100 pieces took more than {self.watched.p99 * 1000:.0f} ms")
        return [f"{self.crowd.name}: {complaint}" for complaint in found]


class Host:
    """The server, in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.port = int(self._line())

    def usage(self) -> Usage:
        """Ask what it has used."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Usage(**json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit("the server has failed, see above")
        return line


@contextmanager
def hosting(module: str, *arguments: str) -> Iterator[Host]:
    """Start a server, and end it."""
    with _started(module, *arguments) as process:
        yield Host(process)
        assert process.stdin is not None
        process.stdin.close()


def _started(module: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(_FOLDER / module), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


class Viewers:
    """Those who begin runs and watch them, in a process of their own."""

    def __init__(self, name: str, process: "subprocess.Popen[str]") -> None:
        self._name = name
        self._process = process

    def watched(self) -> Watched:
        """Wait until the runs are over, and say what came of them."""
        told, _ = self._process.communicate()
        if not told:
            sys.exit(f"{self._name}: those who watch have failed, see above")
        found = json.loads(told)
        return Watched(**{**found, "usage": Usage(**found["usage"])})


@contextmanager
def watched_by(crowd: Crowd, port: int, seconds: float, at: float) -> Iterator[Viewers]:
    """Have a crowd watch runs that say something from then on, for so many seconds."""
    watching = Watching(
        port=port,
        runs=crowd.runs,
        viewers=crowd.viewers,
        pieces=round(seconds * crowd.per_second),
        per_second=crowd.per_second,
        at=at,
    )
    with _started("server_viewers.py", json.dumps(asdict(watching))) as process:
        yield Viewers(crowd.name, process)


def crowded(crowd: Crowd, seconds: float) -> Crowded:
    """Measure one crowd, for so many seconds."""
    with hosting("server_host.py", crowd.store) as host:
        at = time.monotonic() + crowd.lead
        with watched_by(crowd, host.port, seconds, at) as viewers:
            time.sleep(crowd.lead)
            before = host.usage()
            watched = viewers.watched()
        after = host.usage()
    used = Usage(after.cpu_seconds - before.cpu_seconds, after.bytes_now, after.bytes_most)
    return Crowded(crowd, watched, used)
