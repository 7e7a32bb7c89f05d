"""Runs in a store, with given times, for the commands that read one."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from argstream import events as e
from argstream.history import Message
from argstream.runs import Record, open_store

Timed = tuple[float, e.Event]

RUN = "run_0a1b2c3d4e5f"
MESSAGE = Message(role="assistant", parts=())


def turn_ended(reason: str = "tool_use") -> e.TurnCompleted:
    return e.TurnCompleted(reason, MESSAGE, e.Usage(7, 5))


def call(at: float, call_id: str, name: str, raw: str, arguments: dict[str, Any]) -> list[Timed]:
    """A call that is written in two pieces."""
    half = len(raw) // 2
    return [
        (at, e.ToolCallStarted(call_id, 0, name)),
        (at + 0.1, e.ToolArgsDelta(call_id, name, raw[:half])),
        (at + 0.2, e.ToolArgsDelta(call_id, name, raw[half:])),
        (at + 0.3, e.ToolArgsCompleted(call_id, name, arguments)),
    ]


REQUEST = e.ApprovalRequested(
    "c1", "send", {"to": "ada", "text": "one\ntwo"}, "digest", "send must be confirmed"
)
# Waits for an approval.
PAUSED: list[Timed] = [
    (0.0, e.RunStarted(RUN, "Send a mail\nto Ada")),
    (0.0, e.TurnStarted(1)),
    (0.1, e.TextDelta("I send it.", 0)),
    *call(0.2, "c1", "send", '{"to": "ada", "text": "one\\ntwo"}', REQUEST.arguments),
    (0.5, REQUEST),
    (0.6, turn_ended()),
    (0.6, e.RunPaused(RUN, (REQUEST,))),
]
# Was paused for more than an hour.
FINISHED: list[Timed] = [
    *PAUSED,
    (4000.6, e.RunResumed(RUN)),
    (4000.6, e.ApprovalDecided("c1", "send", "edited", "not him", {"to": "eve"}, "session")),
    (4000.7, e.ToolExecutionStarted("c1", "send", "key")),
    (4000.8, e.ToolOutputDelta("c1", "send", "dialling\n")),
    (4000.9, e.ToolOutputDelta("c1", "send", "sent")),
    (4001.0, e.ToolCallCompleted("c1", "send", {"to": "eve"}, {"sent": True})),
    (4001.0, e.TurnStarted(2)),
    (4001.1, e.TextDelta("It is sent.", 1)),
    (4001.2, turn_ended("end_turn")),
    (4001.2, e.RunCompleted("It is sent.", e.Usage(14, 10), "end_turn", RUN)),
]
MALFORMED = e.ArgumentsError("unexpected_character", "this character cannot stand here", 7)
# Crashed in its first turn, was resumed, and crashed again.
CRASHED: list[Timed] = [
    (0.0, e.RunStarted(RUN, "Count")),
    (0.0, e.TurnStarted(1)),
    *call(0.1, "c1", "count", '{"to": 3}', {"to": 3}),
    (0.5, e.ToolExecutionStarted("c1", "count", "key")),
    (9.0, e.RunResumed(RUN, "crash", ("c1",), "count was cut off")),
    (9.0, e.ToolCallFailed("c1", "count", "it was interrupted")),
    (9.0, e.TurnStarted(1, 2)),
    (9.1, e.ToolCallStarted("c2", 0, "count")),
    (9.2, e.ToolArgsDelta("c2", "count", '{"to": x')),
    (9.2, e.ToolArgsInvalid("c2", "count", "malformed", '{"to": x', MALFORMED)),
    (9.3, e.ToolCallFailed("c2", "count", "it was not run")),
]


def logged(
    store: Path | str,
    events: Sequence[Timed] = FINISHED,
    run_id: str = RUN,
    *,
    agent: str = "mailer",
    began: float | None = None,
    owner: str | None = None,
) -> str:
    """Write a run, which holds a lease only if an owner is named. Return the store's name."""
    start = time.time() - events[-1][0] if began is None else began
    records = [
        Record(seq, start + at, run_id, "session_1", agent, event)
        for seq, (at, event) in enumerate(events, 1)
    ]

    async def write() -> None:
        opened = open_store(store)
        claim = await opened.begin(records, owner or "a test", 3600.0)
        if owner is None:
            await opened.release(claim)
        await opened.aclose()

    asyncio.run(write())
    return str(store)
