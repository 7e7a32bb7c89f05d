"""What a tool may know of the call that it is run for."""

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from typing import ClassVar, Literal

import anyio
import anyio.from_thread
import anyio.lowlevel

from argstream.errors import UsageError

__all__ = ["Room", "ToolContext", "encodable"]


class Room:
    """Waits for whoever follows to have room for more, or until that does not matter any more.

    In the event loop's thread.
    """

    def __init__(self, room: Callable[[], Awaitable[object]] | None) -> None:
        self._room = room
        self._waiting: set[anyio.CancelScope] = set()
        self._is_given_up = False

    async def wait(self) -> None:
        """Wait for room."""
        if self._room is None or self._is_given_up:
            return
        with anyio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                await self._room()
            finally:
                self._waiting.discard(scope)

    def give_up(self) -> None:
        """Let nobody wait, now or later."""
        self._is_given_up = True
        for scope in tuple(self._waiting):
            scope.cancel()


class ToolContext:
    """Of one call: who it is, whether its result is still wanted, and a way to say something.

    A parameter of a tool that is annotated with it receives it; no model sees that parameter. All
    of it may be used in any thread.
    """

    hidden_from_models: ClassVar[Literal[True]] = True

    def __init__(  # noqa: PLR0913, PLR0917 - once, by who runs tools
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
        self.name = name
        """The name of the tool."""
        self.idempotency_key = idempotency_key
        """The same whenever this call is run: what was done under it need not be done again."""
        self._emit = emit
        self._room = Room(room)
        self._thread = threading.get_ident()
        self._loop = _current_loop()
        self._is_cancelled = False
        self._is_over = False

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more: its time is up, or the run was stopped.

        For a tool that runs in a thread, which nobody can end from outside: it should look now and
        then, and return.
        """
        return self._is_cancelled

    def output(self, text: str) -> None:
        """Say something while the tool runs: it becomes a ``ToolOutputDelta``.

        From a thread, it waits until whoever follows the run has room for more. Once the tool is
        over, it is dropped.
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
            self._is_over = True  # there is nobody left to hear it

    async def wait_for_room(self) -> None:
        """Wait until whoever follows has room for more. For who runs the tool."""
        await anyio.lowlevel.checkpoint()
        await self._room.wait()

    def cancel(self) -> None:
        """Say that nobody waits any more. For who runs the tool."""
        self._is_cancelled = True
        self._room.give_up()

    def close(self) -> None:
        """Say that the tool is over: what is said from now on is dropped. For who runs the tool."""
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
    """Give a plain ``str`` that can be encoded: lone surrogates become U+FFFD (invariant 4)."""
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
