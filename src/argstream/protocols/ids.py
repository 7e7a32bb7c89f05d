"""Ids that clients choose: whatever they like, but not nothing, and not much."""

from typing import Annotated, TypeAlias

from msgspec import Meta

__all__ = ["ChosenId", "ConversationId"]

ChosenId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]

ConversationId: TypeAlias = ChosenId
"""Of a conversation, which is a chat to some clients and a thread to others."""
