"""Clients that do not read: what they cost is bounded, and nobody else feels it.

A thousand of them, in a process of its own: ``benchmarks/server_load.py``.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from argstream import Agent
from argstream.clients import ScriptedModel
from argstream.clients.script import Reply, Say
from argstream.events import RunSnapshot, SeenText
from argstream.server import Limits
from tests.server.stalling import Stalled
from tests.server.talking import Client, folded, served
from tests.server.watching import frames_of

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


def test_one_that_reads_again_is_given_a_snapshot_and_the_rest() -> None:
    with long_run(30.0) as (client, run_id), stalled(client, run_id, 1) as [one]:
        seen = folded(client.events(run_id))
        events = [frame.event for frame in frames_of(one.rest())]
        assert folded(events) == seen
        assert sum(isinstance(event, RunSnapshot) for event in events) == 2
        assert len(events) < 1_000


@pytest.mark.timing
def test_what_they_cost_does_not_grow_with_the_run() -> None:
    with long_run(60.0) as (client, run_id):
        for _ in client.frames(run_id):
            break
        before = resident()
        with stalled(client, run_id, 60):
            client.events(run_id)
            time.sleep(0.2)
            assert resident() - before < 60 * 200_000 + 8 * SIZE


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
