"""The log of a run that this process drives: its records, and the claim on it.

Nothing is acted on before it is written (invariant 11). While the store writes, what happens
meanwhile is collected, and written at once after that, merged.
"""

import asyncio
import os
import socket
import time
from collections.abc import AsyncGenerator, Coroutine, Sequence
from typing import Any, Final

import anyio

from argstream.decisions import Decisions
from argstream.errors import RunTaken
from argstream.events import Event
from argstream.log import Claim, Posts, Record, Store, is_stored, status_after

__all__ = ["RunLog", "RunPosition"]

_RENEWALS: Final = 3
"""How often a claim is renewed in the time for which it is good."""
_ANSWER: Final = 5.0
"""How long one who is cancelled waits for the answer to his claim, in seconds."""
_LOOK_AGAIN: Final = 0.05
"""How long one waits between two looks at a claim of somebody else, in seconds."""


class RunPosition:
    """Assigns ``seq`` and time to the next records of a run, with or without a store."""

    def __init__(self, run_id: str, session_id: str, agent: str) -> None:
        self.run_id = run_id
        self.session_id = session_id
        self.agent = agent
        self.seq = 0
        self.latest = 0.0  # the time of the last record; no record is older than the one before it

    def stamp(self, events: Sequence[Event]) -> list[Record]:
        """Return the events as the next records. Does not advance the position.

        An event that a log does not keep carries the ``seq`` of the record before it.
        """
        self.latest = max(time.time(), self.latest)
        seq, records = self.seq, []
        for event in events:
            if is_stored(event):
                seq += 1
            records.append(
                Record(seq, self.latest, self.run_id, self.session_id, self.agent, event)
            )
        return records

    def advance(self, records: Sequence[Record]) -> None:
        """Continue after these records."""
        if records:
            self.seq = records[-1].seq


class RunLog:
    """Writes the log of one run, for as long as the claim on it is ours."""

    def __init__(self, store: Store, position: RunPosition, seconds: float) -> None:
        self._store = store
        self._run_id = position.run_id
        self._position = position
        self._seconds = seconds  # for which a claim is good
        self._claim: Claim | None = None
        # An append may give up what a renewal would renew.
        self._one_at_a_time = anyio.Lock(fast_acquire=True)

    @property
    def has_begun(self) -> bool:
        """Whether anything of the run is in the store."""
        return self._position.seq > 0 or self._claim is not None

    async def take_up(self, wait: float) -> list[Record]:
        """Claim a run that is there, and read it; raises RunTaken if it is not free in time."""
        await self._claimed(wait)
        records = await self._store.read(self._run_id)
        self._position.advance(records)
        self._position.latest = records[-1].time
        self._position.session_id = records[-1].session_id
        return records

    async def _claimed(self, wait: float) -> Claim:
        end = anyio.current_time() + wait
        while True:
            try:
                return await self._surely(self._store.claim(self._run_id, _owner(), self._seconds))
            except RunTaken:
                if anyio.current_time() >= end:
                    raise
            await anyio.sleep(_LOOK_AGAIN)

    async def write(self, events: Sequence[Event]) -> list[Record]:
        """Write events and return their records, which are durable by then."""
        now, stamped = time.time(), self._position.stamp(events)
        records = [record for record in stamped if is_stored(record.event)]
        if not records:
            return stamped
        async with self._one_at_a_time:
            claim = await self._written(records)
            self._position.advance(records)
            if status_after(record.event for record in records) not in (None, "running"):
                self._claim = None  # it was given up with that
            elif time.time() - now > self._seconds:
                # This process was away for so long that others may have taken the run over, and
                # have said of what it was about to do that it was interrupted.
                await self._store.renew(claim, self._seconds)
        return stamped

    async def _written(self, records: list[Record]) -> Claim:
        if not self.has_begun:
            return await self._surely(self._store.begin(records, _owner(), self._seconds))
        claim = self._claim or await self._claimed_anew()
        await self._store.append(claim, records)
        return claim

    async def _surely(self, asking: Coroutine[Any, Any, Claim]) -> Claim:
        """Wait for a claim; who is cancelled meanwhile has it all the same, and can give it up."""
        task = asyncio.ensure_future(asking)
        task.add_done_callback(self._keep_claim)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task], timeout=_ANSWER)
            raise

    def _keep_claim(self, task: "asyncio.Future[Claim]") -> None:
        if not task.cancelled() and task.exception() is None:
            self._claim = task.result()

    async def keep(self) -> None:
        """Renew the claim while there is one; raises RunTaken if somebody else has the run."""
        while True:
            await anyio.sleep(self._seconds / _RENEWALS)
            async with self._one_at_a_time:
                if self._claim is not None:
                    await self._store.renew(self._claim, self._seconds)

    async def claim_anew(self) -> bool:
        """Claim a run again that had paused here; False if others have gone on with it."""
        try:
            await self._claimed_anew()
        except RunTaken:
            return False
        return True

    async def _claimed_anew(self) -> Claim:
        claim = await self._surely(self._store.claim(self._run_id, _owner(), self._seconds))
        if (await self._store.info(self._run_id)).seq != self._position.seq:
            await self.release()
            raise RunTaken(self._run_id, "", 0.0)
        return claim

    async def release(self) -> None:
        """Let others go on with the run."""
        if self._claim is not None:
            await self._store.release(self._claim)
            self._claim = None

    # What others say

    def posts(self) -> AsyncGenerator[Posts, None]:
        """Give what others have decided, and whether they want the run stopped."""
        return self._store.posts(self._run_id)

    async def posted(self) -> Posts:
        """Give what was posted while nobody drove the run."""
        return await self._store.posted(self._run_id)

    async def decide(self, decisions: Decisions) -> None:
        """Decide as anybody could: who is first counts."""
        await self._store.decide(self._run_id, decisions)

    async def stop(self, reason: str) -> None:
        """Ask for the end of the run as anybody could."""
        await self._store.stop(self._run_id, reason)

    async def reopen(self, call_id: str) -> None:
        """Take back a decision that cannot be used."""
        if self._claim is not None:
            await self._store.reopen(self._claim, call_id)


def _owner() -> str:
    """Say who drives a run here, so that a person can find him."""
    return f"{socket.gethostname()}, process {os.getpid()}"
