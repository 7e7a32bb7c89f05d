"""Claude Code and the Claude Agent SDK: the messages of an agent that runs its own turns.

Payloads are the lines of ``claude --output-format stream-json``, or the equivalent messages of the
SDK. With partial messages enabled, they contain Anthropic Messages events. Whole messages follow,
or arrive alone, with one or more blocks each. If the streamed arguments of a call are incomplete,
those of the whole message count, but only once the turn shows that the call was not cut. A whole
message has no stop reason: its turn ends when the next one begins.

Messages of sub-agents are interleaved and name the call that started the sub-agent. Results of
calls are user messages. A result message ends the run, and another run may follow.

A stream is incomplete if it has the init message or a user message, but no result message. A stream
that was filtered to the model's messages is complete.
"""

import json
from collections import defaultdict, deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from msgspec import Raw, Struct

from argstream.providers import _deltas as d
from argstream.providers._payloads import (
    PayloadReader,
    UnreadableError,
    all_fields_of,
    failure,
    refuse_duplicate_keys,
    text_of,
    texts_in,
)
from argstream.providers.anthropic import CALLS, AnthropicDecoder, tokens_of, turn_ended

# The field "type" of a line for each SDK class.
_TYPES: Final = {
    "AssistantMessage": "assistant",
    "ResultMessage": "result",
    "ServerToolResultBlock": "advisor_tool_result",
    "ServerToolUseBlock": "server_tool_use",
    "StreamEvent": "stream_event",
    "SystemMessage": "system",
    "TextBlock": "text",
    "ThinkingBlock": "thinking",
    "ToolResultBlock": "tool_result",
    "ToolUseBlock": "tool_use",
    "UserMessage": "user",
}
# Fields that identify a message or block that was dumped without its type (dataclasses.asdict).
_MESSAGE_FIELDS: Final = {
    "event": "stream_event",
    "num_turns": "result",
    "subtype": "system",
    "model": "assistant",
    "content": "user",
}
_BLOCK_FIELDS: Final = {
    "thinking": "thinking",
    "tool_use_id": "tool_result",
    "input": "tool_use",
    "text": "text",
}


class _Line(Struct, gc=False):
    """The needed fields of messages of all types. A field may differ in meaning between types."""

    type: str = ""
    event: Raw = Raw(b"")
    parent_tool_use_id: Any = None
    message: Any = None
    error: Any = None
    subtype: Any = None
    tool_use_id: Any = None
    tool_use_result: Any = None
    isReplay: Any = None  # noqa: N815 - its name on the wire
    is_error: Any = None
    result: Any = None
    structured_output: Any = None
    errors: Any = None
    terminal_reason: Any = None
    usage: Any = None


_read = PayloadReader(_Line)


class ClaudeAgentDecoder(d.ProviderDecoder):
    """Messages of an agent → deltas."""

    protocol = "claude-agent"

    def __init__(self) -> None:
        self._agents = defaultdict[str | None, _MessageMerger](_MessageMerger)  # by parent call ID
        self._background: set[str] = set()  # sub-agents that continue after the run has ended
        self._current: str | None = None
        self._awaits_result = False

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of one message: a line, a dict, or an object of the SDK."""
        if type(payload) is not bytes:
            payload = _line_of(payload)
            if isinstance(payload, dict) and payload.get("type") == "stream_event":
                return self._streamed(payload.get("parent_tool_use_id"), payload.get("event"))
        line = _read(payload)
        match line.type:
            case "stream_event":
                inner: object = line.event  # already decoded if msgspec rejected the line
                inner = bytes(inner) if isinstance(inner, Raw) else inner
                return self._streamed(line.parent_tool_use_id, inner)
            case "assistant":
                return self._assistant(line, payload)
            case "user":
                return self._user(line)
            case "result":
                return self._result(line)
            case "" if (dumped := _line_of(dict(all_fields_of(payload)))).get("type"):
                return self.feed(dumped)
            case "system" if line.subtype == "init":
                self._awaits_result = True
            case "system" if line.subtype == "task_notification":  # a background agent ended
                return self._sub_agent_ended(text_of(line.tool_use_id))
            case _:  # progress, or a type that is not known
                pass
        return []

    def close(self) -> list[d.Delta]:
        """Return the deltas that are known only at the end of the stream."""
        deltas: list[d.Delta] = []
        for parent_id, agent in self._agents.items():
            is_complete = agent.is_whole and not self._awaits_result
            deltas += self._switch_to(parent_id, agent.end() if is_complete else agent.close())
        if self._awaits_result and not any(agent.is_open for agent in self._agents.values()):
            message = "the stream ended before the run did"
            deltas.append(d.ProviderFailed("truncated", message, retryable=True))
        return deltas

    def _switch_to(self, parent_id: str | None, deltas: list[d.Delta]) -> list[d.Delta]:
        if parent_id == self._current or not deltas:
            return deltas
        self._current = parent_id
        return [d.TurnSwitched(parent_id), *deltas]

    def _streamed(self, parent_id: object, event: object) -> list[d.Delta]:
        if parent_id is not None and not isinstance(parent_id, str):
            raise UnreadableError(f"call ID must be a string, not {type(parent_id).__name__}")
        agent = self._agents[parent_id]
        deltas = agent.feed(event)
        return deltas if parent_id == self._current else self._switch_to(parent_id, deltas)

    def _assistant(self, line: _Line, payload: object) -> list[d.Delta]:
        parent_id, message = _parent_and_message(line)
        if line.error:  # a message of the agent, not of the model
            # If the main agent fails, no result follows.
            self._awaits_result &= parent_id is not None
            content = message.get("content")
            error = {
                "code": line.error,
                "message": content if isinstance(content, str) else "\n".join(texts_in(content)),
            }
            return self._switch_to(parent_id, [failure(error, "code")])
        if any(block.get("input") for block in _dicts(message.get("content"))):
            refuse_duplicate_keys(payload)
        return self._switch_to(parent_id, self._agents[parent_id].read_message(message))

    def _user(self, line: _Line) -> list[d.Delta]:
        if line.isReplay:
            return []  # an echo of the user's input
        self._awaits_result = True
        parent_id, message = _parent_and_message(line)
        self._agents[parent_id].is_answered = True
        parts = _dicts(message.get("content"))
        results = [block for block in parts if block.get("type") == "tool_result"]
        deltas: list[d.Delta] = []
        for block in results:
            call_id, content = text_of(block.get("tool_use_id")), block.get("content")
            if content is None and len(results) == 1:
                content = line.tool_use_result
            if isinstance(line.tool_use_result, dict) and line.tool_use_result.get("isAsync"):
                self._background.add(call_id)
            else:
                deltas += self._sub_agent_ended(call_id)
            failed = bool(block.get("is_error"))
            if not failed:
                closed = self._agents[parent_id].close_executed(call_id)
                deltas += self._switch_to(parent_id, closed)
            deltas.append(d.CallResult(call_id, content, failed))
        return deltas

    def _sub_agent_ended(self, call_id: str) -> list[d.Delta]:
        self._background.discard(call_id)
        agent = self._agents.pop(call_id, None)
        return [] if agent is None else self._switch_to(call_id, agent.end())

    def _result(self, line: _Line) -> list[d.Delta]:
        deltas: list[d.Delta] = []
        for parent_id in [one for one in self._agents if one not in self._background]:
            deltas += self._switch_to(parent_id, self._agents.pop(parent_id).end())
        self._awaits_result = False
        return [*deltas, _run_ended(line)]


class _MessageMerger(AnthropicDecoder):
    """Merges the streamed events and whole messages of one agent."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = False  # whether a turn is open
        self._id = ""  # message ID
        self.is_answered = True  # a user message followed the last message, so the next one is new
        self._texts: dict[int, str] = {}  # streamed arguments of open calls
        # Indexes of streamed blocks whose whole form has not arrived, by identity.
        self._pending: dict[tuple[object, str], deque[int]] = {}
        self._calls: set[str] = set()  # IDs
        # Calls whose streamed arguments are incomplete, by ID: the index, and the whole arguments.
        self._unverified: dict[str, tuple[int, str]] = {}
        self._has_whole = False  # whether a part of this message arrived as a whole
        self._stop_reason = ""  # of a whole message, if it has one
        self._count = 0  # of blocks that did not stream

    def _message_started(self, message: dict[str, Any]) -> list[d.Delta]:
        ended = self.end() if self.is_whole or self._has_stop_reason else []
        self.is_open, self.is_answered, self._has_whole = True, False, False
        self._id, self._stop_reason = text_of(message.get("id")), ""
        self._texts.clear()
        self._pending.clear()
        self._calls.clear()
        self._unverified.clear()
        return ended + super()._message_started(message)

    def _block_started(self, index: int, block: dict[str, Any]) -> list[d.Delta]:
        self.is_open = True
        self._pending.setdefault(_identity(block), deque()).append(index)
        if block.get("type") in CALLS and (id_ := text_of(block.get("id"))):
            self._calls.add(id_)
        return super()._block_started(index, block)

    def _block_changed(self, index: int, change: Any) -> list[d.Delta]:
        if index not in self._blocks:
            return []  # its start was missed; the whole block has arrived or will arrive
        deltas = super()._block_changed(index, change)
        if piece := change.partial_json:
            text = self._texts.pop(index, "")
            text += piece  # in place: nothing else refers to it (invariant 6)
            self._texts[index] = text
        return deltas

    def _message_stopped(self) -> list[d.Delta]:
        self.is_open = False
        self._unverified.clear()
        return super()._message_stopped()

    def read_message(self, message: dict[str, Any]) -> list[d.Delta]:
        """Read a message or a part of one. Messages with the same ID are one turn."""
        id_ = text_of(message.get("id"))
        blocks = _blocks_of(message.get("content"))
        is_same = id_ == self._id if id_ else not self.is_answered
        calls = (block for block in blocks if block.get("type") in CALLS)
        if not is_same and self.is_open and any(_identity(call) in self._pending for call in calls):
            is_same, self._id = True, id_ or self._id  # its start was missed, or had no ID
        deltas = [] if is_same else self._whole_message_started(message)
        stop_reason = text_of(message.get("stop_reason"))
        for number, block in enumerate(blocks):
            may_be_cut = stop_reason and turn_ended(stop_reason).ending == "cut"
            is_complete = number < len(blocks) - 1 or not may_be_cut
            deltas += self._read_block(block, message, is_complete=is_complete)
        if self.is_open:
            self._has_whole = True
            self._stop_reason = stop_reason or self._stop_reason
            if not self._has_stop_reason:
                deltas += self._usage_reported(message.get("usage"))
        return deltas

    def end(self) -> list[d.Delta]:
        """End the open turn, because another turn begins or the agent has finished."""
        if not self.is_open:
            return []
        if self._has_stop_reason:
            return self._message_stopped()
        if self._stop_reason:
            ended = turn_ended(self._stop_reason)
        else:
            ended = d.TurnEnded(None, "finished" if self.is_whole else "cut")
        closed = self._close_unverified(ended.ending)
        return [*closed, *self._rest_of_blocks(), ended, *self._message_stopped()]

    def _message_changed(self, data: Any) -> list[d.Delta]:
        reason = data.delta.stop_reason if data.delta is not None else None
        closed = self._close_unverified(turn_ended(reason).ending) if reason else []
        return closed + super()._message_changed(data)

    def _close_unverified(self, ending: d.Ending) -> list[d.Delta]:
        """Close the calls whose streamed arguments are incomplete, if the turn was not cut."""
        ids = list(self._unverified) if ending == "finished" else []
        deltas = [delta for id_ in ids for delta in self.close_executed(id_)]
        self._unverified.clear()
        return deltas

    def close_executed(self, call_id: str) -> list[d.Delta]:
        """Close a call that was executed: it must have been complete."""
        if call_id not in self._unverified:
            return []
        return [d.CallClosed(*self._unverified.pop(call_id))]

    @property
    def is_whole(self) -> bool:
        """Whether each block of this turn arrived as a whole, so that no event is missing."""
        return self.is_open and self._has_whole and not self._pending and not self._blocks

    def _whole_message_started(self, message: dict[str, Any]) -> list[d.Delta]:
        # The end of its turn is known only when something else begins.
        return self._message_started({**message, "content": [], "stop_reason": None})

    def _read_block(
        self, block: dict[str, Any], message: dict[str, Any], *, is_complete: bool
    ) -> list[d.Delta]:
        identity = _identity(block)
        if (streamed := self._pending.get(identity)) is not None:
            index = streamed.popleft()
            if not streamed:
                del self._pending[identity]
            return self._end_of_block(index, block, is_complete=is_complete) if self.is_open else []
        is_call = block.get("type") in CALLS
        if is_call and text_of(block.get("id")) in self._calls:
            return []
        if is_call and not isinstance(block.get("input"), dict):
            raise UnreadableError("tool call has no input")
        again = [] if self.is_open else self._whole_message_started(message)
        self._count += 1
        index = -self._count  # never the index of a streamed block
        if is_call and is_complete and not block["input"]:
            # A cut call has an empty input, too. The end of the turn decides.
            deltas = [*self._block_started(index, block), d.CallClosed(index)]
        else:
            deltas = self._read_whole_block(index, block, is_complete=is_complete)
        del self._pending[identity]
        self._blocks.pop(index, None)  # complete, or cut
        return again + deltas

    def _end_of_block(
        self, index: int, block: dict[str, Any], *, is_complete: bool
    ) -> list[d.Delta]:
        """Return the missing deltas of a streamed block, and its end."""
        type_ = block.get("type")
        is_open, known = index in self._blocks, self._blocks.get(index, {})
        deltas: list[d.Delta] = []
        if type_ in CALLS:
            if not is_open and index in self._texts:
                return []  # already closed
            if not is_complete or (missing := self._end_of_call(index, block)) is None:
                return []
            deltas = missing
        elif type_ == "text" and isinstance(text := block.get("text"), str):
            deltas.append(d.BlockCompleted(index, text))
        elif is_open and isinstance(text := block.get("thinking"), str):
            deltas.append(d.BlockCompleted(index, text, is_thinking=True))
        known.update((name, part) for name, part in block.items() if part and name != "input")
        if text_of(block.get("id")) in self._unverified:
            kept = self._rest_of_block(index)
            self._blocks.pop(index, None)
            return kept  # the end of the turn decides whether it is closed
        return deltas + self._block_stopped(index)

    def _end_of_call(self, index: int, block: dict[str, Any]) -> list[d.Delta] | None:
        """Return the missing deltas of a call; None if only its own end shows if it was cut."""
        value = block.get("input")
        if not isinstance(value, dict) or self._has_stop_reason:
            return None
        if not value and index not in self._texts:
            return None  # nothing streamed: no arguments, or cut before the first character
        self._inputs.pop(index, None)
        text = self._texts.pop(index, "")
        whole = json.dumps(value, ensure_ascii=False)
        if value and not text.strip():
            return [d.CallClosed(index, text + whole)]
        with suppress(ValueError, RecursionError):
            is_same = _as_javascript(text) == _as_javascript(whole)
            return [] if is_same else [d.CallClosed(index, whole)]
        if value:  # the agent sends {} if it could not parse the streamed text
            # It may also have closed the JSON of a cut text itself.
            self._unverified[text_of(block.get("id"))] = index, whole
            return []
        return None


def _as_javascript(text: str) -> str:
    """Return JSON in a form to compare. In JavaScript, 1.0 equals 1, and 1 does not equal true."""
    return json.dumps(json.loads(text, parse_int=_double, parse_float=_double), sort_keys=True)


def _double(number: str) -> float:
    return float(number) + 0.0  # -0 equals 0


def _identity(block: dict[str, Any]) -> tuple[object, str]:
    """Return a key that a streamed block shares with its whole form. Text is matched by order."""
    return block.get("type"), text_of(block.get("id")) or text_of(block.get("tool_use_id"))


def _blocks_of(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(
        isinstance(block, dict) and isinstance(block.get("type"), str) for block in content
    ):
        raise UnreadableError("message has no content")
    return content


def _parent_and_message(line: _Line) -> tuple[str | None, dict[str, Any]]:
    parent_id, message = line.parent_tool_use_id, line.message
    if not isinstance(message, dict) or not (parent_id is None or isinstance(parent_id, str)):
        raise UnreadableError("message or parent_tool_use_id has a wrong type")
    return parent_id, message


def _run_ended(line: _Line) -> d.RunEnded:
    tokens = tokens_of(line.usage if isinstance(line.usage, dict) else {})
    code, reason = text_of(line.subtype), text_of(line.terminal_reason)
    is_aborted = reason.startswith("aborted")
    if code == "success" and line.is_error in (None, False) and not is_aborted:
        answer = line.result if line.structured_output is None else line.structured_output
        return d.RunEnded(code, answer, tokens=tokens)
    if is_aborted:
        code = reason
    elif code == "success":  # sent also if the API returned an error
        code = "api_error"
    errors = line.errors if isinstance(line.errors, list) else []
    message = text_of(line.result) or "; ".join(map(text_of, errors))
    return d.RunEnded(code or "unknown", message or code or "unknown", failed=True, tokens=tokens)


def _dicts(content: object) -> list[dict[str, Any]]:
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _line_of(payload: Any) -> Any:
    """Return an SDK message, also one from asdict(), in the form of a line."""
    found = _typed(payload, _MESSAGE_FIELDS)
    if found is payload or found["type"] not in ("assistant", "user"):
        return found
    content = found.get("content")
    if isinstance(content, list):
        content = [_typed(block, _BLOCK_FIELDS) for block in content]
    return {**found, "message": {**found, "id": found.get("message_id"), "content": content}}


def _typed(value: Any, by_field: Mapping[str, str]) -> Any:
    """Return the fields of a message or block, with a type. A dict with a type is unchanged."""
    if isinstance(value, dict):
        if "type" in value:
            return value
        type_ = next((type_ for field, type_ in by_field.items() if field in value), None)
        return value if type_ is None else {**value, "type": type_}
    type_ = None if isinstance(value, str) else _type_of(value)
    return value if type_ is None else {**vars(value), "type": type_}


def _type_of(value: object) -> str | None:
    return next(
        (_TYPES[base.__name__] for base in type(value).__mro__ if base.__name__ in _TYPES), None
    )
