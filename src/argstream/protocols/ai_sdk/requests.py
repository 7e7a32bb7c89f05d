"""What a client of the AI SDK sends, and what of it is meant.

A client sends all messages that it knows, each time. Nothing of that is believed but what its user
says now: the last message, if it is the user's, or the answers to approvals in the last message of
the assistant. What was said before, what was called and with which input is what the store has.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from argstream.errors import UsageError
from argstream.history import Message, said_by_user
from argstream.protocols.ids import ConversationId, Reason

__all__ = [
    "Answer",
    "Answered",
    "ChatBody",
    "Said",
    "history_before",
    "meant",
]


class ChatApproval(Struct, frozen=True):
    """What a client knows of an approval."""

    id: str
    approved: bool | None = None
    reason: Reason | None = None


class ChatPart(Struct, frozen=True):
    """A part of a message, as far as it matters here."""

    type: str
    text: str = ""
    state: str | None = None
    approval: ChatApproval | None = None


class ChatMessage(Struct, frozen=True):
    """A message, as a client has it."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[ChatPart, ...] = ()
    id: str = ""

    @property
    def text(self) -> str:
        """What is said in it."""
        return "".join(part.text for part in self.parts if part.type == "text")


class ChatBody(Struct, frozen=True, rename="camel"):
    """What ``DefaultChatTransport`` posts, in 6 and 7; and what a front end may add to it."""

    id: ConversationId
    messages: tuple[ChatMessage, ...] = ()
    message: ChatMessage | None = None
    """In place of all messages, only the last: many front ends send no more."""
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = None
    edits: Mapping[str, dict[str, Any]] = {}
    """By the ids of approvals: what to run instead of what the model wrote."""


class Said(Struct, frozen=True):
    """The user says something."""

    prompt: str
    is_again: bool = False
    """Whether it takes the place of what was said then: it is asked again, or was changed."""
    before: tuple[str, ...] | None = None
    """What he had said before that, as far as the client tells."""


class Answer(Struct, frozen=True):
    """What a person says to one request."""

    approved: bool
    reason: str = ""
    edit: dict[str, Any] | None = None


class Answered(Struct, frozen=True):
    """A person has answered requests, each named by its digest."""

    answers: Mapping[str, Answer]
    unanswered: frozenset[str] = frozenset()
    """Those that the client still asks about."""


Meant: TypeAlias = Said | Answered


def meant(body: ChatBody) -> Meant:
    """Say what a client wants; raises ``UsageError`` if it wants nothing, or what cannot be."""
    last = body.message or (body.messages[-1] if body.messages else None)
    if last is None:
        raise UsageError("there is no message: send messages, or the last one as message")
    if last.role == "assistant":
        return _answered(last, body.edits)
    if last.role != "user":
        raise UsageError(f"the last message is of the role {last.role}: it must be the user's")
    if any(part.type == "file" for part in last.parts):
        raise UsageError("files cannot be read here: send what is in them as text")
    is_changed = body.message_id is not None and body.message_id == last.id
    before = None
    if body.message is None:
        earlier = body.messages[:-1]
        before = tuple(message.text for message in earlier if message.role == "user")
    return Said(last.text, is_changed or body.trigger == "regenerate-message", before)


def _answered(message: ChatMessage, edits: Mapping[str, dict[str, Any]]) -> Answered:
    answers: dict[str, Answer] = {}
    unanswered: set[str] = set()
    for part in message.parts:
        approval = part.approval
        if approval is None:
            continue
        if part.state == "approval-requested":
            unanswered.add(approval.id)
        elif part.state == "approval-responded" and approval.approved is not None:
            edit = edits.get(approval.id)
            answers[approval.id] = Answer(approval.approved, approval.reason or "", edit)
    if not answers:
        raise UsageError("nothing new is in these messages: no message, and no answer to a request")
    unknown = edits.keys() - answers.keys()
    if unknown:
        raise UsageError(f"there are edits for what was not approved: {', '.join(sorted(unknown))}")
    return Answered(answers, frozenset(unanswered))


def history_before(messages: Sequence[Message], said: Said) -> tuple[Message, ...]:
    """Give what was said before something that is said again: as the store has it.

    Raises ``UsageError`` if the client tells of other things than the store has.
    """
    places = [place for place, message in enumerate(messages) if said_by_user(message)]
    texts = [said_by_user(messages[place]) for place in places]
    if said.before is None:
        count = max(len(places) - 1, 0)
    elif texts[: len(said.before)] == list(said.before):
        count = len(said.before)
    else:
        raise UsageError(
            "what was said before is not what the store has of this conversation, so nothing can "
            "be said again in it: send a new message"
        )
    return tuple(messages if count >= len(places) else messages[: places[count]])
