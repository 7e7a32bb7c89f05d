"""The UI message stream of the AI SDK (npm ``ai`` 6 and 7): out, and what its clients send in."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from argstream import events as ev
from argstream.errors import UsageError
from argstream.history import (
    CallKind,
    CallPart,
    Message,
    ResultPart,
    TextPart,
    ThinkingPart,
    said_by_user,
)
from argstream.jsonstream import PENDING, Parser
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
from argstream.providers import stop_kind
from argstream.providers._deltas import FREE_TEXT_KINDS, RUN_BY_PROVIDER
from argstream.runs._records import Record
from argstream.runs._run import events_of

__all__ = [
    "HEADERS",
    "AiSdkEncoder",
    "Answer",
    "Answered",
    "ChatBody",
    "ChatHistory",
    "Said",
    "history_before",
    "meant",
]

_Part: TypeAlias = dict[str, Any]

_FINISH_REASONS: Final[dict[ev.StopKind, str]] = {
    "end_turn": "stop",
    "tool_calls": "tool-calls",
    "length": "length",
    "content_filter": "content-filter",
}

_TAIL: Final = 4_000
"""How much is shown of what a tool says while it runs: each time all of it is sent."""

_LOST: Final = "it was cut off, and its turn began again"
_OVER: Final = "the run ended before it did"
_GOES_ON: Final = "(it goes on; what comes of it is told later)"

_Key = tuple[int, str | None]
"""Which block it is: its number, and the call whose sub-agent said it."""

HEADERS: Final = {"x-vercel-ai-ui-message-stream": "v1"}
"""What a client may look for in the answer, beside what all streams have."""

_CHARACTERS_PER_SECOND: Final = 750_000
"""A client reads the whole input again with each piece, about 75 million characters a second: so it
spends a hundredth of its time on that."""

_NOTHING_SAID: Final = Message(role="assistant", parts=())
_LAST: Final = ("finish", "abort", "error")
_DONE: Final = b"data: [DONE]\n\n"

_ANSWERS: Final = {"approved": True, "edited": True, "denied": False, "expired": False}
_PASSING: Final = ("output", "errorText", "rawInput", "inputEncoding", "preliminary", "approval")
"""What a call has in one state only."""


class AiSdkEncoder:
    """Writes a run for ``useChat`` and its like."""

    can_catch_up: Final = False

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._writer = _MessageWriter(run_id)

    @property
    def interval(self) -> float:
        """How long to collect, in seconds: longer while a long input is written."""
        return interval_for(self._writer.calls.longest_input, _CHARACTERS_PER_SECOND)

    def begin(self, snapshot: Record) -> None:
        """Continue from where the run stands."""
        self._writer = _MessageWriter(self._run_id)
        for event in _events(snapshot_in(snapshot)):
            self._writer.take(event)
        self._writer.rest()

    def take(self, records: Sequence[Record]) -> Written:
        """Write what has happened."""
        return _written(self._writer, (record.event for record in records))

    def replay(self, snapshot: Record) -> Written:
        """Write all so far: the client begins the message anew with it."""
        return _written(_MessageWriter(self._run_id), _events(snapshot_in(snapshot)), self._writer)

    def close_reason(self, why: CloseReason) -> bytes:
        """Write that the run goes on: a stream without an end would count as complete."""
        message = f"{PARTING_WORDS[why]}; resume the stream"
        return frame({"type": "error", "errorText": message}) + _DONE


class ChatApproval(Struct, frozen=True):
    """What a client knows of an approval."""

    id: str
    approved: bool | None = None
    reason: Reason | None = None


class ChatPart(Struct, frozen=True):
    """A part of a message, as far as it matters here."""

    type: str
    text: str = ""
    state: str | None = None
    approval: ChatApproval | None = None


class ChatMessage(Struct, frozen=True):
    """A message, as a client has it."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[ChatPart, ...] = ()
    id: str = ""

    @property
    def text(self) -> str:
        """What is said in it."""
        return "".join(part.text for part in self.parts if part.type == "text")


class ChatBody(Struct, frozen=True, rename="camel"):
    """What ``DefaultChatTransport`` commands, in 6 and 7; and what a front end may add to it."""

    id: ChosenId
    messages: tuple[ChatMessage, ...] = ()
    message: ChatMessage | None = None
    """In place of all messages, only the last: many front ends send no more."""
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = None
    edits: Mapping[str, dict[str, Any]] = {}
    """By the ids of approvals: what to run instead of what the model wrote."""


class Said(Struct, frozen=True):
    """The user says something."""

    prompt: str
    is_again: bool = False
    """Whether it takes the place of what was said then: it is asked again, or was changed."""
    before: tuple[str, ...] | None = None
    """What he had said before that, as far as the client tells."""


class Answer(Struct, frozen=True):
    """What a person says to one request."""

    approved: bool
    reason: str = ""
    edit: dict[str, Any] | None = None


class Answered(Struct, frozen=True):
    """A person has answered requests, each named by its digest."""

    answers: Mapping[str, Answer]
    unanswered: frozenset[str] = frozenset()
    """Those that the client still asks about."""


def meant(body: ChatBody) -> Said | Answered:
    """Return what a client wants. Raise ``UsageError`` if it wants nothing, or the impossible."""
    last = body.message or (body.messages[-1] if body.messages else None)
    if last is None:
        raise UsageError("there is no message: send messages, or the last one as message")
    if last.role == "assistant":
        return _answered(last, body.edits)
    if last.role != "user":
        raise UsageError(f"the last message is of the role {last.role}: it must be the user's")
    if any(part.type == "file" for part in last.parts):
        raise UsageError("files cannot be read here: send what is in them as text")
    is_changed = body.message_id is not None and body.message_id == last.id
    before = None
    if body.message is None:
        earlier = body.messages[:-1]
        before = tuple(message.text for message in earlier if message.role == "user")
    return Said(last.text, is_changed or body.trigger == "regenerate-message", before)


def _answered(message: ChatMessage, edits: Mapping[str, dict[str, Any]]) -> Answered:
    answers: dict[str, Answer] = {}
    unanswered: set[str] = set()
    for part in message.parts:
        approval = part.approval
        if approval is None:
            continue
        if part.state == "approval-requested":
            unanswered.add(approval.id)
        elif part.state == "approval-responded" and approval.approved is not None:
            edit = edits.get(approval.id)
            answers[approval.id] = Answer(approval.approved, approval.reason or "", edit)
    if not answers:
        raise UsageError("nothing new is in these messages: no message, and no answer to a request")
    unknown = edits.keys() - answers.keys()
    if unknown:
        raise UsageError(f"there are edits for what was not approved: {', '.join(sorted(unknown))}")
    return Answered(answers, frozenset(unanswered))


def history_before(messages: Sequence[Message], said: Said) -> tuple[Message, ...]:
    """Return the messages before a repeated one, as the store has them.

    Raises ``UsageError`` if the client tells of other things than the store has.
    """
    places = [place for place, message in enumerate(messages) if said_by_user(message)]
    texts = [said_by_user(messages[place]) for place in places]
    if said.before is None:
        count = max(len(places) - 1, 0)
    elif texts[: len(said.before)] == list(said.before):
        count = len(said.before)
    else:
        raise UsageError(
            "what was said before is not what the store has of this conversation, so nothing can "
            "be said again in it: send a new message"
        )
    return tuple(messages if count >= len(places) else messages[: places[count]])


class ChatHistory:
    """Collects the runs of a conversation, the newest first, and returns their messages."""

    def __init__(self) -> None:
        self._told: list[list[_Part]] = []  # the messages of each run, the newest first
        self._before: tuple[Message, ...] | None = None  # None while no run has told

    @property
    def is_whole(self) -> bool:
        """Whether nothing was said before the runs that were taken."""
        return self._before == ()

    def add(self, run: ev.RunSnapshot) -> None:
        """Add the next older run. A run that another one has replaced is ignored."""
        if self._before is not None and not _is_part(run, self._before):
            return
        self._told.append([*_messages_of(run)])
        # A run that is only observed tells of no turns, nor of what was said before it.
        self._before = run.history if run.turns else None

    def messages(self) -> list[_Part]:
        """Return all messages, oldest first."""
        earlier = [*_earlier_messages(self._before or ())]
        return [*earlier, *(message for told in reversed(self._told) for message in told)]


class _Words:
    __slots__ = ("id", "kind", "length")

    def __init__(self, kind: str, id: str) -> None:
        self.kind = kind
        self.id = id
        self.length = 0

    def grow(self, text: str) -> _Part:
        self.length += len(text)
        return {"type": f"{self.kind}-delta", "id": self.id, "delta": text}

    def end(self) -> _Part:
        return {"type": f"{self.kind}-end", "id": self.id}


class _Call:
    """A call that is not over."""

    def __init__(self, part_id: str, name: str, kind: CallKind, parent: str | None) -> None:
        self.part_id = part_id
        self.name = name
        self.is_writing = True
        self.length = 0
        self.input: dict[str, Any] | str = {}  # as it was shown
        self.output = ""  # the end of what the tool has said
        self.request: ev.ApprovalRequested | None = None  # until it is decided
        self.was_asked = False  # when the last stream ended
        self._kind = kind
        self._parent = parent
        self._text: list[str] = []  # as it was written

    @property
    def is_asked(self) -> bool:
        return self.request is not None

    def again(self) -> Iterator[_Part]:
        if self.is_writing:
            yield self.beginning()
            if text := "".join(self._text):
                yield self._delta(text)
        else:
            yield _call_input(self.part_id, self.name, self.input)
            yield from self.saying()
        if self.request is not None:
            yield _approval_request(self.part_id, self.request)

    def beginning(self) -> _Part:
        return _begun_call(self.part_id, self.name, self._kind, self._parent)

    def write(self, name: str, delta: str) -> Iterator[_Part]:
        if not self.is_writing:
            return
        if name != self.name:  # the client begins anew as well
            self.name = name
            yield self.beginning()
            delta, self._text, self.length = "".join([*self._text, delta]), [], 0
        self._text.append(delta)
        self.length += len(delta)
        yield self._delta(delta)

    def _delta(self, text: str) -> _Part:
        return {"type": "tool-input-delta", "toolCallId": self.part_id, "inputTextDelta": text}

    def show(self, name: str, arguments: dict[str, Any] | str) -> _Part:
        self.name, self.input, self.is_writing = name, arguments, False
        self._text.clear()
        return _call_input(self.part_id, name, arguments)

    def saying(self) -> Iterator[_Part]:
        """Return the output so far. While the input is written, a client could not show both."""
        if self.output and not self.is_writing:
            yield _call_output(self.part_id, self.output) | {"preliminary": True}

    def decision(self, event: ev.ApprovalDecided) -> _Part:
        about: _Part = {"toolCallId": self.part_id, "decision": event.decision}
        about["reason"] = event.reason
        if event.edited_arguments is not None:
            about["input"] = _harmless(event.edited_arguments)
        return {"type": "data-argstream-decision", "id": self.part_id, "data": about}

    def ended(
        self, event: ev.ToolArgsInvalid | ev.ToolCallCompleted | ev.ToolCallFailed
    ) -> Iterator[_Part]:
        match event:
            case ev.ToolArgsInvalid(name=name, verdict=verdict, raw=raw, error=error):
                text = "".join(self._text) or raw
                yield _call_invalid(self.part_id, name, text, f"{verdict}: {error.message}")
            case ev.ToolCallCompleted(name=name, arguments=arguments, result=result):
                if self.is_writing or self.input != arguments:
                    yield self.show(name, arguments)
                yield _call_output(self.part_id, result)
            case ev.ToolCallFailed(error=error):
                yield _call_error(self.part_id, error)


class _CallWriter:
    """Writes the parts of calls, from their beginning to their end."""

    def __init__(self) -> None:
        self._open: dict[str, _Call] = {}
        self._ids = CallIds()

    @property
    def longest_input(self) -> int:
        """The length of the longest input that is being written."""
        return max((call.length for call in self._open.values() if call.is_writing), default=0)

    def part_id(self, call_id: str) -> str:
        return self._ids.of(call_id)

    # Streams that end while calls are open

    def asks_anew(self) -> bool:
        """Return True if a request is pending that was not when the last stream ended."""
        return any(call.is_asked and not call.was_asked for call in self._open.values())

    def put_off(self, what: str) -> Iterator[_Part]:
        """Return placeholders for the results of calls that are not pending."""
        for call in self._open.values():
            call.was_asked = call.is_asked
            if not call.is_asked:
                yield _call_output(call.part_id, what)

    def told_again(self) -> Iterator[_Part]:
        """Repeat the calls whose beginning the client may not have seen."""
        for call in self._open.values():
            if not call.was_asked:
                yield from call.again()

    # What happens

    def begin(self, event: ev.ToolCallStarted, lost: str) -> Iterator[_Part]:
        """Begin a call. An open call with the same ID ends with ``lost`` as its error."""
        if (before := self._open.pop(event.call_id, None)) is not None:
            yield _call_error(before.part_id, lost)
        part_id = self._ids.begin(event.call_id)
        parent = None if event.parent_id is None else self.part_id(event.parent_id)
        call = _Call(part_id, event.name, event.kind, parent)
        self._open[event.call_id] = call
        yield call.beginning()

    def take(self, event: CallEvent) -> Iterator[_Part]:
        call = self._open.get(event.call_id)
        if call is None:
            return
        match event:
            case ev.ToolArgsDelta(name=name, delta=delta):
                yield from call.write(name, delta)
            case ev.ToolArgsCompleted(name=name, arguments=arguments):
                yield call.show(name, arguments)
                yield from call.saying()
            case ev.ToolOutputDelta(text=text):
                call.output = (call.output + text)[-_TAIL:]
                yield from call.saying()
            case ev.ApprovalRequested():
                if call.is_writing or call.input != event.arguments:
                    yield call.show(event.name, event.arguments)
                call.request = event
                yield _approval_request(call.part_id, event)
            case ev.ApprovalDecided():
                yield from self._decided(event, call)
            case ev.ToolArgsInvalid() | ev.ToolCallCompleted() | ev.ToolCallFailed():
                del self._open[event.call_id]
                yield from call.ended(event)

    def end_all(self, why: str) -> Iterator[_Part]:
        for call in self._open.values():
            yield _call_error(call.part_id, why)
        self._open.clear()

    def _decided(self, event: ev.ApprovalDecided, call: "_Call") -> Iterator[_Part]:
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
                yield _call_error(call.part_id, event.reason or "it was called off")


class _MessageWriter:
    """Writes the parts of a run."""

    def __init__(self, run_id: str) -> None:
        self.is_open = False
        """Whether a stream has begun and not ended."""
        self.step_is_open = False
        self._run_id = run_id
        self.words: dict[_Key, _Words] = {}  # what is open
        self.calls = _CallWriter()
        self._turn = 0
        self._is_waiting = False  # though the run has not paused
        self._has_step = False
        self._has_blocks = False  # whether this attempt of the turn has
        self._usage = ev.Usage()
        self._stop_reason: str | None = None

    def take(self, event: ev.Event) -> list[_Part]:
        reopened = [*self._reopened(event)] if self._is_waiting else []
        parts = [*self._told(event)]
        if self._is_waiting:
            return []
        if parts and not self.is_open:
            parts = [*self._start(), *parts]
        if isinstance(event, ev.RunPaused | ev.RunEnd):
            self.is_open = False
        return [*reopened, *parts]

    def joining(self, others: "_MessageWriter") -> list[_Part]:
        """End what is over for those whose stream goes on from here, so that it can be shared.

        When a stream ended before, theirs or another's, what was said until then was over for them.
        A viewer that comes later does not see where that was.
        """
        if not self.is_open:
            return []
        over = [words.end() for key, words in self.words.items() if key not in others.words]
        if self.step_is_open and not others.step_is_open:
            over.append({"type": "finish-step"})
        return over

    # Runs that do not pause: those that are only observed, which tell of no turns

    def rest(self) -> list[_Part]:
        """End the stream if nothing more is to be waited for: a client answers only after that.

        A client answers when each call of the step has an answer or a result. So those that go on
        meanwhile are given one, in whose place the true one will come.
        """
        if self._turn or not (self.is_open and self.calls.asks_anew()):
            return []
        parts = [*self.calls.put_off(_GOES_ON), *self._end_step(), self._finish("tool-calls")]
        self.is_open, self._is_waiting = False, True
        return parts

    def _reopened(self, event: ev.Event) -> Iterator[_Part]:
        """Begin a stream again after a decision, with what is still open."""
        if isinstance(event, ev.ApprovalDecided | ev.RunEnd):
            self._is_waiting = False
            self.words.clear()
            yield from self._start()
            yield from self.calls.told_again()

    def _start(self) -> Iterator[_Part]:
        self.is_open = True
        yield {
            "type": "start",
            "messageId": self._run_id,
            "messageMetadata": {"runId": self._run_id},
        }

    def _told(self, event: ev.Event) -> Iterator[_Part]:
        match event:
            case ev.TextDelta(text=text, block=block, parent_id=parent_id):
                yield from self._grow("text", text, (block, parent_id))
            case ev.ThinkingStarted(block=block, parent_id=parent_id):
                yield from self._begin_words("reasoning", (block, parent_id))
            case ev.ThinkingDelta(text=text, block=block, parent_id=parent_id):
                yield from self._grow("reasoning", text, (block, parent_id))
            case ev.ThinkingCompleted(text=text, block=block, parent_id=parent_id):
                yield from self._end_thinking(text, (block, parent_id))
            case ev.ToolCallStarted():
                yield from self._begin_block()
                yield from self.calls.begin(event, _LOST)
            case ev.TurnStarted(turn=turn):
                yield from self._begin_turn(turn)
            case ev.TurnCompleted():
                self._note(event)
            case _ if isinstance(event, CallEvent):
                yield from self.calls.take(event)
            case _:
                yield from self._told_of_run(event)

    def _told_of_run(self, event: ev.Event) -> Iterator[_Part]:
        match event:
            case ev.RunStarted() | ev.RunResumed() if not (self.is_open or self._is_waiting):
                yield from self._start()
            case ev.RunPaused():
                yield from self._end_step()
                yield self._finish("tool-calls")
            case ev.RunCompleted(stop_reason=stop_reason, usage=usage):
                self._stop_reason = stop_reason or self._stop_reason
                self._usage = self._usage if usage == ev.Usage() else usage
                yield from self._end_message()
                yield self._finish(_finish_reason(self._stop_reason))
            case ev.RunFailed(code=code, message=message):
                yield from self._end_message()
                yield {"type": "error", "errorText": f"{message} ({code})"}
            case ev.RunStopped(reason=reason):
                yield from self._end_message()
                yield {"type": "abort", "reason": reason or "the run was stopped"}
            case _:
                pass  # nothing that a client could show

    # Steps

    def _begin_turn(self, turn: int) -> Iterator[_Part]:
        if turn != self._turn:
            yield from self._end_step()
            yield from self._begin_step()
            self._turn = turn
        elif self._has_blocks:
            yield from self._end_words()
            yield from self.calls.end_all(_LOST)
            yield {"type": "data-argstream-lost", "data": {"turn": turn}}
        self._has_blocks = False

    def _begin_step(self) -> Iterator[_Part]:
        self._has_step = self.step_is_open = True
        yield {"type": "start-step"}

    def _end_step(self) -> Iterator[_Part]:
        yield from self._end_words()
        if self.step_is_open:
            self.step_is_open = False
            yield {"type": "finish-step"}

    def _begin_block(self) -> Iterator[_Part]:
        if not self._has_step:
            yield from self._begin_step()
        self._has_blocks = True

    # Words

    def _begin_words(self, kind: str, key: "_Key") -> Iterator[_Part]:
        block, parent_id = key
        if (before := self.words.pop(key, None)) is not None:
            yield before.end()
        yield from self._begin_block()
        parent = None if parent_id is None else self.calls.part_id(parent_id)
        words = self.words[key] = _Words(
            kind, f"{block}" if parent is None else f"{parent}/{block}"
        )
        yield {"type": f"{kind}-start", "id": words.id} | _of_parent(parent)

    def _grow(self, kind: str, text: str, key: "_Key") -> Iterator[_Part]:
        if key not in self.words:
            yield from self._begin_words(kind, key)
        if text:
            yield self.words[key].grow(text)

    def _end_thinking(self, text: str, key: "_Key") -> Iterator[_Part]:
        if key not in self.words:
            yield from self._begin_words("reasoning", key)
        words = self.words.pop(key)
        if len(text) > words.length:
            yield words.grow(text[words.length :])
        yield words.end()

    def _end_words(self) -> Iterator[_Part]:
        for words in self.words.values():
            yield words.end()
        self.words.clear()

    # The end

    def _note(self, turn: ev.TurnCompleted) -> None:
        self._usage += turn.usage
        if turn.parent_id is None:
            self._stop_reason = turn.stop_reason

    def _end_message(self) -> Iterator[_Part]:
        yield from self.calls.end_all(_OVER)
        yield from self._end_step()

    def _finish(self, reason: str) -> _Part:
        about = {"usage": usage_counts(self._usage), "stopReason": self._stop_reason}
        return {"type": "finish", "finishReason": reason, "messageMetadata": about}


def _written(
    writer: _MessageWriter, events: Iterable[ev.Event], others: _MessageWriter | None = None
) -> Written:
    """Write events. ``others`` is the writer that the client continues with."""
    parts: list[_Part] = []
    for event in events:
        parts += writer.take(event)
    parts += writer.rest()
    if others is not None:
        parts += writer.joining(others)
    data = bytearray()
    for part in parts:
        data += frame(part)
        if part["type"] in _LAST:
            data += _DONE
    return Written(bytes(data), ends=bool(data) and not writer.is_open)


def _events(run: ev.RunSnapshot) -> Iterator[ev.Event]:
    yield ev.TurnCompleted(run.stop_reason, _NOTHING_SAID, run.usage)  # what it cost is told last
    yield from events_of(run, with_text=False)


def _finish_reason(stop_reason: str | None) -> str:
    """Return the finish reason that clients know. They end a stream at any other.

    >>> _finish_reason("end_turn"), _finish_reason("MAX_TOKENS"), _finish_reason("something new")
    ('stop', 'length', 'other')
    """
    return _FINISH_REASONS.get(stop_kind(stop_reason or "stop"), "other")


def _of_parent(parent: str | None) -> _Part:
    if parent is None:
        return {}
    return {"providerMetadata": {"argstream": {"parentToolCallId": parent}}}


def _begun_call(part_id: str, name: str, kind: CallKind, parent: str | None) -> _Part:
    part: _Part = {"type": "tool-input-start", "toolCallId": part_id, "toolName": name}
    part["dynamic"] = True
    if kind in FREE_TEXT_KINDS:
        part["inputEncoding"] = "text"
    if kind in RUN_BY_PROVIDER:
        part["providerExecuted"] = True
    return part | _of_parent(parent)


def _call_input(part_id: str, name: str, arguments: object) -> _Part:
    return {
        "type": "tool-input-available",
        "toolCallId": part_id,
        "toolName": name,
        "input": _harmless(arguments),
        "dynamic": True,
    }


def _call_invalid(part_id: str, name: str, text: str, why: str) -> _Part:
    return {
        "type": "tool-input-error",
        "toolCallId": part_id,
        "toolName": name,
        "input": text,
        "errorText": why,
        "dynamic": True,
    }


def _approval_request(part_id: str, request: ev.ApprovalRequested) -> _Part:
    """Return the request. Version 6 drops the reason; both versions keep the descriptor."""
    return {
        "type": "tool-approval-request",
        "toolCallId": part_id,
        "approvalId": request.digest,
        "reason": request.reason,
        "approvalDescriptor": {
            "reason": request.reason,
            "rule": request.rule,
            "expiresAt": request.expires_at,
        },
    }


def _call_output(part_id: str, output: object) -> _Part:
    return {"type": "tool-output-available", "toolCallId": part_id, "output": _harmless(output)}


def _call_error(part_id: str, error: object) -> _Part:
    return {"type": "tool-output-error", "toolCallId": part_id, "errorText": text_of(error)}


def _harmless(value: object) -> object:
    """Return a value in a form that clients accept.

    The clients refuse objects with certain keys, and end the stream with an error. A value in which
    there is such a key is given as its text.
    """
    text = msgspec.json.encode(value)
    if (b'"__proto__"' in text or b'"constructor"' in text) and _is_refused(value):
        return text.decode()
    return msgspec.Raw(text)


def _is_refused(value: object) -> bool:
    open_values = [value]
    while open_values:
        one = open_values.pop()
        if isinstance(one, dict):
            made_by = one.get("constructor")
            if "__proto__" in one or (isinstance(made_by, dict) and "prototype" in made_by):
                return True
            open_values += one.values()
        elif isinstance(one, list | tuple):
            open_values += one
    return False


def _folded(message_id: str, parts: Iterable[_Part]) -> _Part:
    """Return a message of the assistant as it is after these parts."""
    folding = _Folding()
    for part in parts:
        folding.take(part)
    return {
        "id": message_id,
        "role": "assistant",
        "metadata": folding.metadata,
        "parts": [part | _input_so_far(part) for part in folding.parts],
    }


class _Folding:
    def __init__(self) -> None:
        self.metadata: _Part = {}
        self.parts: list[_Part] = []
        self._words: dict[tuple[str, str], _Part] = {}  # the last of each kind and id
        self._calls: dict[str, _Part] = {}
        self._approvals: dict[str, _Part] = {}  # by the ids of their calls
        self._takers: Mapping[str, Callable[[_Part], None]] = {
            "start": self._take_metadata,
            "finish": self._take_metadata,
            "start-step": lambda _: self.parts.append({"type": "step-start"}),
            "text-start": partial(self._begin_words, "text"),
            "text-delta": partial(self._grow_words, "text"),
            "text-end": partial(self._end_words, "text"),
            "reasoning-start": partial(self._begin_words, "reasoning"),
            "reasoning-delta": partial(self._grow_words, "reasoning"),
            "reasoning-end": partial(self._end_words, "reasoning"),
            "tool-input-start": self._begin_call,
            "tool-input-delta": self._grow_call,
            "tool-input-available": lambda part: self._show(part, "input-available"),
            "tool-input-error": lambda part: self._show(part, "output-error"),
            "tool-approval-request": self._ask,
            "tool-output-available": lambda part: self._end_call(part, "output-available"),
            "tool-output-error": lambda part: self._end_call(part, "output-error"),
            "tool-output-denied": lambda part: self._end_call(part, "output-denied"),
            "data-argstream-decision": self._decide,
            "data-argstream-lost": self.parts.append,
        }

    def take(self, part: _Part) -> None:
        """Add a part. A message keeps nothing of ``finish-step``, ``abort`` and ``error``."""
        if (take := self._takers.get(part["type"])) is not None:
            take(part)

    def _take_metadata(self, part: _Part) -> None:
        self.metadata |= part["messageMetadata"]

    # Words

    def _begin_words(self, kind: str, part: _Part) -> None:
        words = {"type": kind, "text": "", "state": "streaming"} | _chosen(part, "providerMetadata")
        if kind == "reasoning":
            words["id"] = part["id"]
        self._words[kind, part["id"]] = words
        self.parts.append(words)

    def _grow_words(self, kind: str, part: _Part) -> None:
        self._words[kind, part["id"]]["text"] += part["delta"]

    def _end_words(self, kind: str, part: _Part) -> None:
        self._words[kind, part["id"]]["state"] = "done"

    # Calls

    def _begin_call(self, part: _Part) -> None:
        call_id = part["toolCallId"]
        if call_id not in self._calls:
            self._calls[call_id] = {"type": "dynamic-tool", "toolCallId": call_id}
            self.parts.append(self._calls[call_id])
        call = self._become(part, "input-streaming")
        call.pop("input", None)
        call |= _chosen(part, "toolName", "providerExecuted", "inputEncoding")
        if "providerMetadata" in part:
            call["callProviderMetadata"] = part["providerMetadata"]

    def _grow_call(self, part: _Part) -> None:
        call = self._calls[part["toolCallId"]]
        call["rawInput"] = call.get("rawInput", "") + part["inputTextDelta"]

    def _show(self, part: _Part, state: str) -> None:
        if part["toolCallId"] not in self._calls:
            self._begin_call(part)
        call = self._become(part, state)
        call |= _chosen(part, "toolName", "input", "errorText")

    def _ask(self, part: _Part) -> None:
        approval = {
            "id": part["approvalId"],
            "descriptor": part["approvalDescriptor"],
            "requestReason": part["reason"],
        }
        self._approvals[part["toolCallId"]] = approval
        self._become(part, "approval-requested")["approval"] = approval

    def _decide(self, part: _Part) -> None:
        self.parts.append(part)
        call_id, decision = part["data"]["toolCallId"], part["data"]["decision"]
        if decision in _ANSWERS:
            answer = {"approved": _ANSWERS[decision], "reason": part["data"]["reason"]}
            self._approvals[call_id] = self._approvals.get(call_id, {}) | answer

    def _end_call(self, part: _Part, state: str) -> None:
        call = self._become(part, state)
        call |= _chosen(part, "output", "errorText", "preliminary")
        approval = self._approvals.get(part["toolCallId"], {})
        if "approved" in approval:
            call["approval"] = approval

    def _become(self, part: _Part, state: str) -> _Part:
        call = self._calls[part["toolCallId"]]
        call |= _input_so_far(call)
        for name in _PASSING:
            call.pop(name, None)
        call["state"] = state
        return call


def _chosen(part: _Part, *names: str) -> _Part:
    return {name: part[name] for name in names if name in part}


def _input_so_far(part: _Part) -> _Part:
    text: str | None = part.get("rawInput")
    if text is None:
        return {}
    if part.get("inputEncoding") == "text":
        return {"input": text}
    parser = Parser()
    parser.feed(text)
    return {} if parser.value is PENDING else {"input": _harmless(parser.value)}


def _is_part(run: ev.RunSnapshot, history: Sequence[Message]) -> bool:
    """Return True if this run produced the part of the history at its place."""
    place = len(run.history)
    return (
        place < len(history)
        and said_by_user(history[place]) == run.prompt
        and tuple(history[:place]) == run.history
    )


def _messages_of(run: ev.RunSnapshot) -> Iterator[_Part]:
    yield _user_message(f"{run.run_id}-prompt", run.prompt)
    answer = _answer(run.run_id, _events(run))
    if answer["parts"]:
        yield answer


def _user_message(message_id: str, text: str) -> _Part:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def _answer(message_id: str, events: Iterable[ev.Event]) -> _Part:
    writer = _MessageWriter(message_id)
    parts = [part for event in events for part in writer.take(event)]
    return _folded(message_id, [*parts, *writer.rest()])


def _earlier_messages(history: Sequence[Message]) -> Iterator[_Part]:
    """Return the messages of runs that are gone. Their IDs are their places."""
    answers: list[Message] = []
    for place, message in enumerate(history):
        if said := said_by_user(message):
            yield from _earlier_answer(place, answers)
            yield _user_message(f"message-{place}", said)
            answers = []
        else:
            answers.append(message)
    yield from _earlier_answer(len(history), answers)


def _earlier_answer(end: int, messages: Sequence[Message]) -> Iterator[_Part]:
    if messages:
        answer = _answer(f"message-{end - len(messages)}", _events_of_messages(messages))
        del answer["metadata"]  # it is not known which run it was, nor what it cost
        yield answer


def _events_of_messages(messages: Sequence[Message]) -> Iterator[ev.Event]:
    parts = [part for message in messages for part in message.parts]
    results = {part.call_id: part for part in parts if isinstance(part, ResultPart)}
    turns = [message for message in messages if message.role == "assistant"]
    for turn, message in enumerate(turns, 1):
        yield ev.TurnStarted(turn)
        for block, part in enumerate(message.parts):
            match part:
                case TextPart(text=text) if text:
                    yield ev.TextDelta(text, block)
                case ThinkingPart(text=text) if text:
                    yield ev.ThinkingCompleted(text, block)
                case CallPart():
                    yield from _events_of_call(part, results.get(part.call_id))
                case _:
                    pass  # nothing to show, or told with its call
    yield ev.RunCompleted(None)


def _events_of_call(call: CallPart, answer: ResultPart | None) -> Iterator[ev.Event]:
    call_id, name, arguments = call.call_id, call.name, call.arguments
    yield ev.ToolCallStarted(call_id, 0, name, call.kind)
    if call.verdict != "complete":
        why = "" if answer is None else text_of(answer.result)
        error = ev.ArgumentsError(call.verdict, why)
        yield ev.ToolArgsInvalid(call_id, name, call.verdict, call.raw, error)
        return
    yield ev.ToolArgsCompleted(call_id, name, arguments)
    if answer is not None and answer.failed:
        yield ev.ToolCallFailed(call_id, name, answer.result)
    elif answer is not None:
        yield ev.ToolCallCompleted(call_id, name, arguments, answer.result)
