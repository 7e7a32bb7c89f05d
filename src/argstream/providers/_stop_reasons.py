"""The stop reasons of all providers and their meaning.

Reasons are compared in lower case. A reason that is not listed is ``unknown``: the calls of such a
turn do not run, because they may have been cut.
"""

from typing import Final

from argstream.events import StopKind
from argstream.providers._deltas import Ending

_REASONS: Final[dict[StopKind, str]] = {
    "end_turn": "complete completed end_turn eos eos_token load reason_stop stop stop_sequence "
    "turncomplete unload",
    "tool_calls": "function_call reason_tool_calls requires_action tool_call tool_calls tool_use",
    "paused": "pause_turn paused",
    "length": "budget_exceeded context_length_exceeded continuation error_limit incomplete length "
    "max_length max_new_tokens max_output_tokens max_tokens model_context_window_exceeded "
    "model_length reason_max_context reason_max_len reason_time_limit requires_continuation",
    "content_filter": "blocklist content_filter content_filtered error_toxic guardrail_intervened "
    "image_prohibited_content image_recitation image_safety language prohibited_content recitation "
    "refusal safety spii",
    "malformed": "malformed malformed_function_call malformed_model_output malformed_response "
    "malformed_tool_use too_many_tool_calls unexpected_tool_call",
    "error": "abort cancelled error failed image_other in_progress insufficient_system_resource "
    "interrupted network_error no_image other queued timeout user_cancel",
}
_KINDS: Final = {word: kind for kind, words in _REASONS.items() for word in words.split()}
KNOWN_REASONS: Final = _KINDS.keys()
WORDS: Final[dict[str, dict[StopKind, str]]] = {
    "anthropic": {
        "end_turn": "end_turn",
        "tool_calls": "tool_use",
        "paused": "pause_turn",
        "length": "max_tokens",
        "content_filter": "refusal",
    },
    "openai-chat": {
        "end_turn": "stop",
        "tool_calls": "tool_calls",
        "paused": "stop",  # Chat has no pause
        "length": "length",
        "content_filter": "content_filter",
    },
    # The reason of an incomplete response; a complete one has none.
    "openai-responses": {"length": "max_output_tokens", "content_filter": "content_filter"},
}
"""A provider's stop reason for each kind, for the scripted model and the mock provider."""


def stop_kind(reason: str | None) -> StopKind:
    """Return the kind of a stop reason of any provider."""
    return _KINDS.get((reason or "").lower(), "unknown")


def ending_of(reason: str | None) -> Ending:
    """Return whether the calls before a stop reason are complete."""
    kind = stop_kind(reason)
    if kind in ("end_turn", "tool_calls", "paused"):
        return "finished"
    return "unknown" if kind == "unknown" else "cut"
