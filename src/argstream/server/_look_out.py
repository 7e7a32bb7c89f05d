"""Looks for runs that were left: by a process that ended in the midst of one, or after a decision.

What is known of runs is in the store. Of several processes that find a run that was left, the claim
lets one go on with it.
"""

import asyncio
import logging
from typing import Final

from argstream.events import RunPaused
from argstream.log import RunInfo, Store
from argstream.server._driving import Driving, reported

__all__ = ["LookOut"]

_PAUSED_EACH: Final = 6
"""Of how many looks one is for runs that wait for a person as well."""

logger = logging.getLogger("argstream.server")


class LookOut:
    """A task that looks every so many seconds, for as long as its event loop runs."""

    def __init__(self, store: Store, driving: Driving, seconds: float) -> None:
        self._store = store
        self._driving = driving
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[str, int] = {}  # runs that wait for a person, and at which record

    def begin(self) -> None:
        """Begin to look, unless that goes on already."""
        task = self._task
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._task = asyncio.create_task(self._keep_looking())

    async def aclose(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait([task])

    async def _keep_looking(self) -> None:
        number = 0
        while True:
            try:
                await self._look_for_abandoned()
                if number % _PAUSED_EACH == 0:
                    await self._look_at_paused()
            except Exception as error:  # noqa: BLE001 - of the store, which may work again
                logger.warning("cannot look for runs that nobody drives: %s", error)
            number += 1
            await asyncio.sleep(self._seconds)

    async def _look_for_abandoned(self) -> None:
        for info in await self._store.runs(status="running"):
            if info.is_abandoned and self._driving.is_ours(info):
                logger.info("run %s: nobody drives it, so it goes on here", info.run_id)
                await reported(info.run_id, self._driving.go_on(info.run_id))

    async def _look_at_paused(self) -> None:
        paused = [
            info
            for info in await self._store.runs(status="paused")
            if self._driving.is_ours(info) and info.owner is None
        ]
        seen, self._seen = self._seen, {}
        for info in paused:
            if info.has_posts:
                await reported(info.run_id, self._driving.go_on(info.run_id))
            elif seen.get(info.run_id) == info.seq or await reported(
                info.run_id, self._expect(info)
            ):
                self._seen[info.run_id] = info.seq

    async def _expect(self, info: RunInfo) -> None:
        """Note when what a run waits for expires."""
        [last] = await self._store.read(info.run_id, info.seq - 1, 1)
        if isinstance(last.event, RunPaused):
            self._driving.expect(info.run_id, last.event.pending)
