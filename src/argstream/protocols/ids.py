"""What clients choose: ids, whatever they like, but not nothing; reasons; of both not much."""

from typing import Annotated, TypeAlias

from msgspec import Meta

__all__ = ["ChosenId", "ConversationId", "Reason"]

ChosenId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]

ConversationId: TypeAlias = ChosenId
"""Of a conversation, which is a chat to some clients and a thread to others."""

Reason: TypeAlias = Annotated[str, Meta(max_length=10_000)]
"""Why a person decides so: the model is told, and all who watch."""
