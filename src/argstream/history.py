"""Messages: what goes back to a model.

A turn is kept as parts in the order in which the model produced them. Where a provider has a form
of its own that it wants to see again unchanged (a signature, encrypted reasoning, citations), the
part carries it in ``item``; whoever builds the next request for the same provider sends that.
"""

from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

CallKind: TypeAlias = Literal["function", "server", "mcp", "custom", "code", "patch", "client"]
"""What runs a call, and the form of its input: free text for ``custom`` and ``code``, else JSON.

``client`` is a call to a tool that the provider defines and the client runs or answers: a shell
command, an action on a computer, a request to approve an MCP call.
"""

Item: TypeAlias = dict[str, Any]
"""A provider's own form of something: JSON that is sent back as it came."""

Verdict: TypeAlias = Literal["complete", "truncated", "malformed", "rejected", "aborted"]
"""How a call ended. Only a complete one may run."""


class TextPart(Struct, frozen=True, tag="text", kw_only=True):
    """What was said."""

    text: str
    item: Item | None = None


class ThinkingPart(Struct, frozen=True, tag="thinking", kw_only=True):
    """What was thought; the text may be empty while the item is not."""

    text: str
    item: Item | None = None


class CallPart(Struct, frozen=True, tag="call", kw_only=True):
    """A tool call. For one that is not complete, ``arguments`` holds its text as INVALID_JSON."""

    call_id: str
    name: str
    kind: CallKind
    arguments: dict[str, Any] | str
    raw: str
    """Exactly the text that came."""
    verdict: Verdict
    item: Item | None = None


class ResultPart(Struct, frozen=True, tag="result", kw_only=True):
    """What came of a call."""

    call_id: str
    result: Any
    failed: bool = False
    note: str = ""
    """What the model should know besides, such as that a person changed the arguments."""
    item: Item | None = None


class OpaquePart(Struct, frozen=True, tag="opaque", kw_only=True):
    """Something that only its provider understands."""

    item: Item


Part: TypeAlias = TextPart | ThinkingPart | CallPart | ResultPart | OpaquePart


NOTE: Final = "argstream-note"
"""The id of a message in which an agent tells the model something of its own, and no user does."""


class Message(Struct, frozen=True, kw_only=True):
    """One turn."""

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]
    id: str = ""
    model: str = ""


def said_by_user(message: Message) -> str:
    """Return the text of a user's message; "" for results and for notes of an agent."""
    if message.role != "user" or message.id == NOTE:
        return ""
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))
