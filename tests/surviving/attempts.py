"""A run that one process after the other drives, until it is over: some of them are killed."""

import asyncio
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from argstream.decisions import Approval, Approve
from argstream.errors import UnknownRun
from argstream.log import Record, Store
from tests.surviving.outside import Execution, Outside
from tests.surviving.parts import Part, Place
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
        return sum(passage.was_killed for passage in self.passages)

    @property
    def points(self) -> int:
        """How many points were passed, if nobody was killed."""
        endings = [self.outside.ending(passage.number) for passage in self.passages]
        return sum(ending.points for ending in endings if ending is not None)

    def __repr__(self) -> str:
        places = [self.outside.reached(passage.number) for passage in self.passages]
        return f"<Attempt at {self._directory}, killed: {[place for place in places if place]}>"

    def play(self, kills: Iterable[Kill] = (), *, decides_in_store: bool = True) -> None:
        """Have processes drive the run until it is over, or was never begun."""
        waiting = deque(kills)
        while not (self.passages and self._is_over()):
            number = len(self.passages) + 1
            assert number <= MOST_PROCESSES, "it does not end"
            before = self.passages[-1].after if self.passages else []
            knew_of_stop = self.outside.was_stopped
            decisions = self._decisions() if before else {}
            if decisions and decides_in_store:
                self._in_store(lambda store: store.decide(self.outside.run_id, decisions))
                decisions = {}
            was_killed = self._drive(number, decisions, waiting, is_new=not before)
            after = self._read_log()
            executed = self.outside.executed
            self.passages.append(
                Passage(number, before, after, executed, was_killed, knew_of_stop)
            )

    def _drive(
        self,
        number: int,
        decisions: dict[str, Approval],
        kills: "deque[Kill]",
        *,
        is_new: bool,
    ) -> bool:
        """Have one process drive the run; say whether it was killed."""
        kill = kills[0] if kills else None
        code = self._zygote.play(
            Part(
                directory=str(self._directory),
                number=number,
                place=self._place,
                story=self._story,
                run_id="" if is_new else self.outside.run_id,
                decisions=decisions,
                wait=PATIENCE,
                at=kill if isinstance(kill, int) else None,
                lives=kill if isinstance(kill, float) else None,
            )
        )
        assert code in (0, -signal.SIGKILL), f"process {number} failed"
        if kill is not None:
            kills.popleft()
        if code == 0 and isinstance(kill, int):
            ending = self.outside.ending(number)
            assert ending is not None
            kills.appendleft(kill - ending.points)
        return code != 0

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

        return {call_id: Approve() for call_id in self._in_store(undecided)}

    def _read_log(self) -> list[Record]:
        async def read(store: Store) -> list[Record]:
            try:
                return await store.read(self.outside.run_id)
            except UnknownRun:
                assert await store.runs() == []
                return []

        return self._in_store(read)

    def _in_store(self, work: Callable[[Store], Awaitable[Answer]]) -> Answer:
        async def opened() -> Answer:
            store = self._place.open()
            try:
                return await work(store)
            finally:
                await store.aclose()

        return asyncio.run(opened())
