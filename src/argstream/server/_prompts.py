"""What runs were asked, in short, for lists of them: read from the log once, and kept."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from argstream.errors import StoreFailure, UnknownRun
from argstream.events import RunStarted
from argstream.log import RunInfo, Store

__all__ = ["Prompts"]

_CHARACTERS: Final = 200
_KEPT: Final = 5_000
_AT_ONCE: Final = 16
"""How many logs are read at once: their first records may hold a long history."""
_UNREADABLE_SECONDS: Final = 60.0
"""How long a log that cannot be read is left alone: pages ask for lists every few seconds."""

V = TypeVar("V")
logger = logging.getLogger("argstream.server")


class Prompts:
    """The first characters of the messages that runs began with."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._unreadable: OrderedDict[str, float] = OrderedDict()  # and when it is tried again

    async def of(self, runs: Sequence[RunInfo]) -> list[str]:
        """Give those of runs; "" for one whose log cannot be read, which must not hide the rest."""
        known = {info.run_id: self._known(info) for info in runs}
        unknown = [run_id for run_id, prompt in known.items() if prompt is None]
        for start in range(0, len(unknown), _AT_ONCE):
            some = unknown[start : start + _AT_ONCE]
            known.update(zip(some, await asyncio.gather(*map(self._read, some)), strict=True))
        return [known[info.run_id] or "" for info in runs]

    def keep(self, run_id: str, prompt: str) -> str:
        """Take what a run was asked, and give it in short."""
        self._unreadable.pop(run_id, None)
        short = prompt[:_CHARACTERS]
        _put(self._kept, run_id, short)
        return short

    def forget(self, run_id: str) -> None:
        """Forget what a run was asked."""
        self._kept.pop(run_id, None)
        self._unreadable.pop(run_id, None)

    def _known(self, info: RunInfo) -> str | None:
        if (kept := self._kept.get(info.run_id)) is not None:
            self._kept.move_to_end(info.run_id)
            return kept
        tried = self._clock() < self._unreadable.get(info.run_id, 0.0)
        return "" if tried or not info.seq else None  # or nothing is written yet

    async def _read(self, run_id: str) -> str:
        try:
            first = await self._store.read(run_id, limit=1)
        except UnknownRun:  # it was deleted meanwhile
            return ""
        except StoreFailure as error:
            self._give_up(run_id, str(error))
            return ""
        if first and isinstance(first[0].event, RunStarted):
            return self.keep(run_id, first[0].event.prompt)
        self._give_up(run_id, "its log does not begin with the start of a run")
        return ""

    def _give_up(self, run_id: str, why: str) -> None:
        """Leave a log alone for a while; that is told when it happens first."""
        if run_id not in self._unreadable:
            logger.warning("what the run %s was asked cannot be read: %s", run_id, why)
        _put(self._unreadable, run_id, self._clock() + _UNREADABLE_SECONDS)


def _put(kept: OrderedDict[str, V], run_id: str, value: V) -> None:
    """Keep a value as the newest; what was not asked for longest goes."""
    kept[run_id] = value
    kept.move_to_end(run_id)
    if len(kept) > _KEPT:
        kept.popitem(last=False)
