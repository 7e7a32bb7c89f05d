"""A run that others drive: what its events mean for its calls, and how it ends. Pure.

All that is known follows from the events that were told, so a log can be read back. There is no
``TurnStarted`` among them: nobody here asks a model for its turns. By that, such a run is known.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from argstream.agent._arguments import read_arguments, written
from argstream.agent._wording import denied_words
from argstream.agent.approvals import Approval, Decisions, Deny, digest_of
from argstream.agent.observing._result import ObservedResult
from argstream.agent.result import RunResult
from argstream.agent.tools import parsed_anew
from argstream.errors import UsageError
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
    Usage,
)

__all__ = [
    "Answer",
    "Observed",
    "is_observed",
    "last_events",
    "not_run",
    "text_of_arguments",
]

_STOPPED: Final = "the run was stopped"
_CUT: Final = RunFailed("truncated", "the stream ended before the run did")

_End: TypeAlias = RunCompleted | RunFailed | RunStopped


class Answer(NamedTuple):
    """What is said to who wants to run a call."""

    text: str | None
    """The exact arguments to run it with; None if it must not run."""
    reason: str = ""
    """Why it must not."""
    always: Remembered | None = None


def not_run(why: str) -> Answer:
    """Say that a call must not run, though no person is against it."""
    return Answer(None, f"the call was not run: {why}")


class _Call(Struct):
    """A call that has no end yet."""

    name: str
    pieces: list[str] = []
    """The text of its arguments, as it came."""
    verdict: str = ""
    is_closed_by_request: bool = False
    """Whether it was to be run before the stream had said that it is whole."""
    request: ApprovalRequested | None = None
    text: str = ""
    """What the request is about."""
    decision: ApprovalDecided | None = None


class Observed:
    """What is known of the run. Its methods give the events that follow from what has happened."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._result = ObservedResult()
        self.is_stopped = False
        """Whether somebody wants no more of it."""
        self._end: _End | None = None
        self._calls: dict[str, _Call] = {}  # those without an end
        self._said: RunCompleted | RunFailed | None = None  # how it ended, as the agent says
        self._failure: StreamFailed | None = None  # of the stream, the last one
        self._stop_reason = ""
        self._takers: dict[type, Callable[[Any], None]] = {
            ToolCallStarted: self._started,
            ToolArgsDelta: self._grown,
            ToolArgsCompleted: self._settled,
            ToolArgsInvalid: self._settled,
            ApprovalRequested: self._requested,
            ApprovalDecided: self._decided,
            ToolCallCompleted: self._over,
            ToolCallFailed: self._over,
        }

    @classmethod
    def of(cls, run_id: str, events: Iterable[Event]) -> "Observed":
        """Read back what was told."""
        observed = cls(run_id)
        for event in events:
            observed.take(event)
        return observed

    @property
    def is_over(self) -> bool:
        """Whether its last event was told."""
        return self._end is not None

    @property
    def result(self) -> RunResult:
        """What has come of it so far."""
        return self._result.so_far(self.pending)

    @property
    def failure(self) -> RunFailed | None:
        """How it failed, if it did."""
        return self._end if isinstance(self._end, RunFailed) else None

    def take(self, event: Event) -> None:
        """Take an event that is told, or was told before."""
        if (taker := self._takers.get(type(event))) is not None:
            taker(event)
        self._result.take(event)

    def _told(self, *events: Event) -> list[Event]:
        for event in events:
            self.take(event)
        return list(events)

    def begin(self, prompt: str, user: str = "") -> list[Event]:
        """Begin with what the agent was told, and by whom."""
        return self._told(RunStarted(self.run_id, prompt, user=user))

    # What the stream says

    def heard(self, event: Event) -> list[Event]:
        """Take the next event of the stream, and give what is told."""
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
                if call is None or call.is_closed_by_request:
                    return []  # all has been told of its arguments
            case (
                TextDelta(parent_id=None)
                | ThinkingStarted(parent_id=None)
                | ToolCallStarted(parent_id=None)
            ):
                self._said = None  # the agent goes on: something has woken it
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
        call = self._calls[event.call_id]
        withdrawn = self.withdraw(event.call_id, "the call is over")
        edited = None if call.decision is None else call.decision.edited_arguments
        if edited is not None and isinstance(event, ToolCallCompleted):
            event = replace(event, arguments=edited)
        return withdrawn + self._told(event)

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
        calls = [call for call in self._calls.values() if call.decision is None]
        return tuple(call.request for call in calls if call.request is not None)

    def knows(self, call_id: str) -> bool:
        """Say whether a call has begun, and has not ended."""
        return call_id in self._calls

    def has_told(self, call_id: str, text: str) -> bool:
        """Say whether a call has begun, and has just these arguments, as far as they have come."""
        call = self._calls.get(call_id)
        if call is None:
            return False
        came = parsed_anew("".join(call.pieces))
        return came.verdict != "complete" or written(came.value) == written(read_arguments(text))

    def is_settled(self, call_id: str) -> bool:
        """Say whether nothing more is to be heard of a call's arguments."""
        call = self._calls.get(call_id)
        return call is None or bool(call.verdict)

    def objection(self, call_id: str) -> str | None:
        """Say why nobody can be asked about a call."""
        if self.is_stopped or self.is_over:
            return _STOPPED if self.is_stopped else "the run is over"
        if (call := self._calls.get(call_id)) is None:
            return "it is over"
        if call.verdict not in ("", "complete"):
            return f"its arguments are {call.verdict}"
        return None if call.request is None else "somebody was asked about it before"

    def ask(
        self, call_id: str, text: str, reason: str, expires_at: float | None
    ) -> tuple[list[Event], ApprovalRequested]:
        """Have somebody asked whether a call may run, with exactly these arguments."""
        call = self._calls[call_id]
        told: list[Event] = []
        if not call.verdict:  # who wants to run it has all of it
            call.is_closed_by_request = True
            told = self._told(ToolArgsCompleted(call_id, call.name, read_arguments(text)))
        call.text = text
        digest = digest_of(self.run_id, call_id, call.name, text)
        shown = read_arguments(text)
        request = ApprovalRequested(call_id, call.name, shown, digest, reason, None, expires_at)
        return told + self._told(request), request

    def problem(self, decision: Approval) -> str | None:
        """Say why a decision cannot be used; whether its arguments fit, the agent will say."""
        if isinstance(decision, Deny):
            return None
        if decision.always == "rule":
            return 'no rule asks about this call: use Approve(always="session")'
        if decision.arguments is not None and text_of_arguments(decision.arguments) is None:
            return "the edited arguments are no JSON object"
        return None

    def check(self, decisions: Decisions) -> None:
        """Raise UsageError if one of them is none."""
        waiting = {request.call_id: request.digest for request in self.pending}
        for call_id, decision in decisions.items():
            if call_id not in waiting:
                raise UsageError(f"in the run {self.run_id} nobody is asked about {call_id!r}")
            if not isinstance(decision, Approval):
                raise UsageError(f"a decision is Approve(…) or Deny(…), not {decision!r}")
            if getattr(decision, "digest", "") not in ("", waiting[call_id]):
                raise UsageError(f"the digest is not that of the call {call_id}: ask again")
            if (problem := self.problem(decision)) is not None:
                raise UsageError(problem)

    def decide(self, call_id: str, decision: Approval, when: float) -> tuple[list[Event], Answer]:
        """Take a decision, with which nothing is wrong, on what is pending; it was made then."""
        call = self._calls[call_id]
        if _is_late(call.request, when):
            return self._deny(call_id, "expired", "nobody decided in time")
        if isinstance(decision, Deny):
            told, _ = self._deny(call_id, "denied", decision.reason)
            return told, Answer(None, denied_words(decision.reason))
        edited = decision.arguments
        text = call.text if edited is None else text_of_arguments(edited)
        decided = ApprovalDecided(
            call_id,
            call.name,
            "approved" if edited is None else "edited",
            decision.reason,
            None if edited is None or text is None else read_arguments(text),
            decision.always,
        )
        return self._told(decided), Answer(text, always=decision.always)

    def withdraw(self, call_id: str, why: str) -> list[Event]:
        """Take a question back, if somebody was asked and has not answered."""
        is_asked = any(request.call_id == call_id for request in self.pending)
        return self._deny(call_id, "withdrawn", why)[0] if is_asked else []

    def _deny(self, call_id: str, outcome: ApprovalOutcome, why: str) -> tuple[list[Event], Answer]:
        name = self._calls[call_id].name
        return self._told(ApprovalDecided(call_id, name, outcome, why)), not_run(why)

    def _requested(self, event: ApprovalRequested) -> None:
        self._calls[event.call_id].request = event

    def _decided(self, event: ApprovalDecided) -> None:
        self._calls[event.call_id].decision = event

    # How it ends

    def stop(self, reason: str) -> list[Event]:
        """Take that somebody wants no more of it: nobody need decide on anything."""
        self.is_stopped, self._stop_reason = True, reason
        waiting = [request.call_id for request in self.pending]
        return [event for call_id in waiting for event in self.withdraw(call_id, _STOPPED)]

    def over(self, failure: RunFailed | None = None, usage: Usage | None = None) -> list[Event]:
        """End every open call and the run. ``failure`` is that of the source, if it failed.

        ``usage`` is what the stream has reported, also for turns that did not complete.
        """
        why = _STOPPED if self.is_stopped else "the run is over"
        told: list[Event] = []
        for call_id in reversed(list(self._calls)):  # what a sub-agent called, before that
            told += self._end_call(call_id, why)
        end = self._ending(failure)
        if usage is not None and end.usage == Usage():
            end = replace(end, usage=usage)
        self._end = replace(end, run_id=self.run_id)
        return told + self._told(self._end)

    def _ending(self, failure: RunFailed | None) -> _End:
        if self.is_stopped:
            return RunStopped(self._stop_reason)
        if self._said is not None:
            return self._said
        if failure is None and self._failure is not None:
            return RunFailed(self._failure.code, self._failure.message)
        return failure or _CUT

    def _end_call(self, call_id: str, why: str) -> list[Event]:
        call = self._calls[call_id]
        told = self.withdraw(call_id, why)
        if not call.verdict:
            raw, error = "".join(call.pieces), ArgumentsError("aborted", why)
            told += self._told(ToolArgsInvalid(call_id, call.name, "aborted", raw, error))
        return told + self._told(ToolCallFailed(call_id, call.name, _no_result(call, why)))


def is_observed(events: Iterable[Event]) -> bool:
    """Say whether this is the log of an observed run: who drives one asks for a turn at once."""
    return not any(isinstance(event, TurnStarted) for event in events)


def last_events(run_id: str, events: Iterable[Event], reason: str) -> list[Event]:
    """End an observed run that nobody observes any more, by its log."""
    observed = Observed.of(run_id, events)
    return observed.stop(reason) + observed.over()


def text_of_arguments(arguments: Mapping[str, Any]) -> str | None:
    """Write arguments as one exact text, of which each use is a fresh parse; None if that fails.

    Strings become what can be encoded (invariant 4), as in any call.
    """
    try:
        parser = parsed_anew(written(dict(arguments)))
    except (TypeError, ValueError, RecursionError):
        return None
    return written(parser.value) if parser.verdict == "complete" else None


def _is_late(request: ApprovalRequested | None, when: float) -> bool:
    end = None if request is None else request.expires_at
    return end is not None and when >= end


def _no_result(call: _Call, why: str) -> str:
    if call.verdict != "complete":
        return f"the call was not whole: {why}"
    if call.decision is not None and call.decision.decision not in ("approved", "edited"):
        return not_run(call.decision.reason).reason
    return f"no result of the call has come: {why}. It is not known what it has done"
