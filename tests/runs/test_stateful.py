"""Every store behaves as a simple model does, for random operations in random order.

Redis has its own clock, so its leases do not expire here. test_contract.py tests that they do.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import settings, stateful
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from argstream import Approve, Deny
from argstream import events as ev
from argstream.agent import Approval
from argstream.errors import AlreadyDecidedError, RunBusyError, RunNotFoundError, UsageError
from argstream.events import Event
from argstream.runs import Commands, Lease, Record, RunInfo, Store
from tests.runs.records import Writer, decided, folded, paused, requested
from tests.runs.stores import KINDS, Place

Answer = TypeVar("Answer")

NAMES = st.sampled_from(["r1", "r2", "r3"])
USERS = st.sampled_from(["", "ada", "bob"])
CALLS = st.sampled_from(["c1", "c2"])
EVENTS = st.lists(
    st.one_of(
        st.builds(ev.TextDelta, st.text(max_size=3), st.just(0)),
        st.builds(requested, CALLS, st.sampled_from(["d1", "d2"])),
        st.builds(decided, CALLS),
        st.just(paused()),
        st.just(ev.RunResumed("r")),
    ),
    min_size=1,
    max_size=4,
)
ENDS = st.sampled_from([ev.RunStopped("enough"), ev.RunFailed("code", "why")])
APPROVALS = st.builds(Approve, digest=st.sampled_from(["", "d1", "d2"]))
DECISIONS = st.dictionaries(CALLS, st.one_of(APPROVALS, st.builds(Deny, st.text())))
STATUSES = {
    ev.RunPaused: "paused",
    ev.RunResumed: "running",
    ev.RunStopped: "stopped",
    ev.RunFailed: "failed",
}
IS_SOAK = os.environ.get("ARGSTREAM_HYPOTHESIS") == "soak"
IS_NEWEST = st.sampled_from([True, True, True, False])


@dataclass
class Model:
    writer: Writer
    records: list[Record]
    leases: list[Lease]
    is_released: bool = False
    until: float = 0.0
    posted: dict[str, Approval] = field(default_factory=dict)
    stop_reason: str | None = None

    @property
    def status(self) -> str:
        changes = [STATUSES[type(r.event)] for r in self.records if type(r.event) in STATUSES]
        return changes[-1] if changes else "running"

    @property
    def is_over(self) -> bool:
        return self.status in ("stopped", "failed")

    def last_about(self, call_id: str) -> ev.ApprovalRequested | ev.ApprovalDecided | None:
        found: ev.ApprovalRequested | ev.ApprovalDecided | None = None
        for event in (record.event for record in self.records):
            if (
                isinstance(event, ev.ApprovalRequested | ev.ApprovalDecided)
                and event.call_id == call_id
            ):
                found = event
        return found

    @property
    def pending(self) -> dict[str, str]:
        last = {call_id: self.last_about(call_id) for call_id in ("c1", "c2")}
        requests = {key: one for key, one in last.items() if isinstance(one, ev.ApprovalRequested)}
        return {call_id: request.digest for call_id, request in requests.items()}

    def has_lease(self, lease: Lease) -> bool:
        return lease == self.leases[-1] and not self.is_released

    def take(self, records: Sequence[Record]) -> None:
        """Append records. A request with another digest voids a decision.

        If the run is paused or over after the last record, its lease is released.
        """
        for record in records:
            before = self.pending
            self.records.append(record)
            self.posted = {
                call_id: decision
                for call_id, decision in self.posted.items()
                if call_id in before and self.pending.get(call_id) == before[call_id]
            }
        if any(type(record.event) in STATUSES for record in records):
            self.is_released = self.status != "running"


on_existing_run = precondition(lambda self: self.models)


class Machine(RuleBasedStateMachine):
    kind: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.place = Place(self.kind, Path(self.directory.name))
        self.loop = asyncio.new_event_loop()
        store = self.place.open()
        # The second one stands for another process. In memory there is only one.
        self.stores = [store, store if self.kind == "memory" else self.place.open()]
        self.turn = 0
        self.models: dict[str, Model] = {}
        self.last_batches: list[tuple[str, Lease, list[Record]]] = []

    def teardown(self) -> None:
        for store in self.stores:
            self.loop.run_until_complete(store.aclose())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.directory.cleanup()

    @property
    def store(self) -> Store:
        self.turn += 1
        return self.stores[self.turn % 2]

    def do(self, work: Awaitable[Answer]) -> Answer:
        return self.loop.run_until_complete(asyncio.wait_for(work, 20))

    def refused(self, error: type[Exception], work: Awaitable[Any]) -> None:
        with pytest.raises(error):
            self.do(work)

    def is_driven(self, run: Model) -> bool:
        return not run.is_released and run.until > self.place.now()

    def choose_run(self, data: st.DataObject) -> tuple[str, Model]:
        name = data.draw(st.sampled_from(sorted(self.models)))
        return name, self.models[name]

    def write(self, name: str, lease: Lease, events: Sequence[Event]) -> None:
        """Append events after the last record, or check that they are refused."""
        run = self.models[name]
        run.writer.time = self.place.now()
        batch = run.writer.records(*events)
        self.last_batches.append((name, lease, batch))
        if not run.has_lease(lease):
            self.refused(RunBusyError, self.store.append(lease, batch))
        elif run.is_over:
            self.refused(UsageError, self.store.append(lease, batch))
        else:
            self.do(self.store.append(lease, batch))
            run.take(batch)
        run.writer.seq = len(run.records)

    @rule(name=NAMES, events=EVENTS, session=st.sampled_from(["a", "b"]), user=USERS)
    def begin(self, name: str, events: list[Event], session: str, user: str) -> None:
        writer = Writer(name, conversation_id=session, time=self.place.now(), user=user)
        records = [*writer.started(), *writer.records(*events)]
        if name in self.models:
            self.refused(UsageError, self.store.create(records, "me", 500))
            return
        until = self.place.now() + 500
        lease = self.do(self.store.create(records, "me", 500))
        assert lease == Lease(name, "me", 1, lease.seq)
        # Batches of a deleted run of the same name do not count.
        self.last_batches = [one for one in self.last_batches if one[0] != name]
        self.last_batches.append((name, lease, records))
        run = self.models[name] = Model(writer, [], [lease], until=until)
        run.take(records)

    @rule(name=NAMES)
    def acquire(self, name: str) -> None:
        if name not in self.models:
            self.refused(RunNotFoundError, self.store.acquire(name, "you", 500))
            return
        run = self.models[name]
        if self.is_driven(run):
            self.refused(RunBusyError, self.store.acquire(name, "you", 500))
            return
        run.until = self.place.now() + 500
        lease = self.do(self.store.acquire(name, "you", 500))
        assert lease.token > run.leases[-1].token
        run.leases.append(lease)
        run.is_released = False

    @on_existing_run
    @rule(data=st.data(), newest=IS_NEWEST)
    def renew(self, data: st.DataObject, newest: bool) -> None:
        _, run = self.choose_run(data)
        lease = run.leases[-1 if newest else 0]
        if not run.has_lease(lease):
            self.refused(RunBusyError, self.store.renew(lease, 500))
            return
        run.until = self.place.now() + 500
        self.do(self.store.renew(lease, 500))

    @on_existing_run
    @rule(data=st.data(), newest=IS_NEWEST)
    def release(self, data: st.DataObject, newest: bool) -> None:
        _, run = self.choose_run(data)
        lease = run.leases[-1 if newest else 0]
        self.do(self.store.release(lease))
        run.is_released = run.is_released or lease == run.leases[-1]

    @precondition(lambda self: not self.place.has_own_clock)
    @rule()
    def expire_leases(self) -> None:
        self.do(self.place.advance(1_000))

    @rule(name=NAMES, events=EVENTS, newest=IS_NEWEST)
    def append(self, name: str, events: list[Event], newest: bool) -> None:
        if name not in self.models:
            some = Writer(name).records(*events)
            self.refused(RunNotFoundError, self.store.append(Lease(name, "me", 1), some))
            return
        self.write(name, self.models[name].leases[-1 if newest else 0], events)

    @on_existing_run
    @rule(data=st.data(), end=ENDS)
    def finish(self, data: st.DataObject, end: Event) -> None:
        name, run = self.choose_run(data)
        self.write(name, run.leases[-1], [end])

    @precondition(lambda self: self.last_batches)
    @rule(data=st.data())
    def append_again(self, data: st.DataObject) -> None:
        name, lease, batch = data.draw(st.sampled_from(self.last_batches[-4:]))
        if (run := self.models.get(name)) is None:
            self.refused(RunNotFoundError, self.store.append(lease, batch))
        elif run.records[batch[0].seq - 1 : batch[-1].seq] == batch:
            self.do(self.store.append(lease, batch))
        elif not run.has_lease(lease):
            self.refused(RunBusyError, self.store.append(lease, batch))

    @on_existing_run
    @rule(data=st.data(), gap=st.sampled_from([-1, 1, 5]))
    def append_elsewhere(self, data: st.DataObject, gap: int) -> None:
        _, run = self.choose_run(data)
        run.writer.seq += gap
        batch = run.writer.texts("elsewhere")
        run.writer.seq = len(run.records)
        error = RunBusyError if run.is_released else UsageError
        self.refused(error, self.store.append(run.leases[-1], batch))

    @on_existing_run
    @rule(data=st.data(), decisions=DECISIONS)
    def decide(self, data: st.DataObject, decisions: dict[str, Approval]) -> None:
        name, run = self.choose_run(data)
        for call_id, decision in decisions.items():
            last = run.last_about(call_id)
            digest = decision.digest if isinstance(decision, Approve) else ""
            if isinstance(last, ev.ApprovalDecided) or call_id in run.posted:
                self.refused(AlreadyDecidedError, self.store.decide(name, decisions))
                return
            if last is None or run.is_over or digest not in ("", last.digest):
                self.refused(UsageError, self.store.decide(name, decisions))
                return
        self.do(self.store.decide(name, decisions))
        run.posted |= decisions

    @on_existing_run
    @rule(data=st.data(), call_id=CALLS, newest=IS_NEWEST)
    def reopen(self, data: st.DataObject, call_id: str, newest: bool) -> None:
        _, run = self.choose_run(data)
        lease = run.leases[-1 if newest else 0]
        if not run.has_lease(lease):
            self.refused(RunBusyError, self.store.reopen(lease, call_id))
            return
        self.do(self.store.reopen(lease, call_id))
        run.posted.pop(call_id, None)

    @rule(name=NAMES, reason=st.text(max_size=3))
    def stop(self, name: str, reason: str) -> None:
        if name not in self.models:
            self.refused(RunNotFoundError, self.store.stop(name, reason))
        elif self.models[name].is_over:
            self.refused(UsageError, self.store.stop(name, reason))
        else:
            self.do(self.store.stop(name, reason))
            run = self.models[name]
            run.stop_reason = reason if run.stop_reason is None else run.stop_reason

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if name not in self.models:
            self.refused(RunNotFoundError, self.store.delete(name))
        elif self.is_driven(self.models[name]) and not self.models[name].is_over:
            self.refused(RunBusyError, self.store.delete(name))
        else:
            self.do(self.store.delete(name))
            del self.models[name]

    @rule(seconds=st.sampled_from([0, 1_500]), unfinished=st.booleans())
    def expire(self, seconds: float, unfinished: bool) -> None:
        time.sleep(0.002)  # a run that was written at this very moment is not 0 seconds old yet
        before = self.place.now() - seconds
        expired = [
            name
            for name, run in self.models.items()
            if run.records[-1].time <= before
            and (run.is_over or (unfinished and not self.is_driven(run)))
        ]
        assert self.do(self.store.delete_older_than(seconds, unfinished=unfinished)) == len(expired)
        for name in expired:
            del self.models[name]

    @on_existing_run
    @rule(data=st.data(), after=st.integers(0, 12), limit=st.none() | st.integers(1, 5))
    def read(self, data: st.DataObject, after: int, limit: int | None) -> None:
        name, run = self.choose_run(data)
        assert self.do(self.store.read(name, after, limit)) == run.records[after:][:limit]
        snapshot = self.do(self.store.snapshot(name))
        assert snapshot == folded(run.records)

    @on_existing_run
    @rule(data=st.data(), after=st.integers(0, 12))
    def follow(self, data: st.DataObject, after: int) -> None:
        name, run = self.choose_run(data)
        expected = run.records[after:]

        async def following() -> Sequence[Record]:
            seen: list[Record] = []
            async with aclosing(self.store.follow(name, after)) as records:
                if run.is_over:
                    return [record async for record in records]
                while len(seen) < len(expected):
                    seen.append(await anext(records))
            return seen

        assert self.do(following()) == expected

    @rule(
        user=st.none() | USERS,
        session=st.sampled_from([None, "a", "b"]),
        status=st.sampled_from([None, "running", "paused", "stopped"]),
    )
    def query(self, user: str | None, session: str | None, status: Any) -> None:
        listed = self.do(self.store.runs(user=user, conversation_id=session, status=status))
        expected = [
            info
            for info in self.do(self.store.runs())
            if user in (None, info.user)
            and session in (None, info.conversation_id)
            and status in (None, info.status)
        ]
        assert [info.run_id for info in listed] == [info.run_id for info in expected]

    @invariant()
    def runs_are_as_in_the_model(self) -> None:
        listed = self.do(self.store.runs())
        newest_first = sorted(
            self.models.items(), key=lambda item: (item[1].records[-1].time, item[0]), reverse=True
        )
        assert [info.run_id for info in listed] == [name for name, _ in newest_first]
        for info in listed:
            self.check(info, self.models[info.run_id])

    def check(self, info: RunInfo, run: Model) -> None:
        first, last = run.records[0], run.records[-1]
        assert (info.conversation_id, info.agent) == (first.conversation_id, first.agent)
        assert info.user == run.writer.user
        assert (info.seq, info.created, info.updated) == (len(run.records), first.time, last.time)
        assert (info.status, dict(info.pending)) == (run.status, run.pending)
        assert info.owner == (run.leases[-1].owner if self.is_driven(run) else None)
        waiting = Commands() if run.is_over else Commands(run.posted, stop_reason=run.stop_reason)
        posted = self.do(self.store.commands(info.run_id))
        assert replace(posted, decided_at={}) == waiting
        assert posted.decided_at.keys() == posted.decisions.keys()


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", KINDS if IS_SOAK else KINDS[:3])
def test_store_behaves_as_the_model(kind: str) -> None:
    machine = type("Machine", (Machine,), {"kind": kind})
    examples = settings().max_examples // 3
    stateful.run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=30)
    )
