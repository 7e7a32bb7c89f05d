"""A process that drives a run until it is over or paused, and that may be killed at any write.

The kill points are just before and just after each write: a statement to SQLite, a command to
Redis, and the side effect of a tool. They are counted over all threads of the process.
"""

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from redis.asyncio.connection import AbstractConnection

from argstream import Agent, Approve, Conversation, Streamed, ToolContext, tool
from argstream.agent import Approval, Run, Tool
from argstream.errors import RunBusyError, StoreError, UsageError
from argstream.events import ApprovalRequested, Event, ToolExecutionStarted
from argstream.history import Message, ResultPart
from argstream.models import CallTool, ModelRequest, Reply, Say, ScriptedModel, Think
from argstream.runs import RedisStore, SqliteStore, Store

LEASE_SECONDS: Final = 0.4
MOST_SECONDS: Final = 25  # then the system ends the process, so that nothing is left behind
PROMPT: Final = "Write to Ada, and tidy up"
USER: Final = "grace"
TEXT: Final = "Dear Ada, the report is done, and it is on your desk."
DONE: Final = "All of it is done."
IDEMPOTENT: Final = {"pay"}
STREAMED: Final = {"draft"}


class Place(Struct, frozen=True):
    """Where a run is stored: in a file, or on a server under a prefix."""

    where: str
    prefix: str = ""

    def open(self) -> Store:
        if self.prefix:
            return RedisStore(self.where, prefix=self.prefix)
        return SqliteStore(self.where)


class Part(Struct, frozen=True, kw_only=True):
    directory: Path  # of its traces
    number: int  # of the process, among those that drive the run
    place: Place
    story: str
    run_id: str = ""  # the run to resume. Without it, a new run begins
    decisions: dict[str, Approval] = {}
    wait: float = 0.0  # seconds to wait for the lease of another process to expire
    at: int | None = None  # the point at which the process sends itself the signal
    signal: int = signal.SIGKILL


class Execution(Struct, frozen=True):
    call_id: str
    name: str
    key: str  # the idempotency key
    process: int


class Ending(Struct, frozen=True):
    """How a process ended that was not killed."""

    outcome: str  # of the run as far as this process drove it, or the name of an error
    points: int  # how many kill points it has passed
    messages: tuple[Message, ...]
    user: str


class Traces:
    """Lines that the processes of one run append to files, so that they survive a kill."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, name: str, line: object) -> None:
        file = os.open(self._directory / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(file, msgspec.json.encode(line) + b"\n")
        finally:
            os.close(file)

    def _read(self, name: str, kind: Any) -> list[Any]:
        path = self._directory / name
        if not path.exists():
            return []
        return [msgspec.json.decode(line, type=kind) for line in path.read_bytes().splitlines()]

    @property
    def run_id(self) -> str:
        """The run, or "" if its process was killed before it began."""
        return "".join(self._read("run", str))

    def shown(self, number: int) -> list[Event]:
        """Return the events that the consumer in a process received."""
        return self._read(f"shown-{number}", Event)

    @property
    def executed(self) -> list[Execution]:
        return self._read("executed", Execution)

    @property
    def asked(self) -> list[tuple[Message, ...]]:
        """The messages of each request to the model."""
        return self._read("asked", tuple[Message, ...])

    @property
    def was_stopped(self) -> bool:
        """Whether a stop was acknowledged."""
        return bool(self._read("stopped", int))

    @property
    def decided(self) -> list[str]:
        """The calls whose decisions were acknowledged."""
        return self._read("decided", str)

    def ending(self, number: int) -> Ending | None:
        """Return how a process ended, or None if it was killed."""
        return next(iter(self._read(f"ended-{number}", Ending)), None)

    def reached(self, number: int) -> str:
        """Return the point at which a process sent itself a signal, or ""."""
        return "".join(self._read(f"reached-{number}", str))


class Points:
    """Counts kill points, and at one of them sends its own process a signal.

    A process that is only suspended must not hold locks that others need. So only points count
    then at which no file is locked and no tool runs.
    """

    def __init__(self, at: int | None, signal_: int, note: Callable[[str], None]) -> None:
        self.passed = 0
        self._at = at
        self._signal = signal_
        self._note = note
        self._lock = threading.Lock()

    def reach(self, point: str, *, is_at_rest: bool = False) -> None:
        if self._signal == signal.SIGSTOP and not is_at_rest:
            return
        with self._lock:
            self.passed += 1
            if self.passed == self._at:
                self._note(f"{self.passed}: {point}")
                # To this thread, so that it is stopped before it does anything else.
                signal.pthread_kill(threading.get_ident(), self._signal)


# Polling statements are no writes.
POLLING: Final = ("PRAGMA data_version", "SELECT run_id, created, seq, commands_version")
# Statements before and after which the store does not hold the file.
AROUND_TRANSACTIONS: Final = ("PRAGMA synchronous", "BEGIN IMMEDIATE", "COMMIT")


def add_points_to_sqlite(points: Points) -> None:
    class Watched(sqlite3.Connection):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._reads = False  # whether it is in a transaction that only reads
            # Called for each row of executemany.
            self.set_trace_callback(lambda sql: self._reach("before", sql))

        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            return self._watched(super().execute, sql, *args)

        def executemany(self, sql: str, *args: Any) -> sqlite3.Cursor:
            return self._watched(super().executemany, sql, *args)

        def _watched(
            self, execute: Callable[..., sqlite3.Cursor], sql: str, *args: Any
        ) -> sqlite3.Cursor:
            self._reads = sql == "BEGIN" or self._reads
            cursor = execute(sql, *args)
            self._reach("after", sql)
            self._reads = self._reads and sql not in ("COMMIT", "ROLLBACK")
            return cursor

        def _reach(self, when: str, sql: str) -> None:
            is_at_rest = sql.startswith(AROUND_TRANSACTIONS) and not self.in_transaction
            if not (self._reads or sql.startswith(POLLING)):
                points.reach(f"{when} {' '.join(sql.split())}"[:200], is_at_rest=is_at_rest)

    sqlite3.connect = partial(sqlite3.connect, factory=Watched)  # type: ignore[assignment]


def add_points_to_redis(points: Points) -> None:
    send = AbstractConnection.send_packed_command

    async def watched(
        self: AbstractConnection, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        data = b"".join(command) if isinstance(command, list) else command
        assert isinstance(data, bytes)
        words = data.split(b"\r\n")[2::2]
        text = b" ".join([words[0], words[-1]]).decode(errors="replace")[:200]
        points.reach(f"before {text}", is_at_rest=True)
        await send(self, command, check_health)
        points.reach(f"after {text}", is_at_rest=True)

    AbstractConnection.send_packed_command = watched  # type: ignore[method-assign]


# What happens in a run. The model has no memory: its reply follows from the results so far, so it
# does not matter which process asks, nor how often.


def tools(traces: Traces, points: Points) -> list[Tool]:
    def act(context: ToolContext) -> None:
        points.reach(f"before the side effect of {context.name}")
        call = (context.call_id, context.name, context.idempotency_key)
        traces.add("executed", Execution(*call, os.getpid()))
        points.reach(f"after the side effect of {context.name}")

    @tool(requires_confirmation=True)
    def send(to: str, text: str, context: ToolContext) -> str:
        act(context)
        return f"sent {len(text)} characters to {to}"

    @tool
    async def write(path: str, content: str, context: ToolContext) -> str:
        act(context)
        context.output("writing …")
        await asyncio.sleep(0.01)
        return f"wrote {len(content)} characters to {path}"

    @tool(idempotent=True)
    def pay(amount: int, context: ToolContext) -> str:
        act(context)
        return f"paid {amount}"

    @tool
    async def draft(path: str, content: Streamed[str], context: ToolContext) -> str:
        act(context)
        return f"drafted {len(await content.read())} characters in {path}"

    return [send, write, pay, draft]


def letters(results: int) -> Reply:
    """Two calls at once, one of which needs approval. Then one that is idempotent."""
    if results == 0:
        return Reply(
            Think("Ada waits for the report."),
            Say("I write to Ada, and tidy up."),
            CallTool("send", {"to": "ada@example.org", "text": TEXT}),
            CallTool("write", {"path": "report.txt", "content": "done, on " * 4}),
        )
    if results == 2:
        return Reply(Say("Now the bill."), CallTool("pay", {"amount": 12}))
    return Reply(DONE)


def drafts(results: int) -> Reply:
    """A tool that begins while its text is written, and another one beside it."""
    if results == 0:
        return Reply(
            Say("I draft it."),
            CallTool("draft", {"path": "report.txt", "content": TEXT * 2}),
            CallTool("write", {"path": "log.txt", "content": "drafted"}),
        )
    return Reply(DONE)


# In "decided", the consumer decides while the run goes on. In "stopped", it stops the run.
STORIES: Final = {"letters": letters, "decided": letters, "drafts": drafts, "stopped": letters}


def model(story: str, traces: Traces) -> ScriptedModel:
    def reply(request: ModelRequest) -> Reply:
        traces.add("asked", request.messages)
        parts = [part for message in request.messages for part in message.parts]
        return STORIES[story](sum(isinstance(part, ResultPart) for part in parts))

    return ScriptedModel(reply, piece_size=16, delay=0.001, repeat=True)


def play(part: Part) -> None:
    signal.alarm(MOST_SECONDS)
    asyncio.run(_play(part))


async def _play(part: Part) -> None:
    traces = Traces(part.directory)
    points = Points(part.at, part.signal, partial(traces.add, f"reached-{part.number}"))
    add_points_to_sqlite(points)
    add_points_to_redis(points)
    store = part.place.open()
    agent = Agent(
        model(part.story, traces), tools(traces, points), store=store, lease_seconds=LEASE_SECONDS
    )
    if part.run_id:
        run = agent.resume(part.run_id, part.decisions, wait=part.wait)
    else:
        run = agent.run_stream(PROMPT, Conversation(user=USER))
        traces.add("run", run.run_id)
    outcome = await _consume(run, part, store, traces)
    await store.aclose()
    ending = Ending(outcome, points.passed, run.result.messages, run.conversation.user)
    traces.add(f"ended-{part.number}", ending)


async def _consume(run: Run, part: Part, store: Store, traces: Traces) -> str:
    try:
        async for event in run:
            traces.add(f"shown-{part.number}", event)
            match part.story, event:
                case "stopped", ToolExecutionStarted() if (
                    part.number == 1 and not traces.was_stopped
                ):
                    await store.stop(run.run_id, "enough")
                    traces.add("stopped", part.number)
                case "decided", ApprovalRequested(call_id=call_id):
                    await store.decide(run.run_id, {call_id: Approve()})
                    traces.add("decided", call_id)
                case _:
                    pass
    except (RunBusyError, UsageError, StoreError) as error:
        # Only a process that was suspended may time out.
        if isinstance(error, StoreError) and part.signal == signal.SIGKILL:
            raise
        return type(error).__name__
    return run.result.outcome
