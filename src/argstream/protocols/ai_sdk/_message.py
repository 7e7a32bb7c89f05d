"""A message of the assistant while it is written: events in, parts out.

The writer knows what the client has open, and leaves nothing open: a client would show it as being
written for ever, and might send the message again by itself, for want of an answer. A turn of the
model is a step. A turn that was cut off and begins again stays in its step; what was lost of it is
followed by a ``data-argstream-lost``. What is said ends with its step: providers may go on with a
text after something else has begun.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from argstream.events import (
    ApprovalDecided,
    Event,
    RunCompleted,
    RunEnd,
    RunFailed,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
    ToolCallStarted,
    TurnCompleted,
    TurnStarted,
    Usage,
)
from argstream.protocols.ai_sdk._calls import CallWriter
from argstream.protocols.ai_sdk._parts import Part, finish_reason, of_parent, usage_of
from argstream.protocols.calls import CallEvent

__all__ = ["MessageWriter"]

_LOST: Final = "it was cut off, and its turn began again"
_OVER: Final = "the run ended before it did"
_GOES_ON: Final = "(it goes on; what comes of it is told later)"


class MessageWriter:
    """Says what to send of a run."""

    def __init__(self, run_id: str) -> None:
        self.is_open = False
        """Whether a stream has begun and not ended."""
        self.step_is_open = False
        self._run_id = run_id
        self._words: dict[_Key, _Words] = {}  # what is open
        self._calls = CallWriter()
        self._turn = 0
        self._is_waiting = False  # though the run has not paused
        self._has_step = False
        self._has_blocks = False  # whether this attempt of the turn has
        self._usage = Usage()
        self._stop_reason: str | None = None

    @property
    def longest_input(self) -> int:
        """How long the longest input is that is being written."""
        return self._calls.longest_input

    @property
    def open_words(self) -> "AbstractSet[_Key]":
        """What is being said or thought."""
        return self._words.keys()

    def take(self, event: Event) -> list[Part]:
        """Take the next event, and give the parts that tell of it."""
        reopened = [*self._reopened(event)] if self._is_waiting else []
        parts = [*self._told(event)]
        if self._is_waiting:
            return []
        if parts and not self.is_open:
            parts = [*self._start(), *parts]
        if isinstance(event, RunPaused | RunEnd):
            self.is_open = False
        return [*reopened, *parts]

    def joining(self, others: "MessageWriter") -> list[Part]:
        """End what is over for those whose stream goes on from here, so that it can be shared.

        When a stream ended before, theirs or another's, what was said until then was over for them.
        Where that was is not told to who comes later.
        """
        if not self.is_open:
            return []
        over = [words.end() for key, words in self._words.items() if key not in others.open_words]
        if self.step_is_open and not others.step_is_open:
            over.append({"type": "finish-step"})
        return over

    # Runs that do not pause: those that are only observed, which tell of no turns

    def rest(self) -> list[Part]:
        """End the stream if nothing more is to be waited for: a client answers only after that.

        A client answers when each call of the step has an answer or a result. So those that go on
        meanwhile are given one, in whose place the true one will come.
        """
        if self._turn or not (self.is_open and self._calls.asks_anew()):
            return []
        parts = [*self._calls.put_off(_GOES_ON), *self._end_step(), self._finish("tool-calls")]
        self.is_open, self._is_waiting = False, True
        return parts

    def _reopened(self, event: Event) -> Iterator[Part]:
        """Go on when it was decided; of what has happened meanwhile, say what is still open."""
        if isinstance(event, ApprovalDecided | RunEnd):
            self._is_waiting = False
            self._words.clear()
            yield from self._start()
            yield from self._calls.told_again()

    def _start(self) -> Iterator[Part]:
        self.is_open = True
        yield {
            "type": "start",
            "messageId": self._run_id,
            "messageMetadata": {"runId": self._run_id},
        }

    def _told(self, event: Event) -> Iterator[Part]:
        match event:
            case TextDelta(text=text, block=block, parent_id=parent_id):
                yield from self._grow("text", text, (block, parent_id))
            case ThinkingStarted(block=block, parent_id=parent_id):
                yield from self._begin_words("reasoning", (block, parent_id))
            case ThinkingDelta(text=text, block=block, parent_id=parent_id):
                yield from self._grow("reasoning", text, (block, parent_id))
            case ThinkingCompleted(text=text, block=block, parent_id=parent_id):
                yield from self._end_thinking(text, (block, parent_id))
            case ToolCallStarted():
                yield from self._begin_block()
                yield from self._calls.begin(event, _LOST)
            case TurnStarted(turn=turn):
                yield from self._begin_turn(turn)
            case TurnCompleted():
                self._note(event)
            case _ if isinstance(event, CallEvent):
                yield from self._calls.take(event)
            case _:
                yield from self._told_of_run(event)

    def _told_of_run(self, event: Event) -> Iterator[Part]:
        match event:
            case RunStarted() | RunResumed() if not (self.is_open or self._is_waiting):
                yield from self._start()
            case RunPaused():
                yield from self._end_step()
                yield self._finish("tool-calls")
            case RunCompleted(stop_reason=stop_reason, usage=usage):
                self._stop_reason = stop_reason or self._stop_reason
                self._usage = self._usage if usage == Usage() else usage
                yield from self._end_message()
                yield self._finish(finish_reason(self._stop_reason))
            case RunFailed(code=code, message=message):
                yield from self._end_message()
                yield {"type": "error", "errorText": f"{message} ({code})"}
            case RunStopped(reason=reason):
                yield from self._end_message()
                yield {"type": "abort", "reason": reason or "the run was stopped"}
            case _:
                pass  # nothing that a client could show

    # Steps

    def _begin_turn(self, turn: int) -> Iterator[Part]:
        if turn != self._turn:
            yield from self._end_step()
            yield from self._begin_step()
            self._turn = turn
        elif self._has_blocks:
            yield from self._end_words()
            yield from self._calls.end_all(_LOST)
            yield {"type": "data-argstream-lost", "data": {"turn": turn}}
        self._has_blocks = False

    def _begin_step(self) -> Iterator[Part]:
        self._has_step = self.step_is_open = True
        yield {"type": "start-step"}

    def _end_step(self) -> Iterator[Part]:
        yield from self._end_words()
        if self.step_is_open:
            self.step_is_open = False
            yield {"type": "finish-step"}

    def _begin_block(self) -> Iterator[Part]:
        if not self._has_step:
            yield from self._begin_step()
        self._has_blocks = True

    # Words

    def _begin_words(self, kind: str, key: "_Key") -> Iterator[Part]:
        block, parent_id = key
        if (before := self._words.pop(key, None)) is not None:
            yield before.end()
        yield from self._begin_block()
        parent = None if parent_id is None else self._calls.part_id(parent_id)
        words = self._words[key] = _Words(
            kind, f"{block}" if parent is None else f"{parent}/{block}"
        )
        yield {"type": f"{kind}-start", "id": words.id} | of_parent(parent)

    def _grow(self, kind: str, text: str, key: "_Key") -> Iterator[Part]:
        if key not in self._words:
            yield from self._begin_words(kind, key)
        if text:
            yield self._words[key].grow(text)

    def _end_thinking(self, text: str, key: "_Key") -> Iterator[Part]:
        if key not in self._words:
            yield from self._begin_words("reasoning", key)
        words = self._words.pop(key)
        if len(text) > words.length:
            yield words.grow(text[words.length :])
        yield words.end()

    def _end_words(self) -> Iterator[Part]:
        for words in self._words.values():
            yield words.end()
        self._words.clear()

    # The end

    def _note(self, turn: TurnCompleted) -> None:
        self._usage += turn.usage
        if turn.parent_id is None:
            self._stop_reason = turn.stop_reason

    def _end_message(self) -> Iterator[Part]:
        yield from self._calls.end_all(_OVER)
        yield from self._end_step()

    def _finish(self, reason: str) -> Part:
        about = {"usage": usage_of(self._usage), "stopReason": self._stop_reason}
        return {"type": "finish", "finishReason": reason, "messageMetadata": about}


_Key = tuple[int, str | None]
"""Which block it is: its number, and the call whose sub-agent said it."""


class _Words:
    """Something said or thought that the client has open."""

    __slots__ = ("id", "kind", "length")

    def __init__(self, kind: str, id: str) -> None:  # noqa: A002 - what the protocol calls it
        self.kind = kind
        self.id = id
        self.length = 0

    def grow(self, text: str) -> Part:
        self.length += len(text)
        return {"type": f"{self.kind}-delta", "id": self.id, "delta": text}

    def end(self) -> Part:
        return {"type": f"{self.kind}-end", "id": self.id}
