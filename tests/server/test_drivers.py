"""Who drives the runs of a server: an agent of ours."""

import pytest

from argstream.agent import Agent, Approve
from argstream.clients import CallTool, ScriptedModel
from argstream.errors import UsageError
from argstream.events import ApprovalRequested, RunCompleted, RunPaused, RunStarted, RunStopped
from argstream.server.drivers import AgentDriver
from argstream.stores import MemoryStore
from tests.agent.following import complete, mailing, one, send


def test_an_agent_needs_a_store() -> None:
    with pytest.raises(UsageError, match=r"store=\"runs.db\""):
        AgentDriver(Agent(ScriptedModel("Hello")))


def test_a_run_pauses_and_goes_on_with_what_the_store_has_of_decisions() -> None:
    agent, effects = mailing(send("ada"), "Sent.", store=MemoryStore(), name="mailer")
    driver = AgentDriver(agent)
    assert (driver.name, driver.store) == ("mailer", agent.store)

    async def main() -> None:
        run = driver.begin("Go", await driver.conversation("c", "ada"))
        told = [event async for event in run]
        assert one(told, RunStarted).user == "ada"
        assert isinstance(told[-1], RunPaused)
        assert (await driver.conversation("c", "ada")).run_id == run.run_id
        assert (await driver.conversation("c", "eve")).run_id is None
        request = one(told, ApprovalRequested)
        decisions = {request.call_id: Approve(digest=request.digest)}
        await driver.check(run.run_id, decisions)
        await driver.store.decide(run.run_id, decisions)
        resumed = driver.resume(await driver.store.info(run.run_id))
        assert resumed is not None
        assert isinstance([event async for event in resumed][-1], RunCompleted)
        await driver.aclose()

    complete(main)
    assert effects.seen == [("send", {"to": "ada"})]


def test_an_edit_that_does_not_fit_is_refused_before_it_counts() -> None:
    agent, effects = mailing(send("ada"), "Sent.", store=MemoryStore())
    driver = AgentDriver(agent)

    async def main() -> None:
        run = driver.begin("Go", await driver.conversation("c", ""))
        request = one([event async for event in run], ApprovalRequested)
        with pytest.raises(UsageError):
            await driver.check(run.run_id, {request.call_id: Approve(arguments={"to": 1})})
        assert (await driver.store.posted(run.run_id)).decisions == {}

    complete(main)
    assert effects.seen == []


def test_a_run_that_waits_is_stopped() -> None:
    agent, effects = mailing(CallTool("send", {"to": "ada"}), store=MemoryStore())
    driver = AgentDriver(agent)

    async def main() -> None:
        run = driver.begin("Go", await driver.conversation("c", ""))
        assert isinstance([event async for event in run][-1], RunPaused)
        await driver.stop(run.run_id, "enough")
        assert (
            one([record.event for record in await driver.store.read(run.run_id)], RunStopped).reason
            == "enough"
        )

    complete(main)
    assert effects.seen == []
