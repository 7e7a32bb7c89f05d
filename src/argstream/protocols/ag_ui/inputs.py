"""What a client of AG-UI sends: a new message, or what was decided on calls.

What was said before is the log's, whatever the client tells of it; its tools, its state and its
context are not used. Of all that it sends only the text of a new message counts, and the decisions.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, Struct

from argstream.decisions import Approval, Approve, Deny
from argstream.errors import UsageError
from argstream.protocols.ag_ui.wire import Version
from argstream.protocols.ids import ChosenId, ConversationId, Reason

__all__ = ["Answers", "RunAgentInput", "answers_of", "known_of", "prompt_of", "version_of"]

_MOST_KNOWN: Final = 1_000
"""How many messages a client is told back; one that has more is told what the log has of them."""

_Message: TypeAlias = dict[str, Any]


class ResumeEntry(Struct, frozen=True, rename="camel"):
    """What was answered to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunAgentInput(Struct, frozen=True, rename="camel"):
    """A request of a client, as far as it is read."""

    thread_id: ConversationId
    run_id: ChosenId
    messages: list[Raw]
    """All that it has, each as it was sent: decoded, many small ones take a hundred times the room,
    and only the last one is read."""
    protocol_version: str | None = None
    """Left out by those that speak 0.0.59."""
    resume: list[ResumeEntry] | None = None


class _Answer(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What an interrupt asks for: see its responseSchema."""

    approved: bool
    edited_args: dict[str, Any] | None = None
    reason: Reason | None = None


def version_of(protocol_version: str | None) -> Version:
    """Say which version to speak: whoever names one knows at least 1.0."""
    return "0.0.59" if protocol_version is None else "1.0"


def prompt_of(messages: Sequence[Raw]) -> str | None:
    """Give the text of the last message if a person wrote it, which makes it a new one.

    None if not: then the client wants to go on seeing what it has asked for.

    >>> prompt_of([Raw(b'{"role": "user", "content": [{"type": "text", "text": "Hi"}]}')])
    'Hi'
    """
    last = _decoded(messages[-1]) if messages else {}
    if last.get("role") != "user":
        return None
    content = last.get("content")
    text = content if isinstance(content, str) else "".join(_texts(content))
    if not text.strip():
        raise UsageError("the last message is empty: write what the agent should do")
    return text


def known_of(messages: Sequence[Raw]) -> bytes | None:
    """Give the messages that a client has, to tell them back to it, as the text of a JSON array.

    None if they are too many for that.

    >>> known_of([Raw(b'{"id": "1"}'), Raw(b'{ "id": "2" }')])
    b'[{"id":"1"},{"id":"2"}]'
    """
    if len(messages) > _MOST_KNOWN:
        return None
    return b"[%b]" % b",".join(msgspec.json.encode(_decoded(message)) for message in messages)


def _decoded(message: Raw) -> _Message:
    try:
        return msgspec.json.decode(message, type=_Message)
    except msgspec.ValidationError as error:
        raise UsageError(f"each message must be an object: {error}") from error


def _texts(content: object) -> Iterable[str]:
    if not isinstance(content, list):
        raise UsageError("the content of a message must be a text, or a list of parts")
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("text") if isinstance(part, dict) else None
        if kind != "text" or not isinstance(text, str):
            raise UsageError(
                f"the last message has a part of the type {kind!r}: only text can be sent here"
            )
        yield text


class Answers(NamedTuple):
    """What was answered, by the ids of the interrupts."""

    resolved: dict[str, Approval]
    cancelled: dict[str, Deny]
    """What nobody wanted to decide: it is not run."""


def answers_of(resume: Iterable[ResumeEntry]) -> Answers:
    """Give what was answered."""
    answers = Answers({}, {})
    for entry in resume:
        name = entry.interrupt_id
        if name in answers.resolved or name in answers.cancelled:
            raise UsageError(f"the interrupt {name} is answered twice: answer it once")
        if entry.status == "cancelled":
            answers.cancelled[name] = Deny("nobody wanted to answer")
        else:
            answers.resolved[name] = _answer(entry)
    return answers


def _answer(entry: ResumeEntry) -> Approval:
    try:
        answer = msgspec.convert(entry.payload, _Answer)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"the payload for the interrupt {entry.interrupt_id} is no answer ({error}): send "
            "{approved: true}, with editedArgs if others should be used, or {approved: false}, "
            "with a reason"
        ) from error
    reason = answer.reason or ""
    if not answer.approved:
        return Deny(reason)
    return Approve(arguments=answer.edited_args, digest=entry.interrupt_id, reason=reason)
