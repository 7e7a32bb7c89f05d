"""What every store does with runs: written by one, read by others."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from argstream import Approve, Deny
from argstream.errors import AlreadyDecided, RunTaken, StoreFailure, UnknownRun, UsageError
from argstream.events import (
    Event,
    RunCompleted,
    RunPaused,
    RunResumed,
    RunStopped,
    TextDelta,
    ToolCallCompleted,
)
from argstream.runs import Claim, Posts, Record, Store
from tests.runs.records import SECONDS, Writer, asked, begun, decided, folded, paused
from tests.runs.stores import Place, story

# Records


@story
async def test_records_are_read_after_a_seq_up_to_a_limit(store: Store) -> None:
    writer, claim, records = await begun(
        store, "run-1", *(TextDelta(str(n), 0) for n in range(1_200))
    )
    records += (more := writer.texts("b", "c"))
    await store.append(claim, more)
    assert await store.read("run-1") == records
    assert await store.read("run-1", 3) == records[3:]
    assert await store.read("run-1", 3, 2) == records[3:5]
    assert await store.read("run-1", 100, 600) == records[100:700]
    assert await store.read("run-1", len(records)) == await store.read("run-1", 5_000) == []


@story
async def test_large_records_are_read_whole(store: Store) -> None:
    _, _, records = await begun(store, "run-1", *[TextDelta("x" * 900_000, 0)] * 12)
    assert await store.read("run-1") == records
    assert await store.read("run-1", 1, 11) == records[1:12]


@story
async def test_stored_values_are_copies(store: Store) -> None:
    written: dict[str, Any] = {"to": ["ada"]}
    await begun(store, "run-1", ToolCallCompleted("c1", "send", written, "ok"))
    written["to"].append("eve")
    for _ in range(2):
        (record,) = await store.read("run-1", 1)
        assert isinstance(record.event, ToolCallCompleted)
        assert record.event.arguments == {"to": ["ada"]}
        record.event.arguments["to"].append("eve")


@story
async def test_a_result_comes_back_as_json_has_it(store: Store) -> None:
    writer, claim, _ = await begun(store)
    following = store.follow("run-1", 1)
    await store.append(claim, writer.records(ToolCallCompleted("c1", "f", {}, (1, {2: "x"}))))
    followed = await anext(following)
    await following.aclose()
    assert isinstance(followed.event, ToolCallCompleted)
    assert followed.event.result == [1, {"2": "x"}]
    assert await store.read("run-1", 1) == [followed]


@story
async def test_text_of_any_kind_is_kept(store: Store) -> None:
    text = "\0 \u2028 \x85 \U0001f600 \ufffd 'quoted' \"twice\" {} %s ? \r\n"
    run_id = f"run {text}"
    writer = Writer(run_id, session_id=text, user=text)
    records = [*writer.started(), *writer.texts(text)]
    await store.begin(records, text, SECONDS)
    assert await store.read(run_id) == records
    await store.stop(run_id, text)
    assert (await store.posted(run_id)).stop_reason == text
    for found in (await store.runs(session_id=text), await store.runs(user=text)):
        assert [(info.owner, info.user) for info in found] == [(text, text)]


@story
async def test_a_run_begins_once_with_its_first_record(store: Store) -> None:
    writer = Writer()
    records = writer.started()
    with pytest.raises(UsageError, match="seq 1"):
        await store.begin(writer.texts("a"), "me", SECONDS)
    with pytest.raises(UsageError, match="at least one"):
        await store.begin([], "me", SECONDS)
    await store.begin(records, "me", SECONDS)
    with pytest.raises(UsageError, match="already"):
        await begun(store, "run-1", TextDelta("other", 0))
    assert await store.read("run-1") == records


# Appending

ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
_UNWRITABLE = r"tool_call_completed.*JSON"
REFUSED: dict[str, tuple[Callable[[Writer], list[Record]], str]] = {
    "a gap": (lambda writer: writer.texts("a", "b")[1:], "goes on with seq 4, not 5"),
    "a gap within": (lambda writer: writer.texts("a", "b", "c")[::2], "after 4 came 6"),
    "other records": (lambda _: _after(1).texts("a", "other"), "other records from seq 2 on"),
    "partly new": (lambda _: _after(2).texts("b", "new"), "goes on with seq 4, not 3"),
    "after the end": (
        lambda writer: [*writer.completed(), *writer.texts("more")],
        "nothing can follow",
    ),
    "another run": (lambda _: Writer("run-2").texts("a"), "'run-2' is not one of 'run-1'"),
    "no JSON": (
        lambda writer: writer.records(TextDelta("a", 0), ToolCallCompleted("c1", "f", {}, object)),
        _UNWRITABLE,
    ),
    "endless": (lambda w: w.records(ToolCallCompleted("c1", "f", {}, ENDLESS)), _UNWRITABLE),
}


def _after(seq: int) -> Writer:
    writer = Writer()
    writer.seq = seq
    return writer


@pytest.mark.parametrize("what", REFUSED)
@story
async def test_refused_records_leave_nothing_behind(store: Store, what: str) -> None:
    writer, claim, records = await begun(store, "run-1", TextDelta("a", 0), TextDelta("b", 0))
    make, reason = REFUSED[what]
    with pytest.raises(UsageError, match=reason):
        await store.append(claim, make(writer))
    assert await store.read("run-1") == records


@story
async def test_writing_the_same_again_is_let_be(store: Store) -> None:
    writer, claim, records = await begun(store)
    some, last = writer.texts("a", "b"), writer.completed()
    for batch in (some, some, last, last, some):
        await store.append(claim, batch)
    assert await store.read("run-1") == [*records, *some, *last]


@story
async def test_nothing_follows_the_end(store: Store) -> None:
    writer, claim, records = await begun(store)
    end = writer.completed()
    await store.append(claim, end)
    more = writer.texts("more")
    with pytest.raises(RunTaken):
        await store.append(claim, more)
    anew = await store.claim("run-1", "you", SECONDS)
    with pytest.raises(UsageError, match="is over"):
        await store.append(anew, more)
    assert await store.read("run-1") == records + end


# Claims


async def _is_lost(store: Store, claim: Claim, records: list[Record], *, why: str) -> None:
    """Check that nothing can be done with a claim any more."""
    for refused in (
        store.append(claim, records),
        store.renew(claim, SECONDS),
        store.reopen(claim, "c1"),
    ):
        with pytest.raises(RunTaken, match=why):
            await refused


@story
async def test_a_driven_run_cannot_be_claimed(store: Store, other: Store) -> None:
    await begun(store)
    with pytest.raises(RunTaken, match="driven by me") as raised:
        await other.claim("run-1", "you", SECONDS)
    assert raised.value.owner == "me"
    assert SECONDS - 10 < raised.value.seconds <= SECONDS


@story
async def test_an_expired_claim_can_be_taken(place: Place, store: Store, other: Store) -> None:
    writer = Writer()
    old = await store.begin(writer.started(), "me", 0.05)
    await place.later(0.1)
    new = await other.claim("run-1", "you", SECONDS)
    assert new == Claim("run-1", "you", new.token)
    assert new.token > old.token
    texts = writer.texts("a")
    await _is_lost(store, old, texts, why="driven by you")
    with pytest.raises(RunTaken, match="driven by you"):
        await store.claim("run-1", "me", SECONDS)
    await store.release(old)
    await other.append(new, texts)
    await other.renew(new, SECONDS)


@story
async def test_an_expired_claim_that_was_not_taken_goes_on(place: Place, store: Store) -> None:
    writer = Writer()
    claim = await store.begin(writer.started(), "me", 0.05)
    await place.later(0.1)
    await store.append(claim, writer.texts("a"))
    await store.append(claim, writer.records(asked()))
    await store.renew(claim, SECONDS)
    with pytest.raises(RunTaken):
        await store.claim("run-1", "you", SECONDS)


@story
async def test_a_claim_is_kept_by_renewing_it(place: Place, store: Store) -> None:
    claim = await store.begin(Writer().started(), "me", 0.05)
    await store.renew(claim, SECONDS)
    await place.later(0.1)
    with pytest.raises(RunTaken):
        await store.claim("run-1", "you", SECONDS)


@story
async def test_a_released_claim_can_be_taken_at_once_and_is_good_no_more(store: Store) -> None:
    writer, old, _ = await begun(store)
    await store.release(old)
    with pytest.raises(RunTaken, match="is out of date") as raised:
        await store.append(old, writer.texts("a"))
    assert (raised.value.owner, raised.value.seconds) == ("", 0)
    new = await store.claim("run-1", "you", SECONDS)
    assert new.token > old.token
    await store.release(old)
    assert (await store.info("run-1")).owner == "you"


@story
async def test_a_lost_claim_may_write_again_what_it_has_written_and_nothing_else(
    store: Store,
) -> None:
    writer, old, records = await begun(store)
    texts = writer.texts("a", "b")
    await store.append(old, texts)
    await store.release(old)
    await store.claim("run-1", "you", SECONDS)
    await store.append(old, texts)
    await store.append(old, texts[1:])
    writer.seq = 2
    for refused in (
        writer.texts("other"),
        [*texts[1:], *writer.texts("half of it is new")],
        writer.texts("new"),
    ):
        with pytest.raises(RunTaken, match="driven by you"):
            await store.append(old, refused)
    assert await store.read("run-1") == records + texts


# Rest: a run that is paused or over has no claim

RESTS: dict[str, list[Event]] = {
    "paused": [asked(), paused()],
    "over": [asked(), RunStopped("enough")],
    "resumed and paused again": [asked(), paused(), RunResumed("run-1"), paused()],
}


@pytest.mark.parametrize("with_the_first", [False, True])
@pytest.mark.parametrize("rest", RESTS)
@story
async def test_a_run_that_rests_gives_up_its_claim(
    store: Store, other: Store, rest: str, with_the_first: bool
) -> None:
    if with_the_first:
        _, old, _ = await begun(store, "run-1", *RESTS[rest])
    else:
        writer, old, _ = await begun(store)
        await store.append(old, writer.records(*RESTS[rest]))
    assert old == Claim("run-1", "me", 1)
    info = await store.info("run-1")
    assert (info.owner, info.claimed_until, info.is_abandoned) == (None, None, False)
    await _is_lost(store, old, _after(info.seq).texts("late"), why="is out of date")
    new = await other.claim("run-1", "you", SECONDS)
    assert new.token > old.token
    await store.release(old)
    assert (await store.info("run-1")).owner == "you"


@story
async def test_a_run_that_has_paused_and_gone_on_in_one_batch_keeps_its_claim(store: Store) -> None:
    writer, claim, _ = await begun(store, "run-1", paused(), RunResumed("run-1"))
    await store.append(claim, writer.records(asked(), paused(), RunResumed("run-1")))
    assert (await store.info("run-1")).owner == "me"
    await store.append(claim, writer.texts("a"))


@story
async def test_a_claim_on_a_paused_run_is_kept_until_it_rests_again(store: Store) -> None:
    writer, _, _ = await begun(store, "run-1", asked(), paused())
    claim = await store.claim("run-1", "you", SECONDS)
    await store.append(claim, writer.records(decided()))
    info = await store.info("run-1")
    assert (info.status, info.owner) == ("paused", "you")
    await store.append(claim, writer.records(RunResumed("run-1")))
    await store.append(claim, writer.completed())
    assert (await store.info("run-1")).owner is None


@story
async def test_a_follower_that_sees_a_pause_can_claim_the_run_at_once(
    store: Store, other: Store
) -> None:
    writer, claim, _ = await begun(store)

    async def take_up() -> Claim:
        async for record in other.follow("run-1"):
            if isinstance(record.event, RunPaused):
                break
        return await other.claim("run-1", "you", SECONDS)

    taken_up = asyncio.create_task(take_up())
    await store.append(claim, writer.records(asked(), paused()))
    assert (await taken_up).owner == "you"


@story
async def test_the_last_batch_may_be_written_again_though_the_claim_is_gone(store: Store) -> None:
    writer, claim, records = await begun(store)
    rests = writer.records(asked(), paused())
    await store.append(claim, rests)
    await store.append(claim, rests)
    anew = await store.claim("run-1", "you", SECONDS)
    await store.append(claim, rests)
    assert (await store.info("run-1")).owner == "you"
    goes_on = [*writer.records(RunResumed("run-1")), *writer.completed()]
    await store.append(anew, goes_on)
    for batch in (records, rests, goes_on):
        await store.append(claim, batch)
    info = await store.info("run-1")
    assert (info.status, info.owner, dict(info.pending)) == ("completed", None, {"c1": "d1"})
    assert await store.read("run-1") == [*records, *rests, *goes_on]


# Decisions


@story
async def test_a_decision_is_kept_with_its_time_until_its_event_is_written(
    store: Store, other: Store
) -> None:
    writer, claim, _ = await begun(store, "run-1", asked("c1"), asked("c2"))
    edit = Approve(arguments={"to": ["bob"]}, always="session", digest="d1", reason="fine")
    first = time.time()
    await other.decide("run-1", {"c1": edit})
    second = time.time()
    await other.decide("run-1", {"c2": Deny("no")})
    posted = await store.posted("run-1")
    assert posted.decisions == {"c1": edit, "c2": Deny("no")}
    assert first <= posted.times["c1"] <= second <= posted.times["c2"] <= time.time()
    assert (await store.info("run-1")).pending == {"c1": "d1", "c2": "d1"}
    await store.append(claim, writer.records(decided("c1")))
    posted = await store.posted("run-1")
    assert (posted.decisions, [*posted.times]) == ({"c2": Deny("no")}, ["c2"])
    assert (await store.info("run-1")).pending == {"c2": "d1"}
    with pytest.raises(AlreadyDecided):
        await store.decide("run-1", {"c1": Deny()})


@story
async def test_the_first_decision_counts_and_all_are_taken_or_none(store: Store) -> None:
    await begun(store, "run-1", asked("c1"), asked("c2", "d2"))
    await store.decide("run-1", {"c2": Approve(digest="d2")})
    with pytest.raises(AlreadyDecided, match="c2") as raised:
        await store.decide("run-1", {"c1": Deny(), "c2": Deny()})
    assert raised.value.call_id == "c2"
    with pytest.raises(UsageError, match="nobody is asked about the call 'c3'"):
        await store.decide("run-1", {"c1": Deny(), "c3": Deny()})
    with pytest.raises(UsageError, match="digest"):
        await store.decide("run-1", {"c1": Approve(digest="d2")})
    assert (await store.posted("run-1")).decisions == {"c2": Approve(digest="d2")}


@story
async def test_a_reopened_call_can_be_decided_on_again(store: Store) -> None:
    _, claim, _ = await begun(store, "run-1", asked())
    await store.decide("run-1", {"c1": Approve(arguments={"too": "bad"})})
    await store.reopen(claim, "c1")
    assert await store.posted("run-1") == Posts()
    await store.decide("run-1", {"c1": Deny()})
    assert (await store.posted("run-1")).decisions == {"c1": Deny()}


@story
async def test_a_decision_of_the_driver_is_final_until_the_call_is_asked_about_again(
    store: Store,
) -> None:
    writer, claim, _ = await begun(store, "run-1", asked(), decided())
    await store.reopen(claim, "c1")
    await store.reopen(claim, "no such call")
    with pytest.raises(AlreadyDecided):
        await store.decide("run-1", {"c1": Approve()})
    await store.append(claim, writer.records(asked("c1", "d2")))
    await store.decide("run-1", {"c1": Approve(digest="d2")})


@story
async def test_a_used_decision_is_gone_though_the_same_request_comes_again(store: Store) -> None:
    writer, claim, _ = await begun(store, "run-1", asked())
    await store.decide("run-1", {"c1": Approve()})
    await store.append(claim, writer.records(decided(), asked()))
    assert await store.posted("run-1") == Posts()
    await store.decide("run-1", {"c1": Deny()})
    with pytest.raises(AlreadyDecided):
        await store.decide("run-1", {"c1": Deny()})


@story
async def test_a_decision_on_another_request_is_dropped_one_on_the_same_is_kept(
    store: Store,
) -> None:
    writer, claim, _ = await begun(store, "run-1", asked("c1", "d1"), asked("c2", "d1"))
    await store.decide("run-1", {"c1": Approve(), "c2": Approve()})
    await store.append(claim, writer.records(asked("c1", "d2"), asked("c2", "d1")))
    assert (await store.posted("run-1")).decisions == {"c2": Approve()}


@story
async def test_there_is_nothing_to_decide_in_a_run_that_is_over(store: Store) -> None:
    await begun(store, "run-1", asked("c1"), asked("c2"), decided("c1"), RunStopped())
    with pytest.raises(UsageError, match="nobody is asked"):
        await store.decide("run-1", {"c2": Approve()})
    with pytest.raises(AlreadyDecided):
        await store.decide("run-1", {"c1": Approve()})


# Stopping


@pytest.mark.parametrize("reason", ["enough", ""])
@story
async def test_the_first_reason_to_stop_counts(store: Store, other: Store, reason: str) -> None:
    await begun(store, "run-1", paused())
    await other.stop("run-1", reason)
    await store.stop("run-1", "too late")
    assert await store.posted("run-1") == Posts(stop_reason=reason)


@story
async def test_a_run_that_is_over_cannot_be_stopped_and_nothing_waits_in_it(store: Store) -> None:
    writer, claim, _ = await begun(store, "run-1", asked())
    await store.stop("run-1", "enough")
    await store.decide("run-1", {"c1": Approve()})
    await store.append(claim, writer.records(RunStopped("enough")))
    with pytest.raises(UsageError, match="is over: it is stopped"):
        await store.stop("run-1")
    assert await store.posted("run-1") == Posts()


# What is known of runs


@story
async def test_info_says_how_far_a_run_has_come(place: Place, store: Store) -> None:
    writer, claim, records = await begun(store, session_id="talk")
    info = await store.info("run-1")
    assert (info.run_id, info.session_id, info.agent) == ("run-1", "talk", "agent")
    assert (info.status, info.seq, info.is_over) == ("running", 1, False)
    assert info.created == info.updated == records[0].time
    assert info.owner == "me"
    assert info.claimed_until == pytest.approx(place.now() + SECONDS, abs=10)
    end = writer.records(TextDelta("a", 0), RunCompleted("b"))
    await store.append(claim, end)
    info = await store.info("run-1")
    assert (info.status, info.seq, info.is_over) == ("completed", 3, True)
    assert (info.created, info.updated) == (records[0].time, end[-1].time)
    assert (info.owner, info.claimed_until) == (None, None)


@story
async def test_info_says_whether_a_run_was_abandoned(place: Place, store: Store) -> None:
    writer, _, _ = await begun(store, "run-1", asked(), paused())
    claim = await store.claim("run-1", "you", 0.05)
    await store.append(claim, writer.records(RunResumed("run-1")))
    await place.later(0.1)
    info = await store.info("run-1")
    assert (info.status, info.owner, info.is_abandoned) == ("running", None, True)


async def _some_runs(store: Store) -> None:
    """Begin five runs, one after the other, and one before that has only just been written to."""
    old = Writer("old", session_id="b", time=1.0, user="ada")
    claim = await store.begin(old.started(), "me", SECONDS)
    for number, (session, user, *end) in enumerate(
        [
            ("a", "ada"),
            ("b", "", paused()),
            ("a", "bob", RunStopped()),
            ("b", "ada"),
            ("a", ""),
        ]
    ):
        assert isinstance(session, str)
        assert isinstance(user, str)
        writer = Writer(f"run-{number}", session_id=session, time=1_000.0 + number, user=user)
        events = [event for event in end if not isinstance(event, str)]
        await store.begin([*writer.started(), *writer.records(*events)], "me", SECONDS)
    assert [info.run_id for info in await store.runs()][-1] == "old"
    old.time = 5_000.0
    await store.append(claim, old.texts("a"))


CHOSEN: list[tuple[dict[str, Any], str]] = [
    ({}, "old 4 3 2 1 0"),
    ({"limit": 2}, "old 4"),
    ({"status": "paused"}, "1"),
    ({"status": "failed"}, ""),
    ({"session_id": "a"}, "4 2 0"),
    ({"session_id": "b"}, "old 3 1"),
    ({"session_id": "none"}, ""),
    ({"status": "running", "session_id": "a", "limit": 1}, "4"),
    ({"user": "ada"}, "old 3 0"),
    ({"user": "ada", "limit": 1}, "old"),
    ({"user": ""}, "4 1"),
    ({"user": "eve"}, ""),
    ({"user": "bob", "status": "stopped"}, "2"),
    ({"user": "ada", "session_id": "b"}, "old 3"),
    ({"user": "bob", "session_id": "b"}, ""),
]


@story
async def test_runs_are_chosen_by_what_they_are_the_newest_first(
    store: Store, other: Store
) -> None:
    await _some_runs(store)
    for options, expected in CHOSEN:
        runs = await other.runs(**options)
        found = " ".join(info.run_id.removeprefix("run-") for info in runs)
        assert found == expected, options
        assert runs == [await store.info(info.run_id) for info in runs]
    with pytest.raises(UsageError, match="no run is 'busy'"):
        await store.runs(status="busy")  # type: ignore[arg-type]


@story
async def test_a_name_that_is_free_again_may_be_taken_by_another_user(store: Store) -> None:
    for user, other in (("ada", "bob"), ("bob", "ada")):
        claim = await store.begin(Writer(user=user).started(), "me", SECONDS)
        assert [info.user for info in await store.runs(user=user)] == [user]
        assert await store.runs(user=other) == []
        await store.release(claim)
        await store.delete("run-1")
        assert await store.runs(user=user) == []


# Forgetting


@story
async def test_the_name_of_a_deleted_run_is_free_for_another(store: Store, other: Store) -> None:
    old: list[Event] = [asked(), decided(), TextDelta("old", 0)]
    _, claim, _ = await begun(store, "run-1", *old)
    assert (await other.snapshot("run-1")).seq == (await store.snapshot("run-1")).seq == 4
    await store.release(claim)
    await store.delete("run-1")
    with pytest.raises(UnknownRun):
        await store.read("run-1")
    assert await store.runs() == []
    _, _, records = await begun(store, "run-1", asked())
    assert await store.read("run-1") == records
    for one in (store, other):
        snapshot = await one.snapshot("run-1")
        assert (snapshot.seq, snapshot.event) == (2, folded(records))
    await store.decide("run-1", {"c1": Approve()})


@story
async def test_a_driven_run_is_not_deleted_unless_it_is_over(store: Store) -> None:
    writer, claim, records = await begun(store)
    with pytest.raises(RunTaken, match="driven by me"):
        await store.delete("run-1")
    assert await store.read("run-1") == records
    await store.append(claim, writer.completed())
    await store.delete("run-1")
    with pytest.raises(UnknownRun):
        await store.info("run-1")


@story
async def test_old_runs_expire_that_are_over_or_if_wanted_not_driven(
    place: Place, store: Store
) -> None:
    now = place.now()
    runs: list[tuple[str, float, float, Event]] = [
        ("over, new", 5, SECONDS, RunStopped()),
        ("over, old", 50, SECONDS, RunStopped()),
        ("over, older", 500, SECONDS, RunCompleted("x")),
        ("abandoned, new", 5, 0.05, asked()),
        ("abandoned", 50, 0.05, asked()),
        ("paused", 50, SECONDS, paused()),
        ("driven", 500, SECONDS, asked()),
    ]
    for run_id, age, seconds, last in runs:
        writer = Writer(run_id, time=now - age)
        await store.begin([*writer.started(), *writer.records(last)], "me", seconds)
    await place.later(0.1)
    assert [await store.expire(20), await store.expire(20)] == [2, 0]
    assert await store.expire(20, unfinished=True) == 2
    left = {info.run_id for info in await store.runs()}
    assert left == {"over, new", "abandoned, new", "driven"}
    assert await store.expire(0) == 1


# What goes wrong


@story
async def test_a_run_that_is_not_there_is_unknown_to_all(store: Store) -> None:
    claim = Claim("no", "me", 1)
    for asking in (
        store.claim("no", "me", SECONDS),
        store.renew(claim, SECONDS),
        store.append(claim, Writer("no").started()),
        store.reopen(claim, "c1"),
        store.read("no"),
        store.snapshot("no"),
        store.decide("no", {"c1": Approve()}),
        store.decide("no", {}),
        store.stop("no"),
        store.posted("no"),
        store.info("no"),
        store.delete("no"),
        anext(store.follow("no")),
        anext(store.join("no")),
        anext(store.posts("no")),
    ):
        with pytest.raises(UnknownRun, match="no run 'no'"):
            await asking
    await store.release(claim)


@story
async def test_a_store_that_is_closed_says_so(store: Store) -> None:
    writer, claim, _ = await begun(store)
    await store.aclose()
    for asking in (
        store.begin(Writer("r2").started(), "me", SECONDS),
        store.claim("run-1", "me", SECONDS),
        store.renew(claim, SECONDS),
        store.release(claim),
        store.append(claim, writer.texts("a")),
        store.read("run-1"),
        store.snapshot("run-1"),
        store.stop("run-1"),
        store.posted("run-1"),
        store.info("run-1"),
        store.runs(),
        store.delete("run-1"),
        store.expire(1),
        anext(store.follow("run-1")),
        anext(store.posts("run-1")),
    ):
        with pytest.raises(StoreFailure, match="closed"):
            await asking
    await store.aclose()
