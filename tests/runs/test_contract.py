"""The contract that every store implements: records, leases, commands, queries, deletion."""

import asyncio
import errno
import math
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from argstream import Approve, Deny, errors, runs
from argstream import events as ev
from argstream.errors import AlreadyDecidedError, RunBusyError, RunNotFoundError, UsageError
from argstream.events import Event
from argstream.runs import Commands, Launch, Lease, Owner, Record, SqliteStore, Store
from tests.runs.records import SECONDS, Writer, begin_run, decided, paused, requested
from tests.runs.stores import Place, follow_all, store_test, without_redis


@store_test
async def test_records_are_read_after_a_seq_up_to_a_limit(store: Store) -> None:
    texts = [ev.TextDelta(str(number), 0) for number in range(1_200)]
    writer, lease, records = await begin_run(store, "run-1", *texts)
    records += (more := writer.texts("b", "c"))
    await store.append(lease, more)
    assert await store.read("run-1") == records
    assert await store.read("run-1", 3) == records[3:]
    assert await store.read("run-1", 3, 2) == records[3:5]
    assert await store.read("run-1", 100, 600) == records[100:700]
    for after in (len(records), 5_000, 2**53, 2**63 - 1, 2**63, 2**70):
        assert await store.read("run-1", after) == []
    assert await store.read("run-1", 1_201, limit=2**70) == more
    assert len(await store.runs(limit=2**70)) == 1


@store_test
async def test_large_records_are_read_whole(store: Store) -> None:
    _, _, records = await begin_run(store, "run-1", *[ev.TextDelta("x" * 900_000, 0)] * 12)
    assert await store.read("run-1") == records
    assert await store.read("run-1", 1, 11) == records[1:12]


@store_test
async def test_stored_values_are_decoded_json_and_copies(store: Store) -> None:
    writer, lease, _ = await begin_run(store)
    written: dict[str, Any] = {"to": ["ada"]}
    call = ev.ToolCallCompleted("c1", "send", written, (1, {2: "x"}))
    async with aclosing(store.follow("run-1", 1)) as following:
        await store.append(lease, writer.records(call))
        followed = await anext(following)
    written["to"].append("eve")
    for record in (followed, *await store.read("run-1", 1), *await store.read("run-1", 1)):
        event: Any = record.event
        assert (event.arguments, event.result) == ({"to": ["ada"]}, [1, {"2": "x"}])
        event.arguments["to"].append("eve")


@store_test
async def test_any_text_is_stored_unchanged(store: Store) -> None:
    text = "\0 \u2028 \x85 \U0001f600 \ufffd 'quoted' \"twice\" {} %s ? \r\n"
    run_id = f"run {text}"
    writer = Writer(run_id, conversation_id=text, user=text)
    records = [*writer.started(), *writer.texts(text)]
    await store.create(records, text, SECONDS)
    assert await store.read(run_id) == records
    await store.stop(run_id, text)
    assert (await store.commands(run_id)).stop_reason == text
    for found in (await store.runs(conversation_id=text), await store.runs(user=text)):
        assert [(info.owner, info.user) for info in found] == [(text, text)]
    for run_id in ("a}:{b", "{a}", "}{", "%7Ba%7D", "100%", "a:b", "\n", "é 🙂", "*[?]"):
        writer, lease, records = await begin_run(store, run_id)
        followed = asyncio.create_task(follow_all(store, run_id))
        await asyncio.sleep(0.001)
        await store.append(lease, end := writer.completed())
        assert await followed == records + end


@store_test
async def test_run_begins_once_and_with_seq_1(store: Store) -> None:
    writer = Writer()
    records = writer.started()
    with pytest.raises(UsageError, match="seq 1"):
        await store.create(writer.texts("a"), "me", SECONDS)
    with pytest.raises(UsageError, match="at least one"):
        await store.create([], "me", SECONDS)
    await store.create(records, "me", SECONDS)
    with pytest.raises(UsageError, match="already"):
        await begin_run(store, "run-1", ev.TextDelta("other", 0))
    assert await store.read("run-1") == records


def writer_after(seq: int) -> Writer:
    writer = Writer()
    writer.seq = seq
    return writer


def result(value: Any) -> list[Event]:
    return [ev.TextDelta("a", 0), ev.ToolCallCompleted("c1", "f", {}, value)]


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
UNWRITABLE = r"tool_call_completed.*JSON"
REJECTED: dict[str, tuple[Callable[[Writer], list[Record]], str]] = {
    "a gap": (lambda writer: writer.texts("a", "b")[1:], "expects seq 4, not 5"),
    "a gap within": (lambda writer: writer.texts("a", "b", "c")[::2], "6 follows 4"),
    "other records": (lambda _: writer_after(1).texts("a", "other"), "other records from seq 2 on"),
    "partly new": (lambda _: writer_after(2).texts("b", "new"), "expects seq 4, not 3"),
    "after the end": (lambda w: [*w.completed(), *w.texts("more")], "no record can follow"),
    "another run": (lambda _: Writer("run-2").texts("a"), "must be of run 'run-1', not 'run-2'"),
    "no JSON": (lambda writer: writer.records(*result(object)), UNWRITABLE),
    "endless": (lambda writer: writer.records(*result(ENDLESS)), UNWRITABLE),
}


@store_test
async def test_rejected_batch_writes_nothing(store: Store) -> None:
    _, lease, records = await begin_run(store, "run-1", ev.TextDelta("a", 0), ev.TextDelta("b", 0))
    for make, reason in REJECTED.values():
        with pytest.raises(UsageError, match=reason):
            await store.append(lease, make(writer_after(3)))
        assert await store.read("run-1") == records


async def assert_lease_lost(store: Store, lease: Lease, records: list[Record], why: str) -> None:
    for attempt in (
        store.append(lease, records),
        store.renew(lease, SECONDS),
        store.reopen(lease, "c1"),
    ):
        with pytest.raises(errors.LeaseLostError, match=why):
            await attempt


@store_test
async def test_lease_excludes_others_until_expiry(place: Place, store: Store, other: Store) -> None:
    writer = Writer()
    old = await store.create(writer.started(), "me", 0.05)
    await store.renew(old, SECONDS)
    info = await store.info("run-1")
    assert info.leased_until == pytest.approx(place.now() + SECONDS, abs=10)
    await place.advance(0.1)
    with pytest.raises(RunBusyError, match="driven by me") as raised:
        await other.acquire("run-1", "you", SECONDS)
    assert raised.value.owner == "me"
    assert SECONDS - 10 < raised.value.seconds <= SECONDS
    await store.renew(old, 0.05)
    await place.advance(0.1)
    new = await other.acquire("run-1", "you", SECONDS)
    assert new == Lease("run-1", "you", new.token, seq=1)
    assert new.token > old.token
    texts = writer.texts("a")
    await assert_lease_lost(store, old, texts, "you drives the run")
    with pytest.raises(RunBusyError, match="driven by you"):
        await store.acquire("run-1", "me", SECONDS)
    await store.release(old)
    await other.append(new, texts)
    await other.renew(new, SECONDS)


@store_test
async def test_run_with_an_expired_lease_is_abandoned_until_it_is_renewed(
    place: Place, store: Store
) -> None:
    writer, _, _ = await begin_run(store, "run-1", requested(), paused())
    lease = await store.acquire("run-1", "you", 0.05)
    await store.append(lease, writer.records(ev.RunResumed("run-1")))
    await place.advance(0.1)
    info = await store.info("run-1")
    assert (info.status, info.owner, info.is_abandoned) == ("running", None, True)
    await store.append(lease, writer.texts("a"))
    await store.renew(lease, SECONDS)
    with pytest.raises(RunBusyError):
        await store.acquire("run-1", "me", SECONDS)


@without_redis
@store_test
async def test_setting_the_clock_back_prolongs_no_lease(place: Place, store: Store) -> None:
    await begin_run(store)
    await place.advance(-3_600)
    assert (await store.info("run-1")).owner is None
    lease = await store.acquire("run-1", "you", SECONDS)
    assert (await store.info("run-1")).owner == "you"
    await place.advance(-1)
    await store.renew(lease, SECONDS)
    assert (await store.info("run-1")).owner == "you"


@store_test
async def test_follower_that_sees_a_pause_can_acquire_the_lease(store: Store, other: Store) -> None:
    writer, lease, _ = await begin_run(store)

    async def take_over() -> Lease:
        async for record in other.follow("run-1"):
            if isinstance(record.event, ev.RunPaused):
                break
        return await other.acquire("run-1", "you", SECONDS)

    taken = asyncio.create_task(take_over())
    await store.append(lease, writer.records(requested(), paused()))
    assert (await taken).owner == "you"


@store_test
async def test_batch_that_released_the_lease_may_be_repeated(store: Store) -> None:
    writer, lease, records = await begin_run(store)
    rests = writer.records(requested(), paused())
    await store.append(lease, rests)
    info = await store.info("run-1")
    assert (info.owner, info.leased_until, info.is_abandoned) == (None, None, False)
    await assert_lease_lost(store, lease, writer_after(info.seq).texts("late"), "was lost")
    await store.append(lease, rests)
    renewed = await store.acquire("run-1", "you", SECONDS)
    await store.append(lease, rests)
    await store.release(lease)
    assert (await store.info("run-1")).owner == "you"
    rest = [*writer.records(ev.RunResumed("run-1")), *writer.completed()]
    await store.append(renewed, rest)
    for batch in (records, rests, rest):
        await store.append(lease, batch)
    info = await store.info("run-1")
    assert (info.status, info.owner, dict(info.pending)) == ("completed", None, {"c1": "d1"})
    assert await store.read("run-1") == [*records, *rests, *rest]


@store_test
async def test_dead_owner_on_this_host_loses_its_lease_at_once(store: Store) -> None:
    writer = Writer()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
        owner = replace(Owner.here(), name="worker", pid=process.pid, started=ticks)
        await store.create(writer.started(), owner, SECONDS)
        with pytest.raises(RunBusyError, match="driven by worker"):
            await store.acquire("run-1", "you", SECONDS)
        assert not (await store.info("run-1")).is_abandoned
        process.kill()
    assert (await store.info("run-1")).is_abandoned
    assert (await store.acquire("run-1", "you", SECONDS)).token > 1


def test_owner_is_dead_only_if_its_process_is_surely_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Owner.here()
    assert here.started
    assert not here.is_dead
    assert replace(here, started="1").is_dead, "another process has its PID"
    assert [replace(here, pid=pid).is_dead for pid in (2**22 + 1, 2**31)] == [True, False]
    for error in (OSError(errno.EMFILE, "no descriptor is free"), FileNotFoundError("hidden")):
        monkeypatch.setattr(Path, "read_text", Mock(side_effect=error))
        assert not here.is_dead


@pytest.mark.parametrize("unknown", ["boot_id", "pid_namespace"])
@store_test
async def test_owner_elsewhere_keeps_its_lease_until_it_expires(
    place: Place, store: Store, unknown: str
) -> None:
    owner = replace(Owner.here(), pid=2**22, started="1", **{unknown: "another"})
    await store.create(Writer().started(), owner, 0.3)
    with pytest.raises(RunBusyError):
        await store.acquire("run-1", "you", SECONDS)
    await place.advance(0.4)
    await store.acquire("run-1", "you", SECONDS)


def test_wrong_time_of_day_takes_over_no_driven_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def acquire(hours: float) -> None:
        now = time.time() + 3_600 * hours
        monkeypatch.setattr("time.time", lambda: now)
        async with SqliteStore(tmp_path / "runs.db") as store:
            with pytest.raises(RunBusyError) as raised:
                await store.acquire("run-1", "you", SECONDS)
            assert 0 < raised.value.seconds <= SECONDS

    async def main() -> None:
        async with SqliteStore(tmp_path / "runs.db") as store:
            await begin_run(store)
            await acquire(1)
            await acquire(-2)

    asyncio.run(main())


@store_test
async def test_how_a_run_began_is_kept(store: Store, other: Store) -> None:
    launch = Launch("anthropic:m", ("files", "shell"), "/srv", "/srv/policy.toml", "Be brief", 7)
    started = Writer().records(ev.RunStarted("run-1", "x" * 500, replaces="run-0"))
    await store.create(started, "me", SECONDS, launch)
    for info in (await other.info("run-1"), *await other.runs()):
        assert (info.prompt, info.replaces, info.launch) == ("x" * 200, "run-0", launch)


async def begin_in(store: Store, run_id: str, conversation_id: str, prompt: str, **at: Any) -> None:
    writer = Writer(run_id, conversation_id=conversation_id, **at)
    started = writer.records(ev.RunStarted(run_id, prompt, user=writer.user))
    lease = await store.create(started, "me", SECONDS)
    await store.append(lease, writer.completed())


@store_test
async def test_conversations_have_a_title_and_are_listed_newest_first(
    store: Store, other: Store
) -> None:
    await begin_in(store, "run-1", "a", "\n Find whales. \nIn the sea.", time=1.0, user="ada")
    await begin_in(store, "run-2", "b", "word " * 40, time=2.0, user="ada")
    await begin_in(store, "run-3", "a", "And dolphins.", time=3.0, user="ada")
    await begin_in(store, "run-4", "a", "Of another user.", time=4.0)
    found = await other.conversations(user="ada")
    assert found[0] == runs.ConversationInfo("a", "ada", "Find whales.", created=1.0, updated=3.0)
    assert [one.conversation_id for one in found] == ["a", "b"]
    assert len(found[1].title) <= 80
    assert found[1].title.endswith("word…")
    assert await other.conversations(user="ada", limit=1) == found[:1]
    assert (await other.conversations())[0].title == "Of another user."


@store_test
async def test_conversation_is_renamed_deleted_and_restored(store: Store, other: Store) -> None:
    await begin_in(store, "run-1", "a", "Go", user="ada")
    await store.rename_conversation("a", "Whales", user="ada")
    await store.delete_conversation("a", user="ada")
    assert await other.conversations() == []
    [deleted] = await other.conversations(deleted=True)
    assert deleted.title == "Whales"
    assert deleted.deleted_at == pytest.approx(time.time(), abs=10)
    await other.restore_conversation("a", user="ada")
    assert [one.deleted_at for one in await store.conversations(user="ada")] == [None]
    await store.delete_conversation("a", user="ada")
    await begin_in(store, "run-2", "a", "More", user="ada")
    assert [one.title for one in await other.conversations()] == ["Whales"], "it goes on"
    for user in ("", "bob"):
        with pytest.raises(errors.ConversationNotFoundError, match="'a'"):
            await store.rename_conversation("a", "Mine", user=user)


@store_test
async def test_conversation_ends_with_its_last_run(store: Store) -> None:
    for run_id in ("run-1", "run-2"):
        await begin_in(store, run_id, "a", "Go")
    await store.delete("run-1")
    assert len(await store.conversations()) == 1
    await store.delete("run-2")
    assert await store.conversations(deleted=True) == []


@store_test
async def test_decision_is_kept_until_its_event_is_written(store: Store, other: Store) -> None:
    writer, lease, _ = await begin_run(store, "run-1", requested("c1"), requested("c2"))
    edit = Approve(arguments={"to": ["bob"]}, always="conversation", digest="d1", reason="fine")
    first = time.time()
    await other.decide("run-1", {"c1": edit})
    second = time.time()
    await other.decide("run-1", {"c2": Deny("no")})
    posted = await store.commands("run-1")
    assert posted.decisions == {"c1": edit, "c2": Deny("no")}
    assert first <= posted.decided_at["c1"] <= second <= posted.decided_at["c2"] <= time.time()
    assert (await store.info("run-1")).pending == {"c1": "d1", "c2": "d1"}
    await store.append(lease, writer.records(decided("c1")))
    posted = await store.commands("run-1")
    assert (posted.decisions, [*posted.decided_at]) == ({"c2": Deny("no")}, ["c2"])
    assert (await store.info("run-1")).pending == {"c2": "d1"}
    with pytest.raises(AlreadyDecidedError):
        await store.decide("run-1", {"c1": Deny()})


@store_test
async def test_first_decision_counts_and_decisions_are_atomic(store: Store) -> None:
    writer, lease, _ = await begin_run(store, "run-1", requested("c1"), requested("c2", "d2"))
    await store.decide("run-1", {"c2": Approve(digest="d2")})
    with pytest.raises(AlreadyDecidedError, match="c2") as raised:
        await store.decide("run-1", {"c1": Deny(), "c2": Deny()})
    assert raised.value.call_id == "c2"
    with pytest.raises(UsageError, match="'c3'"):
        await store.decide("run-1", {"c1": Deny(), "c3": Deny()})
    with pytest.raises(UsageError, match="digest"):
        await store.decide("run-1", {"c1": Approve(digest="d2")})
    await store.append(lease, writer.records(requested("c1", "d1"), requested("c2", "d2")))
    assert (await store.commands("run-1")).decisions == {"c2": Approve(digest="d2")}
    await store.append(lease, writer.records(requested("c2", "d3")))
    assert await store.commands("run-1") == Commands(), "a changed request needs a new decision"


@store_test
async def test_call_is_decided_again_only_if_reopened_or_requested_again(store: Store) -> None:
    writer, lease, _ = await begin_run(store, "run-1", requested())
    await store.decide("run-1", {"c1": Approve(arguments={"too": "bad"})})
    await store.reopen(lease, "c1")
    assert await store.commands("run-1") == Commands()
    await store.decide("run-1", {"c1": Deny()})
    assert (await store.commands("run-1")).decisions == {"c1": Deny()}
    await store.append(lease, writer.records(decided()))
    await store.reopen(lease, "c1")  # too late
    await store.reopen(lease, "no such call")
    with pytest.raises(AlreadyDecidedError):
        await store.decide("run-1", {"c1": Approve()})
    await store.append(lease, writer.records(requested()))
    await store.decide("run-1", {"c1": Approve()})
    # A used decision does not apply to the same request again.
    await store.append(lease, writer.records(decided(), requested()))
    assert await store.commands("run-1") == Commands()
    await store.decide("run-1", {"c1": Deny()})
    with pytest.raises(AlreadyDecidedError):
        await store.decide("run-1", {"c1": Deny()})


@store_test
async def test_newest_runs_are_listed_first_up_to_a_limit(store: Store, other: Store) -> None:
    users = ("ada", "", "ada", "bob")
    writers = [
        Writer(f"run-{number}", conversation_id=f"{number % 2}", time=1.0 + number, user=user)
        for number, user in enumerate(users)
    ]
    leases = [await store.create(writer.started(), "me", SECONDS) for writer in writers]
    writers[0].time = 5_000.0
    await store.append(leases[0], writers[0].texts("a"))
    queries: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["run-0", "run-3", "run-2", "run-1"]),
        ({"limit": 2}, ["run-0", "run-3"]),
        ({"user": "ada"}, ["run-0", "run-2"]),
        ({"user": ""}, ["run-1"]),
        ({"conversation_id": "1", "status": "running", "limit": 1}, ["run-3"]),
    ]
    for options, expected in queries:
        runs = await other.runs(**options)
        assert [info.run_id for info in runs] == expected, options
        assert runs == [await store.info(info.run_id) for info in runs]
    with pytest.raises(UsageError, match="unknown status 'busy'"):
        await store.runs(status="busy")  # type: ignore[arg-type]


@store_test
async def test_deleted_run_is_gone_in_other_processes(store: Store, other: Store) -> None:
    _, lease, _ = await begin_run(store, "run-1", *[ev.TextDelta("old", 0)] * 3)
    assert (await other.snapshot("run-1")).seq == (await store.snapshot("run-1")).seq == 4
    async with aclosing(other.follow("run-1", 3)) as following:
        await anext(following)
        await store.release(lease)
        await store.delete("run-1")
        with pytest.raises(RunNotFoundError):
            await asyncio.wait_for(anext(following), 5)
    for one in (store, other):
        assert await one.runs() == []
        for attempt in (one.read("run-1"), one.snapshot("run-1")):
            with pytest.raises(RunNotFoundError):
                await attempt


def every_request(store: Store, lease: Lease, writer: Writer) -> list[Awaitable[object]]:
    run_id = lease.run_id
    return [
        store.acquire(run_id, "me", SECONDS),
        store.renew(lease, SECONDS),
        store.append(lease, writer.texts("a")),
        store.reopen(lease, "c1"),
        store.read(run_id),
        store.snapshot(run_id),
        store.decide(run_id, {"c1": Approve()}),
        store.decide(run_id, {}),
        store.stop(run_id),
        store.commands(run_id),
        store.info(run_id),
        store.delete(run_id),
        anext(store.follow(run_id)),
        anext(store.watch(run_id)),
        anext(store.watch_commands(run_id)),
    ]


@store_test
async def test_every_request_about_an_unknown_run_raises(store: Store) -> None:
    lease = Lease("no", "me", 1)
    for attempt in every_request(store, lease, Writer("no")):
        with pytest.raises(RunNotFoundError, match="no run 'no'"):
            await attempt
    await store.release(lease)


@store_test
async def test_every_request_to_a_closed_store_raises(store: Store) -> None:
    writer, lease, _ = await begin_run(store)
    await store.aclose()
    begins = store.create(Writer("r2").started(), "me", SECONDS)
    others = [begins, store.release(lease), store.runs(), store.delete_older_than(1)]
    for attempt in (*others, *every_request(store, lease, writer)):
        with pytest.raises(errors.StoreError, match="closed"):
            await attempt
    await store.aclose()


LONE = "\ud800"  # a lone surrogate cannot be encoded
LONG = "x" * 1_001
CLAIM = Lease("run-1", "me", 1)


def begin(store: Store, run_id: str = "r", user: str = "") -> Awaitable[object]:
    return store.create(Writer(run_id, user=user).started(), "me", 5)


def record(seq: int, time: float = 1.0) -> list[Record]:
    return [Record(seq, time, "run-1", "s", "agent", ev.TextDelta("a", 0))]


def edit(value: object) -> dict[str, Approve]:
    return {"c1": Approve(arguments={"limit": value})}


# Values of wrong types are passed as users without a type checker could.
NONE: Any = None
FIVE: Any = 5
DECISION: Any = {"c1": True}
INVALID: dict[str, Callable[[Store], Awaitable[object]]] = {
    "surrogate in an owner": lambda store: store.acquire("run-1", LONE, 5),
    "surrogate in a stop reason": lambda store: store.stop("run-1", LONE),
    "surrogate in a session": lambda store: store.runs(conversation_id=LONE),
    "surrogate in a user": lambda store: store.runs(user=LONE),
    "surrogate in the user of a new run": lambda store: begin(store, user=LONE),
    "surrogate in a new run": lambda store: begin(store, LONE),
    "surrogate in a call id": lambda store: store.decide("run-1", {LONE: Approve()}),
    "surrogate in a digest": lambda store: store.decide("run-1", {"c1": Approve(digest=LONE)}),
    "surrogate to reopen": lambda store: store.reopen(CLAIM, LONE),
    "long user": lambda store: begin(store, user=LONG),
    "runs of a long user": lambda store: store.runs(user=LONG),
    "user that is a number": lambda store: store.runs(user=FIVE),
    "empty id of a new run": lambda store: begin(store, ""),
    "long run id": lambda store: begin(store, LONG),
    "empty owner": lambda store: store.acquire("run-1", "", 5),
    "lease for 0 s": lambda store: store.renew(CLAIM, 0),
    "lease for -1 s": lambda store: store.renew(CLAIM, -1),
    "lease for ever": lambda store: store.renew(CLAIM, math.inf),
    "lease for 1e300 s": lambda store: store.renew(CLAIM, 1e300),
    "lease for nan s": lambda store: store.renew(CLAIM, math.nan),
    "huge token": lambda store: store.renew(Lease("run-1", "me", 2**70), 5),
    "no lease": lambda store: store.release(NONE),
    "read after -1": lambda store: store.read("run-1", -1),
    "read 0 records": lambda store: store.read("run-1", limit=0),
    "list 0 runs": lambda store: store.runs(limit=0),
    "expire after nan s": lambda store: store.delete_older_than(math.nan),
    "expire after -1 s": lambda store: store.delete_older_than(-1),
    "no decisions": lambda store: store.decide("run-1", NONE),
    "decision that is a bool": lambda store: store.decide("run-1", DECISION),
    "negative seq": lambda store: store.append(CLAIM, record(-1)),
    "huge seq": lambda store: store.append(CLAIM, record(2**70)),
    "nan as a time": lambda store: store.append(CLAIM, record(3, time=math.nan)),
    "infinity in an edit": lambda store: store.decide("run-1", edit(math.inf)),
    "nan in an edit": lambda store: store.decide("run-1", edit({"a": [math.nan]})),
    "bytes in an edit": lambda store: store.decide("run-1", edit(b"ab")),
    "set in an edit": lambda store: store.decide("run-1", edit({"a"})),
    "reason that is a number": lambda store: store.decide("run-1", {"c1": Deny(FIVE)}),
}


@store_test
async def test_invalid_arguments_raise_and_change_nothing(store: Store) -> None:
    writer, lease, records = await begin_run(store, "run-1", requested())
    assert lease == replace(CLAIM, seq=2)
    for what, attempt in INVALID.items():
        with pytest.raises(UsageError):
            pytest.fail(f"{what}: {await asyncio.wait_for(attempt(store), 5)}")
    for run_id in (LONE, "", FIVE):
        for request in every_request(store, Lease(run_id, "me", 1), writer):
            with pytest.raises(UsageError):
                await request
    writer.seq = 2
    await store.append(lease, more := writer.texts("a"))
    assert await store.read("run-1") == records + more
    assert await store.commands("run-1") == Commands()
    await store.decide("run-1", edit([1, 1.5, None, True, "é"]))
