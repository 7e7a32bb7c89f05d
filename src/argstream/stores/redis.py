"""Logs in Redis: for several processes and machines. Needs a server of version 6.2 or newer.

::

    store = RedisStore("redis://localhost:6379", ttl=7 * 24 * 3600)

The records of a run are a stream, under their seqs (see ``_redis_scripts``). What is acknowledged
survives the end of the server if that is told to write it to its disk first: ``appendonly yes`` and
``appendfsync always``. With other settings it loses what its documentation says. It must not throw
keys away when memory runs out: ``maxmemory-policy noeviction``, or one of the ``volatile-…``.

On a cluster, everything must be in one slot: ``prefix="{argstream}"``.
"""

import asyncio
import re
import secrets
from asyncio import AbstractEventLoop
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from argstream.errors import AlreadyDecided, MissingExtra, StoreFailure, UnknownRun, UsageError
from argstream.log import Claim, Posts, RunInfo
from argstream.stores._base import BaseStore
from argstream.stores._batches import Batch
from argstream.stores._checks import Wanted, text
from argstream.stores._refusals import (
    begun_already,
    gap,
    lost,
    nobody_is_asked,
    other_record,
    other_request,
    run_is_over,
)
from argstream.stores._state import FIRST_TOKEN
from argstream.stores._tails import Page

try:
    import redis.asyncio
except ModuleNotFoundError:
    raise MissingExtra("redis", "a store in Redis") from None

from argstream.stores._redis_calls import Calls
from argstream.stores._redis_clients import Clients, soon
from argstream.stores._redis_keys import Keys, Whose
from argstream.stores._redis_lists import Lists
from argstream.stores._redis_news import News
from argstream.stores._redis_runs import identity_of, info_of, posts_of

__all__ = ["RedisStore"]

_LONGEST: Final = 1e9
"""In seconds, some thirty years: the time at which a run is forgotten must not overflow."""
_SEQ: Final = re.compile(rb"[0-9]{1,16}")


class RedisStore(BaseStore):
    """Keeps runs in Redis.

    ``server`` is its address (``redis://``, ``rediss://``, ``unix://``), or a client of redis-py:
    then the store can be used in one event loop only, and does not close it. Runs whose keys begin
    with another ``prefix`` are none of its. A run that is over is forgotten after ``ttl`` seconds,
    by the server itself; one that is not over never is. While the connection is lost, it is tried
    for ``patience`` seconds to go on, before a ``StoreFailure`` is raised.
    """

    def __init__(
        self,
        server: "str | redis.asyncio.Redis",
        *,
        prefix: str = "argstream",
        ttl: float | None = None,
        patience: float = 10.0,
        **options: Any,
    ) -> None:
        super().__init__()
        if not prefix:
            raise UsageError("the keys of a store need a prefix, such as 'argstream'")
        if ttl is not None and not 0 < ttl <= _LONGEST:
            raise UsageError(f"runs cannot be kept for {ttl} seconds: None keeps them for ever")
        if not patience > 0:
            raise UsageError(f"the store needs some patience, not {patience} seconds")
        self._clients = Clients(server, options)
        self._calls = Calls(self._clients, patience)
        self._prefix = text(prefix, "the prefix of a store's keys")
        self._keys = Keys(self._prefix.encode(), self._clients)
        self._lists = Lists(self._calls, self._keys)
        self._ttl = "" if ttl is None else _milliseconds(ttl)
        self._patience = patience
        self._news: dict[AbstractEventLoop, News] = {}

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Open the store at an address; ``options`` may be those of redis-py's client, too."""
        return cls(url, **options)

    def __repr__(self) -> str:
        """Say where it is, but not with which password."""
        return f"<RedisStore at {self._clients.place}, prefix {self._prefix!r}>"

    # Who drives a run

    async def _begin(self, batch: Batch, owner: str, seconds: float) -> Claim:
        whose = Whose(batch.session_id, batch.user)
        keys = [*self._keys.all_of(batch.run_id), *self._keys.sets(whose)]
        arguments: list[str | bytes] = [owner, _nonce(), _milliseconds(seconds), *whose]
        arguments += [whose.to_json(), batch.agent, repr(batch.created), *self._arguments(batch)]
        answer = await self._calls.run("begin", keys, arguments)
        if answer[0] != b"done":
            raise begun_already(batch.run_id)
        self._written(batch)
        return Claim(batch.run_id, owner, FIRST_TOKEN)

    async def _claim(self, run_id: str, owner: str, seconds: float) -> Claim:
        arguments, answer = (owner, _nonce(), _milliseconds(seconds)), [b"after", b""]
        while answer[0] == b"after":  # another claim, which was good for a moment
            answer = await self._run("claim", run_id, *arguments, answer[1])
        return Claim(run_id, owner, int(self._done(run_id, answer)[1]))

    async def _renew(self, claim: Claim, seconds: float) -> None:
        answer = await self._run("renew", claim.run_id, str(claim.token), _milliseconds(seconds))
        self._done(claim.run_id, answer)

    async def _release(self, claim: Claim) -> None:
        await self._run("release", claim.run_id, str(claim.token))

    async def _append(self, claim: Claim, batch: Batch) -> None:
        answer = await self._run("append", batch.run_id, str(claim.token), *self._arguments(batch))
        match answer:
            case [b"gap", last]:
                raise gap(batch.run_id, int(last), batch.first)
            case [b"other"]:
                raise other_record(batch.run_id, batch.first)
            case _:
                self._done(batch.run_id, answer)
        self._written(batch)

    async def _reopen(self, claim: Claim, call_id: str) -> None:
        answer = await self._run("reopen", claim.run_id, str(claim.token), call_id, _nonce())
        self._done(claim.run_id, answer)
        self._posted_to(claim.run_id)

    def _arguments(self, batch: Batch) -> list[str | bytes]:
        """Give a batch as the scripts want it."""
        arguments: list[str | bytes] = [batch.run_id, str(batch.first), repr(batch.updated)]
        arguments += [batch.status or "", self._ttl, str(len(batch.asked))]
        for call_id, digest in batch.asked:
            arguments += [call_id, "" if digest is None else f"={digest}"]
        return arguments + batch.lines

    # Who follows it

    async def _page(self, run_id: str, after: int, limit: int) -> Page:
        return await self._page_of(run_id, None, after, limit)

    async def _page_of(self, run_id: str, created: float | None, after: int, limit: int) -> Page:
        answer = await self._run("read", run_id, str(after), str(limit))
        _, last, begun_at, identity, joined = self._done(run_id, answer)
        if created not in (None, float(begun_at)):
            raise UnknownRun(run_id)
        self._see(run_id, identity)
        lines: list[bytes] = joined.split(b"\n") if joined else []
        if not lines and int(last) > after:
            raise StoreFailure(
                f"Redis at {self._clients.place}: the log of the run {run_id!r} is gone. Did the "
                "server throw it away? Set its maxmemory-policy to noeviction"
            )
        return lines, int(last) > after + len(lines)

    # Anybody

    async def _decide(self, run_id: str, decisions: Mapping[str, tuple[bytes, str]]) -> None:
        arguments: list[str | bytes] = [_nonce()]
        for call_id, (line, digest) in decisions.items():
            arguments += [call_id, digest, line]
        answer = await self._run("decide", run_id, *arguments)
        match answer:
            case [b"decided", call_id]:
                raise AlreadyDecided(call_id.decode())
            case [b"unasked", call_id]:
                raise nobody_is_asked(run_id, call_id.decode())
            case [b"digest", call_id]:
                raise other_request(call_id.decode())
            case _:
                self._done(run_id, answer)
        self._posted_to(run_id)

    async def _stop(self, run_id: str, reason: str) -> None:
        self._done(run_id, await self._run("stop", run_id, reason))
        self._posted_to(run_id)

    async def _posts(self, run_id: str) -> Posts | None:
        _, fields = await self._look_at(run_id)
        return posts_of(fields)

    async def _info(self, run_id: str) -> RunInfo:
        now, fields = await self._look_at(run_id)
        return info_of(run_id, fields, now)

    async def _runs(self, wanted: Wanted, limit: int | None) -> list[RunInfo]:
        return await self._lists.newest(wanted, limit)

    async def _delete(self, run_id: str) -> None:
        answer = [b"moved"]
        while answer == [b"moved"]:  # it has become another run
            told = await self._lists.whose(run_id)
            answer = await self._forget("delete", run_id, told)
        self._done(run_id, answer)

    async def _expire(self, seconds: float, *, unfinished: bool) -> list[str]:
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
        """Forget a run, and take it from the sets that it is in, as was told before."""
        sets = self._keys.sets(Whose.from_json(told) if told else None)
        keys = [*self._keys.all_of(run_id), *sets]
        return await self._calls.run(name, keys, [run_id, told, *arguments])

    async def _aclose(self) -> None:
        for loop, news in list(self._news.items()):
            soon(loop, news.end)
        self._news.clear()
        await self._clients.close()

    # What happens elsewhere

    def _watch(self, run_id: str) -> None:
        loop = asyncio.get_running_loop()
        news = self._news.get(loop)
        if news is None:
            for other in [other for other in self._news if other.is_closed()]:
                self._news.pop(other, None)
            news = News(self._clients, self._patience, self._heard, self._cut_off)
            self._news[loop] = news
        news.want(run_id, self._keys.channel(run_id))

    def _unwatch(self, run_id: str) -> None:
        loop = asyncio.get_running_loop()
        if (news := self._news.get(loop)) is not None:
            news.leave(self._keys.channel(run_id))
            if not news.is_wanted:
                self._news.pop(loop, None)

    def _heard(self, run_id: str, identity: bytes | None, said: bytes | None) -> None:
        """Pass on what was told of a run: see ``_redis_scripts`` for its form."""
        match (said or b"").split(b"\n"):
            case [b"posts", of] if of == identity:
                self._posted_to(run_id)
            case [b"posts" | b"" as kind, of, first, *lines] if of == identity and _SEQ.fullmatch(
                first
            ):
                if kind:
                    self._posted_to(run_id)
                if lines:
                    self._tails.push(run_id, int(first), lines)
                else:
                    self._may_have_grown(run_id)
            case _:
                # It is gone, or another run has its name, or who knows: whoever follows it sees.
                self._may_have_grown(run_id)
                self._posted_to(run_id)

    def _cut_off(self, problem: StoreFailure) -> None:
        self._tails.fail_here(lambda: StoreFailure(*problem.args))

    def _see(self, run_id: str, identity: bytes) -> None:
        """Take note which run it is that is followed here, if it is."""
        if (news := self._news.get(asyncio.get_running_loop())) is not None:
            news.see(self._keys.channel(run_id), identity)

    # The server

    async def _run(self, name: str, run_id: str, *arguments: str | bytes) -> list[Any]:
        return await self._calls.run(name, self._keys.all_of(run_id), arguments)

    async def _look_at(self, run_id: str) -> tuple[float, Sequence[bytes]]:
        _, now, found = await self._calls.run("look", [self._keys.run(run_id)])
        if not found[0]:
            raise UnknownRun(run_id)
        self._see(run_id, identity_of(found[0]))
        return float(now), found[0]

    def _done(self, run_id: str, answer: list[Any]) -> list[Any]:
        """Give an answer that says that it was done; raise what another one says."""
        match answer:
            case [b"done", *_]:
                return answer
            case [b"unknown"]:
                raise UnknownRun(run_id)
            case [b"taken", owner, milliseconds]:
                raise lost(run_id, owner.decode(), int(milliseconds) / 1000)
            case [b"over", status]:
                raise run_is_over(run_id, status.decode())
            case _:
                raise StoreFailure(f"Redis at {self._clients.place} said {answer[0]!r}")


def _nonce() -> str:
    """Make a name for a request, by which it is known if it must be made again."""
    return secrets.token_hex(8)


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(seconds * 1000)))
