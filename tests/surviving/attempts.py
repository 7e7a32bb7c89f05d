"""A run that one process after the other drives, until it is over: some of them are killed."""

import asyncio
import os
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from argstream import Approve
from argstream.agent import Agent, Approval, Decisions
from argstream.history import Message
from argstream.models import ScriptedModel
from argstream.runs import Record, Store
from tests.surviving.outside import Execution, Outside
from tests.surviving.parts import Part, Place
from tests.surviving.stories import USER
from tests.surviving.zygote import Zygote

PATIENCE = 20.0
"""How many seconds a process waits for the claim of one that was killed."""
MOST_PROCESSES = 8

Answer = TypeVar("Answer")
Kill = int | float
"""When to kill: at which point, counted over all processes since the last kill; or, as a float,
after how many seconds of the next process."""


class Passage(Struct, frozen=True):
    """What one process has done: it took the run from one log to another."""

    number: int
    before: list[Record]
    after: list[Record]
    executed: list[Execution]
    """What tools had done by its end, in all processes."""
    was_killed: bool
    knew_of_stop: bool
    """Whether the run was to be stopped before this process began."""


class Suspension(Struct, frozen=True):
    """How far a run had come when a process that had stopped was woken."""

    executed: list[Execution]
    log: list[Record]


class Attempt:
    """Plays a story, with kills."""

    def __init__(self, zygote: Zygote, place: Place, directory: Path, story: str) -> None:
        self.outside = Outside(directory)
        self.passages: list[Passage] = []
        self._zygote = zygote
        self._place = place
        self._directory = directory
        self._story = story

    @property
    def log(self) -> list[Record]:
        """All of it, as the last process left it."""
        return self.passages[-1].after

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return sum(passage.was_killed for passage in self.passages)

    def __repr__(self) -> str:
        places = [self.outside.reached(passage.number) for passage in self.passages]
        return f"<Attempt at {self._directory}, killed: {[place for place in places if place]}>"

    @contextmanager
    def told_with_errors(self) -> Iterator[None]:
        """Have an error say where the processes were killed, and where all of it can be seen."""
        try:
            yield
        except BaseException as error:
            error.add_note(f"{self!r}")
            raise

    def play(self, kills: Iterable[Kill] = (), *, decides_in_store: bool = True) -> None:
        """Have processes drive the run until it is over, or was never begun."""
        waiting = deque(kills)
        while not (self.passages and self._is_over()):
            number = len(self.passages) + 1
            assert number <= MOST_PROCESSES, "it does not end"
            knew_of_stop = self.outside.was_stopped
            decisions = self._decisions() if self.passages else {}
            if decisions and decides_in_store:
                self._decide(decisions)
                decisions = {}
            was_killed = self._drive(number, decisions, waiting)
            self._pass(number, was_killed=was_killed, knew_of_stop=knew_of_stop)

    def _pass(self, number: int, *, was_killed: bool, knew_of_stop: bool = False) -> None:
        """Take down what a process has left."""
        before = self.log if self.passages else []
        log, executed = self.read_log(), self.outside.executed
        self.passages.append(Passage(number, before, log, executed, was_killed, knew_of_stop))

    def suspend(self, point: int, other: Zygote) -> Suspension | None:
        """Have a process stop at a point, until processes of another zygote have ended the run.

        None if there was nothing to take over.
        """
        own = self._zygote
        process = own.start(self._part(1, at=point, signal=signal.SIGSTOP))
        while not (self.outside.reached(1) or self.outside.ending(1)):
            time.sleep(0.005)
        try:
            if not (self.outside.reached(1) and self.outside.told(1)):
                return None
            self._pass(1, was_killed=True)
            self._zygote = other
            self.play()
            return Suspension(self.outside.executed, self.log)
        finally:
            if self.outside.reached(1):
                os.kill(process, signal.SIGCONT)
            assert own.wait() == 0

    def _drive(self, number: int, decisions: dict[str, Approval], kills: "deque[Kill]") -> bool:
        """Have one process drive the run; say whether it was killed."""
        kill = kills.popleft() if kills else None
        at, lives = (kill, None) if isinstance(kill, int) else (None, kill)
        code = self._zygote.play(self._part(number, decisions=decisions, at=at, lives=lives))
        assert code in (0, -signal.SIGKILL), f"process {number} failed"
        if code == 0 and at is not None:
            ending = self.outside.ending(number)
            assert ending is not None
            kills.appendleft(at - ending.points)
        return code != 0

    def _part(self, number: int, **more: Any) -> Part:
        return Part(
            directory=str(self._directory),
            number=number,
            place=self._place,
            story=self._story,
            run_id=self.outside.run_id if self.passages else "",
            wait=PATIENCE,
            **more,
        )

    def _is_over(self) -> bool:
        if not self.log:
            return True  # it was killed before there was a run
        info = self._in_store(lambda store: store.info(self.outside.run_id))
        assert info.seq == self.log[-1].seq
        return info.is_over

    def _decisions(self) -> dict[str, Approval]:
        """Approve of what nobody has decided on."""
        run_id = self.outside.run_id

        async def undecided(store: Store) -> list[str]:
            posts = await store.posted(run_id)
            info = await store.info(run_id)
            return [call_id for call_id in info.pending if call_id not in posts.decisions]

        calls = self._in_store(undecided)
        assert not set(calls) & set(self.outside.decided), "a decision is not lost"
        return {call_id: Approve() for call_id in calls}

    def _decide(self, decisions: Decisions) -> None:
        self._in_store(lambda store: store.decide(self.outside.run_id, decisions))
        for call_id in decisions:
            self.outside.decide(call_id)

    def read_log(self) -> list[Record]:
        """Give what the log says now."""

        async def read(store: Store) -> list[Record]:
            if await store.runs():
                return await store.read(self.outside.run_id)
            return []

        return self._in_store(read)

    def messages(self) -> tuple[Message, ...]:
        """Give the conversation, as anybody can read it from the log."""
        session_id = self.log[-1].session_id

        async def found(store: Store) -> tuple[Message, ...]:
            agent = Agent(ScriptedModel("."), store=store)
            return (await agent.conversation(session_id, user=USER)).messages

        return self._in_store(found)

    def _in_store(self, work: Callable[[Store], Awaitable[Answer]]) -> Answer:
        async def opened() -> Answer:
            store = self._place.open()
            try:
                return await work(store)
            finally:
                await store.aclose()

        return asyncio.run(opened())
