"""What a tool may know of the call that it is run for."""

import threading
from collections.abc import Callable
from typing import ClassVar, Literal

import anyio.from_thread
import anyio.lowlevel

from argstream.errors import UsageError

__all__ = ["ToolContext", "encodable"]


class ToolContext:
    """Of one call: who it is, whether its result is still wanted, and a way to say something.

    A parameter of a tool that is annotated with it receives it; no model sees that parameter. All
    of it may be used in any thread.
    """

    hidden_from_models: ClassVar[Literal[True]] = True

    def __init__(
        self,
        run_id: str,
        call_id: str,
        name: str,
        idempotency_key: str,
        emit: Callable[[str], None],
    ) -> None:
        self.run_id = run_id
        self.call_id = call_id
        self.name = name
        """The name of the tool."""
        self.idempotency_key = idempotency_key
        """The same whenever this call is run: what was done under it need not be done again."""
        self._emit = emit
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

        Once the tool is over, it is dropped.
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
            # It waits until the loop has taken it, so a quick tool cannot flood a slow reader.
            anyio.from_thread.run_sync(self._deliver, text, token=self._loop)
        except anyio.RunFinishedError:
            self._is_over = True  # there is nobody left to hear it

    def cancel(self) -> None:
        """Say that nobody waits any more. For who runs the tool."""
        self._is_cancelled = True

    def close(self) -> None:
        """Say that the tool is over: what is said from now on is dropped. For who runs the tool."""
        self._is_over = True

    def __repr__(self) -> str:
        return f"<ToolContext of {self.name!r} {self.call_id}>"

    def _deliver(self, text: str) -> None:
        if not self._is_over:
            self._emit(text)


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
