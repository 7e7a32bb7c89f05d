"""What all runs of an agent have in common."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from argstream.agent._toolbox import Toolbox
from argstream.agent.approvals import Approver
from argstream.clients import Model, ModelSettings
from argstream.events import Event

__all__ = ["EventHook", "Setting"]

EventHook: TypeAlias = Callable[[Event], Awaitable[None] | None]
"""Is given each event just before whoever follows the run. It may be async."""


class Setting(Struct, frozen=True):
    """Who is asked, what is offered, and how."""

    model: Model
    tools: Toolbox
    instructions: str
    settings: ModelSettings
    approver: Approver | None = None
    on_event: EventHook | None = None

    async def close_model(self) -> None:
        """Close what the model keeps open for this event loop, such as connections."""
        close = getattr(self.model, "aclose", None)
        if close is not None:
            await close()
