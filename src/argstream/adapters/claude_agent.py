"""Claude Code and the Claude Agent SDK: an agent that makes turns, and tells of them.

What comes are the lines of ``claude --output-format stream-json`` or the SDK's messages, which are
the same in other clothes. Events of Anthropic Messages sit in it, if partial messages were asked
for; beside them, or alone, come whole messages, a block or more at a time (``_twice_said``). Whole
messages do not say why the model stopped: such a turn is over when the next one begins.

Sub-agents speak in between, told apart by the call that started them. The results of calls are a
user's messages. A result message ends the run; then the next one may begin.

Something is missing at the end of a stream that shows what only a whole run has, its beginning or a
user's message, and has no result. Who picked out nothing but what the model said misses nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw, Struct

from argstream.adapters._payloads import (
    PayloadReader,
    UnreadableError,
    all_fields_of,
    refuse_duplicate_keys,
    text_of,
)
from argstream.adapters._twice_said import Speaker
from argstream.adapters.anthropic import tokens_of
from argstream.deltas import CallResult, Delta, ProviderFailed, RunEnded, SpeakerChanged

__all__ = ["ClaudeAgentAdapter"]

_RETRYABLE: Final = {"overloaded", "rate_limit", "server_error"}
# The SDK's classes, for what a line has in its field "type".
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
# What tells the type of a message or block that was dumped without it (dataclasses.asdict).
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
    """A message of any type, as far as it is read. A field may mean something else in another."""

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


class ClaudeAgentAdapter:
    """Messages of an agent → deltas."""

    protocol = "claude-agent"

    def __init__(self) -> None:
        self._speakers: dict[str | None, Speaker] = {}  # by the call that started them
        self._background: set[str] = set()  # those who outlive the run that started them
        self._speaking: str | None = None
        self._awaits_result = False

    def feed(self, payload: object, event: str = "") -> list[Delta]:  # noqa: ARG002 - as all
        """Take one message: a line, a dict, or an object of the SDK."""
        if type(payload) is not bytes:
            payload = _line_of(payload)
            if isinstance(payload, dict) and payload.get("type") == "stream_event":
                return self._streamed(payload.get("parent_tool_use_id"), payload.get("event"))
        line = _read(payload)
        match line.type:
            case "stream_event":
                inner: object = line.event  # what msgspec refuses has been read already
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
            case "system" if line.subtype == "task_notification":  # it ran in the background
                return self._sub_agent_ended(text_of(line.tool_use_id))
            case _:  # how it is going, or what did not exist when this was written
                pass
        return []

    def interrupt(self) -> list[Delta]:
        """Say that a payload was lost."""
        return []

    def close(self) -> list[Delta]:
        """Say that nothing more comes."""
        deltas: list[Delta] = []
        for parent_id, speaker in self._speakers.items():
            left = speaker.leave(is_over=not self._awaits_result)
            deltas += self._said_by(parent_id, left)
        if self._awaits_result and not any(speaker.is_open for speaker in self._speakers.values()):
            message = "the stream ended before the run did"
            deltas.append(ProviderFailed("truncated", message, retryable=True))
        return deltas

    def _speaker(self, parent_id: str | None) -> Speaker:
        speaker = self._speakers.get(parent_id)
        if speaker is None:
            speaker = self._speakers[parent_id] = Speaker()
        return speaker

    def _said_by(self, parent_id: str | None, deltas: list[Delta]) -> list[Delta]:
        if parent_id == self._speaking or not deltas:
            return deltas
        self._speaking = parent_id
        return [SpeakerChanged(parent_id), *deltas]

    def _streamed(self, parent_id: object, event: object) -> list[Delta]:
        if parent_id is not None and not isinstance(parent_id, str):
            raise UnreadableError(f"the id of a call is a {type(parent_id).__name__}")
        speaker = self._speakers.get(parent_id) or self._speaker(parent_id)
        deltas = speaker.feed(event)
        return deltas if parent_id == self._speaking else self._said_by(parent_id, deltas)

    def _assistant(self, line: _Line, payload: object) -> list[Delta]:
        parent_id, message = _opened(line)
        if line.error:  # it is not the model that speaks
            self._awaits_result &= parent_id is not None  # that the run failed is said here
            code = text_of(line.error) or "error"
            text = _text_of_blocks(message.get("content")) or code
            return self._said_by(parent_id, [ProviderFailed(code, text, code in _RETRYABLE)])
        if any(block.get("input") for block in _dicts(message.get("content"))):
            refuse_duplicate_keys(payload)
        return self._said_by(parent_id, self._speaker(parent_id).take_message(message))

    def _user(self, line: _Line) -> list[Delta]:
        if line.isReplay:
            return []  # somebody's own words, said back
        self._awaits_result = True
        parent_id, message = _opened(line)
        self._speaker(parent_id).answered()
        parts = _dicts(message.get("content"))
        results = [block for block in parts if block.get("type") == "tool_result"]
        deltas: list[Delta] = []
        for block in results:
            call_id, content = text_of(block.get("tool_use_id")), block.get("content")
            if content is None and len(results) == 1:
                content = line.tool_use_result
            if _goes_on(line.tool_use_result):
                self._background.add(call_id)
            else:
                deltas += self._sub_agent_ended(call_id)
            failed = bool(block.get("is_error"))
            if not failed:
                run = self._speaker(parent_id).was_run(call_id)
                deltas += self._said_by(parent_id, run)
            deltas.append(CallResult(call_id, content, failed))
        return deltas

    def _sub_agent_ended(self, call_id: str) -> list[Delta]:
        self._background.discard(call_id)
        speaker = self._speakers.pop(call_id, None)
        return [] if speaker is None else self._said_by(call_id, speaker.end())

    def _result(self, line: _Line) -> list[Delta]:
        deltas: list[Delta] = []
        for parent_id in [one for one in self._speakers if one not in self._background]:
            deltas += self._said_by(parent_id, self._speakers.pop(parent_id).end())
        self._awaits_result = False
        return [*deltas, _run_ended(line)]


def _opened(line: _Line) -> tuple[str | None, dict[str, Any]]:
    """Give who speaks, and the message."""
    parent_id, message = line.parent_tool_use_id, line.message
    if not isinstance(message, dict) or not (parent_id is None or isinstance(parent_id, str)):
        raise UnreadableError("a message that is none, or nobody's")
    return parent_id, message


def _run_ended(line: _Line) -> RunEnded:
    tokens = tokens_of(line.usage if isinstance(line.usage, dict) else {})
    code, reason = text_of(line.subtype), text_of(line.terminal_reason)
    is_aborted = reason.startswith("aborted")
    if code == "success" and line.is_error in (None, False) and not is_aborted:
        answer = line.result if line.structured_output is None else line.structured_output
        return RunEnded(code, answer, tokens=tokens)
    if is_aborted:
        code = reason
    elif code == "success":  # as it is called if what the API answered was an error
        code = "api_error"
    errors = line.errors if isinstance(line.errors, list) else []
    message = text_of(line.result) or "; ".join(map(text_of, errors))
    return RunEnded(code or "unknown", message or code or "unknown", failed=True, tokens=tokens)


def _goes_on(tool_use_result: object) -> bool:
    """Say whether a sub-agent was only started, and goes on in the background."""
    return isinstance(tool_use_result, dict) and bool(tool_use_result.get("isAsync"))


def _dicts(content: object) -> list[dict[str, Any]]:
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _text_of_blocks(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(text for block in _dicts(content) if (text := text_of(block.get("text"))))


def _line_of(payload: Any) -> Any:
    """Return a message of the SDK, or what asdict() makes of one, in the form of a line."""
    found = _typed(payload, _MESSAGE_FIELDS)
    if found is payload or found["type"] not in ("assistant", "user"):
        return found
    content = found.get("content")
    if isinstance(content, list):
        content = [_typed(block, _BLOCK_FIELDS) for block in content]
    return {**found, "message": {**found, "id": found.get("message_id"), "content": content}}


def _typed(value: Any, by_field: Mapping[str, str]) -> Any:
    """Return the fields of a message or block with its type; what has one stays as it is."""
    if isinstance(value, dict):
        if "type" in value:
            return value
        type_ = next((type_ for field, type_ in by_field.items() if field in value), None)
        return value if type_ is None else {**value, "type": type_}
    type_ = None if isinstance(value, str) else _type_of(value)
    return value if type_ is None else {**vars(value), "type": type_}


def _type_of(value: object) -> str | None:
    class_ = type(value)
    if class_.__name__ in _TYPES:
        return _TYPES[class_.__name__]
    return next((_TYPES[base.__name__] for base in class_.__mro__ if base.__name__ in _TYPES), None)
