"""Runs that one process after the other drives until they are over. Some processes are killed."""

import asyncio
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

from msgspec import Struct

from argstream import Approve
from argstream.agent import Agent, Approval
from argstream.history import Message
from argstream.models import ScriptedModel
from argstream.runs import Record, Store
from tests.cli.processes import fork_server
from tests.runs.redis_server import new_prefix, shared_cluster, shared_server
from tests.surviving.worker import USER, Execution, Part, Place, Traces, play

MOST_PROCESSES = 8
WORKERS = 4

Answer = TypeVar("Answer")
# When to kill: at a point, counted over all processes since the last kill, or, as a float, after
# so many seconds of the next process.
Kill = int | float

# An attempt runs in a process without threads, which forks those that are killed.
_fork = multiprocessing.get_context("fork")


@contextmanager
def process_pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(WORKERS, fork_server()) as pool:
        yield pool


class Passage(Struct, frozen=True):
    """What one process did: the log before and after it."""

    number: int
    before: list[Record]
    after: list[Record]
    executed: list[Execution]  # by all processes so far
    was_killed: bool
    knew_of_stop: bool  # whether a stop was acknowledged before it began


class Attempt:
    """Plays a story, with kills."""

    def __init__(self, place: Place, directory: Path, story: str) -> None:
        self.traces = Traces(directory)
        self.passages: list[Passage] = []
        self._place = place
        self._directory = directory
        self._story = story

    @property
    def log(self) -> list[Record]:
        """The log as the last process left it."""
        return self.passages[-1].after if self.passages else []

    @property
    def kills(self) -> int:
        return sum(passage.was_killed for passage in self.passages)

    @property
    def points(self) -> list[str]:
        """The points at which processes were killed or suspended."""
        points = [self.traces.reached(number) for number in range(1, MOST_PROCESSES + 1)]
        return [point for point in points if point]

    @contextmanager
    def described_in_errors(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            error.add_note(f"in {self._directory}, killed {self.points}")
            raise

    def play(self, kills: Iterable[Kill] = (), *, decides_in_store: bool = True) -> None:
        """Start processes until the run is over, or until one was killed before it began."""
        waiting = deque(kills)
        while not (self.passages and self._is_over()):
            number = len(self.passages) + 1
            assert number <= MOST_PROCESSES, "the run does not end"
            knew_of_stop = self.traces.was_stopped
            decisions = self._decisions() if self.passages else {}
            if decisions and decides_in_store:
                self._decide(decisions)
                decisions = {}
            was_killed = self._drive(number, decisions, waiting)
            self._add_passage(number, was_killed=was_killed, knew_of_stop=knew_of_stop)

    def suspend(self, point: int) -> None:
        """Suspend a process at a point until others have ended its run, then continue it.

        Do nothing if the run had not begun at the point, or was over before it.
        """
        process = self._start(1, at=point, signal=signal.SIGSTOP)
        while not (self.traces.reached(1) or self.traces.ending(1)):
            time.sleep(0.005)
        try:
            if self.traces.reached(1) and self.traces.shown(1):
                self._add_passage(1, was_killed=True)
                self.play()
        finally:
            if self.traces.reached(1):
                os.kill(process.pid, signal.SIGCONT)
            process.join()
            assert process.exitcode == 0, f"exit {process.exitcode}"

    def _drive(self, number: int, decisions: dict[str, Approval], kills: "deque[Kill]") -> bool:
        """Run one process. Return True if it was killed."""
        kill = kills.popleft() if kills else None
        at, seconds = (kill, None) if isinstance(kill, int) else (None, kill)
        process = self._start(number, decisions=decisions, at=at)
        process.join(seconds)
        if seconds is not None:
            process.kill()
            process.join()
        assert process.exitcode in (0, -signal.SIGKILL), f"process {number}: {process.exitcode}"
        if process.exitcode == 0 and at is not None:
            ending = self.traces.ending(number)
            assert ending is not None
            kills.appendleft(at - ending.points)
        return bool(process.exitcode)

    def _start(self, number: int, **more: Any) -> Any:
        part = Part(
            directory=self._directory,
            number=number,
            place=self._place,
            story=self._story,
            run_id=self.traces.run_id if self.passages else "",
            wait=20.0,
            **more,
        )
        process = _fork.Process(target=play, args=(part,))
        process.start()
        return process

    def _add_passage(self, number: int, *, was_killed: bool, knew_of_stop: bool = False) -> None:
        log, executed = self.read_log(), self.traces.executed
        passage = Passage(number, self.log, log, executed, was_killed, knew_of_stop)
        self.passages.append(passage)

    def _is_over(self) -> bool:
        if not self.log:
            return True  # killed before the run began
        info = self._with_store(lambda store: store.info(self.traces.run_id))
        assert info.seq == self.log[-1].seq
        return info.is_over

    def _decisions(self) -> dict[str, Approval]:
        """Approve all calls without a decision."""
        run_id = self.traces.run_id

        async def undecided(store: Store) -> list[str]:
            commands = await store.commands(run_id)
            info = await store.info(run_id)
            return [call_id for call_id in info.pending if call_id not in commands.decisions]

        calls = self._with_store(undecided)
        assert not set(calls) & set(self.traces.decided), "an acknowledged decision is lost"
        return {call_id: Approve() for call_id in calls}

    def _decide(self, decisions: dict[str, Approval]) -> None:
        self._with_store(lambda store: store.decide(self.traces.run_id, decisions))
        for call_id in decisions:
            self.traces.add("decided", call_id)

    def read_log(self) -> list[Record]:
        async def read(store: Store) -> list[Record]:
            return await store.read(self.traces.run_id) if await store.runs() else []

        return self._with_store(read)

    def messages(self) -> tuple[Message, ...]:
        """Return the conversation as another process reads it from the store."""

        async def load(store: Store) -> tuple[Message, ...]:
            agent = Agent(ScriptedModel("."), store=store)
            return (await agent.conversation(self.log[-1].conversation_id, user=USER)).messages

        return self._with_store(load)

    def _with_store(self, work: Callable[[Store], Awaitable[Answer]]) -> Answer:
        async def opened() -> Answer:
            store = self._place.open()
            try:
                return await work(store)
            finally:
                await store.aclose()

        return asyncio.run(opened())


def survive(attempt: Attempt, kills: Sequence[Kill]) -> Attempt:
    with attempt.described_in_errors():
        attempt.play(kills, decides_in_store=sum(map(int, kills)) % 4 < 2)
    return attempt


def take_over(attempt: Attempt, points: Sequence[int]) -> Attempt:
    with attempt.described_in_errors():
        attempt.suspend(points[0])
    return attempt


def lose_node(attempt: Attempt, pid: int, seconds: float) -> Attempt:
    """Play a story while the store loses a node, the process ``pid``, after so many seconds."""

    def lose() -> None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)

    with attempt.described_in_errors():
        loss = _fork.Process(target=lose)
        loss.start()
        attempt.play()
        loss.join()
    return attempt


class Attempts:
    """Plays one story many times, each with other kills, several at once."""

    def __init__(self, pool: ProcessPoolExecutor, kind: str, story: str, directory: Path) -> None:
        self._pool = pool
        self._kind = kind
        self._story = story
        self._directory = directory

    def play(
        self,
        kills: Sequence[Sequence[Any]],
        check: Callable[[Attempt], None],
        way: Callable[[Attempt, Sequence[Any]], Attempt] = survive,
    ) -> list[Attempt]:
        """Make and check an attempt for each of these."""
        new = [self._new("-".join(map(str, one))) for one in kills]
        made = list(self._pool.map(way, new, kills))
        for attempt in made:
            with attempt.described_in_errors():
                check(attempt)
        return made

    def play_every(self, points: range, *more: Any) -> int:
        """Make and check an attempt for each of these points that exist. Return how far it got."""
        kills = 0
        for first in range(0, len(points), WORKERS):
            made = self.play([[point] for point in points[first : first + WORKERS]], *more)
            kills += sum(attempt.kills for attempt in made)
            if not any(attempt.points for attempt in made):
                break
        return kills * points.step

    def _new(self, name: str) -> Attempt:
        directory = Path(mkdtemp(prefix=f"{name}-", dir=self._directory))
        match self._kind:
            case "sqlite":
                place = Place(f"{directory}/runs.db")
            case "redis":
                place = Place(shared_server().url, new_prefix())
            case _:
                place = Place(shared_cluster().url, new_prefix())
        return Attempt(place, directory, self._story)
