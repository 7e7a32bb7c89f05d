"""Runs that nobody drives are found, however many there are and whatever fails meanwhile."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from argstream import Agent, Approve
from argstream.errors import StoreFailure
from argstream.events import RunPaused
from argstream.runs import MemoryStore, Record, RunInfo
from argstream.server import AgentServer
from tests.agent.following import send
from tests.server.talking import agent_for, served


def paused(agent: Agent, count: int) -> list[str]:
    """Have runs wait for a person."""

    async def run() -> list[str]:
        return [(await agent.run_async("Go")).run_id for _ in range(count)]

    return asyncio.run(run())


def looking(agent: Agent, is_done: Callable[[list[RunInfo]], bool], seconds: float = 8.0) -> None:
    """Serve until something is so."""

    async def serve() -> None:
        store = agent.store
        assert store is not None
        end = time.monotonic() + seconds
        async with AgentServer(agent, token=None, look_out_seconds=0.05):
            while not is_done(await store.runs()):
                assert time.monotonic() < end, [info.status for info in await store.runs()]
                await asyncio.sleep(0.02)

    asyncio.run(serve())


@pytest.mark.bulk
def test_what_was_decided_and_left_is_found_among_many_that_wait() -> None:
    store = MemoryStore()
    agent, effects = agent_for(*[send("ada")] * 1_100, "Sent.", store=store)
    first, *_ = paused(agent, 1_100)

    async def decide() -> None:
        info = await store.info(first)
        [(call_id, digest)] = info.pending.items()
        await store.decide(first, {call_id: Approve(digest=digest)})

    asyncio.run(decide())
    looking(agent, lambda runs: any(info.status == "completed" for info in runs))
    assert effects.seen == [("send", {"to": "ada"})]


class Flaky(MemoryStore):
    """Fails the first times that somebody looks for runs, and looks at one."""

    def __init__(self) -> None:
        super().__init__()
        self._failures: list[Exception] = []

    def fail(self) -> None:
        self._failures = [StoreFailure("not now"), OSError("nor now")]

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        if after and len(self._failures) == 1:
            raise self._failures.pop()
        return await super().read(run_id, after, limit)

    async def runs(self, **wanted: Any) -> list[RunInfo]:
        if wanted and len(self._failures) > 1:
            raise self._failures.pop()
        return await super().runs(**wanted)


def test_requests_expire_though_the_store_failed_for_a_moment() -> None:
    store = Flaky()
    agent, effects = agent_for(
        *[send("ada")] * 3, *["Late."] * 3, store=store, approval_timeout=0.6
    )
    paused(agent, 3)
    store.fail()
    looking(agent, lambda runs: all(info.status == "completed" for info in runs))
    assert effects.seen == []


def test_it_can_be_entered_again_after_its_end() -> None:
    agent, effects = agent_for(send("ada"), "Sent.")
    app = AgentServer(agent, token=None, hosts=None)
    headers = {"content-type": "application/json"}
    with TestClient(app) as client:
        run_id = client.post("/api/runs", json={"message": "Go"}).json()["run"]
        _until(client, run_id, "paused")
    assert TestClient(app).get("/healthz", headers=headers).status_code == 503
    with TestClient(app) as client:
        [request] = client.get(f"/api/runs/{run_id}").json()["pending"]
        decision = {request["call_id"]: {"decision": "approve", "digest": request["digest"]}}
        client.post(f"/api/runs/{run_id}/decisions", json={"decisions": decision})
        _until(client, run_id, "completed")
        assert '"run_snapshot"' in client.get(f"/api/runs/{run_id}/events").text
    assert effects.seen == [("send", {"to": "ada"})]


def _until(client: TestClient, run_id: str, status: str) -> None:
    end = time.monotonic() + 8
    while client.get(f"/api/runs/{run_id}").json()["status"] != status:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_clock_that_goes_back_loses_nothing_that_was_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, _ = agent_for("One.", "Two.", lambda request: f"{len(request.messages)} messages.")
    real = time.time
    with served(agent) as client:
        client.until(client.start("First", "talk"), "completed")
        monkeypatch.setattr(time, "time", lambda: real() - 3_600)
        client.until(client.start("Second", "talk"), "completed")
        third = client.start("Third", "talk")
        client.until(third, "completed")
        assert "5 messages." in str(client.events(third))


def test_of_two_messages_at_once_in_two_processes_one_begins_a_run() -> None:
    store = _Together(2)
    one, _ = agent_for("word " * 200, store=store, delay=0.01)
    other, _ = agent_for("word " * 200, store=store, delay=0.01)

    async def both() -> Sequence[int]:
        async with _asgi(one) as first, _asgi(other) as second:
            body = {"message": "Go", "conversation": "talk"}
            answers = await asyncio.gather(
                first.post("/api/runs", json=body), second.post("/api/runs", json=body)
            )
            return sorted(answer.status_code for answer in answers)

    assert asyncio.run(both()) == [201, 409]


class _Together(MemoryStore):
    """Lets several begin at the same moment."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._barrier = asyncio.Barrier(count)

    async def begin(self, *arguments: Any) -> Any:
        await self._barrier.wait()
        return await super().begin(*arguments)


def _asgi(agent: Agent, **options: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(AgentServer(agent, token=None, hosts=None, **options))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


def test_a_decision_in_the_very_moment_of_the_pause_is_followed() -> None:
    async def main() -> None:
        for delay in range(30):
            agent, effects = agent_for(send("ada"), "Sent.")
            assert agent.store is not None
            # No recovery: what is missed here is missed for good.
            async with _asgi(agent, look_out_seconds=1_000) as client:
                run_id = (await client.post("/api/runs", json={"message": "Go"})).json()["run"]
                async for record in agent.store.follow(run_id):
                    if isinstance(record.event, RunPaused):
                        break
                for _ in range(delay % 10):
                    await asyncio.sleep(0)
                [(call_id, digest)] = (await agent.store.info(run_id)).pending.items()
                decisions = {call_id: {"decision": "approve", "digest": digest}}
                path = f"/api/runs/{run_id}/decisions"
                assert (await client.post(path, json={"decisions": decisions})).is_success
                async with asyncio.timeout(5):
                    async for _ in agent.store.follow(run_id):
                        pass
            assert effects.seen == [("send", {"to": "ada"})]

    asyncio.run(main())
