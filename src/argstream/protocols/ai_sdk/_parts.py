"""The parts of a UI message stream, each as the JSON object that is sent.

All calls are told as *dynamic* tools: a client then has the tool's name as a value. Otherwise it
would be a part of the type ``tool-NAME``, which only a front end can do something with that was
compiled with this tool's types; and version 6 would hide what was written of an invalid call.
"""

from typing import Any, Final, TypeAlias

import msgspec

from argstream.deltas import FREE_TEXT_KINDS, RUN_BY_PROVIDER, CallKind
from argstream.events import ApprovalRequested, Usage
from argstream.protocols.calls import text_of

__all__ = [
    "Part",
    "approval_request",
    "begun_call",
    "call_error",
    "call_input",
    "call_invalid",
    "call_output",
    "finish_reason",
    "harmless",
    "of_parent",
    "usage_of",
]

Part: TypeAlias = dict[str, Any]

_KINDS: Final[dict[str, frozenset[str]]] = {
    "stop": frozenset({"complete", "completed", "end_turn", "eos", "stop", "stop_sequence"}),
    "tool-calls": frozenset(
        {"function_call", "requires_action", "tool_call", "tool_calls", "tool_use"}
    ),
    "length": frozenset(
        {
            "incomplete",
            "length",
            "max_length",
            "max_output_tokens",
            "max_tokens",
            "model_context_window_exceeded",
            "model_length",
        }
    ),
    "content-filter": frozenset(
        {
            "blocklist",
            "content_filter",
            "content_filtered",
            "guardrail_intervened",
            "prohibited_content",
            "recitation",
            "refusal",
            "safety",
            "spii",
        }
    ),
}
_FINISHES: Final = {word: kind for kind, words in _KINDS.items() for word in words}


def finish_reason(stop_reason: str | None) -> str:
    """Say why a model stopped in the words that the clients know; others end the stream there.

    >>> finish_reason("end_turn"), finish_reason("MAX_TOKENS"), finish_reason("something new")
    ('stop', 'length', 'other')
    """
    return _FINISHES.get((stop_reason or "stop").lower(), "other")


def usage_of(usage: Usage) -> Part:
    """Return the usage under the names of the AI SDK, where unknown counts are undefined."""
    counts = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "cachedInputTokens": usage.cache_read_tokens,
        "reasoningTokens": usage.reasoning_tokens,
    }
    return {name: number for name, number in counts.items() if number is not None}


def of_parent(parent: str | None) -> Part:
    """Say of a part that it is a sub-agent's, by the id of the call that this works for."""
    if parent is None:
        return {}
    return {"providerMetadata": {"argstream": {"parentToolCallId": parent}}}


# Calls


def begun_call(part_id: str, name: str, kind: CallKind, parent: str | None) -> Part:
    """Say that a call begins, of whose input nothing is known."""
    part: Part = {"type": "tool-input-start", "toolCallId": part_id, "toolName": name}
    part["dynamic"] = True
    if kind in FREE_TEXT_KINDS:
        part["inputEncoding"] = "text"
    if kind in RUN_BY_PROVIDER:
        part["providerExecuted"] = True
    return part | of_parent(parent)


def call_input(part_id: str, name: str, arguments: object) -> Part:
    """Say what the input of a call is: all of it."""
    return {
        "type": "tool-input-available",
        "toolCallId": part_id,
        "toolName": name,
        "input": harmless(arguments),
        "dynamic": True,
    }


def call_invalid(part_id: str, name: str, text: str, why: str) -> Part:
    """Say that the input of a call cannot be used: here is its text, as far as it came."""
    return {
        "type": "tool-input-error",
        "toolCallId": part_id,
        "toolName": name,
        "input": text,
        "errorText": why,
        "dynamic": True,
    }


def approval_request(part_id: str, request: ApprovalRequested) -> Part:
    """Ask a person. Version 6 drops the reason; both keep the descriptor."""
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


def call_output(part_id: str, output: object) -> Part:
    """Say what came of a call."""
    return {"type": "tool-output-available", "toolCallId": part_id, "output": harmless(output)}


def call_error(part_id: str, error: object) -> Part:
    """Say why nothing came of a call."""
    return {"type": "tool-output-error", "toolCallId": part_id, "errorText": text_of(error)}


def harmless(value: object) -> object:
    """Give a value as a client takes it.

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
