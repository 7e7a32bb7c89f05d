"""What all that can be closed, and all runs that can be followed, have in common."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Generator
from types import TracebackType
from typing import Any, Self

from argstream.agent.result import RunResult
from argstream.events import Event

__all__ = ["AsyncClosing", "FollowedRun"]


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
    """A run that is followed with ``async for``, or waited for with ``await``."""

    _kept: AsyncIterator[Event]

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[Event]: ...

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
