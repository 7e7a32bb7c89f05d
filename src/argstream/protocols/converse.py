"""One answer as a chat page wants it: objects with one key each, in the order of what happens.

=================  ===============================================================================
``text``           a piece of what the model says
``thinking``       a piece of what it thinks
``tool_start``     ``{id, name}``: it calls a tool; of the arguments nothing is known yet
``tool_delta``     ``{id, path, text}``: a text in the arguments grows; only if it was asked for
``block``          ``{id, name, input}``: the call is whole
``invalid``        ``{id, name, verdict, reason, message, path}``: it is not, and will not be run
``tool_result``    ``{id, name, output}``, or ``error`` in place of the output
``error``          ``{code, message}``: the run has failed, or cannot be followed any more
``done``           ``{conversation, run, status}``: the end, always last; for a run that waits for
                   a person also ``pending``: a list of ``{id, name, input, digest, reason}``
=================  ===============================================================================

``tool_start`` comes before ``block`` or ``invalid``, and each of them once for a call.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from argstream import events as ev
from argstream.protocols._base import (
    INTERVAL,
    PARTING_WORDS,
    CloseReason,
    Written,
    frame,
    snapshot_in,
)
from argstream.runs._records import Record
from argstream.runs._run import ArgumentEvents, events_of, is_waiting, pending_of, with_arguments

__all__ = ["ConverseEncoder"]


class ConverseEncoder:
    """Writes an answer."""

    can_catch_up: Final = False
    interval: Final = INTERVAL

    def __init__(self, run_id: str, conversation_id: str, *, with_deltas: bool = False) -> None:
        self._run_id = run_id
        self._conversation_id = conversation_id
        self._with_deltas = with_deltas
        self._views = ArgumentEvents()
        self._waiting: dict[str, ev.ApprovalRequested] = {}
        self._pauses = False  # whether it says so when it waits for a person

    def begin(self, snapshot: Record) -> None:
        """Set the state of the run."""
        run = snapshot_in(snapshot)
        self._views.take(run)
        self._pauses = run.turns > 0
        self._waiting = {one.call_id: one for one in pending_of(run)}

    def take(self, records: Sequence[Record]) -> Written:
        """Write what has happened."""
        events = [event for record in records for event in self._views.take(record.event)]
        for event in events:
            self._note(event)
        written = self._written(events)
        if written.ends or self._pauses or not self._waiting:
            return written
        return self._paused(written, self._waiting.values())

    def _paused(self, written: Written, pending: Iterable[ev.ApprovalRequested]) -> Written:
        """End with what is asked: a run that is only observed does not say that it pauses."""
        done = self._done("paused", pending=_pending(pending))
        return Written(written.data + frame(done), ends=True)

    def _note(self, event: ev.Event) -> None:
        match event:
            case ev.TurnStarted():
                self._pauses = True
            case ev.ApprovalRequested(call_id=call_id):
                self._waiting[call_id] = event
            case (
                ev.ApprovalDecided(call_id=call_id)
                | ev.ToolCallCompleted(call_id=call_id)
                | ev.ToolCallFailed(call_id=call_id)
            ):
                self._waiting.pop(call_id, None)
            case _:
                pass

    def replay(self, snapshot: Record) -> Written:
        """Encode the run so far, for a viewer that comes later."""
        run = snapshot_in(snapshot)
        written = self._written(with_arguments(events_of(run)))
        return self._paused(written, pending_of(run)) if is_waiting(run) else written

    def close_reason(self, why: CloseReason) -> bytes:
        """Write that it goes on elsewhere."""
        message = f"{PARTING_WORDS[why]}; follow the run by its id"
        error = {"error": {"code": why, "message": message}}
        return frame(error) + frame(self._done("running"))

    def _written(self, events: Iterable[ev.Event]) -> Written:
        data = bytearray()
        ends = False
        for event in events:
            for told in self._objects(event):
                data += frame(told)
            ends = isinstance(event, ev.RunPaused | ev.RunEnd)
        return Written(bytes(data), ends)

    def _objects(self, event: ev.Event) -> Iterator[dict[str, Any]]:
        match event:
            case ev.TextDelta(text=text):
                yield {"text": text}
            case ev.ThinkingDelta(text=text) if text:
                yield {"thinking": text}
            case ev.ToolCallStarted(call_id=call_id, name=name):
                yield {"tool_start": {"id": call_id, "name": name}}
            case ev.ArgumentDelta(call_id=call_id, path=path, text=text) if self._with_deltas:
                yield {"tool_delta": {"id": call_id, "path": path, "text": text}}
            case ev.ToolArgsCompleted(call_id=call_id, name=name, arguments=arguments):
                yield {"block": {"id": call_id, "name": name, "input": arguments}}
            case ev.ToolArgsInvalid():
                yield {"invalid": _invalid(event)}
            case ev.ToolCallCompleted(call_id=call_id, name=name, result=result):
                yield {"tool_result": {"id": call_id, "name": name, "output": result}}
            case ev.ToolCallFailed(call_id=call_id, name=name, error=error):
                yield {"tool_result": {"id": call_id, "name": name, "error": error}}
            case _:
                yield from self._endings(event)

    def _endings(self, event: ev.Event) -> Iterator[dict[str, Any]]:
        match event:
            case ev.RunPaused(pending=pending):
                yield self._done("paused", pending=_pending(pending))
            case ev.RunCompleted():
                yield self._done("completed")
            case ev.RunStopped():
                yield self._done("stopped")
            case ev.RunFailed(code=code, message=message):
                yield {"error": {"code": code, "message": message}}
                yield self._done("failed")
            case _:
                pass

    def _done(self, status: str, **more: Any) -> dict[str, Any]:
        done = {"conversation": self._conversation_id, "run": self._run_id, "status": status}
        return {"done": done | more}


def _pending(requests: Iterable[ev.ApprovalRequested]) -> list[dict[str, Any]]:
    return [
        {
            "id": request.call_id,
            "name": request.name,
            "input": request.arguments,
            "digest": request.digest,
            "reason": request.reason,
        }
        for request in requests
    ]


def _invalid(event: ev.ToolArgsInvalid) -> dict[str, Any]:
    error = event.error
    return {
        "id": event.call_id,
        "name": event.name,
        "verdict": event.verdict,
        "reason": error.reason,
        "message": error.message,
        "path": error.path,
    }
