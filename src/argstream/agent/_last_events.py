"""Calls ``on_event`` with the last records of a paused run that was stopped without a consumer."""

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine, Iterable, Iterator
from contextlib import closing
from typing import Any

from argstream.agent._loop_thread import LoopThread
from argstream.agent._setting import EventHook
from argstream.log import Record

__all__ = ["LastEvents"]


class LastEvents:
    """Calls the hook for each record. From the first async call on, the rest run in a task."""

    def __init__(self, hook: EventHook | None) -> None:
        self._hook = hook
        self._tasks: set[asyncio.Task[None]] = set()  # so that nobody drops them

    def show(self, records: Iterable[Record]) -> None:
        """Call the hook with these."""
        if self._hook is None:
            return
        rest = iter(records)
        for record in rest:
            answer = self._hook(record)
            if inspect.isawaitable(answer):
                self.run(_shown(answer, rest, self._hook))
                return

    def run(self, showing: Coroutine[Any, Any, None]) -> None:
        """Have something done now, or soon if there is an event loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            with closing(LoopThread()) as own_loop:
                own_loop.wait_for(showing)
        else:  # the hook may belong to it, so it must not be blocked
            task = loop.create_task(showing)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _shown(first: Awaitable[None], rest: Iterator[Record], hook: EventHook) -> None:
    await first
    for record in rest:
        answer = hook(record)
        if inspect.isawaitable(answer):
            await answer
