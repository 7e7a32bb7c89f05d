"""What processes leave outside of themselves: lines in files, there as soon as they are written.

A process that is killed can say nothing more. What it had said, and what its tools had done, is
counted here.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from argstream.agent import ToolContext
from argstream.events import Event
from argstream.history import Message

Line = TypeVar("Line")


class Execution(Struct, frozen=True):
    """That a tool did what it does."""

    run_id: str
    call_id: str
    name: str
    key: str
    """Its idempotency key."""
    process: int


class Ending(Struct, frozen=True):
    """How a process ended that was not killed."""

    outcome: str
    """Of the run, as far as this process drove it; or the error that it got."""
    points: int
    """How many points it has passed at which it might have been killed."""
    messages: tuple[Message, ...] = ()
    """The conversation, if the run is over."""
    user: str = ""
    """Whose that is."""


class Outside:
    """The files of one run, whichever processes drive it."""

    def __init__(self, directory: Path, number: int = 0) -> None:
        self._directory = directory
        self._number = number  # of the process

    # In a process that may be killed

    def begin(self, run_id: str) -> None:
        self._add("run", run_id)

    def tell(self, event: Event) -> None:
        self._add(f"told-{self._number}", event)

    def execute(self, context: ToolContext) -> None:
        call = (context.run_id, context.call_id, context.name, context.idempotency_key)
        self._add("executed", Execution(*call, os.getpid()))

    def ask(self, messages: Sequence[Message]) -> None:
        self._add("asked", messages)

    def stop(self) -> None:
        self._add("stopped", self._number)

    def decide(self, call_id: str) -> None:
        self._add("decided", call_id)

    def end(self, ending: Ending) -> None:
        self._add(f"ended-{self._number}", ending)

    def reach(self, point: str) -> None:
        self._add(f"reached-{self._number}", point)

    # In the test

    @property
    def run_id(self) -> str:
        """The run; none if its process was killed before there was one."""
        return "".join(self._read("run", str))

    def told(self, number: int) -> list[Event]:
        """What the follower of a process was told."""
        return self._read(f"told-{number}", Event)

    @property
    def executed(self) -> list[Execution]:
        """What tools did, in all processes."""
        return self._read("executed", Execution)

    @property
    def asked(self) -> list[tuple[Message, ...]]:
        """What the model was asked, in all processes."""
        return self._read("asked", tuple[Message, ...])

    @property
    def was_stopped(self) -> bool:
        """Whether somebody asked for the end of the run, and was told that it is written down."""
        return bool(self._read("stopped", int))

    @property
    def decided(self) -> list[str]:
        """The calls on which somebody has decided, and was told that it is written down."""
        return self._read("decided", str)

    def ending(self, number: int) -> Ending | None:
        """How a process ended; None if it was killed."""
        found = self._read(f"ended-{number}", Ending)
        return found[0] if found else None

    def reached(self, number: int) -> str:
        """Where a process was killed, in words."""
        return "; ".join(self._read(f"reached-{number}", str))

    def _add(self, name: str, line: object) -> None:
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
