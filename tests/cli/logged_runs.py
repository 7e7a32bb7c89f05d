"""Runs in a store, for the commands that look into one: with given times, written by nobody."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ArgumentsError,
    Event,
    RunCompleted,
    RunPaused,
    RunResumed,
    RunStarted,
    TextDelta,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolOutputDelta,
    TurnCompleted,
    TurnStarted,
    Usage,
)
from argstream.history import Message
from argstream.runs import Record, open_store

Timed = tuple[float, Event]

RUN = "run_0a1b2c3d4e5f"
SAID = Message(role="assistant", parts=())


def turn_ended(reason: str = "tool_use") -> TurnCompleted:
    return TurnCompleted(reason, SAID, Usage(7, 5))


def call(
    call_id: str, name: str, raw: str, arguments: dict[str, Any], at: float = 0.0
) -> list[Timed]:
    """A call that is written in two pieces."""
    half = len(raw) // 2
    return [
        (at, ToolCallStarted(call_id, 0, name)),
        (at + 0.1, ToolArgsDelta(call_id, name, raw[:half])),
        (at + 0.2, ToolArgsDelta(call_id, name, raw[half:])),
        (at + 0.3, ToolArgsCompleted(call_id, name, arguments)),
    ]


REQUEST = ApprovalRequested(
    "c1", "send", {"to": "ada", "text": "one\ntwo"}, "digest", "send must be confirmed"
)
PAUSED: list[Timed] = [
    (0.0, RunStarted(RUN, "Send a mail\nto Ada")),
    (0.0, TurnStarted(1)),
    (0.1, TextDelta("I send it.", 0)),
    *call("c1", "send", '{"to": "ada", "text": "one\\ntwo"}', REQUEST.arguments, at=0.2),
    (0.5, REQUEST),
    (0.6, turn_ended()),
    (0.6, RunPaused(RUN, (REQUEST,))),
]
"""A run that waits for a person."""

FINISHED: list[Timed] = [
    *PAUSED,
    (4000.6, RunResumed(RUN)),
    (4000.6, ApprovalDecided("c1", "send", "edited", "not him", {"to": "eve"}, "session")),
    (4000.7, ToolExecutionStarted("c1", "send", "key")),
    (4000.8, ToolOutputDelta("c1", "send", "dialling\n")),
    (4000.9, ToolOutputDelta("c1", "send", "sent")),
    (4001.0, ToolCallCompleted("c1", "send", {"to": "eve"}, {"sent": True})),
    (4001.0, TurnStarted(2)),
    (4001.1, TextDelta("It is sent.", 1)),
    (4001.2, turn_ended("end_turn")),
    (4001.2, RunCompleted("It is sent.", Usage(14, 10), "end_turn", RUN)),
]
"""A run that was paused for more than an hour."""

CRASHED: list[Timed] = [
    (0.0, RunStarted(RUN, "Count")),
    (0.0, TurnStarted(1)),
    *call("c1", "count", '{"to": 3}', {"to": 3}, at=0.1),
    (0.5, ToolExecutionStarted("c1", "count", "key")),
    (9.0, RunResumed(RUN, "crash", ("c1",), "count was cut off")),
    (9.0, ToolCallFailed("c1", "count", "it was interrupted")),
    (9.0, TurnStarted(1, 2)),
    (9.1, ToolCallStarted("c2", 0, "count")),
    (9.2, ToolArgsDelta("c2", "count", '{"to": x')),
    (
        9.2,
        ToolArgsInvalid(
            "c2",
            "count",
            "malformed",
            '{"to": x',
            ArgumentsError("unexpected_character", "this character cannot stand here", 7),
        ),
    ),
    (9.3, ToolCallFailed("c2", "count", "it was not run")),
]
"""A run that was cut off in its first turn, went on, and was cut off again."""


def logged(
    store: Path | str,
    events: Sequence[Timed] = FINISHED,
    run_id: str = RUN,
    *,
    agent: str = "mailer",
    began: float | None = None,
    owner: str | None = None,
) -> str:
    """Write a run, as one that nobody drives unless an owner is named; give the store's name."""
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
