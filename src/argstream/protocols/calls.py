"""What the formats of front ends share of calls: what may become of them, their ids, as text."""

from collections import Counter
from typing import Any, TypeAlias

import msgspec

from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolOutputDelta,
)

__all__ = ["CallEvent", "CallIds", "text_of"]

CallEvent: TypeAlias = (
    ApprovalDecided
    | ApprovalRequested
    | ToolArgsCompleted
    | ToolArgsDelta
    | ToolArgsInvalid
    | ToolCallCompleted
    | ToolCallFailed
    | ToolOutputDelta
)
"""What may become of a call that has begun."""


class CallIds:
    """What clients call the calls of a run: a turn that begins again may use an id twice.

    >>> ids = CallIds()
    >>> ids.begin("c1"), ids.begin("c1"), ids.of("c1"), ids.of("c2")
    ('c1', 'c1~2', 'c1~2', 'c2')
    """

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()  # how often each has occurred

    def begin(self, call_id: str) -> str:
        """Take that a call begins, and give its id."""
        self._times[call_id] += 1
        return self.of(call_id)

    def of(self, call_id: str) -> str:
        """Give the id of the last call that has begun under this one."""
        times = self._times[call_id]
        return call_id if times <= 1 else f"{call_id}~{times}"


def text_of(value: Any) -> str:
    """Give what came of a call as text: what is none, as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
