"""Events on their way to the output, for people or for programs; and what was wrong with them."""

import json
import sys

from argstream.cli._input import complain
from argstream.cli._plain import PlainLines
from argstream.events import Event, RunFailed, StreamFailed, ToolArgsInvalid
from argstream.sanitise import visible_line

__all__ = ["Shown"]


class Shown:
    """Shows events as they come."""

    def __init__(self) -> None:
        self._lines = PlainLines(sys.stdout.write)
        self._invalid = 0
        self._failures: list[str] = []

    def for_people(self, event: Event) -> None:
        """Write what an event says."""
        self._lines.show(event)
        self._note(event)

    def for_programs(self, event: Event, line: bytes) -> None:
        """Write the JSON for an event as printable ASCII, so that nothing acts on a terminal."""
        text = line.decode()
        is_plain = text.isascii() and text.isprintable()
        sys.stdout.write((text if is_plain else json.dumps(json.loads(text))) + "\n")
        self._note(event)

    def aside(self, text: str) -> None:
        """Write a line of our own among those for people."""
        self._lines.end()
        sys.stdout.write(text + "\n")

    def end(self) -> None:
        """End the last line."""
        self._lines.end()
        sys.stdout.flush()

    def status(self) -> int:
        """Complain about what was wrong; give the exit status: 0 if all is well, else 1."""
        failures = list(self._failures)
        if self._invalid:
            told = "1 call is" if self._invalid == 1 else f"{self._invalid} calls are"
            failures.append(f"{told} not valid")
        for failure in failures:
            complain(failure)
        return 1 if failures else 0

    def _note(self, event: Event) -> None:
        sys.stdout.flush()
        if isinstance(event, ToolArgsInvalid):
            self._invalid += 1
        elif isinstance(event, StreamFailed | RunFailed):
            self._failures.append(visible_line(event.message))
