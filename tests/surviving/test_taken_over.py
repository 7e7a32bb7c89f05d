"""Two processes cannot drive one run: not two that want it at once, nor one that has been away."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from pathlib import Path

import pytest

from argstream.agent import Conversation
from argstream.decisions import Approve
from argstream.log import Record
from tests.agent.histories import check_history
from tests.stores.test_racing import Racer
from tests.surviving.checks import check_executions, check_order, events_of
from tests.surviving.lanes import Lanes
from tests.surviving.outside import Outside
from tests.surviving.parts import Place
from tests.surviving.racing import racing_agent
from tests.surviving.stories import PROMPT
from tests.surviving.trials import IS_SOAK, Trials, place_in

STEP = 1 if IS_SOAK else 12
RACES = 300 if IS_SOAK else 10

pytestmark = pytest.mark.hypothesis  # so that `make soak` has all of it


def test_a_process_that_has_been_away_for_too_long_does_nothing_more(
    kind: str, lanes: Lanes, tmp_path: Path
) -> None:
    trials = Trials(lanes, kind, "letters", tmp_path)
    trials.take_over(STEP // 2 + 1, STEP)
    assert sum(trials.cut_off) * STEP >= 40


def test_of_two_processes_that_resume_a_run_one_drives_it(kind: str, tmp_path: Path) -> None:
    place = place_in(kind, tmp_path)
    outside = Outside(tmp_path)
    runs = asyncio.run(paused_runs(outside, place))
    with ExitStack() as stack:
        racers = [stack.enter_context(racer(place, tmp_path)) for _ in range(2)]
        for run, calls in runs.items():
            moment = time.time() + 0.002
            for one in racers:
                one.tell(run, moment, *calls)
            loser, winner = sorted(one.hear() for one in racers)
            assert winner == "completed"
            assert loser in ("RunTaken", "UsageError")
    for number, (run, log) in enumerate(asyncio.run(logs(place, runs)).items()):
        check_order(events_of(log))
        executed = [one for one in outside.executed if one.run_id == run]
        check_executions(events_of(log), executed)
        assert sorted(one.name for one in executed) == ["pay", "send", "write"]
        conversation = asyncio.run(conversation_of(outside, place, f"user {number}"))
        check_history(conversation.messages, is_over=True)
        assert conversation.run_id is None


async def paused_runs(outside: Outside, place: Place) -> dict[str, list[str]]:
    """Runs that wait for a decision, with the calls that are to be approved of by who resumes it.

    For every second one, that has been done.
    """
    runs: dict[str, list[str]] = {}
    async with aclosing(place.open()) as store:
        for number in range(RACES):
            conversation = Conversation(id="talk", user=f"user {number}")
            paused = await racing_agent(outside, store).run_async(PROMPT, conversation)
            calls = [request.call_id for request in paused.pending]
            if number % 2:
                await store.decide(paused.run_id, {call_id: Approve() for call_id in calls})
            runs[paused.run_id] = [] if number % 2 else calls
    return runs


async def logs(place: Place, runs: Iterable[str]) -> dict[str, list[Record]]:
    async with aclosing(place.open()) as store:
        return {run: await store.read(run) for run in runs}


async def conversation_of(outside: Outside, place: Place, user: str) -> Conversation:
    async with aclosing(place.open()) as store:
        return await racing_agent(outside, store).conversation("talk", user=user)


@contextmanager
def racer(place: Place, directory: Path) -> Iterator[Racer]:
    command = [sys.executable, "-m", "tests.surviving.racing", str(directory), place.where]
    with subprocess.Popen(
        [*command, *([place.prefix] if place.prefix else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        try:
            yield Racer(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(20)
