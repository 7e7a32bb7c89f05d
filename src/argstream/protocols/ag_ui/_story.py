"""A run as a client of AG-UI is told it: what each of our events means in theirs.

What is known here follows from a snapshot of the run as well as from its events. So whoever comes
later sees blocks begin and end where the others do. That decides when a text is over, which nobody
says: when the same agent begins something else, or the next turn begins.
"""

from argstream.deltas import CallKind
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunSnapshot,
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
    ToolOutputDelta,
    TurnStarted,
)
from argstream.protocols.ag_ui._blocks import (
    NO_RESULT,
    Block,
    CallBlock,
    TextBlock,
    ThinkingBlock,
    WordsBlock,
)
from argstream.protocols.ag_ui.wire import AgUiEvent, custom
from argstream.protocols.calls import CallEvent, CallIds

__all__ = ["Story"]


class Story:
    """What a client knows of a run."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.turns = 0
        self.length = 0
        """How much was written, in characters."""
        self.blocks: list[Block] = []
        self._words: dict[tuple[int, str | None], WordsBlock] = {}
        self._calls: dict[str, CallBlock] = {}
        self._ids = CallIds()
        self._latest: dict[str | None, Block] = {}  # of each agent

    @classmethod
    def of(cls, snapshot: RunSnapshot) -> "Story":
        """Go on from a snapshot, as if all events up to there had been taken."""
        story = cls(snapshot.run_id)
        for seen in snapshot.blocks:
            story.turns = seen.turn
            story._restore(seen)
        story._begin_turn(snapshot.turns)
        return story

    @property
    def pending(self) -> list[CallBlock]:
        """The calls that a person must decide on."""
        return [call for call in self._calls_told() if call.is_pending]

    def settles(self, event: Event) -> bool:
        """Say whether a person need not decide on a call any more, after this event."""
        if not isinstance(event, ApprovalDecided | ToolCallCompleted | ToolCallFailed):
            return False
        call = self._call(event.call_id)
        return call is not None and call.is_pending

    # What holds between two streams

    def going_on(self) -> list[AgUiEvent]:
        """Tell what is open, at the start of a stream."""
        told = self._step("STEP_STARTED")
        return told + [event for block in self._open() for event in block.start()]

    def resting(self) -> list[AgUiEvent]:
        """Tell that what is open is over as far as this stream goes."""
        return self._ends() + self._step("STEP_FINISHED")

    def ending(self) -> list[AgUiEvent]:
        """Tell that the run is over: each call has a result then."""
        told = self._ends()
        for block in self._open():
            block.is_open = False
        for call in self._calls_told():
            told += call.result(NO_RESULT, failed=True)
        return told + self._step("STEP_FINISHED")

    def _ends(self) -> list[AgUiEvent]:
        return [event for block in self._open() for event in block.end()]

    # What happens

    def take(self, event: Event) -> list[AgUiEvent]:
        """Give what an event means."""
        match event:
            case TextDelta(text=piece, block=number, parent_id=parent_id):
                self.length += len(piece)
                return self._grow(number, parent_id, TextBlock, piece)
            case ThinkingDelta(text=piece, block=number, parent_id=parent_id):
                self.length += len(piece)
                return self._grow(number, parent_id, ThinkingBlock, piece)
            case ThinkingStarted(block=number, parent_id=parent_id):
                return self._begin_words(number, parent_id, ThinkingBlock)
            case ThinkingCompleted(text=text, block=number, parent_id=parent_id):
                return self._thought(number, parent_id, text)
            case TurnStarted(turn=turn, attempt=attempt):
                return self._begin_turn(turn, is_again=attempt > 1, is_told=True)
            case ToolCallStarted():
                return self._begin_call(event.call_id, event.name, event.kind, event.parent_id)
            case _ if isinstance(event, CallEvent):
                return self._take_of_call(event)
            case _:
                return []

    def _take_of_call(self, event: CallEvent) -> list[AgUiEvent]:
        if isinstance(event, ToolArgsDelta):
            self.length += len(event.delta)
        call = self._call(event.call_id)
        return [] if call is None else _of_call(call, event)

    def _begin_turn(
        self, turn: int, *, is_again: bool = False, is_told: bool = False
    ) -> list[AgUiEvent]:
        told: list[AgUiEvent] = []
        for block in self._open():
            if block.turn != turn or is_again:
                told += block.end()
                block.is_open = False
        lost = [block for block in self.blocks if block.turn == turn and not block.is_lost]
        if is_again and lost:
            told += self._lose(lost)
        if is_told:
            told += self._step("STEP_FINISHED")
        self.turns = turn
        return told + self._step("STEP_STARTED")

    def _lose(self, blocks: list[Block]) -> list[AgUiEvent]:
        told = [event for block in blocks if isinstance(block, CallBlock) for event in block.lose()]
        for block in blocks:
            block.is_lost = True
        return [*told, lost_messages(blocks)]

    def _step(self, kind: str) -> list[AgUiEvent]:
        return [{"type": kind, "stepName": f"turn {self.turns}"}] if self.turns else []

    # Blocks: those of an attempt that was lost may have had the same numbers and ids

    def _open(self) -> list[Block]:
        return [block for block in self.blocks if block.is_open]

    def _next_id(self) -> str:
        return f"{self.run_id}-{len(self.blocks) + 1}"

    def _add(self, block: Block) -> list[AgUiEvent]:
        told: list[AgUiEvent] = []
        before = self._latest.get(block.parent_id)
        if isinstance(before, WordsBlock) and before.is_open:
            told += before.end()
            before.is_open = False
        self._latest[block.parent_id] = block
        self.blocks.append(block)
        return told + block.start()

    def _begin_words(
        self, number: int, parent_id: str | None, kind: type[WordsBlock]
    ) -> list[AgUiEvent]:
        block = kind(self._next_id(), parent_id, self.turns)
        self._words[number, parent_id] = block
        return self._add(block)

    def _grow(
        self, number: int, parent_id: str | None, kind: type[WordsBlock], piece: str
    ) -> list[AgUiEvent]:
        told: list[AgUiEvent] = []
        words = self._words.get((number, parent_id))
        if words is None or words.is_lost:
            told += self._begin_words(number, parent_id, kind)
        return told + self._words[number, parent_id].grow(piece)

    def _thought(self, number: int, parent_id: str | None, text: str) -> list[AgUiEvent]:
        told = self._grow(number, parent_id, ThinkingBlock, "")
        block = self._words[number, parent_id]
        told += block.grow(text[block.length :])
        if block.is_open:
            told += block.end()
        block.is_open = False
        return told

    def _begin_call(
        self, call_id: str, name: str, kind: CallKind, parent_id: str | None
    ) -> list[AgUiEvent]:
        call = CallBlock(
            self._next_id(),
            parent_id,
            self.turns,
            call_id=self._ids.begin(call_id),
            name=name,
            kind=kind,
        )
        self._calls[call_id] = call
        return self._add(call)

    def _call(self, call_id: str) -> CallBlock | None:
        """Give the call, unless it was never told to begin, or nothing is told of it any more."""
        call = self._calls.get(call_id)
        return None if call is None or call.is_lost else call

    def _calls_told(self) -> list[CallBlock]:
        return [block for block in self.blocks if isinstance(block, CallBlock)]

    def _restore(self, seen: SeenBlock) -> None:
        self.length += len(seen.raw if isinstance(seen, SeenCall) else seen.text)
        match seen:
            case SeenText(block=number, text=text, parent_id=parent_id):
                self._begin_words(number, parent_id, TextBlock)
                self._words[number, parent_id].length = len(text)
            case SeenThinking(block=number, text=text, parent_id=parent_id):
                self._begin_words(number, parent_id, ThinkingBlock)
                self._words[number, parent_id].length = len(text)
                self._words[number, parent_id].is_open = not seen.is_over
            case SeenCall():
                self._begin_call(seen.call_id, seen.name, seen.kind, seen.parent_id)
                self._calls[seen.call_id].restore(seen)
        block = self.blocks[-1]
        block.is_lost = seen.is_lost
        block.is_open = block.is_open and not seen.is_lost


def lost_messages(blocks: list[Block]) -> AgUiEvent:
    """Tell which messages the model does not know of: its turn was cut off and began again."""
    return custom("turn_lost", {"messageIds": [block.id for block in blocks]})


def _of_call(call: CallBlock, event: CallEvent) -> list[AgUiEvent]:
    match event:
        case ToolArgsDelta(name=name, delta=piece):
            return call.write(piece, name)
        case ToolArgsCompleted(name=name, arguments=arguments):
            return [*call.rename(name), *call.complete(arguments)]
        case ToolArgsInvalid(name=name, verdict=verdict, error=error):
            return [*call.rename(name), *call.invalid(verdict, error)]
        case ApprovalRequested():
            return call.asked(event)
        case ApprovalDecided():
            return call.decided(event)
        case ToolOutputDelta(text=text):
            return call.said(text)
        case ToolCallCompleted(result=result):
            return call.result(result, failed=False)
        case ToolCallFailed(error=error):
            return call.result(error, failed=True)
