"""A run that others drive: what its events mean for its calls, and how it ends. Pure.

All that is known follows from the events that were told, so a log can be read back. There is no
``TurnStarted`` in it: nobody here asks the model for turns. By that, an observed run is known.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from argstream.agent._arguments import read_arguments, written
from argstream.agent._observed_result import ObservedResult
from argstream.agent.approvals import Approval, Deny, digest_of
from argstream.agent.tools import parsed_anew
from argstream.decisions import Decisions
from argstream.events import (
    ApprovalDecided,
    ApprovalOutcome,
    ApprovalRequested,
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentsError,
    ArgumentStarted,
    Event,
    Remembered,
    RunCompleted,
    RunFailed,
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
    TurnStarted,
)

__all__ = ["Answer", "Observed", "is_observed", "last_events"]

STOPPED: Final = "the run was stopped"
_NO_RESULT: Final = "the stream ended before the run did"

End: TypeAlias = RunCompleted | RunFailed | RunStopped


class Answer(NamedTuple):
    """What is said to who wants to run a call."""

    text: str | None
    """The exact arguments to run it with; None if it must not run."""
    reason: str = ""
    always: Remembered | None = None


class _Call(Struct):
    """A call that has no end yet."""

    name: str
    pieces: list[str] = []
    """The text of its arguments, as it came."""
    verdict: str = ""
    is_closed_by_request: bool = False
    """Whether somebody wants to run it, before the stream has said that it is whole."""
    request: ApprovalRequested | None = None
    decision: ApprovalDecided | None = None
    asked_text: str = ""


class Observed:
    """What is known of the run. Its methods give the events that follow from what has happened."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.result = ObservedResult(run_id)
        self.end: End | None = None
        """How it ended, if it has."""
        self._calls: dict[str, _Call] = {}  # those without an end
        self._said: RunCompleted | RunFailed | None = None  # how the agent says that it ended
        self._failure: StreamFailed | None = None  # of the stream, the last one
        self._stop: RunStopped | None = None
        self._taking: dict[type, Callable[[Any], None]] = {
            ToolCallStarted: self._started,
            ToolArgsDelta: self._grown,
            ToolArgsCompleted: self._settled,
            ToolArgsInvalid: self._settled,
            ApprovalRequested: self._requested,
            ApprovalDecided: self._decided,
            ToolCallCompleted: self._over,
            ToolCallFailed: self._over,
        }

    def take(self, event: Event) -> None:
        """Take an event that is told, or was."""
        if (taking := self._taking.get(type(event))) is not None:
            taking(event)
        self.result.take(event)

    def _told(self, *events: Event) -> list[Event]:
        for event in events:
            self.take(event)
        return list(events)

    def begin(self, prompt: str) -> list[Event]:
        """Begin."""
        return self._told(RunStarted(self.run_id, prompt))

    # What the stream says

    def heard(self, event: Event) -> list[Event]:
        """Take the next event of the stream, and give what is told of it."""
        match event:
            case (
                ToolArgsDelta(call_id=call_id)
                | ArgumentStarted(call_id=call_id)
                | ArgumentDelta(call_id=call_id)
                | ArgumentCompleted(call_id=call_id)
                | ToolArgsCompleted(call_id=call_id)
                | ToolArgsInvalid(call_id=call_id)
            ):
                call = self._calls.get(call_id)
                if call is not None and call.is_closed_by_request:
                    return []  # it has its verdict
            case TextDelta(parent_id=None) | ThinkingStarted(parent_id=None):
                self._said = None  # the agent goes on: something has woken it
            case ToolCallStarted(parent_id=None):
                self._said = None
            case ToolCallCompleted() | ToolCallFailed():
                return self._heard_end(event)
            case RunCompleted() | RunFailed():
                self._said = event  # it is told when nothing follows
                return []
            case StreamFailed():
                self._failure = event
            case _:
                pass
        return self._told(event)

    def _heard_end(self, event: ToolCallCompleted | ToolCallFailed) -> list[Event]:
        call = self._calls.get(event.call_id)
        if call is None:
            return []
        told = self._withdrawn(event.call_id, call, "the call is over")
        if call.decision is not None and isinstance(event, ToolCallCompleted):
            edited = call.decision.edited_arguments
            event = event if edited is None else replace(event, arguments=edited)
        return told + self._told(event)

    def _started(self, event: ToolCallStarted) -> None:
        self._calls[event.call_id] = _Call(event.name)

    def _grown(self, event: ToolArgsDelta) -> None:
        self._calls[event.call_id].pieces.append(event.delta)

    def _settled(self, event: ToolArgsCompleted | ToolArgsInvalid) -> None:
        call = self._calls[event.call_id]
        call.name = event.name
        call.verdict = "complete" if isinstance(event, ToolArgsCompleted) else event.verdict

    def _over(self, event: ToolCallCompleted | ToolCallFailed) -> None:
        del self._calls[event.call_id]

    # Whether a call may run

    @property
    def pending(self) -> tuple[ApprovalRequested, ...]:
        """What somebody must decide on."""
        calls = self._calls.values()
        return tuple(call.request for call in calls if call.request and call.decision is None)

    def knows(self, call_id: str) -> bool:
        """Say whether there is a call of this id that has not ended."""
        return call_id in self._calls

    def has_verdict(self, call_id: str) -> bool:
        """Say whether it is known what became of its arguments."""
        return call_id not in self._calls or bool(self._calls[call_id].verdict)

    def objection(self, call_id: str) -> str | None:
        """Say why nobody can be asked about a call."""
        call = self._calls.get(call_id)
        if self.end is not None or self._stop is not None:
            return "the run is over" if self._stop is None else STOPPED
        if call is None:
            return "nothing was told of such a call, so nobody could see what it is about"
        if call.verdict not in ("", "complete"):
            return f"its arguments are {call.verdict}"
        return None if call.request is None else "it was asked about before"

    def ask(
        self, call_id: str, arguments: dict[str, Any], reason: str, expires_at: float | None
    ) -> list[Event]:
        """Have somebody asked whether a call may run, with these arguments and no others."""
        call = self._calls[call_id]
        told: list[Event] = []
        if not call.verdict:  # who wants to run it has all of it
            call.is_closed_by_request = True
            told = self._told(ToolArgsCompleted(call_id, call.name, _copy(arguments)))
        call.asked_text = text = _exact_text("".join(call.pieces), arguments)
        digest = digest_of(self.run_id, call_id, call.name, text)
        shown = read_arguments(text)
        return told + self._told(
            ApprovalRequested(call_id, call.name, shown, digest, reason, None, expires_at)
        )

    def problem(self, decision: Approval) -> str | None:
        """Say why a decision cannot be used; whether arguments fit, the agent will say."""
        if isinstance(decision, Deny):
            return None
        if decision.always == "rule":
            return 'no rule asks about this call: use Approve(always="session")'
        try:
            written(decision.arguments)
        except (TypeError, ValueError) as error:
            return f"the edited arguments are no JSON: {error}"
        return None

    def usable(self, decisions: Decisions) -> dict[str, Approval]:
        """Give the decisions that are about something that somebody is asked about."""
        waiting = {request.call_id for request in self.pending}
        return {call_id: given for call_id, given in decisions.items() if call_id in waiting}

    def decide(self, call_id: str, decision: Approval, now: float) -> tuple[list[Event], Answer]:
        """Take a decision on a call that somebody is asked about."""
        call = self._calls[call_id]
        if _is_late(call.request, now):
            return self._deny(call_id, "expired", "nobody decided in time")
        if isinstance(decision, Deny):
            return self._deny(call_id, "denied", decision.reason)
        if decision.arguments is None:
            decided = ApprovalDecided(
                call_id, call.name, "approved", decision.reason, always=decision.always
            )
            return self._told(decided), Answer(call.asked_text, always=decision.always)
        text = written(dict(decision.arguments))
        decided = ApprovalDecided(
            call_id, call.name, "edited", decision.reason, read_arguments(text), decision.always
        )
        return self._told(decided), Answer(text, always=decision.always)

    def withdraw(self, call_id: str, why: str) -> list[Event]:
        """Take a question back, if it waits for somebody."""
        if all(request.call_id != call_id for request in self.pending):
            return []
        return self._deny(call_id, "withdrawn", why)[0]

    def _deny(
        self, call_id: str, outcome: ApprovalOutcome, reason: str
    ) -> tuple[list[Event], Answer]:
        decided = ApprovalDecided(call_id, self._calls[call_id].name, outcome, reason)
        return self._told(decided), Answer(None, reason)

    def _requested(self, event: ApprovalRequested) -> None:
        self._calls[event.call_id].request = event

    def _decided(self, event: ApprovalDecided) -> None:
        self._calls[event.call_id].decision = event

    # How it ends

    @property
    def is_stopped(self) -> bool:
        """Whether somebody wants no more of it."""
        return self._stop is not None

    def stop(self, reason: str) -> list[Event]:
        """Take that somebody wants no more of it: nobody need decide on anything."""
        self._stop = RunStopped(reason, self.run_id)
        waiting = [request.call_id for request in self.pending]
        return [event for call_id in waiting for event in self.withdraw(call_id, STOPPED)]

    def over(self, failure: RunFailed | None = None) -> list[Event]:
        """Take that nothing more comes, and why, if the source failed: each call has its end."""
        said = None if self._said is None else replace(self._said, run_id=self.run_id)
        end: End = self._stop or said or failure or self._cut()
        why = {"stopped": STOPPED, "failed": "the run failed"}.get(_STATUSES[type(end)], "")
        told = [
            event for call_id in reversed(list(self._calls)) for event in self._ends(call_id, why)
        ]
        self.end = end
        return told + self._told(end)

    def _cut(self) -> RunFailed:
        failure = self._failure
        if failure is None:
            return RunFailed("truncated", _NO_RESULT, self.run_id)
        return RunFailed(failure.code, failure.message, self.run_id)

    def _ends(self, call_id: str, why: str) -> list[Event]:
        """Give the end of a call that nobody has told of; those of sub-agents come first."""
        call = self._calls[call_id]
        told = self.withdraw(call_id, why)
        if not call.verdict:
            error = ArgumentsError("aborted", why)
            raw = "".join(call.pieces)
            told += self._told(ToolArgsInvalid(call_id, call.name, "aborted", raw, error))
        told += self._told(ToolCallFailed(call_id, call.name, _no_result(call, why)))
        return told


def is_observed(events: Iterable[Event]) -> bool:
    """Say whether the run of this log was observed: who drives one asks for its first turn."""
    return not any(isinstance(event, TurnStarted) for event in events)


def last_events(run_id: str, events: Iterable[Event], reason: str) -> list[Event]:
    """End an observed run that nobody observes any more, by its log."""
    observed = Observed(run_id)
    for event in events:
        observed.take(event)
    return observed.stop(reason) + observed.over()


def _is_late(request: ApprovalRequested | None, now: float) -> bool:
    end = None if request is None else request.expires_at
    return end is not None and now >= end


def _no_result(call: _Call, why: str) -> str:
    if call.verdict != "complete":
        return f"the call was never whole: {why}"
    if call.decision is not None and call.decision.decision not in ("approved", "edited"):
        return f"the call was not run: {call.decision.reason or 'a person denied it'}"
    return f"no result of the call came: {why}. It is not known what it has done"


def _exact_text(came: str, arguments: dict[str, Any]) -> str:
    """Give the text of arguments: what came, unless they have been changed on the way."""
    meant = written(arguments)
    parser = parsed_anew(came)
    is_meant = parser.verdict == "complete" and written(parser.value) == meant
    return came if is_meant else meant
