"""Messages: the history that is sent back to a model.

A turn is a list of parts in the order in which the model produced them. Some providers need parts
back in their own form, for example with a signature, encrypted reasoning or citations. Such a part
has that form in ``item``, and the next request to the same provider contains it unchanged.
"""

from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

CallKind: TypeAlias = Literal["function", "server", "mcp", "custom", "code", "patch", "client"]
"""What runs a call, and the form of its input: free text for ``custom`` and ``code``, else JSON.

``client`` is a call to a tool that the provider defines and the client runs or answers: a shell
command, an action on a computer, a request to approve an MCP call.
"""

Item: TypeAlias = dict[str, Any]
"""A provider's own form of a part: JSON that is sent back unchanged."""

Verdict: TypeAlias = Literal["complete", "truncated", "malformed", "rejected", "aborted"]
"""How a call ended. Only a complete one may run."""


class TextPart(Struct, frozen=True, tag="text", kw_only=True):
    """Text."""

    text: str
    item: Item | None = None


class ThinkingPart(Struct, frozen=True, tag="thinking", kw_only=True):
    """Thinking. The text may be empty if the provider sends only an item."""

    text: str
    item: Item | None = None


class CallPart(Struct, frozen=True, tag="call", kw_only=True):
    """A tool call. For one that is not complete, ``arguments`` holds its text as INVALID_JSON."""

    call_id: str
    name: str
    kind: CallKind
    arguments: dict[str, Any] | str
    raw: str
    """The exact text that arrived."""
    verdict: Verdict
    item: Item | None = None


class ResultPart(Struct, frozen=True, tag="result", kw_only=True):
    """The result of a call."""

    call_id: str
    result: Any
    failed: bool = False
    note: str = ""
    """A note for the model, for example that an approver edited the arguments."""
    item: Item | None = None


class OpaquePart(Struct, frozen=True, tag="opaque", kw_only=True):
    """A part that only its provider understands."""

    item: Item


Part: TypeAlias = TextPart | ThinkingPart | CallPart | ResultPart | OpaquePart


NOTE: Final = "argstream-note"
"""The ID of a message that the agent itself sends to the model, on behalf of no user."""


class Message(Struct, frozen=True, kw_only=True):
    """One message of the user or the model."""

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]
    id: str = ""
    model: str = ""


def said_by_user(message: Message) -> str:
    """Return the text of a user's message; "" for results and for notes of an agent."""
    if message.role != "user" or message.id == NOTE:
        return ""
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))
