"""The text of one argument, read by a tool while the model writes it.

A loop over the text ends only if the text is complete and its call is valid. Otherwise it raises
``TextInterruptedError``: at once if the tool waits for text, or at its next read. Each loop starts
at the beginning, as with a list, and ``read`` returns the whole text. A tool that is slower than
the model receives the text that arrived meanwhile as one piece.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic_core import core_schema

from argstream._asyncio import current_loop
from argstream.errors import TextInterruptedError, UsageError
from argstream.sanitise import replace_lone_surrogates

Text = TypeVar("Text", bound=str)


class TextFeed:
    """The writing end of a streamed text, used in the thread of the event loop."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._text = ""
        self._is_finished = False
        self._interruption: TextInterruptedError | None = None
        # A sync tool may read in an event loop of its own, in another thread.
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def add(self, piece: str) -> None:
        """Add what the model has written. After the end it changes nothing."""
        if piece and not self.is_over:
            with self._changed:
                # Appending is in place only while nothing else refers to the text, and, from
                # Python 3.13 on, only if it has a line to itself.
                text = self._text
                self._text = ""
                text += piece
                self._text = text
                self._wake()

    def finish(self) -> None:
        """Mark the text as complete and its call as valid."""
        if not self.is_over:
            with self._changed:
                self._is_finished = True
                self._wake()

    def interrupt(self, interruption: TextInterruptedError) -> None:
        """Raise this in all readers, now or later; after ``finish``, in those not at the end."""
        with self._changed:
            if self._interruption is None:
                self._interruption = interruption
                self._wake()

    @property
    def is_over(self) -> bool:
        return self._is_finished or self._interruption is not None

    @property
    def so_far(self) -> str:
        with self._changed:
            return self._text

    def require_intact(self) -> None:
        """Raise the interruption, if there was one."""
        if self._interruption is not None:
            raise self._interruption.with_traceback(None)

    def _read(self, start: int) -> str | None:
        self.require_intact()
        text = self._text[start:]
        return text if text or self._is_finished else None

    def read_blocking(self, start: int) -> str:
        """Return the text after ``start``, or block until there is some; empty if it has ended."""
        with self._changed:
            while (text := self._read(start)) is None:
                if current_loop() is not None:  # the text arrives in this thread
                    raise UsageError(
                        "this would block the event loop. Read a Streamed text with 'async for' in "
                        "an async tool; 'for' is for sync tools, which run in a thread"
                    )
                self._changed.wait()
            return text

    async def read(self, start: int) -> str:
        """Return the text after ``start``, or wait until there is some; empty if it has ended."""
        while True:
            with self._changed:
                if (text := self._read(start)) is not None:
                    return text
                changed = asyncio.Event()
                self._waiting.append((asyncio.get_running_loop(), changed))
            await changed.wait()

    def _wake(self) -> None:
        self._changed.notify_all()
        waiting, self._waiting = self._waiting, []
        here = current_loop()
        for loop, changed in waiting:
            if loop is here:
                changed.set()
            else:
                with suppress(RuntimeError):  # that loop is closed
                    loop.call_soon_threadsafe(changed.set)


class Streamed(Generic[Text]):
    """The reading end, which the tool receives: ``Streamed[str]``.

    It can be read by ``async for`` and ``await text.read()`` in an async tool, and by ``for`` and
    ``text.read_blocking()`` in a sync one.
    """

    def __init__(self, feed: TextFeed) -> None:
        self._feed = feed

    @classmethod
    def of(cls, *pieces: str) -> "Streamed[str]":
        """Make one from complete text, to call a tool by hand, for example in tests."""
        feed = TextFeed()
        for piece in pieces:
            feed.add(piece)
        feed.finish()
        return Streamed(feed)

    async def __aiter__(self) -> AsyncIterator[str]:
        position = 0
        while piece := await self._feed.read(position):
            position += len(piece)
            yield piece

    def __iter__(self) -> Iterator[str]:
        position = 0
        while piece := self._feed.read_blocking(position):
            position += len(piece)
            yield piece

    async def read(self) -> str:
        """Wait until the text has ended well, and return all of it."""
        return "".join([piece async for piece in self])

    def read_blocking(self) -> str:
        """Like ``read``, in a sync tool."""
        return "".join(self)

    @property
    def so_far(self) -> str:
        """The text so far, however it will end."""
        return self._feed.so_far

    def __repr__(self) -> str:
        return f"<Streamed text, {len(self.so_far)} characters so far>"

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        """Declare it as a string to pydantic, and so to the model."""
        return core_schema.str_schema()


@dataclass(eq=False, repr=False)
class ToolContext:
    """The ID of a call, whether its result is still wanted, and a way to stream output.

    A parameter of a tool that is annotated with it receives it. Models do not see that parameter.
    It may be used in any thread.
    """

    hidden_from_models: ClassVar[Literal[True]] = True

    run_id: str
    call_id: str
    name: str  # the name of the tool
    idempotency_key: str
    """The same each time this call runs: what was done under it need not be done again."""
    _emit: Callable[[str], None]
    _room: Callable[[], Awaitable[object]] | None = None
    _waiting: set[asyncio.Timeout] = field(default_factory=set, init=False)  # for room
    _loop: asyncio.AbstractEventLoop | None = field(default_factory=current_loop, init=False)
    _is_cancelled: bool = field(default=False, init=False)
    _is_over: bool = field(default=False, init=False)

    @property
    def cancelled(self) -> bool:
        """Whether the result is not wanted any more: after a timeout, or when the run was stopped.

        A thread cannot be ended from outside: a sync tool should check this now and then.
        """
        return self._is_cancelled

    def output(self, text: str) -> None:
        """Stream output while the tool runs, as a ``ToolOutputDelta``.

        In a thread, this waits until the consumer has room. It is dropped once the tool is over.
        """
        if not isinstance(text, str):
            raise UsageError(f"output() takes a str, not {type(text).__name__}")
        if not text or self._is_over:
            return
        text = replace_lone_surrogates(str.__str__(text))
        if self._loop is None or self._loop is current_loop():
            self._emit(text)
            return
        delivery = self._deliver(text)
        try:
            asyncio.run_coroutine_threadsafe(delivery, self._loop).result()
        except CancelledError:
            self._is_over = True  # the event loop is ending
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            delivery.close()
            self._is_over = True

    async def wait_for_room(self) -> None:
        """Wait until the consumer has room for more. For the driver."""
        await asyncio.sleep(0)
        if self._room is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(None) as waiting:
                    self._waiting.add(waiting)
                    try:
                        await self._room()
                    finally:
                        self._waiting.discard(waiting)

    def cancel(self) -> None:
        """Mark the result as not wanted any more. For the driver."""
        self._is_cancelled = True
        self._stop_waiting()

    def close(self) -> None:
        """Drop further output, because the tool is over. For the driver."""
        self._is_over = True
        self._stop_waiting()

    def __repr__(self) -> str:
        return f"<ToolContext of {self.name!r} {self.call_id}>"

    async def _deliver(self, text: str) -> None:
        if not self._is_over:
            self._emit(text)
            await self.wait_for_room()

    def _stop_waiting(self) -> None:
        self._room = None
        waiting, self._waiting = self._waiting, set()
        for one in waiting:
            one.reschedule(0)  # in the past, so it ends now
