"""Events on their way to the output, for people or for programs; and what was wrong with them."""

import json
import sys
from typing import Self

from argstream.cli._input import complain
from argstream.events import (
    Event,
    PolicyDecision,
    RunFailed,
    StreamFailed,
    ToolArgsCompleted,
    ToolArgsInvalid,
    to_json,
)
from argstream.sanitise import visible_line
from argstream.terminal import LiveTerminal, Looks, open_terminal
from argstream.terminal.spans import line as line_of

__all__ = ["Shown"]


class Shown:
    """Shows events as they come: to a person, or as JSON, one a line."""

    def __init__(self, looks: Looks | None = None, *, as_json: bool) -> None:
        self.terminal = None if as_json else open_terminal(looks)
        """Where people see them; None if programs read them."""
        self._invalid = 0
        self._failures: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.terminal is not None:
            self.terminal.close()
        else:
            sys.stdout.flush()

    def show(self, event: Event, line: bytes | None = None) -> None:
        """Show an event; programs are given the line, if that is another one than the event's."""
        if self.terminal is not None:
            self.terminal.show(event)
            if isinstance(event, ToolArgsCompleted) and event.policy_decision is not None:
                self._show_approval(event.name, event.policy_decision)
        else:
            _write(to_json(event) if line is None else line)
        self._note(event)

    def status(self) -> int:
        """Complain about what was wrong; give the exit status: 0 if all is well, else 1."""
        failures = list(self._failures)
        if self._invalid:
            told = "1 call is" if self._invalid == 1 else f"{self._invalid} calls are"
            failures.append(f"{told} not valid")
        if not isinstance(self.terminal, LiveTerminal):  # which has said it where it happened
            for failure in failures:
                complain(failure)
        return 1 if failures else 0

    def _show_approval(self, name: str, decision: PolicyDecision) -> None:
        if self.terminal is not None and decision.action == "ask":
            by = "" if decision.rule is None else f" (rule {decision.rule})"
            text = f"  ? {name} needs approval by the policy{by}: {decision.reason}"
            self.terminal.say(line_of(text))

    def _note(self, event: Event) -> None:
        if isinstance(event, ToolArgsInvalid):
            self._invalid += 1
        elif isinstance(event, StreamFailed | RunFailed):
            self._failures.append(visible_line(event.message))


def _write(line: bytes) -> None:
    """Write JSON as printable ASCII, so that nothing acts on a terminal."""
    text = line.decode()
    is_plain = text.isascii() and text.isprintable()
    sys.stdout.write((text if is_plain else json.dumps(json.loads(text))) + "\n")
    sys.stdout.flush()
