"""Every store does what a simple model does, whatever is done with it and in whichever order.

Redis has a clock of its own, so its claims do not run out here; that they do is in the contract.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from argstream import Approve, Deny
from argstream.agent import Approval
from argstream.errors import AlreadyDecided, RunTaken, UnknownRun, UsageError
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunFailed,
    RunPaused,
    RunResumed,
    RunStopped,
    TextDelta,
)
from argstream.runs import (
    Claim,
    Posts,
    Record,
    RunInfo,
    Store,
)
from tests.runs.records import Writer, asked, decided, folded, paused
from tests.runs.stores import KINDS, Place

Answer = TypeVar("Answer")

NAMES = st.sampled_from(["r1", "r2", "r3"])
USERS = st.sampled_from(["", "ada", "bob"])
CALLS = st.sampled_from(["c1", "c2"])
EVENTS = st.lists(
    st.one_of(
        st.builds(TextDelta, st.text(max_size=3), st.just(0)),
        st.builds(asked, CALLS, st.sampled_from(["d1", "d2"])),
        st.builds(decided, CALLS),
        st.just(paused()),
        st.just(RunResumed("r")),
    ),
    min_size=1,
    max_size=4,
)
ENDS = st.sampled_from([RunStopped("enough"), RunFailed("code", "why")])
DECISIONS = st.dictionaries(
    CALLS,
    st.one_of(
        st.builds(Approve, digest=st.sampled_from(["", "d1", "d2"])), st.builds(Deny, st.text())
    ),
)
TURNS = (RunPaused, RunResumed, RunStopped, RunFailed)
WITH = st.sampled_from(["the newest", "the newest", "the newest", "an old one"])


@dataclass
class Model:
    """A run, as a list and a few facts."""

    writer: Writer
    records: list[Record]
    claims: list[Claim]
    is_given_up: bool = False
    until: float = 0.0
    posted: dict[str, Approval] = field(default_factory=dict)
    stop_reason: str | None = None

    @property
    def events(self) -> list[Event]:
        return [record.event for record in self.records]

    @property
    def status(self) -> str:
        status = "running"
        for event in self.events:
            match event:
                case RunPaused():
                    status = "paused"
                case RunResumed():
                    status = "running"
                case RunStopped():
                    status = "stopped"
                case RunFailed():
                    status = "failed"
                case _:
                    pass
        return status

    @property
    def is_over(self) -> bool:
        return self.status in ("stopped", "failed")

    def about(self, call_id: str) -> ApprovalRequested | ApprovalDecided | None:
        """What was last written of a call."""
        found: ApprovalRequested | ApprovalDecided | None = None
        for event in self.events:
            if isinstance(event, ApprovalRequested | ApprovalDecided) and event.call_id == call_id:
                found = event
        return found

    @property
    def pending(self) -> dict[str, str]:
        last = {call_id: self.about(call_id) for call_id in ("c1", "c2")}
        return {
            call_id: event.digest
            for call_id, event in last.items()
            if isinstance(event, ApprovalRequested)
        }

    def take(self, records: Sequence[Record]) -> None:
        """Take records one after the other; a request for something else voids a decision.

        If the run rests after them, nobody has it any more.
        """
        for record in records:
            before = self.pending
            self.records.append(record)
            self.posted = {
                call_id: decision
                for call_id, decision in self.posted.items()
                if call_id in before and self.pending.get(call_id) == before[call_id]
            }
        turns = [record.event for record in records if isinstance(record.event, TURNS)]
        self.is_given_up = bool(turns) and not isinstance(turns[-1], RunResumed)


class Machine(RuleBasedStateMachine):
    """Does the same to a store and to models of its runs."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.place = Place(self.kind, Path(self.directory.name))
        self.loop = asyncio.new_event_loop()
        store = self.place.open()
        # Another process, as it were. In memory there is but one.
        self.stores = [store, store if self.kind == "memory" else self.place.open()]
        self.turn = 0
        self.models: dict[str, Model] = {}
        self.last_batches: list[tuple[str, Claim, list[Record]]] = []

    def teardown(self) -> None:
        for store in self.stores:
            self.loop.run_until_complete(store.aclose())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.directory.cleanup()

    # Help

    @property
    def store(self) -> Store:
        """Now the one, then the other."""
        self.turn += 1
        return self.stores[self.turn % 2]

    def do(self, work: Awaitable[Answer]) -> Answer:
        return self.loop.run_until_complete(asyncio.wait_for(work, 20))

    def refused(self, error: type[Exception], work: Awaitable[Any]) -> None:
        with pytest.raises(error):
            self.do(work)

    def is_driven(self, run: Model) -> bool:
        return not run.is_given_up and run.until > self.place.now()

    def write(self, name: str, run: Model, claim: Claim, batch: list[Record]) -> None:
        """Write a batch that goes on after the last record, or try to."""
        self.last_batches.append((name, claim, batch))
        if claim != run.claims[-1] or run.is_given_up:
            self.refused(RunTaken, self.store.append(claim, batch))
        elif run.is_over:
            self.refused(UsageError, self.store.append(claim, batch))
        else:
            self.do(self.store.append(claim, batch))
            run.take(batch)
        run.writer.seq = len(run.records)

    # Who drives a run

    @rule(name=NAMES, events=EVENTS, session=st.sampled_from(["a", "b"]), user=USERS)
    def begin(self, name: str, events: list[Event], session: str, user: str) -> None:
        writer = Writer(name, session_id=session, time=self.place.now(), user=user)
        records = [*writer.started(), *writer.records(*events)]
        if name in self.models:
            self.refused(UsageError, self.store.begin(records, "me", 500))
            return
        until = self.place.now() + 500
        claim = self.do(self.store.begin(records, "me", 500))
        assert claim == Claim(name, "me", 1)
        # A run of the same name that was deleted is not this one.
        self.last_batches = [one for one in self.last_batches if one[0] != name]
        self.last_batches.append((name, claim, records))
        run = self.models[name] = Model(writer, [], [claim], until=until)
        run.take(records)

    @rule(name=NAMES)
    def claim(self, name: str) -> None:
        if name not in self.models:
            self.refused(UnknownRun, self.store.claim(name, "you", 500))
            return
        run = self.models[name]
        if self.is_driven(run):
            self.refused(RunTaken, self.store.claim(name, "you", 500))
            return
        run.until = self.place.now() + 500
        claim = self.do(self.store.claim(name, "you", 500))
        assert claim.token > run.claims[-1].token
        run.claims.append(claim)
        run.is_given_up = False

    def chosen(self, run: Model, which: str) -> Claim:
        return run.claims[0 if which == "an old one" else -1]

    @precondition(lambda self: self.models)
    @rule(data=st.data(), which=WITH)
    def renew(self, data: st.DataObject, which: str) -> None:
        run = self.models[data.draw(st.sampled_from(sorted(self.models)))]
        claim = self.chosen(run, which)
        if claim != run.claims[-1] or run.is_given_up:
            self.refused(RunTaken, self.store.renew(claim, 500))
            return
        run.until = self.place.now() + 500
        self.do(self.store.renew(claim, 500))

    @precondition(lambda self: self.models)
    @rule(data=st.data(), which=WITH)
    def release(self, data: st.DataObject, which: str) -> None:
        run = self.models[data.draw(st.sampled_from(sorted(self.models)))]
        claim = self.chosen(run, which)
        self.do(self.store.release(claim))
        run.is_given_up = run.is_given_up or claim == run.claims[-1]

    @precondition(lambda self: self.kind != "redis")
    @rule()
    def lapse(self) -> None:
        self.do(self.place.later(1_000))

    @rule(name=NAMES, events=EVENTS, which=WITH)
    def append(self, name: str, events: list[Event], which: str) -> None:
        if name not in self.models:
            some = Writer(name).records(*events)
            self.refused(UnknownRun, self.store.append(Claim(name, "me", 1), some))
            return
        run = self.models[name]
        run.writer.time = self.place.now()
        self.write(name, run, self.chosen(run, which), run.writer.records(*events))

    @precondition(lambda self: self.models)
    @rule(data=st.data(), end=ENDS)
    def finish(self, data: st.DataObject, end: Event) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        run = self.models[name]
        run.writer.time = self.place.now()
        self.write(name, run, run.claims[-1], run.writer.records(end))

    @precondition(lambda self: self.last_batches)
    @rule(data=st.data())
    def append_again(self, data: st.DataObject) -> None:
        """Write what was written before, or was refused: by whoever tried it then."""
        name, claim, batch = data.draw(st.sampled_from(self.last_batches[-4:]))
        if (run := self.models.get(name)) is None:
            self.refused(UnknownRun, self.store.append(claim, batch))
        elif run.records[batch[0].seq - 1 : batch[-1].seq] == batch:
            self.do(self.store.append(claim, batch))
        elif claim != run.claims[-1] or run.is_given_up:
            self.refused(RunTaken, self.store.append(claim, batch))

    @precondition(lambda self: self.models)
    @rule(data=st.data(), gap=st.sampled_from([-1, 1, 5]))
    def append_elsewhere(self, data: st.DataObject, gap: int) -> None:
        """Write where nothing goes: over what is there, or after a gap."""
        run = self.models[data.draw(st.sampled_from(sorted(self.models)))]
        run.writer.seq += gap
        batch = run.writer.texts("elsewhere")
        run.writer.seq = len(run.records)
        is_lost = run.is_given_up
        self.refused(RunTaken if is_lost else UsageError, self.store.append(run.claims[-1], batch))

    # Posts

    @precondition(lambda self: self.models)
    @rule(data=st.data(), decisions=DECISIONS)
    def decide(self, data: st.DataObject, decisions: dict[str, Approval]) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        run = self.models[name]
        for call_id, decision in decisions.items():
            about = run.about(call_id)
            digest = decision.digest if isinstance(decision, Approve) else ""
            if isinstance(about, ApprovalDecided) or call_id in run.posted:
                self.refused(AlreadyDecided, self.store.decide(name, decisions))
                return
            if about is None or run.is_over or digest not in ("", about.digest):
                self.refused(UsageError, self.store.decide(name, decisions))
                return
        self.do(self.store.decide(name, decisions))
        run.posted |= decisions

    @precondition(lambda self: self.models)
    @rule(data=st.data(), call_id=CALLS, which=WITH)
    def reopen(self, data: st.DataObject, call_id: str, which: str) -> None:
        run = self.models[data.draw(st.sampled_from(sorted(self.models)))]
        claim = self.chosen(run, which)
        if claim != run.claims[-1] or run.is_given_up:
            self.refused(RunTaken, self.store.reopen(claim, call_id))
            return
        self.do(self.store.reopen(claim, call_id))
        run.posted.pop(call_id, None)

    @rule(name=NAMES, reason=st.text(max_size=3))
    def stop(self, name: str, reason: str) -> None:
        if name not in self.models:
            self.refused(UnknownRun, self.store.stop(name, reason))
        elif self.models[name].is_over:
            self.refused(UsageError, self.store.stop(name, reason))
        else:
            self.do(self.store.stop(name, reason))
            run = self.models[name]
            run.stop_reason = reason if run.stop_reason is None else run.stop_reason

    # Forgetting

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if name not in self.models:
            self.refused(UnknownRun, self.store.delete(name))
        elif self.is_driven(self.models[name]) and not self.models[name].is_over:
            self.refused(RunTaken, self.store.delete(name))
        else:
            self.do(self.store.delete(name))
            del self.models[name]

    @rule(seconds=st.sampled_from([0, 1_500]), unfinished=st.booleans())
    def expire(self, seconds: float, unfinished: bool) -> None:
        time.sleep(0.002)  # what was written in this very moment has not been over for 0 seconds
        before = self.place.now() - seconds
        expired = [
            name
            for name, run in self.models.items()
            if run.records[-1].time <= before
            and (run.is_over or (unfinished and not self.is_driven(run)))
        ]
        assert self.do(self.store.expire(seconds, unfinished=unfinished)) == len(expired)
        for name in expired:
            del self.models[name]

    # Reading

    @precondition(lambda self: self.models)
    @rule(data=st.data(), after=st.integers(0, 12), limit=st.none() | st.integers(1, 5))
    def read(self, data: st.DataObject, after: int, limit: int | None) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        expected = self.models[name].records[after:][:limit]
        assert self.do(self.store.read(name, after, limit)) == expected

    @precondition(lambda self: self.models)
    @rule(data=st.data(), after=st.integers(0, 12))
    def follow(self, data: st.DataObject, after: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        run = self.models[name]
        expected = run.records[after:]

        async def following() -> Sequence[Record]:
            seen: list[Record] = []
            async with aclosing(self.store.follow(name, after)) as records:
                while run.is_over or len(seen) < len(expected):
                    try:
                        seen.append(await anext(records))
                    except StopAsyncIteration:
                        break
            return seen

        assert self.do(following()) == expected

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def snapshot(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        records = self.models[name].records
        snapshot = self.do(self.store.snapshot(name))
        assert snapshot.event == folded(records)
        assert (snapshot.seq, snapshot.time) == (records[-1].seq, records[-1].time)

    @rule(
        user=st.none() | USERS,
        session=st.sampled_from([None, "a", "b"]),
        status=st.sampled_from([None, "running", "paused", "stopped"]),
    )
    def choose(self, user: str | None, session: str | None, status: Any) -> None:
        listed = self.do(self.store.runs(user=user, session_id=session, status=status))
        expected = [
            info
            for info in self.do(self.store.runs())
            if user in (None, info.user)
            and session in (None, info.session_id)
            and status in (None, info.status)
        ]
        assert [info.run_id for info in listed] == [info.run_id for info in expected]

    @invariant()
    def all_is_known(self) -> None:
        listed = self.do(self.store.runs())
        newest_first = sorted(
            self.models.items(), key=lambda item: (item[1].records[-1].time, item[0]), reverse=True
        )
        assert [info.run_id for info in listed] == [name for name, _ in newest_first]
        for info in listed:
            self.check(info, self.models[info.run_id])

    def check(self, info: RunInfo, run: Model) -> None:
        first, last = run.records[0], run.records[-1]
        assert (info.session_id, info.agent) == (first.session_id, first.agent)
        assert info.user == run.writer.user
        assert (info.seq, info.created, info.updated) == (len(run.records), first.time, last.time)
        assert (info.status, dict(info.pending)) == (run.status, run.pending)
        assert info.owner == (run.claims[-1].owner if self.is_driven(run) else None)
        waiting = Posts() if run.is_over else Posts(run.posted, stop_reason=run.stop_reason)
        posted = self.do(self.store.posted(info.run_id))
        assert replace(posted, times={}) == waiting
        assert posted.times.keys() == posted.decisions.keys()


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_does_what_the_model_does(kind: str) -> None:
    machine = type("Machine", (Machine,), {"kind": kind})
    examples = settings().max_examples // 3
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=30)
    )
