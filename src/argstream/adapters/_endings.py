"""Why a model stopped, in everybody's words: for those who pass on what others have said."""

from typing import Final

from argstream.deltas import Ending

__all__ = ["KNOWN_REASONS", "ending_of"]

_FINISHED: Final = {
    "complete",
    "completed",
    "end_turn",
    "eos",
    "eos_token",
    "function_call",
    "pause_turn",
    "requires_action",
    "stop",
    "stop_sequence",
    "tool_call",
    "tool_calls",
    "tool_use",
}
_CUT: Final = {
    # too long
    "budget_exceeded",
    "context_length_exceeded",
    "error_limit",
    "incomplete",
    "insufficient_system_resource",
    "length",
    "max_length",
    "max_new_tokens",
    "max_output_tokens",
    "max_tokens",
    "model_context_window_exceeded",
    "model_length",
    # not allowed
    "blocklist",
    "content_filter",
    "content_filtered",
    "error_toxic",
    "guardrail_intervened",
    "language",
    "prohibited_content",
    "recitation",
    "refusal",
    "safety",
    "spii",
    # not well made
    "malformed_function_call",
    "malformed_model_output",
    "malformed_tool_use",
    "unexpected_tool_call",
    # stopped from outside
    "abort",
    "cancelled",
    "error",
    "failed",
    "network_error",
    "timeout",
    "user_cancel",
}
KNOWN_REASONS: Final = _FINISHED | _CUT


def ending_of(reason: str | None) -> Ending:
    """Say what a reason means for the calls before it."""
    word = (reason or "").lower()
    return "finished" if word in _FINISHED else "cut" if word in _CUT else "unknown"
