"""What has come of an observed run, for those who wait for it instead of following it. Pure."""

from argstream.agent.result import RunResult, ToolUse
from argstream.events import (
    ApprovalRequested,
    Event,
    RunCompleted,
    RunSnapshot,
    SeenCall,
    SeenText,
    TurnCompleted,
)
from argstream.history import CallPart, Message, ResultPart, TextPart
from argstream.snapshots import RunView

__all__ = ["ObservedResult"]


class ObservedResult:
    """All that was told of a run, and the messages of its agent."""

    def __init__(self) -> None:
        self._view = RunView()
        self._messages: list[Message] = []  # of the agent itself, not of those that it starts

    def take(self, event: Event) -> None:
        """Take the next event that is told."""
        self._view.take(event)
        if isinstance(event, TurnCompleted) and event.parent_id is None:
            self._messages.append(event.message)

    def so_far(self, pending: tuple[ApprovalRequested, ...]) -> RunResult:
        """Give what has come of it."""
        seen = self._view.snapshot()
        calls = [block for block in seen.blocks if isinstance(block, SeenCall)]
        return RunResult(
            run_id=seen.run_id,
            outcome=seen.status,
            text=_text_of(seen),
            tools=[_use(call) for call in calls],
            usage=seen.end.usage if isinstance(seen.end, RunCompleted) else seen.usage,
            stop_reason=seen.stop_reason,
            pending=pending,
            messages=(*_said(seen.prompt), *self._with_results(calls)),
        )

    def _with_results(self, calls: list[SeenCall]) -> list[Message]:
        """Give the messages, each with the results of its calls."""
        results = {call.call_id: _result(call) for call in calls if call.outcome is not None}
        messages: list[Message] = []
        for message in self._messages:
            messages.append(message)
            asked = [part.call_id for part in message.parts if isinstance(part, CallPart)]
            known = {part.call_id for part in message.parts if isinstance(part, ResultPart)}
            answers = [results[id_] for id_ in asked if id_ in results and id_ not in known]
            if answers:
                messages.append(Message(role="user", parts=tuple(answers)))
        return messages


def _text_of(seen: RunSnapshot) -> str:
    """Give the answer; before it is there, what the agent said last."""
    if isinstance(seen.end, RunCompleted) and isinstance(seen.end.result, str):
        return seen.end.result
    texts = [block for block in seen.blocks if isinstance(block, SeenText)]
    return next((block.text for block in reversed(texts) if block.parent_id is None), "")


def _said(prompt: str) -> list[Message]:
    return [Message(role="user", parts=(TextPart(text=prompt),))] if prompt else []


def _use(call: SeenCall) -> ToolUse:
    failed = call.outcome == "failed"
    return ToolUse(
        call.call_id,
        call.name,
        call.arguments,
        call.verdict or "complete",
        None if failed else call.result,
        call.result if failed else None,
    )


def _result(call: SeenCall) -> ResultPart:
    failed = call.outcome == "failed"
    return ResultPart(call_id=call.call_id, result=call.result, failed=failed)
