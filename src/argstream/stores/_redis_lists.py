"""Which runs there are in Redis, and by what they are found.

All runs are in one index. What is asked for often has sets besides it: the runs of a conversation,
those of a user, those that are not over. So nobody looks at all runs to find a few. A run that the
server itself has forgotten is still in these, until somebody meets it there.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from argstream.errors import StoreFailure
from argstream.log import RunInfo
from argstream.stores._checks import Wanted
from argstream.stores._redis_calls import Calls
from argstream.stores._redis_keys import Keys, Whose
from argstream.stores._redis_runs import info_of

__all__ = ["Lists"]

logger = logging.getLogger("argstream.stores")

_LISTED: Final = 200
"""How many runs are looked at together."""


class Lists:
    """The lists of the runs of one store."""

    def __init__(self, calls: Calls, keys: Keys) -> None:
        self._calls = calls
        self._keys = keys
        self._knows_older = False  # whether those are in the sets that an older version began

    async def newest(self, wanted: Wanted, limit: int | None) -> list[RunInfo]:
        """Give the runs that are wanted, those with the newest records first."""
        sets = self._sets(wanted)
        if sets and not self._knows_older:
            await self._enlist_older()
        found: dict[str, RunInfo] = {}
        seen: set[bytes] = set()
        count = _LISTED
        while True:
            # From the first one on, each time: meanwhile others may have come to the front, or are
            # no more, and those behind them are elsewhere.
            _, names = await self._calls.run("newest", [self._keys.index, *sets], [str(count)])
            new = [name for name in names if name not in seen]
            seen.update(new)
            for some in _pages(new):
                for info in await self._infos(some):
                    if wanted.fits(info.status, info.session_id, info.user):
                        found[info.run_id] = info
                if limit is not None and len(found) >= limit:
                    break
            if len(names) < count or (limit is not None and len(found) >= limit):
                break
            count *= 2
        ordered = sorted(found.values(), key=lambda info: (info.updated, info.run_id))
        return ordered[::-1][:limit]

    def _sets(self, wanted: Wanted) -> list[bytes]:
        """Give the sets in which a run must be; there is none of those that are nobody's."""
        sets = [] if wanted.session_id is None else [self._keys.session(wanted.session_id)]
        sets += [self._keys.user(wanted.user)] if wanted.user else []
        return sets + ([self._keys.unfinished] if wanted.status in ("running", "paused") else [])

    async def whose(self, run_id: str) -> bytes:
        """Say whose a run is, as the lists have it; empty if they do not."""
        return (await self._all_whose([run_id]))[0]

    async def older_than(self, seconds: float) -> tuple[bytes, list[tuple[str, bytes]]]:
        """Give the runs whose last record is older, and whose they are; and till when that was."""
        arguments = [repr(float(seconds))]
        _, till, names = await self._calls.run("oldest", [self._keys.index], arguments)
        found: list[tuple[str, bytes]] = []
        for some in _pages(names):
            run_ids = self._listed(some)
            found += zip(run_ids, await self._all_whose(run_ids), strict=True)
        return till, found

    async def _all_whose(self, run_ids: Sequence[str]) -> list[bytes]:
        _, found = await self._calls.run("whose", [self._keys.whose], run_ids)
        return [value or b"" for value in found]

    async def _infos(self, names: Sequence[bytes]) -> list[RunInfo]:
        """Look at runs together; those that have expired are taken from the lists."""
        run_ids = self._listed(names)
        if not run_ids:
            return []
        keys = [self._keys.run(run_id) for run_id in run_ids]
        _, now, found = await self._calls.run("look", keys)
        infos, gone = [], []
        for run_id, fields in zip(run_ids, found, strict=True):
            if not fields:
                gone.append(run_id)
                continue
            try:
                infos.append(info_of(run_id, fields, float(now)))
            except StoreFailure as failure:
                logger.warning("%s; it is not listed", failure)  # but the others are
        if gone:
            await self._tidy(gone)
        return infos

    def _listed(self, names: Sequence[bytes]) -> list[str]:
        """Give the runs of names in the index, but for what something else put there."""
        run_ids = []
        for name in names:
            try:
                run_ids.append(name.decode())
            except UnicodeDecodeError:
                logger.warning("Redis has %r in %r, which is no run", name, self._keys.index)
        return run_ids

    async def _tidy(self, gone: Sequence[str]) -> None:
        keys = [self._keys.index, self._keys.unfinished, self._keys.whose]
        arguments: list[str | bytes] = []
        for run_id, told in zip(gone, await self._all_whose(gone), strict=True):
            whose = Whose.from_json(told) if told else Whose("", "")
            keys += [self._keys.run(run_id), self._keys.session(whose.session_id)]
            keys.append(self._keys.user(whose.user))
            arguments += [run_id, told]
        await self._calls.run("tidy", keys, arguments)

    async def _enlist_older(self) -> None:
        _, names = await self._calls.run("unlisted", [self._keys.index, self._keys.whose])
        for some in _pages(names):
            for info in await self._infos(some):
                whose = Whose(info.session_id, info.user)
                keys = [*self._keys.all_of(info.run_id), *self._keys.sets(whose)]
                told = whose.to_json()
                await self._calls.run("enlist", keys, [info.run_id, told, *whose])
        self._knows_older = True


def _pages(names: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(names), _LISTED):
        yield names[start : start + _LISTED]
