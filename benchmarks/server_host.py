"""The server that is measured, in a process of its own: ``python server_host.py STORE``.

It says where it can be reached, and then, for each line that it is told, what it has used so far.
It ends when it is told nothing more.
"""

import json
import resource
import signal
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from argstream.agent import Agent
from argstream.server import AgentServer, Limits, serve
from argstream.stores import open_store
from server_pace import PacedModel

__all__ = ["MEMORY", "SQLITE", "STALLED_SECONDS", "Usage"]

MEMORY, SQLITE = "memory:", "sqlite:"
STALLED_SECONDS = 15.0
_MANY = 1_000_000


@dataclass(frozen=True)
class Usage:
    """What a process has used."""

    cpu_seconds: float
    """User and system, of all threads."""
    bytes_now: int
    bytes_most: int
    """Memory: resident, now and at most so far."""

    @classmethod
    def here(cls) -> "Usage":
        """Say what this one has used."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(
            used.ru_utime + used.ru_stime, pages * resource.getpagesize(), used.ru_maxrss * 1024
        )


def write_file(path: str, content: str) -> str:
    """Write a file; nothing is written."""
    return f"{len(content)} characters in {path}"


def _serve(where: str) -> None:
    with ExitStack() as places:
        if where == SQLITE:
            folder = places.enter_context(tempfile.TemporaryDirectory())
            where = f"{SQLITE}{folder}/runs.db"
        agent = Agent(PacedModel(), [write_file], store=open_store(where), name="load")
        # One client does here what some thousand do together.
        limits = Limits(
            requests_per_minute=_MANY,
            runs_per_minute=_MANY,
            max_running_per_client=1_000,
            max_viewers_per_client=10_000,
            stalled_seconds=STALLED_SECONDS,
        )
        threading.Thread(target=_answer, daemon=True).start()
        serve(
            AgentServer(agent, token=None, limits=limits),
            port=0,
            on_listening=lambda url: print(url.rpartition(":")[2], flush=True),
        )


def _answer() -> None:
    for _ in sys.stdin:
        print(json.dumps(asdict(Usage.here())), flush=True)
    signal.raise_signal(signal.SIGTERM)


if __name__ == "__main__":
    _serve(sys.argv[1])
