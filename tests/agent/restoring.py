"""Whether a run that was read from its log is the one that was there."""

from msgspec.structs import replace

from argstream.agent import ToolUse
from argstream.agent._state import CallState, RunState


def check_restored(restored: RunState, lost: RunState) -> None:
    """Check that all is known again that matters for what follows."""
    assert restored.history == lost.history
    assert restored.messages == lost.messages
    assert list(restored.uses) == list(lost.uses)
    for call_id, use in restored.uses.items():
        check_use(use, lost.uses[call_id])
    assert restored.grants <= lost.grants
    assert restored.usage == lost.usage
    assert restored.status == lost.status
    assert (restored.turns, restored.attempt) == (lost.turns, lost.attempt)
    assert restored.messages_before == lost.messages_before
    assert restored.stop_kind == lost.stop_kind
    assert restored.stop_reason == lost.stop_reason
    assert list(restored.calls) == list(lost.calls)
    assert restored.provider_calls == lost.provider_calls
    for call, other in zip(restored.calls.values(), lost.calls.values(), strict=True):
        check_call(call, other)


def check_call(restored: CallState, lost: CallState) -> None:
    assert restored.name == lost.name
    assert restored.status == lost.status
    if lost.status != "done" or lost.text:  # a call that was refused at once has none
        assert restored.text == lost.text
        assert restored.asked_text == lost.asked_text
    assert restored.request == lost.request
    assert restored.asking == lost.asking
    assert restored.note == lost.note
    assert restored.has_verdict == lost.has_verdict
    assert restored.attempts == lost.attempts
    if lost.status == "done":
        assert (restored.result, restored.failed) == (lost.result, lost.failed)


def check_use(restored: ToolUse, lost: ToolUse) -> None:
    was_refused_at_once = lost.tool_args is None and lost.error is not None
    if was_refused_at_once:  # the log has its arguments all the same
        restored = replace(restored, tool_args=None)
    assert restored == lost
