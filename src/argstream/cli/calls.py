"""``argstream calls``: recorded streams → their tool calls, one JSON line each."""

import json
import sys

from msgspec import to_builtins

from argstream.adapters import ProtocolName
from argstream.assembly import Call
from argstream.cli._input import UnreadableFile, chunks, complain
from argstream.cli._rules import read_rules
from argstream.errors import MissingExtra, UsageError
from argstream.events import RunFailed, StreamFailed
from argstream.judging import Judge
from argstream.sanitise import visible_line
from argstream.streaming import make_judge, stream

__all__ = ["list_calls"]


def list_calls(
    files: list[str],
    protocol: ProtocolName,
    tools: str | None = None,
    policy: str | None = None,
) -> int:
    """Print the calls of each file. A file that cannot be read does not keep the others back.

    Returns the exit status: 0 if all is well, 1 if a call is not complete or a stream is broken, 2
    if a file cannot be read.
    """
    try:
        judge = make_judge(*read_rules(tools, policy), on_ask="report")
    except (UsageError, MissingExtra) as error:
        complain(visible_line(str(error)))
        return 2
    status = 0
    for file in files:
        try:
            status = max(status, _list_calls_of(file, protocol, judge))
        except UnreadableFile as error:
            complain(str(error))
            status = 2
    return status


def _list_calls_of(file: str, protocol: ProtocolName, judge: Judge | None) -> int:
    source = chunks(file, "waiting for a provider's stream on standard input")
    events = stream(source, protocol, judge=judge, stop_on="never")
    status = 0
    for event in events:
        if isinstance(event, StreamFailed | RunFailed):
            complain(f"{visible_line(file)}: {visible_line(event.message)}")
            status = 1
    for call in events.calls:
        sys.stdout.write(json.dumps(_line(file, call)) + "\n")
        if call.verdict != "complete":
            complain(f"{visible_line(file)}: the call {visible_line(call.id)} is {call.verdict}")
            status = 1
    sys.stdout.flush()
    return status


def _line(file: str, call: Call) -> dict[str, object]:
    line: dict[str, object] = {
        "file": file,
        "id": call.id,
        "name": call.name,
        "kind": call.kind,
        "verdict": call.verdict,
    }
    if call.reinterpreted is not None:
        line["reinterpreted"] = call.reinterpreted
    if call.verdict == "complete":
        line["arguments"] = call.arguments
    else:
        line["raw"] = call.raw
    if call.policy_decision is not None:
        line["policy_decision"] = to_builtins(call.policy_decision)
    if call.verdict == "rejected" and call.error is not None:
        line["error"] = call.error.message
    return line
