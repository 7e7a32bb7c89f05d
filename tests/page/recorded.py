"""Runs that a test writes into a store: what a scripted model cannot make, or only slowly."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from argstream import events as ev
from argstream.history import Message
from argstream.protocols.native import NativeEncoder
from argstream.runs import Record, Store
from tests.page.looking import run_async

START = 1_700_000_000.0
_PIECE = 12  # characters
Timed = Iterable[tuple[float, ev.Event]]


def records_of(
    timed: Timed, run_id: str = "run_1", conversation: str = "conversation", begun: float = START
) -> list[Record]:
    return [
        Record(seq, begun + at, run_id, conversation, "agent", event)
        for seq, (at, event) in enumerate(timed, 1)
    ]


def frames_of(timed: Timed) -> list[dict[str, Any]]:
    """Return the frames of the server's log, as parsed JSON."""
    encoder = NativeEncoder()
    return [json.loads(encoder.line(record)) for record in records_of(timed)]


def keep_run(
    store: Store,
    events: Iterable[ev.Event],
    *,
    conversation: str = "conversation",
    begun: float = START,
    apart: float = 0.05,
) -> None:
    """Write a run into a store, with some seconds between two events."""
    timed = [(apart * seq, event) for seq, event in enumerate(events, 1)]
    start = timed[0][1]
    assert isinstance(start, ev.RunStarted)
    _write(store, records_of(timed, start.run_id, conversation, begun))


def _write(store: Store, records: list[Record]) -> None:
    async def write() -> None:
        lease = await store.create(records[:1], "test", 3_600.0)
        await store.append(lease, records[1:])

    run_async(write())


class RunScript:
    """Writes a run step by step. ``now`` is the time so far, in seconds."""

    def __init__(self, prompt: str = "Do it") -> None:
        self.now = 0.0
        self.timed: list[tuple[float, ev.Event]] = []
        self._turns = self._blocks = 0
        self._arguments: list[dict[str, Any]] = []
        self.add(ev.RunStarted("run_1", prompt))

    def add(self, *events: ev.Event, after: float = 0.0) -> None:
        self.now += after
        self.timed += [(self.now, event) for event in events]

    def turn(self) -> None:
        self._turns += 1
        self.add(ev.TurnStarted(self._turns))

    def end_turn(self, reason: str = "tool_use") -> None:
        message = Message(role="assistant", parts=())
        self.add(ev.TurnCompleted(reason, message, ev.Usage(100, 20)))

    def end(self) -> None:
        self.add(ev.RunCompleted("Done.", ev.Usage(200, 40), "end_turn", "run_1"))

    def say(self, text: str, took: float) -> None:
        first, *rest = _pieces(text)
        self.add(ev.TextDelta(first, self._blocks))
        for piece in rest:
            self.add(ev.TextDelta(piece, self._blocks), after=took / len(rest))
        self._blocks += 1

    def think(self, text: str, took: float) -> None:
        pieces = _pieces(text)
        self.add(ev.ThinkingStarted(self._blocks))
        for piece in pieces:
            self.add(ev.ThinkingDelta(piece, self._blocks), after=took / len(pieces))
        self.add(ev.ThinkingCompleted(text, self._blocks))
        self._blocks += 1

    def write(self, name: str, arguments: dict[str, Any], took: float) -> str:
        """Write a call, and return its ID."""
        call_id = f"call_{len(self._arguments)}"
        pieces = _pieces(json.dumps(arguments))
        self.add(ev.ToolCallStarted(call_id, len(self._arguments), name))
        for piece in pieces:
            self.add(ev.ToolArgsDelta(call_id, name, piece), after=took / len(pieces))
        self.add(ev.ToolArgsCompleted(call_id, name, arguments))
        self._arguments.append(arguments)
        return call_id

    def approve(self, call_id: str, name: str, *, after: float) -> None:
        """Request an approval of the last call, and decide some seconds later."""
        asked = ev.ApprovalRequested(
            call_id, name, self._arguments[-1], "digest", "the policy asks"
        )
        self.add(asked, ev.RunPaused("run_1", (asked,)))
        decided = ev.ApprovalDecided(call_id, name, "approved")
        self.add(decided, ev.RunResumed("run_1"), after=after)

    def run(self, call_id: str, name: str, took: float) -> None:
        """Run the tool of the last call."""
        self.add(ev.ToolExecutionStarted(call_id, name, f"key_{call_id}"))
        self.add(ev.ToolCallCompleted(call_id, name, self._arguments[-1], "done"), after=took)

    def keep(self, store: Store) -> None:
        _write(store, records_of(self.timed))

    def frames(self) -> list[dict[str, Any]]:
        return frames_of(self.timed)


def _pieces(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


# Whole runs


def _call(
    call_id: str, index: int, name: str, arguments: dict[str, Any], parent_id: str | None = None
) -> Iterator[ev.Event]:
    text = json.dumps(arguments)
    yield ev.ToolCallStarted(call_id, index, name, parent_id=parent_id)
    for start in range(0, len(text), 400):
        yield ev.ToolArgsDelta(call_id, name, text[start : start + 400])
    yield ev.ToolArgsCompleted(call_id, name, arguments)
    yield ev.ToolExecutionStarted(call_id, name, f"key of {call_id}")


def answered_run(run_id: str, prompt: str, answer: str) -> Iterator[ev.Event]:
    yield ev.RunStarted(run_id, prompt)
    yield ev.TurnStarted(1)
    yield ev.TextDelta(answer, 0)
    yield ev.RunCompleted(answer, ev.Usage(12, 5), "end_turn", run_id)


def nested_run(run_id: str) -> Iterator[ev.Event]:
    """Return a run whose call is an agent, one of whose calls is an agent too."""
    review, path, line = {"prompt": "Review"}, {"path": "haiku.txt"}, {"line": "An old pond"}
    yield ev.RunStarted(run_id, "Have it reviewed")
    yield ev.TurnStarted(1)
    yield ev.TextDelta("I ask a reviewer.", 0)
    yield from _call("outer", 0, "task", review)
    yield ev.TextDelta("I look at the lines.", 0, "outer")
    yield from _call("inner", 0, "read_file", path, "outer")
    yield ev.ToolCallCompleted("inner", "read_file", path, "An old silent pond")
    yield from _call("middle", 1, "task", review, "outer")
    yield ev.TextDelta("I count syllables.", 0, "middle")
    yield from _call("deep", 0, "count", line, "middle")
    yield ev.ToolCallCompleted("deep", "count", line, 5)
    yield ev.ToolCallCompleted("middle", "task", review, "five")
    yield ev.ToolCallCompleted("outer", "task", review, "It is a haiku.")
    yield ev.TextDelta("It was reviewed.", 1)
    yield ev.RunCompleted("It was reviewed.", ev.Usage(321, 45), "end_turn", run_id)


def large_run(run_id: str, content: str) -> Iterator[ev.Event]:
    """Return a run that has written a large file."""
    arguments = {"path": "large.py", "content": content}
    yield ev.RunStarted(run_id, "Write a large file")
    yield ev.TurnStarted(1)
    yield from _call("large", 0, "write_file", arguments)
    yield ev.ToolCallCompleted("large", "write_file", arguments, f"wrote {len(content)} characters")
    yield ev.TextDelta("It is large.", 1)
    yield ev.RunCompleted("It is large.", ev.Usage(100, 60_000), "end_turn", run_id)
