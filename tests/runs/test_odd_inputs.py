"""What no store can mean anything by is refused, by all stores alike, and harms nobody."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from argstream import Approve, Deny
from argstream.errors import UnknownRun, UsageError
from argstream.events import TextDelta
from argstream.runs import (
    Claim,
    Posts,
    Record,
    Store,
)
from tests.runs.records import SECONDS, Writer, asked, begun
from tests.runs.stores import Place, story

HALF = "\ud800"
CLAIM = Claim("run-1", "me", 1)


async def first(following: AsyncGenerator[Any, None]) -> object:
    async with aclosing(following):
        return await anext(following)


REFUSED: dict[str, Callable[[Store], Awaitable[object]]] = {
    "no text in a run id": lambda store: store.info(HALF),
    "no text to read": lambda store: store.read(HALF),
    "no text to follow": lambda store: first(store.follow(HALF)),
    "no text to join": lambda store: first(store.join(HALF)),
    "no text to listen to": lambda store: first(store.posts(HALF)),
    "no text to delete": lambda store: store.delete(HALF),
    "no text in an owner": lambda store: store.claim("run-1", HALF, 5),
    "no text in a reason": lambda store: store.stop("run-1", HALF),
    "no text in a session": lambda store: store.runs(session_id=HALF),
    "no text in a user": lambda store: store.runs(user=HALF),
    "no text in whose is begun": lambda store: store.begin(
        Writer("r", user=HALF).started(), "me", 5
    ),
    "a long user": lambda store: store.begin(Writer("r", user="x" * 1_001).started(), "me", 5),
    "runs of a long user": lambda store: store.runs(user="x" * 1_001),
    "a user that is a number": lambda store: store.runs(user=5),  # type: ignore[arg-type] # it is meant
    "no text in a call": lambda store: store.decide("run-1", {HALF: Approve()}),
    "no text in a digest": lambda store: store.decide("run-1", {"c1": Approve(digest=HALF)}),
    "no text in what is reopened": lambda store: store.reopen(CLAIM, HALF),
    "no text in what is begun": lambda store: store.begin(Writer(HALF).started(), "me", 5),
    "no id": lambda store: store.info(""),
    "no id for what is begun": lambda store: store.begin(Writer("").started(), "me", 5),
    "a long id": lambda store: store.begin(Writer("x" * 1_001).started(), "me", 5),
    "no owner": lambda store: store.claim("run-1", "", 5),
    "an id that is a number": lambda store: store.info(5),  # type: ignore[arg-type] # it is meant
    "a claim for no time": lambda store: store.renew(CLAIM, 0),
    "a claim for less": lambda store: store.renew(CLAIM, -1),
    "a claim for ever": lambda store: store.renew(CLAIM, math.inf),
    "a claim for an age": lambda store: store.renew(CLAIM, 1e300),
    "a claim for who knows": lambda store: store.renew(CLAIM, math.nan),
    "a token that none has": lambda store: store.renew(Claim("run-1", "me", 2**70), 5),
    "no claim": lambda store: store.release(None),  # type: ignore[arg-type] # it is meant
    "a place before the first": lambda store: store.read("run-1", -1),
    "no records": lambda store: store.read("run-1", limit=0),
    "no runs": lambda store: store.runs(limit=0),
    "an age that is none": lambda store: store.expire(math.nan),
    "a negative age": lambda store: store.expire(-1),
    "no decisions": lambda store: store.decide("run-1", None),  # type: ignore[arg-type] # as above
    "a decision that is none": lambda store: store.decide("run-1", {"c1": True}),  # type: ignore[dict-item] # as above
    "a negative seq": lambda store: store.append(CLAIM, [record(-1)]),
    "a huge seq": lambda store: store.append(CLAIM, [record(2**70)]),
    "no time": lambda store: store.append(CLAIM, [record(3, time=math.nan)]),
    "infinity in an edit": lambda store: store.decide("run-1", edit(math.inf)),
    "not a number in an edit": lambda store: store.decide("run-1", edit({"a": [math.nan]})),
    "bytes in an edit": lambda store: store.decide("run-1", edit(b"ab")),
    "a set in an edit": lambda store: store.decide("run-1", edit({"a"})),
    "a decision that cannot be read": lambda store: store.decide("run-1", {"c1": Deny(5)}),  # type: ignore[arg-type] # as above
}


def record(seq: int, time: float = 1.0) -> Record:
    return Record(seq, time, "run-1", "s", "agent", TextDelta("a", 0))


def edit(value: object) -> dict[str, Approve]:
    return {"c1": Approve(arguments={"limit": value})}


@story
async def test_what_cannot_be_meant_is_refused_and_changes_nothing(store: Store) -> None:
    writer, claim, records = await begun(store, "run-1", asked())
    assert claim == CLAIM
    for what, ask in REFUSED.items():
        with pytest.raises(UsageError):
            pytest.fail(f"{what}: {await asyncio.wait_for(ask(store), 5)}")
    await store.append(claim, more := writer.texts("a"))
    assert await store.read("run-1") == records + more
    assert await store.posted("run-1") == Posts()
    await store.decide("run-1", edit([1, 1.5, None, True, "é"]))


@story
async def test_who_is_ahead_of_any_log_gets_nothing(store: Store) -> None:
    await begun(store)
    for after in (2**53, 2**63 - 1, 2**63, 2**70):
        assert await store.read("run-1", after) == []
    assert len(await store.read("run-1", limit=2**70)) == 1
    assert len(await store.runs(limit=2**70)) == 1


# Names that are given twice


@story
async def test_a_follower_does_not_go_on_with_another_run_of_the_same_name(
    store: Store, other: Store
) -> None:
    _, claim, _ = await begun(store)
    async with aclosing(other.follow("run-1")) as following:
        await anext(following)
        await store.release(claim)
        await store.delete("run-1")
        await begun(store, "run-1", TextDelta("new", 0), TextDelta("run", 0))
        with pytest.raises(UnknownRun):
            await asyncio.wait_for(anext(following), 5)
        async with aclosing(other.follow("run-1", 2)) as anew:
            assert (await anext(anew)).event == TextDelta("run", 0)


@pytest.mark.parametrize(
    "place", ["memory", "sqlite"], indirect=True
)  # the clock of Redis is its own
@story
async def test_a_claim_does_not_last_longer_because_the_clock_is_set_back(
    place: Place, store: Store
) -> None:
    await begun(store)
    await place.later(-3_600)
    assert (await store.info("run-1")).owner is None
    claim = await store.claim("run-1", "you", SECONDS)
    assert (await store.info("run-1")).owner == "you"
    await place.later(-1)
    await store.renew(claim, SECONDS)
    assert (await store.info("run-1")).owner == "you"
