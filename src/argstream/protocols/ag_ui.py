"""AG-UI, the protocol of agents and front ends: versions 1.0 and 0.0.59, out and in."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, Struct

from argstream import events as ev
from argstream.errors import UsageError
from argstream.history import CallKind, CallPart, Message, Part, ResultPart, TextPart, ThinkingPart
from argstream.protocols._base import (
    PARTING_WORDS,
    CallEvent,
    CallIds,
    ChosenId,
    CloseReason,
    Reason,
    Written,
    frame,
    interval_for,
    snapshot_in,
    text_of,
    usage_counts,
)
from argstream.providers._deltas import FREE_TEXT_KINDS
from argstream.runs._records import Approval, Approve, Deny, Record
from argstream.runs._run import SnapshotBuilder, is_waiting

__all__ = [
    "AgUiEncoder",
    "Answers",
    "ResumeEntry",
    "RunAgentInput",
    "Version",
    "answers_of",
    "known_of",
    "prompt_of",
    "version_of",
]

_Json: TypeAlias = dict[str, Any]

Version: TypeAlias = Literal["0.0.59", "1.0"]
"""What the client speaks. The older one refuses what it does not know."""

_OURS: Final = "argstream"
"""The key of what is ours in metadata, and the start of the names of our own events."""
_LOST: Final = "The turn of the model was cut off and began again: this call is void."
_NO_RESULT: Final = "There is no result: the run has ended before."

_known_messages: Final = msgspec.json.Decoder(list[_Json])

_Rest: TypeAlias = Literal["new", "paused", "waiting", "over"]
"""Why no stream is open: nothing has happened yet; the run has paused; it is observed and waits for
a person, though parts of it may go on; it is over."""

_STOPPED: Final = "the run was stopped"
_CHARACTERS_PER_SECOND: Final = 4_000_000
"""The client copies and reads all that was written so far at each event: 2.5 ns a character, and
and rendering takes several times that. At this pace it never needs all of its time."""

_MOST_KNOWN: Final = 1_000
"""How many messages a client is told back; one that has more is told what the log has of them."""


class AgUiEncoder:
    """Writes a run for a client of AG-UI."""

    can_catch_up: Final = False
    """A snapshot of the messages may come at any time; but it is unknown what a client that missed
    something takes for open, and it refuses a stream in which something is opened twice."""

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        version: Version = "0.0.59",
        known: bytes | None = None,
    ) -> None:
        """Name what the client calls the run, and the messages that it has, if it has told.

        These are a JSON array, which is kept only until it is told back: streams may be many, and
        last long.
        """
        self._thread_id = thread_id
        self._run_id = run_id
        self._version: Version = version
        self._known = known
        self._story: _Story | None = None
        self._view: SnapshotBuilder | None = SnapshotBuilder()  # while it may be an observed run
        self._rest: _Rest | None = "new"
        self._held: list[_Json] = []

    @property
    def interval(self) -> float:
        """Longer as the run grows: a client copies all of it at each event."""
        length = 0 if self._story is None else self._story.length
        return interval_for(length, _CHARACTERS_PER_SECOND)

    def begin(self, snapshot: Record) -> None:
        """Continue from where the run stands."""
        run = snapshot_in(snapshot)
        self._story = _Story.of(run)
        self._view = None if run.turns else SnapshotBuilder.of(run)
        self._rest = _rest_of(run)

    def take(self, records: Sequence[Record]) -> Written:
        """Write what has happened."""
        told: list[_Json] = []
        for record in records:
            if self._story is None:
                self._story = _Story(record.run_id)
            told += self._take(record.event, self._story)
        story = self._story
        if self._rest is None and story is not None and not story.turns and story.pending:
            # It is only observed: such runs do not pause, and yet wait for a person.
            told += [*story.resting(), self._interrupted(story)]
            self._rest = "waiting"
        return Written(_frames(told), ends=bool(told) and self._rest is not None)

    def replay(self, snapshot: Record) -> Written:
        """Write all so far."""
        run = snapshot_in(snapshot)
        story = _Story.of(run)
        told = self._all_so_far(run, story)
        if run.end is not None:
            told.append(self._final(run.end))
        elif _rest_of(run) is None:
            return Written(_frames([*told, *story.going_on()]))
        else:
            told.append(self._interrupted(story))
        return Written(_frames(told), ends=True)

    def close_reason(self, why: CloseReason) -> bytes:
        """Write that the run goes on, and how to see it."""
        return _frames([_run_error(why, f"{PARTING_WORDS[why]}; ask again to go on with the run")])

    def _take(self, event: ev.Event, story: "_Story") -> list[_Json]:
        told = self._reopened(event, story)
        if self._view is not None:
            self._view.take(event)
        meant = story.take(event)
        if story.turns:
            self._view = None
        if self._rest == "paused":  # it is being stopped: what becomes of its calls comes first
            self._held += meant
        if self._rest is not None:
            return []
        told += meant
        match event:
            case ev.RunPaused():
                self._rest = "paused"
                told += [*story.resting(), self._interrupted(story)]
            case ev.RunCompleted() | ev.RunFailed() | ev.RunStopped():
                self._rest = "over"
                told += [*story.ending(), self._final(event)]
            case _:
                pass
        return told

    # How a stream begins and ends

    def _reopened(self, event: ev.Event, story: "_Story") -> list[_Json]:
        """Begin a stream, if none is open and the event is a reason to."""
        is_over = isinstance(event, ev.RunEnd)
        if self._rest == "new":
            told = [self._started(story)]
        elif self._rest == "paused" and (is_over or isinstance(event, ev.RunResumed)):
            told = [self._started(story), *story.going_on(), *self._held]
            self._held, self._known = [], None
        elif self._rest == "waiting" and self._view and (is_over or story.settles(event)):
            # What else has happened while this client was asked is told here.
            told = [*self._all_so_far(self._view.snapshot(), story), *story.going_on()]
        else:
            return []
        self._rest = None
        return told

    def _started(self, story: "_Story") -> _Json:
        # The client's own ID names the run to it; ours is what stops it.
        event = {"type": "RUN_STARTED", "threadId": self._thread_id, "runId": self._run_id}
        event |= _note(runId=story.run_id)
        return event if self._version == "0.0.59" else event | {"protocolVersion": self._version}

    def _all_so_far(self, run: ev.RunSnapshot, story: "_Story") -> list[_Json]:
        messages = _messages_snapshot(run, story, self._known)
        self._known = None
        return [self._started(story), *messages, *_besides_messages(run, story)]

    def _interrupted(self, story: "_Story") -> _Json:
        interrupts = [
            _interrupt(call.request, call.call_id, call.tag, self._version)
            for call in story.pending
            if call.request is not None
        ]
        if not interrupts:  # the protocol has no pause that waits for nothing
            return _run_error("paused", "the run has paused, and what it waits for is not known")
        outcome = {"type": "interrupt", "interrupts": interrupts}
        return _run_finished(self._thread_id, self._run_id, outcome)

    def _final(self, end: ev.RunEnd) -> _Json:
        match end:
            case ev.RunCompleted(result=result, usage=usage):
                more = {} if result is None else {"result": result}
                counts = usage_counts(usage)
                if self._version != "0.0.59" and usage.cache_write_tokens is not None:
                    counts["cacheWriteInputTokens"] = usage.cache_write_tokens
                if counts:
                    more["usage"] = [counts]
                return _run_finished(self._thread_id, self._run_id, {"type": "success"}, **more)
            case ev.RunFailed(code=code, message=message):
                return _run_error(code, message)
            case ev.RunStopped(reason=reason) if self._version == "0.0.59":
                # What this client itself tells when its user ends a request.
                return _run_error("abort", f"the run was stopped: {reason}" if reason else _STOPPED)
            case ev.RunStopped(reason=reason):
                outcome = {"type": "cancelled"}
                return _run_finished(
                    self._thread_id, self._run_id, outcome, **_note(reason=reason or _STOPPED)
                )


def _rest_of(run: ev.RunSnapshot) -> "_Rest | None":
    if run.end is not None:
        return "over"
    if run.status == "paused":
        return "paused"
    return "waiting" if is_waiting(run) else None


class ResumeEntry(Struct, frozen=True, rename="camel"):
    """What was answered to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunAgentInput(Struct, frozen=True, rename="camel"):
    """A request of a client, as far as it is read."""

    thread_id: ChosenId
    run_id: ChosenId
    messages: list[Raw]
    """All that it has, each as it was sent: decoded, many small ones take a hundred times the room,
    and only the last one is read."""
    protocol_version: str | None = None
    """Left out by those that speak 0.0.59."""
    resume: list[ResumeEntry] | None = None


class Answers(NamedTuple):
    """What was answered, by the ids of the interrupts."""

    resolved: dict[str, Approval]
    cancelled: dict[str, Deny]
    """Cancelled requests: the calls do not run."""


def version_of(protocol_version: str | None) -> Version:
    """Return the version to speak. A client that names one knows at least 1.0."""
    return "0.0.59" if protocol_version is None else "1.0"


def prompt_of(messages: Sequence[Raw]) -> str | None:
    """Return the text of the last message if a user wrote it, which makes it a new prompt.

    None if not: then the client wants to go on seeing what it has asked for.

    >>> prompt_of([Raw(b'{"role": "user", "content": [{"type": "text", "text": "Hi"}]}')])
    'Hi'
    """
    last = _decoded(messages[-1]) if messages else {}
    if last.get("role") != "user":
        return None
    content = last.get("content")
    text = content if isinstance(content, str) else "".join(_texts(content))
    if not text.strip():
        raise UsageError("the last message is empty: write what the agent should do")
    return text


def known_of(messages: Sequence[Raw]) -> bytes | None:
    """Return the messages of the client as a JSON array, to send them back to it.

    None if they are too many for that.

    >>> known_of([Raw(b'{"id": "1"}'), Raw(b'{ "id": "2" }')])
    b'[{"id":"1"},{"id":"2"}]'
    """
    if len(messages) > _MOST_KNOWN:
        return None
    return b"[%b]" % b",".join(msgspec.json.encode(_decoded(message)) for message in messages)


def answers_of(resume: Iterable[ResumeEntry]) -> Answers:
    """Return the answers by interrupt ID. Raise ``UsageError`` if one is answered twice."""
    answers = Answers({}, {})
    for entry in resume:
        name = entry.interrupt_id
        if name in answers.resolved or name in answers.cancelled:
            raise UsageError(f"the interrupt {name} is answered twice: answer it once")
        if entry.status == "cancelled":
            answers.cancelled[name] = Deny("the request was cancelled")
        else:
            answers.resolved[name] = _answer(entry)
    return answers


class _Answer(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What an interrupt asks for: see its responseSchema."""

    approved: bool
    edited_args: dict[str, Any] | None = None
    reason: Reason | None = None


def _answer(entry: ResumeEntry) -> Approval:
    try:
        answer = msgspec.convert(entry.payload, _Answer)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"the payload for the interrupt {entry.interrupt_id} is no answer ({error}): send "
            "{approved: true}, with editedArgs if others should be used, or {approved: false}, "
            "with a reason"
        ) from error
    reason = answer.reason or ""
    if not answer.approved:
        return Deny(reason)
    return Approve(arguments=answer.edited_args, digest=entry.interrupt_id, reason=reason)


def _decoded(message: Raw) -> _Json:
    try:
        return msgspec.json.decode(message, type=_Json)
    except msgspec.ValidationError as error:
        raise UsageError(f"each message must be an object: {error}") from error


def _texts(content: object) -> Iterable[str]:
    if not isinstance(content, list):
        raise UsageError("the content of a message must be a text, or a list of parts")
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("text") if isinstance(part, dict) else None
        if kind != "text" or not isinstance(text, str):
            raise UsageError(
                f"the last message has a part of the type {kind!r}: only text can be sent here"
            )
        yield text


class _Block(ABC):
    """A text, a thought or a call of the model, in the stream of a client."""

    def __init__(self, id: str, parent_id: str | None, turn: int) -> None:
        self.id = id
        self.parent_id = parent_id
        self.turn = turn
        self.is_lost = False
        self.is_open = True
        """Whether more is to come, as far as can be told."""

    @abstractmethod
    def start(self) -> list[_Json]:
        """Return the events that open the block, also in another stream."""

    @abstractmethod
    def end(self) -> list[_Json]: ...

    def event(self, kind: str, **fields: Any) -> _Json:
        return {"type": kind, **fields, **self.tag}

    @property
    def tag(self) -> dict[str, str]:
        """The call whose sub-agent made it; empty for the agent itself."""
        return {} if self.parent_id is None else {"subagentRunId": self.parent_id}


class _WordsBlock(_Block):
    length = 0

    def grow(self, text: str) -> list[_Json]:
        """Return the next piece. A block that was closed is opened and closed around it."""
        if not text:
            return []
        if self.is_open:
            return self._grown(text)
        return [*self.start(), *self._grown(text), *self.end()]

    @abstractmethod
    def _grown(self, text: str) -> list[_Json]: ...


class _TextBlock(_WordsBlock):
    def start(self) -> list[_Json]:
        return [self.event("TEXT_MESSAGE_START", messageId=self.id, role="assistant")]

    def end(self) -> list[_Json]:
        return [self.event("TEXT_MESSAGE_END", messageId=self.id)]

    def _grown(self, text: str) -> list[_Json]:
        self.length += len(text)
        return [self.event("TEXT_MESSAGE_CONTENT", messageId=self.id, delta=text)]


class _ThinkingBlock(_WordsBlock):
    """A span of reasoning, with a message once there is something to read."""

    def start(self) -> list[_Json]:
        span = self.event("REASONING_START", messageId=self.id)
        return [span, self._message()] if self.length else [span]

    def end(self) -> list[_Json]:
        span = self.event("REASONING_END", messageId=self.id)
        message = self.event("REASONING_MESSAGE_END", messageId=self.id)
        return [message, span] if self.length else [span]

    def _message(self) -> _Json:
        return self.event("REASONING_MESSAGE_START", messageId=self.id, role="reasoning")

    def _grown(self, text: str) -> list[_Json]:
        first = [] if self.length else [self._message()]
        self.length += len(text)
        return [*first, self.event("REASONING_MESSAGE_CONTENT", messageId=self.id, delta=text)]


class _CallBlock(_Block):
    def __init__(
        self,
        id: str,
        parent_id: str | None,
        turn: int,
        *,
        call_id: str,
        name: str,
        kind: CallKind,
    ) -> None:
        super().__init__(id, parent_id, turn)
        self.call_id = call_id
        """Not the model's, if that has called anew under the same after a turn was cut off."""
        self.name = name
        self.kind = kind
        self.raw: list[str] = []
        """While it is written."""
        self.length = 0
        self.request: ev.ApprovalRequested | None = None
        self.is_decided = False
        self.has_result = False

    @property
    def is_pending(self) -> bool:
        asked = self.request is not None and not self.is_decided
        return asked and not self.has_result and not self.is_lost

    def start(self) -> list[_Json]:
        call = {"toolCallId": self.call_id, "toolCallName": self.name, "parentMessageId": self.id}
        return [self.event("TOOL_CALL_START", **call)]

    def end(self) -> list[_Json]:
        return [self.event("TOOL_CALL_END", toolCallId=self.call_id)]

    def rename(self, name: str) -> list[_Json]:
        """Change the name: clients read it from a second start."""
        if name == self.name:
            return []
        self.name = name
        return [*self.end(), *self.start()] if self.is_open else [*self.start(), *self.end()]

    def write(self, text: str, name: str) -> list[_Json]:
        told = self.rename(name)
        if self.is_open and text:
            self.raw.append(text)
            self.length += len(text)
            told.append(self.event("TOOL_CALL_ARGS", toolCallId=self.call_id, delta=text))
        return told

    def complete(self, arguments: dict[str, Any] | str) -> list[_Json]:
        text = self.text_of_arguments("".join(self.raw))
        told = [] if self.length else self.write(text, self.name)
        self.raw.clear()
        return [*told, *self.close(), *self.restated(text, arguments)]

    def text_of_arguments(self, raw: str) -> str:
        """Return the text of complete arguments. It is JSON even if the model wrote nothing."""
        return raw if raw or self.kind in FREE_TEXT_KINDS else "{}"

    def restated(self, text: str, arguments: dict[str, Any] | str) -> list[_Json]:
        """Return the arguments themselves, if their text says something else."""
        return [] if self._says(text, arguments) else [self.about("arguments", arguments=arguments)]

    def close(self) -> list[_Json]:
        told = self.end() if self.is_open else []
        self.is_open = False
        return told

    def invalid(self, verdict: str, error: ev.ArgumentsError) -> list[_Json]:
        self.raw.clear()
        facts = {**msgspec.structs.asdict(error), "path": list(error.path)}
        return [*self.close(), self.about("arguments_invalid", verdict=verdict, **facts)]

    def asked(self, request: ev.ApprovalRequested) -> list[_Json]:
        self.request = request
        facts = {"id": request.digest, "toolName": request.name, "arguments": request.arguments}
        return [
            self.about(
                "approval_requested",
                **facts,
                reason=request.reason,
                rule=request.rule,
                expiresAt=request.expires_at,
            )
        ]

    def decided(self, decision: ev.ApprovalDecided) -> list[_Json]:
        self.is_decided = True
        facts: dict[str, Any] = {"decision": decision.decision, "reason": decision.reason}
        if decision.edited_arguments is not None:
            facts["editedArgs"] = decision.edited_arguments
        return [self.about("approval_decided", **facts)]

    def said(self, text: str) -> list[_Json]:
        return [self.about("tool_output", delta=text)] if text else []

    def result(self, result: Any, *, failed: bool) -> list[_Json]:
        if self.has_result:
            return []
        self.has_result = True
        return [*self.close(), self.answered(result, failed=failed)]

    def answered(self, result: Any, *, failed: bool) -> _Json:
        fields = {"messageId": f"{self.id}-result", "toolCallId": self.call_id}
        told = self.event("TOOL_CALL_RESULT", **fields, content=text_of(result))
        return {**told, **_note(failed=True)} if failed else told

    def restore(self, seen: ev.CallSnapshot) -> None:
        self.is_open = seen.verdict is None and seen.outcome is None
        self.raw = [seen.raw] if self.is_open else []
        self.length = len(seen.raw)
        self.request = seen.request
        self.is_decided = seen.decision is not None
        self.has_result = seen.outcome is not None or seen.is_lost

    def about(self, name: str, **facts: Any) -> _Json:
        return {**_custom(name, {"toolCallId": self.call_id, **facts}), **self.tag}

    def _says(self, text: str, arguments: dict[str, Any] | str) -> bool:
        if self.kind in FREE_TEXT_KINDS:
            return text == arguments
        try:
            return bool(msgspec.json.decode(text) == arguments)
        except msgspec.DecodeError:
            return False


class _Story:
    """What a client knows of a run."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.turns = 0
        self.length = 0
        """How much was written, in characters."""
        self.blocks: list[_Block] = []
        self._words: dict[tuple[int, str | None], _WordsBlock] = {}
        self._calls: dict[str, _CallBlock] = {}
        self._ids = CallIds()
        self._latest: dict[str | None, _Block] = {}  # of each agent

    @classmethod
    def of(cls, snapshot: ev.RunSnapshot) -> "_Story":
        """Continue from a snapshot, as if all events up to there had been taken."""
        story = cls(snapshot.run_id)
        for seen in snapshot.blocks:
            story.turns = seen.turn
            story._restore(seen)
        story._begin_turn(snapshot.turns)
        return story

    @property
    def pending(self) -> list[_CallBlock]:
        return [call for call in self._calls_told() if call.is_pending]

    def settles(self, event: ev.Event) -> bool:
        """Return True if this event ends the wait for a decision on a call."""
        if not isinstance(event, ev.ApprovalDecided | ev.ToolCallCompleted | ev.ToolCallFailed):
            return False
        call = self._call(event.call_id)
        return call is not None and call.is_pending

    # What holds between two streams

    def going_on(self) -> list[_Json]:
        """Return what opens a stream in the middle of the run."""
        told = self._step("STEP_STARTED")
        return told + [event for block in self._open() for event in block.start()]

    def resting(self) -> list[_Json]:
        """Return what closes a stream while the run is not over."""
        return self._ends() + self._step("STEP_FINISHED")

    def ending(self) -> list[_Json]:
        """Return what closes the last stream. Every call has a result then."""
        told = self._ends()
        for block in self._open():
            block.is_open = False
        for call in self._calls_told():
            told += call.result(_NO_RESULT, failed=True)
        return told + self._step("STEP_FINISHED")

    def _ends(self) -> list[_Json]:
        return [event for block in self._open() for event in block.end()]

    # What happens

    def take(self, event: ev.Event) -> list[_Json]:
        match event:
            case ev.TextDelta(text=piece, block=number, parent_id=parent_id):
                self.length += len(piece)
                return self._grow(number, parent_id, _TextBlock, piece)
            case ev.ThinkingDelta(text=piece, block=number, parent_id=parent_id):
                self.length += len(piece)
                return self._grow(number, parent_id, _ThinkingBlock, piece)
            case ev.ThinkingStarted(block=number, parent_id=parent_id):
                return self._begin_words(number, parent_id, _ThinkingBlock)
            case ev.ThinkingCompleted(text=text, block=number, parent_id=parent_id):
                return self._thought(number, parent_id, text)
            case ev.TurnStarted(turn=turn, attempt=attempt):
                return self._begin_turn(turn, is_again=attempt > 1, is_told=True)
            case ev.ToolCallStarted():
                return self._begin_call(event.call_id, event.name, event.kind, event.parent_id)
            case _ if isinstance(event, CallEvent):
                return self._take_of_call(event)
            case _:
                return []

    def _take_of_call(self, event: CallEvent) -> list[_Json]:
        if isinstance(event, ev.ToolArgsDelta):
            self.length += len(event.delta)
        call = self._call(event.call_id)
        return [] if call is None else _of_call(call, event)

    def _begin_turn(
        self, turn: int, *, is_again: bool = False, is_told: bool = False
    ) -> list[_Json]:
        told: list[_Json] = []
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

    def _lose(self, blocks: list[_Block]) -> list[_Json]:
        told: list[_Json] = []
        for block in blocks:
            if isinstance(block, _CallBlock):
                told += block.result(_LOST, failed=True)
            block.is_lost = True
        return [*told, _lost_messages(blocks)]

    def _step(self, kind: str) -> list[_Json]:
        return [{"type": kind, "stepName": f"turn {self.turns}"}] if self.turns else []

    # Blocks: those of an attempt that was lost may have had the same numbers and ids

    def _open(self) -> list[_Block]:
        return [block for block in self.blocks if block.is_open]

    def _next_id(self) -> str:
        return f"{self.run_id}-{len(self.blocks) + 1}"

    def _add(self, block: _Block) -> list[_Json]:
        told: list[_Json] = []
        before = self._latest.get(block.parent_id)
        if isinstance(before, _WordsBlock) and before.is_open:
            told += before.end()
            before.is_open = False
        self._latest[block.parent_id] = block
        self.blocks.append(block)
        return told + block.start()

    def _begin_words(
        self, number: int, parent_id: str | None, kind: type[_WordsBlock]
    ) -> list[_Json]:
        block = kind(self._next_id(), parent_id, self.turns)
        self._words[number, parent_id] = block
        return self._add(block)

    def _grow(
        self, number: int, parent_id: str | None, kind: type[_WordsBlock], piece: str
    ) -> list[_Json]:
        told: list[_Json] = []
        words = self._words.get((number, parent_id))
        if words is None or words.is_lost:
            told += self._begin_words(number, parent_id, kind)
        return told + self._words[number, parent_id].grow(piece)

    def _thought(self, number: int, parent_id: str | None, text: str) -> list[_Json]:
        told = self._grow(number, parent_id, _ThinkingBlock, "")
        block = self._words[number, parent_id]
        told += block.grow(text[block.length :])
        if block.is_open:
            told += block.end()
        block.is_open = False
        return told

    def _begin_call(
        self, call_id: str, name: str, kind: CallKind, parent_id: str | None
    ) -> list[_Json]:
        call = _CallBlock(
            self._next_id(),
            parent_id,
            self.turns,
            call_id=self._ids.begin(call_id),
            name=name,
            kind=kind,
        )
        self._calls[call_id] = call
        return self._add(call)

    def _call(self, call_id: str) -> _CallBlock | None:
        """Return the call; None if its start is unknown or it was lost."""
        call = self._calls.get(call_id)
        return None if call is None or call.is_lost else call

    def _calls_told(self) -> list[_CallBlock]:
        return [block for block in self.blocks if isinstance(block, _CallBlock)]

    def _restore(self, seen: ev.BlockSnapshot) -> None:
        self.length += len(seen.raw if isinstance(seen, ev.CallSnapshot) else seen.text)
        match seen:
            case ev.TextSnapshot(block=number, text=text, parent_id=parent_id):
                self._begin_words(number, parent_id, _TextBlock)
                self._words[number, parent_id].length = len(text)
            case ev.ThinkingSnapshot(block=number, text=text, parent_id=parent_id):
                self._begin_words(number, parent_id, _ThinkingBlock)
                self._words[number, parent_id].length = len(text)
                self._words[number, parent_id].is_open = not seen.is_over
            case ev.CallSnapshot():
                self._begin_call(seen.call_id, seen.name, seen.kind, seen.parent_id)
                self._calls[seen.call_id].restore(seen)
        block = self.blocks[-1]
        block.is_lost = seen.is_lost
        block.is_open = block.is_open and not seen.is_lost


def _frames(events: Iterable[_Json]) -> bytes:
    return b"".join(map(frame, events))


def _custom(name: str, value: dict[str, Any]) -> _Json:
    """Return an event that is not part of the protocol. Clients ignore unknown names."""
    return {"type": "CUSTOM", "name": f"{_OURS}.{name}", "value": value}


def _note(**facts: Any) -> dict[str, Any]:
    return {"metadata": {_OURS: facts}}


def _run_finished(thread_id: str, run_id: str, outcome: dict[str, Any], **more: Any) -> _Json:
    event = {"type": "RUN_FINISHED", "threadId": thread_id, "runId": run_id, "outcome": outcome}
    return {**event, **more}


def _run_error(code: str, message: str) -> _Json:
    """End a stream with an error. It may be the first event."""
    return {"type": "RUN_ERROR", "message": message, "code": code}


def _interrupt(
    request: ev.ApprovalRequested, call_id: str, tag: Mapping[str, str], version: Version
) -> dict[str, Any]:
    """Return the request for a decision. Its ID stands for exactly these arguments.

    How to answer is in the schema: what is edited begins as what the model wrote.
    """
    expires_at = request.expires_at and datetime.fromtimestamp(request.expires_at, UTC).isoformat()
    answer = {
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            "editedArgs": {"type": "object", "default": request.arguments},
            "reason": {"type": "string"},
        },
        "required": ["approved"],
        "additionalProperties": False,
    }
    told: dict[str, Any] = {
        "id": request.digest,
        "reason": "tool_call",
        "message": f"May {request.name} be run? {request.reason}".rstrip(),
        "toolCallId": call_id,
        "responseSchema": answer,
        **tag,
        **_note(
            toolName=request.name,
            arguments=request.arguments,
            rule=request.rule,
            expiresAt=expires_at,
        ),
    }
    if expires_at and version != "0.0.59":  # which could not even cancel what has expired
        told["expiresAt"] = expires_at
    return told


def _lost_messages(blocks: list[_Block]) -> _Json:
    """Return which messages belong to a turn that was cut off and began again."""
    return _custom("turn_lost", {"messageIds": [block.id for block in blocks]})


def _of_call(call: _CallBlock, event: CallEvent) -> list[_Json]:
    match event:
        case ev.ToolArgsDelta(name=name, delta=piece):
            return call.write(piece, name)
        case ev.ToolArgsCompleted(name=name, arguments=arguments):
            return [*call.rename(name), *call.complete(arguments)]
        case ev.ToolArgsInvalid(name=name, verdict=verdict, error=error):
            return [*call.rename(name), *call.invalid(verdict, error)]
        case ev.ApprovalRequested():
            return call.asked(event)
        case ev.ApprovalDecided():
            return call.decided(event)
        case ev.ToolOutputDelta(text=text):
            return call.said(text)
        case ev.ToolCallCompleted(result=result):
            return call.result(result, failed=False)
        case ev.ToolCallFailed(error=error):
            return call.result(error, failed=True)


def _messages_snapshot(snapshot: ev.RunSnapshot, story: _Story, known: bytes | None) -> list[_Json]:
    """Return all messages that a client should have.

    A client drops what is not among these. So what it had before the run is told back to it as it
    told us; one that has told nothing is shown what was said by the log. What is new to it, it puts
    last, but results where they belong: so these follow.
    """
    if known is not None and not story.blocks:
        return []  # it has them
    before = _said_before(snapshot) if known is None else _without_run(known, story.run_id)
    blocks = list(zip(snapshot.blocks, story.blocks, strict=True))
    run = [message for seen, block in blocks for message in _messages_of(seen, block)]
    told: list[_Json] = [{"type": "MESSAGES_SNAPSHOT", "messages": [*before, *run]}]
    for seen, block in blocks:
        if isinstance(seen, ev.CallSnapshot) and isinstance(block, _CallBlock):
            told += _results(seen, block, is_over=snapshot.end is not None)
    return told


def _besides_messages(snapshot: ev.RunSnapshot, story: _Story) -> Iterator[_Json]:
    lost = [block for block in story.blocks if block.is_lost]
    if lost:
        yield _lost_messages(lost)
    for seen, block in zip(snapshot.blocks, story.blocks, strict=True):
        if isinstance(seen, ev.CallSnapshot) and isinstance(block, _CallBlock) and not seen.is_lost:
            yield from _besides(seen, block)


def _besides(seen: ev.CallSnapshot, call: _CallBlock) -> Iterator[_Json]:
    if seen.verdict == "complete" and seen.arguments is not None:
        yield from call.restated(call.text_of_arguments(seen.raw), seen.arguments)
    if seen.error is not None and seen.verdict is not None:
        yield from call.invalid(seen.verdict, seen.error)
    if seen.request is not None:
        yield from call.asked(seen.request)
    if seen.decision is not None:
        yield from call.decided(seen.decision)
    yield from call.said(seen.output)


def _messages_of(seen: ev.BlockSnapshot, block: _Block) -> Iterator[_Json]:
    match seen:
        case ev.TextSnapshot(text=text):
            yield {"id": block.id, "role": "assistant", "content": text, **block.tag}
        case ev.ThinkingSnapshot(text=text):
            if text:
                yield {"id": block.id, "role": "reasoning", "content": text, **block.tag}
        case ev.CallSnapshot(raw=raw) if isinstance(block, _CallBlock):
            text = block.text_of_arguments(raw) if seen.verdict == "complete" else raw
            yield {**_calling(block.id, block.call_id, seen.name, text), **block.tag}


def _results(seen: ev.CallSnapshot, call: _CallBlock, *, is_over: bool) -> Iterator[_Json]:
    if seen.outcome is not None:
        yield call.answered(seen.result, failed=seen.outcome == "failed")
    elif seen.is_lost:
        yield call.answered(_LOST, failed=True)
    elif is_over:
        yield call.answered(_NO_RESULT, failed=True)


def _calling(message_id: str, call_id: str, name: str, arguments: str) -> _Json:
    function = {"name": name, "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return {"id": message_id, "role": "assistant", "toolCalls": [call]}


def _without_run(known: bytes, run_id: str) -> Iterator[_Json]:
    start = f"{run_id}-"
    messages = _known_messages.decode(known)
    return (message for message in messages if not str(message.get("id")).startswith(start))


def _said_before(snapshot: ev.RunSnapshot) -> Iterator[_Json]:
    start = f"{snapshot.run_id}-before"
    for number, message in enumerate(snapshot.history, 1):
        for place, part in enumerate(message.parts, 1):
            yield from _of_part(f"{start}-{number}-{place}", message, part)
    yield {"id": f"{snapshot.run_id}-prompt", "role": "user", "content": snapshot.prompt}


def _of_part(message_id: str, message: Message, part: Part) -> Iterator[_Json]:
    match part:
        case TextPart(text=text):
            yield {"id": message_id, "role": message.role, "content": text}
        case ThinkingPart(text=text):
            if text:
                yield {"id": message_id, "role": "reasoning", "content": text}
        case CallPart(call_id=call_id, name=name, raw=raw):
            yield _calling(message_id, call_id, name, raw or "{}")
        case ResultPart(call_id=call_id, result=result, failed=failed):
            answer = {
                "id": message_id,
                "role": "tool",
                "toolCallId": call_id,
                "content": text_of(result),
            }
            yield {**answer, **_note(failed=True)} if failed else answer
        case _:
            pass  # only its provider understands it
