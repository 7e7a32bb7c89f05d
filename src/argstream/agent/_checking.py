"""Whether decisions on a run in a store could be used now: it is read, and nothing is changed."""

from argstream.agent._machine import Machine
from argstream.agent._taking_up import refuse_if_over
from argstream.agent.observing._observed import Observed, is_observed
from argstream.decisions import Decisions
from argstream.errors import AlreadyDecided
from argstream.events import ApprovalDecided
from argstream.log import Store

__all__ = ["check_decisions"]


async def check_decisions(store: Store, machine: Machine, decisions: Decisions) -> None:
    """Raise what going on with a run with these decisions would, by its log and what is posted.

    An observed run, with which nobody can go on, is asked what its observer would say.
    """
    run_id = machine.state.run_id
    told = [record.event for record in await store.read(run_id)]
    machine.restore(told)
    refuse_if_over(machine)
    observed = Observed.of(run_id, told) if is_observed(told) else None
    pending = machine.pending if observed is None else observed.pending
    posted = (await store.posted(run_id)).decisions
    decided = {event.call_id for event in told if isinstance(event, ApprovalDecided)}
    decided -= {request.call_id for request in pending}  # somebody is asked again
    for call_id, decision in decisions.items():
        if call_id in decided or posted.get(call_id, decision) != decision:
            raise AlreadyDecided(call_id)
    if observed is not None:
        observed.check(decisions)
    else:
        machine.check(decisions)
        machine.require_tools({**posted, **decisions})
