"""What is asked of Redis again, since an answer was lost: nobody knows whether it was done.

Nor does anybody know when the first request comes to the server: it may be after the second.
"""

import asyncio
import select
import socket
import socketserver
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from argstream import Approve, Deny
from argstream.errors import AlreadyDecided, RunTaken
from argstream.events import RunResumed
from argstream.runs import RedisStore
from tests.runs.records import SECONDS, asked, begun, paused
from tests.runs.redis_server import shared_server
from tests.runs.redis_stores import opened
from tests.runs.stores import Place, story

STORES = ["redis"]

Step = Callable[[RedisStore], Awaitable[Any]]


class _Connection(socketserver.BaseRequestHandler):
    """Passes on what is said, until an answer is to be lost."""

    def handle(self) -> None:
        way = cast("Way", self.server)
        request = b""
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(str(shared_server().socket))
            while True:
                for side in select.select([self.request, server], [], [])[0]:
                    said = side.recv(65_536)
                    if side is self.request:
                        request = said if b"EVAL" in said else request
                    elif request and not said.startswith(b"-NOSCRIPT") and way.loses(request):
                        return
                    if not said:
                        return
                    (server if side is self.request else self.request).sendall(said)


class Way(socketserver.ThreadingTCPServer):
    """A way to the server on which the answer of one script is lost: the script has run."""

    def __init__(self, prefix: str, number: int, meanwhile: Step | None) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.url = f"redis://127.0.0.1:{self.server_address[1]}"
        self.answers_left = number
        self._prefix = prefix
        self._meanwhile = meanwhile
        self._request = b""

    def loses(self, request: bytes) -> bool:
        """Say whether this is the answer to lose, and let happen what happens meanwhile."""
        self.answers_left -= 1
        if self.answers_left != 0:
            return False
        self._request = request
        if self._meanwhile is not None:
            asyncio.run(self._do(self._meanwhile))
        return True

    async def _do(self, step: Step) -> None:
        async with opened(prefix=self._prefix) as store:
            await step(store)

    def repeat(self) -> None:
        """Have the request come once more, of which the answer was lost; nobody hears of it."""
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(str(shared_server().socket))
            server.sendall(self._request)
            assert server.recv(65_536).startswith(b"*")


@asynccontextmanager
async def losing_an_answer(
    place: Place, number: int = 1, meanwhile: Step | None = None
) -> AsyncIterator[tuple[Way, RedisStore]]:
    """Open a store that loses the so many-th answer; something may happen before it is told."""
    with Way(place.prefix, number, meanwhile) as way:
        thread = threading.Thread(target=way.serve_forever, args=(0.01,))
        thread.start()
        try:
            async with opened(way.url, prefix=place.prefix) as through:
                yield way, through
        finally:
            await asyncio.to_thread(way.shutdown)
            thread.join()
    assert way.answers_left <= 0


async def claim_and_go_on(store: RedisStore) -> None:
    await store.claim("run-1", "you", SECONDS)


# Beginning


@story
async def test_a_run_is_begun_once(store: RedisStore, place: Place) -> None:
    async with losing_an_answer(place) as (_, through):
        writer, claim, _ = await begun(through)
        await through.append(claim, writer.texts("a"))
    assert (await store.info("run-1")).seq == 2


@story
async def test_who_begins_a_run_that_rests_has_begun_it_though_others_have_it_by_now(
    store: RedisStore, place: Place
) -> None:
    async with losing_an_answer(place, meanwhile=claim_and_go_on) as (_, through):
        writer, claim, records = await begun(through, "run-1", asked(), paused())
        with pytest.raises(RunTaken, match="driven by you"):
            await through.append(claim, writer.records(RunResumed("run-1")))
    assert await store.read("run-1") == records


@story
async def test_a_late_request_to_begin_a_run_does_not_change_it(
    store: RedisStore, place: Place
) -> None:
    async with losing_an_answer(place) as (way, through):
        writer, claim, records = await begun(through)
    await store.append(claim, more := writer.records(paused()))
    way.repeat()
    assert (await store.info("run-1")).owner is None
    assert await store.read("run-1") == records + more


# Claiming: the first answer says after which claim it comes


@story
async def test_who_claims_again_does_not_lock_himself_out(store: RedisStore, place: Place) -> None:
    writer, old, _ = await begun(store, "run-1", paused())
    for number in (1, 2):
        async with losing_an_answer(place, number) as (_, through):
            claim = await through.claim("run-1", "you", SECONDS)
            await through.append(claim, writer.records(RunResumed("run-1"), paused()))
        assert claim.token == old.token + 2  # one higher, and the old one was given up
        old = claim


@pytest.mark.parametrize("rests", [True, False])
@story
async def test_a_late_request_does_not_bring_a_claim_back_that_was_given_up(
    rests: bool, store: RedisStore, place: Place
) -> None:
    writer, _, _ = await begun(store, "run-1", paused())
    async with losing_an_answer(place, 2) as (way, through):
        claim = await through.claim("run-1", "me", SECONDS)
    if rests:
        await store.append(claim, writer.records(RunResumed("run-1"), paused()))
    else:
        await store.release(claim)
    way.repeat()
    assert (await store.info("run-1")).owner is None
    other = await store.claim("run-1", "you", SECONDS)
    way.repeat()
    assert (await store.info("run-1")).owner == "you"
    await store.release(other)
    way.repeat()
    assert (await store.info("run-1")).owner is None


@story
async def test_who_was_not_the_first_to_claim_is_told_though_an_answer_was_lost(
    store: RedisStore, place: Place
) -> None:
    await begun(store, "run-1", paused())
    async with losing_an_answer(place, meanwhile=claim_and_go_on) as (_, through):
        with pytest.raises(RunTaken, match="driven by you"):
            await through.claim("run-1", "me", SECONDS)


@story
async def test_a_claim_comes_after_one_that_was_good_for_a_moment(
    store: RedisStore, place: Place
) -> None:
    async def come_and_go(store: RedisStore) -> None:
        await store.release(await store.claim("run-1", "you", SECONDS))

    writer, _, _ = await begun(store, "run-1", paused())
    async with losing_an_answer(place, meanwhile=come_and_go) as (_, through):
        claim = await through.claim("run-1", "me", SECONDS)
    await store.append(claim, writer.texts("a"))


# Writing


@story
async def test_records_are_written_once(store: RedisStore, place: Place) -> None:
    writer, claim, first = await begun(store)
    more = writer.texts("a", "b")
    async with losing_an_answer(place) as (_, through):
        await through.append(claim, more)
    assert await store.read("run-1") == [*first, *more]


@pytest.mark.parametrize("meanwhile", [None, claim_and_go_on])
@story
async def test_the_last_records_are_written_once_though_the_claim_went_with_them(
    meanwhile: Step | None, store: RedisStore, place: Place
) -> None:
    writer, claim, first = await begun(store)
    rests = writer.records(asked(), paused())
    async with losing_an_answer(place, meanwhile=meanwhile) as (_, through):
        await through.append(claim, rests)
    assert await store.read("run-1") == [*first, *rests]
    info = await store.info("run-1")
    assert (info.status, info.owner) == ("paused", "you" if meanwhile else None)


# Deciding and deleting


@story
async def test_who_decides_again_was_not_too_late(store: RedisStore, place: Place) -> None:
    await begun(store, "run-1", asked("c1", "d1"))
    async with losing_an_answer(place) as (_, through):
        await through.decide("run-1", {"c1": Approve(digest="d1")})
        with pytest.raises(AlreadyDecided):
            await through.decide("run-1", {"c1": Deny()})
    assert (await store.posted("run-1")).decisions == {"c1": Approve(digest="d1")}


@story
async def test_a_run_is_deleted_once(store: RedisStore, place: Place) -> None:
    await begun(store, "run-1", paused())
    async with losing_an_answer(place) as (_, through):
        await through.delete("run-1")
    assert await store.runs() == []
