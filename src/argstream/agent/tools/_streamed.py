r"""The text of one argument, read by a tool while the model writes it.

::

    @tool
    async def write_file(path: str, content: Streamed[str]) -> str:
        draft = Path(path + ".part")
        try:
            with draft.open("w") as file:
                async for piece in content:      # in a sync tool: for piece in content
                    file.write(piece)
        except TextInterruptedError:
            draft.unlink()                       # the model was cut off: undo
            raise
        draft.rename(path)                       # the loop has ended: so all of it is there
        return "written"

A loop over the text ends only if the text ended well and its call may stand. Otherwise it raises
``TextInterruptedError``, at once and whatever has not been read yet; also at the next read of a
tool that was doing something else. Each loop begins at the beginning, as with a list, and ``read``
gives all: to have read something before takes nothing away. A tool that is slower than the model
gets what has come meanwhile as one piece.
"""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any, ClassVar, Generic, Literal, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from argstream.errors import TextInterruptedError, UsageError

Text = TypeVar("Text", bound=str)


class TextFeed:
    """The writing end of a streamed text, used in the thread of the event loop."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._text = ""
        self._is_finished = False
        self._interruption: TextInterruptedError | None = None
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
        """Whether the text has ended, well or not."""
        return self._is_finished or self._interruption is not None

    @property
    def so_far(self) -> str:
        """The text so far."""
        with self._changed:
            return self._text

    def require_intact(self) -> None:
        """Raise the interruption, if there was one."""
        if self._interruption is not None:
            raise self._interruption.with_traceback(None)

    def take(self, start: int) -> str | None:
        """Return the text after ``start``: None if there is none yet, empty if it has ended."""
        self.require_intact()
        with self._changed:
            taken = self._text[start:]
        return taken if taken or self._is_finished else None

    def take_or_block(self, start: int) -> str:
        """Like ``take``, but block this thread until there is text."""
        with self._changed:
            while (taken := self.take(start)) is None:
                _refuse_in_event_loop()
                self._changed.wait()
            return taken

    async def take_or_wait(self, start: int) -> str:
        """Like ``take``, but await the text."""
        if threading.get_ident() != self._thread:
            # A sync tool that runs an event loop of its own: its tasks cannot be woken from here.
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
        """Make one from complete text, to call a tool by hand, for example in tests."""
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
        """Wait until the text has ended well, and return all of it."""
        async for _ in self:
            pass
        return self.so_far

    def read_blocking(self) -> str:
        """Like ``read``, in a sync tool."""
        for _ in self:
            pass
        return self.so_far

    @property
    def so_far(self) -> str:
        """The text so far, however it will end."""
        return self._feed.so_far

    def __repr__(self) -> str:
        return f"<Streamed text, {len(self.so_far)} characters so far>"

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        """Declare it as a string to pydantic, and so to the model."""
        from pydantic_core import core_schema

        return core_schema.str_schema()


def _refuse_in_event_loop() -> None:
    """Refuse to block the thread that the text arrives in."""
    try:
        anyio.lowlevel.current_token()
    except anyio.NoEventLoopError:
        return
    raise UsageError(
        "this would block the event loop: read a Streamed text with 'async for' in an async tool; "
        "a plain 'for' is for sync tools, which run in a thread"
    )


class _Room:
    """Waits for room at the consumer, or until that does not matter, in the loop's thread."""

    def __init__(self, room: Callable[[], Awaitable[object]] | None) -> None:
        self._room = room
        self._waiting: set[anyio.CancelScope] = set()
        self._is_given_up = False

    async def wait(self) -> None:
        if self._room is None or self._is_given_up:
            return
        with anyio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                await self._room()
            finally:
                self._waiting.discard(scope)

    def give_up(self) -> None:
        self._is_given_up = True
        for scope in tuple(self._waiting):
            scope.cancel()


class ToolContext:
    """The ID of a call, whether its result is still wanted, and a way to stream output.

    A parameter of a tool that is annotated with it receives it. Models do not see that parameter.
    It may be used in any thread.
    """

    hidden_from_models: ClassVar[Literal[True]] = True

    def __init__(  # noqa: PLR0917 - called once, by the driver
        self,
        run_id: str,
        call_id: str,
        name: str,
        idempotency_key: str,
        emit: Callable[[str], None],
        room: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self.run_id = run_id
        self.call_id = call_id
        self.name = name  # the name of the tool
        self.idempotency_key = idempotency_key
        """The same each time this call runs: what was done under it need not be done again."""
        self._emit = emit
        self._room = _Room(room)
        self._thread = threading.get_ident()
        self._loop = _current_loop()
        self._is_cancelled = False
        self._is_over = False

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
            raise UsageError(f"a tool says text: output() takes a str, not {type(text).__name__}")
        if not text or self._is_over:
            return
        text = encodable(text)
        if self._loop is None or threading.get_ident() == self._thread:
            self._emit(text)
            return
        try:
            anyio.from_thread.run(self._deliver, text, token=self._loop)
        except (anyio.RunFinishedError, CancelledError):
            self._is_over = True  # the event loop has ended

    async def wait_for_room(self) -> None:
        """Wait until the consumer has room for more. For the driver."""
        await anyio.lowlevel.checkpoint()
        await self._room.wait()

    def cancel(self) -> None:
        """Mark the result as not wanted any more. For the driver."""
        self._is_cancelled = True
        self._room.give_up()

    def close(self) -> None:
        """Drop further output, because the tool is over. For the driver."""
        self._is_over = True
        self._room.give_up()

    def __repr__(self) -> str:
        return f"<ToolContext of {self.name!r} {self.call_id}>"

    async def _deliver(self, text: str) -> None:
        if self._is_over:
            return
        self._emit(text)
        try:
            await self._room.wait()
        except anyio.get_cancelled_exc_class():
            return  # this task is the thread's alone: there is nothing else to end


def encodable(text: str) -> str:
    """Return a plain ``str`` in which lone surrogates are U+FFFD (invariant 4)."""
    text = str.__str__(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _current_loop() -> anyio.lowlevel.EventLoopToken | None:
    try:
        return anyio.lowlevel.current_token()
    except anyio.NoEventLoopError:
        return None
