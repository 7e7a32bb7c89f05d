"""Source 001: each event carries its run, conversation and agent, as a ``Record``.

The source has ``run_id``, ``conversation_id``, ``agent_id`` and ``agent_name`` on every event.
"""

import asyncio
from pathlib import Path

import pytest
from claude_agent_sdk import query

from argstream import Agent, Approve, Conversation, ScriptedModel, observe, open_store, tool
from argstream.events import ArgumentCompleted, RunCompleted, RunPaused, RunStopped, ToolArgsDelta
from argstream.models import CallTool
from argstream.runs import Record
from tests.agent.observing import playing
from tests.chance_runs import CLAUDE_CODE_LINES as STORY


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


@tool(requires_confirmation=True)
def send(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


MULTIPLY = (CallTool("multiply", {"a": 123, "b": 456}), "It is 56088.")


@pytest.fixture(params=["no store", "memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    stores = {"no store": None, "memory": "memory:", "sqlite": str(tmp_path / "runs.db")}
    return stores[request.param]


def numbered(records: list[Record]) -> list[int]:
    """The numbers of the records that a log keeps."""
    return [record.seq for record in records if not record.event.is_computed]


def test_each_record_names_run_conversation_and_agent(store: str | None) -> None:
    conversation = Conversation()
    agent = Agent(ScriptedModel(*MULTIPLY), [multiply], name="calculator", store=store)
    run = agent.run_stream("Calculate 123 * 456", conversation)
    records = list(run.records())
    origins = {(record.run_id, record.conversation_id, record.agent) for record in records}
    assert origins == {(run.run_id, conversation.id, "calculator")}
    assert numbered(records) == list(range(1, len(numbered(records)) + 1))
    times = [record.time for record in records]
    assert times == sorted(times)
    assert isinstance(records[-1].event, RunCompleted)


def test_argument_events_carry_the_seq_of_their_delta(store: str | None) -> None:
    agent = Agent(ScriptedModel(*MULTIPLY), [multiply], store=store)
    records = list(agent.run_stream("Go").records())
    deltas = {record.seq for record in records if isinstance(record.event, ToolArgsDelta)}
    completed = [record for record in records if isinstance(record.event, ArgumentCompleted)]
    assert [record.event.value for record in completed if record.event.path] == [123, 456]  # type: ignore[union-attr]  # filtered above
    assert {record.seq for record in completed} <= deltas


def test_hook_tells_concurrent_runs_apart(store: str | None) -> None:
    heard: list[Record] = []
    model = ScriptedModel("One.", "Two.", "Three.")
    agent = Agent(model, on_event=heard.append, store=store)

    async def both() -> list[str]:
        results = await asyncio.gather(*(agent.run_async(f"Prompt {n}") for n in range(3)))
        return [result.run_id for result in results]

    run_ids = asyncio.run(both())
    for run_id in run_ids:
        records = [record for record in heard if record.run_id == run_id]
        assert numbered(records) == list(range(1, len(numbered(records)) + 1))
        assert isinstance(records[-1].event, RunCompleted)
    assert {record.run_id for record in heard} == set(run_ids)


def test_numbers_continue_after_a_pause(store: str | None) -> None:
    heard: list[Record] = []
    agent = Agent(
        ScriptedModel(CallTool("send", {"to": "ada"}), "Sent."),
        [send],
        on_event=heard.append,
        store=store,
    )
    paused = agent.run("Go")
    assert isinstance(heard[-1].event, RunPaused)
    before = len(heard)
    resumed = agent.resume(paused, {paused.pending[0].call_id: Approve()})
    assert list(resumed.records()) == heard[before:]
    assert numbered(heard) == list(range(1, len(numbered(heard)) + 1))


def test_stopping_a_paused_run_returns_events_and_calls_no_hook(store: str | None) -> None:
    heard: list[Record] = []
    model = ScriptedModel(CallTool("send", {"to": "ada"}))
    agent = Agent(model, [send], on_event=heard.append, store=store)
    events = agent.stop(agent.run("Go"))
    assert isinstance(events[-1], RunStopped)
    assert isinstance(heard[-1].event, RunPaused)


def test_observed_run_has_the_same_records_as_its_store(tmp_path: Path) -> None:
    async def compare() -> None:
        async with open_store(tmp_path / "runs.db") as store:
            run = observe(
                query(prompt="Go", transport=playing(STORY)),
                store=store,
                conversation_id="chat",
                agent="coder",
            )
            records = [record async for record in run.records()]
            assert {(record.conversation_id, record.agent) for record in records} == {
                ("chat", "coder")
            }
            stored = [record for record in records if not record.event.is_computed]
            assert stored == await store.read(run.run_id)

    asyncio.run(compare())
