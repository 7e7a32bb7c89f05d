"""A run as its log tells it: events in, what is known of the run out.

The log is taken as it is: what it says was decided is not decided again. What is not in it has not
happened. But what somebody approved for more than one call is not taken over: tools and rules of
the same names may be others here. Pure, as the loop is.
"""

from collections.abc import Iterable
from typing import Any

from argstream.agent._arguments import read_arguments, written
from argstream.agent._state import CallState, RunState
from argstream.agent._toolbox import Asking, Toolbox
from argstream.agent._wording import edited_note
from argstream.agent.approvals import digest_of
from argstream.agent.conversation import numbering_of
from argstream.agent.tools import parsed_anew
from argstream.assembly import Numbering
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ArgumentsError,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
    StreamFailed,
    TextDelta,
    ThinkingStarted,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    TurnCompleted,
    TurnStarted,
    Usage,
)
from argstream.history import NOTE

__all__ = ["restore"]


def restore(state: RunState, events: Iterable[Event], tools: Toolbox) -> None:
    """Bring a state to where the log of its run ends."""
    fresh = RunState(state.run_id, state.grants)
    for field in RunState.__struct_fields__:  # others may hold on to it
        setattr(state, field, getattr(fresh, field))
    restoring = _Restoring(state, tools)
    for event in events:
        restoring.take(event)
    state.numbering = restoring.numbering


class _Restoring:
    def __init__(self, state: RunState, tools: Toolbox) -> None:
        self._state = state
        self._tools = tools
        self._texts: dict[str, list[str]] = {}  # of the arguments of this turn's calls
        self._denied: set[str] = set()  # denied or withdrawn calls
        self._attempts = 0
        self._blocks = 0
        self._calls = 0

    @property
    def numbering(self) -> Numbering:
        """How much has come, what was lost included."""
        before = numbering_of(self._state.history)
        return Numbering(
            before.turns + self._attempts,
            max(before.blocks, self._blocks),
            max(before.calls, self._calls),
            before.call_ids | self._state.uses.keys(),
        )

    def take(self, event: Event) -> None:
        state = self._state
        match event:
            case ToolArgsDelta(call_id=call_id, delta=delta):
                if call_id in self._texts:
                    self._texts[call_id].append(delta)
            case TextDelta(block=block) | ThinkingStarted(block=block):
                self._blocks = max(self._blocks, block + 1)
            case RunStarted(prompt=prompt, history=history):
                state.history, state.messages = history, list(history)
                state.say(prompt)
            case RunPaused():
                state.status = "paused"
            case RunResumed(note=note):
                state.status = "running"
                if note:
                    state.say(note, NOTE)
            case RunCompleted(usage=usage):
                self._end("completed", usage)
            case RunFailed(usage=usage):
                self._end("failed", usage)
            case RunStopped(usage=usage):
                self._end("stopped", usage)
            case StreamFailed(code=code, message=message):
                if state.stop_kind is None and state.failure is None:
                    state.failure = RunFailed(code, message, state.run_id)
            case _:
                self._take_turn(event)

    def _end(self, status: Any, usage: Usage) -> None:
        self._state.status, self._state.is_reading = status, False
        if usage != Usage():
            self._state.usage = usage  # with that of a turn that did not complete
        self._state.add_results()

    def _take_turn(self, event: Event) -> None:
        state = self._state
        match event:
            case TurnStarted(turn=number, attempt=attempt):
                self._attempts += 1
                if attempt == 1:
                    state.add_results()
                state.begin_turn(number, attempt)
                self._texts.clear()
            case TurnCompleted(parent_id=None):
                turn = state.without_forged_results(event)
                state.is_reading = not state.end_turn(turn) and state.is_reading
            case ToolCallStarted(parent_id=None):
                self._calls = max(self._calls, event.index + 1)
                self._texts[event.call_id] = []
                state.open_call(event)
            case _:
                self._take_call(event)

    def _take_call(self, event: Event) -> None:
        match event:
            case ToolArgsCompleted():
                self._settle(event)
            case ToolArgsInvalid(call_id=call_id, name=name, verdict=verdict):
                self._name(call_id, name)
                if (use := self._state.uses.get(call_id)) is not None:
                    use.verdict = verdict
            case ToolCallCompleted() | ToolCallFailed() if self._is_forged(event):
                pass
            case ToolCallCompleted(call_id=call_id, arguments=arguments, result=result):
                self._conclude(call_id, result, failed=False)
                if (use := self._state.uses.get(call_id)) is not None:
                    use.tool_args, use.result = arguments, result
            case ToolCallFailed(call_id=call_id, error=error):
                self._conclude(call_id, error, failed=True)
                if (use := self._state.uses.get(call_id)) is not None:
                    use.error = error
            case ApprovalRequested(call_id=call_id) if call_id in self._state.calls:
                self._ask(self._state.calls[call_id], event)
            case ApprovalDecided(call_id=call_id) if call_id in self._state.calls:
                self._decide(self._state.calls[call_id], event)
            case ToolExecutionStarted(call_id=call_id, attempt=attempt):
                call = self._state.calls[call_id]
                call.status, call.attempts = "running", attempt
                call.reading = "none" if call.has_verdict else "interrupted"  # nobody reads now
            case _:
                pass

    def _name(self, call_id: str, name: str) -> CallState | None:
        """Take that the arguments of a call have their verdict: now its name is known."""
        self._state.provider_calls.pop(call_id, None)
        call = self._state.calls.get(call_id)
        if call is not None:
            call.has_verdict, call.name = True, name
            self._state.uses[call_id].tool_name = name
        return call

    def _settle(self, event: ToolArgsCompleted) -> None:
        call = self._name(event.call_id, event.name)
        if call is None or not isinstance(event.arguments, dict):
            return
        call.text = call.asked_text = self._text(event.call_id, event.arguments)
        self._state.uses[call.call_id].tool_args = read_arguments(call.text)
        if call.status == "writing":
            call.status = "ready"

    def _text(self, call_id: str, arguments: dict[str, Any]) -> str:
        """Give the exact text: what came, unless it was meant in another way."""
        meant = written(arguments)
        came = "".join(self._texts[call_id])
        parser = parsed_anew(came)
        is_meant = parser.verdict == "complete" and written(parser.value) == meant
        return came if is_meant else meant

    def _ask(self, call: CallState, event: ApprovalRequested) -> None:
        for text in (call.text, written(event.arguments)):
            if event.digest == digest_of(self._state.run_id, call.call_id, call.name, text):
                call.text = call.asked_text = text
        call.status, call.request = "asking", event
        call.asking = self._asking(call, event)

    def _asking(self, call: CallState, event: ApprovalRequested) -> Asking:
        """Find the rule that asked among the present ones, by its content.

        The name is not enough, because the policy may have changed.
        """
        if self._tools.get(call.name) is not None:
            askings = self._tools.askings(call.name, read_arguments(call.text))
            for asking in [] if isinstance(askings, ArgumentsError) else askings:
                digest = "" if asking.rule is None else asking.rule.digest
                if digest == event.rule_digest:
                    return asking
        return Asking(event.reason, event.rule)

    def _decide(self, call: CallState, event: ApprovalDecided) -> None:
        if event.edited_arguments is not None:
            call.text = written(event.edited_arguments)
            call.note = edited_note(call.text)
            self._state.uses[call.call_id].tool_args = read_arguments(call.text)
        if event.decision in ("approved", "edited"):
            call.status = "ready"
        else:
            self._denied.add(call.call_id)

    def _is_forged(self, event: ToolCallCompleted | ToolCallFailed) -> bool:
        """Return True if the event ends a call of ours that cannot have ended (invariant 14).

        Current versions never write such an event. Logs of older versions may contain one.
        """
        call = self._state.calls.get(event.call_id)
        if call is None or call.attempts:
            return False
        is_undecided = call.status == "asking" and call.call_id not in self._denied
        return isinstance(event, ToolCallCompleted) or is_undecided or not call.has_verdict

    def _conclude(self, call_id: str, result: Any, *, failed: bool) -> None:
        call = self._state.calls.get(call_id)
        if call is not None:
            call.status, call.result, call.failed = "done", result, failed
