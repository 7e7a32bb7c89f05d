"""What all events are."""

from msgspec import Struct

__all__ = ["BaseEvent"]


class BaseEvent(Struct, frozen=True, tag_field="type"):
    """What all events share: a tag."""
