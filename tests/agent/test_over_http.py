"""Agents over real HTTP, with all that can go wrong: no hang, one end, nothing run wrongly."""

import asyncio
import logging
import threading
import time

import pytest

from argstream.agent import Agent, Conversation, Streamed, tool
from argstream.errors import RunFailure, TextInterrupted
from argstream.events import (
    RunCompleted,
    RunFailed,
    RunStopped,
    TextDelta,
    ToolExecutionStarted,
    to_json,
)
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
from tests.agent.following import (
    Effects,
    events_of,
    follow,
    one,
    only,
    served,
    stopped_at,
)
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
SCRIPT = [CALLS, Reply("Done.")]
QUICK = Timeouts(connect=2, first_byte=0.4, idle=0.4)


def agent_of(
    api: str, provider: MockProvider, tools: list[object], timeout: Timeouts = QUICK
) -> Agent:
    model = served(
        f"{api}:any",
        provider,
        api_key=CANARY,
        retries=Retries(first_wait=0.01, longest_wait=0.02),
        timeout=timeout,
    )
    return Agent(model, tools)


@pytest.mark.parametrize("api", APIS)
def test_two_turns_with_thinking_and_tools(api: str) -> None:
    effects, conversation = Effects(), Conversation()
    with strict_provider([*SCRIPT, Reply(Think("Hm."), "You are welcome.")]) as provider:
        agent = agent_of(api, provider, [effects.write, effects.send])
        events = events_of(agent, "Go", conversation)
        again = events_of(agent, "Thanks", conversation)
        provider.check()
    check_order(events)
    assert [name for name, _ in effects.seen] == ["write", "send"]
    assert one(events, RunCompleted).result == "Done."
    assert one(again, RunCompleted).result == "You are welcome."


# Each fault, and the code with which the run ends; none where each API has its own.
FAULTS: list[tuple[Fault, str]] = [
    (Cut(at=0), "connection_lost"),
    (Cut(at=400), "connection_lost"),
    (Cut(at="call"), "connection_lost"),
    (ErrorEvent(at=0), ""),
    (ErrorEvent(at="call"), ""),
    (ErrorEvent(at=3), ""),
    (Malformed(at=0), "bad_payload"),
    (Malformed(at="call"), "bad_payload"),
    (Status(400), "invalid_request_error"),
    (Status(401), ""),
    (Status(404), ""),
    (Status(429, retry_after=0.01), ""),
    (Status(500), ""),
    (Status(529), ""),
    (Slow(before=1.5), "timeout"),
    (Slow(between=1.5), "timeout"),
]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("fault", "code"), FAULTS, ids=str)
def test_a_fault_that_stays_ends_the_run_and_nothing_is_run(
    api: str, fault: Fault, code: str
) -> None:
    effects, conversation = Effects(), Conversation()
    with strict_provider(CALLS, faults=[fault]) as provider:
        agent = agent_of(api, provider, [effects.write, effects.send])
        start = time.perf_counter()
        events = events_of(agent, "Go", conversation)
        assert time.perf_counter() - start < 15
    check_order(events)
    failed = one(events, RunFailed)
    assert failed.code == code or not code
    assert failed.message
    assert effects.seen == []
    assert conversation.run_id is None


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("fault", [Split((1,)), Split((64,), 7), Slow(before=0.1)], ids=str)
def test_what_is_only_slow_or_cut_small_changes_nothing(api: str, fault: Fault) -> None:
    effects = Effects()
    script = [Reply(CallTool("send", {"to": "ada"}), faults=[fault]), Reply("Done.")]
    with strict_provider(script) as provider:
        events = events_of(agent_of(api, provider, [effects.send]))
        provider.check()
    assert one(events, RunCompleted).result == "Done."
    assert effects.seen == [("send", {"to": "ada"})]


@pytest.mark.parametrize("api", APIS)
def test_a_stop_closes_the_connection(api: str) -> None:
    reply = Reply("word " * 200, faults=[Slow(between=0.01)])
    with strict_provider(reply) as provider:
        events = stopped_at(agent_of(api, provider, []).run_stream("Go"), TextDelta)
        deadline = time.monotonic() + 5
        while not provider.hang_ups and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(provider.hang_ups) == 1
    assert isinstance(events[-1], RunStopped)


@pytest.mark.anyio
@pytest.mark.bulk
async def test_200_runs_at_once_in_one_process() -> None:
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
        agent = agent_of("anthropic", provider, [note, double], Timeouts())
        results = await asyncio.gather(*(agent.run_async(f"Go {n}") for n in range(200)))
        await agent.aclose()
        turns = len(provider.requests)
    assert [result.text for result in results] == ["Done."] * 200
    uses = [use for result in results for use in result.tools]
    assert len(uses) == 2 * len(seen) == 2 * (turns - 200)
    assert {(use.tool_name, use.result) for use in uses} == {("note", "noted 1"), ("double", 4)}


def test_the_key_is_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    written: list[str] = []
    agents: list[Agent] = []
    for api in APIS:
        for faults in ([], [Status(401, f"the key {CANARY} is wrong")], [Cut(at="call")]):
            with strict_provider(CALLS, faults=faults) as provider:
                agent = Agent(agent_of(api, provider, []).model, max_turns=1)
                events = events_of(agent)
                written += [to_json(event).decode() for event in events]
                written += [repr(agent), repr(agent.model), str(events)]
                agents.append(agent)
    for agent in agents:  # whose servers are gone
        with pytest.raises(RunFailure) as caught:
            agent.run("Go")
        written += [repr(caught.value), str(caught.getrepr(showlocals=False))]
    assert caplog.records
    written += [record.getMessage() for record in caplog.records]
    assert [text for text in written if CANARY in text] == []


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("fault", [Cut(), ErrorEvent(), Malformed(), Slow(between=1.0)], ids=str)
def test_a_tool_that_reads_its_text_takes_back_what_a_fault_cuts_off(
    api: str, fault: Fault
) -> None:
    begun: list[str] = []
    kept: list[str] = []
    taken_back: list[str] = []

    @tool
    async def note(title: str, text: Streamed[str]) -> str:
        begun.append(title)
        try:
            kept.append(await text.read())
        except TextInterrupted as interruption:
            taken_back.append(interruption.verdict)
            raise
        return title

    reply = Reply(CallTool("note", {"title": "t", "text": "long " * 50}))
    with strict_provider(reply, faults=[fault]) as provider:
        events = follow(agent_of(api, provider, [note]).run_stream("Go"))
    check_order(events, streamed=("note",))
    assert isinstance(events[-1], RunFailed)
    assert kept == []
    assert len(taken_back) == len(begun) <= len(only(events, ToolExecutionStarted))
