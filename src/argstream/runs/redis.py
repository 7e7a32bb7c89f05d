"""Logs in Redis: for several processes and machines. Needs a server of version 6.2 or newer.

::

    store = RedisStore("redis://localhost:6379", ttl=7 * 24 * 3600)
    store = RedisStore("redis+cluster://10.0.0.1:6379,10.0.0.2:6379")

The records of a run are a stream, under their seqs (see ``_redis_lua``). Acknowledged records
survive a crash of the server if it writes them to its disk first: ``appendonly yes`` and
``appendfsync always``. Redis documents what other settings can lose. It must not drop keys when
memory runs out: ``maxmemory-policy noeviction``, or one of the ``volatile-…``.

On a cluster, each run is in the slot of its ID, and the indexes are in slots of their own. No write
covers both atomically, not even on a single server. These rules keep the indexes correct at every
failure of a process or a node:

1. The entry of a run is in all indexes before the run is created. Its score is a minute ahead of
   the first record. The score is raised again before a record would be later than it, so deltas
   need one request, except once a minute. A list is exact: it reads entries until their scores are
   lower than the times of the runs that it has found.
2. When a run is over, its entry gets the exact time and is removed from ``unfinished``. If the
   process dies before that, the next list finds the entry and repairs it.
3. An entry whose run does not exist belongs to a run that was deleted or has expired, or that is
   just being created. A list first calls ``void``, after which that run cannot be created, and then
   removes the entry. A process that was about to create the run adds another entry and retries.
4. An entry names the identity of the run, so none of this touches a newer run with the same ID.
5. The row of a conversation is written together with the entries of a new run, and deleted with the
   last entry of the conversation. A conversation is listed only if one of its runs is found. If a
   row is missing, a list writes it again from the runs.

So every run that is not over is in ``unfinished``, and recovery finds it. Redis replicates writes
after it has acknowledged them, so a cluster can lose some in a failover. The store therefore waits
until a replica has a state change or a new entry. If an entry is lost nevertheless, the next driver
adds it again, and so does the present one within a minute.
"""

import asyncio
import hashlib
import logging
import math
import random
import re
import secrets
import time
import zlib
from asyncio import AbstractEventLoop, Lock, Semaphore
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, compress, repeat
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from argstream._asyncio import PerLoop
from argstream.errors import (
    ArgstreamError,
    MissingExtraError,
    RunNotFoundError,
    StoreError,
    UsageError,
)
from argstream.runs._batches import (
    Batch,
    Filter,
    checked_text,
    records_of,
    run_exists,
    store_is_closed,
)
from argstream.runs._hub import Page, Tails
from argstream.runs._records import ConversationInfo, Lease
from argstream.runs._redis_lua import FORMAT, NONCE, SCRIPTS
from argstream.runs._store import Now, Store, StoredRun
from argstream.sanitise import visible_line

try:
    from redis import exceptions as problems
    from redis.asyncio import Redis
    from redis.asyncio.connection import AbstractConnection, parse_url
    from redis.asyncio.retry import Retry
    from redis.backoff import EqualJitterBackoff, NoBackoff
    from redis.client import NEVER_DECODE
    from redis.crc import REDIS_CLUSTER_HASH_SLOTS as SLOTS
    from redis.crc import key_slot
except ModuleNotFoundError:
    raise MissingExtraError("redis", "a store in Redis") from None

__all__ = ["RedisStore"]


logger: Final = logging.getLogger("argstream.runs")

_MAX_CONCURRENT: Final = 16
"""How many commands of an event loop may be in progress. More are not faster."""
_CHECK_SECONDS: Final = 5.0  # seconds between two checks of the server and of the runs
_BACKOFF: Final = EqualJitterBackoff(cap=0.5, base=0.005)
_PER_PAGE: Final = 200  # how many runs are loaded together
_EXTRA_LISTED: Final = 300
"""How many runs are loaded beyond the limit of a list. If even more were written to in the last
minute, their order is not exact. A health check lists one run."""
_AHEAD: Final = 60.0
"""By how many seconds the score of a run that is not over is ahead of its newest record."""
_REDIRECTIONS: Final = 5  # how often a node of a cluster may send a request to another one
_SHARDS: Final = 16  # how many sets the index of all runs has
_REPLICATED_WITHIN: Final = 1.0
"""Seconds to wait for a replica. If it does not answer, the store does not wait for a while."""
_UNREPLICATED: Final = 10.0
_WATCH_SECONDS: Final = 60.0
"""For how many seconds the records of a run are published after a watching store has read it."""
_LONGEST: Final = 1e9
"""Seconds, about thirty years. The time at which a run expires must not overflow."""
_AUTHORITY_END: Final = re.compile("[/?#]")
_CLUSTER: Final = re.compile(r"(rediss?)\+cluster://([^/?#]*@)?([^/?#@]+)(.*)")
_ENCODED: Final = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})
_HASHES: Final = {
    name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    for name, text in SCRIPTS.items()
}
_ROW: Final = ("title", "created", "updated", "deleted_at")
_OPTIONS: Final[Mapping[str, Any]] = {
    "client_name": "argstream",
    "protocol": 2,  # version 3 needs another round trip, and none of its features is used
    # ``_Calls.run`` has a timeout for each command. The client's own makes a command 50 % slower.
    "socket_timeout": None,
    "socket_connect_timeout": 5.0,
    "driver_info": None,
    "max_connections": 2 * _MAX_CONCURRENT,
}
_RAW: Final[Mapping[str, Any]] = {NEVER_DECODE: True}
_SEQ: Final = re.compile(rb"[0-9]{1,16}")
# An error from a script has other text around it, so these are searched in the whole message. The
# first match counts.
_ANSWERS: Final = {
    "WRONGTYPE": "a key of the store has another type. Pass a prefix that no other program uses",
    "OOM ": "the server is out of memory. Raise its maxmemory, or let runs expire (ttl)",
    "READONLY": "the server is a read-only replica. Pass the address of the primary",
    "MISCONF": "the server cannot write to its disk and rejects all writes. See the server's log",
    "NOREPLICAS": "the server has fewer replicas than its min-replicas-to-write requires",
    "MASTERDOWN": "the server is a replica that lost its primary. Pass the primary's address",
    "CLUSTERDOWN": "the cluster is down: a part of it has no primary. See the logs of its nodes",
    "MOVED ": "the server is a node of a cluster. Use redis+cluster://HOST:PORT",
    "cluster support disabled": "the server is not a cluster. Use redis://HOST:PORT",
    "unknown command": "the server lacks a command that the store needs. Use Redis 6.2 or newer",
}

_Answer = TypeVar("_Answer")
_Apply = Callable[[StoredRun, Now, list[bytes]], _Answer]
_Argument = str | bytes
_decoder: Final = msgspec.json.Decoder(StoredRun)
_Item = TypeVar("_Item")


class RedisStore(Store):
    """Keeps runs in Redis.

    ``server`` is its address (``redis://``, ``rediss://``, ``unix://``), or some nodes of a cluster
    (``redis+cluster://HOST:PORT,HOST:PORT``, ``rediss+cluster://``). All keys of the store begin
    with ``prefix``. The server deletes a run ``ttl`` seconds after its end. A run that is not over
    never expires. While the connection is lost, the store retries for ``patience`` seconds. Then it
    raises ``StoreError``. ``options`` are those of a client of redis-py.
    """

    def __init__(
        self,
        server: str,
        *,
        prefix: str = "argstream",
        ttl: float | None = None,
        patience: float = 10.0,
        **options: Any,
    ) -> None:
        super().__init__()
        if not prefix:
            raise UsageError("prefix must not be empty. Use a prefix such as 'argstream'")
        if ttl is not None and not 0 < ttl <= _LONGEST:
            raise UsageError(f"ttl must be greater than 0 and at most {_LONGEST:.0f}, not {ttl}")
        if not patience > 0:
            raise UsageError(f"patience must be greater than 0 seconds, not {patience}")
        self._calls = _Calls(server, options, patience)
        self._prefix = checked_text(prefix, "the prefix of a store's keys")
        self._keys = _Keys(self._prefix.encode(), self._calls.database)
        self._index = _Index(self._calls, self._keys)
        self._ttl = "" if ttl is None else _milliseconds(ttl)
        self._subscriptions: dict[AbstractEventLoop, _Subscriptions] = {}
        self._id = _nonce()

    def __repr__(self) -> str:
        return f"<RedisStore at {self._calls.place}, prefix {self._prefix!r}>"

    async def _create(self, make: Callable[[Now], StoredRun], batch: Batch) -> None:
        draft, bound = make(Now(0.0, 0.0)), repr(batch.updated + _AHEAD)
        about, created = self._keys.about(draft.conversation_id, draft.user), repr(draft.created)
        row = _script("conversation", [about], draft.title, created, created, is_durable=True)
        while True:
            entry = _Entry(_nonce(), batch.run_id, draft.conversation_id, draft.user)
            _, (_, time, _) = await self._index.add(
                entry, bound, row, self._load_command(batch.run_id)
            )
            now = Now(float(time), float(time))
            found = _Found(make(now), now, entry)
            answer = await self._write(found, batch, bound)
            if answer != [b"void"]:  # else a list has removed the entry before the run was created
                break
        if answer[0] != b"done":
            await self._index.remove_gone([entry])
            raise run_exists(batch.run_id)
        self._report_written(batch)
        await self._index.finalize([found])

    async def _change(
        self, run_id: str, change: Callable[[StoredRun, Now], _Answer], *, is_durable: bool = True
    ) -> _Answer:
        answer, _ = await self._apply(
            run_id, lambda run, now, _: change(run, now), None, is_durable=is_durable
        )
        return answer

    async def _apply(
        self, run_id: str, change: _Apply[_Answer], batch: Batch | None, *, is_durable: bool = True
    ) -> "tuple[_Answer, _Found]":
        """Read a run, change it and write it. Retry if another process changed it meanwhile.

        If the log already has the seqs of the batch, ``change`` gets them. Nothing is written.
        """
        found, deadline = await self._find(run_id), _clock() + self._calls.patience
        while True:
            is_stored = batch is not None and batch.last <= found.run.seq
            stored = await self._lines(batch) if batch is not None and is_stored else []
            answer, bound = change(found.run, found.now, stored), None
            if is_stored:
                return answer, found
            if batch is not None and found.listed < batch.updated:
                bound = repr(batch.updated + _AHEAD)
                await self._index.add(found.entry, bound)
            written = await self._write(found, batch, bound, is_durable=is_durable)
            if written == [b"done"]:
                return answer, found
            if _clock() > deadline:
                raise StoreError(
                    f"Redis at {self._calls.place}: other processes kept changing run {run_id!r} "
                    f"for {self._calls.patience:g} s"
                )
            found = _Found.of(run_id, written)

    async def _append(self, lease: Lease, batch: Batch) -> None:
        answer, found = None, None
        if batch.only_grows:
            arguments = [self._id, str(lease.token), str(batch.first), repr(batch.updated)]
            answer = await self._run(
                "append", batch.run_id, *arguments, *batch.lines, is_durable=batch.is_durable
            )
        if answer != [b"done"]:
            _, found = await self._apply(
                batch.run_id,
                lambda run, now, stored: run.append(lease, batch, lambda: stored, lambda: now),
                batch,
            )
        self._report_written(batch)
        if found is not None:
            await self._index.finalize([found])

    async def _lines(self, batch: Batch) -> list[bytes]:
        log = self._keys.log(batch.run_id)
        command = _Command(log, ["XRANGE", log, f"{batch.first}-0", f"{batch.last}-0"])
        return [fields[b"record"] for _, fields in await self._calls.run(command)]

    async def _write(
        self, found: "_Found", batch: Batch | None, bound: str | None, *, is_durable: bool = True
    ) -> list[Any]:
        """Replace a run, unless it has changed. ``bound`` is the new score of its entry."""
        run, before, entry = found.run, found.fields, found.entry
        state = msgspec.json.encode(run)
        token, commands = b"%d" % run.token, b"%d" % run.commands_version
        written: list[_Argument] = ["state", state, "status", run.status, "token", token]
        written += ["commands", commands]
        # While the lease stays with its owner, deltas may be appended meanwhile.
        seq, nonce = before.get(b"seq", b""), _nonce()
        if batch is not None:
            written += ["seq", str(run.seq), "updated", repr(run.updated)]
        elif token == before[b"token"]:
            seq = b""
        else:
            bound = ""  # so that the next record repairs the indexes
        if not before:
            nonce = entry.identity
            written += ["format", FORMAT, "identity", nonce]
        if bound is not None:
            written += ["listed", bound]
        arguments = [
            *(self._id, nonce, found.version, seq),
            self._ttl if batch is not None and batch.ends_run else "",
            "" if before.get(b"commands", b"0") == commands else "commands",
            *("" if batch is None else str(batch.first), str(len(written)), *written),
            *(() if batch is None else batch.lines),
        ]
        void = [] if before else [self._keys.void(entry)]
        return await self._run("change", run.run_id, *arguments, void=void, is_durable=is_durable)

    async def _page(self, run_id: str, after: int, limit: int) -> Page:
        # Followers read every few seconds, so that their store stays a watcher of the run.
        subscriptions = self._subscriptions.get(asyncio.get_running_loop())
        is_watched = subscriptions is not None and self._keys.channel(run_id) in subscriptions.runs
        watch = (self._id, _milliseconds(_WATCH_SECONDS)) if is_watched else ()
        answer = await self._run("read", run_id, str(after), str(limit), *watch)
        if answer == [b"unknown"]:
            raise RunNotFoundError(run_id)
        _, last, version, joined = answer
        if version != FORMAT.encode():
            raise _other_format(run_id, version)
        try:
            newest = int(last)
        except ValueError as error:
            raise _unreadable(run_id) from error
        lines: list[bytes] = joined.split(b"\n") if joined else []
        if not lines and newest > after:
            raise StoreError(
                f"Redis at {self._calls.place}: the log of run {run_id!r} is missing. The server "
                "may have evicted it. Set its maxmemory-policy to noeviction"
            )
        return records_of(run_id, lines, after), newest > after + len(lines)

    async def _load(self, run_id: str) -> tuple[StoredRun, Now]:
        found = await self._find(run_id)
        return found.run, found.now

    async def _find(self, run_id: str) -> "_Found":
        return _Found.of(run_id, await self._calls.run(self._load_command(run_id)))

    async def _list(self, wanted: Filter, limit: int | None) -> tuple[Sequence[StoredRun], Now]:
        if wanted.older_than is None:
            found = await self._index.newest(wanted, limit)
        else:
            found = await self._index.older_than(wanted.older_than)
        now = found[0].now if found else Now(0.0, 0.0)
        for one in found:  # each node has a clock of its own, and some were read later
            one.run.until += now.lease - one.now.lease
        return [one.run for one in found], now

    async def _delete(
        self, run_ids: Sequence[str], allow: Callable[[StoredRun, Now], bool]
    ) -> list[str]:
        deleted: list[str] = []
        for some in _pages(run_ids):
            done = await asyncio.gather(*(self._delete_one(run_id, allow) for run_id in some))
            deleted += compress(some, done)
        return deleted

    async def _delete_one(self, run_id: str, allow: Callable[[StoredRun, Now], bool]) -> bool:
        answer = await self._calls.run(self._load_command(run_id))
        fields, found = _fields(answer), None
        if not fields:
            return False
        if not _is_of_another_format(fields):  # such a run cannot be read, only deleted
            found = _Found.of(run_id, answer)
            if not allow(found.run, found.now):
                return False
        seen = fields.get(b"changes", b"")[:NONCE], fields.get(b"seq", b"")
        answer = await self._run("delete", run_id, *seen, is_durable=True)
        if answer != [b"done"] and _fields(answer):  # it has changed meanwhile
            return await self._delete_one(run_id, allow)
        if found is not None:
            await self._index.remove([found.entry])
        return True

    async def _conversations(
        self, user: str | None, limit: int | None, *, deleted: bool
    ) -> list[ConversationInfo]:
        count = None if limit is None else 4 * limit
        while True:
            found = await self._index.newest(Filter(None, None, user), count)
            rows = await self._rows_of(found)
            rows = [row for row in rows if deleted or row.deleted_at is None]
            if limit is None or count is None or len(found) < count:
                return rows[:limit]
            if len(rows) >= limit and rows[limit - 1].updated >= found[-1].run.updated:
                return rows[:limit]  # other conversations have only older runs
            count *= 4

    async def _rows_of(self, found: Sequence["_Found"]) -> list[ConversationInfo]:
        """Return the conversations of these runs, the newest first. Lost rows are repaired."""
        entries = {(one.run.user, one.run.conversation_id): one.entry for one in found}
        keys = [self._keys.about(id_, user) for user, id_ in entries]
        rows = await self._calls.run_all([_Command(key, ["HMGET", key, *_ROW]) for key in keys])
        infos: list[ConversationInfo] = []
        for (user, id_), key, row in zip(entries, keys, rows, strict=True):
            try:
                infos.append(_conversation(id_, user, row))
            except (TypeError, ValueError):  # a failover lost it, or another program changed it
                infos.append(await self._repaired(key, id_, user))
        return sorted(infos, key=lambda one: (one.updated, one.conversation_id), reverse=True)

    async def _repaired(self, key: bytes, id_: str, user: str) -> ConversationInfo:
        """Write the row of a conversation from its runs. A failover may have lost it."""
        found = await self._index.newest(Filter(None, id_, user), None)
        if not found:  # it was deleted just now
            return ConversationInfo(id_, user, "", 0.0, 0.0)
        first, last = (choose(found, key=lambda one: one.run.created).run for choose in (min, max))
        row = first.title, repr(first.created), repr(last.created)
        await self._calls.run(_script("conversation", [key], *row, is_durable=True))
        return ConversationInfo(id_, user, first.title, first.created, last.created)

    async def _change_conversation(
        self, conversation_id: str, user: str, changes: Mapping[str, Any]
    ) -> bool:
        found = await self._index.newest(Filter(None, conversation_id, user), 1)
        if not await self._rows_of(found):
            return False
        key = self._keys.about(conversation_id, user)
        for name, value in changes.items():
            words = ("HDEL", key, name) if value is None else ("HSET", key, name, str(value))
            await self._calls.run(_Command(key, words, is_durable=True))
        return True

    async def _aclose(self) -> None:
        for loop, subscriptions in list(self._subscriptions.items()):
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(subscriptions.end)
        self._subscriptions.clear()
        await self._calls.close()

    def _watch(self, run_id: str) -> None:
        loop = asyncio.get_running_loop()
        subscriptions = self._subscriptions.get(loop)
        if subscriptions is None:
            for other in [other for other in self._subscriptions if other.is_closed()]:
                self._subscriptions.pop(other, None)
            subscriptions = self._subscriptions[loop] = _Subscriptions(self._calls, self._tails)
        subscriptions.add(run_id, self._keys.channel(run_id))

    def _unwatch(self, run_id: str) -> None:
        if (subscriptions := self._subscriptions.get(asyncio.get_running_loop())) is not None:
            subscriptions.leave(self._keys.channel(run_id))

    async def _run(
        self,
        name: str,
        run_id: str,
        *arguments: _Argument,
        void: Sequence[bytes] = (),
        is_durable: bool = False,
    ) -> list[Any]:
        keys = [self._keys.run(run_id), self._keys.log(run_id), *void]
        channel = self._keys.channel(run_id)
        command = _script(name, keys, channel, *arguments, is_durable=is_durable)
        return list(await self._calls.run(command))

    def _load_command(self, run_id: str) -> "_Command":
        return _script("load", [self._keys.run(run_id)])


def _is_transient(error: problems.RedisError) -> bool:
    is_rejected = isinstance(error, problems.AuthenticationError | problems.AuthorizationError)
    is_lost = isinstance(error, problems.ConnectionError | problems.TimeoutError)
    is_moving = isinstance(error, problems.ClusterDownError | problems.TryAgainError)
    return (is_lost or is_moving) and not is_rejected


def _problem(error: problems.RedisError | None, time: str) -> str:
    match error:
        case problems.AuthenticationError() | problems.AuthorizationError():
            return f"the server rejected the user name or password. Check the address ({error})"
        case problems.NoPermissionError():
            return f"this user lacks permissions that the store needs. Change its ACL ({error})"
        case problems.MaxConnectionsError():
            return "all connections of the client are in use. Raise max_connections"
        case problems.BusyLoadingError():
            return f"the server is still loading its data after {time}. Retry later"
        case problems.TimeoutError() | None:
            return f"the server has not answered for {time}. Check that it runs and has capacity"
        case problems.ConnectionError():
            return f"the server cannot be reached, tried for {time}. Check that it runs ({error})"
        case _:
            said = f"{error.status_code or ''} {error}".strip()
            return next((words for mark, words in _ANSWERS.items() if mark in said), said)


class _Client:
    """The connections of one event loop: to one server, or to the nodes of a cluster.

    The ``RedisCluster`` of redis-py 8.1 is not used. It sends ASKING over another connection than
    the command, and closes all connections if a part of the cluster is down.
    """

    def __init__(self, calls: "_Calls") -> None:
        self.turns = Semaphore(_MAX_CONCURRENT)  # held while a command is under way
        self._calls = calls
        self._known = calls.seeds  # the addresses of nodes
        self._nodes: dict[str, Redis] = {}
        self._slots: list[str] = []  # the primary of each slot; empty if they must be looked up
        self._replicated: set[Redis] = set()  # nodes that have a replica
        self._lock = Lock()
        self._replicated_after = -math.inf

    async def node_of(self, key: bytes) -> Redis:
        """Return the client of the node that has this key."""
        if not self._calls.is_cluster:
            return self._node(self._calls.seeds[0])
        while not self._slots:
            async with self._lock:
                if not self._slots:
                    await self._look_up_slots()
        if address := self._slots[key_slot(key)]:
            return self._node(address)
        raise problems.ClusterDownError("no node has a part of the runs", status_code="CLUSTERDOWN")

    async def any_node(self) -> Redis:
        """Return any node to subscribe at: a cluster forwards messages to all its nodes."""
        _ = await self.node_of(b"")
        return self._node(random.choice(self._known))  # noqa: S311 - not a secret

    def forget_slots(self) -> None:
        """Look up the slots again before the next command, because a node has failed."""
        self._slots = []

    def redirected(self, error: problems.AskError) -> Redis:
        """Return the node that a redirection names. Store it if the slot has moved permanently."""
        if not self._calls.is_cluster:
            raise error
        if not error.host:  # the same host that sent the error
            raise problems.TryAgainError(*error.args)
        address = _address(error.host, error.port)
        if isinstance(error, problems.MovedError) and self._slots:
            self._slots[error.slot_id] = address
        return self._node(address)

    def waits(self, node: Redis) -> bool:
        """Return True if a write to this node should wait until a replica has it."""
        return node in self._replicated and _clock() > self._replicated_after

    def not_replicated(self) -> None:
        logger.warning("no replica has confirmed a write within %g s", _REPLICATED_WITHIN)
        self._replicated_after = _clock() + _UNREPLICATED
        self.forget_slots()

    async def aclose(self) -> None:
        for node in self._nodes.values():
            await node.aclose()

    def _node(self, address: str) -> Redis:
        if address not in self._nodes:
            self._nodes[address] = self._calls.connect(address)
        return self._nodes[address]

    async def _look_up_slots(self) -> None:
        problem: Exception = problems.TimeoutError()
        addresses = {*self._calls.seeds, *self._known}
        for address in random.sample(sorted(addresses), len(addresses)):
            try:
                async with asyncio.timeout(1.0):
                    execute: Any = self._node(address).execute_command
                    found = await execute("CLUSTER", "SLOTS", **_RAW)
            except (TimeoutError, problems.RedisError) as error:
                problem = error if isinstance(error, problems.RedisError) else problem
                continue
            here = address.rsplit(":", 1)[0]  # a node may not know its own host
            self._slots, self._known, self._replicated = [""] * SLOTS, [], set()
            for first, last, *nodes in found:
                names = [_address((one[0] or b"").decode() or here, one[1]) for one in nodes]
                self._slots[first : last + 1] = [names[0]] * (last + 1 - first)
                self._known += names
                self._replicated |= {self._node(name) for name in names[:1] if names[1:]}
            return
        raise problem


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def _clock() -> float:
    return asyncio.get_running_loop().time()


class _Command(NamedTuple):
    """A command about keys of one slot, and if it runs a script, its name."""

    key: bytes
    words: Sequence[_Argument | int]
    script: str = ""
    is_durable: bool = False  # on a cluster, wait until a replica has it


def _script(
    name: str, keys: Sequence[bytes], *arguments: _Argument, is_durable: bool = False
) -> _Command:
    words = ["EVALSHA", _HASHES[name], len(keys), *keys, *arguments]
    return _Command(keys[0], words, name, is_durable)


class _Calls:
    """Sends commands, and repeats them while a server or a node of a cluster is unreachable.

    Each event loop has a client of its own.
    """

    def __init__(self, server: str, options: Mapping[str, Any], patience: float) -> None:
        if not isinstance(server, str):
            raise UsageError(  # the value may contain a password
                "server must be an address such as redis://localhost:6379, "
                f"not {type(server).__name__}"
            )
        self.patience = patience
        self._options = {**_OPTIONS, **options}
        self._clients = PerLoop(lambda: _Client(self), _Client.aclose)
        self._is_closed = False
        self._before, self.seeds, self._after = "", [server], ""  # the parts of each node's address
        cluster = _CLUSTER.fullmatch(server)
        self.is_cluster = cluster is not None
        if cluster:
            scheme, user, hosts, self._after = cluster.groups(default="")
            self._before, self.seeds = f"{scheme}://{user}", hosts.split(",")
        settings = {**options, **_settings(self._url(self.seeds[0]))}
        address = f"{settings.get('host', 'localhost')}:{settings.get('port', 6379)}"
        self.place = cluster[3] if cluster else str(settings.get("path") or address)
        self.database = int(settings.get("db") or 0)
        if cluster and self.database:
            raise UsageError(f"a cluster has only database 0, not {self.database}")

    async def run(self, command: _Command) -> Any:
        """Return the answer to a command. It may be sent repeatedly: each script detects that."""
        problem: problems.RedisError | None = None
        deadline = _clock() + self.patience
        for pause in _pauses():
            client = await self.client()
            try:
                # Half of the time for one attempt: perhaps only this connection is dead.
                async with asyncio.timeout_at(min(deadline, _clock() + self.patience / 2)):
                    return await self._send(client, command)
            except TimeoutError:
                # An earlier error is more specific.
                problem = problem or problems.TimeoutError()
            except problems.RedisError as error:
                problem = error
            client.forget_slots()
            if not _is_transient(problem) or _clock() + pause >= deadline:
                break
            await asyncio.sleep(pause)
        raise self.failure(problem) from problem

    def failure(self, error: problems.RedisError | None) -> StoreError:
        return StoreError(f"Redis at {self.place}: {_problem(error, f'{self.patience:g} s')}")

    async def run_all(self, commands: Sequence[_Command]) -> list[Any]:
        """Send commands together, to each node its own. Failed ones are sent again one by one."""
        client = await self.client()
        answers: dict[int, Any] = dict.fromkeys(range(len(commands)), problems.TimeoutError())

        async def send(node: Redis, places: list[int]) -> None:
            found = await _send_pipeline(client, node, [commands[place] for place in places])
            answers.update(zip(places, found, strict=True))

        with suppress(problems.RedisError, TimeoutError):
            async with asyncio.timeout(self.patience / 2), client.turns:
                nodes: dict[Redis, list[int]] = {}
                for place, command in enumerate(commands):
                    nodes.setdefault(await client.node_of(command.key), []).append(place)
                await asyncio.gather(*(send(*one) for one in nodes.items()), return_exceptions=True)
        for place, answer in answers.items():
            if isinstance(answer, problems.RedisError):
                answers[place] = await self.run(commands[place])
        return list(answers.values())

    async def _send(self, client: _Client, command: _Command) -> Any:
        async with client.turns:
            node, asking = await client.node_of(command.key), False
            for _ in range(_REDIRECTIONS):
                try:
                    if not asking and not (command.is_durable and client.waits(node)):
                        return await cast("Any", node.execute_command)(*command.words, **_RAW)
                    [answer] = await _send_pipeline(client, node, [command], asking=asking)
                    if not isinstance(answer, problems.RedisError):
                        return answer
                    raise answer
                except problems.NoScriptError:
                    # The server was restarted or replaced, or its script cache was flushed.
                    words = ["EVAL", SCRIPTS[command.script], *command.words[2:]]
                    command = command._replace(words=words)
                except problems.AskError as error:
                    node = client.redirected(error)
                    asking = not isinstance(error, problems.MovedError)
        raise problems.TryAgainError("too many redirections between nodes")

    async def client(self) -> _Client:
        if self._is_closed:  # a command in progress must not open connections again
            raise store_is_closed()
        return await self._clients.get()

    async def close(self) -> None:
        """Close all clients: that of this event loop now, others when their loops run."""
        self._is_closed = True
        await self._clients.close_all()

    def connect(self, address: str) -> Redis:
        # ``run`` retries, because it knows the deadline.
        retry = Retry(NoBackoff(), 0)
        client: Redis = Redis.from_url(self._url(address), retry=retry, **self._options)
        return client

    def _url(self, address: str) -> str:
        return f"{self._before}{address}{self._after}"


def _settings(url: str) -> Mapping[str, Any]:
    """Parse an address. Errors do not show it, because it may contain a password."""
    _, *rest = _AUTHORITY_END.split(url.partition("://")[2], maxsplit=1)
    is_cut_off = "@" in "".join(rest)  # the password contains one of / ? #, and ends there
    with suppress(ValueError):  # its message may contain a part of the password
        if not is_cut_off:
            return parse_url(url)
    raise UsageError(
        "not a Redis address. Use redis://HOST:PORT/DATABASE, rediss://…, unix://PATH or "
        "redis+cluster://HOST:PORT. Write a password as :PASSWORD@HOST, and percent-encode @, /, ? "
        "and # in it (%40, %2F, %3F, %23)"
    )


async def _send_pipeline(
    client: _Client, node: Redis, commands: Sequence[_Command], *, asking: bool = False
) -> list[Any]:
    """Send commands over one connection, and return their answers, which may be errors."""
    pipeline: Any = node.pipeline(transaction=False)
    if asking:
        pipeline.execute_command("ASKING")
    for command in commands:
        pipeline.execute_command(*command.words, **_RAW)
    if waits := any(command.is_durable for command in commands) and client.waits(node):
        pipeline.execute_command("WAIT", 1, round(_REPLICATED_WITHIN * 1000))
    answers: list[Any] = await pipeline.execute(raise_on_error=False)
    if waits and answers.pop() == 0:
        client.not_replicated()
    return answers[asking:]


def _pauses() -> Iterator[float]:
    return map(_BACKOFF.compute, chain(range(1, 8), repeat(8)))


class _Entry(NamedTuple):
    """The entry of a run in the indexes."""

    identity: str
    run_id: str
    conversation_id: str
    user: str

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)

    @property
    def ending(self) -> bytes:
        """The last bytes of all entries of this user, and of no others: JSON escapes quotes."""
        return b",%b]" % msgspec.json.encode(self.user)


class _Keys:
    """The keys that begin with one prefix."""

    def __init__(self, prefix: bytes, database: int) -> None:
        self._prefix = prefix
        self._database = database
        self.runs = [self._named(str(shard)) + b"runs" for shard in range(_SHARDS)]
        self.unfinished = [self._named(str(shard)) + b"unfinished" for shard in range(_SHARDS)]

    def run(self, run_id: str) -> bytes:
        return self._named(run_id) + b"run"

    def log(self, run_id: str) -> bytes:
        return self._named(run_id) + b"log"

    def void(self, entry: _Entry) -> bytes:
        return self._named(entry.run_id) + b"void:" + entry.identity.encode()

    def conversation(self, conversation_id: str) -> bytes:
        return self._named(conversation_id) + b"conversation"

    def about(self, conversation_id: str, user: str) -> bytes:
        return self._named(conversation_id) + b"about:" + _encoded(user)

    def channel(self, run_id: str) -> bytes:
        return b"%bnews:%d" % (self._named(run_id), self._database)

    def unfinished_of(self, entry: _Entry) -> bytes:
        return self.unfinished[_shard(entry)]

    def lists_of(self, entry: _Entry) -> list[bytes]:
        """Return the indexes that a run stays in when it is over."""
        lists = [self.runs[_shard(entry)], self.conversation(entry.conversation_id)]
        return lists + ([self._named(entry.user) + b"user"] if entry.user else [])

    def searched(self, wanted: Filter) -> list[bytes]:
        """Return the smallest indexes that have all runs that are wanted."""
        if wanted.conversation_id is not None:
            return [self.conversation(wanted.conversation_id)]
        if wanted.user:
            return [self._named(wanted.user) + b"user"]
        return self.unfinished if wanted.status in ("running", "paused") else self.runs

    def _named(self, name: str) -> bytes:
        # A cluster ignores an empty hash tag.
        return b"%b:{%b}:" % (self._prefix, _encoded(name) or b"%")


def _encoded(name: str) -> bytes:
    return name.translate(_ENCODED).encode()


def _shard(entry: _Entry) -> int:
    return zlib.crc32(entry.run_id.encode()) % _SHARDS


class _Subscriptions:
    """Subscribes to the channels of followed runs. Belongs to one event loop.

    If that fails, the followers in this loop fail. The next ``add`` tries again.
    """

    def __init__(self, calls: "_Calls", tails: Tails) -> None:
        self.runs: dict[bytes, str] = {}  # by channel
        self._calls = calls
        self._tails = tails
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._received_at = -math.inf
        self._task: asyncio.Task[None] | None = None

    def add(self, run_id: str, channel: bytes) -> None:
        self.runs[channel] = run_id
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._listen())

    def leave(self, channel: bytes) -> None:
        self.runs.pop(channel, None)
        self._changed.set()
        if not self.runs:
            self.end()

    def end(self) -> None:
        self.runs.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _listen(self) -> None:
        try:
            client = await self._calls.client()
        except ArgstreamError:
            return  # followers get the error when they read
        try:
            problem = await self._until_cut_off(client)
        except Exception as error:  # noqa: BLE001 - otherwise followers would wait forever
            if self._loop.is_closed():
                return  # no follower is left in it
            problem = StoreError(
                f"Redis at {self._calls.place}: the store can no longer receive updates: "
                f"{type(error).__name__}: {error}"
            )
            problem.__cause__ = error
        self._tails.fail(lambda: StoreError(*problem.args), self._loop)

    async def _until_cut_off(self, client: _Client) -> StoreError:
        """Receive messages, and reconnect, until the connection has been lost for too long."""
        lost_at, pauses = _clock(), _pauses()
        while True:
            problem: problems.RedisError = problems.TimeoutError()
            try:
                with suppress(TimeoutError):
                    await self._until_lost(client)
            except problems.RedisError as error:
                problem = error
            client.forget_slots()
            if self._received_at > lost_at:  # it had worked meanwhile
                lost_at, pauses = _clock(), _pauses()
            elif not _is_transient(problem) or _clock() - lost_at > self._calls.patience:
                return self._calls.failure(problem)
            await asyncio.sleep(next(pauses))

    async def _until_lost(self, client: _Client) -> None:
        async with asyncio.timeout(self._calls.patience):
            pool = (await client.any_node()).connection_pool
            connection = await pool.get_connection()  # type: ignore[no-untyped-call] # in redis-py
        sides = [
            asyncio.create_task(self._receive(connection)),
            asyncio.create_task(self._subscribe(connection)),
        ]
        try:
            done, _ = await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
            done.pop().result()
        finally:
            for side in sides:
                side.cancel()
            await asyncio.gather(*sides, return_exceptions=True)
            await connection.disconnect(nowait=True)
            await pool.release(connection)

    async def _receive(self, connection: AbstractConnection) -> None:
        while True:
            said = await connection.read_response(
                disable_decoding=True,
                timeout=math.inf,
                disconnect_on_error=False,
                push_request=True,
            )
            self._received_at = _clock()
            match said:
                case [b"message", bytes() as channel, bytes() as data]:
                    self._forward(channel, data)
                case [b"subscribe", bytes() as channel, _]:
                    self._forward(channel, None)
                case _:
                    pass  # an answer to UNSUBSCRIBE or PING

    def _forward(self, channel: bytes, message: bytes | None) -> None:
        """Report a published message about a run. ``_redis_lua`` describes its format."""
        if (run_id := self.runs.get(channel)) is None:
            return  # its last follower has just left
        match (message or b"").split(b"\n"):
            case [b"commands"]:
                self._tails.commands_changed(run_id)
            case [b"commands" | b"" as kind, first, *lines] if _SEQ.fullmatch(first):
                if kind:
                    self._tails.commands_changed(run_id)
                if lines:
                    self._tails.push(run_id, int(first), lines)
                else:
                    self._tails.mark_stale(run_id)
            case _:
                # The run was deleted: its followers find out. Or it is not one of our messages.
                self._tails.mark_stale(run_id)
                self._tails.commands_changed(run_id)

    async def _subscribe(self, connection: AbstractConnection) -> None:
        begun_at = _clock()
        check_at = begun_at + _CHECK_SECONDS
        subscribed: set[bytes] = set()
        while True:
            self._changed.clear()
            wanted = set(self.runs)
            new, old, subscribed = wanted - subscribed, subscribed - wanted, wanted
            if new:
                await connection.send_command("SUBSCRIBE", *new)
            if old:
                await connection.send_command("UNSUBSCRIBE", *old)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(check_at):
                    await self._changed.wait()
            if _clock() < check_at:
                continue
            await connection.send_command("PING")
            check_at = _clock() + _CHECK_SECONDS
            if _clock() - max(self._received_at, begun_at) > 2 * _CHECK_SECONDS:
                raise problems.ConnectionError("the server stopped answering")
            for channel in subscribed:
                self._forward(channel, None)


class _Found(NamedTuple):
    """A run as a script returned it."""

    run: StoredRun
    now: Now
    entry: _Entry
    fields: Mapping[bytes, bytes] = {}  # as they were before any change; empty for a new run
    listed: float = -math.inf  # the score of its entry: no record is later

    @classmethod
    def of(cls, run_id: str, answer: Sequence[Any]) -> "_Found":
        """Decode what ``load`` returned."""
        fields, time = _fields(answer), float(answer[1])
        if not fields:
            raise RunNotFoundError(run_id)
        if _is_of_another_format(fields):
            raise _other_format(run_id, fields.get(b"format", b"1"))
        try:
            run = _decoder.decode(fields[b"state"])
            run.seq, run.updated = int(fields[b"seq"]), float(fields[b"updated"])
            listed = float(fields.get(b"listed") or -math.inf)
            identity = fields[b"identity"].decode()
        except (KeyError, ValueError, msgspec.MsgspecError) as error:
            raise _unreadable(run_id) from error
        entry = _Entry(identity, run_id, run.conversation_id, run.user)
        return cls(run, Now(time, time), entry, fields, listed)

    @property
    def version(self) -> bytes:
        return self.fields.get(b"changes", b"")[:NONCE]


def _conversation(id_: str, user: str, row: Sequence[Any]) -> ConversationInfo:
    """Decode a row. Raises TypeError or ValueError if a field is missing or cannot be read."""
    title, created, updated, deleted_at = row
    times = float(created), float(updated), deleted_at and float(deleted_at)
    return ConversationInfo(id_, user, bytes.decode(title), *times)


def _fields(answer: Sequence[Any]) -> dict[bytes, bytes]:
    return dict(_pairs(answer[2]))


def _is_of_another_format(fields: Mapping[bytes, bytes]) -> bool:
    return b"token" in fields and fields.get(b"format") != FORMAT.encode()


def _other_format(run_id: str, version: bytes) -> StoreError:
    return StoreError(
        f"run {run_id!r} has format {version.decode(errors='replace')}, written by another version "
        f"of argstream; this one reads format {FORMAT}. Use that version, or delete the run"
    )


def _unreadable(run_id: str) -> StoreError:
    return StoreError(
        f"run {run_id!r} in Redis cannot be read. Another program may have changed it"
    )


def _pairs(fields: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(fields[::2], fields[1::2], strict=True)


class _Listed(NamedTuple):
    """An entry of an index, with its score."""

    score: float
    entry: _Entry


class _Index:
    """The indexes of the runs of one store. See the top of the module for the rules."""

    def __init__(self, calls: _Calls, keys: _Keys) -> None:
        self._calls = calls
        self._keys = keys

    async def add(self, entry: _Entry, score: str, *also: _Command) -> list[Any]:
        """Add an entry before its run is written, or raise its score.

        Other commands are sent first. Return their answers.
        """
        keys = [*self._keys.lists_of(entry), self._keys.unfinished_of(entry)]
        commands = [*also, *(_addition(key, entry, "GT", score) for key in keys)]
        return (await self._calls.run_all(commands))[: len(also)]

    async def finalize(self, found: Sequence[_Found]) -> None:
        """Set the exact time in the entries of runs that are over."""
        commands = []
        for run, _, entry, *_ in found:
            if run.is_over:
                lists = self._keys.lists_of(entry)
                commands += [_addition(key, entry, "XX", repr(run.updated)) for key in lists]
                commands.append(_removal(self._keys.unfinished_of(entry), entry))
        await self._correct(commands)

    async def remove(self, entries: Sequence[_Entry]) -> None:
        """Remove entries whose runs can no longer exist, and conversations without entries."""
        commands = []
        for entry in entries:
            runs, conversation, *user = self._keys.lists_of(entry)
            others = [runs, *user, self._keys.unfinished_of(entry)]
            keys = [conversation, self._keys.about(entry.conversation_id, entry.user)]
            commands += [_removal(key, entry) for key in others]
            commands.append(_script("leave", keys, entry.to_json(), entry.ending))
        await self._correct(commands)

    async def _correct(self, commands: Sequence[_Command]) -> None:
        try:
            await self._calls.run_all(commands)
        except StoreError as error:  # the next list tries again
            logger.warning("the index of runs could not be updated: %s", visible_line(str(error)))

    async def remove_gone(self, entries: Sequence[_Entry]) -> None:
        """Remove the entries of runs that were not found, unless they have just been created."""
        commands = [
            _script("void", [self._keys.run(entry.run_id), self._keys.void(entry)], entry.identity)
            for entry in entries
        ]
        answers = await self._calls.run_all(commands)
        is_gone = [answer[0] == b"done" for answer in answers]
        await self.remove(list(compress(entries, is_gone)))

    async def newest(self, wanted: Filter, limit: int | None) -> list[_Found]:
        """List runs. Scores are upper bounds, so entries are read until these are too low."""
        keys = self._keys.searched(wanted)
        found: dict[str, _Found] = {}
        seen: set[_Entry] = set()
        examined, count = 0, _PER_PAGE

        def is_enough(score: float) -> bool:
            if limit is None or len(found) < limit:
                return False
            times = sorted((one.run.updated for one in found.values()), reverse=True)
            return score < times[limit - 1] or examined > limit + _EXTRA_LISTED

        while True:
            last = -1 if limit is None else count - 1
            commands = [_Command(key, ["ZREVRANGE", key, 0, last, "WITHSCORES"]) for key in keys]
            answers = await self._calls.run_all(commands)
            listed = [one for pairs in answers for one in self._listed(pairs)]
            new = sorted((one for one in listed if one.entry not in seen), reverse=True)
            new = [one for one in new if wanted.matches(wanted.status or "", *one.entry[2:])]
            seen.update(one.entry for one in listed)
            size = min(limit or _PER_PAGE, _PER_PAGE)
            while new and not is_enough(new[0].score):
                page, new, examined = new[:size], new[size:], examined + size
                for one in await self._load_listed(page):
                    if wanted.status in (None, one.run.status):
                        found[one.run.run_id] = one
                size = min(2 * size, _PER_PAGE)
            rest = [float(pairs[-1]) for pairs in answers if len(pairs) == 2 * count]
            if limit is None or not rest or is_enough(max(rest)):
                break
            count *= 4
        return _newest_first([*found.values()])[:limit]

    async def older_than(self, seconds: float) -> list[_Found]:
        """Return the runs whose last record is older."""
        till = time.time() - seconds
        words = ["-inf", repr(till + _AHEAD), "WITHSCORES"]
        commands = [_Command(key, ["ZRANGEBYSCORE", key, *words]) for key in self._keys.runs]
        found: list[_Found] = []
        for pairs in await self._calls.run_all(commands):
            for page in _pages(self._listed(pairs)):
                some = await self._load_listed(page)
                found += [one for one in some if one.run.updated <= till]
        return _newest_first(found)

    async def _load_listed(self, listed: Sequence[_Listed]) -> list[_Found]:
        commands = [_script("load", [self._keys.run(one.entry.run_id)]) for one in listed]
        found, gone, inexact = [], [], []
        for one, answer in zip(listed, await self._calls.run_all(commands), strict=True):
            try:
                seen = _Found.of(one.entry.run_id, answer)
                if seen.entry != one.entry:
                    raise RunNotFoundError(one.entry.run_id)
            except RunNotFoundError:
                gone.append(one.entry)
            except StoreError as error:  # the other runs are listed
                logger.warning("%s. The run is not listed", visible_line(str(error)))
            else:
                found.append(seen)
                if one.score != seen.run.updated:
                    inexact.append(seen)
        await self.remove_gone(gone)
        await self.finalize(inexact)
        return found

    def _listed(self, pairs: Sequence[bytes]) -> list[_Listed]:
        listed: list[_Listed] = []
        for member, score in _pairs(pairs):
            try:
                entry = msgspec.json.decode(member, type=_Entry)
                listed.append(_Listed(float(score), entry))
            except (msgspec.MsgspecError, UnicodeDecodeError):  # another program has put it there
                logger.warning("an index of runs in Redis contains %r, not an entry", member)
        return listed


def _addition(key: bytes, entry: _Entry, condition: str, score: str) -> _Command:
    return _Command(key, ["ZADD", key, condition, score, entry.to_json()], is_durable=True)


def _removal(key: bytes, entry: _Entry) -> _Command:
    return _Command(key, ["ZREM", key, entry.to_json()])


def _newest_first(found: Sequence[_Found]) -> list[_Found]:
    return sorted(found, key=lambda one: (one.run.updated, one.run.run_id), reverse=True)


def _pages(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), _PER_PAGE):
        yield items[start : start + _PER_PAGE]


def _nonce() -> str:
    return secrets.token_hex(NONCE // 2)


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(seconds * 1000)))
