"""``argstream watch``: a provider's stream → what the model is doing, while it does it."""

import json
import sys
from collections.abc import Iterable

from argstream.adapters import ProtocolName
from argstream.cli._input import UnreadableFile, chunks, complain
from argstream.cli._plain import PlainLines
from argstream.cli._rules import NO_RULES, Rules, read_rules
from argstream.errors import MissingExtra, UsageError
from argstream.events import Event, RunFailed, StreamFailed, ToolArgsInvalid, to_json
from argstream.sanitise import visible_line
from argstream.streaming import stream

__all__ = ["show_stream", "watch_stream"]


def watch_stream(
    file: str,
    protocol: ProtocolName,
    *,
    as_json: bool,
    tools: str | None = None,
    policy: str | None = None,
) -> int:
    """Show a file, or standard input for "-", as it arrives.

    Returns the exit status: 0 if all is well, 1 if a call is not complete or the stream is broken,
    2 if it cannot be read, or the tools or the policy cannot.
    """
    try:
        return show_stream(
            chunks(file, "waiting for a provider's stream on standard input"),
            protocol,
            as_json=as_json,
            rules=read_rules(tools, policy),
        )
    except (UnreadableFile, UsageError, MissingExtra) as error:
        complain(visible_line(str(error)))
        return 2


def show_stream(
    source: Iterable[bytes], protocol: ProtocolName, *, as_json: bool, rules: Rules = NO_RULES
) -> int:
    """Show what arrives, for people or as JSON. Returns 0 if all is well, else 1."""
    lines = PlainLines(sys.stdout.write)
    incomplete = 0
    failures: list[str] = []
    try:
        for event in stream(source, protocol, rules.tools, rules.policy):
            if as_json:
                sys.stdout.write(_to_line(event))
            else:
                lines.show(event)
            sys.stdout.flush()
            if isinstance(event, ToolArgsInvalid):
                incomplete += 1
            elif isinstance(event, StreamFailed | RunFailed):
                failures.append(visible_line(event.message))
    finally:
        if not as_json:
            lines.end()
            sys.stdout.flush()
    if incomplete:
        failures.append(
            "1 call is not valid" if incomplete == 1 else f"{incomplete} calls are not valid"
        )
    for failure in failures:
        complain(failure)
    return 1 if failures else 0


def _to_line(event: Event) -> str:
    """Write printable ASCII only, so that nothing in the text can act on a terminal."""
    line = to_json(event).decode()
    return (line if line.isascii() and line.isprintable() else json.dumps(json.loads(line))) + "\n"
