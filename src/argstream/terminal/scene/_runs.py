"""What is said of a run, its turns and its stream."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from argstream.events import (
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStopped,
    StreamFailed,
    TurnCompleted,
    TurnStarted,
    Usage,
)
from argstream.history import Message, TextPart
from argstream.sanitise import visible_line
from argstream.terminal.scene._results import result_lines
from argstream.terminal.scene._texts import text_span
from argstream.terminal.scene._wording import because
from argstream.terminal.spans import Line, Role, Span, Spans, line
from argstream.terminal.words import duration, token_counts

__all__ = [
    "RunFacts",
    "failure",
    "joined",
    "lost",
    "paused",
    "prompt",
    "resumed",
    "run_ended",
    "said_in",
    "turn_ended",
]

_PROMPT: Final[Spans] = (Span("> ", "prompt"),)
_NOTE: Final[Spans] = (Span("  "),)


class RunFacts(NamedTuple):
    """What is known of a run when it ends."""

    usage: Usage
    said: str
    """By the model, in its last turn."""
    failure: tuple[str, str] | None
    """Of the stream, if that was told: code and message."""
    took: float | None
    """Seconds; None if its beginning was not seen."""


def prompt(text: str) -> list[Line]:
    """Give what the person said."""
    return [
        Line((text_span(part, "prompt"),), _PROMPT, _PROMPT, "words") for part in text.split("\n")
    ]


def lost(event: TurnStarted) -> list[Line]:
    """Say that a turn begins again."""
    told = f"turn {event.turn} begins again, attempt {event.attempt}: what came of it is lost"
    return [_marked("▶ ", told, "warning")]


def turn_ended(event: TurnCompleted) -> list[Line]:
    """Say why the model stopped, and what it cost."""
    reason = visible_line(event.stop_reason or "no stop reason")
    if event.characters_read is not None:
        reason += f": not read further than {event.characters_read} characters"
    return [_marked("— ", reason + _cost(event.usage), "faint")]


def said_in(message: Message) -> str:
    """Give all that the model said in a turn."""
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


def failure(event: StreamFailed) -> list[Line]:
    """Say that nothing more comes from the provider."""
    again = "; it may be tried again" if event.retryable else ""
    told = f"the stream failed ({visible_line(event.code)}){because(event.message)}{again}"
    return [_marked("✗ ", told, "bad")]


def paused(event: RunPaused) -> list[Line]:
    """Say what the run waits for."""
    calls = ", ".join(visible_line(request.name) for request in event.pending)
    return [_marked("‖ ", f"paused, waits for a decision on {calls}", "warning")]


def resumed(event: RunResumed, names: Iterable[str]) -> list[Line]:
    """Say that the run goes on, and what is uncertain."""
    why = "after a crash" if event.cause == "crash" else "after a pause"
    calls = ", ".join(map(visible_line, names))
    told = f"goes on {why}" + (f"; cut off: {calls}" if calls else "")
    lines = [_marked("▶ ", told, "warning")]
    if event.note:
        lines += [
            Line((text_span(part, "faint"),), _NOTE, _NOTE, "words")
            for part in f"the model is told: {event.note}".split("\n")
        ]
    return lines


def run_ended(event: RunCompleted | RunFailed | RunStopped, run: RunFacts) -> list[Line]:
    """Say how the run ended, what it cost, and what it answers if nobody has seen that."""
    lines: list[Line] = []
    usage = run.usage if event.usage == Usage() else event.usage
    role: Role
    match event:
        case RunCompleted(result=result, stop_reason=reason):
            lines = _answer(result, run.said)
            told, role = f"done{f' ({visible_line(reason)})' if reason else ''}", "good"
        case RunFailed(code=code, message=message):
            because_of = "" if run.failure == (code, message) else because(message)
            told, role = f"failed ({visible_line(code)}){because_of}", "bad"
        case _:
            told, role = f"stopped{because(event.reason)}", "warning"
    took = "" if run.took is None else f" · {duration(run.took)}"
    spans = (Span(told, role), Span(f"{took}{_cost(usage)}", "faint"))
    return [*lines, line(*spans, margin=(Span("■ ", role),))]


def joined(snapshot: RunSnapshot) -> list[Line]:
    """Say that what follows was told before somebody came."""
    turn = f" in turn {snapshot.turns}" if snapshot.turns else ""
    return [_marked("┄ ", f"joined{turn}; first what came before", "faint")]


def _cost(usage: Usage) -> str:
    counts = token_counts(usage)
    return f" · {counts}" if counts else ""


def _marked(mark: str, told: str, role: Role) -> Line:
    return line(Span(told, role), margin=(Span(mark, role),))


def _answer(result: Any, said: str) -> list[Line]:
    if result is None or (isinstance(result, str) and result.strip() in ("", said.strip())):
        return []
    return result_lines(result)
