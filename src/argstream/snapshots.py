"""What a viewer sees of a run: its events, folded into one ``RunSnapshot``.

A view takes events one after the other. At any moment it gives a snapshot, and whoever goes on from
that, with the events that follow, sees what those see who took them all. Taking an event costs what
the event holds: a text that grows is never copied for it. A snapshot costs what it holds. It is a
value of its own: it shares nothing that could be changed with the events, nor with the view.
"""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStarted,
    RunStopped,
    SeenBlock,
    SeenCall,
    SeenText,
    SeenThinking,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolOutputDelta,
    TurnCompleted,
    TurnStarted,
    Usage,
)

__all__ = ["RunView"]

_Whole = TypeVar("_Whole", bound=Struct)


class RunView:
    """A run, as far as its events were taken.

    >>> view = RunView()
    >>> for event in (RunStarted("r1", "Hi"), TextDelta("Hel", 0), TextDelta("lo", 0)):
    ...     view.take(event)
    >>> [block.text for block in view.snapshot().blocks]
    ['Hello']
    """

    def __init__(self) -> None:
        self._run = RunSnapshot("", "running", "", (), (), 0, Usage())  # all of it but its blocks
        self._blocks: list[_Words | _Call] = []
        self._words: dict[tuple[int, str | None], _Words] = {}
        self._calls: dict[str, _Call] = {}

    @classmethod
    def of(cls, snapshot: RunSnapshot) -> "RunView":
        """Make a view that goes on from a snapshot."""
        view = cls()
        view.take(snapshot)
        return view

    def take(self, event: Event) -> None:
        """Take the next event; a ``RunSnapshot`` stands for all before it."""
        match event:
            case ToolArgsDelta(call_id=call_id, name=name, delta=piece):
                if (call := self._call(call_id, name)) is not None:
                    call.write(piece)
            case TextDelta(text=piece, block=block, parent_id=parent_id):
                self._open(block, parent_id, SeenText).grow(piece)
            case ThinkingDelta(text=piece, block=block, parent_id=parent_id):
                self._open(block, parent_id, SeenThinking).grow(piece)
            case ToolOutputDelta(call_id=call_id, name=name, text=piece):
                if (call := self._call(call_id, name)) is not None:
                    call.put_out(piece)
            case _:
                self._change(event)

    def snapshot(self) -> RunSnapshot:
        """Give all that was told up to here."""
        blocks = tuple(block.seen() for block in self._blocks)
        return _own(replace(self._run, blocks=blocks))

    def _change(self, event: Event) -> None:
        """Take an event that does not merely grow something."""
        match event:
            case ThinkingStarted(block=block, parent_id=parent_id):
                self._begin_words(block, parent_id, SeenThinking)
            case ThinkingCompleted(text=text, block=block, parent_id=parent_id):
                self._open(block, parent_id, SeenThinking).end(text)
            case ToolCallStarted():
                self._add(
                    SeenCall(
                        call_id=event.call_id,
                        index=event.index,
                        name=event.name,
                        kind=event.kind,
                        parent_id=event.parent_id,
                        turn=self._run.turns,
                    )
                )
            case (
                ToolArgsCompleted(call_id=call_id, name=name)
                | ToolArgsInvalid(call_id=call_id, name=name)
                | ApprovalRequested(call_id=call_id, name=name)
                | ApprovalDecided(call_id=call_id, name=name)
                | ToolExecutionStarted(call_id=call_id, name=name)
                | ToolCallCompleted(call_id=call_id, name=name)
                | ToolCallFailed(call_id=call_id, name=name)
            ):
                if (call := self._call(call_id, name)) is not None:
                    call.note(event)
            case _:
                self._change_run(event)

    def _change_run(self, event: Event) -> None:
        """Take an event that is about no block."""
        run = self._run
        match event:
            case TurnStarted(turn=turn, attempt=attempt):
                self._run = replace(run, turns=turn)
                if attempt > 1:
                    self._lose(turn)
            case TurnCompleted(usage=usage, stop_reason=reason, parent_id=parent_id):
                reason = reason if parent_id is None else run.stop_reason
                self._run = replace(run, usage=run.usage + usage, stop_reason=reason)
            case RunStarted(run_id=run_id, prompt=prompt):
                self._run = replace(run, run_id=run_id, prompt=prompt, history=_own(event).history)
            case RunPaused():
                self._run = replace(run, status="paused")
            case RunResumed():
                self._run = replace(run, status="running")
            case RunCompleted():
                self._run = replace(run, status="completed", end=_own(event))
            case RunFailed(usage=usage) | RunStopped(usage=usage):
                status = "failed" if isinstance(event, RunFailed) else "stopped"
                # With that of a turn that did not complete. Older logs do not have it.
                usage = run.usage if usage == Usage() else usage
                self._run = replace(run, status=status, end=event, usage=usage)
            case RunSnapshot():
                self._begin_with(_own(event))
            case _:
                pass  # a snapshot does not tell of it: arguments that others compute, failures

    def _begin_with(self, snapshot: RunSnapshot) -> None:
        self._run = replace(snapshot, blocks=())
        self._blocks.clear()
        self._words.clear()
        self._calls.clear()
        for seen in snapshot.blocks:
            self._add(seen)

    def _lose(self, turn: int) -> None:
        for block in reversed(self._blocks):
            if block.turn != turn:
                break
            block.is_lost = True

    # Blocks. After a lost attempt of a turn, the next may use the same numbers and ids.

    def _add(self, seen: SeenBlock) -> None:
        block: _Words | _Call
        if isinstance(seen, SeenCall):
            block = self._calls[seen.call_id] = _Call(seen)
        else:
            block = self._words[seen.block, seen.parent_id] = _Words(seen)
        self._blocks.append(block)

    def _open(
        self, block: int, parent_id: str | None, kind: type[SeenText | SeenThinking]
    ) -> "_Words":
        """Give the block that grows; what is said is not told to begin."""
        words = self._words.get((block, parent_id))
        if words is None or words.is_lost:
            self._begin_words(block, parent_id, kind)
        return self._words[block, parent_id]

    def _begin_words(
        self, block: int, parent_id: str | None, kind: type[SeenText | SeenThinking]
    ) -> None:
        self._add(kind(block=block, text="", parent_id=parent_id, turn=self._run.turns))

    def _call(self, call_id: str, name: str) -> "_Call | None":
        """Give a call, under the name that it has by now; None if it was never told to begin."""
        call = self._calls.get(call_id)
        if call is not None:
            call.name = name
        return call


class _Words:
    """What is said or thought in one block: a text that grows in place."""

    __slots__ = ("_facts", "_text", "is_lost", "turn")

    def __init__(self, seen: SeenText | SeenThinking) -> None:
        self._text = seen.text
        self._facts = replace(seen, text="")
        self.turn = seen.turn
        self.is_lost = seen.is_lost

    def grow(self, piece: str) -> None:
        # In place only while nothing else refers to the text (invariant 6).
        text, self._text = self._text, ""
        text += piece
        self._text = text

    def end(self, text: str) -> None:
        self._text = text
        self._facts = replace(self._facts, is_over=True)

    def seen(self) -> SeenText | SeenThinking:
        return replace(self._facts, text=self._text, is_lost=self.is_lost)


class _Call:
    """A call: its name, its text and what its tool says may grow."""

    __slots__ = ("_facts", "_output", "_raw", "is_lost", "name", "turn")

    def __init__(self, seen: SeenCall) -> None:
        self._raw = seen.raw
        self._output = seen.output
        self._facts = replace(seen, raw="", output="")
        self.name = seen.name
        self.turn = seen.turn
        self.is_lost = seen.is_lost

    def write(self, piece: str) -> None:
        raw, self._raw = self._raw, ""
        raw += piece
        self._raw = raw

    def put_out(self, piece: str) -> None:
        output, self._output = self._output, ""
        output += piece
        self._output = output

    def note(self, event: Event) -> None:
        """Take what became of it."""
        match event:
            case ToolArgsCompleted(arguments=arguments):
                self._update(verdict="complete", arguments=_own_value(arguments))
            case ToolArgsInvalid(verdict=verdict, error=error):
                self._update(verdict=verdict, error=error)
            case ApprovalRequested():
                self._update(request=_own(event))
            case ApprovalDecided():
                self._update(decision=_own(event))
            case ToolExecutionStarted(attempt=attempt):
                self._update(attempts=attempt)
            case ToolCallCompleted(arguments=arguments, result=result):
                arguments, result = _own_value(arguments), _own_value(result)
                self._update(outcome="completed", arguments=arguments, result=result)
            case ToolCallFailed(error=error):
                self._update(outcome="failed", result=_own_value(error))
            case _:
                pass

    def seen(self) -> SeenCall:
        return replace(
            self._facts, name=self.name, raw=self._raw, output=self._output, is_lost=self.is_lost
        )

    def _update(self, **facts: Any) -> None:
        self._facts = replace(self._facts, **facts)


def _own(whole: _Whole) -> _Whole:
    """Give a value that shares nothing with this one."""
    return msgspec.json.decode(msgspec.json.encode(whole), type=type(whole))


def _own_value(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
