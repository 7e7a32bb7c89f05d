"""The log of a run as it is, a line for each record: for who wants to know when each thing came."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from argstream.errors import UnknownRun
from argstream.log import Record, Store
from argstream.protocols.native import NativeEncoder
from argstream.server.channels import cut

__all__ = ["LogReading"]

_PAGE: Final = 100


class LogReading:
    """What ``EventStream`` sends of a log; who does not read has one page of it here."""

    def __init__(
        self, store: Store, run_id: str, encoder: NativeEncoder, *, after: int, until: int
    ) -> None:
        """Give the records after one, up to another; those before it are read, but not told."""
        self._store = store
        self._run_id = run_id
        self._encoder = encoder
        self._after = after
        self._until = until

    def close(self) -> None:
        """End it: nothing is open between two pages."""

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Give what to send."""
        seq = 0
        while seq < self._until and (records := await self._page(seq)):
            seq = records[-1].seq
            lines = [(record.seq, self._encoder.line(record)) for record in records]
            for piece in cut(b"".join(line for place, line in lines if place > self._after)):
                yield piece
                await asyncio.sleep(0)  # or it is sent on when nobody is there any more
            await asyncio.sleep(0)  # a long log must not hold up the others

    async def _page(self, seq: int) -> list[Record]:
        try:
            return await self._store.read(self._run_id, seq, min(_PAGE, self._until - seq))
        except UnknownRun:  # it was deleted meanwhile: there is no more of it
            return []
