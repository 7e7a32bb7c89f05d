"""A response for a chat page: JSON objects with one key each, in the order of the events.

=================  ===============================================================================
``text``           a piece of the model's text
``thinking``       a piece of its thinking
``tool_start``     ``{id, name}``: the model calls a tool; its arguments are not known yet
``tool_delta``     ``{id, path, text}``: a string in the arguments grows; only on request
``block``          ``{id, name, input}``: the call is complete
``invalid``        ``{id, name, verdict, reason, message, path}``: the call will not run
``tool_result``    ``{id, name, output}``, or ``error`` in place of the output
``error``          ``{code, message}``: the run failed, or cannot be followed any more
``done``           ``{conversation, run, status}``: the end, always last; for a paused run also
                   ``pending``: a list of ``{id, name, input, digest, reason}``
=================  ===============================================================================

Each call has one ``tool_start``, and then one ``block`` or ``invalid``.
"""

from collections.abc import Iterator
from typing import Any

from argstream import events as ev
from argstream.protocols._base import (
    CLOSE_MESSAGES,
    ChangeEncoder,
    CloseReason,
    Encoded,
    Events,
    Json,
    Written,
    encode_with,
    frame,
    sync_or_async,
)
from argstream.runs._state import Call, Change

__all__ = ["ConverseEncoder", "encode"]


@sync_or_async
def encode(events: Events, *, with_deltas: bool = False) -> Encoded:
    """Encode the events of ``stream()`` or of a run."""
    return encode_with(ConverseEncoder(with_deltas=with_deltas), events)


class ConverseEncoder(ChangeEncoder):
    """Writes a run as a response for a chat page."""

    def __init__(
        self, run_id: str = "", conversation_id: str = "", *, with_deltas: bool = False
    ) -> None:
        super().__init__(arguments="events" if with_deltas else "off")
        self._run_id = run_id
        self._conversation_id = conversation_id

    def replay(self) -> Written:
        """Write the run so far."""
        return self._framed(item for one in self.state.replay() for item in self._encode(one))

    def close_reason(self, why: CloseReason) -> bytes:
        """Write that the run continues, and how to follow it."""
        message = f"{CLOSE_MESSAGES[why]}; follow the run by its id"
        error = {"error": {"code": why, "message": message}}
        return frame(error) + frame(self._done("running"))

    def _is_last(self, item: Json) -> bool:
        return "done" in item

    def _encode(self, change: Change) -> Iterator[Json]:
        block, state = change.block, self.state
        if isinstance(block, Call):
            yield from _call_objects(change, block)
        elif block is not None:
            if change.kind == "text" and (change.text or not block.is_thinking):
                yield {"thinking" if block.is_thinking else "text": change.text}
        elif change.kind == "run_paused":
            yield self._done("paused", pending=list(map(_pending, state.pending)))
        elif change.kind == "run_ended":
            if isinstance(end := state.end, ev.RunFailed):
                yield {"error": {"code": end.code, "message": end.message}}
            yield self._done(state.status)

    def _done(self, status: str, **more: Any) -> Json:
        conversation_id = self.state.conversation_id or self._conversation_id
        ids = {"conversation": conversation_id, "run": self.state.run_id or self._run_id}
        return {"done": {**ids, "status": status, **more}}


def _call_objects(change: Change, call: Call) -> Iterator[Json]:
    about: Json = {"id": call.call_id, "name": call.name}
    match change.kind:
        case "block_started":
            yield {"tool_start": about}
        case "argument" if isinstance(piece := change.event, ev.ArgumentDelta):
            yield {"tool_delta": {"id": call.call_id, "path": piece.path, "text": piece.text}}
        case "verdict" if (error := call.error) is not None:
            why = {"reason": error.reason, "message": error.message, "path": error.path}
            yield {"invalid": about | {"verdict": call.verdict} | why}
        case "verdict":
            yield {"block": about | {"input": call.arguments}}
        case "result":
            key = "output" if call.outcome == "completed" else "error"
            yield {"tool_result": about | {key: call.result}}


def _pending(request: ev.ApprovalRequested) -> Json:
    about = {"id": request.call_id, "name": request.name, "input": request.arguments}
    return about | {"digest": request.digest, "reason": request.reason}
