"""What all runs of an agent have in common."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from argstream.agent._run_log import RunLog
from argstream.agent._toolbox import Toolbox
from argstream.agent.approvals import Approver
from argstream.clients import Model, ModelSettings
from argstream.events import Event
from argstream.log import Store

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
    agent: str = "agent"
    """The name of the agent."""
    store: Store | None = None
    """Where the logs of its runs are kept."""
    claim_seconds: float = 15.0
    """For how long a run is ours, if we do not say that we live."""

    def log(self, run_id: str, session_id: str) -> RunLog | None:
        """Give the log of a run, if there is to be one."""
        return None if self.store is None else self.log_in(self.store, run_id, session_id)

    def log_in(self, store: Store, run_id: str, session_id: str) -> RunLog:
        """Give the log of a run in a store."""
        return RunLog(store, run_id, session_id, self.agent, self.claim_seconds)

    async def close_model(self) -> None:
        """Close what the model keeps open for this event loop, such as connections."""
        close = getattr(self.model, "aclose", None)
        if close is not None:
            await close()
