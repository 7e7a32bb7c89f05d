"""Agents over real HTTP. ``tests/models/test_faults.py`` has the faults of the providers."""

import logging
import threading

import pytest

from argstream import events as ev
from argstream.agent import Agent, Conversation, Streamed, tool
from argstream.errors import RunError, TextInterruptedError
from argstream.events import RunCompleted, RunFailed, RunStopped, TextDelta
from argstream.models import CallTool, Retries, Think, Timeouts
from argstream.testing import Cut, ErrorEvent, Fault, Malformed, MockProvider, Reply, Slow, Status
from tests.agent.following import Effects, events_of, follow, one, only, served, stopped_at
from tests.agent.ordering import check_order
from tests.support.provider_rules import strict_provider

APIS = ["anthropic", "openai", "openai-responses"]
CANARY = "sk-canary-5f3c9a1e7b2d4f6089abcdef01234567"
CALLS = Reply(
    Think("I should write, and tell Ada."),
    "I do it.",
    CallTool("write", {"path": "a.txt", "content": "line\n" * 20}),
    CallTool("send", {"to": "ada"}),
)


def agent_of(
    api: str, provider: MockProvider, tools: list[object], fault: Fault | None = None
) -> Agent:
    """Return an agent whose model waits long for the provider, unless the fault is slowness."""
    is_slow = isinstance(fault, Slow)
    model = served(
        f"{api}:any",
        provider,
        api_key=CANARY,
        retries=Retries(first_wait=0.01, longest_wait=0.02),
        timeout=Timeouts(first_byte=0.1, idle=0.1) if is_slow else Timeouts(),
    )
    return Agent(model, tools)


@pytest.mark.parametrize("api", APIS)
def test_conversation_with_thinking_and_tools_completes(api: str) -> None:
    effects, conversation = Effects(), Conversation()
    with strict_provider(
        [CALLS, Reply("Done."), Reply(Think("Hm."), "You are welcome.")]
    ) as provider:
        agent = agent_of(api, provider, [effects.write, effects.send])
        events = events_of(agent, "Go", conversation)
        again = events_of(agent, "Thanks", conversation)
        provider.check()
    check_order(events)
    assert [name for name, _ in effects.seen] == ["write", "send"]
    assert one(events, RunCompleted).result == "Done."
    assert one(again, RunCompleted).result == "You are welcome."


@pytest.mark.parametrize("api", APIS)
def test_stop_closes_the_connection(api: str) -> None:
    reply = Reply("word " * 200, faults=[Slow(between=0.01)])
    with strict_provider(reply) as provider:
        events = stopped_at(agent_of(api, provider, []).run_stream("Go"), TextDelta)
        pause = threading.Event()
        while not provider.hang_ups:
            pause.wait(0.01)
        assert len(provider.hang_ups) == 1
    assert isinstance(events[-1], RunStopped)


def test_api_key_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    written: list[str] = []
    agents: list[Agent] = []
    for faults in ([], [Cut(at="call")], [Status(401, f"the key {CANARY} is wrong")]):
        with strict_provider(CALLS, faults=faults) as provider:
            agent = Agent(agent_of("anthropic", provider, []).model, max_turns=1)
            events = events_of(agent)
            written += [ev.to_json(event).decode() for event in events]
            written += [repr(agent), repr(agent.model), str(events)]
            agents.append(agent)
    with pytest.raises(RunError) as caught:  # its server is gone
        agents[-1].run("Go")
    written += [repr(caught.value), str(caught.getrepr(showlocals=False))]
    assert caplog.records
    written += [record.getMessage() for record in caplog.records]
    assert [text for text in written if CANARY in text] == []


@pytest.mark.parametrize("fault", [Cut(), ErrorEvent(), Malformed(), Slow(between=0.5)], ids=str)
def test_fault_interrupts_a_tool_that_reads_its_text(fault: Fault) -> None:
    begun: list[str] = []
    kept: list[str] = []
    interrupted: list[str] = []

    @tool
    async def note(title: str, text: Streamed[str]) -> str:
        begun.append(title)
        try:
            kept.append(await text.read())
        except TextInterruptedError as interruption:
            interrupted.append(interruption.verdict)
            raise
        return title

    reply = Reply(CallTool("note", {"title": "t", "text": "long " * 50}))
    with strict_provider(reply, faults=[fault]) as provider:
        events = follow(agent_of("anthropic", provider, [note], fault).run_stream("Go"))
    check_order(events, streamed=("note",))
    assert isinstance(events[-1], RunFailed)
    assert kept == []
    assert len(interrupted) == len(begun) <= len(only(events, ev.ToolExecutionStarted))
