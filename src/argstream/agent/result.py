"""What came of a run, for those who wait for it instead of following its events."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from argstream.events import ApprovalRequested, Usage, Verdict
from argstream.history import Message

__all__ = ["RunOutcome", "RunResult", "ToolUse"]

RunOutcome: TypeAlias = Literal["running", "completed", "paused", "failed", "stopped"]


class ToolUse(Struct):
    """A call of a tool, as far as it has come."""

    call_id: str
    tool_name: str
    tool_args: Any = None
    """What it was run with, or was to be run with; None if the arguments were not valid."""
    verdict: Verdict = "complete"
    result: Any = None
    error: Any = None
    """Why it was not run, or failed."""


class RunResult(Struct, frozen=True, kw_only=True):
    """What an agent has answered, and what it did for that."""

    run_id: str
    outcome: RunOutcome
    text: str
    """What the model said last."""
    tools: list[ToolUse]
    """All calls, in their order."""
    usage: Usage
    """The usage of all turns, including turns that were denied, stopped or cut off."""
    stop_reason: str | None = None
    """Why the last turn ended, in the provider's words."""
    pending: tuple[ApprovalRequested, ...] = ()
    """What a person must decide on before a paused run can go on."""
    messages: tuple[Message, ...] = ()
    """The conversation, this run included."""

    @property
    def is_paused(self) -> bool:
        """Whether it waits for decisions: see ``Agent.resume``."""
        return self.outcome == "paused"
