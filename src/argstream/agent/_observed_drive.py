"""Observes a run: reads what its agent says, writes it down, and then tells it.

What follows from an event is decided in ``_observed``; here is all that waits. Reading goes on
while the store writes: what has come meanwhile is written at once after that. Nobody is told what
is not written, neither who follows the run nor who wants to know whether a call may run.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

import anyio
from anyio.abc import TaskGroup

from argstream.adapters import AGENTS, ProtocolName
from argstream.agent._observed import Answer, Observed
from argstream.agent._outbox import Outbox
from argstream.agent._questions import is_cancelled
from argstream.agent._run_log import RunLog
from argstream.clients import ModelRequest
from argstream.clients.iterating import as_model
from argstream.errors import ArgstreamError, RunTaken, StoreFailure, UsageError
from argstream.events import Event, RunFailed
from argstream.streaming import AsyncEventStream, stream

__all__ = ["Drive"]

_UNWRITTEN: Final = 1024
"""How many events may wait for the store, before reading waits."""
_GRACE: Final = 5.0
"""How long an agent may take to end, in seconds, after it was asked to."""
_LEAVING: Final = 5.0
"""How long it may take to write the end of a run that is cut off, in seconds."""

_inside: ContextVar[tuple["Drive", ...]] = ContextVar("argstream_observed_runs", default=())
"""The runs that whoever asks is a part of, as one who is asked in it."""

logger = logging.getLogger("argstream.agent")


class _Post(NamedTuple):
    """What is to be written, and what is to be done then."""

    events: list[Event]
    then: Callable[[], None] | None = None


class Drive:
    """One observed run, from its first event to its last."""

    def __init__(
        self, source: object, protocol: ProtocolName, observed: Observed, log: RunLog, prompt: str
    ) -> None:
        self.observed = observed
        self.log = log
        self.outbox = Outbox()
        self.tasks: TaskGroup
        self._source = source
        self._protocol = protocol
        self._prompt = prompt
        self._task: asyncio.Task[None] | None = None
        self._inbox: deque[_Post] = deque()
        self._bell = anyio.Event()  # there is something in it
        self._written = anyio.Event()  # for who waits for the store
        self._is_over = False  # its last event is in the log
        self._stopping = anyio.Event()
        self._reading = anyio.CancelScope()
        self._is_read = anyio.Event()
        self._error: BaseException | None = None  # to be raised when all events are told
        self.heeding: Callable[[], Awaitable[None]]

    @property
    def has_begun(self) -> bool:
        """Whether it was started."""
        return self._task is not None

    def start(self) -> None:
        """Begin, once. Needs a running event loop."""
        if self._task is None:
            self.tasks = anyio.create_task_group()
            self.post(self.observed.begin(self._prompt))
            self._task = asyncio.create_task(self._supervise())
