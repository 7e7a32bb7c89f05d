"""AG-UI 1.0 and 0.0.59: runs as events of the protocol, and the requests of its clients.

================  ================================================================================
a text            ``TEXT_MESSAGE_…``: a message for each block of text
thinking          ``REASONING_…``
a call            ``TOOL_CALL_START``, ``…_ARGS`` and ``…_END``, in a message of its own
its result        ``TOOL_CALL_RESULT``, with ``metadata.argstream.failed`` if the call failed
a turn            ``STEP_STARTED`` and ``STEP_FINISHED``
a pause           ``RUN_FINISHED`` with an interrupt for each pending call
the end           ``RUN_FINISHED``, or ``RUN_ERROR``
everything else   ``CUSTOM`` events whose names start with ``argstream.``
================  ================================================================================

A stream ends when the run pauses, and the next one starts when the run is resumed or ends. A late
viewer gets a ``MESSAGES_SNAPSHOT`` first. The next stream of a run also starts with one if the run
changed during the pause: an observed run, or one that was stopped.

Clients verify each stream on its own: a message must be started in it before it grows or ends. So
the encoder keeps which messages are open (``_Output``). The rest is read from the state of the run.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import uuid4

import msgspec
from msgspec import Raw, Struct

from argstream import events as ev
from argstream.errors import UsageError
from argstream.history import CallPart, Message, Part, ResultPart, TextPart, ThinkingPart
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
    frame,
    interval_for,
    sync_or_async,
    text_of,
    usage_counts,
)
from argstream.providers._deltas import RUN_BY_PROVIDER
from argstream.runs._records import Approval, Approve, Deny
from argstream.runs._state import Block, Call, Change, RunState, TextBlock

__all__ = [
    "AgUiEncoder",
    "Answers",
    "ResumeEntry",
    "RunAgentInput",
    "Version",
    "answers_of",
    "encode",
    "known_of",
    "prompt_of",
    "version_of",
]

Version: TypeAlias = Literal["0.0.59", "1.0"]
"""The version of the client. 0.0.59 rejects events and fields that it does not know."""

_NAMESPACE: Final = "argstream"  # of our metadata and of our CUSTOM events
_LOST: Final = "This call is void: its turn was cut off and started again."
_NO_RESULT: Final = "There is no result: the run ended before the call did."
_STOPPED: Final = "the run was stopped"
_CHARACTERS_PER_SECOND: Final = 4_000_000
"""The client copies and reads the whole run at each event: 2.5 ns per character, and rendering
takes several times that. This rate leaves it time for other work."""

_MAX_KNOWN: Final = 1_000
"""How many messages are sent back to a client. If it has more, it is sent those of the log."""


@sync_or_async
def encode(
    events: Events, thread_id: str = "", run_id: str = "", version: Version = "1.0"
) -> Encoded:
    """Encode the events of ``stream()`` or of a run, as server-sent events.

    ``thread_id`` and ``run_id`` are those of the request; random if empty. In a stream without a
    run, a complete call without a result is left for the application or the client to run. A call
    that is not complete gets a failed result, so that no client runs it.
    """
    thread_id = thread_id or f"thread_{uuid4().hex}"
    run_id = run_id or f"run_{uuid4().hex}"
    return encode_with(AgUiEncoder(thread_id, run_id, version), events, run_id, thread_id)


class AgUiEncoder(ChangeEncoder):
    """Writes a run for a client of AG-UI.

    It cannot catch up: the encoder does not know which messages are open in a client that missed
    something, and the client rejects a message that is started twice.
    """

    def __init__(
        self, thread_id: str, run_id: str, version: Version = "0.0.59", known: bytes | None = None
    ) -> None:
        """Encode for a request with these IDs.

        ``known`` are the messages of the client as a JSON array, if it sent any. They are released
        once they were sent back, because many streams may be open for a long time.
        """
        super().__init__()
        self._thread_id = thread_id
        self._run_id = run_id
        self._version: Version = version
        self._known = known
        self._output = _Output(self)
        self._is_streaming = False

    @property
    def interval(self) -> float:
        """Longer as the run grows: a client copies all of it at each event."""
        blocks = self.state.blocks
        length = sum(len(one.raw if isinstance(one, Call) else one.text) for one in blocks)
        return interval_for(length, _CHARACTERS_PER_SECOND)

    def begin(self, snapshot: ev.RunSnapshot) -> None:
        """Continue from a snapshot."""
        super().begin(snapshot)
        self._output, _ = self._replayed()
        self._is_streaming = self.state.status == "running"

    def replay(self) -> Written:
        """Write the run so far."""
        output, events = self._so_far()
        if self.state.end is not None:
            events.append(self._run_end(self.state.end))
        elif self.state.status == "paused":
            events.append(self._pause())
        else:
            events += output.reopen()
        return self._framed(events)

    def close_reason(self, why: CloseReason) -> bytes:
        """Write that the run continues, and how to follow it."""
        message = f"{CLOSE_MESSAGES[why]}; send the request again to follow the run"
        return frame(_run_error(why, message))

    # The start and the end of a stream

    def _encode(self, change: Change) -> list[Json]:
        events = self._start_stream(change)
        shown = self._output.encode(change)
        if not self._is_streaming:
            return []
        events += shown
        if change.kind == "run_paused":
            self._is_streaming = False
            events.append(self._pause())
        elif change.kind == "run_ended" and self.state.end is not None:
            self._is_streaming = False
            events.append(self._run_end(self.state.end))
        return events

    def _is_last(self, item: Json) -> bool:
        return item["type"] in ("RUN_FINISHED", "RUN_ERROR")

    def _start_stream(self, change: Change) -> list[Json]:
        """Return the start of a stream if none is open and the run starts, is resumed or ends."""
        is_end = change.kind == "run_ended"
        if self._is_streaming or not (is_end or self.state.status == "running"):
            return []
        self._is_streaming = True
        if is_end or (self.state.mode == "observed" and change.kind == "run_resumed"):
            # It may have changed during the pause: sub-agents and calls without a request continue.
            self._output, events = self._so_far()
            return [*events, *self._output.reopen()]
        self._known = None
        return [self._run_started(), *self._output.reopen()]

    def _so_far(self) -> "tuple[_Output, list[Json]]":
        """Return the run so far, for a new stream, and what is open after it.

        The client removes messages that are not in the snapshot. So the messages from before the
        run are sent back as the client sent them, or are those of the log. The results are sent as
        events, because the client inserts these after their calls.
        """
        output, events = self._replayed()
        known, self._known = self._known, None
        if known is None or output.messages:  # otherwise the client has all of them
            state = self.state
            before = _before(state) if known is None else _without_run(known, state.run_id)
            run = (each for message in output.messages.values() for each in message.snapshot())
            events.insert(0, {"type": "MESSAGES_SNAPSHOT", "messages": [*before, *run]})
        return output, [self._run_started(), *events]

    def _replayed(self) -> "tuple[_Output, list[Json]]":
        """Return what is open, and the events that are not part of a ``MESSAGES_SNAPSHOT``."""
        output = _Output(self)
        shown = [event for change in self.state.replay() for event in output.encode(change)]
        events = [event for event in shown if event["type"] in ("TOOL_CALL_RESULT", "CUSTOM")]
        for block in self.state.blocks:
            output.messages[block.key].block = block  # those of the replay do not grow
        return output, events

    def _run_started(self) -> Json:
        # The run ID of the client names its request. Ours is needed to stop the run.
        event = {"type": "RUN_STARTED", "threadId": self._thread_id, "runId": self._run_id}
        event |= _metadata(runId=self.state.run_id)
        return event if self._version == "0.0.59" else event | {"protocolVersion": self._version}

    def _pause(self) -> Json:
        calls = (block for block in self.state.blocks if isinstance(block, Call))
        interrupts = [
            _interrupt(call, call.request, self._version)
            for call in calls
            if call.is_pending and call.request is not None
        ]
        if not interrupts:  # the protocol has no other pause
            return _run_error("paused", "the run has paused, and no call waits for a decision")
        return self._run_finished({"type": "interrupt", "interrupts": interrupts})

    def _run_end(self, end: ev.RunEnd) -> Json:
        match end:
            case ev.RunCompleted(result=result, usage=usage):
                more = {} if result is None else {"result": result}
                counts = usage_counts(usage)
                if self._version != "0.0.59" and usage.cache_write_tokens is not None:
                    counts["cacheWriteInputTokens"] = usage.cache_write_tokens
                if counts:
                    more["usage"] = [counts]
                return self._run_finished({"type": "success"}, **more)
            case ev.RunFailed(code=code, message=message):
                return _run_error(code, message)
            case ev.RunStopped(reason=reason) if self._version == "0.0.59":
                # The code that this client itself uses when its user aborts a request.
                return _run_error("abort", f"{_STOPPED}: {reason}" if reason else _STOPPED)
            case ev.RunStopped(reason=reason):
                metadata = _metadata(reason=reason or _STOPPED)
                return self._run_finished({"type": "cancelled"}, **metadata)

    def _run_finished(self, outcome: Json, **more: Any) -> Json:
        ids = {"threadId": self._thread_id, "runId": self._run_id}
        return {"type": "RUN_FINISHED", **ids, "outcome": outcome, **more}


class _Message:
    """A block in the messages of a client."""

    def __init__(self, message_id: str, block: Block) -> None:
        self.id = message_id
        self.key = block.key
        self.block = block
        self.tag = _sub_agent(block)
        self.is_open = True
        self.has_text = False
        self.has_result = False
        is_call = isinstance(block, Call)
        self._ids = {"toolCallId": block.key} if is_call else {"messageId": message_id}

    def event(self, kind: str, **fields: Any) -> Json:
        return {"type": kind, **self._ids, **fields, **self.tag}

    def start(self) -> list[Json]:
        """Return the events that start the message, in its first stream or in another one."""
        block = self.block
        if isinstance(block, Call):
            about = {"toolCallName": block.name, "parentMessageId": self.id}
            return [self.event("TOOL_CALL_START", **about)]
        if not block.is_thinking:
            return [self.event("TEXT_MESSAGE_START", role="assistant")]
        start = self.event("REASONING_START")
        return [start, self._reasoning_start()] if self.has_text else [start]

    def end(self) -> list[Json]:
        if isinstance(self.block, Call):
            return [self.event("TOOL_CALL_END")]
        if not self.block.is_thinking:
            return [self.event("TEXT_MESSAGE_END")]
        end = self.event("REASONING_END")
        return [self.event("REASONING_MESSAGE_END"), end] if self.has_text else [end]

    def close(self) -> list[Json]:
        events = self.end() if self.is_open else []
        self.is_open = False
        return events

    def grow(self, block: TextBlock, text: str) -> list[Json]:
        """Return the next piece of a text. A message that was closed is opened for it."""
        if not text:
            return []
        events = [] if self.is_open else self.start()
        if block.is_thinking and not self.has_text:
            events.append(self._reasoning_start())
        self.has_text = True
        kind = "REASONING_MESSAGE_CONTENT" if block.is_thinking else "TEXT_MESSAGE_CONTENT"
        events.append(self.event(kind, delta=text))
        return events if self.is_open else [*events, *self.end()]

    def result(self, result: Any, *, failed: bool) -> list[Json]:
        if self.has_result:
            return []
        self.has_result = True
        about = {"messageId": f"{self.id}-result", "content": text_of(result)}
        event = self.event("TOOL_CALL_RESULT", **about)
        return [*self.close(), event | _metadata(failed=True) if failed else event]

    def custom(self, name: str, **facts: Any) -> list[Json]:
        return [_custom(name, toolCallId=self.key, **facts) | self.tag]

    def snapshot(self) -> list[Json]:
        """Return the message as it is in a ``MESSAGES_SNAPSHOT``."""
        block = self.block
        if isinstance(block, Call):
            text = _arguments_text(block) if block.verdict == "complete" else block.raw
            return [_call_message(self.id, self.key, block.name, text) | self.tag]
        if block.is_thinking and not block.text:
            return []
        role = "reasoning" if block.is_thinking else "assistant"
        return [{"id": self.id, "role": role, "content": block.text} | self.tag]

    def _reasoning_start(self) -> Json:
        return self.event("REASONING_MESSAGE_START", role="reasoning")


class _Output:
    """The messages of a run that were written, and which of them are open.

    A text is closed when the next block of the same agent or sub-agent starts.
    """

    def __init__(self, encoder: AgUiEncoder) -> None:
        self.messages: dict[str, _Message] = {}  # by the keys of their blocks
        self._encoder = encoder
        self._texts: dict[str | None, _Message] = {}  # the last one of each agent and sub-agent
        self._step = 0  # the turn that is open
        self._lost: list[_Message] = []

    def encode(self, change: Change) -> list[Json]:
        """Return the events of a change."""
        block = change.block
        if block is None:
            return self._run_events(change)
        if change.kind == "block_started":
            return self._add(block)
        message = self.messages[block.key]
        if change.kind == "block_lost":
            self._lost.append(message)
            return []
        if isinstance(block, Call):
            return [] if block.is_lost else _call_events(message, block, change)
        return message.close() if change.kind == "block_ended" else message.grow(block, change.text)

    def reopen(self) -> list[Json]:
        """Return the events that open in a new stream what was open in the last one."""
        starts = (event for message in self._open() for event in message.start())
        return [*self._step_event("STEP_STARTED"), *starts]

    def _run_events(self, change: Change) -> list[Json]:
        if change.kind == "run_paused":  # the messages are open again in the next stream
            events = [event for message in self._open() for event in message.end()]
            return events + self._step_event("STEP_FINISHED")
        if change.kind not in ("turn_started", "run_ended"):
            return []
        events = [event for message in self._open() for event in message.close()]
        events += self._missing_results() if change.kind == "run_ended" else self._lose()
        events += self._step_event("STEP_FINISHED")
        if isinstance(change.event, ev.TurnStarted):
            self._step = change.event.turn
            events += self._step_event("STEP_STARTED")
        return events

    def _add(self, block: Block) -> list[Json]:
        before = self._texts.pop(block.parent_id, None)
        message = _Message(f"{self._encoder.state.run_id}-{len(self.messages) + 1}", block)
        self.messages[block.key] = message
        if isinstance(block, TextBlock):
            self._texts[block.parent_id] = message
        return [*(before.close() if before else ()), *message.start()]

    def _open(self) -> list[_Message]:
        return [message for message in self.messages.values() if message.is_open]

    def _lose(self) -> Iterator[Json]:
        """Yield the events of the blocks that were lost since the last call."""
        lost, self._lost = self._lost[::-1], []  # the newest is reported first
        for message in lost:
            if isinstance(message.block, Call):
                yield from message.result(_LOST, failed=True)
        if lost:
            yield _custom("turn_lost", messageIds=[message.id for message in lost])

    def _missing_results(self) -> Iterator[Json]:
        for message in self.messages.values():
            call = message.block
            if not isinstance(call, Call):
                continue
            if not self._encoder.is_bare or call.kind in RUN_BY_PROVIDER:
                yield from message.result(_NO_RESULT, failed=True)
            elif call.verdict != "complete":
                why = "it is incomplete" if call.error is None else call.error.message
                yield from message.result(f"the call was not run: {why}", failed=True)

    def _step_event(self, kind: str) -> list[Json]:
        return [{"type": kind, "stepName": f"turn {self._step}"}] if self._step else []


def _call_events(message: _Message, call: Call, change: Change) -> list[Json]:
    match change.kind:
        case "renamed":  # clients read the new name from a second start
            if message.is_open:
                return message.end() + message.start()
            return message.start() + message.end()
        case "arguments_text" if message.is_open and change.text:
            return [message.event("TOOL_CALL_ARGS", delta=change.text)]
        case "output" if change.text:
            return message.custom("tool_output", delta=change.text)
        case "verdict" if (error := call.error) is not None:
            facts = {**msgspec.structs.asdict(error), "path": list(error.path)}
            invalid = message.custom("arguments_invalid", verdict=call.verdict, **facts)
            return message.close() + invalid
        case "verdict":
            return _completed(message, call)
        case "request" if (request := call.request) is not None:
            facts = {"id": request.digest, "toolName": request.name, "reason": request.reason}
            facts |= {"arguments": request.arguments, "rule": request.rule}
            return message.custom("approval_requested", **facts, expiresAt=request.expires_at)
        case "decision" if (decision := call.decision) is not None:
            facts = {"decision": decision.decision, "reason": decision.reason}
            if decision.edited_arguments is not None:
                facts["editedArgs"] = decision.edited_arguments
            return message.custom("approval_decided", **facts)
        case "result":
            return message.result(call.result, failed=call.outcome == "failed")
        case _:
            return []


def _completed(message: _Message, call: Call) -> list[Json]:
    """Return the end of a call, and the arguments themselves if their text differs from them."""
    text = _arguments_text(call)
    events: list[Json] = []
    if message.is_open and text and not call.raw:
        events.append(message.event("TOOL_CALL_ARGS", delta=text))
    events += message.close()
    try:
        is_same = (text if call.is_free_text else msgspec.json.decode(text)) == call.arguments
    except (msgspec.DecodeError, UnicodeEncodeError):
        is_same = False
    return events if is_same else events + message.custom("arguments", arguments=call.arguments)


def _arguments_text(call: Call) -> str:
    """Return the text of complete arguments. It is JSON even if the model wrote nothing."""
    return call.raw if call.raw or call.is_free_text else "{}"


def _interrupt(call: Call, request: ev.ApprovalRequested, version: Version) -> Json:
    """Return the request for a decision. Its ID is the digest of exactly these arguments.

    ``responseSchema`` describes the answer. An editor starts with the arguments of the model.
    """
    expires_at = request.expires_at and datetime.fromtimestamp(request.expires_at, UTC).isoformat()
    facts = {"toolName": request.name, "arguments": request.arguments}
    interrupt: Json = {
        "id": request.digest,
        "reason": "tool_call",
        "message": f"Run {request.name}? {request.reason}".rstrip(),
        "toolCallId": call.key,
        "responseSchema": {
            "type": "object",
            "properties": {
                "approved": {"type": "boolean"},
                "editedArgs": {"type": "object", "default": request.arguments},
                "reason": {"type": "string"},
            },
            "required": ["approved"],
            "additionalProperties": False,
        },
        **_sub_agent(call),
        **_metadata(**facts, rule=request.rule, expiresAt=expires_at),
    }
    if expires_at and version != "0.0.59":  # which cannot cancel an expired interrupt
        interrupt["expiresAt"] = expires_at
    return interrupt


def _sub_agent(block: Block) -> dict[str, str]:
    """Return the field that names the call whose sub-agent wrote a block, if one did."""
    return {} if block.parent_id is None else {"subagentRunId": block.parent_id}


def _custom(name: str, **facts: Any) -> Json:
    """Return an event that is not part of the protocol. Clients ignore unknown names."""
    return {"type": "CUSTOM", "name": f"{_NAMESPACE}.{name}", "value": facts}


def _metadata(**facts: Any) -> Json:
    return {"metadata": {_NAMESPACE: facts}}


def _run_error(code: str, message: str) -> Json:
    """Return the event that ends a stream with an error. It may be the first one."""
    return {"type": "RUN_ERROR", "message": message, "code": code}


# The messages from before the run


def _without_run(known: bytes, run_id: str) -> Iterator[Json]:
    """Yield the messages of the client that do not belong to the run."""
    messages = msgspec.json.decode(known, type=list[Json])
    own = f"{run_id}-"
    return (message for message in messages if not str(message.get("id")).startswith(own))


def _before(state: RunState) -> Iterator[Json]:
    """Yield the messages before the run, as the log has them, and the prompt."""
    for number, message in enumerate(state.history, 1):
        for place, part in enumerate(message.parts, 1):
            yield from _part_messages(f"{state.run_id}-before-{number}-{place}", message, part)
    yield {"id": f"{state.run_id}-prompt", "role": "user", "content": state.prompt}


def _part_messages(message_id: str, message: Message, part: Part) -> Iterator[Json]:
    match part:
        case TextPart(text=text):
            yield {"id": message_id, "role": message.role, "content": text}
        case ThinkingPart(text=text) if text:
            yield {"id": message_id, "role": "reasoning", "content": text}
        case CallPart(call_id=call_id, name=name, raw=raw):
            yield _call_message(message_id, call_id, name, raw or "{}")
        case ResultPart(call_id=call_id, result=result, failed=failed):
            about = {"id": message_id, "role": "tool", "toolCallId": call_id}
            about |= {"content": text_of(result)}
            yield about | _metadata(failed=True) if failed else about
        case _:
            pass  # only its provider understands it


def _call_message(message_id: str, call_id: str, name: str, arguments: str) -> Json:
    function = {"name": name, "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return {"id": message_id, "role": "assistant", "toolCalls": [call]}


# Requests


class ResumeEntry(Struct, frozen=True, rename="camel"):
    """The answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunAgentInput(Struct, frozen=True, rename="camel"):
    """The body of a request, as far as it is read."""

    thread_id: ChosenId
    run_id: ChosenId
    messages: list[Raw]
    """All messages of the client, not decoded: many small ones would need a hundred times the
    memory, and only the last one is read."""
    protocol_version: str | None = None
    """None in requests of 0.0.59."""
    resume: list[ResumeEntry] | None = None


class Answers(NamedTuple):
    """The answers of a request, by the IDs of their interrupts."""

    resolved: dict[str, Approval]
    cancelled: dict[str, Deny]
    """The interrupts that were cancelled. Their calls do not run."""


def version_of(protocol_version: str | None) -> Version:
    """Return the version to encode. A client that sends a version supports at least 1.0."""
    return "0.0.59" if protocol_version is None else "1.0"


def prompt_of(messages: Sequence[Raw]) -> str | None:
    """Return the text of the last message if it is the user's, which makes it a new prompt.

    None otherwise: then the client wants to follow the newest run of its thread.

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
    if len(messages) > _MAX_KNOWN:
        return None
    return b"[%b]" % b",".join(msgspec.json.encode(_decoded(message)) for message in messages)


def answers_of(resume: Iterable[ResumeEntry]) -> Answers:
    """Return the answers by interrupt ID. Raises ``UsageError`` if one is answered twice."""
    answers = Answers({}, {})
    for entry in resume:
        name = entry.interrupt_id
        if name in answers.resolved or name in answers.cancelled:
            raise UsageError(f"the interrupt {name} is answered twice: answer it once")
        if entry.status == "cancelled":
            answers.cancelled[name] = Deny("the request was cancelled")
        else:
            answers.resolved[name] = _decision(entry)
    return answers


class _Payload(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The answer to an interrupt, as its ``responseSchema`` describes it."""

    approved: bool
    edited_args: dict[str, Any] | None = None
    reason: Reason | None = None


def _decision(entry: ResumeEntry) -> Approval:
    try:
        answer = msgspec.convert(entry.payload, _Payload)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"the payload for the interrupt {entry.interrupt_id} is invalid ({error}): send "
            "{approved: true}, with editedArgs to replace the arguments, or {approved: false}, "
            "with a reason"
        ) from error
    reason = answer.reason or ""
    if not answer.approved:
        return Deny(reason)
    return Approve(arguments=answer.edited_args, digest=entry.interrupt_id, reason=reason)


def _decoded(message: Raw) -> Json:
    try:
        return msgspec.json.decode(message, type=Json)
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
                f"the last message has a part of the type {kind!r}: only text is supported"
            )
        yield text
