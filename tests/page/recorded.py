"""Runs whose every time is known, as the log of the server tells them: one frame a line."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from argstream import events as ev
from argstream.history import Message
from argstream.protocols.native import NativeEncoder
from argstream.runs import Record, Store
from tests.page.looking import run_async

__all__ = ["RunScript", "frames_of", "records_of", "refusal"]

_BEGAN = 1_700_000_000.0
_PIECE = 12  # characters


class RunScript:
    """Writes a run: each method lets it go on, and ``now`` is how far it has come in seconds."""

    def __init__(self, prompt: str = "Do it") -> None:
        self.now = 0.0
        self.timed: list[tuple[float, ev.Event]] = []
        self._turns = 0
        self._blocks = 0
        self._calls = 0
        self._arguments: dict[str, dict[str, Any] | str] = {}
        self.tell(ev.RunStarted("run_1", prompt))

    def tell(self, *events: ev.Event, after: float = 0.0) -> None:
        """Let something happen."""
        self.now += after
        self.timed += [(self.now, event) for event in events]

    def turn(self, *, after: float = 0.0, attempt: int = 1) -> None:
        """Begin a turn; an attempt after the first begins the last one again."""
        self._turns += attempt == 1
        self.tell(ev.TurnStarted(self._turns, attempt), after=after)

    def end_turn(self, reason: str = "tool_use") -> None:
        """End it."""
        message = Message(role="assistant", parts=())
        self.tell(ev.TurnCompleted(reason, message, ev.Usage(100, 20)))

    def end(self) -> None:
        """End the run."""
        self.tell(ev.RunCompleted("Done.", ev.Usage(200, 40), "end_turn", "run_1"))

    def say(self, text: str, took: float, parent: str | None = None) -> None:
        """Say something."""
        block = self._next_block()
        pieces = _pieces(text)
        self.tell(ev.TextDelta(pieces[0], block, parent))
        for piece in pieces[1:]:
            self.tell(ev.TextDelta(piece, block, parent), after=took / (len(pieces) - 1))

    def think(self, text: str, took: float) -> None:
        """Think something."""
        block = self._next_block()
        self.tell(ev.ThinkingStarted(block))
        pieces = _pieces(text)
        for piece in pieces:
            self.tell(ev.ThinkingDelta(piece, block), after=took / len(pieces))
        self.tell(ev.ThinkingCompleted(text, block))

    def write(
        self,
        name: str,
        arguments: Mapping[str, Any] | str,
        took: float,
        *,
        kind: ev.CallKind = "function",
        parent: str | None = None,
        cut_after: int | None = None,
    ) -> str:
        """Write a call, at a steady pace; perhaps it is cut off after so many characters."""
        self._calls += 1
        call_id = f"call_{self._calls}"
        self.tell(ev.ToolCallStarted(call_id, self._calls - 1, name, kind, parent))
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
        pieces = _pieces(raw[:cut_after])
        for piece in pieces:
            self.tell(ev.ToolArgsDelta(call_id, name, piece), after=took / len(pieces))
        if cut_after is None:
            whole = arguments if isinstance(arguments, str) else dict(arguments)
            self._arguments[call_id] = whole
            self.tell(ev.ToolArgsCompleted(call_id, name, whole))
        else:
            error = ev.ArgumentsError("truncated", "the turn was cut off (length)")
            self.tell(ev.ToolArgsInvalid(call_id, name, "truncated", raw[:cut_after], error))
        return call_id

    def ask(self, call_id: str, name: str) -> ev.ApprovalRequested:
        """Ask a person, and pause."""
        arguments = self._arguments[call_id]
        assert isinstance(arguments, dict)
        request = ev.ApprovalRequested(call_id, name, arguments, "digest", "the policy asks")
        self.tell(request, ev.RunPaused("run_1", (request,)))
        return request

    def decide(
        self, call_id: str, name: str, *, after: float, decision: ev.ApprovalOutcome = "approved"
    ) -> None:
        """Decide, after so many seconds."""
        self.tell(ev.ApprovalDecided(call_id, name, decision), ev.RunResumed("run_1"), after=after)

    def run(self, call_id: str, name: str, took: float, result: Any = "done") -> None:
        """Run the tool."""
        self.tell(ev.ToolExecutionStarted(call_id, name, f"key_{call_id}"))
        arguments = self._arguments[call_id]
        self.tell(ev.ToolCallCompleted(call_id, name, arguments, result), after=took)

    def keep(self, store: Store) -> None:
        """Write it into a store, as if it had been driven."""
        records = records_of(self.timed)

        async def write() -> None:
            claim = await store.begin(records[:1], "test", 3_600.0)
            await store.append(claim, records[1:])

        run_async(write())

    def frames(self) -> list[dict[str, Any]]:
        """Give what the server's log would tell, as JSON has it."""
        return frames_of(self.timed)

    def _next_block(self) -> int:
        self._blocks += 1
        return self._blocks - 1


def records_of(timed: Iterable[tuple[float, ev.Event]]) -> list[Record]:
    """Make records of events and when they came, dated since 1970."""
    return [
        Record(seq, _BEGAN + at, "run_1", "conversation", "agent", event)
        for seq, (at, event) in enumerate(timed, 1)
    ]


def frames_of(timed: Iterable[tuple[float, ev.Event]]) -> list[dict[str, Any]]:
    """Make frames of events and when they came, as the log of the server has them."""
    encoder = NativeEncoder()
    return [json.loads(encoder.line(record)) for record in records_of(timed)]


def refusal(detail: str) -> dict[str, Any]:
    """Make an answer by which a server refuses: what ``Route.fulfill`` of playwright takes."""
    problem = {"type": "about:blank", "title": "Gone", "status": 410, "detail": detail}
    body = json.dumps(problem)
    return {"status": 410, "content_type": "application/problem+json", "body": body}


def _pieces(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)] or [""]
