"""The calls of a message: what a client has of each, and what it must be told to have it right.

What is shown as the input is what a person decides on, and what runs: if that is another than was
shown before, the input is told again. An approval that was given is told by the input as well: the
protocol has no part for it that both versions know, and the client asks no more when it comes.
"""

from collections.abc import Iterator
from typing import Any, Final

from argstream.deltas import CallKind
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolOutputDelta,
)
from argstream.protocols.ai_sdk._parts import (
    Part,
    approval_request,
    begun_call,
    call_error,
    call_input,
    call_invalid,
    call_output,
    harmless,
)
from argstream.protocols.calls import CallEvent, CallIds

__all__ = ["CallWriter"]

_TAIL: Final = 4_000
"""How much is shown of what a tool says while it runs: each time all of it is sent."""


class CallWriter:
    """Says what to send of calls, from their beginning to their end."""

    def __init__(self) -> None:
        self._open: dict[str, _Call] = {}
        self._ids = CallIds()

    @property
    def longest_input(self) -> int:
        """How long the longest input is that is being written."""
        return max((call.length for call in self._open.values() if call.is_writing), default=0)

    def part_id(self, call_id: str) -> str:
        """Give the id of a call in the message."""
        return self._ids.of(call_id)

    # Streams that end while calls are open

    def asks_anew(self) -> bool:
        """Say whether something is asked that was not asked when the last stream ended."""
        return any(call.is_asked and not call.was_asked for call in self._open.values())

    def put_off(self, what: str) -> Iterator[Part]:
        """Give calls that nobody is asked about something in place of their results."""
        for call in self._open.values():
            call.was_asked = call.is_asked
            if not call.is_asked:
                yield call_output(call.part_id, what)

    def told_again(self) -> Iterator[Part]:
        """Tell what the client may not have seen begin; what it is asked about it has."""
        for call in self._open.values():
            if not call.was_asked:
                yield from call.again()

    # What happens

    def begin(self, event: ToolCallStarted, lost: str) -> Iterator[Part]:
        """Take that a call begins; if one with its id is open, that is over, and it is said why."""
        if (before := self._open.pop(event.call_id, None)) is not None:
            yield call_error(before.part_id, lost)
        part_id = self._ids.begin(event.call_id)
        parent = None if event.parent_id is None else self.part_id(event.parent_id)
        call = _Call(part_id, event.name, event.kind, parent)
        self._open[event.call_id] = call
        yield call.beginning()

    def take(self, event: CallEvent) -> Iterator[Part]:
        """Take what becomes of a call; of one that is over, or never began, nothing is told."""
        call = self._open.get(event.call_id)
        if call is None:
            return
        match event:
            case ToolArgsDelta(name=name, delta=delta):
                yield from call.write(name, delta)
            case ToolArgsCompleted(name=name, arguments=arguments):
                yield call.show(name, arguments)
                yield from call.saying()
            case ToolOutputDelta(text=text):
                call.output = (call.output + text)[-_TAIL:]
                yield from call.saying()
            case ApprovalRequested():
                if call.is_writing or call.input != event.arguments:
                    yield call.show(event.name, event.arguments)
                call.request = event
                yield approval_request(call.part_id, event)
            case ApprovalDecided():
                yield from self._decided(event, call)
            case ToolArgsInvalid() | ToolCallCompleted() | ToolCallFailed():
                del self._open[event.call_id]
                yield from call.ended(event)

    def end_all(self, why: str) -> Iterator[Part]:
        """End all calls that are open."""
        for call in self._open.values():
            yield call_error(call.part_id, why)
        self._open.clear()

    def _decided(self, event: ApprovalDecided, call: "_Call") -> Iterator[Part]:
        call.request = None
        yield call.decision(event)
        match event.decision:
            case "approved" | "edited":
                edited = event.edited_arguments
                yield call.show(event.name, call.input if edited is None else edited)
                yield from call.saying()
            case "denied" | "expired":
                del self._open[event.call_id]
                yield {"type": "tool-output-denied", "toolCallId": call.part_id}
            case "withdrawn":
                del self._open[event.call_id]
                yield call_error(call.part_id, event.reason or "it was called off")


class _Call:
    """A call that is not over."""

    def __init__(self, part_id: str, name: str, kind: CallKind, parent: str | None) -> None:
        self.part_id = part_id
        self.name = name
        self.is_writing = True
        self.length = 0
        self.input: dict[str, Any] | str = {}  # as it was shown
        self.output = ""  # the end of what the tool has said
        self.request: ApprovalRequested | None = None  # until it is decided
        self.was_asked = False  # when the last stream ended
        self._kind = kind
        self._parent = parent
        self._text: list[str] = []  # as it was written

    @property
    def is_asked(self) -> bool:
        return self.request is not None

    def again(self) -> Iterator[Part]:
        """Tell all of it, to one who may know it or not."""
        if self.is_writing:
            yield self.beginning()
            if text := "".join(self._text):
                yield self._delta(text)
        else:
            yield call_input(self.part_id, self.name, self.input)
            yield from self.saying()
        if self.request is not None:
            yield approval_request(self.part_id, self.request)

    def beginning(self) -> Part:
        return begun_call(self.part_id, self.name, self._kind, self._parent)

    def write(self, name: str, delta: str) -> Iterator[Part]:
        if not self.is_writing:
            return
        if name != self.name:  # the client begins anew as well
            self.name = name
            yield self.beginning()
            delta, self._text, self.length = "".join([*self._text, delta]), [], 0
        self._text.append(delta)
        self.length += len(delta)
        yield self._delta(delta)

    def _delta(self, text: str) -> Part:
        return {"type": "tool-input-delta", "toolCallId": self.part_id, "inputTextDelta": text}

    def show(self, name: str, arguments: dict[str, Any] | str) -> Part:
        self.name, self.input, self.is_writing = name, arguments, False
        self._text.clear()
        return call_input(self.part_id, name, arguments)

    def saying(self) -> Iterator[Part]:
        """Tell what the tool has said. While the input is written, a client could not show both."""
        if self.output and not self.is_writing:
            yield call_output(self.part_id, self.output) | {"preliminary": True}

    def decision(self, event: ApprovalDecided) -> Part:
        about: Part = {"toolCallId": self.part_id, "decision": event.decision}
        about["reason"] = event.reason
        if event.edited_arguments is not None:
            about["input"] = harmless(event.edited_arguments)
        return {"type": "data-argstream-decision", "id": self.part_id, "data": about}

    def ended(self, event: ToolArgsInvalid | ToolCallCompleted | ToolCallFailed) -> Iterator[Part]:
        match event:
            case ToolArgsInvalid(name=name, verdict=verdict, raw=raw, error=error):
                text = "".join(self._text) or raw
                yield call_invalid(self.part_id, name, text, f"{verdict}: {error.message}")
            case ToolCallCompleted(name=name, arguments=arguments, result=result):
                if self.is_writing or self.input != arguments:
                    yield self.show(name, arguments)
                yield call_output(self.part_id, result)
            case ToolCallFailed(error=error):
                yield call_error(self.part_id, error)
