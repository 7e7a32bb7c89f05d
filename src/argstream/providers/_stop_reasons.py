"""Why a model stopped, in everybody's words: for those who pass on what others have said."""

from typing import Final, Literal, TypeAlias

from argstream.providers._deltas import Ending

StopKind: TypeAlias = Literal[
    "finished", "paused", "too_long", "refused", "malformed", "stopped", "unknown"
]
"""What a stop reason means: the model had finished, or paused and wants to go on; there was no room
for more; it was not allowed to go on; it wrote what cannot be read; something outside stopped it.
"""

_REASONS: Final[dict[StopKind, str]] = {
    "finished": "complete completed end_turn eos eos_token function_call requires_action stop "
    "stop_sequence tool_call tool_calls tool_use",
    "paused": "pause_turn",
    "too_long": "budget_exceeded context_length_exceeded error_limit incomplete length max_length "
    "max_new_tokens max_output_tokens max_tokens model_context_window_exceeded model_length",
    "refused": "blocklist content_filter content_filtered error_toxic guardrail_intervened "
    "language prohibited_content recitation refusal safety spii",
    "malformed": "malformed_function_call malformed_model_output malformed_tool_use "
    "unexpected_tool_call",
    "stopped": "abort cancelled error failed insufficient_system_resource network_error timeout "
    "user_cancel",
}
_KINDS: Final = {word: kind for kind, words in _REASONS.items() for word in words.split()}
KNOWN_REASONS: Final = _KINDS.keys()


def stop_kind(reason: str | None) -> StopKind:
    """Return what a stop reason of any provider means."""
    return _KINDS.get((reason or "").lower(), "unknown")


def ending_of(reason: str | None) -> Ending:
    """Return what a stop reason means for the calls before it."""
    match stop_kind(reason):
        case "finished" | "paused":
            return "finished"
        case "unknown":
            return "unknown"
        case _:
            return "cut"
