"""Whether a decision is one: about what was asked, once, and with arguments that may run."""

from collections.abc import Mapping
from typing import Any, get_args

from argstream.agent._arguments import read_arguments, written
from argstream.agent._state import CallState
from argstream.agent._toolbox import Toolbox
from argstream.agent.approvals import Approval, Approve, Deny, digest_of
from argstream.errors import UsageError
from argstream.events import Remembered

__all__ = ["checked_edit", "is_untouched", "undecided"]


def undecided(calls: dict[str, CallState], call_id: str) -> CallState:
    """Give the call that is to be decided on; each decision is used once."""
    call = calls.get(call_id)
    if call is not None and call.status == "asking":
        return call
    waiting = [other.call_id for other in calls.values() if other.status == "asking"]
    if call is not None and call.request is not None:
        raise UsageError(f"it was decided already on the call {call_id}")
    raise UsageError(
        f"nobody was asked about a call {call_id!r}; waiting are: {', '.join(waiting) or 'none'}"
    )


def checked_edit(run_id: str, call: CallState, decision: Approval, tools: Toolbox) -> str | None:
    """Raise UsageError if a decision is none; give the text of edited arguments, if it has any."""
    if isinstance(decision, Deny):
        return None
    if not isinstance(decision, Approve):
        raise UsageError(f"a decision is Approve(…) or Deny(…), not {type(decision).__name__}")
    request = call.request
    if request is None or not is_untouched(run_id, call):
        raise UsageError(
            "the arguments of the request were changed: to run others, use Approve(arguments=…)"
        )
    if decision.digest and decision.digest != request.digest:
        raise UsageError(f"the digest is not that of the call {call.call_id}: ask again")
    if decision.always not in (None, *get_args(Remembered)):
        raise UsageError(f'always is "session" or "rule", not {decision.always!r}')
    if decision.always == "rule" and request.rule is None:
        raise UsageError('no rule asks about this call: use Approve(always="session")')
    return None if decision.arguments is None else _edited(call, decision.arguments, tools)


def _edited(call: CallState, arguments: Mapping[str, Any], tools: Toolbox) -> str:
    try:
        text = written(dict(arguments))
    except (TypeError, ValueError) as error:
        raise UsageError(f"the edited arguments are no JSON: {error}") from None
    if tools.get(call.name) is None:
        raise UsageError(
            f"whether edited arguments fit cannot be told here: there is no {call.name}"
        )
    refusal = tools.refusal(call.name, read_arguments(text))
    problem = refusal.message if refusal is not None else tools[call.name].problem(text)
    if problem is not None:
        raise UsageError(f"the edited arguments of {call.name} are not valid: {problem}")
    return text


def is_untouched(run_id: str, call: CallState) -> bool:
    """Say whether what a person was shown is still what the text says."""
    request = call.request
    if request is None:
        return True
    if request.digest != digest_of(run_id, call.call_id, call.name, call.asked_text):
        return False
    try:
        shown = written(request.arguments)  # as text: in Python, 1 equals True
    except (TypeError, ValueError):
        return False
    return shown == written(read_arguments(call.asked_text))
