"""One turn of a model, as far as it has been heard: its calls, and who reads them already."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from argstream.agent._arguments import exact_text
from argstream.agent._calls import CallFacts
from argstream.agent._toolbox import Toolbox
from argstream.agent.tools import Bound, TextFeed, Tool, is_as_streamed
from argstream.assembly import Call
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentsError,
    ArgumentStarted,
    Event,
    StreamFailed,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallStarted,
    TurnCompleted,
)

__all__ = ["PASSING", "EarlyStart", "Listening"]

PASSING: Final = frozenset(
    {
        TextDelta,
        ThinkingStarted,
        ThinkingDelta,
        ThinkingCompleted,
        ToolArgsDelta,
        ArgumentStarted,
        ArgumentDelta,
        ArgumentCompleted,
    }
)
"""What is only told: nothing follows from it."""


class _Text:
    """The text of a call that its tool may read while it is written."""

    def __init__(self, call: Call, tool: Tool) -> None:
        self.call = call
        self.tool = tool
        self.feed = TextFeed()
        self.told: set[str | int] = set()  # the arguments that everybody knows
        self.has_started = False


class EarlyStart(NamedTuple):
    """A tool that can begin to read its text."""

    call: Call
    bound: Bound
    feed: TextFeed


class Listening:
    """What is known of a turn beside its events."""

    def __init__(self, tools: Toolbox) -> None:
        self._tools = tools
        self._calls: dict[str, Call] = {}
        self._unsettled: dict[str, Call] = {}
        self._texts: dict[str, _Text] = {}
        self._failure: StreamFailed | None = None
        self.turn_is_over = False
        """Whether the model has ended its turn; its stream may not have."""

    @property
    def has_texts(self) -> bool:
        """Whether a tool may read, or reads, what is written."""
        return bool(self._texts)

    def note(self, event: Event, calls: Sequence[Call]) -> None:
        """Take note of an event that says more than that something grows."""
        match event:
            case ToolCallStarted(call_id=call_id, name=name, kind=kind, parent_id=parent_id):
                call = next(call for call in reversed(calls) if call.id == call_id)
                self._calls[call_id] = self._unsettled[call_id] = call
                tool = self._tools.get(name)
                is_ours = parent_id is None and kind == "function"
                if is_ours and tool is not None and tool.streamed is not None:
                    self._texts[call_id] = _Text(call, tool)
            case ToolArgsCompleted(call_id=call_id) | ToolArgsInvalid(call_id=call_id):
                self._unsettled.pop(call_id, None)
                self._texts.pop(call_id, None)
            case TurnCompleted(parent_id=None):
                self.turn_is_over = True
            case _:
                pass

    def facts(self, call_id: str) -> CallFacts:
        """Say what the machine must know of a complete call."""
        call = self._calls[call_id]
        return CallFacts(exact_text(call), is_as_streamed(call))

    def grow(self, event: Event) -> EarlyStart | None:
        """Pass a piece of text on to its tool; give a tool that can begin now."""
        if not isinstance(event, ArgumentDelta | ArgumentStarted | ArgumentCompleted):
            return None
        text = self._texts.get(event.call_id)
        if text is None or len(event.path) != 1:
            return None
        if isinstance(event, ArgumentDelta):
            if event.path[0] == text.tool.streamed:
                text.feed.add(event.text)
            return None
        if isinstance(event, ArgumentCompleted):
            text.told.add(event.path[0])
        return None if text.has_started else self._start(text)

    def _start(self, text: _Text) -> EarlyStart | None:
        call = text.call  # it may be further than the events, and then it is about to be judged
        if call.verdict != "open" or call.name != text.tool.name or call.reinterpreted is not None:
            return None
        if not self._tools.may_start_early(call):
            return None
        bound = text.tool.bind_early(call, text.feed)
        if bound is None or not bound.arguments.keys() - {text.tool.streamed} <= text.told:
            return None
        text.has_started = True
        return EarlyStart(call, bound, text.feed)

    def fail(self, failure: StreamFailed) -> None:
        """Take that the stream failed, and how."""
        self._failure = failure

    def last_words(self) -> list[Event]:
        """Give what a stream that was left could not say any more: no call is without a verdict."""
        aborted: list[Event] = [_aborted(call) for call in self._unsettled.values()]
        self._unsettled.clear()
        return aborted if self._failure is None else [*aborted, self._failure]


def _aborted(call: Call) -> ToolArgsInvalid:
    error = call.error or ArgumentsError("aborted", "reading was stopped")
    return ToolArgsInvalid(call.id, call.name, "aborted", call.raw, error)
