"""What every store does with runs: written by one, read by others."""

import asyncio
import time
from typing import Any

import pytest

from argstream.decisions import Approve, Deny
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
from argstream.log import Claim, Posts, Record, Store
from tests.stores.records import SECONDS, Writer, asked, begun, decided, paused
from tests.stores.stores import Place, contract
from tests.stores.test_following import folded

# Records


@contract
async def test_what_was_written_is_read(place: Place) -> None:
    writer, claim, records = await begun(place.store, "run-1", TextDelta("a", 0))
    more = writer.texts("b", "c")
    await place.store.append(claim, more)
    assert await place.store.read("run-1") == records + more


@contract
async def test_one_can_read_after_a_seq_and_so_many(place: Place) -> None:
    _, _, records = await begun(place.store, "run-1", *(TextDelta(str(n), 0) for n in range(1_200)))
    assert await place.store.read("run-1", 3) == records[3:]
    assert await place.store.read("run-1", 3, 2) == records[3:5]
    assert await place.store.read("run-1", 100, 600) == records[100:700]
    assert await place.store.read("run-1", 1_201) == []
    assert await place.store.read("run-1", 5_000) == []


@contract
async def test_large_records_are_read_whole(place: Place) -> None:
    _, _, records = await begun(place.store, "run-1", *[TextDelta("x" * 900_000, 0)] * 12)
    assert await place.store.read("run-1") == records
    assert await place.store.read("run-1", 1, 11) == records[1:12]


@pytest.mark.parametrize(("after", "limit"), [(-1, None), (0, 0), (0, -3)])
def test_a_place_that_cannot_be_is_refused(place: Place, after: int, limit: int | None) -> None:
    async def story(place: Place) -> None:
        await begun(place.store)
        with pytest.raises(UsageError):
            await place.store.read("run-1", after, limit)

    place.play(story)


@contract
async def test_what_is_stored_cannot_be_changed_by_who_has_it(place: Place) -> None:
    written: dict[str, Any] = {"to": ["ada"]}
    await begun(place.store, "run-1", ToolCallCompleted("c1", "send", written, "ok"))
    written["to"].append("eve")
    for _ in range(2):
        (record,) = await place.store.read("run-1", 1)
        assert isinstance(record.event, ToolCallCompleted)
        assert record.event.arguments == {"to": ["ada"]}
        record.event.arguments["to"].append("eve")


@contract
async def test_a_result_comes_back_as_json_has_it(place: Place) -> None:
    writer, claim, _ = await begun(place.store)
    following = place.store.follow("run-1", 1)
    await place.store.append(claim, writer.records(ToolCallCompleted("c1", "f", {}, (1, {2: "x"}))))
    followed = await anext(following)
    await following.aclose()
    assert isinstance(followed.event, ToolCallCompleted)
    assert followed.event.result == [1, {"2": "x"}]
    assert await place.store.read("run-1", 1) == [followed]


@contract
async def test_what_json_cannot_say_is_refused_and_nothing_is_written(place: Place) -> None:
    writer, claim, records = await begun(place.store)
    with pytest.raises(UsageError, match=r"tool_call_completed.*JSON"):
        await place.store.append(
            claim,
            writer.records(TextDelta("a", 0), ToolCallCompleted("c1", "f", {}, object())),
        )
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UsageError, match=r"tool_call_completed.*JSON"):
        await place.store.append(claim, writer.records(ToolCallCompleted("c1", "f", {}, endless)))
    assert await place.store.read("run-1") == records


@contract
async def test_text_of_any_kind_is_kept(place: Place) -> None:
    text = "\0 \u2028 \x85 \U0001f600 \ufffd 'quoted' \"twice\" {} %s ? \r\n"
    run_id = f"run {text}"
    writer = Writer(run_id, session_id=text, user=text)
    records = [*writer.started(), *writer.texts(text)]
    await place.store.begin(records, text, SECONDS)
    assert await place.store.read(run_id) == records
    await place.store.stop(run_id, text)
    assert (await place.store.posted(run_id)).stop_reason == text
    for found in (await place.store.runs(session_id=text), await place.store.runs(user=text)):
        assert [(info.owner, info.user) for info in found] == [(text, text)]


# Beginning


@contract
async def test_a_run_begins_once(place: Place) -> None:
    _, _, records = await begun(place.store)
    with pytest.raises(UsageError, match="already"):
        await begun(place.store, "run-1", TextDelta("other", 0))
    assert await place.store.read("run-1") == records


@contract
async def test_a_run_begins_with_its_first_record(place: Place) -> None:
    writer = Writer()
    first = writer.started()
    with pytest.raises(UsageError, match="seq 1"):
        await place.store.begin(writer.texts("a"), "me", SECONDS)
    with pytest.raises(UsageError, match="at least one"):
        await place.store.begin([], "me", SECONDS)
    await place.store.begin(first, "me", SECONDS)


@contract
async def test_a_claim_is_for_some_time(place: Place) -> None:
    with pytest.raises(UsageError, match="seconds"):
        await place.store.begin(Writer().started(), "me", 0)


# Appending


@contract
async def test_a_gap_is_refused(place: Place) -> None:
    writer, claim, records = await begun(place.store)
    writer.seq += 1
    with pytest.raises(UsageError, match="goes on with seq 2, not 3"):
        await place.store.append(claim, writer.texts("a"))
    assert await place.store.read("run-1") == records


@contract
async def test_a_gap_within_a_batch_is_refused(place: Place) -> None:
    writer, claim, records = await begun(place.store)
    first, _, third = writer.texts("a", "b", "c")
    with pytest.raises(UsageError, match="after 2 came 4"):
        await place.store.append(claim, [first, third])
    assert await place.store.read("run-1") == records


@contract
async def test_writing_the_same_again_is_let_be(place: Place) -> None:
    writer, claim, records = await begun(place.store)
    some = writer.texts("a", "b")
    last = writer.completed()
    for _ in range(2):
        await place.store.append(claim, some)
    for _ in range(2):
        await place.store.append(claim, last)
    await place.store.append(claim, some)
    assert await place.store.read("run-1") == [*records, *some, *last]


@contract
async def test_writing_something_else_in_its_place_is_refused(place: Place) -> None:
    writer, claim, records = await begun(place.store, "run-1", TextDelta("a", 0), TextDelta("b", 0))
    writer.seq = 1
    with pytest.raises(UsageError, match="other records from seq 2 on"):
        await place.store.append(claim, writer.texts("a", "other"))
    writer.seq = 2
    with pytest.raises(UsageError):
        await place.store.append(claim, [*records[2:], *writer.texts("half of it is new")])
    assert await place.store.read("run-1") == records


@contract
async def test_nothing_follows_the_end(place: Place) -> None:
    writer, claim, records = await begun(place.store)
    end = writer.completed()
    await place.store.append(claim, end)
    more = writer.texts("more")
    with pytest.raises(RunTaken):
        await place.store.append(claim, more)
    anew = await place.store.claim("run-1", "you", SECONDS)
    with pytest.raises(UsageError, match="is over"):
        await place.store.append(anew, more)
    assert await place.store.read("run-1") == records + end


@contract
async def test_nothing_follows_the_end_within_a_batch(place: Place) -> None:
    writer, claim, _ = await begun(place.store)
    with pytest.raises(UsageError, match="nothing can follow"):
        await place.store.append(claim, [*writer.completed(), *writer.texts("more")])


@contract
async def test_records_of_another_run_are_refused(place: Place) -> None:
    _, claim, _ = await begun(place.store)
    other, _, _ = await begun(place.store, "run-2")
    with pytest.raises(UsageError, match="'run-2' is not one of 'run-1'"):
        await place.store.append(claim, other.texts("a"))


# Claims


@contract
async def test_a_run_that_is_driven_cannot_be_claimed(place: Place) -> None:
    await begun(place.store)
    async with place.elsewhere() as other:
        with pytest.raises(RunTaken, match="driven by me") as raised:
            await other.claim("run-1", "you", SECONDS)
    assert raised.value.owner == "me"
    assert SECONDS - 10 < raised.value.seconds <= SECONDS


@contract
async def test_a_claim_that_has_run_out_can_be_taken(place: Place) -> None:
    writer = Writer()
    old = await place.store.begin(writer.started(), "me", 0.05)
    await place.later(0.1)
    new = await place.store.claim("run-1", "you", SECONDS)
    assert new == Claim("run-1", "you", new.token)
    assert new.token > old.token
    texts = writer.texts("a")
    for refused in (
        place.store.append(old, texts),
        place.store.renew(old, SECONDS),
        place.store.reopen(old, "c1"),
    ):
        with pytest.raises(RunTaken, match="driven by you"):
            await refused
    await place.store.append(new, texts)


@contract
async def test_a_claim_that_has_run_out_goes_on_if_nobody_has_taken_it(place: Place) -> None:
    writer = Writer()
    claim = await place.store.begin(writer.started(), "me", 0.05)
    await place.later(0.1)
    await place.store.append(claim, writer.texts("a"))
    await place.store.append(claim, writer.records(asked()))
    await place.store.renew(claim, SECONDS)
    with pytest.raises(RunTaken):
        await place.store.claim("run-1", "you", SECONDS)


@contract
async def test_a_claim_is_kept_by_renewing_it(place: Place) -> None:
    claim = await place.store.begin(Writer().started(), "me", 0.05)
    await place.store.renew(claim, SECONDS)
    await place.later(0.1)
    with pytest.raises(RunTaken):
        await place.store.claim("run-1", "you", SECONDS)


@contract
async def test_a_claim_that_was_given_up_can_be_taken_at_once_and_is_good_no_more(
    place: Place,
) -> None:
    writer, old, _ = await begun(place.store)
    await place.store.release(old)
    with pytest.raises(RunTaken, match="is out of date") as raised:
        await place.store.append(old, writer.texts("a"))
    assert (raised.value.owner, raised.value.seconds) == ("", 0)
    new = await place.store.claim("run-1", "you", SECONDS)
    assert new.token > old.token


@contract
async def test_giving_up_a_claim_that_was_lost_takes_nothing_from_anybody(place: Place) -> None:
    _, old, _ = await begun(place.store)
    await place.store.release(old)
    await place.store.claim("run-1", "you", SECONDS)
    await place.store.release(old)
    assert (await place.store.info("run-1")).owner == "you"


@contract
async def test_what_a_lost_claim_has_written_may_be_written_again_and_nothing_else(
    place: Place,
) -> None:
    writer, old, records = await begun(place.store)
    texts = writer.texts("a", "b")
    await place.store.append(old, texts)
    await place.store.release(old)
    await place.store.claim("run-1", "you", SECONDS)
    await place.store.append(old, texts)
    await place.store.append(old, texts[1:])
    writer.seq = 2
    for refused in (
        writer.texts("other"),
        [*texts[1:], *writer.texts("half of it is new")],
        writer.texts("new"),
    ):
        with pytest.raises(RunTaken, match="driven by you"):
            await place.store.append(old, refused)
    assert await place.store.read("run-1") == records + texts


# Rest


@pytest.fixture(params=["paused", "over", "resumed and paused again"])
def rest(request: pytest.FixtureRequest) -> list[Event]:
    """Events after which nobody need drive the run."""
    last: dict[str, list[Event]] = {
        "paused": [asked(), paused()],
        "over": [asked(), RunStopped("enough")],
        "resumed and paused again": [asked(), paused(), RunResumed("run-1"), paused()],
    }
    return last[request.param]


@pytest.mark.parametrize("with_the_first", [False, True])
def test_with_a_run_that_rests_the_claim_is_given_up(
    place: Place, rest: list[Event], with_the_first: bool
) -> None:
    async def story(place: Place) -> None:
        if with_the_first:
            _, old, _ = await begun(place.store, "run-1", *rest)
        else:
            writer, old, _ = await begun(place.store)
            await place.store.append(old, writer.records(*rest))
        assert old == Claim("run-1", "me", 1)
        info = await place.store.info("run-1")
        assert (info.owner, info.claimed_until, info.is_abandoned) == (None, None, False)
        late = Record(info.seq + 1, 0.0, "run-1", "s", "agent", TextDelta("late", 0))
        for refused in (
            place.store.append(old, [late]),
            place.store.renew(old, SECONDS),
            place.store.reopen(old, "c1"),
        ):
            with pytest.raises(RunTaken, match="is out of date"):
                await refused
        async with place.elsewhere() as other:
            new = await other.claim("run-1", "you", SECONDS)
        assert new.token > old.token
        await place.store.release(old)
        assert (await place.store.info("run-1")).owner == "you"

    place.play(story)


@contract
async def test_a_run_that_has_paused_and_gone_on_in_one_batch_keeps_its_claim(place: Place) -> None:
    writer, claim, _ = await begun(place.store, "run-1", paused(), RunResumed("run-1"))
    await place.store.append(claim, writer.records(asked(), paused(), RunResumed("run-1")))
    assert (await place.store.info("run-1")).owner == "me"
    await place.store.append(claim, writer.texts("a"))


@contract
async def test_who_claims_a_run_that_has_paused_keeps_it_until_it_rests_again(place: Place) -> None:
    writer, _, _ = await begun(place.store, "run-1", asked(), paused())
    claim = await place.store.claim("run-1", "you", SECONDS)
    await place.store.append(claim, writer.records(decided()))
    info = await place.store.info("run-1")
    assert (info.status, info.owner) == ("paused", "you")
    await place.store.append(claim, writer.records(RunResumed("run-1")))
    await place.store.append(claim, writer.completed())
    assert (await place.store.info("run-1")).owner is None


@contract
async def test_who_sees_that_a_run_has_paused_can_claim_it_at_once(place: Place) -> None:
    writer, claim, _ = await begun(place.store)

    async def take_up(store: Store) -> Claim:
        async for record in store.follow("run-1"):
            if isinstance(record.event, RunPaused):
                break
        return await store.claim("run-1", "you", SECONDS)

    async with place.elsewhere() as other:
        taken_up = asyncio.create_task(take_up(other))
        await place.store.append(claim, writer.records(asked(), paused()))
        assert (await taken_up).owner == "you"


@contract
async def test_the_last_batch_may_be_written_again_though_the_claim_is_gone(place: Place) -> None:
    writer, claim, records = await begun(place.store)
    rests = writer.records(asked(), paused())
    await place.store.append(claim, rests)
    await place.store.append(claim, rests)
    anew = await place.store.claim("run-1", "you", SECONDS)
    await place.store.append(claim, rests)
    assert (await place.store.info("run-1")).owner == "you"
    goes_on = [*writer.records(RunResumed("run-1")), *writer.completed()]
    await place.store.append(anew, goes_on)
    for batch in (records, rests, goes_on):
        await place.store.append(claim, batch)
    info = await place.store.info("run-1")
    assert (info.status, info.owner, dict(info.pending)) == ("completed", None, {"c1": "d1"})
    assert await place.store.read("run-1") == [*records, *rests, *goes_on]


# Decisions


@contract
async def test_a_decision_waits_for_who_drives_the_run(place: Place) -> None:
    await begun(place.store, "run-1", asked("c1"), asked("c2"))
    edit = Approve(arguments={"to": ["bob"]}, always="session", digest="d1", reason="fine")
    async with place.elsewhere() as other:
        await other.decide("run-1", {"c1": edit, "c2": Deny("no")})
    assert (await place.store.posted("run-1")).decisions == {"c1": edit, "c2": Deny("no")}


@contract
async def test_a_decision_is_kept_with_the_time_when_it_was_posted(place: Place) -> None:
    writer, claim, _ = await begun(place.store, "run-1", asked("c1"), asked("c2"))
    first = time.time()
    await place.store.decide("run-1", {"c1": Approve()})
    second = time.time()
    await place.store.decide("run-1", {"c2": Deny()})
    times = (await place.store.posted("run-1")).times
    assert first <= times["c1"] <= second <= times["c2"] <= time.time()
    await place.store.reopen(claim, "c1")
    assert dict((await place.store.posted("run-1")).times) == {"c2": times["c2"]}
    await place.store.append(claim, writer.records(decided("c2")))
    assert await place.store.posted("run-1") == Posts()


@contract
async def test_the_first_decision_counts(place: Place) -> None:
    await begun(place.store, "run-1", asked())
    await place.store.decide("run-1", {"c1": Approve()})
    with pytest.raises(AlreadyDecided, match="c1") as raised:
        await place.store.decide("run-1", {"c1": Deny("no")})
    assert raised.value.call_id == "c1"
    assert (await place.store.posted("run-1")).decisions == {"c1": Approve()}


@contract
async def test_all_decisions_are_taken_or_none(place: Place) -> None:
    await begun(place.store, "run-1", asked("c1"), asked("c2"))
    await place.store.decide("run-1", {"c2": Approve()})
    with pytest.raises(AlreadyDecided, match="c2"):
        await place.store.decide("run-1", {"c1": Deny(), "c2": Deny()})
    with pytest.raises(UsageError, match="nobody is asked about the call 'c3'"):
        await place.store.decide("run-1", {"c1": Deny(), "c3": Deny()})
    assert (await place.store.posted("run-1")).decisions == {"c2": Approve()}


@contract
async def test_a_digest_must_be_that_of_the_request(place: Place) -> None:
    await begun(place.store, "run-1", asked("c1", "d1"))
    with pytest.raises(UsageError, match="digest"):
        await place.store.decide("run-1", {"c1": Approve(digest="d2")})
    await place.store.decide("run-1", {"c1": Approve(digest="d1")})


@contract
async def test_a_decision_waits_until_its_event_is_written_and_counts_for_good(
    place: Place,
) -> None:
    writer, claim, _ = await begun(place.store, "run-1", asked("c1"), asked("c2"))
    await place.store.decide("run-1", {"c1": Approve()})
    assert (await place.store.info("run-1")).pending == {"c1": "d1", "c2": "d1"}
    await place.store.append(claim, writer.records(decided("c1")))
    assert await place.store.posted("run-1") == Posts()
    assert (await place.store.info("run-1")).pending == {"c2": "d1"}
    with pytest.raises(AlreadyDecided):
        await place.store.decide("run-1", {"c1": Deny()})


@contract
async def test_nobody_decides_after_who_drives_the_run_did(place: Place) -> None:
    await begun(place.store, "run-1", asked(), decided())
    with pytest.raises(AlreadyDecided):
        await place.store.decide("run-1", {"c1": Approve()})


@contract
async def test_a_decision_that_was_taken_back_can_be_made_anew(place: Place) -> None:
    _, claim, _ = await begun(place.store, "run-1", asked())
    await place.store.decide("run-1", {"c1": Approve(arguments={"too": "bad"})})
    await place.store.reopen(claim, "c1")
    assert await place.store.posted("run-1") == Posts()
    await place.store.decide("run-1", {"c1": Deny()})
    assert (await place.store.posted("run-1")).decisions == {"c1": Deny()}


@contract
async def test_a_decision_that_was_used_is_not_taken_back(place: Place) -> None:
    _, claim, _ = await begun(place.store, "run-1", asked(), decided())
    await place.store.reopen(claim, "c1")
    await place.store.reopen(claim, "no such call")
    with pytest.raises(AlreadyDecided):
        await place.store.decide("run-1", {"c1": Approve()})


@contract
async def test_a_call_that_is_asked_about_anew_can_be_decided_on_anew(place: Place) -> None:
    writer, claim, _ = await begun(place.store, "run-1", asked("c1", "d1"), decided("c1"))
    await place.store.append(claim, writer.records(asked("c1", "d2")))
    await place.store.decide("run-1", {"c1": Approve(digest="d2")})


@contract
async def test_a_decision_on_another_request_is_dropped_one_on_the_same_is_kept(
    place: Place,
) -> None:
    writer, claim, _ = await begun(place.store, "run-1", asked("c1", "d1"), asked("c2", "d1"))
    await place.store.decide("run-1", {"c1": Approve(), "c2": Approve()})
    await place.store.append(claim, writer.records(asked("c1", "d2"), asked("c2", "d1")))
    assert (await place.store.posted("run-1")).decisions == {"c2": Approve()}


@contract
async def test_there_is_nothing_to_decide_in_a_run_that_is_over(place: Place) -> None:
    await begun(place.store, "run-1", asked("c1"), asked("c2"), decided("c1"), RunStopped())
    with pytest.raises(UsageError, match="nobody is asked"):
        await place.store.decide("run-1", {"c2": Approve()})
    with pytest.raises(AlreadyDecided):
        await place.store.decide("run-1", {"c1": Approve()})


@contract
async def test_what_is_no_decision_is_refused(place: Place) -> None:
    await begun(place.store, "run-1", asked())
    with pytest.raises(UsageError, match="Approve or a Deny"):
        await place.store.decide("run-1", {"c1": True})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="JSON"):
        await place.store.decide("run-1", {"c1": Approve(arguments={"to": object()})})


# Stopping


@contract
async def test_the_first_reason_to_stop_counts(place: Place) -> None:
    await begun(place.store, "run-1", paused())
    async with place.elsewhere() as other:
        await other.stop("run-1", "enough")
    await place.store.stop("run-1", "too late")
    assert await place.store.posted("run-1") == Posts(stop_reason="enough")


@contract
async def test_a_stop_needs_no_reason(place: Place) -> None:
    await begun(place.store)
    await place.store.stop("run-1")
    assert await place.store.posted("run-1") == Posts(stop_reason="")


@contract
async def test_a_run_that_is_over_cannot_be_stopped_and_nothing_waits_in_it(place: Place) -> None:
    writer, claim, _ = await begun(place.store, "run-1", asked())
    await place.store.stop("run-1", "enough")
    await place.store.decide("run-1", {"c1": Approve()})
    await place.store.append(claim, writer.records(RunStopped("enough")))
    with pytest.raises(UsageError, match="is over: it is stopped"):
        await place.store.stop("run-1")
    assert await place.store.posted("run-1") == Posts()


# What is known of runs


@contract
async def test_info_says_how_far_a_run_has_come(place: Place) -> None:
    writer, claim, records = await begun(place.store, session_id="talk")
    info = await place.store.info("run-1")
    assert (info.run_id, info.session_id, info.agent) == ("run-1", "talk", "agent")
    assert (info.status, info.seq, info.is_over) == ("running", 1, False)
    assert info.created == info.updated == records[0].time
    assert info.owner == "me"
    assert info.claimed_until == pytest.approx(place.now() + SECONDS, abs=10)
    end = writer.records(TextDelta("a", 0), RunCompleted("b"))
    await place.store.append(claim, end)
    info = await place.store.info("run-1")
    assert (info.status, info.seq, info.is_over) == ("completed", 3, True)
    assert (info.created, info.updated) == (records[0].time, end[-1].time)
    assert (info.owner, info.claimed_until) == (None, None)


@contract
async def test_info_says_whether_a_run_waits_or_was_abandoned(place: Place) -> None:
    writer = Writer()
    claim = await place.store.begin(writer.started(), "me", SECONDS)
    await place.store.append(claim, writer.records(asked(), paused()))
    info = await place.store.info("run-1")
    assert (info.status, info.owner, info.is_abandoned) == ("paused", None, False)
    claim = await place.store.claim("run-1", "you", 0.05)
    await place.store.append(claim, writer.records(RunResumed("run-1")))
    await place.later(0.1)
    info = await place.store.info("run-1")
    assert (info.status, info.owner, info.is_abandoned) == ("running", None, True)


async def _some_runs(store: Store) -> None:
    for number, (session, status) in enumerate(
        [("a", "running"), ("b", "paused"), ("a", "stopped"), ("b", "running"), ("a", "running")]
    ):
        writer = Writer(f"run-{number}", session_id=session, time=1_000.0 + number)
        ends: dict[str, list[Event]] = {"paused": [paused()], "stopped": [RunStopped()]}
        records = [*writer.started(), *writer.records(*ends.get(status, []))]
        await store.begin(records, "me", SECONDS)


@contract
async def test_runs_are_listed_the_newest_first(place: Place) -> None:
    await _some_runs(place.store)
    runs = await place.store.runs()
    assert [info.run_id for info in runs] == ["run-4", "run-3", "run-2", "run-1", "run-0"]
    assert runs == [await place.store.info(info.run_id) for info in runs]
    assert [info.run_id for info in await place.store.runs(limit=2)] == ["run-4", "run-3"]


@contract
async def test_a_run_that_was_written_to_comes_first(place: Place) -> None:
    writer = Writer("old", time=1.0)
    claim = await place.store.begin(writer.started(), "me", SECONDS)
    await _some_runs(place.store)
    writer.time = 5_000.0
    await place.store.append(claim, writer.texts("a"))
    assert (await place.store.runs())[0].run_id == "old"


@contract
async def test_runs_can_be_chosen_by_status_and_conversation(place: Place) -> None:
    await _some_runs(place.store)
    store = place.store
    assert [i.run_id for i in await store.runs(status="paused")] == ["run-1"]
    assert [i.run_id for i in await store.runs(session_id="a")] == ["run-4", "run-2", "run-0"]
    found = await store.runs(status="running", session_id="a", limit=1)
    assert [info.run_id for info in found] == ["run-4"]
    assert await store.runs(status="failed") == await store.runs(session_id="none") == []
    with pytest.raises(UsageError, match="no run is 'busy'"):
        await store.runs(status="busy")  # type: ignore[arg-type]


# Whose they are


async def _runs_of_some(store: Store) -> None:
    for number, user in enumerate(["ada", "", "bob", "ada", ""]):
        writer = Writer(f"run-{number}", session_id="talk", time=1_000.0 + number, user=user)
        end = [RunStopped()] if number == 0 else []
        await store.begin([*writer.started(), *writer.records(*end)], "me", SECONDS)


@contract
async def test_a_run_is_of_who_began_it(place: Place) -> None:
    writer = Writer(user="ada")
    claim = await place.store.begin(writer.started(), "me", SECONDS)
    await place.store.append(claim, writer.records(asked(), paused()))
    async with place.elsewhere() as other:
        assert (await other.info("run-1")).user == "ada"
        await other.claim("run-1", "you", SECONDS)
    assert [info.user for info in await place.store.runs()] == ["ada"]


@contract
async def test_runs_can_be_chosen_by_whose_they_are(place: Place) -> None:
    await _runs_of_some(place.store)
    store = place.store
    assert [i.run_id for i in await store.runs(user="ada")] == ["run-3", "run-0"]
    assert [i.run_id for i in await store.runs(user="")] == ["run-4", "run-1"]
    assert [i.run_id for i in await store.runs(user="ada", limit=1)] == ["run-3"]
    assert [i.run_id for i in await store.runs(user="ada", status="stopped")] == ["run-0"]
    assert [i.run_id for i in await store.runs(user="bob", session_id="talk")] == ["run-2"]
    assert await store.runs(user="bob", session_id="other") == await store.runs(user="eve") == []
    assert len(await store.runs(session_id="talk")) == 5


@contract
async def test_of_somebodys_runs_the_one_that_was_written_to_comes_first(place: Place) -> None:
    writer = Writer("old", session_id="talk", time=1.0, user="ada")
    claim = await place.store.begin(writer.started(), "me", SECONDS)
    await _runs_of_some(place.store)
    assert [i.run_id for i in await place.store.runs(user="ada")][-1] == "old"
    writer.time = 5_000.0
    await place.store.append(claim, writer.texts("a"))
    assert (await place.store.runs(user="ada"))[0].run_id == "old"
    assert (await place.store.runs(user="ada", limit=1))[0].run_id == "old"
    assert (await place.store.runs(session_id="talk"))[0].run_id == "old"


@contract
async def test_a_name_that_is_free_again_may_be_taken_by_somebody_else(place: Place) -> None:
    for user, other in (("ada", "bob"), ("bob", "ada")):
        claim = await place.store.begin(Writer(user=user).started(), "me", SECONDS)
        assert [info.run_id for info in await place.store.runs(user=user)] == ["run-1"]
        assert await place.store.runs(user=other) == []
        await place.store.release(claim)
        await place.store.delete("run-1")
        assert await place.store.runs(user=user) == []


# Forgetting


@contract
async def test_a_run_that_was_deleted_is_unknown_and_its_name_is_free(place: Place) -> None:
    _, claim, _ = await begun(place.store, "run-1", asked(), decided())
    await place.store.snapshot("run-1")
    await place.store.release(claim)
    await place.store.delete("run-1")
    with pytest.raises(UnknownRun):
        await place.store.read("run-1")
    assert await place.store.runs() == []
    _, _, records = await begun(place.store, "run-1", asked())
    assert await place.store.read("run-1") == records
    assert (await place.store.snapshot("run-1")).seq == 2
    await place.store.decide("run-1", {"c1": Approve()})


@contract
async def test_a_run_of_the_same_name_is_another_for_those_elsewhere_too(place: Place) -> None:
    async with place.elsewhere() as other:
        _, claim, _ = await begun(place.store, "run-1", TextDelta("old", 0), TextDelta("old", 0))
        assert (await other.snapshot("run-1")).seq == 3
        await place.store.release(claim)
        await place.store.delete("run-1")
        _, _, records = await begun(place.store, "run-1", TextDelta("new", 0))
        snapshot = await other.snapshot("run-1")
        assert snapshot.seq == 2
        assert snapshot.event == folded(records)


@contract
async def test_a_run_that_is_driven_is_not_deleted_unless_it_is_over(place: Place) -> None:
    writer, claim, records = await begun(place.store)
    with pytest.raises(RunTaken, match="driven by me"):
        await place.store.delete("run-1")
    assert await place.store.read("run-1") == records
    await place.store.append(claim, writer.completed())
    await place.store.delete("run-1")
    with pytest.raises(UnknownRun):
        await place.store.info("run-1")


@contract
async def test_runs_expire_that_have_been_over_for_long(place: Place) -> None:
    now = place.now()
    runs: list[tuple[str, float, Event]] = [
        ("new", 5, RunStopped()),
        ("old", 50, RunStopped()),
        ("older", 500, RunCompleted("x")),
        ("driven", 500, TextDelta("x", 0)),
    ]
    for run_id, age, last in runs:
        writer = Writer(run_id, time=now - age)
        await place.store.begin([*writer.started(), *writer.records(last)], "me", SECONDS)
    assert await place.store.expire(20) == 2
    assert {info.run_id for info in await place.store.runs()} == {"new", "driven"}
    assert await place.store.expire(20) == 0
    assert await place.store.expire(0) == 1


@contract
async def test_runs_that_nobody_goes_on_with_expire_if_that_is_wanted(place: Place) -> None:
    now = place.now()
    runs: list[tuple[str, float, float, Event]] = [
        ("new", 5, 0.05, asked()),
        ("driven", 50, SECONDS, asked()),
        ("abandoned", 50, 0.05, asked()),
        ("paused", 50, SECONDS, paused()),
    ]
    for run_id, age, seconds, last in runs:
        writer = Writer(run_id, time=now - age)
        await place.store.begin([*writer.started(), *writer.records(last)], "me", seconds)
    await place.later(0.1)
    assert await place.store.expire(20) == 0
    assert await place.store.expire(20, unfinished=True) == 2
    assert {info.run_id for info in await place.store.runs()} == {"new", "driven"}
    with pytest.raises(UsageError):
        await place.store.expire(-1)


# What goes wrong


@contract
async def test_a_run_that_is_not_there_is_unknown_to_all(place: Place) -> None:
    store, claim = place.store, Claim("no", "me", 1)
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


@contract
async def test_a_store_that_is_closed_says_so(place: Place) -> None:
    writer, claim, _ = await begun(place.store)
    store = place.store
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
