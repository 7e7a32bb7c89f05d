"""What is said of calls that a person decides on."""

from collections.abc import Mapping
from typing import Any, Final

from argstream.events import ApprovalDecided, ApprovalOutcome, ApprovalRequested
from argstream.sanitise import visible_line
from argstream.terminal.argument_changes import argument_changes
from argstream.terminal.looks import Looks
from argstream.terminal.scene._wording import because, clock
from argstream.terminal.spans import Line, Role, Span, Spans, line, shown

__all__ = ["asked", "decided"]

_UNDER: Final[Spans] = (Span("  "),)
_REST: Final[Spans] = (Span("    "),)
_OUTCOMES: Final[dict[ApprovalOutcome, tuple[str, Role, str]]] = {
    "approved": ("✓ ", "good", "is approved"),
    "edited": ("✓ ", "warning", "is approved with other arguments"),
    "denied": ("✗ ", "bad", "is denied"),
    "expired": ("✗ ", "bad", "is denied, since nobody decided in time"),
    "withdrawn": ("✗ ", "warning", "is withdrawn: there is nothing left to decide"),
}
_REMEMBERED: Final = {
    "session": "; later calls of this tool are, too",
    "rule": "; what this rule asks about later is, too",
}


def asked(event: ApprovalRequested, looks: Looks) -> list[Line]:
    """Say what is to be decided, why it is asked, and the arguments to the last character."""
    what = (shown(event.name, "tool"), Span(" must be approved", "prompt"))
    reason = Span(because(event.reason))
    lines = [Line((*what, reason), (Span("? ", "prompt"),), _REST, "words")]
    if event.rule is not None:
        lines.append(line(Span(f"rule: {visible_line(event.rule)}"), margin=_UNDER))
    if event.expires_at is not None:
        lines.append(line(Span(f"until: {clock(event.expires_at)}"), margin=_UNDER))
    return lines + looks.whole(event.name, event.arguments, call_id=event.call_id)


def decided(event: ApprovalDecided, before: Mapping[str, Any] | str | None) -> list[Line]:
    """Say what was decided; if the arguments were changed, what runs instead."""
    mark, role, what = _OUTCOMES[event.decision]
    more = "" if event.always is None else _REMEMBERED[event.always]
    told = Span(f" {what}{because(event.reason)}{more}", role)
    lines = [line(shown(event.name, "tool"), told, margin=(Span(mark, role),))]
    if event.edited_arguments is not None:
        written = before if isinstance(before, Mapping) else {}
        lines += argument_changes(written, event.edited_arguments)
    return lines
