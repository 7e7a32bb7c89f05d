"""Gemini's live sessions: what the server of BidiGenerateContent says over a WebSocket.

Calls come whole, and Gemini waits for their results: in the middle of a turn, or at its end; only
``turnComplete`` tells. A call that came is closed, therefore, also if it has no arguments. If the
user speaks up, calls that came may be taken back. What the model says aloud is audio, of which the
transcription is shown; the audio itself does not go back and is not kept.
"""

from typing import Final

from msgspec import Struct

from argstream.adapters._gemini_parts import PartsReader
from argstream.adapters._gemini_payloads import (
    VITAL_OF_PARTS,
    Content,
    FunctionCall,
    GeminiReader,
    Payload,
    Sent,
    failure,
)
from argstream.adapters._payloads import refuse_duplicate_keys
from argstream.deltas import (
    CallResult,
    Delta,
    Tokens,
    TurnClosed,
    TurnEnded,
    TurnOpened,
    UsageReported,
)

__all__ = ["GeminiLiveAdapter"]

_TAKEN_BACK: Final = "cancelled: the provider has taken this call back"
# Reasons for the end of a turn that do not mean that something was cut.
_ORDERLY: Final = {"TURN_COMPLETE_REASON_UNSPECIFIED", "NEED_MORE_INPUT"}


class _Transcription(Struct, gc=False, rename="camel"):
    text: str | None = None


class _ServerContent(Struct, gc=False, rename="camel"):
    model_turn: Content | None = None
    output_transcription: _Transcription | None = None
    interrupted: bool | None = None
    turn_complete: bool | None = None
    turn_complete_reason: str | None = None


class _ToolCall(Struct, gc=False, rename="camel"):
    function_calls: list[FunctionCall] | None = None


class _Cancellation(Struct, gc=False, rename="camel"):
    ids: list[str] | None = None


class _Message(Payload, gc=False, rename="camel"):
    server_content: _ServerContent | None = None
    tool_call: _ToolCall | None = None
    tool_call_cancellation: _Cancellation | None = None


_read = GeminiReader(
    _Message,
    vital={
        *VITAL_OF_PARTS,
        "server_content",
        "model_turn",
        "tool_call",
        "tool_call_cancellation",
        "ids",
        "function_calls",
        "interrupted",
        "turn_complete",
    },
)


class GeminiLiveAdapter:
    """Messages of a live session → deltas."""

    protocol = "gemini-live"

    def __init__(self) -> None:
        self._turn: PartsReader | None = None
        self._turns = 0
        self._usage = Tokens()  # of the open turn, or of the next one
        self._sent = Sent()

    def feed(self, payload: object, event: str = "") -> list[Delta]:  # noqa: ARG002 - as all
        """Take one message: bytes, a dict, or a message of the SDK."""
        message = _read(payload)
        self._sent.hold(payload)
        deltas: list[Delta] = []
        usage = message.usage_metadata
        is_of_a_turn = self._turn is not None or message.server_content or message.tool_call
        has_usage = usage is not None and is_of_a_turn and any(tokens := usage.tokens())
        if has_usage:
            self._usage = tokens  # after the end of a turn it is too late
        if message.tool_call is not None and message.tool_call.function_calls:
            self._read_calls(message.tool_call.function_calls, payload, deltas)
        if message.server_content is not None:
            self._read_content(message.server_content, deltas)
        if message.tool_call_cancellation is not None:
            ids = message.tool_call_cancellation.ids or ()
            deltas += [CallResult(id_, _TAKEN_BACK, failed=True) for id_ in ids]
        if message.error:
            deltas.append(failure(message.error))
        if has_usage and self._turn is not None:
            deltas.append(UsageReported(self._usage))
        return deltas

    def interrupt(self) -> list[Delta]:
        """Say that a message was lost."""
        return []

    def close(self) -> list[Delta]:
        """Say that the session is over."""
        deltas: list[Delta] = []
        if self._turn is not None:
            self._turn.end(deltas)
        return deltas

    def _open_turn(self, deltas: list[Delta]) -> PartsReader:
        if self._turn is None:
            self._turn = PartsReader(0, self._sent, f"live_{self._turns}", keeps_media=False)
            self._turns += 1
            deltas.append(TurnOpened())
        return self._turn

    def _read_calls(self, calls: list[FunctionCall], payload: object, deltas: list[Delta]) -> None:
        if any(call.args for call in calls):
            refuse_duplicate_keys(payload)
        turn = self._open_turn(deltas)
        for number, call in enumerate(calls):
            if call.name and call.args is None and not call.will_continue:
                call.args = None if call.partial_args else {}
            turn.read_call(call, ("toolCall", "functionCalls", number), deltas)

    def _read_content(self, content: _ServerContent, deltas: list[Delta]) -> None:
        parts = content.model_turn.parts if content.model_turn is not None else None
        if parts:
            where = ("serverContent", "modelTurn", "parts")
            self._open_turn(deltas).read(parts, where, deltas)
        if content.output_transcription is not None and content.output_transcription.text:
            self._open_turn(deltas).say(content.output_transcription.text, "speech", deltas)
        if content.interrupted and self._turn is not None:
            self._turn.end(deltas)
            deltas.append(TurnEnded("interrupted", "cut"))
        if content.turn_complete:
            self._open_turn(deltas).end(deltas)
            reason = content.turn_complete_reason
            if reason and reason not in _ORDERLY:
                deltas.append(TurnEnded(reason, "cut"))
            else:
                deltas.append(TurnEnded("turnComplete", "finished"))
            deltas += [UsageReported(self._usage), TurnClosed()]
            self._turn = None
            self._usage = Tokens()
