r"""The text of one argument, read by a tool while the model writes it.

::

    @tool
    async def write_file(path: str, content: Streamed[str]) -> str:
        draft = Path(path + ".part")
        try:
            with draft.open("w") as file:
                async for piece in content:      # in a sync tool: for piece in content
                    file.write(piece)
        except TextInterrupted:
            draft.unlink()                       # the model was cut off: undo
            raise
        draft.rename(path)                       # the loop has ended: so all of it is there
        return "written"

A loop over the text ends only if the text ended well and its call may stand. Otherwise it raises
``TextInterrupted``, at once and whatever has not been read yet; also at the next read of a tool
that was doing something else. Each loop begins at the beginning, as with a list, and ``read`` gives
all: to have read something before takes nothing away. A tool that is slower than the model gets
what has come meanwhile as one piece.
"""

import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic, TypeVar

import anyio.lowlevel
import anyio.to_thread

from argstream.errors import TextInterrupted, UsageError

__all__ = ["Streamed", "TextFeed"]

Text = TypeVar("Text", bound=str)


class TextFeed:
    """The writing end of a streamed text: for who runs the tool, in the event loop's thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._text = ""
        self._is_finished = False
        self._interruption: TextInterrupted | None = None
        self._wakers: list[anyio.Event] = []
        self._thread = threading.get_ident()

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
        """Say that the text is whole, and that its call may stand."""
        if not self.is_over:
            with self._changed:
                self._is_finished = True
                self._wake()

    def interrupt(self, interruption: TextInterrupted) -> None:
        """Say that it will not end well: whoever reads, now or later, gets this raised.

        After ``finish`` it still counts for who has not read to the end: it is to be undone.
        """
        with self._changed:
            if self._interruption is None:
                self._interruption = interruption
                self._wake()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return self._is_finished or self._interruption is not None

    @property
    def so_far(self) -> str:
        """What has come."""
        with self._changed:
            return self._text

    def require_intact(self) -> None:
        """Raise the interruption, if there was one."""
        if self._interruption is not None:
            raise self._interruption.with_traceback(None)

    def take(self, start: int) -> str | None:
        """Give what has come after so many characters.

        None: nothing yet. An empty text: it has ended well.
        """
        self.require_intact()
        with self._changed:
            taken = self._text[start:]
        return taken if taken or self._is_finished else None

    def take_or_block(self, start: int) -> str:
        """Give the same, and have this thread wait for it."""
        with self._changed:
            while (taken := self.take(start)) is None:
                _refuse_in_event_loop()
                self._changed.wait()
            return taken

    async def take_or_wait(self, start: int) -> str:
        """Give the same, and have this task wait for it."""
        if threading.get_ident() != self._thread:
            # A sync tool that runs an event loop of its own: nobody there could wake its tasks.
            return await anyio.to_thread.run_sync(self.take_or_block, start, abandon_on_cancel=True)
        while (taken := self.take(start)) is None:
            waker = anyio.Event()
            self._wakers.append(waker)
            await waker.wait()
        return taken

    def _wake(self) -> None:
        self._changed.notify_all()
        wakers, self._wakers = self._wakers, []
        for waker in wakers:
            waker.set()


class _Reading:
    """One loop over a text: how far it has come."""

    def __init__(self, feed: TextFeed) -> None:
        self._feed = feed
        self._position = 0

    def __iter__(self) -> "_Reading":
        return self

    def __next__(self) -> str:
        piece = self._feed.take_or_block(self._position)
        if not piece:
            raise StopIteration
        self._position += len(piece)
        return piece

    def __aiter__(self) -> "_Reading":
        return self

    async def __anext__(self) -> str:
        piece = await self._feed.take_or_wait(self._position)
        if not piece:
            raise StopAsyncIteration
        self._position += len(piece)
        return piece


class Streamed(Generic[Text]):
    """The reading end, which the tool is given: ``Streamed[str]``.

    It can be read by ``async for`` and ``await text.read()`` in an async tool, and by ``for`` and
    ``text.read_blocking()`` in a sync one.
    """

    def __init__(self, feed: TextFeed) -> None:
        self._feed = feed

    @classmethod
    def of(cls, *pieces: str) -> "Streamed[str]":
        """Make one whose text is there already: to call a tool by hand, in its tests for one."""
        feed = TextFeed()
        for piece in pieces:
            feed.add(piece)
        feed.finish()
        return Streamed(feed)

    def __aiter__(self) -> AsyncIterator[str]:
        return _Reading(self._feed)

    def __iter__(self) -> Iterator[str]:
        return _Reading(self._feed)

    async def read(self) -> str:
        """Wait until the text has ended well, and give all of it."""
        async for _ in self:
            pass
        return self.so_far

    def read_blocking(self) -> str:
        """Give the same, in a sync tool."""
        for _ in self:
            pass
        return self.so_far

    @property
    def so_far(self) -> str:
        """What has come, whatever will become of it."""
        return self._feed.so_far

    def __repr__(self) -> str:
        return f"<Streamed text, {len(self.so_far)} characters so far>"

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        """Tell pydantic, and so the model, that it is a string."""
        from pydantic_core import core_schema  # noqa: PLC0415 - an extra

        return core_schema.str_schema()


def _refuse_in_event_loop() -> None:
    """Refuse to block the thread that the text comes in: it never would."""
    try:
        anyio.lowlevel.current_token()
    except anyio.NoEventLoopError:
        return
    raise UsageError(
        "this would block the event loop: read a Streamed text with 'async for' in an async tool; "
        "a plain 'for' is for sync tools, which run in a thread"
    )
