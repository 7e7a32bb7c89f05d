"""The calls of a run: from the first character of one to its result. Pure, as the loop is."""

from collections.abc import Callable
from typing import Any, NamedTuple

from argstream.agent._arguments import read_arguments
from argstream.agent._decisions import checked_edit, is_untouched
from argstream.agent._effects import AskPerson, EndText, Execute, ReadAlong, Step, Withdraw
from argstream.agent._state import CallState, RunState
from argstream.agent._toolbox import Asking, Toolbox
from argstream.agent._wording import INTERRUPTED, denied_words, edited_note, invalid_words
from argstream.agent.approvals import Approval, Approve, Deny, Grant, digest_of, idempotency_key
from argstream.errors import TextInterrupted
from argstream.events import (
    ApprovalDecided,
    ApprovalOutcome,
    ApprovalRequested,
    ArgumentsError,
    Remembered,
    ToolArgsCompleted,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolExecutionStarted,
)

__all__ = ["CallFacts", "Calls"]

_EXPIRED = "nobody approved it in time"
_CHANGED = "its arguments were changed after a person had seen them"


class CallFacts(NamedTuple):
    """What must be known of a complete call beside its event."""

    text: str
    """The exact text of its arguments."""
    is_as_streamed: bool
    """Whether that is what came while it was written."""


class Calls:
    """What becomes of the calls of a run. What follows is added to ``out``."""

    def __init__(
        self, state: RunState, tools: Toolbox, out: Step, approval_seconds: float | None
    ) -> None:
        self._state = state
        self._tools = tools
        self._out = out
        self._approval_seconds = approval_seconds

    # While it is written

    def ran_elsewhere(self, event: ToolCallCompleted | ToolCallFailed) -> None:
        """Take note of what came of a call that the provider ran."""
        if (use := self._state.uses.get(event.call_id)) is None:
            return
        if isinstance(event, ToolCallCompleted):
            use.tool_args, use.result = event.arguments, event.result
        else:
            use.error = event.error

    def invalid(self, event: ToolArgsInvalid) -> None:
        """Take that a call cannot be run."""
        self._state.provider_calls.pop(event.call_id, None)
        if (use := self._state.uses.get(event.call_id)) is not None:
            use.verdict, use.tool_name = event.verdict, event.name
        if (call := self._state.calls.get(event.call_id)) is not None:
            call.has_verdict, call.name = True, event.name
            self._turn_down(call, invalid_words(event), event.verdict, event.error)

    def too_late(self, event: ToolArgsCompleted, why: str) -> None:
        """Take that the arguments are complete, when nothing is run any more."""
        self._state.provider_calls.pop(event.call_id, None)
        if (call := self._state.calls.get(event.call_id)) is not None:
            call.has_verdict = True
            self._turn_down(call, why, "aborted")

    def settled(
        self, event: ToolArgsCompleted, facts: Callable[[str], CallFacts], now: float
    ) -> None:
        """Take that the arguments are complete: the call may run, or not, or a person is asked."""
        self._state.provider_calls.pop(event.call_id, None)
        call = self._state.calls.get(event.call_id)
        if call is None:
            return
        call.has_verdict = True
        problem = self._problem(call, event, facts)
        if problem is None:
            self._take_up(call, now)
        else:
            self._turn_down(call, problem, "malformed")

    def _problem(
        self, call: CallState, event: ToolArgsCompleted, facts: Callable[[str], CallFacts]
    ) -> str | None:
        """Take the name and the text of a call that is complete; say what is wrong with it."""
        if call.comes_late:
            return "it came after the end of the turn"
        if call.starts_early and call.name != event.name:
            return "the provider closed it under another name"
        # A few servers send a name in pieces, of which the call was started with the first.
        call.name = self._state.uses[call.call_id].tool_name = event.name
        tool = self._tools.get(call.name)
        if tool is None:
            return f"this agent has no tool {call.name!r}"
        if not isinstance(event.arguments, dict):
            return f"there is no tool {call.name!r} that takes it"
        call.text, is_as_streamed = facts(event.call_id)
        call.asked_text = call.text
        self._state.uses[call.call_id].tool_args = read_arguments(call.text)
        if call.starts_early and not is_as_streamed:
            return "the provider closed it with other arguments"
        return tool.problem(call.text)

    def _take_up(self, call: CallState, now: float) -> None:
        """Have a call with which nothing is wrong run, or a person asked about it."""
        if call.starts_early:
            return  # nothing could forbid it any more when it was started
        askings = self._tools.askings(call.name, read_arguments(call.text))
        if isinstance(askings, ArgumentsError):
            self._refuse(call, askings.message)
        elif askings and not self._is_granted(call, askings):
            self._ask(call, askings, now)
        else:
            call.status = "ready"

    # Approval

    def _is_granted(self, call: CallState, askings: list[Asking]) -> bool:
        grants = self._state.grants
        return self._session_grant(call) in grants or all(
            asking.granted_by(grants) for asking in askings
        )

    def _session_grant(self, call: CallState) -> Grant:
        return Grant("session", call.name, self._tools[call.name].function)

    def _ask(self, call: CallState, askings: list[Asking], now: float) -> None:
        seconds = self._approval_seconds
        asking = next(one for one in askings if not one.granted_by(self._state.grants))
        call.asking = asking
        call.request = ApprovalRequested(
            call.call_id,
            call.name,
            read_arguments(call.text),
            digest_of(self._state.run_id, call.call_id, call.name, call.text),
            asking.reason,
            asking.name,
            None if seconds is None else now + seconds,
            "" if asking.rule is None else asking.rule.digest,
        )
        call.status = "asking"
        self._out.events.append(call.request)
        self._out.effects.append(AskPerson(call.request))

    def decide(self, call: CallState, decision: Approval, now: float) -> None:
        """Take a decision; raises UsageError, and changes nothing, if it is none."""
        edit = checked_edit(self._state.run_id, call, decision, self._tools)
        if self.is_late(call, now):
            self.expire(call)
            return
        self._out.effects.append(Withdraw(call.call_id))  # of who else is being asked
        if isinstance(decision, Deny):
            self._tell_decision(call, "denied", decision.reason)
            self._refuse(call, denied_words(decision.reason))
        else:
            self._approve(call, decision, edit)

    def _approve(self, call: CallState, decision: Approve, edit: str | None) -> None:
        grant = self._wanted_grant(call, decision.always)
        if grant is not None:
            self._state.grants.add(grant)
        always = None if grant is None else grant.scope
        if edit is None:
            self._tell_decision(call, "approved", decision.reason, always=always)
        else:
            edited = read_arguments(edit)
            self._tell_decision(call, "edited", decision.reason, edited, always)
            call.text, call.note = edit, edited_note(edit)
            self._state.uses[call.call_id].tool_args = read_arguments(edit)
        call.status = "ready"

    def _wanted_grant(self, call: CallState, always: Remembered | None) -> Grant | None:
        """Return the grant, or None if the rule that was shown no longer exists."""
        if always == "session":
            return self._session_grant(call)
        return None if always is None or call.asking is None else call.asking.grant

    def _tell_decision(
        self,
        call: CallState,
        outcome: ApprovalOutcome,
        reason: str,
        edited: dict[str, Any] | None = None,
        always: Remembered | None = None,
    ) -> None:
        self._out.events.append(
            ApprovalDecided(call.call_id, call.name, outcome, reason, edited, always)
        )

    def is_late(self, call: CallState, now: float) -> bool:
        """Say whether nothing can be decided on it any more."""
        end = None if call.request is None else call.request.expires_at
        return end is not None and now >= end

    def expire(self, call: CallState) -> None:
        """Take that nobody has decided in time."""
        self._out.effects.append(Withdraw(call.call_id))
        self._tell_decision(call, "expired", "nobody decided in time")
        self._refuse(call, _EXPIRED)

    # Execution

    def start(self, call: CallState) -> None:
        """Have a call run: exactly what was approved, if somebody was asked."""
        key = idempotency_key(self._state.run_id, call.call_id)
        if not is_untouched(self._state.run_id, call):
            self._refuse(call, _CHANGED)
            return
        call.status = "running"
        call.attempts += 1
        started = ToolExecutionStarted(call.call_id, call.name, key, call.attempts)
        self._out.events.append(started)
        if call.starts_early:
            self._out.effects.append(ReadAlong(call.call_id, call.name, key))
        else:
            self._out.effects.append(Execute(call.call_id, call.name, call.text, key))

    def start_early(self, call_id: str) -> None:
        """Have a tool read the text of its call while it is written."""
        call = self._state.calls[call_id]
        if not call.comes_late:
            call.reading = "open"
            self.start(call)

    def finish_text(self, call: CallState) -> None:
        """Tell a tool that reads its text that this has ended well."""
        if call.reading == "open":
            call.reading = "whole"
            self._out.effects.append(EndText(call.call_id))
            self._conclude(call)

    def _interrupt(
        self, call: CallState, why: str, verdict: str, error: ArgumentsError | None = None
    ) -> None:
        """Tell a tool that reads its text that this will not end well."""
        if call.reading == "open":
            call.reading, call.interruption = "interrupted", why
            told = TextInterrupted(why, verdict=verdict, error=error)
            self._out.effects.append(EndText(call.call_id, told))
        self._conclude(call)

    def over(self, call_id: str, result: Any, *, failed: bool) -> None:
        """Take that a tool has ended."""
        call = self._state.calls[call_id]
        call.result, call.failed, call.has_returned = result, failed, True
        self._conclude(call)

    def _conclude(self, call: CallState) -> None:
        """Tell what came of a call, once its tool is over and its text is."""
        if not (call.has_returned and call.has_verdict) or call.reading == "open":
            return
        if call.reading == "interrupted":
            self._fail(call, f"the call was interrupted: {call.interruption}")
            return
        if call.failed:
            self._fail(call, call.result)
            return
        call.status = "done"
        self._state.uses[call.call_id].result = call.result
        arguments = read_arguments(call.text)
        self._out.events.append(ToolCallCompleted(call.call_id, call.name, arguments, call.result))

    def call_off(self, why: str) -> None:
        """Say of all calls that are not running that they will not."""
        for call in self._state.open_calls():
            if call.status == "asking":
                self._out.effects.append(Withdraw(call.call_id))
                self._tell_decision(call, "withdrawn", why)
            if call.status in ("asking", "ready"):
                self._refuse(call, why)
            elif call.reading == "open":
                self._interrupt(call, why, "aborted")

    # After a crash

    def interrupted(self, call: CallState) -> None:
        """Take that a tool was running when the run was cut off: only one that says so runs again.

        What it has done is not known.
        """
        tool = self._tools.get(call.name)
        if tool is not None and tool.idempotent and not self._is_questionable(call):
            call.status, call.reading = "ready", "none"
        else:
            self._fail(call, INTERRUPTED)

    def _is_questionable(self, call: CallState) -> bool:
        """Say whether the rules of now forbid a call, or would have somebody asked about it."""
        askings = self._tools.askings(call.name, read_arguments(call.text))
        if isinstance(askings, ArgumentsError):
            return True
        return call.request is None and bool(askings) and not self._is_granted(call, askings)

    def reconsider(self, call: CallState, now: float) -> None:
        """Judge a call that was ready, by the rules of now: these may not be those of before."""
        problem = self._tools[call.name].problem(call.text)
        if problem is not None:
            self._refuse(call, problem)
        elif call.request is None:
            self._take_up(call, now)
        else:
            askings = self._tools.askings(call.name, read_arguments(call.text))
            if isinstance(askings, ArgumentsError):
                self._refuse(call, askings.message)

    def ask_again(self, call: CallState) -> None:
        """Have a person asked who is here now."""
        if call.request is not None:
            self._out.effects.append(AskPerson(call.request))

    def give_up(self, why: str) -> None:
        """Say of all calls that nothing more will be heard of them, whatever they were at."""
        self.call_off(why)
        for call_id, name in self._state.provider_calls.items():
            self._abort(call_id, name, why)
        for call in self._state.open_calls():
            if not call.has_verdict:
                self._abort(call.call_id, call.name, why)
            self._fail(call, call.interruption or f"the call was given up: {why}")

    def _abort(self, call_id: str, name: str, why: str) -> None:
        self._state.uses[call_id].verdict = "aborted"
        error = ArgumentsError("aborted", why)
        self._out.events.append(ToolArgsInvalid(call_id, name, "aborted", "", error))

    def _turn_down(
        self, call: CallState, why: str, verdict: str, error: ArgumentsError | None = None
    ) -> None:
        """Say of a call with a verdict that nothing comes of it: to its tool, if that reads."""
        if call.starts_early:
            self._interrupt(call, why, verdict, error)
        else:
            self._refuse(call, why)

    def _refuse(self, call: CallState, why: str) -> None:
        self._fail(call, f"the call was not run: {why}")

    def _fail(self, call: CallState, error: str) -> None:
        call.status, call.result, call.failed = "done", error, True
        self._state.uses[call.call_id].error = error
        self._out.events.append(ToolCallFailed(call.call_id, call.name, error))
