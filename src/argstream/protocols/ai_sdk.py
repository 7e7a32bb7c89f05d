"""The UI message stream of the AI SDK (npm ``ai`` 6 and 7), and the requests of its clients.

``encode`` writes the events of ``stream()`` or of a run. ``AiSdkEncoder`` does the same for a
server, where many clients watch one run. A stream ends where the run pauses, because a client
answers requests only then. The next stream continues the same message.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

import msgspec
from msgspec import Struct

from argstream import events as ev
from argstream.errors import UsageError
from argstream.history import CallPart, Message, ResultPart, TextPart, ThinkingPart, said_by_user
from argstream.jsonstream import PENDING, Parser
from argstream.protocols._base import (
    CLOSE_MESSAGES,
    ChangeEncoder,
    ChosenId,
    CloseReason,
    Encoded,
    Events,
    Json,
    Reason,
    Written,
    encode_with,
    interval_for,
    sync_or_async,
    text_of,
    usage_counts,
)
from argstream.providers import stop_kind
from argstream.providers._deltas import RUN_BY_PROVIDER
from argstream.runs._records import Approval, Approve, Deny
from argstream.runs._state import Block, Call, Change, TextBlock
from argstream.sanitise import encode_json

__all__ = [
    "HEADERS",
    "AiSdkEncoder",
    "Answered",
    "ChatBody",
    "ChatHistory",
    "Said",
    "encode",
    "history_before",
    "meant",
]

HEADERS: Final = {"x-vercel-ai-ui-message-stream": "v1"}
"""The header of the protocol. A response also needs the media type ``text/event-stream``."""

_FINISH_REASONS: Final[dict[ev.StopKind, str]] = {
    "end_turn": "stop",
    "tool_calls": "tool-calls",
    "length": "length",
    "content_filter": "content-filter",
}
_TAIL: Final = 4_000
"""How many characters of a running tool's output are shown. Each update repeats all of them."""

_LOST: Final = "the turn was cut off and started again"
_OVER: Final = "the run ended before the call did"
_UNFINISHED: Final = "(still running; the result follows later)"
_CHARACTERS_PER_SECOND: Final = 750_000
"""A client parses the whole input again at each piece, about 75 million characters per second. At
this rate it spends a hundredth of its time on that."""


@sync_or_async
def encode(events: Events, *, message_id: str = "") -> Encoded:
    """Encode the events of ``stream()`` or of a run as one UI message stream.

    Without a run, calls that have no result stay open: the application or the client runs them.
    ``message_id`` is the ID of the message. By default it is the ID of the run. Without a run, the
    client chooses one for a new message, or continues the message whose calls it has run.
    """
    return encode_with(AiSdkEncoder(message_id), events)


class AiSdkEncoder(ChangeEncoder):
    """Writes a run for ``useChat`` and other clients of the AI SDK."""

    end_mark: ClassVar[bytes] = b"data: [DONE]\n\n"

    def __init__(self, message_id: str = "") -> None:
        """Start with nothing. By default, the message has the ID of the run."""
        super().__init__()
        self.message_id = message_id
        self._writer = _MessageWriter(self)

    @property
    def interval(self) -> float:
        """How long to collect records, in seconds: longer while a long input is written."""
        return interval_for(self._writer.longest_input, _CHARACTERS_PER_SECOND)

    def begin(self, snapshot: ev.RunSnapshot) -> None:
        """Continue from a snapshot."""
        super().begin(snapshot)
        self._writer = _MessageWriter(self)
        for change in self.state.replay(with_text=False):
            self._writer.write(change)
        self._writer.assume_missed()

    def replay(self) -> Written:
        """Write the run so far. The client starts the message again."""
        return self._framed(self.replayed_parts())

    def replayed_parts(self) -> list[Json]:
        """Return the parts of a replay."""
        writer = _MessageWriter(self, limits=self._writer.written)
        changes = self.state.replay(with_text=False)
        parts = [part for change in changes for part in writer.write(change)]
        return [*parts, *writer.end_texts(self._writer)]

    def close_reason(self, why: CloseReason) -> bytes:
        """Write that the run continues. A stream without an end would count as complete."""
        message = f"{CLOSE_MESSAGES[why]}; resume the stream"
        return self._framed([{"type": "error", "errorText": message}]).data

    def _encode(self, change: Change) -> list[Json]:
        return self._writer.write(change)

    def _is_last(self, item: Json) -> bool:
        return item["type"] in ("finish", "abort", "error")


class _ShownCall(Struct, eq=False):
    """An open call, and how much of it was written."""

    call: Call
    name: str = ""  # empty before its start is written
    length: int = 0  # of the text of its arguments
    input: dict[str, Any] | str | None = None  # None while it is written
    request: ev.ApprovalRequested | None = None
    is_decided: bool = False
    output_length: int = 0


class _MessageWriter:
    """Writes changes as parts of a message. It keeps only what its own output has open.

    Nothing is written between a pause and the next stream. The blocks of an observed run may change
    during the pause. The next stream has these changes. It can repeat calls, because a client
    replaces them. It cannot repeat text. So a client that connects during the pause gets only the
    text that was written before: ``limits`` is ``written`` of the writer for the others.
    """

    def __init__(self, encoder: AiSdkEncoder, limits: Mapping[str, int] | None = None) -> None:
        self.written: dict[str, int] = {}  # keys of blocks: how much of a text
        self.texts: dict[str, TextBlock] = {}  # those that are open
        self._encoder = encoder
        self._state = encoder.state
        self._limits = limits
        self._is_open = False  # a stream has started and not ended
        self._is_paused = False
        self._has_step = False
        self._turn = 0  # of the step
        self._turn_is_over = False  # in a stream without a run, where no turn reports its start
        self._has_lost = False  # blocks of this turn
        self._calls: dict[str, _ShownCall] = {}  # those that are open

    @property
    def longest_input(self) -> int:
        """The length of the longest input that is being written."""
        shown = self._calls.values()
        return max((one.length for one in shown if one.input is None), default=0)

    def write(self, change: Change) -> list[Json]:
        """Return the parts of a change. It may be the start of a stream, or its end."""
        if self._is_paused and change.kind not in ("run_resumed", "run_ended"):
            return []
        return [*self._open(), *self._parts(change)]

    def end_texts(self, others: "_MessageWriter") -> list[Json]:
        """End the texts that are not open in the stream that continues this one.

        A pause ends all texts. It is not in the replay for a client that connects later.
        """
        is_over = self.texts.keys() - others.texts.keys() if self._is_open else ()
        return [_text_part("end", self.texts[key]) for key in self.texts if key in is_over]

    def _parts(self, change: Change) -> Iterator[Json]:
        block, event = change.block, change.event
        if isinstance(block, TextBlock):
            yield from self._text_change(change, block)
        elif block is not None:
            yield from self._call_change(change, block)
        elif isinstance(event, ev.TurnStarted):
            yield from self._turn_started(event.turn)
        elif isinstance(event, ev.TurnCompleted):
            self._turn_is_over = self._encoder.is_bare and event.parent_id is None
        elif change.kind == "run_paused":
            yield from self._pause()
        elif change.kind == "run_ended":
            yield from self._end()

    # The stream

    def _open(self) -> Iterator[Json]:
        if self._is_open:
            return
        was_paused, self._is_open, self._is_paused = self._is_paused, True, False
        start: Json = {"type": "start"}
        message_id = self._encoder.message_id
        run_id = "" if self._encoder.is_bare else self._state.run_id or message_id
        if message_id := message_id or run_id:
            start["messageId"] = message_id
        if run_id:
            start["messageMetadata"] = {"runId": run_id}
        yield start
        for block in self._state.blocks if was_paused else ():
            if not block.is_lost:
                yield from self._catch_up(block)

    def _catch_up(self, block: Block) -> Iterator[Json]:
        """Write what came during the pause."""
        length = self.written.get(block.key)
        if isinstance(block, Call):
            if length is None:
                self._add_call(block)
            if block.key in self._calls:
                yield from self._update_call(block)
        elif length is None or length < len(block.text):
            yield from self._append_text(block, block.text[length:])
            if block.is_over:
                yield from self._end_text(block)

    def assume_missed(self) -> None:
        """Find what clients of a paused run have missed, because it came after the pause began."""
        breaks = self._state.breaks
        if not (self._is_paused and self._state.mode == "observed" and breaks):
            return
        paused_at = breaks[-1].started_at
        for earlier in reversed(breaks[:-1]):
            if earlier.ended_at == paused_at:  # another request came while it was paused
                paused_at = earlier.started_at
        for block in self._state.blocks:
            if isinstance(block, TextBlock):
                if (block.started_at or 0.0) > paused_at:
                    self.written.pop(block.key, None)
            else:
                seen_at = block.requested_at if block.is_pending else block.ended_at
                if seen_at is None or seen_at > paused_at:
                    self._add_call(block)

    def _pause(self) -> Iterator[Json]:
        """End the stream. A client answers when all calls of the step have a decision or a result.

        So the other open calls get a placeholder as the result. The next stream repeats them.
        """
        for shown in self._calls.values():
            if not shown.call.is_pending:
                yield _output(shown.call, _UNFINISHED)
                self._add_call(shown.call)
        yield from self._end_step()
        yield self._finish("tool-calls")
        self._is_open, self._is_paused = False, True

    def _end(self) -> Iterator[Json]:
        for shown in self._calls.values():
            if shown.input is None or not self._encoder.is_bare:
                yield _error(shown.call, _OVER)
        self._calls.clear()
        yield from self._end_step()
        match self._state.end:
            case ev.RunFailed(code=code, message=message):
                yield {"type": "error", "errorText": f"{message} ({code})"}
            case ev.RunStopped(reason=reason):
                yield {"type": "abort", "reason": reason or "the run was stopped"}
            case _:
                yield self._finish()
        self._is_open = False

    def _finish(self, reason: str = "") -> Json:
        usage, stop_reason, end = self._state.usage, self._state.stop_reason, self._state.end
        if isinstance(end, ev.RunCompleted):
            usage = usage if end.usage == ev.Usage() else end.usage
            stop_reason = end.stop_reason or stop_reason
        metadata = {"usage": usage_counts(usage), "stopReason": stop_reason}
        reason = reason or _finish_reason(stop_reason)
        return {"type": "finish", "finishReason": reason, "messageMetadata": metadata}

    # Steps

    def _turn_started(self, turn: int) -> Iterator[Json]:
        if turn != self._turn:
            yield from self._end_step()
            self._has_step = False
            yield from self._start_step()
            self._turn = turn
        elif self._has_lost:
            yield {"type": "data-argstream-lost", "data": {"turn": turn}}
        self._has_lost = False

    def _start_step(self, block: Block | None = None) -> Iterator[Json]:
        if self._turn_is_over and block is not None and block.parent_id is None:
            yield from self._end_step()
            self._has_step = self._turn_is_over = False
        if not self._has_step:
            self._has_step = True
            yield {"type": "start-step"}

    def _end_step(self) -> Iterator[Json]:
        """End the step in this stream. After a pause, the next stream continues it."""
        for block in self.texts.values():
            yield _text_part("end", block)
        self.texts.clear()
        if self._has_step:
            yield {"type": "finish-step"}

    # Text and thinking

    def _text_change(self, change: Change, block: TextBlock) -> Iterator[Json]:
        self._has_lost = self._has_lost or change.kind == "block_lost"
        if change.kind in ("block_lost", "block_ended"):
            yield from self._end_text(block)
        elif self._limits is None:
            yield from self._append_text(block, change.text)
        elif block.key in self._limits:
            yield from self._append_text(block, change.text[: self._limits[block.key]])

    def _append_text(self, block: TextBlock, text: str) -> Iterator[Json]:
        self.written[block.key] = len(block.text)
        if block.key not in self.texts:
            yield from self._start_step(block)
            self.texts[block.key] = block
            yield _text_part("start", block) | self._parent(block)
        if text:
            yield _text_part("delta", block) | {"delta": text}

    def _end_text(self, block: TextBlock) -> Iterator[Json]:
        if self.texts.pop(block.key, None) is not None:
            yield _text_part("end", block)

    # Calls

    def _call_change(self, change: Change, call: Call) -> Iterator[Json]:
        if change.kind == "block_started":
            yield from self._start_step(call)
            self._add_call(call)
        if change.kind == "block_lost":
            self._has_lost = True
            if self._calls.pop(call.key, None) is not None:
                yield _error(call, _LOST)
        elif call.key in self._calls:
            yield from self._update_call(call)

    def _add_call(self, call: Call) -> None:
        """Add a call whose next parts start it, also if a client has it already."""
        self.written[call.key] = 0
        self._calls[call.key] = _ShownCall(call)

    def _update_call(self, call: Call) -> Iterator[Json]:
        """Write the new parts of an open call."""
        shown = self._calls[call.key]
        shown.call = call  # after ``begin``, this was the call of the replay
        is_written = (call.verdict, call.request, call.outcome) != (None, None, None)
        if not shown.name or (shown.name != call.name and not is_written):
            # New, or renamed: then the client starts again as well.
            shown.name, shown.length = call.name, 0
            about: Json = {"inputEncoding": "text"} if call.is_free_text else {}
            if call.kind in RUN_BY_PROVIDER:
                about["providerExecuted"] = True
            yield _input("start", call, **about, **self._parent(call))
        if not is_written:
            if text := call.raw[shown.length :]:
                shown.length = len(call.raw)
                yield _tool("input-delta", call, inputTextDelta=text)
            return
        yield from self._update_written(call, shown)
        if call.state in ("completed", "failed", "denied", "invalid"):
            del self._calls[call.key]

    def _update_written(self, call: Call, shown: _ShownCall) -> Iterator[Json]:
        if call.verdict not in (None, "complete"):
            error = f"{call.verdict}: {call.error.message if call.error else ''}"
            yield _input("error", call, input=call.raw, errorText=error)
            return
        if call.request is not None and call.request != shown.request:
            yield from _update_input(call, shown, call.request.arguments)
            shown.request = call.request
            # Version 6 drops the reason; both versions keep the descriptor.
            about = {"reason": call.request.reason, "approvalDescriptor": _descriptor(call.request)}
            yield _tool("approval-request", call, approvalId=call.request.digest, **about)
        if call.decision is not None and not shown.is_decided:
            shown.is_decided, shown.input = True, None  # approved input is written again
            yield _decision(call, call.decision)
        if call.decision is not None and call.decision.decision not in ("approved", "edited"):
            reason = call.decision.reason or "the request was withdrawn"
            is_withdrawn = call.decision.decision == "withdrawn"
            yield _error(call, reason) if is_withdrawn else _tool("output-denied", call)
            return
        yield from _update_input(call, shown, _input_of(call))
        if call.outcome is not None:
            yield (_output if call.outcome == "completed" else _error)(call, call.result)
        elif len(call.output) != shown.output_length and shown.input is not None:
            shown.output_length = len(call.output)
            yield _output(call, call.output[-_TAIL:]) | {"preliminary": True}

    def _parent(self, block: Block) -> Json:
        if block.parent_id is None:
            return {}
        parent = self._state.calls.get(block.parent_id)
        key = block.parent_id if parent is None else parent.key
        return {"providerMetadata": {"argstream": {"parentToolCallId": key}}}


def _input_of(call: Call) -> dict[str, Any] | str | None:
    """Return the arguments to show: those that ran, or will run."""
    if call.outcome != "completed":
        if call.decision is not None and call.decision.edited_arguments is not None:
            return call.decision.edited_arguments
        if call.request is not None:
            return call.request.arguments
    return call.arguments


def _update_input(
    call: Call, shown: _ShownCall, arguments: dict[str, Any] | str | None
) -> Iterator[Json]:
    if arguments is None or arguments is shown.input or arguments == shown.input:
        return
    shown.input, shown.output_length = arguments, 0  # the client drops the output
    yield _input("available", call, input=_harmless(arguments))


def _finish_reason(stop_reason: str | None) -> str:
    """Return the finish reason that clients know. They end a stream at any other.

    >>> _finish_reason("end_turn"), _finish_reason("MAX_TOKENS"), _finish_reason("something new")
    ('stop', 'length', 'other')
    """
    return _FINISH_REASONS.get(stop_kind(stop_reason or "stop"), "other")


def _text_part(step: Literal["start", "delta", "end"], block: TextBlock) -> Json:
    return {"type": f"{'reasoning' if block.is_thinking else 'text'}-{step}", "id": block.key}


def _tool(kind: str, call: Call, **fields: object) -> Json:
    return {"type": f"tool-{kind}", "toolCallId": call.key, **fields}


def _input(kind: str, call: Call, **fields: object) -> Json:
    return _tool(f"input-{kind}", call, toolName=call.name, dynamic=True, **fields)


def _output(call: Call, output: object) -> Json:
    return _tool("output-available", call, output=_harmless(output))


def _error(call: Call, error: object) -> Json:
    return _tool("output-error", call, errorText=text_of(error))


def _descriptor(request: ev.ApprovalRequested) -> Json:
    return {"reason": request.reason, "rule": request.rule, "expiresAt": request.expires_at}


def _decision(call: Call, decision: ev.ApprovalDecided) -> Json:
    data: Json = {"toolCallId": call.key, "decision": decision.decision, "reason": decision.reason}
    if decision.edited_arguments is not None:
        data["input"] = _harmless(decision.edited_arguments)
    return {"type": "data-argstream-decision", "id": call.key, "data": data}


def _harmless(value: object) -> object:
    """Return a value that clients accept.

    Clients end the stream with an error at an object that has certain keys. A value that contains
    such an object is sent as its JSON text.
    """
    text = encode_json(value)
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


# Requests


class ChatApproval(Struct, frozen=True):
    """An approval in a tool part."""

    id: str
    approved: bool | None = None
    reason: Reason | None = None


class ChatPart(Struct, frozen=True):
    """The fields of a message part that are used here."""

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
        """Its text parts, joined."""
        return "".join(part.text for part in self.parts if part.type == "text")


class ChatBody(Struct, frozen=True, rename="camel"):
    """The body that ``DefaultChatTransport`` sends, in 6 and 7, and what a front end may add."""

    id: ChosenId
    messages: tuple[ChatMessage, ...] = ()
    message: ChatMessage | None = None
    """Only the last message, instead of all: many front ends send no more."""
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = None
    edits: Mapping[str, dict[str, Any]] = {}
    """Arguments to run instead of the model's, by the IDs of approvals."""


class Said(Struct, frozen=True):
    """A message of the user."""

    prompt: str
    is_again: bool = False
    """Whether it replaces an earlier message: it is regenerated, or was edited."""
    before: tuple[str, ...] | None = None
    """The earlier messages of the user; None if the client did not send them."""


class Answered(Struct, frozen=True):
    """The user's decisions on approval requests, by digest."""

    answers: Mapping[str, Approval]
    unanswered: frozenset[str] = frozenset()
    """The requests that the client still shows as pending."""


def meant(body: ChatBody) -> Said | Answered:
    """Return the message or the decisions of a request. Raise ``UsageError`` if it has neither."""
    messages = body.messages
    if body.trigger == "submit-message":
        for place, message in enumerate(messages):
            # Decisions are also sent after a message of the user that was refused.
            if message.role == "assistant" and message.id == body.message_id:
                messages = messages[: place + 1]
                break
    last = body.message or (messages[-1] if messages else None)
    if last is None:
        raise UsageError("there is no message: send messages, or the last one as message")
    if last.role == "assistant":
        return _decisions_in(last, body.edits)
    if last.role != "user":
        raise UsageError(f"the last message has the role {last.role!r}: it must be the user's")
    if any(part.type == "file" for part in last.parts):
        raise UsageError("files cannot be read here: send their content as text")
    is_edited = body.message_id is not None and body.message_id == last.id
    before = None
    if body.message is None:
        before = tuple(message.text for message in messages[:-1] if message.role == "user")
    return Said(last.text, is_edited or body.trigger == "regenerate-message", before)


def _decisions_in(message: ChatMessage, edits: Mapping[str, dict[str, Any]]) -> Answered:
    decisions: dict[str, Approval] = {}
    undecided: set[str] = set()
    for part in message.parts:
        approval = part.approval
        if approval is None:
            continue
        if part.state == "approval-requested":
            undecided.add(approval.id)
        elif part.state == "approval-responded" and approval.approved is not None:
            edit, reason = edits.get(approval.id), approval.reason or ""
            if approval.approved:
                decisions[approval.id] = Approve(arguments=edit, digest=approval.id, reason=reason)
            elif edit is not None:
                problem = f"edits has arguments for the denied request {approval.id!r}"
                raise UsageError(f"{problem}. Remove them, or approve the request")
            else:
                decisions[approval.id] = Deny(reason)
    if not decisions:
        raise UsageError("the messages contain no new message and no decision")
    unknown = edits.keys() - decisions.keys()
    if unknown:
        raise UsageError(f"edits of requests that were not approved: {', '.join(sorted(unknown))}")
    return Answered(decisions, frozenset(undecided))


def history_before(messages: Sequence[Message], said: Said) -> tuple[Message, ...]:
    """Return the stored messages before the one that ``said`` replaces.

    Raises ``UsageError`` if the client's earlier messages differ from those in the store.
    """
    places = [place for place, message in enumerate(messages) if said_by_user(message)]
    texts = [said_by_user(messages[place]) for place in places]
    if said.before is None:
        count = max(len(places) - 1, 0)
    elif texts[: len(said.before)] == list(said.before):
        count = len(said.before)
    else:
        raise UsageError(
            "the earlier messages are not those that the store has of this conversation, so none "
            "can be replaced. Send a new message"
        )
    return tuple(messages if count >= len(places) else messages[: places[count]])


# The messages of earlier runs


class ChatHistory:
    """Collects the runs of a conversation, newest first, and returns their messages."""

    def __init__(self) -> None:
        self._messages: list[list[Json]] = []  # of each run, newest first
        self._before: tuple[Message, ...] | None = None  # None while it is not known

    @property
    def is_whole(self) -> bool:
        """Whether the runs so far are the whole conversation."""
        return self._before == ()

    def add(self, run: ev.RunSnapshot) -> None:
        """Add the next older run. A run that was replaced by another one is ignored."""
        if self._before is not None and not _is_part(run, self._before):
            return
        encoder = AiSdkEncoder(run.run_id)
        encoder.begin(run)
        answer = _read(encoder)
        prompt = _user_message(f"{run.run_id}-prompt", run.prompt)
        self._messages.append([prompt, answer] if answer["parts"] else [prompt])
        # The messages before an observed run are not known.
        self._before = run.history if run.mode == "agent" and run.turns else None

    def messages(self) -> list[Json]:
        """Return all messages, oldest first."""
        earlier = [*_earlier_messages(self._before or ())]
        return [*earlier, *(message for run in reversed(self._messages) for message in run)]


def _is_part(run: ev.RunSnapshot, history: Sequence[Message]) -> bool:
    """Return True if this run produced the part of the history at its place."""
    place = len(run.history)
    return (
        place < len(history)
        and said_by_user(history[place]) == run.prompt
        and tuple(history[:place]) == run.history
    )


def _user_message(message_id: str, text: str) -> Json:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def _earlier_messages(history: Sequence[Message]) -> Iterator[Json]:
    """Yield the messages of runs that are not stored any more. Their IDs are their places."""
    parts = (part for message in history for part in message.parts)
    results = {part.call_id: part for part in parts if isinstance(part, ResultPart)}
    answer: list[Json] | None = None
    for place, message in enumerate(history):
        if prompt := said_by_user(message):
            yield _user_message(f"message-{place}", prompt)
            answer = None
            continue
        if answer is None:
            answer = []
            yield {"id": f"message-{place}", "role": "assistant", "parts": answer}
        if message.role == "assistant":
            answer.append({"type": "step-start"})
            for part in message.parts:
                match part:
                    case TextPart(text=text) if text:
                        answer.append({"type": "text", "text": text, "state": "done"})
                    case ThinkingPart(text=text) if text:
                        own = {"type": "reasoning", "id": f"/{len(answer) - 1}"}
                        answer.append(own | {"text": text, "state": "done"})
                    case CallPart(call_id=call_id):
                        answer.append(_earlier_call(part, results.get(call_id)))
                    case _:
                        pass  # it has nothing to show, or is shown with its call


def _earlier_call(call: CallPart, answer: ResultPart | None) -> Json:
    part: Json = {"type": "dynamic-tool", "toolCallId": call.call_id, "toolName": call.name}
    if call.kind in RUN_BY_PROVIDER:
        part["providerExecuted"] = True
    is_complete = call.verdict == "complete"
    part["input"] = _harmless(call.arguments) if is_complete else call.raw
    if is_complete and answer is not None and not answer.failed:
        return part | {"state": "output-available", "output": _harmless(answer.result)}
    error = _OVER if answer is None else text_of(answer.result)
    if not is_complete:
        error = f"{call.verdict}: {'' if answer is None else error}"
    return part | {"state": "output-error", "errorText": error}


_CALL_STATES: Final = {  # others are in the name of the part
    "input-start": "input-streaming",
    "input-delta": "input-streaming",
    "input-error": "output-error",
    "approval-request": "approval-requested",
}


def _read(encoder: AiSdkEncoder) -> Json:
    """Return the message that a client has after a replay."""
    metadata: Json = {}
    parts: list[Json] = []
    shown: dict[str, Json] = {}  # texts and calls, by key
    calls: dict[str, list[Json]] = {}  # what was written of each
    for part in encoder.replayed_parts():
        match part["type"].split("-"):
            case ["start" | "finish"]:
                metadata |= part.get("messageMetadata", {})
            case ["start", "step"]:
                parts.append({"type": "step-start"})
            case ["data", *_]:
                parts.append(part)
            case ["text" | "reasoning" as kind, "start"]:
                own = ("id", "providerMetadata") if kind == "reasoning" else ("providerMetadata",)
                text = {"type": kind, "text": "", "state": "streaming"} | _chosen(part, *own)
                shown[part["id"]] = text
                parts.append(text)
            case ["text" | "reasoning", "delta"]:
                shown[part["id"]]["text"] += part["delta"]
            case ["text" | "reasoning", "end"]:
                shown[part["id"]]["state"] = "done"
            case ["tool", *_]:
                if (key := part["toolCallId"]) not in calls:
                    calls[key], shown[key] = [], {"type": "dynamic-tool", "toolCallId": key}
                    parts.append(shown[key])
                calls[key].append(part)
            case _:
                pass  # a message keeps nothing of ``finish-step``, ``abort`` and ``error``
    for block in encoder.state.blocks:
        if isinstance(block, Call) and block.key in calls:
            shown[block.key] |= _call_fields(block, calls[block.key])
    return {"id": encoder.message_id, "role": "assistant", "metadata": metadata, "parts": parts}


def _call_fields(call: Call, written: Sequence[Json]) -> Json:
    """Return what a client has of a call after these parts."""
    start, last = written[0], written[-1]
    kind = last["type"].removeprefix("tool-")
    state = _CALL_STATES.get(kind, kind)
    fields: Json = {"toolName": call.name, "state": state} | _chosen(start, "providerExecuted")
    fields |= _chosen(last, "output", "errorText", "preliminary")
    if "providerMetadata" in start:
        fields["callProviderMetadata"] = start["providerMetadata"]
    if call.verdict is None and call.raw:
        fields |= _input_so_far(call)
    for part in written:
        fields |= _chosen(part, "input")
    if state == "input-streaming":
        fields |= _chosen(start, "inputEncoding") | ({"rawInput": call.raw} if call.raw else {})
    if call.request is not None and (approval := _approval(call, call.request, state)):
        fields["approval"] = approval
    return fields


def _approval(call: Call, request: ev.ApprovalRequested, state: str) -> Json | None:
    approval: Json = {"id": request.digest, "requestReason": request.reason}
    approval["descriptor"] = _descriptor(request)
    if state == "approval-requested":
        return approval
    decision = call.decision
    if not state.startswith("output") or decision is None or decision.decision == "withdrawn":
        return None
    is_approved = decision.decision in ("approved", "edited")
    return approval | {"approved": is_approved, "reason": decision.reason}


def _chosen(part: Json, *names: str) -> Json:
    return {name: part[name] for name in names if name in part}


def _input_so_far(call: Call) -> Json:
    if call.is_free_text:
        return {"input": call.raw}
    parser = Parser()
    parser.feed(call.raw)
    return {} if parser.value is PENDING else {"input": _harmless(parser.value)}
