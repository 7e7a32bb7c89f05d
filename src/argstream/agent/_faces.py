"""Base classes of objects that can be closed, and of runs that can be iterated over."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from types import TracebackType
from typing import Any, Self, cast

from argstream.agent.result import RunResult
from argstream.events import Event
from argstream.log import Record

__all__ = ["AsyncClosing", "FollowedRun", "RunRecords"]


class AsyncClosing(ABC):
    """Is closed at the end of ``async with``."""

    @abstractmethod
    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class FollowedRun(AsyncClosing):
    """A run to iterate over with ``async for`` or ``for``, or to await."""

    _kept: AsyncIterator[Event]

    @abstractmethod
    def _iterate_async(self, *, records: bool) -> AsyncGenerator[Event | Record, None]: ...

    @abstractmethod
    def _iterate(self, *, records: bool) -> Iterator[Event | Record]: ...

    def __aiter__(self) -> AsyncGenerator[Event, None]:  # noqa: PYI058 - so that it can be closed
        """Iterate over the events. Dropping the iterator, by leaving a loop, stops the run."""
        return cast("AsyncGenerator[Event, None]", self._iterate_async(records=False))

    def __iter__(self) -> Iterator[Event]:
        """Iterate without an event loop. The run is driven by a loop of its own, in a thread."""
        return cast("Iterator[Event]", self._iterate(records=False))

    def records(self) -> "RunRecords":
        """Iterate over the same events as ``Record``s, with ``async for`` or ``for``.

        A record adds the run, the conversation, the agent, the time and ``seq``, the position in
        the run's log. With a store, ``Store.follow(run_id, after=seq)`` continues after a record.
        Argument events are not kept in a log: they carry the ``seq`` of the record that they were
        computed from.
        """
        return RunRecords(self)

    @abstractmethod
    def _outcome(self) -> RunResult: ...

    async def __anext__(self) -> Event:
        self._kept = aiter(self)  # it is held by who asks for one event after the other
        return await anext(self._kept)

    def __await__(self) -> Generator[Any, None, RunResult]:
        return self._wait().__await__()

    async def _wait(self) -> RunResult:
        async for _ in self:
            pass
        return self._outcome()


class RunRecords:
    """The records of a run, to iterate over once."""

    def __init__(self, run: FollowedRun) -> None:
        self._run = run

    def __aiter__(self) -> AsyncIterator[Record]:
        return cast("AsyncGenerator[Record, None]", self._run._iterate_async(records=True))  # noqa: SLF001 - one class in two parts

    def __iter__(self) -> Iterator[Record]:
        return cast("Iterator[Record]", self._run._iterate(records=True))  # noqa: SLF001 - as above
