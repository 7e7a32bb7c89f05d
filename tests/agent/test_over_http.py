"""Agents over real HTTP, with faulty providers: each run ends once, and nothing runs wrongly."""

import asyncio
import logging
import threading

import pytest

from argstream import events as ev
from argstream.agent import Agent, Conversation, Streamed, tool
from argstream.errors import RunError, TextInterruptedError
from argstream.events import RunCompleted, RunFailed, RunStopped, TextDelta
from argstream.models import Retries, Timeouts
from argstream.testing import (
    CallTool,
    Cut,
    ErrorEvent,
    Fault,
    Malformed,
    MockProvider,
    Reply,
    Slow,
    Split,
    Status,
    Think,
)
from tests.agent.following import Effects, events_of, follow, one, only, served, stopped_at
from tests.agent.ordering import check_order
from tests.support.provider_rules import strict_provider

APIS = ["anthropic", "openai", "openai-responses"]
CANARY = "sk-canary-5f3c9a1e7b2d4f6089abcdef01234567"
RUNS = 20  # at once
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


# Each fault with the code of the failed run; "" where each API has its own.
FAULTS: list[tuple[Fault, str]] = [
    *((Cut(at=at), "connection_lost") for at in (0, 400, "call")),
    *((ErrorEvent(at=at), "") for at in (0, "call", 3)),
    *((Malformed(at=at), "bad_payload") for at in (0, "call")),
    (Status(400), "invalid_request_error"),
    *((Status(status), "") for status in (401, 404, 500, 529)),
    (Status(429, retry_after=0.01), ""),
    (Slow(before=0.5), "timeout"),
    (Slow(between=0.5), "timeout"),
]


# tests/models/test_faults.py has the faults of all APIs.
@pytest.mark.parametrize(
    ("api", "fault", "code"),
    [
        *(("anthropic", *one) for one in FAULTS),
        ("openai", Cut(at="call"), "connection_lost"),
        ("openai-responses", Malformed(at="call"), "bad_payload"),
    ],
    ids=str,
)
def test_lasting_fault_fails_the_run_and_runs_no_tool(api: str, fault: Fault, code: str) -> None:
    effects, conversation = Effects(), Conversation()
    with strict_provider(CALLS, faults=[fault]) as provider:
        agent = agent_of(api, provider, [effects.write, effects.send], fault)
        events = events_of(agent, "Go", conversation)
    check_order(events)
    failed = one(events, RunFailed)
    assert failed.code == code or not code
    assert failed.message
    assert effects.seen == []
    assert conversation.run_id is None


@pytest.mark.parametrize(
    ("api", "fault"),
    [
        ("anthropic", Split((1,))),
        ("openai", Split((64,), 7)),
        ("openai-responses", Slow(before=0.05)),
    ],
    ids=str,
)
def test_small_chunks_and_short_delays_change_nothing(api: str, fault: Fault) -> None:
    effects = Effects()
    script = [Reply(CallTool("send", {"to": "ada"}), faults=[fault]), Reply("Done.")]
    with strict_provider(script) as provider:
        events = events_of(agent_of(api, provider, [effects.send]))
        provider.check()
    assert one(events, RunCompleted).result == "Done."
    assert effects.seen == [("send", {"to": "ada"})]


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


@pytest.mark.anyio
@pytest.mark.bulk
async def test_many_runs_at_once_in_one_process() -> None:
    lock, seen = threading.Lock(), []

    def note(number: int) -> str:
        with lock:
            seen.append(number)
        return f"noted {number}"

    async def double(number: int) -> int:
        await asyncio.sleep(0.01)
        return 2 * number

    reply = Reply("I do.", CallTool("note", {"number": 1}), CallTool("double", {"number": 2}))
    # The first request gets the first reply, so some runs make several calls and others none.
    with strict_provider([reply, Reply("Done.")], repeat=True) as provider:
        agent = agent_of("anthropic", provider, [note, double])
        results = await asyncio.gather(*(agent.run_async(f"Go {n}") for n in range(RUNS)))
        await agent.aclose()
        turns = len(provider.requests)
    assert [result.text for result in results] == ["Done."] * RUNS
    uses = [use for result in results for use in result.tools]
    assert len(uses) == 2 * len(seen) == 2 * (turns - RUNS)
    assert {(use.tool_name, use.result) for use in uses} == {("note", "noted 1"), ("double", 4)}


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
