"""Who speaks: the first agent, or one that a call has started."""

from collections.abc import Mapping
from typing import Final

from argstream.terminal.scene._call import Call
from argstream.terminal.spans import Line, Span, Spans, line, shown

__all__ = ["Speakers"]

_DEEPEST: Final = 4  # further to the right there would be no room


class Speakers:
    """Knows sub-agents by the calls that have started them."""

    def __init__(self, calls: Mapping[str, Call]) -> None:
        self._calls = calls

    def depth(self, speaker: str | None) -> int:
        """Say how many agents are above this one."""
        depth = 0
        while speaker is not None and depth < _DEEPEST:
            depth += 1
            call = self._calls.get(speaker)
            speaker = None if call is None else call.speaker
        return depth

    def announcement(self, speaker: str) -> Line:
        """Say that a sub-agent speaks from here on."""
        call = self._calls.get(speaker)
        if call is None:
            who: Spans = (shown(speaker, "tool"),)
        else:
            # Names may repeat: something must tell one from the other.
            own = () if call.title else (Span("  "), shown(speaker, "faint"))
            who = (*call.label, *own)
        return line(*who, margin=(Span("┄ sub-agent of ", "faint"),))
