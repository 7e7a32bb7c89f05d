"""The result of a run, and the conversation that it belongs to."""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import Struct

from argstream.agent.approvals import Grant
from argstream.assembly import Numbering
from argstream.errors import UsageError
from argstream.events import ApprovalRequested, RunStatus, Usage
from argstream.history import CallPart, Message, TextPart, ThinkingPart, Verdict
from argstream.runs._state import Call


class ToolUse(Struct):
    """A tool call and its result so far."""

    call_id: str
    tool_name: str
    tool_args: Any = None
    """The arguments that it was or would be run with; None if they were not valid."""
    verdict: Verdict = "complete"
    result: Any = None
    error: Any = None  # why it did not run, or failed

    @classmethod
    def of(cls, call: Call) -> "ToolUse":
        """Return the use of a call in the state of a run."""
        verdict = call.verdict or "complete"
        use = cls(call.call_id, call.name, verdict=verdict)
        if verdict == "complete" or call.outcome == "completed":
            edited = None if call.decision is None else call.decision.edited_arguments
            use.tool_args = deepcopy(call.arguments if edited is None else edited)
        if call.outcome == "failed":
            use.error = call.result
        else:
            use.result = call.result
        return use


class RunResult(Struct, frozen=True, kw_only=True):
    """The answer of an agent, and the calls that it made."""

    run_id: str
    outcome: RunStatus
    text: str  # the last text of the model
    tools: list[ToolUse]  # all calls, in their order
    usage: Usage
    """The usage of all turns, including turns that were denied, stopped or cut off."""
    stop_reason: str | None = None  # why the last turn ended, in the provider's words
    pending: tuple[ApprovalRequested, ...] = ()  # the requests that a paused run waits for
    messages: tuple[Message, ...] = ()  # the conversation, this run included

    @property
    def is_paused(self) -> bool:
        """Whether the run waits for decisions: see ``Agent.resume``."""
        return self.outcome == "paused"


class _ConversationJson(Struct, frozen=True):
    id: str
    messages: tuple[Message, ...]
    user: str = ""


def numbering_of(messages: Iterable[Message]) -> Numbering:
    """Return the number of turns, blocks and calls, so that new ones continue the count."""
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
        self.user = user  # that it belongs to; empty if there are no users
        self.messages: tuple[Message, ...] = tuple(messages)
        self.grants: set[Grant] = set()  # what needs no approval any more
        self.updated: float = 0.0  # when the newest record of its runs was stored
        self.run_id: str | None = None  # the run that is in progress or has paused
        self.replaces: str = ""  # the run that the next one takes the place of. For the server

    def finish_run(self, run_id: str, messages: tuple[Message, ...]) -> None:
        """Set the messages at the end of its run. For runs only."""
        if self.run_id == run_id or self.is_fresh:
            self.run_id, self.messages = None, messages

    @property
    def is_fresh(self) -> bool:
        """Whether it has no messages and no run."""
        return self.run_id is None and not self.messages

    def to_json(self) -> bytes:
        """Return it as JSON, without its grants: the rules may have changed when it is read."""
        if self.run_id is not None:
            raise UsageError(
                f"the conversation has an active run ({self.run_id}). Resume or stop it first"
            )
        return msgspec.json.encode(_ConversationJson(self.id, self.messages, self.user))

    @classmethod
    def from_json(cls, text: bytes | str) -> "Conversation":
        """Read what ``to_json`` wrote."""
        try:
            kept = msgspec.json.decode(text, type=_ConversationJson)
        except msgspec.MsgspecError as error:
            raise UsageError(f"the text was not written by to_json: {error}") from error
        return cls(kept.messages, id=kept.id, user=kept.user)

    def __repr__(self) -> str:
        return f"<Conversation {self.id}, {len(self.messages)} messages>"
