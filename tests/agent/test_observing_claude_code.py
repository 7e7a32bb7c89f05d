"""The real Claude Code with a mock provider: it behaves as the other tests assume."""

from pathlib import Path

import pytest
from claude_agent_sdk import ClaudeAgentOptions, query

from argstream import events as ev
from argstream.agent import Approve, Deny
from argstream.agent.observer import Observer
from argstream.events import ApprovalRequested, RunCompleted, ToolCallFailed, ToolCallStarted
from argstream.models import CallTool
from argstream.runs import MemoryStore
from argstream.testing import MockProvider, Reply
from tests.agent.claude_code import claude_code_alone  # noqa: F401 - a fixture
from tests.agent.following import one, only
from tests.agent.observing import check_observed, logged
from tests.support.provider_rules import strict_provider

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("claude_code_alone")]


def options(provider: MockProvider, observer: Observer, directory: Path) -> ClaudeAgentOptions:
    return ClaudeAgentOptions(
        can_use_tool=observer.can_use_tool,
        include_partial_messages=True,
        cwd=directory,
        model="claude-opus-4-1",
        setting_sources=[],
        env={
            "ANTHROPIC_BASE_URL": provider.anthropic_url,
            "ANTHROPIC_API_KEY": "any",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    )


async def test_calls_of_claude_code_and_its_sub_agents_need_approval(tmp_path: Path) -> None:
    task = {"description": "two files", "prompt": "Write.", "subagent_type": "general-purpose"}
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    replies = [
        Reply(CallTool("Agent", {**task, "run_in_background": False})),
        Reply(CallTool("Write", {"file_path": str(first), "content": "by the model"})),
        Reply(CallTool("Write", {"file_path": str(second), "content": "by the model"})),
        Reply("One is written."),
        Reply("Done."),
    ]
    store = MemoryStore()
    observer = Observer(store=store)
    with strict_provider(replies) as provider:
        source = query(prompt="Go", options=options(provider, observer, tmp_path))
        run = observer.observe(source, "Go")
        async for event in run:
            if isinstance(event, ApprovalRequested):
                is_first = event.arguments["file_path"] == str(first)
                edited = Approve(arguments={**event.arguments, "content": "by a person"})
                decision = edited if is_first else Deny("one is enough")
                await store.decide(run.run_id, {event.call_id: decision})
    events = await logged(store, run.run_id)
    check_observed(events)
    assert first.read_text() == "by a person"
    assert not second.exists()
    assert one(events, RunCompleted).result == "Done."
    task_call, *writes = only(events, ToolCallStarted)
    assert {call.parent_id for call in writes} == {task_call.call_id}
    assert one(events, ToolCallFailed).error == "it was denied: one is enough"
    assert len(only(events, ev.ToolCallCompleted)) == 2
