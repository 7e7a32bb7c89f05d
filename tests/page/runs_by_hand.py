"""Runs that a test writes into a store: what no script of a model makes, or makes only slowly."""

import json
from collections.abc import Iterator
from typing import Any

from argstream.events import (
    Event,
    RunCompleted,
    RunStarted,
    TextDelta,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    ToolExecutionStarted,
    TurnStarted,
    Usage,
)

__all__ = ["large_run", "old_run", "run_with_sub_agents"]


def _call(
    call_id: str, index: int, name: str, arguments: dict[str, Any], parent_id: str | None = None
) -> Iterator[Event]:
    text = json.dumps(arguments)
    yield ToolCallStarted(call_id, index, name, parent_id=parent_id)
    for start in range(0, len(text), 400):
        yield ToolArgsDelta(call_id, name, text[start : start + 400])
    yield ToolArgsCompleted(call_id, name, arguments)
    yield ToolExecutionStarted(call_id, name, f"key of {call_id}")


def old_run(run_id: str, prompt: str, answer: str) -> Iterator[Event]:
    """Make a run that was answered at once."""
    yield RunStarted(run_id, prompt)
    yield TurnStarted(1)
    yield TextDelta(answer, 0)
    yield RunCompleted(answer, Usage(12, 5), "end_turn", run_id)


def run_with_sub_agents(run_id: str, *, is_over: bool = True) -> Iterator[Event]:
    """Make a run whose calls are agents themselves, one of which has called a third."""
    review = {"prompt": "Review the haiku", "agent": "reviewer"}
    yield RunStarted(run_id, "Have it reviewed")
    yield TurnStarted(1)
    yield TextDelta("I ask somebody.", 0)
    yield from _call("outer", 0, "task", review)
    yield TextDelta("I look at the lines.", 0, "outer")
    yield from _call("inner", 0, "read_file", {"path": "haiku.txt"}, "outer")
    yield ToolCallCompleted("inner", "read_file", {"path": "haiku.txt"}, "An old silent pond")
    yield from _call("middle", 1, "task", {"prompt": "Count"}, "outer")
    yield TextDelta("I count syllables.", 0, "middle")
    yield from _call("deep", 0, "count", {"line": "An old silent pond"}, "middle")
    if is_over:
        yield ToolCallCompleted("deep", "count", {"line": "An old silent pond"}, 5)
        yield ToolCallCompleted("middle", "task", {"prompt": "Count"}, "five")
        yield ToolCallCompleted("outer", "task", review, "It is a haiku.")
        yield TextDelta("It was reviewed.", 1)
        yield RunCompleted("It was reviewed.", Usage(321, 45), "end_turn", run_id)


def large_run(run_id: str, content: str) -> Iterator[Event]:
    """Make a run that has written a large file."""
    arguments = {"path": "large.py", "content": content}
    yield RunStarted(run_id, "Write a large file")
    yield TurnStarted(1)
    yield from _call("large", 0, "write_file", arguments)
    yield ToolCallCompleted("large", "write_file", arguments, f"wrote {len(content)} characters")
    yield TextDelta("It is large.", 1)
    yield RunCompleted("It is large.", Usage(100, 60_000), "end_turn", run_id)
