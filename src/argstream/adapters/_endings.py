"""Why a model stopped, in everybody's words: for those who pass on what others have said."""

from typing import Final, Literal, TypeAlias

from argstream.deltas import Ending

__all__ = ["KNOWN_REASONS", "StopKind", "ending_of", "stop_kind"]

StopKind: TypeAlias = Literal[
    "finished", "paused", "too_long", "refused", "malformed", "stopped", "unknown"
]
"""What a stop reason means: the model had finished, or paused and wants to go on; there was no room
for more; it was not allowed to go on; it wrote what cannot be read; something outside stopped it.
"""

_REASONS: Final[dict[StopKind, frozenset[str]]] = {
    "finished": frozenset(
        {
            "complete",
            "completed",
            "end_turn",
            "eos",
            "eos_token",
            "function_call",
            "requires_action",
            "stop",
            "stop_sequence",
            "tool_call",
            "tool_calls",
            "tool_use",
        }
    ),
    "paused": frozenset({"pause_turn"}),
    "too_long": frozenset(
        {
            "budget_exceeded",
            "context_length_exceeded",
            "error_limit",
            "incomplete",
            "length",
            "max_length",
            "max_new_tokens",
            "max_output_tokens",
            "max_tokens",
            "model_context_window_exceeded",
            "model_length",
        }
    ),
    "refused": frozenset(
        {
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
        }
    ),
    "malformed": frozenset(
        {
            "malformed_function_call",
            "malformed_model_output",
            "malformed_tool_use",
            "unexpected_tool_call",
        }
    ),
    "stopped": frozenset(
        {
            "abort",
            "cancelled",
            "error",
            "failed",
            "insufficient_system_resource",
            "network_error",
            "timeout",
            "user_cancel",
        }
    ),
}
_KINDS: Final = {word: kind for kind, words in _REASONS.items() for word in words}
KNOWN_REASONS: Final = _KINDS.keys()


def stop_kind(reason: str | None) -> StopKind:
    """Say what a reason means, whoever gave it."""
    return _KINDS.get((reason or "").lower(), "unknown")


def ending_of(reason: str | None) -> Ending:
    """Say what a reason means for the calls before it."""
    match stop_kind(reason):
        case "finished" | "paused":
            return "finished"
        case "unknown":
            return "unknown"
        case _:
            return "cut"
