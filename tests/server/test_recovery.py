"""Runs without a driver are found and continued, however many runs wait and whatever fails."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from argstream import Agent, Approve
from argstream import events as ev
from argstream.errors import StoreError
from argstream.models import CallTool, Reply, Say
from argstream.runs import MemoryStore, Record, RunInfo
from argstream.server import AgentServer
from tests.agent.following import only, send
from tests.server.talking import agent_for, eventually, talking

SENT_TO_ADA = [("send", {"to": "ada"})]
WRITING = Reply(Say("word " * 40), CallTool("write", {"path": "a.txt", "content": "line\n" * 40}))


async def approve(store: MemoryStore, run_id: str) -> None:
    [(call_id, digest)] = (await store.info(run_id)).pending.items()
    await store.decide(run_id, {call_id: Approve(digest=digest)})


def serve_until(agent: Agent, is_done: Callable[[list[RunInfo]], bool]) -> None:
    async def serve() -> None:
        store = agent.store
        assert store is not None
        async with (
            asyncio.timeout(50),
            AgentServer(agent, token=None, recovery_seconds=0.05),
        ):
            while not is_done(await store.runs()):
                await asyncio.sleep(0.02)

    asyncio.run(serve())


def paused_runs(agent: Agent, count: int) -> list[str]:
    async def run() -> list[str]:
        return [(await agent.run_async("Go")).run_id for _ in range(count)]

    return asyncio.run(run())


async def write_paused_run(store: MemoryStore, run_id: str, agent: str) -> None:
    events: list[ev.Event] = [ev.RunStarted(run_id, "Go"), ev.RunPaused(run_id, ())]
    records = [
        Record(seq, time.time(), run_id, f"talk {run_id}", agent, event)
        for seq, event in enumerate(events, 1)
    ]
    await store.create(records, "test", 60.0)


def test_decided_run_is_found_among_many_that_wait() -> None:
    store = MemoryStore()
    agent, effects = agent_for(send("ada"), "Sent.", store=store)
    [first] = paused_runs(agent, 1)

    async def add_others() -> None:
        for number in range(1_100):
            await write_paused_run(store, f"run {number}", agent.name)
        await approve(store, first)

    asyncio.run(add_others())
    serve_until(agent, lambda runs: any(info.status == "completed" for info in runs))
    assert effects.seen == SENT_TO_ADA


def test_run_that_its_process_left_continues_here() -> None:
    agent, _ = agent_for(WRITING, "Done.", delay=0.01, lease_seconds=1.0)

    async def leave() -> str:
        run = agent.run_stream("Go")

        async def follow() -> None:
            async for _ in run:
                pass

        task = asyncio.create_task(follow())
        await run.begun()
        task.cancel()
        await asyncio.wait([task])
        return run.run_id

    run_id = asyncio.run(leave())
    with talking(WRITING, "Done.", store=agent.store) as client:
        client.get("/healthz")
        client.until(run_id, "completed")
        events = client.events(run_id, "?after=0")
    assert len(only(events, ev.ToolCallCompleted)) == len(client.effects.seen) == 1
    assert "".join(event.text for event in only(events, ev.TextDelta)).endswith("Done.")


class FlakyStore(MemoryStore):
    """Fails once when runs are listed and once when a run is read, after ``fail()``."""

    def __init__(self) -> None:
        super().__init__()
        self._failures: list[Exception] = []

    def fail(self) -> None:
        self._failures = [StoreError("not now"), OSError("nor now")]

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        if after and len(self._failures) == 1:
            raise self._failures.pop()
        return await super().read(run_id, after, limit)

    async def runs(self, **wanted: Any) -> list[RunInfo]:
        if wanted and len(self._failures) > 1:
            raise self._failures.pop()
        return await super().runs(**wanted)


def test_requests_expire_although_the_store_failed_for_a_moment() -> None:
    store = FlakyStore()
    replies = (*[send("ada")] * 3, *["Late."] * 3)
    agent, effects = agent_for(*replies, store=store, approval_timeout=0.6)
    paused_runs(agent, 3)
    store.fail()
    serve_until(agent, lambda runs: all(info.status == "completed" for info in runs))
    assert effects.seen == []


def test_server_can_be_entered_again() -> None:
    agent, effects = agent_for(send("ada"), "Sent.")
    app = AgentServer(agent, token=None, hosts=None)

    def until(client: TestClient, status: str) -> Any:
        def shown() -> Any:
            info = client.get(f"/api/runs/{run_id}").json()
            return info if info["status"] == status else None

        return eventually(shown)

    with TestClient(app) as client:
        run_id = client.post("/api/runs", json={"message": "Go"}).json()["run"]
        until(client, "paused")
    assert TestClient(app).get("/healthz").status_code == 503
    with TestClient(app) as client:
        [request] = until(client, "paused")["pending"]
        decision = {request["call_id"]: {"decision": "approve", "digest": request["digest"]}}
        client.post(f"/api/runs/{run_id}/decisions", json={"decisions": decision})
        until(client, "completed")
        assert '"snapshot"' in client.get(f"/api/runs/{run_id}/events").text
    assert effects.seen == SENT_TO_ADA


def test_conversation_survives_a_clock_that_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    with talking("One.", "Two.", lambda request: f"{len(request.messages)} messages.") as client:
        client.run("First", "talk")
        monkeypatch.setattr(time, "time", lambda: real() - 3_600)
        client.run("Second", "talk")
        assert "5 messages." in str(client.events(client.run("Third", "talk")))


class BarrierStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self._barrier = asyncio.Barrier(2)

    async def create(self, *arguments: Any) -> Any:
        await self._barrier.wait()
        return await super().create(*arguments)


def asgi_client(agent: Agent, **options: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(AgentServer(agent, token=None, hosts=None, **options))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


def test_only_one_of_two_simultaneous_messages_starts_a_run() -> None:
    store = BarrierStore()
    one, other = (agent_for("word " * 200, store=store, delay=0.01)[0] for _ in range(2))

    async def both() -> list[int]:
        async with asgi_client(one) as first, asgi_client(other) as second:
            body = {"message": "Go", "conversation": "talk"}
            commands = (client.post("/api/runs", json=body) for client in (first, second))
            return sorted([answer.status_code for answer in await asyncio.gather(*commands)])

    assert asyncio.run(both()) == [201, 409]


def test_decision_at_the_moment_of_the_pause_is_not_missed() -> None:
    async def main() -> None:
        for turns in range(10):
            agent, effects = agent_for(send("ada"), "Sent.")
            assert agent.store is not None
            # Without recovery: a decision that is missed here is missed for good.
            async with asgi_client(agent, recovery_seconds=1_000) as client:
                run_id = (await client.post("/api/runs", json={"message": "Go"})).json()["run"]
                async for record in agent.store.follow(run_id):
                    if isinstance(record.event, ev.RunPaused):
                        break
                for _ in range(turns):
                    await asyncio.sleep(0)
                [(call_id, digest)] = (await agent.store.info(run_id)).pending.items()
                decisions = {call_id: {"decision": "approve", "digest": digest}}
                path = f"/api/runs/{run_id}/decisions"
                assert (await client.post(path, json={"decisions": decisions})).is_success
                async with asyncio.timeout(30):
                    async for _ in agent.store.follow(run_id):
                        pass
            assert effects.seen == SENT_TO_ADA

    asyncio.run(main())
