"""``RunState``: the state of a run, and the only reducer of its events.

``apply(event)`` updates the state and returns what changed. Snapshots, UI protocols, observed runs,
``inspect`` and the waterfall read this state and these changes. The cost of a delta does not depend
on the length of its text, because texts grow in place.

A block is a text, a thinking block or a call. Blocks are kept in the order in which they started. A
turn that was cut off is repeated, and may use the same numbers and IDs again. The blocks of the
lost attempt stay, with ``is_lost``. ``key`` is different for every block.

The states of a call::

    writing ─▶ written ─▶ pending ─▶ approved ─▶ running ─▶ completed
       │          │          └─────▶ denied         └─────▶ failed
       │          └──────────────────────────▶ running
       └─▶ invalid                                             any ─▶ lost

``running`` needs ``ToolExecutionStarted``. In an observed run, and for a call that the provider
runs, a call stays ``written`` or ``approved`` until its result arrives.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from math import isinf
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from argstream import events as ev
from argstream.errors import UsageError
from argstream.history import CallKind, CallPart, Message, ResultPart, TextPart, Verdict
from argstream.jsonstream import Done, Fragment, Invalid, JsonPath, Kind, Parser, Start, Text
from argstream.jsonstream._fragments import kind_of
from argstream.providers._deltas import FREE_TEXT_KINDS
from argstream.runs._records import Record
from argstream.sanitise import encode_json

_Copied = TypeVar("_Copied", bound=Struct)

CallState: TypeAlias = Literal[
    "writing",
    "written",
    "pending",
    "approved",
    "running",
    "completed",
    "failed",
    "denied",
    "invalid",
    "lost",
]
ChangeKind: TypeAlias = Literal[
    "block_started",  # ``block`` is new
    "text",  # ``text`` was appended to a text or thinking ``block``
    "block_ended",  # a thinking ``block`` is complete
    "block_lost",  # the turn of ``block`` was cut off and starts again
    "renamed",  # a call has another name: some servers send names in pieces
    "arguments_text",  # ``text`` was appended to the raw arguments of a call
    "argument",  # ``event`` is an ``Argument…`` event of a call
    "verdict",  # the arguments of a call are complete or invalid
    "request",  # a call needs approval
    "decision",  # the request has a decision
    "attempt",  # the tool was started
    "output",  # ``text`` was appended to the output of a running tool
    "result",  # a call completed or failed
    "turn_started",  # a turn started, or started again after its blocks were lost
    "turn_ended",  # a turn of the model or of a sub-agent is complete
    "run_started",  # the run started
    "run_paused",  # the run waits for decisions: ``RunState.pending``
    "run_resumed",  # the run continues after a pause or a crash
    "run_ended",  # the run completed, failed or was stopped: ``RunState.end``
    "stream_failed",  # the model's stream failed: ``RunState.failures``
]
_Mode: TypeAlias = Literal["tree", "events", "off"]  # how arguments are parsed
_RUN_FIELDS: Final = tuple(name for name in ev.RunSnapshot.__struct_fields__ if name != "blocks")
_TextEvent: TypeAlias = ev.TextDelta | ev.ThinkingStarted | ev.ThinkingDelta | ev.ThinkingCompleted
CallEvent: TypeAlias = (
    ev.ToolArgsCompleted
    | ev.ToolArgsInvalid
    | ev.ApprovalRequested
    | ev.ApprovalDecided
    | ev.ToolExecutionStarted
    | ev.ToolCallCompleted
    | ev.ToolCallFailed
)


class Change(Struct, frozen=True, gc=False):
    """One change of a run: what changed, and the event that changed it.

    Read what changed from ``block`` and from the state. ``event`` has more details. ``ChangeKind``
    lists the kinds.
    """

    kind: ChangeKind
    event: ev.Event
    block: "TextBlock | Call | None" = None
    text: str = ""


class Argument(Struct, eq=False):
    """A value inside the arguments of a call. It grows in place."""

    path: JsonPath
    kind: Kind | None = None  # None while it is not known
    started_at: float | None = None
    done_at: float | None = None
    is_done: bool = False  # later text cannot change it
    text: str = ""  # of a string, so far
    children: dict[str | int, "Argument"] = {}
    _value: Any = None

    @property
    def value(self) -> Any:
        """The value, so far."""
        if self.is_done:
            return self._value
        if self.kind == "array":
            return [child.value for child in self.children.values()]
        if self.kind == "object":
            return {key: child.value for key, child in self.children.items()}
        return self.text if self.kind == "string" else None

    def _apply(self, event: ev.ArgumentEvent, time: float | None) -> None:
        """Apply an event about a value inside of this one."""
        argument = self
        if isinstance(event, ev.ArgumentDelta):  # nearly always
            for key in event.path:
                argument = argument.children[key]
            text, argument.text = argument.text, ""
            text += event.text
            argument.text = text
            return
        *parents, last = event.path
        for key in parents:
            argument = argument.children[key]
        if isinstance(event, ev.ArgumentStarted):
            self.kind = self.kind or "object"
            argument.children[last] = Argument(event.path, event.kind, time)
        else:
            argument.children[last]._finish(event.value, time)

    def _grow(self, piece: str) -> None:
        text, self.text = self.text, ""
        text += piece
        self.text = text

    def _finish(self, value: Any, time: float | None) -> None:
        self._value, self.is_done, self.done_at = value, True, time

    def _set_value(self, value: Any, time: float | None) -> None:
        """Set the complete value. Children that exist keep their times."""
        if (kind := kind_of(value)) != self.kind:
            self.kind, self.text, self.children = kind, "", {}
        items: Iterable[tuple[str | int, Any]] = ()
        if isinstance(value, dict):
            items = value.items()
        elif isinstance(value, list):
            items = enumerate(value)
        elif isinstance(value, str):
            self.text = value
        before, self.children = self.children, {}
        for key, item in items:
            child = before.get(key) or Argument((*self.path, key), started_at=time)
            child._set_value(item, time)
            self.children[key] = child
        self._finish(value, self.done_at if self.is_done else time)


class TextBlock(Struct, eq=False):
    """A block of text or of thinking. ``text`` grows in place."""

    block: int
    parent_id: str | None
    turn: int
    is_thinking: bool
    text: str = ""
    is_over: bool = False  # only thinking blocks report their end
    is_lost: bool = False
    started_at: float | None = None
    last_text_at: float | None = None
    key: str = ""  # unique in the run

    def _grow(self, piece: str) -> None:
        # In place only while nothing else refers to the text (invariant 6).
        text, self.text = self.text, ""
        text += piece
        self.text = text

    def _snapshot(self) -> ev.BlockSnapshot:
        kind: type[ev.TextSnapshot | ev.ThinkingSnapshot] = ev.TextSnapshot
        if self.is_thinking:
            kind = ev.ThinkingSnapshot
        return kind(**{name: getattr(self, name) for name in kind.__struct_fields__})


class Call(Struct, eq=False):
    """A call of a tool, from its name to its result."""

    call_id: str
    index: int
    name: str
    kind: CallKind = "function"
    parent_id: str | None = None
    turn: int = 0
    is_lost: bool = False
    raw: str = ""  # the text of the arguments, so far
    verdict: Verdict | None = None  # None while it is written
    arguments: dict[str, Any] | str | None = None
    """The model's arguments once they are complete; after execution, those that ran."""
    error: ev.ArgumentsError | None = None
    request: ev.ApprovalRequested | None = None
    decision: ev.ApprovalDecided | None = None
    attempts: int = 0  # how often the tool was started
    output: str = ""
    outcome: Literal["completed", "failed"] | None = None
    result: Any = None  # the result, or the error if the call failed
    started_at: float | None = None
    last_text_at: float | None = None  # of its arguments, or of its verdict
    completed_at: float | None = None  # when it had its verdict
    requested_at: float | None = None
    decided_at: float | None = None
    executed_at: list[float] = []  # one per attempt
    ended_at: float | None = None
    interruptions: int = 0  # attempts that a crash ended
    key: str = ""  # unique in the run; the ID, unless a lost attempt has used it
    root: Argument = field(default_factory=lambda: Argument(()))
    written: Argument = field(default_factory=lambda: Argument(()))
    """The tree as the model wrote it. It is ``root``, unless other arguments ran."""
    text: str | None = None  # the exact text of the arguments, if it is not ``raw``
    is_free_text: bool = False  # the arguments are a text, not JSON
    _parser: Parser | None = None
    _is_readable: bool = True  # whether its text may be JSON arguments

    def __post_init__(self) -> None:
        self.written = self.root
        if self.kind in FREE_TEXT_KINDS:
            self.is_free_text, self._is_readable, self.root.kind = True, False, "string"

    @property
    def is_pending(self) -> bool:
        """Whether the call waits for a decision."""
        is_open = self.decision is None and self.outcome is None
        return self.request is not None and is_open and not self.is_lost

    @property
    def written_arguments(self) -> dict[str, Any] | str | None:
        """The arguments that the model wrote, once they are complete."""
        is_edited = self.decision is not None and self.decision.edited_arguments is not None
        return self.request.arguments if is_edited and self.request else self.arguments

    @property
    def state(self) -> CallState:
        """The state of the call: see the top of the module."""
        if self.is_lost:
            return "lost"
        if self.outcome == "completed":
            return "completed"
        if self.verdict not in (None, "complete"):
            return "invalid"
        is_approved = self.decision is not None and self.decision.decision in ("approved", "edited")
        if self.decision is not None and not is_approved:
            return "denied"
        if self.outcome == "failed":
            return "failed"
        if self.attempts:
            return "running"
        if is_approved:
            return "approved"
        if self.request is not None:
            return "pending"
        return "writing" if self.verdict is None else "written"

    def argument_events(self) -> list[ev.ArgumentEvent]:
        """Return the argument events of the text so far."""
        return Call(self.call_id, self.index, self.name, self.kind, raw=self.raw)._parse(self.raw)

    def _parse(self, piece: str) -> list[ev.ArgumentEvent]:
        """Return the argument events of the last piece of ``raw``."""
        if not self._is_readable:
            return []
        if self._parser is None:
            self._parser = Parser(unique_keys=True)
            if earlier := self.raw[: len(self.raw) - len(piece)]:  # its events are known already
                self._feed(self._parser, earlier)
        return self._feed(self._parser, piece)

    def _feed(self, parser: Parser, piece: str) -> list[ev.ArgumentEvent]:
        call_id, name = self.call_id, self.name
        events: list[ev.ArgumentEvent] = []
        if not self._is_readable:
            return events
        for fragment in parser.feed(piece):
            path = fragment.path
            if isinstance(fragment, Text):  # nearly always
                if path:
                    events.append(ev.ArgumentDelta(call_id, name, path, fragment.text))
            elif _rules_out_arguments(fragment):
                self._stop_reading()
                break
            elif isinstance(fragment, Start) and path:
                events.append(ev.ArgumentStarted(call_id, name, path, fragment.kind))
            elif isinstance(fragment, Done) and path:
                events.append(ev.ArgumentCompleted(call_id, name, path, fragment.value))
        return events

    def _stop_reading(self) -> None:
        self._parser, self._is_readable = None, False

    def _close(self, verdict: Verdict, time: float) -> None:
        self.verdict = verdict
        self.completed_at = self.last_text_at = time
        self._stop_reading()

    def _snapshot(self) -> ev.CallSnapshot:
        names = ev.CallSnapshot.__struct_fields__
        return ev.CallSnapshot(**{name: getattr(self, name) for name in names})


Block: TypeAlias = TextBlock | Call


class TurnTimes(Struct):
    """When a turn started and ended, and how."""

    turn: int
    attempt: int
    parent_id: str | None
    started_at: float
    ended_at: float | None = None  # None if it was cut off or is in progress
    end: ev.TurnCompleted | None = None


class RunState:
    """The state of a run after the events that were applied.

    >>> state = RunState()
    >>> for event in (ev.RunStarted("r1", "Hi"), ev.TextDelta("Hel", 0), ev.TextDelta("lo", 0)):
    ...     print([change.kind for change in state.apply(event)])
    ['run_started']
    ['block_started', 'text']
    ['text']
    >>> state.blocks[0].text
    'Hello'
    """

    def __init__(self, *, arguments: _Mode = "tree") -> None:
        """Create an empty state.

        Calls are parsed while they are written. ``"tree"`` reports ``argument`` changes and keeps
        ``Call.root``, ``"events"`` only reports, and ``"off"`` does not parse.
        """
        self.run_id: str = ""
        self.conversation_id: str = ""
        self.agent: str = ""
        self.user: str = ""
        self.mode: ev.RunMode = "agent"
        self.replaces: str = ""
        self.prompt: str = ""
        self.history: tuple[Message, ...] = ()  # the messages before the run
        self.status: ev.RunStatus = "running"
        self.blocks: list[Block] = []  # in the order in which they started
        self.calls: dict[str, Call] = {}  # the newest call with each ID
        self.turns: int = 0  # how many turns started
        self.usage: ev.Usage = ev.Usage()
        self.stop_reason: str | None = None  # of the last turn
        self.end: ev.RunEnd | None = None
        self.failures: list[ev.StreamFailed | ev.RunFailed] = []
        self.turn_times: list[TurnTimes] = []
        self.breaks: list[ev.Break] = []
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.seq: int = 0  # of the last record
        self.time: float = 0.0  # of the last event; it never decreases
        self._before: float = 0.0  # the time of the event before
        if arguments not in get_args(_Mode):
            raise UsageError(f'arguments must be "tree", "events" or "off", not {arguments!r}')
        self._arguments = arguments
        self._turn_messages: list[Message] | None = []  # by the model, in complete turns
        self._texts: dict[tuple[int, str | None], TextBlock] = {}
        self._uses: Counter[str] = Counter()  # of each key
        self._known: Sequence[ev.ArgumentEvent] | None = None

    @classmethod
    def from_records(cls, records: Iterable[Record], *, arguments: _Mode = "tree") -> "RunState":
        """Return the state after these records, which start with the first of the run."""
        state = cls(arguments=arguments)
        for record in records:
            state.apply_record(record)
        return state

    @classmethod
    def from_snapshot(cls, snapshot: ev.RunSnapshot, *, arguments: _Mode = "tree") -> "RunState":
        """Continue from a snapshot. Arguments have no times, and ``messages`` is None."""
        state = cls(arguments=arguments)
        own = _copied(snapshot)
        for name in _RUN_FIELDS:
            setattr(state, name, getattr(own, name))
        for seen in own.blocks:
            state._restore(seen)
        state._turn_messages = None
        return state

    def apply(
        self,
        event: ev.Event,
        time: float = 0.0,
        arguments: Sequence[ev.ArgumentEvent] | None = None,
    ) -> list[Change]:
        """Apply the next event, and return what changed.

        ``arguments`` are the argument events that belong to a ``ToolArgsDelta``, if they are known.
        Otherwise its text is parsed. Argument events themselves change nothing.
        """
        changes: list[Change] = []
        handler = _HANDLERS.get(type(event))
        if handler is None:
            _require_event(event)
        else:
            self._before = self.time
            if time > self.time:  # noqa: PLR1730 - a call of max() costs more than the event
                self.time = time
            self._known = arguments
            handler(self, event, changes)
        return changes

    def apply_all(self, events: Sequence[ev.Event], time: float = 0.0) -> list[Change]:
        """Apply events as ``stream()`` yields them: a delta, then its argument events."""
        changes: list[Change] = []
        start, count = 0, len(events)
        while start < count:
            event, end = events[start], start + 1
            while end < count and events[end].is_computed:
                end += 1
            known: Any = events[start + 1 : end] if type(event) is ev.ToolArgsDelta else None
            changes += self.apply(event, time, known)
            start = end
        return changes

    def apply_record(self, record: Record) -> list[Change]:
        """Apply the next record. Raises ``UsageError`` for one that was already applied."""
        if record.seq <= self.seq:
            raise UsageError(f"record {record.seq} was already applied: the state is at {self.seq}")
        if self.run_id and record.run_id != self.run_id:
            raise UsageError(f"this is the state of run {self.run_id!r}, not of {record.run_id!r}")
        self.seq = record.seq
        self.conversation_id, self.agent = record.conversation_id, record.agent
        return self.apply(record.event, record.time, record.arguments)

    @property
    def pending(self) -> tuple[ev.ApprovalRequested, ...]:
        """The requests that wait for a decision."""
        calls = (block for block in self.blocks if isinstance(block, Call))
        return tuple(call.request for call in calls if call.is_pending and call.request is not None)

    @property
    def messages(self) -> list[Message] | None:
        """The prompt, the complete turns and the results of their calls; None after a snapshot."""
        if self._turn_messages is None:
            return None
        calls: defaultdict[str, deque[Call]] = defaultdict(deque)  # turns may repeat IDs
        for block in self.blocks:
            if isinstance(block, Call) and not block.is_lost:
                calls[block.call_id].append(block)
        prompt = (TextPart(text=self.prompt),)
        messages = [Message(role="user", parts=prompt)] if self.prompt else []
        for message in self._turn_messages:
            messages.append(message)
            written = [part.call_id for part in message.parts if isinstance(part, CallPart)]
            known = {part.call_id for part in message.parts if isinstance(part, ResultPart)}
            ended = [calls[call_id].popleft() for call_id in written if calls[call_id]]
            results = tuple(
                ResultPart(
                    call_id=call.call_id, result=call.result, failed=call.outcome == "failed"
                )
                for call in ended
                if call.outcome is not None and call.call_id not in known
            )
            if results:
                messages.append(Message(role="user", parts=results))
        return messages

    def snapshot(self) -> ev.RunSnapshot:
        """Return the state as one value that shares nothing with it."""
        facts = {name: getattr(self, name) for name in _RUN_FIELDS}
        blocks = tuple(block._snapshot() for block in self.blocks)
        return _copied(ev.RunSnapshot(**facts, blocks=blocks))

    def replay(self, *, with_text: bool = True) -> Iterator[Change]:
        """Yield the changes of ``events()``, for a viewer that connects late.

        The blocks belong to a second state, which is built during the replay. With
        ``with_text=False``, the text of complete arguments is left out.
        """
        state = RunState(arguments=self._arguments)
        for event in self.events(with_text=with_text):
            yield from state.apply(event)

    def events(self, *, with_text: bool = True) -> Iterator[ev.Event]:
        """Yield events that rebuild the blocks and the status, with one delta for each text.

        Usage and stop reasons of turns, failures and times are not included.
        """
        start = (self.run_id, self.prompt, self.history, self.user, self.mode, self.replaces)
        yield ev.RunStarted(*start)
        started = 0
        for turn, blocks in groupby(self.blocks, lambda block: block.turn):
            yield from map(ev.TurnStarted, range(started + 1, turn + 1))
            started = turn
            yield from _turn_events(turn, blocks, with_text=with_text)
        yield from map(ev.TurnStarted, range(started + 1, self.turns + 1))
        if self.end is not None:
            yield self.end
        elif self.status == "paused":
            yield ev.RunPaused(self.run_id, self.pending, self.mode == "observed")

    # Text and thinking

    def _text(self, event: ev.TextDelta | ev.ThinkingDelta, changes: list[Change]) -> None:
        block = self._texts.get((event.block, event.parent_id))
        if block is None or block.is_lost:
            block = self._start_text(event, changes)
        block._grow(event.text)
        block.last_text_at = self.time
        changes.append(Change("text", event, block, event.text))

    def _thinking_completed(self, event: ev.ThinkingCompleted, changes: list[Change]) -> None:
        block = self._texts.get((event.block, event.parent_id))
        if block is None or block.is_lost:
            block = self._start_text(event, changes)
        rest = event.text[len(block.text) :]
        block.text, block.is_over, block.last_text_at = event.text, True, self.time
        if rest:
            changes.append(Change("text", event, block, rest))
        changes.append(Change("block_ended", event, block))

    def _start_text(self, event: _TextEvent, changes: list[Change]) -> TextBlock:
        is_thinking = not isinstance(event, ev.TextDelta)
        block = TextBlock(event.block, event.parent_id, self.turns, is_thinking)
        block.started_at = block.last_text_at = self.time
        self._add(block)
        changes.append(Change("block_started", event, block))
        return block

    def _add(self, block: Block) -> None:
        if isinstance(block, Call):
            name = block.call_id
            self.calls[name] = block
        else:
            name = f"{block.parent_id or ''}/{block.block}"
            self._texts[block.block, block.parent_id] = block
        self._uses[name] += 1
        while (uses := self._uses[name]) > 1 and f"{name}~{uses}" in self._uses:
            self._uses[name] += 1  # the provider sent an ID that equals a key
        block.key = name if uses == 1 else f"{name}~{uses}"
        self._uses[block.key] = self._uses[block.key] or 1
        self.blocks.append(block)

    # Calls

    def _call_started(self, event: ev.ToolCallStarted, changes: list[Change]) -> None:
        facts = (event.call_id, event.index, event.name, event.kind, event.parent_id, self.turns)
        call = Call(*facts, started_at=self.time, last_text_at=self.time)
        self._add(call)
        changes.append(Change("block_started", event, call))

    def _call(self, event: Any, changes: list[Change]) -> Call | None:
        """Return the call of an event, under its newest name; None if it never started."""
        call = self.calls.get(event.call_id)
        if call is not None and call.name != event.name:
            call.name = event.name
            changes.append(Change("renamed", event, call))
        return call

    def _arguments_text(self, event: ev.ToolArgsDelta, changes: list[Change]) -> None:
        call = self.calls.get(event.call_id)
        if call is None:
            return
        if call.name != event.name:
            self._call(event, changes)
        known, delta, now = self._known, event.delta, self.time
        raw, call.raw = call.raw, ""
        raw += delta
        call.raw = raw
        call.last_text_at = now
        changes.append(Change("arguments_text", event, call, delta))
        if self._arguments == "off":
            return
        if known is None:
            known = call._parse(delta)
        else:
            call._parser = None  # it has not read this text
        is_tree, root = self._arguments == "tree", call.root
        for argument in known:
            if is_tree:
                root._apply(argument, now)
            changes.append(Change("argument", argument, call))
        if is_tree and call.is_free_text:
            if not root.text:
                root.started_at = now
            root._grow(delta)

    def _call_event(self, event: CallEvent, changes: list[Change]) -> None:
        call = self._call(event, changes)
        if call is None:
            return
        kind: ChangeKind
        match event:
            case ev.ToolArgsCompleted():
                kind = "verdict"
                call.text = event.text
                call._close("complete", self.time)
                self._set_arguments(call, event.arguments)
            case ev.ToolArgsInvalid():
                kind = "verdict"
                call._close(event.verdict, self.time)
                call.error = event.error
            case ev.ApprovalRequested():
                kind = "request"
                call.request, call.requested_at = _copied(event), self.time
            case ev.ApprovalDecided():
                kind = "decision"
                call.decision, call.decided_at = _copied(event), self.time
            case ev.ToolExecutionStarted():
                kind = "attempt"
                call.attempts = event.attempt
                call.executed_at.append(self.time)
            case ev.ToolCallCompleted():
                kind = "result"
                call.outcome, call.ended_at = "completed", self.time
                if call.verdict in (None, "complete"):  # else they are the text, wrapped for models
                    if encode_json(event.arguments) != encode_json(call.arguments):  # as 1 == True
                        call.root = Argument(())
                    self._set_arguments(call, event.arguments)
                call.result = _copied_value(event.result)
            case ev.ToolCallFailed():
                kind = "result"
                call.outcome, call.ended_at = "failed", self.time
                call.result = _copied_value(event.error)
        changes.append(Change(kind, event, call))

    def _set_arguments(self, call: Call, arguments: dict[str, Any] | str) -> None:
        call.arguments = _copied_value(arguments)
        if self._arguments == "tree":
            call.root._set_value(call.arguments, self.time)

    def _output(self, event: ev.ToolOutputDelta, changes: list[Change]) -> None:
        if (call := self._call(event, changes)) is not None:
            output, call.output = call.output, ""
            output += event.text  # in place, as in TextBlock
            call.output = output
            changes.append(Change("output", event, call, event.text))

    # Turns and the run

    def _turn_started(self, event: ev.TurnStarted, changes: list[Change]) -> None:
        self.turns = event.turn
        self.turn_times.append(TurnTimes(event.turn, event.attempt, None, self.time))
        if event.attempt > 1:
            for block in reversed(self.blocks):
                if block.turn != event.turn:
                    break
                if not block.is_lost:
                    block.is_lost = True
                    if isinstance(block, Call):
                        block._stop_reading()
                    changes.append(Change("block_lost", event, block))
        changes.append(Change("turn_started", event))

    def _turn_completed(self, event: ev.TurnCompleted, changes: list[Change]) -> None:
        self.usage += event.usage
        turns = [turn for turn in self.turn_times if turn.parent_id == event.parent_id]
        turn = turns[-1] if turns else None
        if turn is None or turn.ended_at is not None:  # not all agents report the start of a turn
            parent = self.calls.get(event.parent_id or "")
            before = turn.ended_at if turn else parent.completed_at if parent else self.started_at
            turn = TurnTimes(len(turns) + 1, 1, event.parent_id, before or 0.0)
            self.turn_times.append(turn)
        turn.end, turn.ended_at = event, self.time
        if event.parent_id is None:
            self.stop_reason = event.stop_reason
            if self._turn_messages is not None:
                self._turn_messages.append(event.message)
        changes.append(Change("turn_ended", event))

    def _run_started(self, event: ev.RunStarted, changes: list[Change]) -> None:
        self.run_id, self.prompt, self.user = event.run_id, event.prompt, event.user
        self.mode, self.history = event.mode, _copied(event).history
        self.replaces = event.replaces
        self.started_at = self.time
        changes.append(Change("run_started", event))

    def _run_paused(self, event: ev.RunPaused, changes: list[Change]) -> None:
        self.status = "paused"
        self._end_break()
        calls = tuple(request.call_id for request in event.pending)
        self.breaks.append(ev.Break("pause", self.time, None, calls))
        changes.append(Change("run_paused", event))

    def _run_resumed(self, event: ev.RunResumed, changes: list[Change]) -> None:
        self.status, self.run_id = "running", self.run_id or event.run_id
        self._end_break()
        if event.cause == "crash":
            self.breaks.append(ev.Break("crash", self._before, self.time, event.interrupted))
            for call_id in self.calls.keys() & event.interrupted:
                self.calls[call_id].interruptions += 1
        changes.append(Change("run_resumed", event))

    def _run_ended(self, event: ev.RunEnd, changes: list[Change]) -> None:
        self.end, self.ended_at = _copied(event), self.time
        self.status = event.run_status or self.status
        self._end_break()
        if not isinstance(event, ev.RunCompleted) and event.usage != ev.Usage():
            self.usage = event.usage  # includes a turn that did not complete
        if isinstance(event, ev.RunFailed):
            self.failures.append(event)
        changes.append(Change("run_ended", event))

    def _end_break(self) -> None:
        if self.breaks and self.breaks[-1].ended_at is None:
            self.breaks[-1].ended_at = self.time

    def _stream_failed(self, event: ev.StreamFailed, changes: list[Change]) -> None:
        self.failures.append(event)
        changes.append(Change("stream_failed", event))

    def _restore(self, seen: ev.BlockSnapshot) -> None:
        """Add a block of a snapshot."""
        block: Block
        if isinstance(seen, ev.CallSnapshot):
            block = Call(**asdict(seen))
            if seen.verdict is not None or seen.is_lost:
                block._stop_reading()
            if self._arguments == "tree":
                self._restore_tree(block)
        else:
            block = TextBlock(**asdict(seen), is_thinking=isinstance(seen, ev.ThinkingSnapshot))
        self._add(block)

    def _restore_tree(self, call: Call) -> None:
        if call.arguments is not None:
            call.root._set_value(call.arguments, None)
            if call.written_arguments is not call.arguments:  # a person has edited them
                call.written = Argument(())
                call.written._set_value(call.written_arguments, None)
        elif call.is_free_text:
            call.root._grow(call.raw)
        elif not call.is_lost:
            for event in call.argument_events():
                call.root._apply(event, None)


def with_arguments(events: Iterable[ev.Event]) -> Iterator[ev.Event]:
    r"""Yield the events of a log, with the argument events that it does not keep.

    >>> call = [ev.ToolCallStarted("c1", 0, "add"), ev.ToolArgsDelta("c1", "add", '{"a": 1, "b')]
    >>> [event.type for event in with_arguments(call)]
    ['tool_call_started', 'tool_args_delta', 'argument_started', 'argument_completed']
    """
    state = RunState(arguments="events")
    for event in events:
        if not event.is_computed:
            yield event
            yield from (one.event for one in state.apply(event) if one.kind == "argument")


_HANDLERS: Final[dict[type, Callable[[RunState, Any, list[Change]], object]]] = {
    ev.TextDelta: RunState._text,
    ev.ThinkingStarted: RunState._start_text,
    ev.ThinkingDelta: RunState._text,
    ev.ThinkingCompleted: RunState._thinking_completed,
    ev.ToolCallStarted: RunState._call_started,
    ev.ToolArgsDelta: RunState._arguments_text,
    ev.ToolArgsCompleted: RunState._call_event,
    ev.ToolArgsInvalid: RunState._call_event,
    ev.ApprovalRequested: RunState._call_event,
    ev.ApprovalDecided: RunState._call_event,
    ev.ToolExecutionStarted: RunState._call_event,
    ev.ToolOutputDelta: RunState._output,
    ev.ToolCallCompleted: RunState._call_event,
    ev.ToolCallFailed: RunState._call_event,
    ev.TurnStarted: RunState._turn_started,
    ev.TurnCompleted: RunState._turn_completed,
    ev.RunStarted: RunState._run_started,
    ev.RunPaused: RunState._run_paused,
    ev.RunResumed: RunState._run_resumed,
    ev.RunCompleted: RunState._run_ended,
    ev.RunFailed: RunState._run_ended,
    ev.RunStopped: RunState._run_ended,
    ev.StreamFailed: RunState._stream_failed,
}


def _turn_events(turn: int, blocks: Iterable[Block], *, with_text: bool) -> Iterator[ev.Event]:
    """Yield the events of a turn, those of lost attempts first.

    The number of attempts is not known, but a number or an ID occurs only once in each of them.
    """
    attempt = 1
    seen: set[object] = set()
    was_lost = False
    for block in blocks:
        name = block.call_id if isinstance(block, Call) else (block.block, block.parent_id)
        if (was_lost and not block.is_lost) or (block.is_lost and name in seen):
            attempt += 1
            seen.clear()
            yield ev.TurnStarted(turn, attempt)
        seen.add(name)
        was_lost = block.is_lost
        if isinstance(block, Call):
            yield from _call_events(block, with_text=with_text)
        else:
            yield from _text_events(block)
    if was_lost:
        yield ev.TurnStarted(turn, attempt + 1)


def _text_events(block: TextBlock) -> Iterator[ev.Event]:
    if not block.is_thinking:
        yield ev.TextDelta(block.text, block.block, block.parent_id)
        return
    yield ev.ThinkingStarted(block.block, block.parent_id)
    yield ev.ThinkingDelta(block.text, block.block, block.parent_id)
    if block.is_over:
        yield ev.ThinkingCompleted(block.text, block.block, block.parent_id)


def _call_events(call: Call, *, with_text: bool) -> Iterator[ev.Event]:
    call_id, name = call.call_id, call.name
    yield ev.ToolCallStarted(call_id, call.index, name, call.kind, call.parent_id)
    if call.raw and (with_text or call.verdict != "complete"):
        yield ev.ToolArgsDelta(call_id, name, call.raw)
    if call.verdict == "complete" and call.written_arguments is not None:
        yield ev.ToolArgsCompleted(call_id, name, call.written_arguments)
    elif call.verdict is not None and call.verdict != "complete" and call.error is not None:
        yield ev.ToolArgsInvalid(call_id, name, call.verdict, call.raw, call.error)
    if call.request is not None:
        yield call.request
    if call.decision is not None:
        yield call.decision
    if call.attempts:
        yield ev.ToolExecutionStarted(call_id, name, "", call.attempts)
    if call.output:
        yield ev.ToolOutputDelta(call_id, name, call.output)
    if call.outcome == "completed":
        yield ev.ToolCallCompleted(call_id, name, call.arguments or {}, call.result)
    elif call.outcome == "failed":
        yield ev.ToolCallFailed(call_id, name, call.result)


def _require_event(event: object) -> None:
    if isinstance(event, Record | ev.RunSnapshot):
        instead = "apply_record()" if isinstance(event, Record) else "RunState.from_snapshot()"
        raise UsageError(f"apply() needs an event, not a {type(event).__name__}. Use {instead}")
    if not isinstance(event, ev.BaseEvent):
        raise UsageError(f"apply() needs an event, not {type(event).__name__}")


def _rules_out_arguments(fragment: Fragment) -> bool:
    """Return True if a text with this fragment cannot be the arguments of a call."""
    match fragment:
        case Start((), kind, _):
            return kind not in ("object", "string", "null")
        case Done(_, float(value), _):
            return isinf(value)  # 1e999 is JSON, but infinity cannot be sent back
        case _:
            return isinstance(fragment, Invalid)


def _copied(struct: _Copied) -> _Copied:
    return msgspec.json.decode(encode_json(struct), type=type(struct))


def _copied_value(value: Any) -> Any:
    return msgspec.json.decode(encode_json(value))
