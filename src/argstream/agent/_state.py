"""What is known of a run: its messages, and the calls of the turn that is being worked on."""

from copy import deepcopy
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from argstream.adapters import StopKind, stop_kind
from argstream.agent._arguments import read_arguments
from argstream.agent._toolbox import Asking
from argstream.agent.approvals import Grant
from argstream.agent.result import RunOutcome, ToolUse
from argstream.assembly import Numbering
from argstream.deltas import RUN_BY_PROVIDER
from argstream.events import (
    ApprovalRequested,
    RunFailed,
    RunStopped,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    TurnCompleted,
    Usage,
)
from argstream.history import CallPart, Message, OpaquePart, Part, ResultPart, TextPart

__all__ = ["CallState", "CallStatus", "LoopRules", "ReadingStatus", "RunState"]

CallStatus: TypeAlias = Literal["writing", "asking", "ready", "running", "done"]
"""A call is written; a person is asked about it, or not; it waits for the turn's end; it is run; it
has its result. Any of these steps but the first and the last may be left out."""

ReadingStatus: TypeAlias = Literal["none", "open", "whole", "interrupted"]
"""Whether its tool reads its text while it is written; if so, how it was told that this has ended.
Once it was told that its text is whole, it is as any tool that runs."""


class LoopRules(Struct, frozen=True):
    """How long a loop goes on, and who is asked."""

    max_turns: int = 50
    asks_in_place: bool = False
    """Whether somebody is asked while the run goes on, so that it need not pause."""
    approval_seconds: float | None = None
    """How long somebody has to decide."""
    max_parallel_calls: int = 32
    """How many tools run at once. Further calls wait, and start in order."""


class CallState(Struct):
    """A call that is ours to run."""

    call_id: str
    name: str
    status: CallStatus = "writing"
    asked_text: str = ""
    """The exact text of the model's arguments, once they are complete."""
    text: str = ""
    """The exact text of the arguments that it is run with: the model's, or a person's."""
    request: ApprovalRequested | None = None
    asking: Asking | None = None
    """Why somebody is asked."""
    note: str = ""
    """What the model should know besides the result."""
    reading: ReadingStatus = "none"
    interruption: str = ""
    """Why its tool must undo what it has done, if its reading was interrupted."""
    has_verdict: bool = False
    """Whether it is known what became of its arguments."""
    comes_late: bool = False
    """Whether it began after its turn had ended: it is not run."""
    attempts: int = 0
    """How often its tool was started."""
    has_returned: bool = False
    """Whether its tool is over, though perhaps its text is not."""
    result: Any = None
    failed: bool = False

    @property
    def starts_early(self) -> bool:
        """Whether its tool was started before its text had ended."""
        return self.reading != "none"


class RunState(Struct):
    """A run, from its prompt on."""

    run_id: str
    grants: set[Grant]
    history: tuple[Message, ...] = ()
    """What was said before."""
    messages: list[Message] = []
    """All that is said to the model."""
    calls: dict[str, CallState] = {}
    """The calls of this turn, in their order."""
    provider_calls: dict[str, str] = {}
    """The names of calls of this turn that the provider runs, while they are being written."""
    uses: dict[str, ToolUse] = {}
    """All calls of the run so far."""
    status: RunOutcome = "running"
    numbering: Numbering = Numbering()
    """How much has come, so that what follows is numbered on."""
    usage: Usage = Usage()
    usage_before: Usage = Usage()
    """The usage before this turn."""
    turns: int = 0
    attempt: int = 1
    """How often this turn was begun."""
    is_reading: bool = False
    """Whether the model is taking its turn."""
    messages_before: int = 0
    """How many there were before this turn."""
    stop_kind: StopKind | None = None
    """Of this turn, once it has ended."""
    failure: RunFailed | None = None
    """Of this turn: it ends the run."""
    ending: RunFailed | RunStopped | None = None
    """What ends the run when no tool runs any more."""
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """What the model said last, in this run."""
        for message in reversed(self.messages[len(self.history) :]):
            if message.role == "assistant":
                return "".join(part.text for part in message.parts if isinstance(part, TextPart))
        return ""

    @property
    def executing(self) -> int:
        """The number of tools that have started and not returned."""
        return sum(not call.has_returned for call in self.with_status("running"))

    def open_calls(self) -> list[CallState]:
        """Give the calls that have no result yet."""
        return [call for call in self.calls.values() if call.status != "done"]

    def with_status(self, status: CallStatus) -> list[CallState]:
        """Give the calls that are so far."""
        return [call for call in self.calls.values() if call.status == status]

    # What the loop and its restoration have in common

    def say(self, text: str, message_id: str = "") -> None:
        """Add what the model is told next."""
        self.messages.append(Message(role="user", parts=(TextPart(text=text),), id=message_id))

    def begin_turn(self, turn: int, attempt: int) -> None:
        """Take that the model is asked for a turn."""
        self.turns, self.attempt = turn, attempt
        self.calls.clear()
        self.provider_calls.clear()
        self.is_reading, self.stop_kind, self.failure = True, None, None
        self.messages_before = len(self.messages)
        self.usage_before = self.usage

    def open_call(self, event: ToolCallStarted) -> None:
        """Take note of a call. What the provider runs itself is none of ours."""
        self.uses[event.call_id] = ToolUse(event.call_id, event.name)
        if event.kind in RUN_BY_PROVIDER:
            self.provider_calls[event.call_id] = event.name
        else:
            comes_late = self.stop_kind is not None
            self.calls[event.call_id] = CallState(event.call_id, event.name, comes_late=comes_late)

    def is_ours(self, event: ToolCallCompleted | ToolCallFailed) -> bool:
        """Return True if the event is about a call of this turn that the agent runs."""
        return event.call_id in self.calls

    def without_forged_results(self, event: TurnCompleted) -> TurnCompleted:
        """Remove results that the provider sent for calls of the agent (invariant 14).

        The raw block is kept as an ``OpaquePart``.
        """
        parts = event.message.parts
        if not any(isinstance(part, ResultPart) for part in parts):
            return event
        said = [*(part for message in self.messages for part in message.parts), *parts]
        calls = [part for part in said if isinstance(part, CallPart)]
        ours = {call.call_id for call in calls if call.kind not in RUN_BY_PROVIDER}
        kept = [
            OpaquePart(item=part.item or {})
            if isinstance(part, ResultPart) and part.call_id in ours
            else part
            for part in parts
        ]
        return replace(event, message=replace(event.message, parts=tuple(kept)))

    def end_turn(self, event: TurnCompleted) -> bool:
        """Take what the model has said; False if it does not count."""
        self.usage += event.usage
        self.stop_reason = event.stop_reason
        if self.stop_kind is not None or self.failure is not None:
            return False  # what was lost may be a part of any call
        was_stopped_by_us = event.characters_read is not None
        self.stop_kind = "finished" if was_stopped_by_us else stop_kind(event.stop_reason)
        parts = tuple(map(self._own_part, event.message.parts))
        self.messages.append(replace(event.message, parts=parts))
        return True

    def _own_part(self, part: Part) -> Part:
        """Give a part whose arguments cannot be changed by those who saw its event."""
        if not isinstance(part, CallPart) or not isinstance(part.arguments, dict):
            return part
        call = self.calls.get(part.call_id)
        text = "" if call is None else call.asked_text
        return replace(part, arguments=read_arguments(text) if text else deepcopy(part.arguments))

    def add_results(self) -> None:
        """Answer the calls of the last message, in their order, if that has not been done."""
        last = self.messages[-1]
        if last.role != "assistant":
            return
        asked = [part.call_id for part in last.parts if isinstance(part, CallPart)]
        answered = [self.calls[call_id] for call_id in asked if call_id in self.calls]
        if answered:
            self.messages.append(Message(role="user", parts=tuple(map(_result, answered))))


def _result(call: CallState) -> ResultPart:
    return ResultPart(call_id=call.call_id, result=call.result, failed=call.failed, note=call.note)
