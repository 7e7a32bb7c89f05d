"""The server that is measured, in a process of its own: ``python server_host.py SETTINGS``.

It says where it can be reached, and then, for each line that it is told, what it has used so far.
It ends when it is told nothing more.
"""

import gc
import json
import resource
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import uvicorn

from argstream.agent import Agent
from argstream.server import AgentServer
from argstream.server.limits import Limits
from argstream.stores import open_store
from server_pace import PacedModel

_MANY = 1_000_000


@dataclass(frozen=True)
class Settings:
    """What is served, and how."""

    store: str = "memory:"
    loop: str = "uvloop"
    http: str = "httptools"


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


def limits() -> Limits:
    """Let one client do what some thousand do together."""
    return Limits(
        requests_per_minute=_MANY,
        runs_per_minute=_MANY,
        max_running_per_client=1_000,
        max_viewers_per_client=10_000,
    )


def _serve(settings: Settings) -> None:
    with ExitStack() as places:
        where = settings.store
        if where == "sqlite:":
            folder = places.enter_context(tempfile.TemporaryDirectory())
            where = f"sqlite:{folder}/runs.db"
        agent = Agent(PacedModel(), [write_file], store=open_store(where), name="load")
        app = AgentServer(agent, limits=limits())
        config = uvicorn.Config(
            app,
            port=0,
            loop=settings.loop,  # type: ignore[arg-type] # one of its names
            http=settings.http,  # type: ignore[arg-type] # as above
            log_level="warning",
            access_log=False,
            backlog=4096,
            timeout_graceful_shutdown=5,
        )
        server = uvicorn.Server(config)
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        threading.Thread(target=_answer, args=(server,), daemon=True).start()
        server.run()


def _answer(server: uvicorn.Server) -> None:
    while not server.started:
        threading.Event().wait(0.01)
    [listener] = server.servers[0].sockets
    print(listener.getsockname()[1], flush=True)
    for _ in sys.stdin:
        print(json.dumps(asdict(Usage.here())), flush=True)
    server.should_exit = True


if __name__ == "__main__":
    _serve(Settings(**json.loads(sys.argv[1])))
