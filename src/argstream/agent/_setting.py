"""What all runs of an agent have in common."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from argstream.agent._run_log import RunLog, RunPosition
from argstream.agent._toolbox import Toolbox
from argstream.agent.approvals import Approver
from argstream.clients import Model, ModelSettings
from argstream.log import Record, Store

__all__ = ["EventHook", "Setting"]

EventHook: TypeAlias = Callable[[Record], Awaitable[None] | None]
"""Called with each record just before the consumer of the run receives it. It may be async."""


class Setting(Struct, frozen=True):
    """Who is asked, what is offered, and how."""

    model: Model
    tools: Toolbox
    instructions: str
    settings: ModelSettings
    approver: Approver | None = None
    on_event: EventHook | None = None
    agent: str = "agent"
    """The name of the agent."""
    store: Store | None = None
    """Where the logs of its runs are kept."""
    claim_seconds: float = 15.0
    """For how long a run is ours, if we do not say that we live."""

    def position(self, run_id: str, session_id: str) -> RunPosition:
        """Return the position of a run that has no record yet."""
        return RunPosition(run_id, session_id, self.agent)

    def log(self, position: RunPosition) -> RunLog | None:
        """Return the log of a run, or None without a store."""
        if self.store is None:
            return None
        return RunLog(self.store, position, self.claim_seconds)

    async def close_model(self) -> None:
        """Close what the model keeps open for this event loop, such as connections."""
        close = getattr(self.model, "aclose", None)
        if close is not None:
            await close()
