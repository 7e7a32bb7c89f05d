"""The result of a run, and the conversation that it belongs to."""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias
from uuid import uuid4

import msgspec
from msgspec import Struct

from argstream.agent.approvals import Grant
from argstream.assembly import Numbering
from argstream.errors import UsageError
from argstream.events import ApprovalRequested, Usage, Verdict
from argstream.history import CallPart, Message, TextPart, ThinkingPart

__all__ = ["Conversation", "RunOutcome", "RunResult", "ToolUse", "numbering_of"]

RunOutcome: TypeAlias = Literal["running", "completed", "paused", "failed", "stopped"]


class ToolUse(Struct):
    """A tool call and its result so far."""

    call_id: str
    tool_name: str
    tool_args: Any = None
    """The arguments that it was or would be run with; None if they were not valid."""
    verdict: Verdict = "complete"
    result: Any = None
    error: Any = None
    """Why it did not run, or failed."""


class RunResult(Struct, frozen=True, kw_only=True):
    """The answer of an agent, and the calls that it made."""

    run_id: str
    outcome: RunOutcome
    text: str
    """The last text of the model."""
    tools: list[ToolUse]
    """All calls, in their order."""
    usage: Usage
    """The usage of all turns, including turns that were denied, stopped or cut off."""
    stop_reason: str | None = None
    """Why the last turn ended, in the provider's words."""
    pending: tuple[ApprovalRequested, ...] = ()
    """The requests that a paused run waits for."""
    messages: tuple[Message, ...] = ()
    """The conversation, this run included."""

    @property
    def is_paused(self) -> bool:
        """Whether the run waits for decisions: see ``Agent.resume``."""
        return self.outcome == "paused"


class _Kept(Struct, frozen=True):
    """The JSON of a conversation."""

    id: str
    messages: tuple[Message, ...]
    user: str = ""


def numbering_of(messages: Iterable[Message]) -> Numbering:
    """Return how much a conversation has, so that what follows is numbered on."""
    turns = [message for message in messages if message.role == "assistant"]
    parts = [part for message in turns for part in message.parts]
    calls = [part.call_id for part in parts if isinstance(part, CallPart)]
    blocks = sum(isinstance(part, TextPart | ThinkingPart) for part in parts)
    return Numbering(len(turns), blocks, len(calls), frozenset(calls))


class Conversation:
    """The messages of a user, a model and its tools, and the grants that hold for them.

    It changes when a run is over: then each call has a result, however the run ended. The text of a
    turn that failed or was stopped is not part of it.
    """

    def __init__(self, messages: Iterable[Message] = (), *, id: str = "", user: str = "") -> None:
        self.id: str = id or f"conversation_{uuid4().hex}"
        self.user = user
        """The user that it belongs to; empty if there are no users."""
        self.messages: tuple[Message, ...] = tuple(messages)
        self.grants: set[Grant] = set()
        """What needs no approval any more."""
        self.updated: float = 0.0
        """When the newest record of its runs was written, if it was found in a store."""
        self.run_id: str | None = None
        """The run that is in progress or has paused."""

    def go_on_after(self, run_id: str, messages: tuple[Message, ...]) -> None:
        """Set the messages at the end of its run. For runs only."""
        if self.run_id == run_id or self.is_fresh:
            self.run_id, self.messages = None, messages

    @property
    def is_fresh(self) -> bool:
        """Whether it has no messages and no run."""
        return self.run_id is None and not self.messages

    def forget(self, run_id: str) -> None:
        """Detach a run that was deleted, so that another can begin. For runs only."""
        if self.run_id == run_id:
            self.run_id = None

    @property
    def numbering(self) -> Numbering:
        """How much it has, so that what follows is numbered on."""
        return numbering_of(self.messages)

    def to_json(self) -> bytes:
        """Return it as JSON, without its grants: the rules may have changed when it is read."""
        if self.run_id is not None:
            raise UsageError(
                f"the conversation has an active run ({self.run_id}). Resume or stop it first"
            )
        return msgspec.json.encode(_Kept(self.id, self.messages, self.user))

    @classmethod
    def from_json(cls, text: bytes | str) -> "Conversation":
        """Read what ``to_json`` wrote."""
        try:
            kept = msgspec.json.decode(text, type=_Kept)
        except msgspec.MsgspecError as error:
            raise UsageError(f"this is no conversation that to_json wrote: {error}") from error
        return cls(kept.messages, id=kept.id, user=kept.user)

    def __repr__(self) -> str:
        return f"<Conversation {self.id}, {len(self.messages)} messages>"
