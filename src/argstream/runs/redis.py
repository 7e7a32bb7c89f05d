"""Logs in Redis: for several processes and machines. Needs a server of version 6.2 or newer.

::

    store = RedisStore("redis://localhost:6379", ttl=7 * 24 * 3600)

The records of a run are a stream, under their seqs (see ``_redis_lua``). Acknowledged records
survive a crash of the server if it writes them to its disk first: ``appendonly yes`` and
``appendfsync always``. With other settings it loses what its documentation says. It must not drop
keys when memory runs out: ``maxmemory-policy noeviction``, or one of the ``volatile-…``.

On a cluster, everything must be in one slot: ``prefix="{argstream}"``.
"""

import asyncio
import hashlib
import logging
import math
import random
import re
import secrets
from asyncio import AbstractEventLoop, Semaphore
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self, TypeVarTuple, Unpack, cast
from weakref import ReferenceType, ref

import msgspec
from msgspec import Struct

from argstream.errors import (
    AlreadyDecidedError,
    ArgstreamError,
    LeaseLostError,
    MissingExtraError,
    RunBusyError,
    RunNotFoundError,
    StoreError,
    UsageError,
)
from argstream.events import RunStatus
from argstream.runs._batches import (
    Batch,
    Wanted,
    begun_already,
    commands_from_json,
    gap,
    not_pending,
    other_record,
    other_request,
    run_is_over,
    text,
)
from argstream.runs._hub import Page
from argstream.runs._records import Commands, Lease, RunInfo
from argstream.runs._redis_lua import FORMAT, SCRIPTS
from argstream.runs._store import FIRST_TOKEN, Store

try:
    from redis.asyncio import Redis
    from redis.asyncio.connection import AbstractConnection, ConnectionPool, parse_url
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.client import NEVER_DECODE
    from redis.exceptions import (
        AuthenticationError,
        AuthorizationError,
        BusyLoadingError,
        MaxConnectionsError,
        NoPermissionError,
        NoScriptError,
        RedisError,
    )
    from redis.exceptions import ConnectionError as ConnectionLost
    from redis.exceptions import TimeoutError as NoAnswer
except ModuleNotFoundError:
    raise MissingExtraError("redis", "a store in Redis") from None

__all__ = ["RedisStore"]


logger: Final = logging.getLogger("argstream.runs")

_AT_ONCE: Final = 16
"""How many commands of an event loop are under way: more would not make the server quicker."""
_BEAT: Final = 5.0
"""Seconds between two checks whether the server is still there, and the runs."""
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.5
_LISTED: Final = 200
"""How many runs are looked at together."""
_LONGEST: Final = 1e9
"""In seconds, some thirty years: the time at which a run is forgotten must not overflow."""
_AUTHORITY_END: Final = re.compile("[/?#]")
_ENCODED: Final = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})
_FORGET: Final = ("delete", "expire")
_HASHES: Final = {
    name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    for name, text in SCRIPTS.items()
}
_NEEDED: Final = (b"conversation", b"agent", b"status", b"seq", b"created", b"updated")
_OPTIONS: Final[Mapping[str, Any]] = {
    "client_name": "argstream",
    "protocol": 2,  # 3 costs a greeting more, and has nothing that is needed here
    # How long to wait is decided elsewhere, for a whole command: that of the client's makes each
    # one slower by half.
    "socket_timeout": None,
    "socket_connect_timeout": 5.0,
    "driver_info": None,
    "max_connections": 2 * _AT_ONCE,
}
_SEQ: Final = re.compile(rb"[0-9]{1,16}")
# Errors from inside a script come with all kinds of words around them, so these are looked for
# anywhere. The first that is found counts.
_ANSWERS: Final = {
    "WRONGTYPE": "a key of the store has another type. Pass a prefix that no other program uses",
    "OOM ": "the server is out of memory. Raise its maxmemory, or let runs expire (ttl)",
    "READONLY": "the server is a read-only replica. Pass the address of the primary",
    "MISCONF": "the server cannot write to its disk and rejects all writes. See the server's log",
    "NOREPLICAS": "the server has fewer replicas than its min-replicas-to-write requires",
    "MASTERDOWN": "the server is a replica that lost its primary. Pass the primary's address",
    "CROSSSLOT": "the server is a cluster. Pass a prefix in braces, such as '{argstream}'",
    "MOVED ": "the server is a cluster node without these runs. Pass the address of their node",
    "unknown command": "the server lacks a command that the store needs. Use Redis 6.2 or newer",
}

_Argument = str | bytes
_Given = TypeVarTuple("_Given")
_Tell = Callable[[str, bytes | None, bytes | None], None]
"""Called with a run, its identity if that is known, and what was published; None if unknown."""


class RedisStore(Store):
    """Keeps runs in Redis.

    ``server`` is its address (``redis://``, ``rediss://``, ``unix://``), or a client of redis-py:
    then the store can be used in one event loop only, and does not close it. The keys of the store
    begin with ``prefix``. The server forgets a run ``ttl`` seconds after its end; a run that is not
    over never expires. While the connection is lost, the store retries for ``patience`` seconds
    before it raises ``StoreError``.
    """

    def __init__(
        self,
        server: str | Redis,
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
            raise UsageError(f"runs cannot be kept for {ttl} seconds: None keeps them for ever")
        if not patience > 0:
            raise UsageError(f"patience must be greater than 0 seconds, not {patience}")
        self._clients = _Clients(server, options)
        self._calls = _Calls(self._clients, patience)
        self._prefix = text(prefix, "the prefix of a store's keys")
        self._keys = _Keys(self._prefix.encode(), self._clients)
        self._lists = _Lists(self._calls, self._keys)
        self._ttl = "" if ttl is None else _milliseconds(ttl)
        self._patience = patience
        self._news: dict[AbstractEventLoop, _News] = {}

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Open the store at an address. ``options`` may include those of redis-py's client."""
        return cls(url, **options)

    def __repr__(self) -> str:
        """Return where it is, but not the password."""
        return f"<RedisStore at {self._clients.place}, prefix {self._prefix!r}>"

    async def _create(self, batch: Batch, owner: str, seconds: float) -> Lease:
        whose = _Whose(batch.conversation_id, batch.user)
        keys = [*self._keys.all_of(batch.run_id), *self._keys.sets(whose)]
        arguments: list[str | bytes] = [owner, _nonce(), _milliseconds(seconds), *whose]
        arguments += [whose.to_json(), batch.agent, repr(batch.created), *self._arguments(batch)]
        answer = await self._calls.run("create", keys, arguments)
        if answer[0] != b"done":
            raise begun_already(batch.run_id)
        self._written(batch)
        return Lease(batch.run_id, owner, FIRST_TOKEN)

    async def _acquire(self, run_id: str, owner: str, seconds: float) -> Lease:
        arguments, answer = (owner, _nonce(), _milliseconds(seconds)), [b"after", b""]
        while answer[0] == b"after":  # another lease, which was good for a moment
            answer = await self._run("acquire", run_id, *arguments, answer[1])
        return Lease(run_id, owner, int(self._done(run_id, answer)[1]))

    async def _renew(self, lease: Lease, seconds: float) -> None:
        answer = await self._run("renew", lease.run_id, str(lease.token), _milliseconds(seconds))
        self._done(lease.run_id, answer)

    async def _release(self, lease: Lease) -> None:
        await self._run("release", lease.run_id, str(lease.token))

    async def _append(self, lease: Lease, batch: Batch) -> None:
        answer = await self._run("append", batch.run_id, str(lease.token), *self._arguments(batch))
        match answer:
            case [b"gap", last]:
                raise gap(batch.run_id, int(last), batch.first)
            case [b"other"]:
                raise other_record(batch.run_id, batch.first)
            case _:
                self._done(batch.run_id, answer)
        self._written(batch)

    async def _reopen(self, lease: Lease, call_id: str) -> None:
        answer = await self._run("reopen", lease.run_id, str(lease.token), call_id, _nonce())
        self._done(lease.run_id, answer)
        self._tails.commands_changed(lease.run_id)

    def _arguments(self, batch: Batch) -> list[str | bytes]:
        arguments: list[str | bytes] = [batch.run_id, str(batch.first), repr(batch.updated)]
        arguments += [batch.status or "", "1" if batch.rests else "", self._ttl]
        arguments += [str(len(batch.asked))]
        for call_id, digest in batch.asked:
            arguments += [call_id, "" if digest is None else f"={digest}"]
        return arguments + batch.lines

    async def _page(self, run_id: str, after: int, limit: int) -> Page:
        return await self._page_of(run_id, None, after, limit)

    async def _page_of(self, run_id: str, created: float | None, after: int, limit: int) -> Page:
        answer = await self._run("read", run_id, str(after), str(limit))
        _, last, begun_at, identity, joined = self._done(run_id, answer)
        if created not in (None, float(begun_at)):
            raise RunNotFoundError(run_id)
        self._see(run_id, identity)
        lines: list[bytes] = joined.split(b"\n") if joined else []
        if not lines and int(last) > after:
            raise StoreError(
                f"Redis at {self._clients.place}: the log of run {run_id!r} is missing. The server "
                "may have evicted it. Set its maxmemory-policy to noeviction"
            )
        return lines, int(last) > after + len(lines)

    async def _decide(self, run_id: str, decisions: Mapping[str, tuple[bytes, str]]) -> None:
        arguments: list[str | bytes] = [_nonce()]
        for call_id, (line, digest) in decisions.items():
            arguments += [call_id, digest, line]
        answer = await self._run("decide", run_id, *arguments)
        match answer:
            case [b"decided", call_id]:
                raise AlreadyDecidedError(call_id.decode())
            case [b"unasked", call_id]:
                raise not_pending(run_id, call_id.decode())
            case [b"digest", call_id]:
                raise other_request(call_id.decode())
            case _:
                self._done(run_id, answer)
        self._tails.commands_changed(run_id)

    async def _stop(self, run_id: str, reason: str) -> None:
        self._done(run_id, await self._run("stop", run_id, reason))
        self._tails.commands_changed(run_id)

    async def _commands(self, run_id: str) -> Commands | None:
        _, fields = await self._look_at(run_id)
        return _commands_of(fields)

    async def _info(self, run_id: str) -> RunInfo:
        now, fields = await self._look_at(run_id)
        return _info_of(run_id, fields, now)

    async def _runs(self, wanted: Wanted, limit: int | None) -> list[RunInfo]:
        return await self._lists.newest(wanted, limit)

    async def _delete(self, run_id: str) -> None:
        answer = [b"moved"]
        while answer == [b"moved"]:  # it has become another run
            told = await self._lists.whose(run_id)
            answer = await self._forget("delete", run_id, told)
        self._done(run_id, answer)

    async def _delete_older_than(self, seconds: float, *, unfinished: bool) -> list[str]:
        till, older = await self._lists.older_than(seconds)
        expired = []
        for run_id, told in older:
            flag = "unfinished" if unfinished else ""
            if (await self._forget("expire", run_id, told, till, flag))[0] == b"done":
                expired.append(run_id)
        return expired

    async def _forget(
        self, name: str, run_id: str, told: bytes, *arguments: str | bytes
    ) -> list[Any]:
        """Forget a run, and remove it from the sets that it is in, as ``told``."""
        sets = self._keys.sets(_Whose.from_json(told) if told else None)
        keys = [*self._keys.all_of(run_id), *sets]
        return await self._calls.run(name, keys, [run_id, told, *arguments])

    async def _aclose(self) -> None:
        for loop, news in list(self._news.items()):
            _soon(loop, news.end)
        self._news.clear()
        await self._clients.close()

    def _watch(self, run_id: str) -> None:
        loop = asyncio.get_running_loop()
        news = self._news.get(loop)
        if news is None:
            for other in [other for other in self._news if other.is_closed()]:
                self._news.pop(other, None)
            news = _News(self._clients, self._patience, self._heard, self._cut_off)
            self._news[loop] = news
        news.want(run_id, self._keys.channel(run_id))

    def _unwatch(self, run_id: str) -> None:
        loop = asyncio.get_running_loop()
        if (news := self._news.get(loop)) is not None:
            news.leave(self._keys.channel(run_id))
            if not news.is_wanted:
                self._news.pop(loop, None)

    def _heard(self, run_id: str, identity: bytes | None, said: bytes | None) -> None:
        """Pass on what was published about a run: see ``_redis_lua`` for its form."""
        match (said or b"").split(b"\n"):
            case [b"commands", of] if of == identity:
                self._tails.commands_changed(run_id)
            case [b"commands" | b"" as kind, of, first, *lines] if (
                of == identity and _SEQ.fullmatch(first)
            ):
                if kind:
                    self._tails.commands_changed(run_id)
                if lines:
                    self._tails.push(run_id, int(first), lines)
                else:
                    self._tails.stale(run_id)
            case _:
                # It is gone, or another run has its ID: its followers find out.
                self._tails.stale(run_id)
                self._tails.commands_changed(run_id)

    def _cut_off(self, problem: StoreError) -> None:
        self._tails.fail_here(lambda: StoreError(*problem.args))

    def _see(self, run_id: str, identity: bytes) -> None:
        """Note which run it is that is followed here, if it is."""
        if (news := self._news.get(asyncio.get_running_loop())) is not None:
            news.see(self._keys.channel(run_id), identity)

    async def _run(self, name: str, run_id: str, *arguments: str | bytes) -> list[Any]:
        return await self._calls.run(name, self._keys.all_of(run_id), arguments)

    async def _look_at(self, run_id: str) -> tuple[float, Sequence[bytes]]:
        _, now, found = await self._calls.run("look", [self._keys.run(run_id)])
        if not found[0]:
            raise RunNotFoundError(run_id)
        self._see(run_id, _identity_of(found[0]))
        return float(now), found[0]

    def _done(self, run_id: str, answer: list[Any]) -> list[Any]:
        """Return an answer that says that it was done; raise what another one says."""
        match answer:
            case [b"done", *_]:
                return answer
            case [b"unknown"]:
                raise RunNotFoundError(run_id)
            case [b"taken", owner, milliseconds]:
                raise RunBusyError(run_id, owner.decode(), int(milliseconds) / 1000)
            case [b"lost", owner, milliseconds]:
                raise LeaseLostError(run_id, owner.decode(), int(milliseconds) / 1000)
            case [b"over", status]:
                raise run_is_over(run_id, status.decode())
            case [b"format", version]:
                raise _other_format(run_id, version.decode())
            case _:
                place = self._clients.place
                raise StoreError(f"unexpected response of Redis at {place}: {answer[0]!r}")


def _may_pass(error: RedisError) -> bool:
    """Return True if a retry may well work: only the connection was lost."""
    if isinstance(error, AuthenticationError | AuthorizationError):
        return False
    return isinstance(error, ConnectionLost | NoAnswer)


def _failure(error: RedisError | None, place: str, seconds: float) -> StoreError:
    return StoreError(f"Redis at {place}: {_problem(error, f'{seconds:g} s')}")


def _place_of(settings: Mapping[str, Any]) -> str:
    if path := settings.get("path"):
        return str(path)
    return f"{settings.get('host', 'localhost')}:{settings.get('port', 6379)}"


def _problem(error: RedisError | None, time: str) -> str:
    match error:
        case AuthenticationError() | AuthorizationError():
            return f"the server rejected the user name or password. Check the address ({error})"
        case NoPermissionError():
            return f"this user lacks permissions that the store needs. Change its ACL ({error})"
        case MaxConnectionsError():
            return "all connections of the client are in use. Raise max_connections"
        case BusyLoadingError():
            return f"the server is still loading its data after {time}. Retry later"
        case NoAnswer() | None:
            return f"the server has not answered for {time}. Check that it runs and has capacity"
        case ConnectionLost():
            return f"the server cannot be reached, tried for {time}. Check that it runs ({error})"
        case _:
            said = f"{error.status_code or ''} {error}".strip()
            return next((words for mark, words in _ANSWERS.items() if mark in said), said)


class _Client(NamedTuple):
    """A client that may be used in one event loop."""

    redis: Redis
    turns: Semaphore  # held while a command is under way


class _Open(NamedTuple):
    client: _Client
    keeper: AsyncGenerator[_Client, None]


class _Clients:
    """Returns the client to use. One that was given is used for all, and never closed."""

    def __init__(self, server: str | Redis, options: Mapping[str, Any]) -> None:
        self._given: Redis | None = None
        self._home: ref[AbstractEventLoop] | None = None  # the loop of the one that was given
        self._open: dict[AbstractEventLoop, _Open] = {}
        self._is_closed = False
        if isinstance(server, str):
            self._url, self._options = server, {**_OPTIONS, **options}
            self._settle({**options, **_settings(server)})
            return
        if not isinstance(server, Redis):
            raise UsageError(
                "server must be an address such as redis://localhost:6379, or a "
                f"redis.asyncio.Redis, not {type(server).__module__}.{type(server).__name__}"
            )
        if options:
            raise UsageError("options need an address as server: a client has its own options")
        self._given = server
        self._settle(server.connection_pool.connection_kwargs)

    def _settle(self, settings: Mapping[str, Any]) -> None:
        self.place = _place_of(settings)
        self.database = int(settings.get("db") or 0)

    async def client(self) -> _Client:
        loop = asyncio.get_running_loop()
        found = self._open.get(loop)
        if self._is_closed:  # what was under way must not open anything again
            raise StoreError("the store is closed. Open a new one")
        if found is None:
            self._require_one_loop(loop)
            self._forget_loops_that_are_over()
            is_ours = self._given is None
            keeper = _kept(ref(self), loop, self._given or self._made(), is_ours=is_ours)
            # The generator does not wait before it yields, so no other task makes one meanwhile.
            found = _Open(await anext(keeper), keeper)
            self._open[loop] = found
        return found.client

    async def close(self) -> None:
        """Close all clients: that of this event loop now, others when their loops run."""
        self._is_closed = True
        here = asyncio.get_running_loop()
        for loop, one in list(self._open.items()):
            self.forget(loop)
            if loop is here:
                await one.keeper.aclose()
            else:
                _soon(loop, _close, loop, one.keeper)

    def forget(self, loop: AbstractEventLoop) -> None:
        self._open.pop(loop, None)

    def _made(self) -> Redis:
        # What was lost is tried again elsewhere, where it is known for how long.
        retry = Retry(NoBackoff(), 0)
        client: Redis = Redis.from_url(self._url, retry=retry, **self._options)
        return client

    def _require_one_loop(self, loop: AbstractEventLoop) -> None:
        """Refuse another event loop to a given client: its connections belong to one."""
        if self._given is None:
            return
        self._home = self._home or ref(loop)
        if self._home() is not loop:
            raise UsageError(
                "the client of this RedisStore belongs to another event loop. Use it in one loop, "
                "or pass the address of the server"
            )

    def _forget_loops_that_are_over(self) -> None:
        for loop in list(self._open):
            if loop.is_closed():
                self.forget(loop)


async def _kept(
    owner: ReferenceType[_Clients], loop: AbstractEventLoop, redis: Redis, *, is_ours: bool
) -> AsyncGenerator[_Client, None]:
    try:
        yield _Client(redis, Semaphore(_AT_ONCE))
    finally:
        if (clients := owner()) is not None:
            clients.forget(loop)
        if is_ours:
            await redis.aclose()


def _soon(
    loop: AbstractEventLoop, act: Callable[[Unpack[_Given]], object], *given: *_Given
) -> None:
    """Call something in the thread of an event loop, unless that is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(act, *given)


def _close(loop: AbstractEventLoop, keeper: AsyncGenerator[_Client, None]) -> None:
    closing = loop.create_task(keeper.aclose())
    _closing.add(closing)
    closing.add_done_callback(_closing.discard)


_closing: set[asyncio.Task[None]] = set()  # keeps a reference until they are done


def _settings(url: str) -> Mapping[str, Any]:
    """Parse an address. No part of it may be shown: it may hold a password."""
    _, *rest = _AUTHORITY_END.split(url.partition("://")[2], maxsplit=1)
    is_cut_off = "@" in "".join(rest)  # what is before it would be taken for something else
    with suppress(ValueError):  # it may tell a part of the password
        if not is_cut_off:
            return parse_url(url)
    raise UsageError(
        "not a Redis address. Use redis://HOST:PORT/DATABASE, rediss://… or unix://PATH. Write a "
        "password as :PASSWORD@HOST, and percent-encode @, /, ? and # in it (%40, %2F, %3F, %23)"
    )


class _Calls:
    """Has the server run its scripts."""

    def __init__(self, clients: _Clients, patience: float) -> None:
        self._clients = clients
        self._patience = patience

    async def run(
        self, name: str, keys: Sequence[bytes], arguments: Sequence[_Argument] = ()
    ) -> list[Any]:
        """Run a script and return its answer. Each script can be repeated: it detects that."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._patience
        problem: RedisError | None = None
        for pause in _pauses():
            try:
                # Not all at once: it may be this connection that is dead, and not the server.
                async with asyncio.timeout_at(min(deadline, clock() + self._patience / 2)):
                    answer = await self._run_once(name, keys, arguments)
            except TimeoutError:
                problem = problem or NoAnswer()  # what had gone wrong before tells more
            except RedisError as error:
                problem = error
            else:
                # It may have been the attempt before that has forgotten it.
                is_forgotten = problem and name in _FORGET and answer == [b"unknown"]
                return [b"done"] if is_forgotten else answer
            if not _may_pass(problem) or clock() + pause >= deadline:
                break
            await asyncio.sleep(pause)
        raise _failure(problem, self._clients.place, self._patience) from problem

    async def _run_once(
        self, name: str, keys: Sequence[bytes], arguments: Sequence[_Argument]
    ) -> list[Any]:
        client = await self._clients.client()
        execute: Any = client.redis.execute_command  # it has no types
        given = (len(keys), *keys, *arguments)
        options = {NEVER_DECODE: True}
        async with client.turns:
            try:
                answer = await execute("EVALSHA", _HASHES[name], *given, **options)
            except NoScriptError:
                # The server was started anew, or is another one, or was told to forget its scripts.
                answer = await execute("EVAL", SCRIPTS[name], *given, **options)
        return list(answer)


def _pauses() -> Iterator[float]:
    """Yield how long to wait before each retry: longer and longer, never the same."""
    longest = _FIRST_PAUSE
    while True:
        yield longest * random.uniform(0.5, 1.0)  # noqa: S311 - so that not all come back at once
        longest = min(2 * longest, _LONGEST_PAUSE)


class _Whose(NamedTuple):
    """The conversation and the user of a run."""

    conversation_id: str
    user: str

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, text: bytes) -> "_Whose":
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            problem = f"invalid conversation or user of a run in Redis: {text!r}: {error}"
            raise StoreError(problem) from error


class _Keys:
    """The keys that begin with one prefix."""

    def __init__(self, prefix: bytes, clients: _Clients) -> None:
        self._prefix = prefix
        self._clients = clients
        self.index = prefix + b":runs"
        self.unfinished = prefix + b":unfinished"
        self.whose = prefix + b":whose"

    def run(self, run_id: str) -> bytes:
        return self._named(run_id) + b"run"

    def channel(self, run_id: str) -> bytes:
        return b"%bnews:%d" % (self._named(run_id), self._clients.database)

    def all_of(self, run_id: str) -> list[bytes]:
        """Return the keys that the scripts for one run expect."""
        log = self._named(run_id) + b"log"
        shared = [self.unfinished, self.whose]
        return [self.run(run_id), log, self.index, self.channel(run_id), *shared]

    def conversation(self, conversation_id: str) -> bytes:
        return self._named(conversation_id) + b"conversation"

    def user(self, user: str) -> bytes:
        return self._named(user) + b"user"

    def sets(self, whose: _Whose | None) -> list[bytes]:
        """Return the keys of the sets that a run is in, besides those of all runs."""
        if whose is None:
            return []
        mine = [self.user(whose.user)] if whose.user else []
        return [self.conversation(whose.conversation_id), *mine]

    def _named(self, name: str) -> bytes:
        return b"%b:{%b}:" % (self._prefix, name.translate(_ENCODED).encode())


class _Wanted(Struct):
    run_id: str
    identity: bytes | None = None


class _News:
    """Listens to channels while they are wanted. Belongs to one event loop.

    If it cannot, it calls ``fail``. The next ``want`` makes it try again.
    """

    def __init__(
        self, clients: _Clients, patience: float, tell: _Tell, fail: Callable[[StoreError], None]
    ) -> None:
        self._clients = clients
        self._patience = patience
        self._tell = tell
        self._fail = fail
        self._wanted: dict[bytes, _Wanted] = {}
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._heard_at = -math.inf
        self._task: asyncio.Task[None] | None = None

    @property
    def is_wanted(self) -> bool:
        return bool(self._wanted)

    def want(self, run_id: str, channel: bytes) -> None:
        """Listen to the channel of a run from now on, of whichever run has it now."""
        self._wanted[channel] = _Wanted(run_id)
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._listen())

    def leave(self, channel: bytes) -> None:
        self._wanted.pop(channel, None)
        self._changed.set()
        if not self._wanted:
            self.end()

    def see(self, channel: bytes, identity: bytes) -> None:
        """Note which run has this channel. News about another run with its name are not its."""
        if (wanted := self._wanted.get(channel)) is not None and wanted.identity is None:
            wanted.identity = identity

    def end(self) -> None:
        self._wanted.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _listen(self) -> None:
        try:
            client = await self._clients.client()
        except ArgstreamError:
            return  # closed, or of another event loop: followers get the error when they read
        try:
            problem = await self._until_cut_off(client.redis.connection_pool)
        except Exception as error:  # noqa: BLE001 - followers would wait for ever otherwise
            if self._loop.is_closed():
                return  # and those in it are, too
            problem = StoreError(
                f"Redis at {self._clients.place}: the store cannot receive updates any more: "
                f"{type(error).__name__}: {error}"
            )
            problem.__cause__ = error
        self._fail(problem)

    async def _until_cut_off(self, pool: ConnectionPool) -> StoreError:
        """Listen, over one connection after the other, until it has been lost for too long."""
        while True:
            lost_at = self._clock()
            for pause in _pauses():
                problem = await self._until_lost(pool)
                if self._heard_at > lost_at:
                    await asyncio.sleep(pause)
                    break  # it had worked meanwhile: this is another loss, with time of its own
                if not _may_pass(problem) or self._clock() - lost_at > self._patience:
                    return _failure(problem, self._clients.place, self._patience)
                await asyncio.sleep(pause)

    async def _until_lost(self, pool: ConnectionPool) -> RedisError:
        """Listen over one connection, and return why that ended."""
        try:
            async with asyncio.timeout(self._patience):
                connection = await pool.get_connection()  # type: ignore[no-untyped-call] # so it is
        except TimeoutError:
            return NoAnswer()
        except RedisError as error:
            return error
        sides = [
            asyncio.create_task(self._hear(connection)),
            asyncio.create_task(self._subscribe(connection)),
        ]
        try:
            done, _ = await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for side in sides:
                side.cancel()
            await asyncio.wait(sides)
            await connection.disconnect(nowait=True)
            await pool.release(connection)

    async def _hear(self, connection: AbstractConnection) -> RedisError:
        while True:
            try:
                said = await connection.read_response(
                    disable_decoding=True,
                    timeout=math.inf,
                    disconnect_on_error=False,
                    push_request=True,
                )
            except RedisError as error:
                return error
            self._heard_at = self._clock()
            match said:
                case [b"message", bytes() as channel, bytes() as data]:
                    self._say(channel, data)
                case [b"subscribe", bytes() as channel, _]:
                    self._say(channel, None)
                case _:
                    pass  # that we do not listen to something any more, or that it is still there

    def _say(self, channel: bytes, said: bytes | None) -> None:
        if (wanted := self._wanted.get(channel)) is not None:  # he may have left just now
            self._tell(wanted.run_id, wanted.identity, said)

    async def _subscribe(self, connection: AbstractConnection) -> RedisError:
        """Subscribe to the wanted channels, and check that the server still answers."""
        begun_at = self._clock()
        beat_at = begun_at + _BEAT
        asked: set[bytes] = set()
        while True:
            self._changed.clear()
            wanted = set(self._wanted)
            new, old, asked = wanted - asked, asked - wanted, wanted
            try:
                if new:
                    await connection.send_command("SUBSCRIBE", *new)
                if old:
                    await connection.send_command("UNSUBSCRIBE", *old)
                await self._changed_before(beat_at)
                if self._clock() < beat_at:
                    continue
                await connection.send_command("PING")
            except RedisError as error:
                return error
            beat_at = self._clock() + _BEAT
            if self._clock() - max(self._heard_at, begun_at) > 2 * _BEAT:
                return ConnectionLost("the server stopped answering")
            for channel in asked:
                self._say(channel, None)

    async def _changed_before(self, time: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(time):
                await self._changed.wait()


def _info_of(run_id: str, fields: Sequence[bytes], now: float) -> RunInfo:
    found = dict(_pairs(fields))
    if b"token" in found and found.get(b"format") != FORMAT.encode():
        raise _other_format(run_id, found.get(b"format", b"1").decode(errors="replace"))
    try:
        conversation_id, agent, status, seq, created, updated = (found[name] for name in _NEEDED)
        until = int(found.get(b"until", 0)) / 1000
        is_driven = until > now
        return RunInfo(
            run_id=run_id,
            conversation_id=conversation_id.decode(),
            agent=agent.decode(),
            status=cast("RunStatus", status.decode()),
            seq=int(seq),
            created=float(created),
            updated=float(updated),
            owner=found[b"owner"].decode() if is_driven else None,
            leased_until=until or None,
            pending={call_id: digest.decode() for call_id, digest in _calls(fields, b"pending:")},
            has_commands=_commands_of(fields) not in (None, Commands()),
            user=found[b"user"].decode(),
        )
    except (KeyError, ValueError) as error:
        raise StoreError(
            f"run {run_id!r} in Redis cannot be read. Another program may have changed it"
        ) from error


def _other_format(run_id: str, version: str) -> StoreError:
    return StoreError(
        f"run {run_id!r} has format {version}, written by another version of argstream; this one "
        f"reads format {FORMAT}. Use that version, or delete the run"
    )


def _identity_of(fields: Sequence[bytes]) -> bytes:
    """Return what tells a run from others that had its name, or will have it."""
    return dict(_pairs(fields)).get(b"identity", b"")


def _commands_of(fields: Sequence[bytes]) -> Commands | None:
    """Return what was posted and has not been used; None if the run is over."""
    found = dict(_pairs(fields))
    if found.get(b"status") not in (b"running", b"paused"):
        return None
    reason = found.get(b"stop")
    waiting = dict(_calls(fields, b"decision:"))
    return commands_from_json(waiting, None if reason is None else reason.decode())


def _pairs(fields: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(fields[::2], fields[1::2], strict=True)


def _calls(fields: Sequence[bytes], kind: bytes) -> Iterator[tuple[str, bytes]]:
    for name, value in _pairs(fields):
        if name.startswith(kind):
            yield name[len(kind) :].decode(), value


class _Lists:
    """The lists of the runs of one store."""

    def __init__(self, calls: _Calls, keys: _Keys) -> None:
        self._calls = calls
        self._keys = keys

    async def newest(self, wanted: Wanted, limit: int | None) -> list[RunInfo]:
        sets = self._sets(wanted)
        found: dict[str, RunInfo] = {}
        seen: set[bytes] = set()
        count = _LISTED
        while True:
            # From the first one on, each time: meanwhile others may have come to the front, or are
            # no more, and those behind them are elsewhere.
            _, names = await self._calls.run("newest", [self._keys.index, *sets], [str(count)])
            new = [name for name in names if name not in seen]
            seen.update(new)
            for some in _pages(new):
                for info in await self._infos(some):
                    if wanted.fits(info.status, info.conversation_id, info.user):
                        found[info.run_id] = info
                if limit is not None and len(found) >= limit:
                    break
            if len(names) < count or (limit is not None and len(found) >= limit):
                break
            count *= 2
        ordered = sorted(found.values(), key=lambda info: (info.updated, info.run_id))
        return ordered[::-1][:limit]

    def _sets(self, wanted: Wanted) -> list[bytes]:
        """Return the sets in which a run must be. Runs without a user have no set."""
        sets = (
            []
            if wanted.conversation_id is None
            else [self._keys.conversation(wanted.conversation_id)]
        )
        sets += [self._keys.user(wanted.user)] if wanted.user else []
        return sets + ([self._keys.unfinished] if wanted.status in ("running", "paused") else [])

    async def whose(self, run_id: str) -> bytes:
        """Return the ``_Whose`` of a run as the lists have it; empty if they do not."""
        return (await self._all_whose([run_id]))[0]

    async def older_than(self, seconds: float) -> tuple[bytes, list[tuple[str, bytes]]]:
        """Return the time until which runs are older, and these runs with their ``_Whose``."""
        arguments = [repr(float(seconds))]
        _, till, names = await self._calls.run("oldest", [self._keys.index], arguments)
        found: list[tuple[str, bytes]] = []
        for some in _pages(names):
            run_ids = self._listed(some)
            found += zip(run_ids, await self._all_whose(run_ids), strict=True)
        return till, found

    async def _all_whose(self, run_ids: Sequence[str]) -> list[bytes]:
        _, found = await self._calls.run("whose", [self._keys.whose], run_ids)
        return [value or b"" for value in found]

    async def _infos(self, names: Sequence[bytes]) -> list[RunInfo]:
        """Look at runs together. Those that have expired are removed from the lists."""
        run_ids = self._listed(names)
        if not run_ids:
            return []
        keys = [self._keys.run(run_id) for run_id in run_ids]
        _, now, found = await self._calls.run("look", keys)
        infos, gone = [], []
        for run_id, fields in zip(run_ids, found, strict=True):
            if not fields:
                gone.append(run_id)
                continue
            try:
                infos.append(_info_of(run_id, fields, float(now)))
            except StoreError as error:
                logger.warning("%s. The run is not listed", error)  # but the others are
        if gone:
            await self._tidy(gone)
        return infos

    def _listed(self, names: Sequence[bytes]) -> list[str]:
        """Decode names in the index, except what something else put there."""
        run_ids = []
        for name in names:
            try:
                run_ids.append(name.decode())
            except UnicodeDecodeError:
                index = self._keys.index
                logger.warning("Redis key %r contains %r, which is not a run ID", index, name)
        return run_ids

    async def _tidy(self, gone: Sequence[str]) -> None:
        keys = [self._keys.index, self._keys.unfinished, self._keys.whose]
        arguments: list[str | bytes] = []
        for run_id, told in zip(gone, await self._all_whose(gone), strict=True):
            whose = _Whose.from_json(told) if told else _Whose("", "")
            keys += [self._keys.run(run_id), self._keys.conversation(whose.conversation_id)]
            keys.append(self._keys.user(whose.user))
            arguments += [run_id, told]
        await self._calls.run("tidy", keys, arguments)


def _pages(names: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(names), _LISTED):
        yield names[start : start + _LISTED]


def _nonce() -> str:
    """Return a name for a request, by which a repetition of it is detected."""
    return secrets.token_hex(8)


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(seconds * 1000)))
