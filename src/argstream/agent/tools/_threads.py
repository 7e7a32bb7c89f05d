"""A thread for each sync tool that runs.

They belong to no pool: a tool that never ends takes no place from others. And they do not hold up
the end of the program, as anyio's worker threads would.
"""

import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

__all__ = ["run_in_thread"]

Result = TypeVar("Result")


async def run_in_thread(function: Callable[[], Result], name: str) -> Result:
    """Run a function in a thread of its own, with the context variables of here.

    Whoever is cancelled here does not wait for it: it runs on, and what comes of it is dropped.
    """
    work = _Work(function)
    threading.Thread(target=work.run, name=f"argstream: {name}", daemon=True).start()
    try:
        await work.done.wait()
    finally:
        work.is_wanted = False
    return work.outcome()


class _Work(Generic[Result]):
    def __init__(self, function: Callable[[], Result]) -> None:
        self._function = function
        self._variables = contextvars.copy_context()
        self._loop = anyio.lowlevel.current_token()
        self.done = anyio.Event()
        self.is_wanted = True
        self._results: list[Result] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._variables.run(_leave_event_loop)
            self._results.append(self._variables.run(self._function))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            self._error = error
        if self.is_wanted:
            self._tell()

    def outcome(self) -> Result:
        """Give what came of it, or raise it."""
        if self._error is None:
            return self._results[0]
        try:
            raise self._error
        finally:
            self._error = None  # it refers to this frame, and this frame to it

    def _tell(self) -> None:
        try:
            anyio.from_thread.run_sync(self.done.set, token=self._loop)
        except RuntimeError:
            self.is_wanted = False  # the loop has ended meanwhile


def _leave_event_loop() -> None:
    """Let the context variables of a thread not say that it runs an event loop."""
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:
        sniffio.current_async_library_cvar.set(None)
