"""Snapshots of runs: a few folded views are kept, so that the next one folds only what is new."""

import asyncio
import threading
from collections import OrderedDict
from typing import Final
from weakref import WeakValueDictionary

from msgspec import Struct

from argstream.log import Record, RunInfo
from argstream.snapshots import RunView
from argstream.stores._batches import records_of
from argstream.stores._tails import PAGE, ReadPage

__all__ = ["Views"]

_KEPT: Final = 16


class _Folded(Struct):
    view: RunView
    created: float
    """Of the run: one that is given the name of another that was deleted is not that."""
    seq: int = 0
    time: float = 0.0


class Views:
    """Makes snapshots. May be used from any thread."""

    def __init__(self, read: ReadPage) -> None:
        self._read = read
        self._guard = threading.Lock()
        self._kept: OrderedDict[str, _Folded] = OrderedDict()
        self._turns: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()

    async def snapshot(self, info: RunInfo) -> Record:
        """Give a run as far as it has come, under the seq of its last record."""
        # One at a time in an event loop, so that of many who join at once only the first folds all.
        turn = self._turn(info.run_id)
        async with turn:
            folded = self._borrow(info)
            await self._go_on(folded, info.run_id)
            event = folded.view.snapshot()
            record = Record(
                folded.seq, folded.time, info.run_id, info.session_id, info.agent, event
            )
            self._give_back(info.run_id, folded)
            return record

    def forget(self, run_id: str) -> None:
        """Let go of what was kept of a run."""
        with self._guard:
            self._kept.pop(run_id, None)

    async def _go_on(self, folded: _Folded, run_id: str) -> None:
        is_more = True
        while is_more:
            lines, is_more = await self._read(run_id, folded.created, folded.seq, PAGE)
            for record in records_of(run_id, lines, folded.seq):
                folded.view.take(record.event)
                folded.seq, folded.time = record.seq, record.time
            if is_more:
                await asyncio.sleep(0)  # a long log must not hold up the others

    def _borrow(self, info: RunInfo) -> _Folded:
        """Take a view out, so that nobody in another thread folds into it."""
        with self._guard:
            folded = self._kept.pop(info.run_id, None)
        if folded is None or folded.created != info.created:
            folded = _Folded(RunView(), info.created)
        return folded

    def _give_back(self, run_id: str, folded: _Folded) -> None:
        with self._guard:
            self._kept[run_id] = folded
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)

    def _turn(self, run_id: str) -> asyncio.Lock:
        key = (run_id, id(asyncio.get_running_loop()))
        with self._guard:
            turn = self._turns.get(key)
            if turn is None:
                turn = self._turns[key] = asyncio.Lock()
            return turn
