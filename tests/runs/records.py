"""Records for the tests of the stores."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from argstream import events as ev
from argstream.events import Event
from argstream.runs import Lease, Record, RunState, Store

SECONDS = 30.0


class Writer:
    def __init__(
        self,
        run_id: str = "run-1",
        *,
        conversation_id: str = "s",
        time: float = 0.0,
        user: str = "",
    ) -> None:
        self.run_id = run_id
        self.conversation_id = conversation_id
        self.user = user
        self.seq = 0
        self.time = time

    def records(self, *events: Event) -> list[Record]:
        made = [
            Record(seq, self.time or time.time(), self.run_id, self.conversation_id, "agent", event)
            for seq, event in enumerate(events, self.seq + 1)
        ]
        self.seq += len(made)
        return made

    def started(self) -> list[Record]:
        return self.records(ev.RunStarted(self.run_id, "Go", user=self.user))

    def completed(self) -> list[Record]:
        return self.records(ev.RunCompleted("done", run_id=self.run_id))

    def texts(self, *texts: str) -> list[Record]:
        return self.records(*(ev.TextDelta(text, 0) for text in texts))


def requested(call_id: str = "c1", digest: str = "d1") -> ev.ApprovalRequested:
    return ev.ApprovalRequested(call_id, "send", {"to": ["ada"]}, digest, "must be confirmed")


def decided(call_id: str = "c1") -> ev.ApprovalDecided:
    return ev.ApprovalDecided(call_id, "send", "approved")


def paused(run_id: str = "run-1") -> ev.RunPaused:
    return ev.RunPaused(run_id, ())


async def begin_run(
    store: Store, run_id: str = "run-1", *events: Event, conversation_id: str = "s"
) -> tuple[Writer, Lease, list[Record]]:
    writer = Writer(run_id, conversation_id=conversation_id)
    records = [*writer.started(), *writer.records(*events)]
    return writer, await store.create(records, "me", SECONDS), records


def contiguous(records: Sequence[Record]) -> bool:
    return [record.seq for record in records] == list(range(1, 1 + len(records)))


def snapshot_of(events: Iterable[Event]) -> ev.RunSnapshot:
    state = RunState()
    for event in events:
        state.apply(event)
    return state.snapshot()


def late_view(events: Sequence[Event], place: int) -> list[Event | ev.RunSnapshot]:
    snapshot = snapshot_of(events[:place])
    state = RunState.from_snapshot(snapshot, arguments="events")
    seen: list[Event | ev.RunSnapshot] = [snapshot]
    for event in events[place:]:
        changes = state.apply(event)
        seen += [event, *(one.event for one in changes if one.kind == "argument")]
    return seen


def timeless(snapshot: ev.RunSnapshot) -> ev.RunSnapshot:
    """Omit times, breaks and attempts."""
    blocks: list[ev.BlockSnapshot] = []
    for one in snapshot.blocks:
        times: dict[str, Any] = {n: None for n in one.__struct_fields__ if n.endswith("_at")}
        if isinstance(one, ev.CallSnapshot):
            times |= {"executed_at": [], "interruptions": 0}
        blocks.append(replace(one, **times))
    return replace(snapshot, time=0.0, ended_at=None, breaks=[], blocks=tuple(blocks))


def folded(records: Iterable[Record]) -> ev.RunSnapshot:
    return RunState.from_records(records).snapshot()
