"""Records for the tests of the stores."""

import time
from collections.abc import Iterable, Sequence

from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunPaused,
    RunSnapshot,
    RunStarted,
    TextDelta,
)
from argstream.runs import Claim, Record, RunView, Store

SECONDS = 30.0


class Writer:
    """Makes the records of one run, one after the other."""

    def __init__(
        self, run_id: str = "run-1", *, session_id: str = "s", time: float = 0.0, user: str = ""
    ) -> None:
        self.run_id = run_id
        self.session_id = session_id
        self.user = user
        self.seq = 0
        self.time = time

    def records(self, *events: Event) -> list[Record]:
        """Give these events with the next seqs."""
        made = [
            Record(seq, self.time or time.time(), self.run_id, self.session_id, "agent", event)
            for seq, event in enumerate(events, self.seq + 1)
        ]
        self.seq += len(made)
        return made

    def started(self) -> list[Record]:
        return self.records(RunStarted(self.run_id, "Go", user=self.user))

    def completed(self) -> list[Record]:
        return self.records(RunCompleted("done", run_id=self.run_id))

    def texts(self, *texts: str) -> list[Record]:
        return self.records(*(TextDelta(text, 0) for text in texts))


def asked(call_id: str = "c1", digest: str = "d1") -> ApprovalRequested:
    return ApprovalRequested(call_id, "send", {"to": ["ada"]}, digest, "must be confirmed")


def decided(call_id: str = "c1") -> ApprovalDecided:
    return ApprovalDecided(call_id, "send", "approved")


def paused(run_id: str = "run-1") -> RunPaused:
    return RunPaused(run_id, ())


async def begun(
    store: Store, run_id: str = "run-1", *events: Event, session_id: str = "s"
) -> tuple[Writer, Claim, list[Record]]:
    """Begin a run, with these events after the first; give all that is in it."""
    writer = Writer(run_id, session_id=session_id)
    records = [*writer.started(), *writer.records(*events)]
    return writer, await store.begin(records, "me", SECONDS), records


def contiguous(records: Sequence[Record], after: int = 0) -> bool:
    """Say whether nothing is missing, double, or out of order."""
    return [record.seq for record in records] == list(range(after + 1, after + 1 + len(records)))


def seen(events: Iterable[Event]) -> RunSnapshot:
    """Return what a viewer knows after these events."""
    view = RunView()
    for event in events:
        view.take(event)
    return view.snapshot()


def folded(records: Iterable[Record]) -> RunSnapshot:
    """Return the snapshot of a run with these records."""
    return seen(record.event for record in records)
