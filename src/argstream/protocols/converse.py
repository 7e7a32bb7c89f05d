"""A response for a chat page: JSON objects with one key each, in the order of the events.

=================  ===============================================================================
``text``           a piece of the model's text
``thinking``       a piece of its thinking
``tool_start``     ``{id, name}``: it calls a tool; of the arguments nothing is known yet
``tool_delta``     ``{id, path, text}``: a string in the arguments grows; only if it was asked for
``block``          ``{id, name, input}``: the call is complete
``invalid``        ``{id, name, verdict, reason, message, path}``: the call will not run
``tool_result``    ``{id, name, output}``, or ``error`` in place of the output
``error``          ``{code, message}``: the run failed, or cannot be followed any more
``done``           ``{conversation, run, status}``: the end, always last; for a paused run also
                   ``pending``: a list of ``{id, name, input, digest, reason}``
=================  ===============================================================================

``tool_start`` comes before ``block`` or ``invalid``, and each of them once for a call.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, overload

from argstream import events as ev
from argstream.protocols._base import (
    CLOSE_MESSAGES,
    CloseReason,
    Encoder,
    Written,
    encode_with,
    frame,
)
from argstream.runs._records import Record
from argstream.runs._state import Call, Change, TextBlock

__all__ = ["ConverseEncoder", "encode"]


@overload
def encode(events: Iterable[ev.Event], *, with_deltas: bool = False) -> Iterator[bytes]: ...
@overload
def encode(
    events: AsyncIterable[ev.Event], *, with_deltas: bool = False
) -> AsyncIterator[bytes]: ...
def encode(
    events: Iterable[ev.Event] | AsyncIterable[ev.Event], *, with_deltas: bool = False
) -> Iterator[bytes] | AsyncIterator[bytes]:
    """Encode the events of ``stream()`` or of a run."""
    return encode_with(ConverseEncoder(with_deltas=with_deltas), events)


class ConverseEncoder(Encoder):
    """Writes a run as a response for a chat page."""

    def __init__(
        self, run_id: str = "", conversation_id: str = "", *, with_deltas: bool = False
    ) -> None:
        super().__init__(arguments="events" if with_deltas else "off")
        self._run_id = run_id
        self._conversation_id = conversation_id

    def encode(self, records: Sequence[Record]) -> Written:
        """Write the next records."""
        return self._written(self._changes(records))

    def replay(self) -> Written:
        """Write the run so far."""
        return self._written(self.state.replay())

    def _written(self, changes: Iterable[Change]) -> Written:
        data, ends = bytearray(), False
        for change in changes:
            for told in self._objects(change):
                data += frame(told)
                ends = "done" in told
        return Written(bytes(data), ends)

    def close_reason(self, why: CloseReason) -> bytes:
        """Write that the run continues, and how to follow it."""
        message = f"{CLOSE_MESSAGES[why]}; follow the run by its id"
        error = {"error": {"code": why, "message": message}}
        return frame(error) + frame(self._done("running"))

    def _objects(self, change: Change) -> Iterator[dict[str, Any]]:
        block, event = change.block, change.event
        if isinstance(block, TextBlock):
            if change.kind == "text" and (change.text or not block.is_thinking):
                yield {"thinking" if block.is_thinking else "text": change.text}
        elif block is not None:
            yield from _call_objects(change, block)
        elif isinstance(event, ev.RunPaused):
            yield self._done("paused", pending=[_pending(one) for one in event.pending])
        elif isinstance(event, ev.RunFailed):
            yield {"error": {"code": event.code, "message": event.message}}
            yield self._done("failed")
        elif isinstance(event, ev.RunEnd):
            yield self._done("stopped" if isinstance(event, ev.RunStopped) else "completed")

    def _done(self, status: str, **more: Any) -> dict[str, Any]:
        conversation_id = self.state.conversation_id or self._conversation_id
        ids = {"conversation": conversation_id, "run": self.state.run_id or self._run_id}
        return {"done": {**ids, "status": status, **more}}


def _call_objects(change: Change, call: Call) -> Iterator[dict[str, Any]]:
    about: dict[str, Any] = {"id": call.call_id, "name": call.name}
    match change.kind, change.event:
        case "block_started", _:
            yield {"tool_start": about}
        case "argument", ev.ArgumentDelta(path=path, text=text):
            yield {"tool_delta": {"id": call.call_id, "path": path, "text": text}}
        case "call", ev.ToolArgsCompleted(arguments=arguments):
            yield {"block": about | {"input": arguments}}
        case "call", ev.ToolArgsInvalid(verdict=verdict, error=error):
            why = {"reason": error.reason, "message": error.message, "path": error.path}
            yield {"invalid": about | {"verdict": verdict} | why}
        case "call", ev.ToolCallCompleted(result=result):
            yield {"tool_result": about | {"output": result}}
        case "call", ev.ToolCallFailed(error=error):
            yield {"tool_result": about | {"error": error}}
        case _:
            pass


def _pending(request: ev.ApprovalRequested) -> dict[str, Any]:
    about = {"id": request.call_id, "name": request.name, "input": request.arguments}
    return about | {"digest": request.digest, "reason": request.reason}
