"""Clients that do not read: what they cost is bounded, and nobody else feels it.

A thousand of them, in a process of its own: ``benchmarks/server_load.py``.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from argstream import Agent
from argstream.events import RunSnapshot, SeenText
from argstream.models import Reply, Say, ScriptedModel
from argstream.server import AgentServer, Limits, Serving
from tests.server.stalling import Stalled
from tests.server.talking import Client, folded, served

pytestmark = pytest.mark.bulk

SIZE = 3_000_000
TEXT = "".join(f"{number:09d} " for number in range(SIZE // 10))


@contextmanager
def long_run(seconds: float) -> Iterator[tuple[Client, str]]:
    """Serve a run that says some megabytes; who does not read is cut off after some seconds."""
    reply = Reply(Say(TEXT), piece_size=2_000)
    agent = Agent(ScriptedModel(reply, delay=0.001), store="memory:")
    with served(agent, limits=Limits(stalled_seconds=seconds)) as client:
        yield client, client.start()


def texts(snapshot: RunSnapshot) -> list[str]:
    return [block.text for block in snapshot.blocks if isinstance(block, SeenText)]


@contextmanager
def stalled(client: Client, run_id: str, count: int) -> Iterator[list[Stalled]]:
    clients = [Stalled(str(client.http.base_url), run_id) for _ in range(count)]
    try:
        yield clients
    finally:
        for one in clients:
            one.close()


def test_others_see_all_of_it_and_those_who_stay_away_are_cut_off() -> None:
    with long_run(0.5) as (client, run_id), stalled(client, run_id, 20) as clients:
        seen = folded(client.events(run_id))
        assert texts(seen) == [TEXT]
        assert all(one.is_dropped(5.0) for one in clients)


def test_no_more_waits_for_them_than_a_buffer_holds() -> None:
    agent = Agent(ScriptedModel(Reply(Say(TEXT), piece_size=2_000), delay=0.001), store="memory:")
    with (
        Serving(AgentServer(agent, token=None)) as serving,
        httpx.Client(base_url=serving.url, timeout=10) as http,
    ):
        client = Client(http)
        run_id = client.start()
        with stalled(client, run_id, 20):
            client.events(run_id)
            waiting = [
                connection.transport.get_write_buffer_size()
                for connection in list(serving._server.server_state.connections)
            ]
        assert sum(size > 0 for size in waiting) >= 20
        assert max(waiting) < 100_000
