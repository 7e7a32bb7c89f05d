"""``argstream replay run:ID``: the records of a run, played again at their times."""

import asyncio
from contextlib import aclosing
from typing import Final

from argstream.argument_views import ArgumentViews
from argstream.cli._columns import seconds_in_words
from argstream.cli._input import complain
from argstream.cli._shown import Shown
from argstream.cli._stores import find_run, opened
from argstream.errors import ArgstreamError
from argstream.events import RunResumed
from argstream.log import Record, to_json
from argstream.sanitise import visible_line
from argstream.terminal.spans import line

__all__ = ["replay_run"]

_LONGEST_BREAK: Final = 2.0  # seconds: it may have gone on the next day


def replay_run(name: str, place: str, factor: float, *, as_json: bool, follow: bool) -> int:
    """Play a run as it would be watched, so many times faster; as JSON, its records.

    Returns the exit status: 0 if all is well, 1 if a call is not complete or something has failed,
    2 if it cannot be read.
    """
    try:
        with Shown(as_json=as_json) as shown:
            asyncio.run(_play(name, place, _Player(shown, factor), follow=follow))
    except ArgstreamError as error:
        complain(visible_line(str(error)))
        return 2
    return shown.status()


async def _play(name: str, place: str, player: "_Player", *, follow: bool) -> None:
    async with opened(place) as store:
        info = await find_run(store, name)
        async with aclosing(store.follow(info.run_id)) as records:
            async for record in records:
                if record.seq <= info.seq:  # what comes later comes when it comes
                    await player.wait_for(record)
                player.show(record)
                if record.seq >= info.seq and not follow:
                    break


class _Player:
    """Shows records when it is time."""

    def __init__(self, shown: Shown, factor: float) -> None:
        self._shown = shown
        self._factor = factor
        self._views = ArgumentViews()
        self._last: float | None = None
        self._due = 0.0

    async def wait_for(self, record: Record) -> None:
        """Wait as long as it took from the record before it; not until a person has decided."""
        loop = asyncio.get_running_loop()
        if self._last is None:
            self._last, self._due = record.time, loop.time()
        gap = max(0.0, record.time - self._last)  # two machines may not have the same time
        self._last = record.time
        if isinstance(record.event, RunResumed) and gap > _LONGEST_BREAK:
            if self._shown.terminal is not None:
                self._shown.terminal.say(line(f"┄ {seconds_in_words(gap)} later"))
            gap = _LONGEST_BREAK
        self._due += gap / self._factor
        if (seconds := self._due - loop.time()) > 0:
            await asyncio.sleep(seconds)

    def show(self, record: Record) -> None:
        """Show what it says: a log leaves the views of arguments to who reads it."""
        if self._shown.terminal is None:
            self._shown.show(record.event, to_json(record))
            return
        for event in self._views.take(record.event):
            self._shown.show(event)
