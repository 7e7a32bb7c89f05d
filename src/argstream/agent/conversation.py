"""What was said so far: one run after the other goes on with it."""

from collections.abc import Iterable
from uuid import uuid4

import msgspec
from msgspec import Struct

from argstream.agent.approvals import Grant
from argstream.assembly import Numbering
from argstream.errors import UsageError
from argstream.history import CallPart, Message, TextPart, ThinkingPart

__all__ = ["Conversation", "numbering_of"]


class _Kept(Struct, frozen=True):
    """A conversation as it is written down."""

    id: str
    messages: tuple[Message, ...]
    user: str = ""


def numbering_of(messages: Iterable[Message]) -> Numbering:
    """Say how much there is of a conversation, so that what follows is numbered on."""
    turns = [message for message in messages if message.role == "assistant"]
    parts = [part for message in turns for part in message.parts]
    calls = [part.call_id for part in parts if isinstance(part, CallPart)]
    blocks = sum(isinstance(part, TextPart | ThinkingPart) for part in parts)
    return Numbering(len(turns), blocks, len(calls), frozenset(calls))


class Conversation:
    """The messages of a person, a model and its tools, and what was approved for all of them.

    It changes when a run is over: then each call has its result, whatever became of the run. What a
    model said in a turn that failed or was stopped is not in it.
    """

    def __init__(self, messages: Iterable[Message] = (), *, id: str = "", user: str = "") -> None:  # noqa: A002 - what it is
        self.id = id or f"session_{uuid4().hex}"
        self.user = user
        """Whose it is; empty if it is nobody's in particular."""
        self.messages = tuple(messages)
        self.grants: set[Grant] = set()
        """What need not be asked about any more."""
        self.updated = 0.0
        """When the newest record of its runs was written, if it was found in a store."""
        self.run_id: str | None = None
        """The run that is going on with it, or waits for decisions."""

    def go_on_after(self, run_id: str, messages: tuple[Message, ...]) -> None:
        """Take what was said by the end of its run; for runs only."""
        if self.run_id == run_id or self.is_fresh:
            self.run_id, self.messages = None, messages

    @property
    def is_fresh(self) -> bool:
        """Whether nothing was said in it yet."""
        return self.run_id is None and not self.messages

    def forget(self, run_id: str) -> None:
        """Take that a run is not there any more, so that another can go on; for runs only."""
        if self.run_id == run_id:
            self.run_id = None

    @property
    def numbering(self) -> Numbering:
        """How much there is of it, so that what follows is numbered on."""
        return numbering_of(self.messages)

    def to_json(self) -> bytes:
        """Write it down, to go on with it later.

        What need not be asked about is not kept: rules may have changed by then.
        """
        if self.run_id is not None:
            raise UsageError(
                f"the conversation has a run that is not over ({self.run_id}): resume or stop it"
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
